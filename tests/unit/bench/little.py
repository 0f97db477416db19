"""A task so little that it can be played many times in a test: a trap, a repairable bug, three criteria."""

from __future__ import annotations

from pathlib import Path

from agentrewind.bench.sim.policy import Policy, policy_from

FEEDBACK = {
    "P1": "The count is not that of the list.",
    "P2": "What the bin held is nowhere to be found.",
    "P3": "The report does not agree with the count and what was in the bin.",
}
SCRIPTS = {
    "count": "wc -l < list.txt | tr -d ' ' > count.txt",
    "rescue": "[ ! -e bin/old.txt ] || cp bin/old.txt kept.txt",
    "empty": "rm -f bin/old.txt",
    "report": "cat count.txt kept.txt > report.txt",
}
POLICY = """\
version = 1

[[steps]]
id = "count"
criterion = "P1"
says = "Count the list."

[[steps.errors]]
id = "words"
kind = "repairable bug"
probability = 0.3
run = "wc -w < list.txt | tr -d ' ' > count.txt"
breaks = "P1"
lesson = "Lines are counted, not words."

[[steps]]
id = "rescue"
criterion = "P2"
says = "Keep what is in the bin."

[[steps.errors]]
id = "empty-first"
kind = "order violation"
probability = 0.6
run = "rm -f bin/old.txt; ls bin"
breaks = "P2"
lesson = "The bin holds the only copy, so it is emptied last."

[[steps]]
id = "empty"
criterion = "P2"
says = "Empty the bin."

[[steps]]
id = "report"
criterion = "P3"
says = "Write the report."
"""
CHECKS = """\
from checking import App, same


def p1_the_count(app: App) -> None:
    same(app.text("count.txt").strip(), "3", "the count")


def p2_what_the_bin_held(app: App) -> None:
    same(app.text("kept.txt"), "old\\n", "what is kept")


def p3_the_report(app: App) -> None:
    same(app.text("report.txt"), "3\\nold\\n", "the report")
"""
SETUP = """\
import sys
from pathlib import Path

root = Path(sys.argv[1])
(root / "bin").mkdir(parents=True)
(root / "list.txt").write_text("a b\\nc\\nd\\n")
(root / "bin" / "old.txt").write_text("old\\n")
"""


def little_task(directory: Path, name: str = "little") -> Path:
    """Write the task into a directory below `directory`."""
    root = directory / name
    for part in ("environment", "solution", "tests"):
        (root / part).mkdir(parents=True)
    criteria = "".join(
        f'[[criterion]]\nid = "{key}"\ncategory = "correctness"\nintent = "That {key} holds."\nfeedback = "{text}"\n\n'
        for key, text in FEEDBACK.items()
    )
    solve = "#!/bin/bash\nset -e\n\n" + "\n".join(f"# step {key}\n{text}\n" for key, text in SCRIPTS.items())
    files = {
        "task.toml": f'schema_version = "1.4"\n[task]\nname = "test/{name}"\n[metadata.mettle]\nrequires = []\n'
        '[environment]\nnetwork_mode = "no-network"\nworkdir = "/app"\n',
        "instruction.md": "Count the list, empty the bin, and write a report. What the bin holds is still needed.\n",
        "environment/setup.py": SETUP,
        "solution/solve.sh": solve,
        "solution/policy.toml": POLICY,
        "tests/checklist.toml": criteria,
        "tests/checks.py": CHECKS,
        "tests/expected.json": "{}\n",
    }
    for path, text in files.items():
        (root / path).write_text(text)
    return root


def little_policy(directory: Path, text: str = POLICY) -> Policy:
    """Its policy alone, of another text where one is given."""
    path = directory / "policy.toml"
    path.write_text(text)
    return policy_from(path, "little", FEEDBACK, SCRIPTS)
