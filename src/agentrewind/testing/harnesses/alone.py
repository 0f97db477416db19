"""What can be seen of an adapter alone: submissions, tools, the conversation, and what goes wrong."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import pytest

from agentrewind.core.codec import Json
from agentrewind.core.errors import ProviderError, StorageFull
from agentrewind.core.strategy import Decision, GoOn, Stop
from agentrewind.testing.scripted import Call, Script, ScriptedModel, Step, Turn, fail

T = TypeVar("T")

KEY = "sk-of-the-contract-0123456789"
DEAD = "http://127.0.0.1:9/v1"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Ended(Protocol):
    """What a harness returns."""

    @property
    def ok(self) -> bool: ...
    @property
    def reason(self) -> str: ...
    @property
    def answer(self) -> str: ...


class Subject(Protocol):
    """What is tested."""

    def run(self, job: Any) -> Ended: ...


@dataclass(frozen=True, slots=True)
class Recorded:
    name: str
    arguments: Json
    call_id: str | None
    value: object


@dataclass(slots=True)
class Notebook:
    """A recorder that only remembers. `refuses` is raised instead of running a tool."""

    calls: list[Recorded] = field(default_factory=list)
    refuses: BaseException | None = None

    def tool(self, name: str, arguments: Json, run: Callable[[], T], *, call_id: str | None = None) -> T:
        if self.refuses is not None:
            raise self.refuses
        value = run()
        self.calls.append(Recorded(name, arguments, call_id, value))
        return value

    def rewind_tool(self, name: str, arguments: Json) -> str:
        """There is nothing to go back to."""
        return str(self.tool(name, arguments, lambda: "There are no checkpoints."))

    def hold(self, held: object) -> None:
        """Nothing is ever brought back."""

    def held(self) -> None:
        """Nothing has to be brought back."""


class Signal(BaseException):
    """Something that is no error and must get out of the harness at once."""


@dataclass(slots=True)
class Run:
    """What a finished run left."""

    ended: Ended
    model: ScriptedModel
    notebook: Notebook
    submissions: list[str]

    @property
    def last(self) -> list[Json]:
        """The messages of the newest request."""
        return list(self.model.last["messages"])


class HarnessContract:
    """Every promise of `Harness`, `Job` and `Outcome` that can be seen from outside.

    A subclass names `tool` and writes `harness`, `job` and `submission`, and `said` where its model doesn't call tools
    as providers have it. What doesn't apply to a harness is named in `not_applicable`, with the reason, which is
    printed; all else is held to.
    """

    tool: ClassVar[str] = "shell"
    """The tool for commands; its argument is `command`."""
    not_applicable: ClassVar[Mapping[str, str]] = {}
    """By the name of a check, without `test_`: why."""

    def harness(self) -> Subject:
        """A new one, which waits at most a tenth of a second before it tries a request again."""
        raise NotImplementedError

    def job(self, **fields: Any) -> Any:
        """A `Job` of these fields."""
        raise NotImplementedError

    def submission(self, answer: str) -> Turn:
        """How the model submits."""
        raise NotImplementedError

    def said(self, text: str, calls: tuple[Call, ...]) -> Turn:
        """An answer of the model that calls these tools."""
        return Turn(text, calls)

    def unreadable(self) -> Turn:
        """A call of the tool for commands, to make a file `a`, that breaks off before its end."""
        return self.said("", (Call(self.tool, '{"command": "touch a'),))

    @pytest.fixture(autouse=True)
    def _declared(self, request: pytest.FixtureRequest) -> None:
        """Skip, with the reason, what the adapter says that doesn't apply to it."""
        reason = self.not_applicable.get(request.function.__name__.removeprefix("test_"))
        if reason is not None:
            pytest.skip(f"{type(self).__name__}: doesn't apply: {reason}")

    # --- driving it ---------------------------------------------------------------------------------------------------

    def play(
        self, script: Script, workspace: Path, *decisions: Decision, notebook: Notebook | None = None, **fields: Any
    ) -> Run:
        """One run. `decisions` answer the submissions in their order, all of them; the default accepts the first."""
        answers = list(decisions or (Stop(ok=True, reason="accepted"),))
        submissions: list[str] = []
        notebook = notebook or Notebook()

        def submit(answer: str) -> Decision:
            submissions.append(answer)
            assert answers, f"a submission too many: {submissions}"
            return answers.pop(0)

        with ScriptedModel(script, api_key=KEY) as model:
            given = {
                "task": "Write a file.",
                "workspace": workspace,
                "model": "scripted",
                "recorder": notebook,
                "submit": submit,
                "base_url": model.base_url,
                "api_key": KEY,
                "environ": {"PATH": PATH, "HOME": str(workspace)},
            }
            ended = self.harness().run(self.job(**{**given, **fields}))
        assert not (decisions and answers), "the harness ended before all its submissions were judged"
        assert model.refused == [], "a strict provider refused what the harness sent"
        return Run(ended, model, notebook, submissions)

    def command(self, *commands: str) -> Turn:
        """An answer of the model that has these commands run."""
        return self.said("", tuple(Call(self.tool, {"command": command}) for command in commands))

    def test_what_does_not_apply_is_said_with_a_reason_and_something_does(self) -> None:
        checks = {name.removeprefix("test_") for name in dir(HarnessContract) if name.startswith("test_")}
        unknown = set(self.not_applicable) - checks
        assert not unknown, f"there are no such checks: {unknown}"
        assert all(reason.strip() for reason in self.not_applicable.values())
        assert len(self.not_applicable) < len(checks) - 1, "no check applies: that is a failure"

    # --- submissions --------------------------------------------------------------------------------------------------

    def test_a_submission_is_judged_once_and_its_acceptance_ends_the_run(self, tmp_path: Path) -> None:
        run = self.play([self.submission("All done.")], tmp_path)
        assert run.submissions == ["All done."]
        assert (run.ended.ok, run.ended.reason, run.ended.answer) == (True, "accepted", "All done.")

    def test_after_a_rejection_the_agent_is_told_why_and_goes_on(self, tmp_path: Path) -> None:
        script = [self.submission("First."), self.command("touch a"), self.submission("Second.")]
        run = self.play(script, tmp_path, GoOn("The file a is missing."), Stop(ok=True, reason="accepted"))
        assert run.submissions == ["First.", "Second."]
        assert run.ended.ok
        assert (tmp_path / "a").exists()
        told = run.model.requests[1]["messages"][-1]
        assert told["role"] == "user"
        assert text_of(told).endswith("The file a is missing.")

    def test_a_stop_that_is_no_success_ends_the_run_as_none(self, tmp_path: Path) -> None:
        run = self.play([self.submission("Done.")], tmp_path, Stop(ok=False, reason="five times the same"))
        assert (run.ended.ok, run.ended.reason) == (False, "five times the same")

    # --- tools --------------------------------------------------------------------------------------------------------

    def test_a_command_runs_in_the_workspace_and_is_recorded_with_its_arguments(self, tmp_path: Path) -> None:
        run = self.play([self.command("pwd > where; echo said"), self.submission("Done.")], tmp_path)
        assert (tmp_path / "where").read_text().strip() == str(tmp_path.resolve())
        assert run.notebook.calls, "nothing was recorded"
        recorded = run.notebook.calls[0]
        assert (recorded.name, recorded.arguments) == (self.tool, {"command": "pwd > where; echo said"})
        assert "said" in str(recorded.value)
        assert "said" in text_of(run.last[-1])

    def test_record_call_and_result_have_one_id(self, tmp_path: Path) -> None:
        run = self.play([self.command("ls"), self.submission("Done.")], tmp_path)
        asked, told = run.last[-2:]
        assert run.notebook.calls[0].call_id == asked["tool_calls"][0]["id"] == told["tool_call_id"]

    def test_several_calls_in_one_answer_run_in_order_and_each_gets_its_result(self, tmp_path: Path) -> None:
        run = self.play([self.command("echo one > f", "cat f"), self.submission("Done.")], tmp_path)
        assert [item.arguments["command"] for item in run.notebook.calls[:2]] == ["echo one > f", "cat f"]
        assert "one" in text_of(run.last[-1])

    def test_a_command_that_waits_for_input_gets_none_and_ends(self, tmp_path: Path) -> None:
        begun = time.monotonic()
        run = self.play([self.command("cat; read x; echo over"), self.submission("Done.")], tmp_path)
        assert "over" in text_of(run.last[-1])
        assert time.monotonic() - begun < 20

    def test_commands_do_not_see_the_key_of_the_model(self, tmp_path: Path) -> None:
        environ = {"PATH": PATH, "OPENAI_API_KEY": KEY, "PROJECT": "kept"}
        run = self.play([self.command("env"), self.submission("Done.")], tmp_path, environ=environ)
        assert KEY not in str(run.model.requests)
        assert "PROJECT=kept" in str(run.last)

    def test_arguments_that_are_not_json_run_nothing_and_the_model_is_told(self, tmp_path: Path) -> None:
        run = self.play([self.unreadable(), self.command("touch b"), self.submission("Done.")], tmp_path)
        assert run.ended.ok
        assert [path.name for path in tmp_path.iterdir() if path.name in "ab"] == ["b"]
        assert len(run.model.requests[1]["messages"]) > len(run.model.requests[0]["messages"])

    @pytest.mark.parametrize("arguments", ["[]", "null", '"ls"', "{}", '{"command": ""}', ""])
    def test_arguments_of_the_wrong_kind_do_not_end_the_run(self, tmp_path: Path, arguments: str) -> None:
        run = self.play([self.said("", (Call(self.tool, arguments),)), self.submission("Done.")], tmp_path)
        assert run.ended.ok

    def test_a_tool_that_does_not_exist_runs_nothing_and_the_model_is_told(self, tmp_path: Path) -> None:
        run = self.play([self.said("", (Call("teleport", {"to": "Rome"}),)), self.submission("Done.")], tmp_path)
        assert run.ended.ok
        assert "teleport" in text_of(run.last[-1])
        assert [item for item in run.notebook.calls if item.name == "teleport"] == []

    # --- the conversation ---------------------------------------------------------------------------------------------

    def test_every_request_extends_the_one_before(self, tmp_path: Path) -> None:
        script = [
            self.command("echo a"),
            self.unreadable(),
            self.command("echo b", "echo c"),
            self.submission("First."),
            self.submission("Second."),
        ]
        run = self.play(script, tmp_path, GoOn("No."), Stop(ok=True, reason="accepted"))
        lists = [request["messages"] for request in run.model.requests]
        for shorter, longer in itertools.pairwise(lists):
            assert longer[: len(shorter)] == shorter
            assert len(longer) > len(shorter)

    def test_a_seed_is_gone_on_with_as_it_is(self, tmp_path: Path) -> None:
        asked = {"id": "call_7", "type": "function"}
        asked["function"] = {"name": self.tool, "arguments": '{"command": "ls"}'}  # type: ignore[assignment]
        seed: tuple[dict[str, Json], ...] = (
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Something else."},
            {"role": "assistant", "content": None, "tool_calls": [asked]},
            {"role": "tool", "tool_call_id": "call_7", "content": "nothing"},
            {"role": "system", "content": "[agentrewind] You are at a restored point."},
        )
        run = self.play([self.command("touch a"), self.submission("Done.")], tmp_path, seed=seed)
        assert run.ended.ok
        sent = run.model.requests[0]["messages"]
        assert [without_nothing(item) for item in sent] == [without_nothing(item) for item in seed]
        assert run.model.requests[1]["messages"][: len(sent)] == sent

    def test_the_task_and_the_model_are_those_of_the_job(self, tmp_path: Path) -> None:
        task = "Say {{ braces }} and {% percent %}, and keep “quotes”."
        run = self.play([self.submission("Done.")], tmp_path, task=task, model="openai/some-model:7b")
        assert run.model.last["model"] == "openai/some-model:7b"
        assert task in text_of(run.last[-1])
        assert run.model.last["temperature"] == 0

    # --- what goes wrong ----------------------------------------------------------------------------------------------

    def test_a_dead_endpoint_is_named_at_once(self, tmp_path: Path) -> None:
        begun = time.monotonic()
        with pytest.raises(ProviderError, match=DEAD):
            self.play([], tmp_path, base_url=DEAD)
        assert time.monotonic() - begun < 20

    def test_a_wrong_key_is_said_to_be_one_and_not_repeated(self, tmp_path: Path) -> None:
        wrong = "sk-wrong-9876543210"
        with pytest.raises(ProviderError, match="key") as caught:
            self.play([], tmp_path, api_key=wrong)
        assert wrong not in str(caught.value)

    def test_an_unknown_model_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(ProviderError, match="gpt-none"):
            self.play([fail(404, "no such model")], tmp_path, model="gpt-none")

    def test_a_refused_request_is_told_in_the_words_of_the_provider(self, tmp_path: Path) -> None:
        with pytest.raises(ProviderError, match="the prompt is too purple"):
            self.play([fail(400, "the prompt is too purple")], tmp_path)

    @pytest.mark.parametrize("status", [429, 500, 503])
    def test_a_failure_in_passing_is_tried_again(self, tmp_path: Path, status: int) -> None:
        script: list[Step] = [fail(status, "not now", times=2), self.submission("Done.")]
        assert self.play(script, tmp_path).ended.ok

    def test_a_failure_that_stays_is_told_in_the_words_of_the_provider(self, tmp_path: Path) -> None:
        with pytest.raises(ProviderError, match="down for repairs"):
            self.play([fail(503, "down for repairs", times=50)], tmp_path)

    def test_an_error_of_the_recorder_travels_through(self, tmp_path: Path) -> None:
        with pytest.raises(StorageFull, match="no room"):
            self.play([self.command("ls")], tmp_path, notebook=Notebook(refuses=StorageFull("no room")))

    @pytest.mark.parametrize("kind", [Signal, KeyboardInterrupt])
    def test_what_is_no_error_leaves_the_harness_at_once(self, tmp_path: Path, kind: type[BaseException]) -> None:
        with pytest.raises(kind):
            self.play([self.command("ls")], tmp_path, notebook=Notebook(refuses=kind()))

    def test_the_limit_of_steps_ends_the_run(self, tmp_path: Path) -> None:
        run = self.play([self.command(f"echo {number}") for number in range(9)], tmp_path, settings={"max_steps": 3})
        assert not run.ended.ok
        assert "3" in run.ended.reason
        assert len(run.model.requests) == 3


def text_of(message: Json) -> str:
    """What a message says, whatever the form of its content."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def without_nothing(message: Json) -> Json:
    """The message without fields that are null, its calls with their arguments as values: harnesses differ in those."""
    found = {key: value for key, value in message.items() if value is not None}
    if "tool_calls" in found:
        found["tool_calls"] = [_with_values(item) for item in found["tool_calls"]]
    return found


def _with_values(item: Json) -> Json:
    function = item["function"]
    return {**item, "function": {**function, "arguments": json.loads(function["arguments"])}}
