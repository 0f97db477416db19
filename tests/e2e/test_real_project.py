"""The real mini-SWE-agent on a real project with its own tests as the check, and two rewinds, the second to before the
first. What the model saw and what the workspace held are judged by code that isn't the project's own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from agentrewind.testing.scripted import Request, ScriptedModel, Turn, call
from tests.trees import describe, differences

SDIST = "more-itertools==10.5.0"
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
CACHES = ("__pycache__", ".pytest_cache")

ADD = """cat >> more_itertools/more.py <<'EOF'


def first_two(iterable):
    \"\"\"The first two items as a tuple.\"\"\"
    return tuple(islice(iterable, 2))
EOF
cat > tests/test_first_two.py <<'EOF'
from more_itertools.more import first_two


def test_first_two():
    assert first_two(iter('abc')) == ('a', 'b')
EOF"""
SPOIL = "sed -i 's/islice/isl1ce/g' more_itertools/more.py && rm tests/test_recipes.py && mv README.rst docs/moved.rst"
NEW_WORK = "printf 'done the other way\\n' > NOTES.txt && " + ADD
NOTE_ONE = "FIRST-NOTE: renaming islice everywhere broke the library and a test file was lost; do not rename."
NOTE_TWO = "SECOND-NOTE: adding to the end first was too hasty; begin with NOTES.txt, then add the function."


def project(into: Path) -> Path:
    """The unpacked source distribution, from the registry."""
    cache = Path(os.environ.get("LANES", Path.home() / ".cache/agentrewind")) / "sdists"
    cache.mkdir(parents=True, exist_ok=True)
    found = list(cache.glob("more?itertools-10.5.0.tar.gz"))
    if not found:
        pip = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--no-binary",
            ":all:",
            "-d",
            str(cache),
        ]
        subprocess.run([*pip, SDIST], check=True, timeout=300)
        found = list(cache.glob("more?itertools-10.5.0.tar.gz"))
    with tarfile.open(found[0]) as archive:
        archive.extractall(into, filter="tar")
    return next(into.iterdir())


class Script:
    """The model: what it does depends on what it sees; it copies the workspace aside as an independent witness."""

    def __init__(self, workspace: Path, aside: Path) -> None:
        self.workspace = workspace
        self.aside = aside
        self.copies: dict[int, Path] = {}
        self.after_rewind: list[list[str]] = []
        self.targets: list[int] = []

    def __call__(self, request: Request) -> Turn:
        copy = self.aside / str(request.number)
        subprocess.run(["cp", "-a", str(self.workspace), str(copy)], check=True)
        self.copies[request.number] = copy
        messages = request.body["messages"]
        text = json.dumps(messages)
        if NOTE_TWO in text:
            return self.after_two(messages)
        if NOTE_ONE in text:
            return self.after_one(messages, request.number)
        return self.before(messages, request.number)

    def before(self, messages: list[dict], number: int) -> Turn:
        last = messages[-1]["content"]
        if number == 0:
            return call("bash", {"command": ADD}, "Add the function.")
        if number == 1:
            return call("bash", {"command": SPOIL}, "Tidy up a little.")
        if number == 2:
            return call("bash", {"command": SUBMIT}, "Submit.")
        if "Checkpoints, oldest first" in last:
            uid = next(re.match(r"rec_\d+", line).group() for line in last.splitlines() if "isl1ce" in line)
            self.targets.append(1)
            return call("backtrack_commit", {"record_uid": uid, "memory_summary": NOTE_ONE})
        return call("backtrack_candidates", {"reason": "the tests fail"})

    def after_one(self, messages: list[dict], number: int) -> Turn:
        if messages[-1]["role"] == "system":
            self.witness(number, 1)
            return call("bash", {"command": "echo more >> README.rst; chmod 600 setup.cfg; mkdir -p empty/dir"})
        self.targets.append(0)
        return call("backtrack_commit", {"record_uid": "rec_000001", "memory_summary": NOTE_TWO})

    def after_two(self, messages: list[dict]) -> Turn:
        if messages[-1]["role"] == "system":
            self.witness(max(self.copies), 0)
            return call("bash", {"command": NEW_WORK}, "The other way.")
        return call("bash", {"command": SUBMIT}, "Submit.")

    def witness(self, now: int, then: int) -> None:
        """Compare the workspace right after a rewind with the copy made when the target was asked."""
        here, there = (describe(self.copies[number], ignore=CACHES) for number in (now, then))
        self.after_rewind.append(differences(here, there))


def run(agent: str, workspace: Path, model: ScriptedModel, home: Path) -> subprocess.CompletedProcess[str]:
    check = f"{sys.executable} -m pytest -q -p no:cacheprovider tests"
    environ = {**os.environ, "AGENTREWIND_HOME": str(home), "OPENAI_API_KEY": "any-key", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "agentrewind", "run", "--agent", agent, "--model", "scripted"]
    command += ["--base-url", model.base_url, "--workspace", str(workspace), "--check", check]
    command += ["--sandbox", "none"]  # the check runs in the environment of these tests, which a sandbox does not show
    return subprocess.run(
        [*command, "Add first_two to the library."],
        capture_output=True,
        text=True,
        env=environ,
        timeout=280,
        check=False,
    )


@pytest.mark.lane
@pytest.mark.timeout(300)
def test_two_rewinds_on_a_real_project_with_the_real_harness(tmp_path: Path) -> None:
    pytest.importorskip("minisweagent", reason="needs the extra: pip install 'agentrewind[mini]'")
    workspace = project(tmp_path / "src")
    original = describe(workspace, ignore=CACHES)
    (tmp_path / "aside").mkdir()
    script = Script(workspace, tmp_path / "aside")
    with ScriptedModel(script, api_key="any-key") as model:
        done = run("mini-swe-agent", workspace, model, tmp_path / "home")
        assert done.returncode == 0, done.stdout + done.stderr
        final = model.last["messages"]

    assert script.targets == [1, 0]
    assert script.after_rewind == [[], []]
    text = json.dumps(final)
    assert text.count("FIRST-NOTE") == 1
    assert text.count("SECOND-NOTE") == 1
    assert "isl1ce" not in text.replace(NOTE_ONE, "")
    called = [call["function"]["name"] for message in final for call in message.get("tool_calls") or ()]
    assert called == ["bash"]
    roles = [message["role"] for message in final]
    assert roles == ["system", "user", "system", "assistant", "tool"]
    assert final[3]["tool_calls"][0]["id"] == final[4]["tool_call_id"]

    expected = tmp_path / "expected"
    shutil.copytree(script.copies[0], expected, symlinks=True)
    subprocess.run(["bash", "-c", NEW_WORK], cwd=expected, check=True)
    new = {"NOTES.txt", "more_itertools/more.py", "tests/test_first_two.py"}
    now = describe(workspace, ignore=CACHES)
    for name in new:
        assert now[name]["sha256"] == describe(expected)[name]["sha256"]
    touched = {*new, ".", "tests", "more_itertools"}
    rest = {name: entry for name, entry in now.items() if name not in touched}
    assert differences(rest, {name: entry for name, entry in original.items() if name not in touched}) == []
