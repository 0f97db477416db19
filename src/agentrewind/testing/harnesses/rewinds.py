"""What can be seen of an adapter under `agentrewind run`: its records, and what comes back at a rewind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from agentrewind.core.codec import Json
from agentrewind.core.tools import CANDIDATES, COMMIT
from agentrewind.testing.harnesses import script
from agentrewind.testing.harnesses.script import AFTER, NESTED, ONCE, ONE, TWO, Scripted, Seen
from agentrewind.testing.harnesses.wrapped import STARTS, WRAPS
from agentrewind.testing.scripted import Call, ScriptedModel, Step, Turn

CHECKS = (
    "record",
    "candidates",
    "commit",
    "memory",
    "second rewind",
    "escape through siblings",
    "escape through a bare except",
    "divergence",
    "error in a tool",
    "streamed",
    "async",
)
"""What an adapter is looked at for."""
TIMEOUT_S = 300
TASK = "Put the workspace in order."
_WRAPPED = "agentrewind.testing.harnesses.wrapped"


@dataclass(frozen=True, slots=True)
class Played:
    """What a run left."""

    exit_code: int
    errors: str
    seen: list[Seen]
    requests: list[Json]
    refused: list[str]
    log: Json
    """As `agentrewind log --json` tells it."""
    workspace: Path

    @property
    def side(self) -> list[str]:
        """The steps whose commands ran, in order: each wrote to a file that no rewind reaches."""
        path = self.workspace.parent / "side"
        return path.read_text().split() if path.exists() else []

    @property
    def starts(self) -> int:
        """How often the agent was started, where a wrapper counted."""
        return len((self.workspace.parent / "starts").read_text().splitlines())

    def nodes(self, kind: str) -> list[Json]:
        return [node for node in self.log["nodes"] if node["kind"] == kind]


class RewindContract:
    """Every promise of an adapter that takes a rewind to be seen.

    A subclass names `agent` and says how a model speaks to the harness, where that isn't by calls of a tool `shell`
    with a `command` and a last answer without calls. What doesn't apply to a harness is named in `not_applicable`,
    with the reason, which is printed; all else is held to.
    """

    agent: ClassVar[str]
    """As `agentrewind run --agent` takes it."""
    place: ClassVar[str] = ""
    """The same as `package.module:Class`; wrappers need it. Empty where `agent` is that already."""
    modes: ClassVar[tuple[str, ...]] = ("in-place", "fresh", "reset")
    options: ClassVar[Mapping[str, Json]] = {}
    """Settings with which the agent is run each time."""
    streamed: ClassVar[Mapping[str, Json]] = {"stream": True}
    """More settings, with which it streams."""
    asynchronous: ClassVar[Mapping[str, Json]] = {"asynchronous": True}
    """More settings, with which it is run in an event loop."""
    paths: ClassVar[tuple[str, ...]] = ()
    """Directories that the adapter is imported from, besides those of this process."""
    not_applicable: ClassVar[Mapping[str, str]] = {}
    """Of `CHECKS`: why."""
    tool: ClassVar[str] = "shell"

    # --- how a model speaks to it -------------------------------------------------------------------------------------

    def said(self, text: str, calls: tuple[Call, ...]) -> Step:
        """An answer of the model that calls these tools."""
        return Turn(text, calls)

    def shell(self, *commands: str, text: str) -> Step:
        return self.said(text, tuple(Call(self.tool, {"command": command}) for command in commands))

    def candidates(self) -> Step:
        return self.said("Where can I go?", (Call(CANDIDATES, {"reason": "that was wrong"}),))

    def commit(self, uid: str, note: str) -> Step:
        return self.said("Back.", (Call(COMMIT, {"record_uid": uid, "memory_summary": note}),))

    def beside(self, before: str, uid: str, note: str, after: str) -> Step:
        """A commit with a command before it and one after it, in one answer."""
        back = Call(COMMIT, {"record_uid": uid, "memory_summary": note})
        return self.said("All at once.", (self._shell(before), back, self._shell(after)))

    def caught(self, uid: str, note: str, after: str) -> Step:
        """A commit, and all around it whatever the agent itself can put there to catch what it raises."""
        del after
        return self.commit(uid, note)

    def submission(self, answer: str) -> Step:
        return Turn(answer)

    def _shell(self, command: str) -> Call:
        return Call(self.tool, {"command": command})

    # --- driving it ---------------------------------------------------------------------------------------------------

    def play(
        self,
        base: Path,
        mode: str,
        story: Callable[[Scripted, Seen], Step],
        *,
        wrapper: str = "",
        options: Mapping[str, Json] | None = None,
    ) -> Played:
        """One run by the command line, to its end."""
        workspace = base / "work"
        script.furnish(workspace)
        agent = f"{_WRAPPED}:{wrapper}" if wrapper else self.agent
        settings = {**self.options, **(options or {})}
        told = [word for name, value in settings.items() for word in ("--set", f"{name}={json.dumps(value)}")]
        play = Scripted(self, workspace, story)
        with ScriptedModel(play) as model:
            common = ("--model", "scripted", "--base-url", model.base_url, "--workspace", str(workspace))
            done = self._cli(base, "run", "--agent", agent, *common, "--mode", mode, *told, TASK)
            log = self._cli(base, "log", "last", "--json")
            requests, refused = list(model.requests), list(model.refused)
        assert log.returncode == 0, f"no run was recorded: {done.stdout}{done.stderr}"
        return Played(done.returncode, done.stderr, play.seen, requests, refused, json.loads(log.stdout), workspace)

    def _cli(self, base: Path, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "agentrewind", *words],
            env=self._environ(base),
            cwd=base,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=TIMEOUT_S,
            check=False,
        )

    def _environ(self, base: Path) -> dict[str, str]:
        ours = ("AGENTREWIND", "OPENAI", "COLUMNS")
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith(ours)},
            "HOME": str(base),
            "AGENTREWIND_HOME": str(base / "home"),
            "AGENTREWIND_SANDBOX": "none",  # commands leave their marks outside of the workspace
            "OPENAI_API_KEY": "sk-of-the-contract-0123456789",
            "PYTHONPATH": os.pathsep.join((*self.paths, *(path for path in sys.path if path))),
            "PYTHONWARNINGS": "ignore",
            WRAPS: self.place or self.agent,
            STARTS: str(base / "starts"),
        }

    def applies(self, check: str) -> None:
        """Skip, with the reason, where the adapter says that this check doesn't apply to it."""
        assert check in CHECKS
        if check in self.not_applicable:
            pytest.skip(f"{self.agent}: {check} doesn't apply: {self.not_applicable[check]}")

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "mode" in metafunc.fixturenames:
            metafunc.parametrize("mode", self.modes, scope="class")

    @pytest.fixture(scope="class")
    @classmethod
    def played(cls, mode: str, tmp_path_factory: pytest.TempPathFactory) -> Played:
        """A run with two rewinds, which several checks look at."""
        return cls().play(tmp_path_factory.mktemp("nested"), mode, script.nested)

    # --- the checks ---------------------------------------------------------------------------------------------------

    def test_what_does_not_apply_is_said_with_a_reason_and_something_does(self) -> None:
        unknown = set(self.not_applicable) - set(CHECKS)
        assert not unknown, f"there are no such checks: {unknown}"
        assert all(reason.strip() for reason in self.not_applicable.values())
        assert len(self.not_applicable) < len(CHECKS), "no check applies: that is a failure"
        assert self.modes, "an adapter works in some mode"

    def test_every_call_is_recorded_once(self, played: Played) -> None:
        self.applies("record")
        ended_well(played)
        assert len(played.nodes("llm")) == len(played.requests) == len(NESTED)
        commands = [node["tool"]["arguments"] for node in played.nodes("tool")]
        ran = (command["command"] for command in commands if isinstance(command, dict) and "command" in command)
        mine = [command for command in ran if "../side" in command]  # a submission may be one too
        assert mine == [script.command(name) for name in "ABCDE"]
        changed = {path for node in played.nodes("tool") for path in changed_paths(node)}
        assert {"kept/one", "b.txt", "e.txt"} <= changed

    def test_the_candidates_are_shown_with_what_they_changed(self, played: Played) -> None:
        self.applies("candidates")
        shown = played.seen[4].text
        listed = [line for line in shown.splitlines() if "step-" in line and "rec_" in line]
        assert [name for name in "ABC" if any(f"step-{name}" in line for line in listed)] == ["A", "B", "C"], shown
        assert any("b.txt" in line for line in listed if "step-B" in line)

    def test_a_commit_brings_back_conversation_and_files_together(self, played: Played) -> None:
        self.applies("commit")
        assert [seen.steps for seen in played.seen[:6]] == list(NESTED[:6])
        assert played.seen[5].files == AFTER["AB"]
        assert played.seen[6].files == AFTER["ABD"]
        assert len(set(played.side)) == len(played.side), "no command of what is kept runs again"

    def test_each_note_is_shown_exactly_once(self, played: Played) -> None:
        self.applies("memory")
        assert [seen.notes(ONE) for seen in played.seen] == [0] * 5 + [1] * 5
        assert [seen.notes(TWO) for seen in played.seen] == [0] * 8 + [1] * 2

    def test_a_second_rewind_crosses_the_first(self, played: Played) -> None:
        self.applies("second rewind")
        ended_well(played)
        assert [seen.steps for seen in played.seen] == list(NESTED)
        assert played.seen[8].files == AFTER["A"]
        assert played.log["rewinds"] == 2
        in_order(played, "A", "B", "C", "D", "E")

    def test_a_commit_among_other_calls_leaves_nothing_of_them(self, mode: str, tmp_path: Path) -> None:
        self.applies("escape through siblings")
        slow, late = (script.command(name) for name in ("slow", "late"))
        played = self.play(tmp_path, mode, script.once("B", lambda uid, note: self.beside(slow, uid, note, late)))
        assert len(played.seen) == ONCE, [seen.steps for seen in played.seen]
        assert "slow.txt" not in played.seen[4].files
        assert "late" not in played.side
        in_order(played, "A", "B", *(["slow"] if "slow" in played.side else []), "E")

    def test_nothing_that_catches_everything_holds_a_rewind_up(self, mode: str, tmp_path: Path) -> None:
        self.applies("escape through a bare except")
        late = script.command("late")
        story = script.once("B", lambda uid, note: self.caught(uid, note, late))
        played = self.play(tmp_path, mode, story, wrapper="Swallowing")
        assert [seen.steps for seen in played.seen[4:]] == ["A", "AE"]
        in_order(played, "A", "B", "E")

    def test_a_new_process_that_asks_something_else_runs_nothing_twice(self, mode: str, tmp_path: Path) -> None:
        self.applies("divergence")
        if mode != "fresh":
            pytest.skip(f"{self.agent}: divergence doesn't apply: in mode {mode} nothing is asked again")
        played = self.play(tmp_path, mode, script.once("B"), wrapper="Wandering")
        assert [seen.steps for seen in played.seen[4:]] == ["A", "AE"]
        assert "This is start 1." in played.seen[4].text, "the recorded messages are those that count"
        assert any("asked something else" in warning for warning in played.log["warnings"])
        assert played.starts > 2
        in_order(played, "A", "B", "E")

    def test_a_command_that_fails_is_told_and_can_be_rewound(self, mode: str, tmp_path: Path) -> None:
        self.applies("error in a tool")
        played = self.play(tmp_path, mode, script.once("F"))
        in_order(played, "A", "F", "E")
        assert any("broken" in line and "exit 3" not in line for line in played.seen[2].text.splitlines())

    def test_it_streams(self, mode: str, tmp_path: Path) -> None:
        self.applies("streamed")
        played = self.play(tmp_path, mode, script.nested, options=self.streamed)
        assert all(request.get("stream") for request in played.requests), "it was to stream"
        assert [seen.steps for seen in played.seen] == list(NESTED)
        in_order(played, "A", "B", "C", "D", "E")

    def test_it_is_run_in_an_event_loop(self, mode: str, tmp_path: Path) -> None:
        self.applies("async")
        played = self.play(tmp_path, mode, script.nested, options=self.asynchronous)
        assert [seen.steps for seen in played.seen] == list(NESTED)
        in_order(played, "A", "B", "C", "D", "E")


def ended_well(played: Played) -> None:
    """The run was accepted, a strict provider took all its requests, and every node of it came to an end."""
    assert played.exit_code == 0, f"{played.errors}{[seen.steps for seen in played.seen]}"
    assert played.refused == [], "a strict provider refused what was sent"
    assert played.log["state"] == "done"
    on_path = [node for node in played.log["nodes"] if node["on_path"]]
    assert on_path
    assert [node["uid"] for node in on_path if node["error"] and node["kind"] == "llm"] == []
    assert all(move["context"] == "exact" for move in played.log["moves"])


def in_order(played: Played, *steps: str) -> None:
    """The run ended well, on the files of the steps A and E, and these commands ran, each once."""
    ended_well(played)
    assert script.files(played.workspace) == AFTER["AE"]
    assert played.side == list(steps)


def changed_paths(node: Json) -> list[Any]:
    changes = node["changes"]
    return [change["path"] for change in changes["items"]] if changes else []
