"""Every example in the README, in docs/ and in examples/ is run, against a scripted model in a home of its own.

In a Markdown file, blocks marked `python` are run as scripts, blocks marked `toml` as settings, and blocks marked
`console` in a shell: a line that begins with `$ ` is a command, the lines after it are what it prints, where `...`
stands for anything. The blocks of a file share a directory with a small project in it. A comment above a block says
what else it needs, or why it isn't run:

    <!-- setup: interrupted run -->
    <!-- not run: it downloads -->
    <!-- needs: mcp -->

What a block needs is a program or a module; where it isn't there, the other blocks of the page are run, and the test
counts as skipped.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import pytest

from agentrewind.cli.group import COMMANDS
from agentrewind.compose.services import services_of
from agentrewind.testing.scripted import Request, ScriptedModel, Step, call, hang, say

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
PROGRAM = Path(sys.executable).with_name("agentrewind")
BLOCK = re.compile(
    r"(?:<!-- (?P<remark>[^\n]*) -->\n)?^```(?P<kind>python|console|toml)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
OWN_AGENT = re.compile(r"cat > my_agent.py <<'END'\n> (.*?)\n> END\n", re.DOTALL)
NOT_RUN = 9
"""So many blocks in all pages together may say that they aren't run."""
SHELLS = {
    "shell": "command",
    "bash": "command",
    "Bash": "command",
    "exec_command": "cmd",
    "run_shell_command": "command",
}
"""Shell tools by their names, and where each takes the command."""
MARK = "--- the next command ---"


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    kind: str
    text: str
    remark: str

    @property
    def skipped(self) -> bool:
        return self.remark.startswith("not run: ")

    @property
    def lacks(self) -> str:
        """The program or module that it needs and that isn't here."""
        needed = self.remark.removeprefix("needs: ") if self.remark.startswith("needs: ") else ""
        return needed if needed and not shutil.which(needed) and find_spec(needed) is None else ""

    @property
    def setup(self) -> str:
        return self.remark.removeprefix("setup: ") if self.remark.startswith("setup: ") else ""


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, found.start("text")), found["kind"], found["text"], found["remark"] or "")
        for found in BLOCK.finditer(text)
    ]


@dataclass
class Agent:
    """What the model does in the examples: it repairs the project, looks once, and says so."""

    interrupted: bool = False
    hanging: list[str] = field(default_factory=list)

    def __call__(self, request: Request) -> Step:
        tool = next((name for name in SHELLS if name in request.tools), None)
        words = next((form for mark, form in WORDS.items() if tool is None and request.says(mark)), None)
        done = len(request.results) if words is None else request.turn
        if (tool is None and words is None) or done > 1:
            return self._end(tool if "read" not in request.tools else None, words)
        if self.interrupted and done:
            self.hanging.append("here")
            return hang()
        command = "python3 -m unittest" if done else "sed -i s/Helo/Hello/ greet.py"
        return say(words[0].format(command)) if words else self._runs(tool, command)

    @staticmethod
    def _runs(tool: str, command: str) -> Step:
        more = {"bash": {"description": "a step"}, "run_shell_command": {"is_background": False}}
        return call(tool, {SHELLS[tool]: command, **more.get(tool, {})})

    def _end(self, tool: str | None, words: tuple[str, str] | None) -> Step:
        if tool == "bash":
            return call(tool, {"command": f"echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo '{DONE}'"})
        return say(words[1].format(DONE)) if words else say(DONE)


DONE = "The greeting is spelt right now, and the test passes."
WORDS = {
    "<code>": ("<code>\nprint(shell('{}'))\n</code>", "<code>\nfinal_answer('{}')\n</code>"),
    "<tool_call>": (
        '<tool_call>\n{{"name": "shell", "arguments": {{"command": "{}"}}}}\n</tool_call>',
        "{}",
    ),
}
"""How models say commands and ends to harnesses that declare no tools, by what their prompts show."""


def project(place: Path) -> None:
    place.mkdir(exist_ok=True)
    (place / "greet.py").write_text('def greet(name):\n    return f"Helo, {name}"\n')
    (place / "test_greet.py").write_text(
        "import unittest\n\nfrom greet import greet\n\n\nclass GreetTest(unittest.TestCase):\n"
        '    def test_greeting(self):\n        self.assertEqual(greet("Ada"), "Hello, Ada")\n'
    )
    (place / "notes.txt").write_text("the only copy\n")


@dataclass(frozen=True)
class Bench:
    """Where the blocks of one page are run."""

    base: Path
    agent: Agent
    model: ScriptedModel

    @property
    def environ(self) -> dict[str, str]:
        ours = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("AGENTREWIND", "OPENAI", "ANTHROPIC"))
        }
        return ours | {
            "HOME": str(self.base / "home"),
            "AGENTREWIND_HOME": str(self.base / "data"),
            "TMPDIR": str(self.base / "tmp"),
            "PATH": f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}",
            "OPENAI_BASE_URL": self.model.base_url,
            "OPENAI_API_KEY": "an-example",
            "ANTHROPIC_BASE_URL": self.model.root_url,
            "COLUMNS": "80",
            "PYTHONIOENCODING": "utf-8",
        }

    def run(self, block: Block) -> None:
        if block.setup == "interrupted run":
            self._interrupt()
        elif block.setup == "own agent":
            page = (ROOT / "docs/any-agent.md").read_text(encoding="utf-8")
            program = OWN_AGENT.search(page)[1]
            (self.base / "work/my_agent.py").write_text(
                re.sub("^> ?", "", program, flags=re.MULTILINE), encoding="utf-8"
            )
        elif block.setup:
            pytest.fail(f"unknown setup {block.setup!r}")
        project(self.base / "work/project")
        text = re.sub(r"http://localhost:\d+/v1", self.model.base_url, block.text)
        match block.kind:
            case "python":
                self._python(text)
            case "console":
                self._console(text)
            case "toml":
                self._settings(text)

    def _python(self, text: str) -> None:
        done = self._process([sys.executable, "-W", "error", "-c", text])
        assert done.returncode == 0, done.stdout + done.stderr

    def _console(self, text: str) -> None:
        expected = commands(text)
        script = "".join(f"{command}\necho '{MARK}' $?\n" for command, _ in expected)
        done = self._process(["bash", "-c", script])
        *outputs, rest = re.split(rf"^{MARK} (\d+)\n", done.stdout, flags=re.MULTILINE)
        assert rest == ""
        for (command, wanted), output, code in zip(expected, outputs[::2], outputs[1::2], strict=True):
            assert code == "0", f"{command}\n{output}{done.stderr}"
            assert not wanted or fits(output, wanted), f"{command}\n{output}\nis not\n{wanted}"

    def _settings(self, text: str) -> None:
        """Settings of a workspace: they are read, and make a difference."""
        settings = self.base / "work/project/agentrewind.toml"
        if "effects" in tomllib.loads(text):
            self._rules(settings, text)
            return
        if "services" in tomllib.loads(text):
            settings.write_text(text, encoding="utf-8")
            assert len(services_of(settings.parent)) == len(tomllib.loads(text)["services"])
            return
        before = self._process([str(PROGRAM), "paths", "project", "--json"])
        settings.write_text(text, encoding="utf-8")
        for names in tomllib.loads(text)["paths"].values():
            for name in names:
                path = settings.parent / name
                path = path / "inside" if name.endswith("/") else path
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("here")
        after = self._process([str(PROGRAM), "paths", "project", "--json"])
        assert (before.returncode, after.returncode) == (0, 0), after.stderr
        shown = json.loads(after.stdout)
        assert all(shown[kind] != json.loads(before.stdout)[kind] for kind in tomllib.loads(text)["paths"])

    def _rules(self, settings: Path, text: str) -> None:
        settings.write_text(text, encoding="utf-8")
        for rule in tomllib.loads(text)["effects"]["rule"]:
            command = rule.get("command", "true").replace("*", "x")
            done = self._process([str(PROGRAM), "effects", "--workspace", "project", "--json", command])
            assert done.returncode == 0, done.stderr
            assert "command" not in rule or '"source": "rule"' in done.stdout or rule["undo"] in done.stdout

    def _process(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            env=self.environ,
            cwd=self.base / "work",
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=100,
            check=False,
        )

    def _interrupt(self) -> None:
        """Leave a run that was killed while it waited for its model."""
        project(self.base / "work/project")
        self.agent.interrupted = True
        options = ("--model", "any", "--workspace", "project", "--check", "python3 -m unittest")
        running = subprocess.Popen(
            [PROGRAM, "run", *options, "Make the failing test pass"],
            env=self.environ,
            cwd=self.base / "work",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 30
        while not self.agent.hanging and time.monotonic() < deadline:
            time.sleep(0.02)
        running.kill()
        assert running.wait() == -signal.SIGKILL
        self.agent.interrupted = False


def commands(text: str) -> list[tuple[str, str]]:
    """The commands of a console block, each with the output that it shows."""
    found: list[tuple[str, str]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], ""))
        elif line.startswith("> "):
            found[-1] = (found[-1][0] + "\n" + line[2:], "")
        else:
            found[-1] = (found[-1][0], found[-1][1] + line + "\n")
    return found


def fits(output: str, wanted: str) -> bool:
    """Whether `output` is what `wanted` says, with `...` for anything; white space at the ends of lines aside."""
    pattern = ".*".join(map(re.escape, tidy(wanted).split("...")))
    return re.fullmatch(pattern, tidy(output), re.DOTALL) is not None


def tidy(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


@contextmanager
def bench(base: Path) -> Iterator[Bench]:
    for name in ("home", "tmp", "work"):
        (base / name).mkdir()
    agent = Agent()
    with ScriptedModel(agent) as model:
        yield Bench(base, agent, model)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_of_a_page_work(page: Path, tmp_path: Path):
    found = blocks(page)
    with bench(tmp_path) as place:
        for block in found:
            if not block.skipped and not block.lacks:
                try:
                    place.run(block)
                except AssertionError as error:
                    error.add_note(f"{page.relative_to(ROOT)}, line {block.line}")
                    raise
    lacking = sorted({block.lacks for block in found} - {""})
    if lacking:
        pytest.skip(f"all but the examples that need {' and '.join(lacking)} work; `make test-mcp` and others have it")


def test_few_examples_are_not_run_and_each_says_why():
    skipped = [block for page in PAGES for block in blocks(page) if block.skipped]
    assert len(skipped) <= NOT_RUN
    assert all(len(block.remark) > len("not run: ") + 5 for block in skipped)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_of_code_is_one_that_is_looked_at(page: Path):
    fences = re.findall(r"^```(\w+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(fences) <= {"python", "console", "text", "toml"}
    assert len(blocks(page)) == sum(kind != "text" for kind in fences)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_inside_the_project_lead_somewhere(page: Path):
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_readme_names_every_command():
    table = re.findall(r"^\| `agentrewind ([a-z]+)", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(set(table)) == sorted(COMMANDS)


def test_the_example_of_a_workspace_by_hand(tmp_path: Path):
    with bench(tmp_path) as place:
        project(tmp_path / "work/project")
        done = place._process([sys.executable, "-W", "error", str(ROOT / "examples/workspace_by_hand.py"), "project"])
    assert done.returncode == 0, done.stderr
    assert fits(done.stdout, "saved 4 entries as ...\nD notes.txt\nbrought back ... paths; ... is the way back ...")
    assert (tmp_path / "work/project/notes.txt").read_text() == "the only copy\n"


def test_the_example_of_an_own_agent(tmp_path: Path):
    with bench(tmp_path) as place:
        project(tmp_path / "work/project")
        script = str(ROOT / "examples/openai_session.py")
        done = place._process([sys.executable, "-W", "error", script, "project", "Make the failing test pass"])
        log = place._process([str(PROGRAM), "log", "last"])
    assert done.returncode == 0, done.stderr
    assert "0 rewinds" in done.stdout
    assert "shell(sed -i s/Helo/Hello/ greet.py)" in log.stdout
    assert "Hello" in (tmp_path / "work/project/greet.py").read_text()


def test_the_adapter_on_its_page_is_the_one_that_passes_the_kit():
    example = (ROOT / "examples/own_adapter.py").read_text(encoding="utf-8")
    assert example in [block.text for block in blocks(ROOT / "docs/write-an-adapter.md")]


def shown_tree(page: Path) -> list[str]:
    """The first picture on a page: a ```` ```text ```` block."""
    found = re.search(r"^```text\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found
    return found[1].splitlines()


def test_the_picture_in_the_readme_is_what_the_demo_prints(tmp_path: Path):
    with bench(tmp_path) as place:
        done = place._process(["env", "COLUMNS=100", str(PROGRAM), "demo"])
    printed = {line.rstrip() for line in done.stdout.splitlines()}
    for line in shown_tree(ROOT / "README.md"):
        assert fnmatch.filter(printed, "*" + line.strip().replace("[", "[[]") + "*"), line


def test_a_console_block_is_read_as_commands_with_their_output():
    assert commands("$ a\nx\n$ b \\\n> c\n") == [("a", "x\n"), ("b \\\nc", "")]
    assert fits("saved 1 as 99\n", "saved 1 as ...\n")
    assert not fits("nothing\n", "saved 1 as ...\n")
    assert shlex.split(commands("$ echo 'a b'\n")[0][0]) == ["echo", "a b"]
