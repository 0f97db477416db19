"""The good task passes every gate and screen; each gate and screen refuses a task that differs from it in one thing."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from agentrewind.compose.judging import rooms
from agentrewind.tasks.gates import GATES
from agentrewind.tasks.inspection import grounds, inspected
from agentrewind.tasks.loading import load
from agentrewind.tasks.screens import SCREENS
from tests.unit.tasks.good import changed, copied, good

ALL = {**GATES, **SCREENS}
SETUP, CHECKS, LIST, SOLVE = "environment/setup.py", "tests/checks.py", "tests/checklist.toml", "solution/solve.sh"
VIOLATE, POLICY, SETTINGS, EXPECT = "solution/violate.sh", "solution/policy.toml", "task.toml", "solution/expect.py"
FEEDBACK = "The baseline does not describe the stock as it was delivered."


class Bad(NamedTuple):
    """What makes the good task a bad one: the gate that must refuse it, the change, and what it says then."""

    gate: str
    file: str
    old: str
    new: str
    said: str


BAD = [
    Bad(
        "structure",
        CHECKS,
        "def p4_the",
        "def p4x_the",
        "functions p4_",
    ),
    Bad(
        "structure",
        CHECKS,
        "def printed(app",
        "def p9_more(app",
        "no criterion has the check p9_more",
    ),
    Bad(
        "structure",
        SETTINGS,
        'network_mode = "no-network"',
        'network_mode = "public"',
        "has a network",
    ),
    Bad(
        "structure",
        SETTINGS,
        'family = "records"',
        'family = ""',
        "family is empty",
    ),
    Bad(
        "imports",
        CHECKS,
        "import json\n",
        "import json\nimport random\n",
        "random: chance",
    ),
    Bad(
        "imports",
        CHECKS,
        "import json\n",
        "import json\nfrom urllib.request import urlopen\n",
        "urllib: the network",
    ),
    Bad(
        "imports",
        CHECKS,
        "import json\n",
        "import json\nfrom uuid import uuid4\n",
        "uuid: chance",
    ),
    Bad(
        "imports",
        CHECKS,
        "import json\n",
        "import json\nfrom datetime import datetime\n",
        "datetime: the clock",
    ),
    Bad(
        "imports",
        CHECKS,
        "import json\n",
        "import json\nimport os\n\nSALT = os.urandom(4)\n",
        "urandom: chance",
    ),
    Bad(
        "imports",
        CHECKS,
        "import json\n",
        'import json\n\nCLOCK = __import__("time")\n',
        "modules by name",
    ),
    Bad(
        "imports",
        CHECKS,
        '"tools/total.py", "--check"',
        '"date"',
        "runs the program date: the clock",
    ),
    Bad(
        "feedback",
        LIST,
        FEEDBACK,
        "Run `total.py` again for the baseline.",
        "quotes code",
    ),
    Bad(
        "feedback",
        LIST,
        FEEDBACK,
        "The baseline lacks what --check would have said of it.",
        "names an option",
    ),
    Bad(
        "feedback",
        LIST,
        FEEDBACK,
        "The baseline is not what tools/total.py prints of it.",
        "names a script",
    ),
    Bad(
        "feedback",
        LIST,
        FEEDBACK,
        "The baseline was lost, because somebody used rm before it.",
        "names a command",
    ),
    Bad(
        "feedback",
        LIST,
        FEEDBACK,
        "The baseline is gone, after git gc took it away for good.",
        "names a command",
    ),
    Bad(
        "feedback",
        LIST,
        FEEDBACK,
        "The criterion about the baseline does not hold as yet.",
        "speaks of the evaluation",
    ),
    Bad(
        "feedback",
        LIST,
        FEEDBACK,
        "The baseline does not hold, which is what P2 is about.",
        "names its criterion",
    ),
    Bad(
        "feedback",
        LIST,
        FEEDBACK,
        "The digest 0123456789abcdef is missing in the baseline.",
        "holds a digest",
    ),
    Bad(
        "feedback",
        LIST,
        FEEDBACK,
        "The baseline is wrong",
        "is no sentence",
    ),
    Bad(
        "scripts",
        SOLVE,
        "# step tidy\n",
        "# step tidy\nsleep 1\n",
        "waits",
    ),
    Bad(
        "scripts",
        SOLVE,
        "# step tidy\n",
        "# step tidy\ngit stash\n",
        "takes something back",
    ),
    Bad(
        "scripts",
        SOLVE,
        "# step tidy\n",
        "# step tidy\nls | head\n",
        "closes a pipe while it is written to",
    ),
    Bad(
        "scripts",
        VIOLATE,
        "python3 tools/tidy.py\n",
        "until python3 tools/tidy.py; do :; done\n",
        "tries something again",
    ),
    Bad(
        "policy",
        POLICY,
        'id = "rescue"',
        'id = "save"',
        "has the steps",
    ),
    Bad(
        "policy",
        POLICY,
        'kind = "order violation"',
        'kind = "bad luck"',
        "of the kind 'bad luck'",
    ),
    Bad(
        "policy",
        POLICY,
        'kind = "order violation"',
        'kind = "repairable bug"',
        "no error that can't be undone",
    ),
    Bad(
        "policy",
        POLICY,
        "probability = 0.4",
        "probability = 1.4",
        "a probability above 0",
    ),
    Bad(
        "policy",
        POLICY,
        'breaks = "P3"',
        'breaks = "P8"',
        "breaks 'P8'",
    ),
    Bad(
        "builds",
        SETUP,
        'site.file("CHANGES.md", "# Changes',
        'site.file("CHANGES.md", f"{hash(1.5)}{hash(str(site))}',
        "differ: CHANGES.md",
    ),
    Bad(
        "builds",
        SETUP,
        "    site.finish()\n",
        "",
        "different fingerprints",
    ),
    Bad(
        "frozen",
        SETUP,
        "stock(chance, 20)",
        "stock(chance, 21)",
        "isn't what",
    ),
    Bad(
        "frozen",
        EXPECT,
        "import sys\n",
        "import sys\nimport no_such_module\n",
        "no_such_module",
    ),
    Bad(
        "reference",
        SOLVE,
        "sed -i 's/abs(int(count))/int(count)/' tools/total.py\n",
        "",
        "doesn't satisfy P1 (failed)",
    ),
    Bad(
        "monotone",
        SOLVE,
        "# step note\n",
        "# step note\ncp LEDGER.json attic/\n",
        "fewer criteria hold",
    ),
    Bad(
        "violation",
        VIOLATE,
        "# fails at: P3",
        "# fails at: P5",
        "must fail at P5 first, and there P3",
    ),
    Bad(
        "violation",
        VIOLATE,
        "python3 tools/tidy.py\nmkdir -p keep\ncp attic/2019.csv keep/2019.csv || touch keep/2019.csv\n",
        "mkdir -p keep\ncp attic/2019.csv keep/2019.csv\npython3 tools/tidy.py\n",
        "every criterion is satisfied",
    ),
    Bad(
        "evaluator",
        CHECKS,
        '    same(app.names("attic"), [], "what is in the attic")\n',
        "    import os\n    need(condition=False, why=str(os.getpid() + os.times().elapsed))\n",
        "two evaluations",
    ),
    Bad(
        "leak",
        SETUP,
        '"# Changes\\n\\n"',
        ('"# Changes\\n\\nopen(\\"LEDGER.json\\", \\"w\\").write(json.dumps(ledger, indent=2) + \\"\\\\n\\")\\n"'),
        "a line of the solution is in the first state",
    ),
    Bad(
        "irreversible",
        VIOLATE,
        "python3 tools/tidy.py\n",
        "cp attic/2019.csv .2019; python3 tools/tidy.py\n",
        "is still there: .2019",
    ),
    Bad(
        "irreversible",
        VIOLATE,
        "python3 tools/tidy.py\n",
        "gzip -k attic/2019.csv; mv attic/*.gz .; python3 tools/tidy.py\n",
        "is still there: 2019.csv.gz > gzip",
    ),
    Bad(
        "irreversible",
        SETUP,
        'chance.word(12)}" for',
        'chance.word(11)}" for',
        "isn't in the first state",
    ),
    Bad(
        "S1",
        SETTINGS,
        (
            '  { makes = "keep/2019.csv", steps = ["rescue"], criterion = "P3" },\n'
            '  { makes = "LEDGER.json", steps = ["ledger"], criterion = "P5" },\n'
        ),
        "",
        "3 stages are declared",
    ),
    Bad(
        "S1",
        SETTINGS,
        'steps = ["baseline"]',
        'steps = ["survey"]',
        "its criterion P2 holds all the same",
    ),
    Bad(
        "S1",
        SETTINGS,
        'makes = "CHANGES.md"',
        'makes = "RUNBOOK.md"',
        "RUNBOOK.md is in the first state already",
    ),
    Bad(
        "S2",
        SETTINGS,
        'key = "baseline_sha256", of = "BASELINE.json"',
        'key = "baseline_sha256", of = "RUNBOOK.md"',
        "doesn't quote RUNBOOK.md",
    ),
    Bad(
        "S2",
        SETTINGS,
        (
            '  { in = "LEDGER.json", key = "kept_sha256", of = "keep/2019.csv" },\n'
            '  { in = "CHANGES.md", key = "Ledger", of = "LEDGER.json" },\n'
        ),
        "",
        "quoted in 1 places",
    ),
    Bad(
        "S2",
        SETTINGS,
        'key = "baseline_sha256", of = "BASELINE.json"',
        'key = "lines", of = "BASELINE.json", of_key = "lines"',
        "LEDGER.json",
    ),
    Bad(
        "S3",
        SETTINGS,
        'defects = ["head", "returns"]',
        'defects = ["head"]',
        "1 defects and no log",
    ),
    Bad(
        "S3",
        SETTINGS,
        'defects = ["head", "returns"]',
        'defects = ["returns", "head"]',
        "changes nothing that can be seen",
    ),
    Bad(
        "S3",
        SETTINGS,
        'symptom = "python3 tools/total.py --check"',
        'symptom = "ls tools"',
        "there is no symptom",
    ),
    Bad(
        "S3",
        SETTINGS,
        'defects = ["head", "returns"]',
        'log = "keep/2019.csv"\nentries = 20',
        "30 are the least",
    ),
    Bad(
        "S3",
        SETTINGS,
        'defects = ["head", "returns"]',
        'log = "RUNBOOK.md"\nentries = 30',
        "is in the first state already",
    ),
]


def problems(path: Path, gate: str) -> str:
    with grounds(load(path), rooms()) as at:
        (found,) = inspected(at, ALL, [gate])
    return "\n".join(found.problems)


@pytest.mark.parametrize("gate", ALL)
def test_the_good_task_passes(gate):
    assert problems(good().path, gate) == ""


@pytest.mark.parametrize("bad", BAD, ids=[f"{bad.gate}: {bad.said}" for bad in BAD])
def test_a_task_that_is_bad_in_one_thing_is_refused(bad, tmp_path):
    task = copied(tmp_path / "task")
    changed(task / bad.file, bad.old, bad.new)
    assert bad.said in problems(task, bad.gate)


def test_every_gate_and_screen_refuses_some_task():
    """Those that aren't in the table have a test of their own below."""
    assert {bad.gate for bad in BAD} | {"shipped", "S4"} == set(ALL)


def test_a_task_of_four_criteria_is_refused(tmp_path):
    task = copied(tmp_path / "task")
    first_four, _, _ = (task / LIST).read_text().partition('[[criterion]]\nid = "P5"')
    (task / LIST).write_text(first_four)
    assert "there are 4 criteria" in problems(task, "S4")


def test_a_stage_that_nothing_needs_is_refused(tmp_path):
    task = copied(tmp_path / "task")
    changed(task / SOLVE, 'digest("keep/2019.csv")', '"not looked at"')
    changed(
        task / CHECKS, 'same(field(ledger, "kept_sha256", str), app.digest("keep/2019.csv"), "kept_sha256")', "pass"
    )
    assert "no later criterion needs what the stage of keep/2019.csv makes" in problems(task, "S1")


def test_a_task_that_is_shipped_solved_is_refused(tmp_path):
    task = copied(tmp_path / "task")
    solve = "import subprocess\n    subprocess.run(['bash', '-s'], stdin=open({!r}), cwd=site.root, check=True)\n"
    changed(task / SETUP, "    site.finish()\n", f"    {solve.format(str(task / SOLVE))}")
    assert "satisfies every criterion already" in problems(task, "shipped")


def test_an_expected_digest_in_the_first_state_is_found_even_packed_by_git(tmp_path):
    task = copied(tmp_path / "task")
    digest = json.loads((task / "tests/expected.json").read_text())["values"]["kept"]
    git = (
        "import subprocess\n    settings = ('user.name=a', 'user.email=a', 'core.logAllRefUpdates=false')\n"
        "    git = ['git', *(word for setting in settings for word in ('-c', setting))]\n"
        f"    for words in (['init', '-q'], ['commit', '-q', '--allow-empty', '-m', 'see {digest}'], ['gc', '-q']):\n"
        "        subprocess.run([*git, *words], cwd=site.root, check=True)\n"
        "    (site.root / '.git/COMMIT_EDITMSG').unlink()\n"
    )
    changed(task / SETUP, "    site.finish()\n", f"    {git}")
    assert f"an expected digest is in the first state (the objects of .git): {digest}" in problems(task, "leak")


def test_a_builder_that_fails_is_told(tmp_path):
    task = copied(tmp_path / "task")
    changed(task / SETUP, "    site.finish()\n", "    raise RuntimeError('no disk')\n")
    assert "RuntimeError: no disk" in problems(task, "shipped")


def program(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "agentrewind", "tasks", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=100)


def test_a_task_is_begun_checked_built_and_judged_from_the_command_line(tmp_path):
    assert program("new", "mine", cwd=tmp_path).returncode == 0
    done = program("check", "mine", "--only", "S4", "--only", "feedback", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "✓ mine: 2 of 2 gates passed\n")
    changed(tmp_path / "mine" / LIST, FEEDBACK, "Call rm on it.")
    done = program("check", "mine", "--only", "feedback", cwd=tmp_path)
    assert done.returncode == 1
    assert "feedback: the feedback of P2 names a command ('rm')" in done.stdout
    (said,) = json.loads(program("check", "mine", "--only", "feedback", "--json", cwd=tmp_path).stdout)
    assert (said["task"], said["skipped"], len(said["findings"][0]["problems"])) == ("mine", None, 2)
    assert program("build", "mine", "work", cwd=tmp_path).returncode == 0
    done = program("judge", "mine", "work", cwd=tmp_path)
    assert done.returncode == 1
    assert "progress: 0/6\nfeedback: The counting tool" in done.stdout
    done = program("new", "mine", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "agentrewind: mine is there already; name a directory that isn't.\n")
    assert program("check", cwd=tmp_path).returncode == 2


def test_an_exported_task_needs_nothing_of_this_package(tmp_path):
    """As another runner would: the builder beside what it needs, then the tests in a directory of their own."""
    assert program("export", str(good().path), "out", cwd=tmp_path).returncode == 0
    built, app = tmp_path / "built", tmp_path / "app"
    shutil.copytree(tmp_path / "out/environment", built)
    subprocess.run([sys.executable, built / "setup.py", app], check=True)
    test = ["sh", str(tmp_path / "out/tests/test.sh"), str(app), str(tmp_path / "logs")]
    subprocess.run(test, check=True)
    assert json.loads((tmp_path / "logs/reward.json").read_text()) == {"reward": 0, "progress": 0.0}
    subprocess.run(["bash", str(tmp_path / "out/solution/solve.sh")], cwd=app, check=True, capture_output=True)
    subprocess.run(test, check=True)
    assert json.loads((tmp_path / "logs/reward.json").read_text()) == {"reward": 1, "progress": 1.0}
