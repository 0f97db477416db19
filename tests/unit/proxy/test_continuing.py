"""A program that is started again and sends its history: the model sees what it would have seen without the crash."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrewind.compose.continuing import continued
from agentrewind.compose.program import ProgramSession
from agentrewind.core.budgets import UNLIMITED
from agentrewind.core.records import MAIN_THREAD
from agentrewind.core.wire import WireReply
from agentrewind.dialects.openai_chat import OpenAIChat
from agentrewind.engine.offline import resume, resume_point, rewind
from tests.unit.engine.wire import PATH, SHELL, Harness, Provider, answer
from tests.unit.engine.worlds import MemoryLog, MemoryWorld

ACTS = st.lists(st.sampled_from(["write", "write", "same", "same", "say", "ask", "back"]), min_size=1, max_size=14)


def nobody(_since: int) -> tuple[list, list]:
    return [], []


def redacted(content):
    """Secrets out, as the real redactor takes them out."""
    return json.loads(json.dumps(content).replace("hunter2", "[redacted password]"))


def without_hint(message: dict) -> dict:
    return {**message, "content": str(message["content"]).partition("\n\n[agentrewind]")[0]}


class Place:
    def __init__(self) -> None:
        self.world, self.log = MemoryWorld({"start": "0"}), MemoryLog()
        self.session = self.new_session()
        self.harness = Harness(self.session, self.world, "The password is hunter2.")
        self.count = 0

    def new_session(self) -> ProgramSession:
        return ProgramSession(
            self.log,
            self.world,
            [OpenAIChat()],
            budget=UNLIMITED,
            offers_rewind=True,
            redact=redacted,
            end_processes=nobody,
        )

    def again(self) -> ProgramSession:
        """The session of a new process, as `agentrewind exec --resume` makes it."""
        made = self.new_session()
        point = resume_point(self.log)
        made.go_on(point, continued(self.log, point, [OpenAIChat()]))
        return made

    def act(self, kind: str, chosen: int) -> list:
        """The turns of the model for one call of the harness."""
        self.count += 1
        number = self.count
        if kind == "write":
            arguments = {"name": f"f{number}", "text": str(number)}
            return [lambda _: answer(calls=[(f"w{number}", "shell", arguments)])]
        if kind == "same":
            return [lambda _: answer(calls=[(f"s{number}", "shell", {"name": "same", "text": "same"})])]
        if kind == "say":
            return [lambda _: answer(text=f"said {number}")]
        if kind == "ask":
            return [
                lambda _: answer(calls=[(f"a{number}", "backtrack_candidates", {"reason": "why"})]),
                *self.act("write", chosen),
            ]
        return [lambda _: self.back(number, chosen), *self.act("write", chosen)]

    def back(self, number: int, chosen: int) -> bytes:
        targets = self.log.tree.checkpoints(MAIN_THREAD)[:-1]
        if not targets:
            return answer(calls=[(f"b{number}", "backtrack_candidates", {"reason": "nowhere"})])
        wish = {"record_uid": targets[chosen % len(targets)].uid, "memory_summary": f"note {number}"}
        return answer(calls=[(f"b{number}", "backtrack_commit", wish)])

    def step(self, kind: str, chosen: int) -> None:
        self.harness.step(Provider(self.act(kind, chosen)))
        if self.harness.messages[-1]["role"] == "assistant":
            self.harness.messages.append({"role": "user", "content": f"go on {self.count}"})

    def sent_by(self, session: ProgramSession, messages: list[dict]) -> list[dict]:
        provider = Provider([lambda _: answer(text="at last")])
        session.call(PATH, {"model": "m", "messages": list(messages), "tools": [SHELL]}, provider)
        return provider.bodies[0]["messages"]


@settings(max_examples=150, deadline=None)
@given(ACTS, st.lists(st.integers(0, 50), min_size=14, max_size=14), st.integers(1, 14))
def test_the_model_sees_what_it_would_have_seen_without_the_crash(kinds: list[str], choices: list[int], crash: int):
    place = Place()
    for number, (kind, chosen) in enumerate(zip(kinds, choices, strict=False)):
        if number == crash:
            place.session = place.harness.session = place.again()
        place.step(kind, chosen)
    again = place.again()
    thread = place.session._threads.assign(list(place.harness.messages), OpenAIChat())
    expected = thread.effective()
    shown = place.sent_by(again, place.harness.messages)
    assert shown[:-1] == expected[:-1]
    assert without_hint(shown[-1]) == without_hint(expected[-1])
    assert not any("degraded" in warning for warning in place.log.tree.warnings)


@pytest.mark.parametrize("ran", ["before the crash", "just now"])
def test_results_that_the_program_has_and_the_files_belong_together(ran: str):
    """The proxy was killed after the program had run what its last answer asked for, and before it asked again."""
    place = Place()
    for _ in range(3):
        place.step("write", 0)
    left = dict(place.world.files)
    made = place.new_session()
    point, _ = resume(place.log, place.world)
    assert place.world.files != left
    made.go_on(point, continued(place.log, point, [OpenAIChat()]))
    if ran == "just now":
        left = place.world.files = {**place.world.files, "f3": "made again"}
    messages = place.harness.messages
    assert place.sent_by(made, messages) == messages
    assert place.world.files == left
    assert any("had left" in text for text in place.log.tree.warnings) == (ran == "before the crash")


def test_results_that_a_call_which_failed_had_sent_already_keep_their_files_too():
    """The provider refused the call after the tools; the program, resumed by its own means, sends their results."""
    place = Place()
    place.step("write", 0)
    place.step("write", 0)
    failing = place.harness.session
    body = {"model": "m", "messages": list(place.harness.messages), "tools": [SHELL]}
    failing.call(PATH, body, lambda _: WireReply(400, (), b"{}"))
    point, _ = resume(place.log, place.world)
    assert "f2" not in place.world.files, "the files are those of the newest call that was answered"
    again = place.new_session()
    again.go_on(point, continued(place.log, point, [OpenAIChat()]))
    sent = place.sent_by(again, [*place.harness.messages, {"role": "user", "content": "go on"}])
    assert "wrote f2" in json.dumps(sent)
    assert place.world.files["f2"] == "2"


def test_a_rewind_by_a_person_is_in_force_in_the_history_of_the_program():
    place = Place()
    for _ in range(4):
        place.step("write", 0)
    rewind(place.log, place.world, place.log.tree.checkpoints()[1].uid, "Do something else.")
    sent = place.sent_by(place.again(), place.harness.messages)
    assert sent[:4] == place.harness.messages[:4]
    assert "Do something else." in sent[4]["content"]
    assert len(sent) == 5


def test_a_program_that_begins_anew_is_told_of():
    place = Place()
    for _ in range(3):
        place.step("write", 0)
    anew = place.harness.messages[:2]
    assert place.sent_by(place.again(), anew) == anew
    assert "anew" in place.log.tree.warnings[-1]


def test_a_program_that_begins_anew_is_told_what_a_person_noted():
    place = Place()
    for _ in range(3):
        place.step("write", 0)
    anew = place.harness.messages[:2]
    rewind(place.log, place.world, place.log.tree.checkpoints()[1].uid, "Do something else.")
    again = place.again()
    sent = place.sent_by(again, anew)
    assert sent[:2] == anew
    assert "Do something else." in sent[2]["content"]
    assert "anew" in place.log.tree.warnings[-1]
    longer = [*anew, {"role": "assistant", "content": "at last"}, {"role": "user", "content": "go on"}]
    assert place.sent_by(again, longer) == [*sent, *longer[2:]], "the note keeps its place"


def test_begun_anew_at_the_first_call_it_is_where_the_rewind_led():
    place = Place()
    for _ in range(3):
        place.step("write", 0)
    anew = place.harness.messages[:2]
    rewind(place.log, place.world, place.log.tree.checkpoints()[0].uid, "Do something else.")
    sent = place.sent_by(place.again(), anew)
    assert len(sent) == 3
    assert "Do something else." in sent[2]["content"]
    assert place.log.tree.warnings == []
    assert [note.text for note in place.log.tree.notes] == ["Do something else."]


def test_a_title_writer_that_asks_first_takes_nothing_away():
    place = Place()
    for kind in ("write", "write", "write", "back"):
        place.step(kind, 1)
    again = place.again()
    title = {"model": "m", "messages": [{"role": "user", "content": "A title, please."}]}
    again.call(PATH, title, Provider([lambda _: answer(text="Title")]))
    expected = place.session._threads.assign(list(place.harness.messages), OpenAIChat()).effective()
    assert place.sent_by(again, place.harness.messages) == expected
    assert place.log.tree.warnings == []


@pytest.mark.parametrize("kept_from", [4, 6])
def test_in_a_history_that_was_rewritten_the_rewinds_have_their_place_or_it_is_told_of(kept_from: int):
    """What was abandoned stands in messages 4 to 8: whole, it is cut; where only some of it is left, nothing is."""
    place = Place()
    for kind in ("write", "write", "write", "back"):
        place.step(kind, 1)
    summary = {"role": "user", "content": "A summary of it all."}
    sent = place.sent_by(place.again(), [place.harness.messages[0], summary, *place.harness.messages[kept_from:]])
    degraded = any("degraded" in warning for warning in place.log.tree.warnings)
    assert degraded == (kept_from == 6)
    assert degraded == ("wrote f3" in json.dumps(sent))
    assert json.dumps(sent).count("note 4") == 1


def test_a_program_that_describes_its_directory_anew_keeps_its_rewinds():
    """As Qwen Code does at the start of each process; cache markers move from call to call, as Claude Code's do."""
    place = Place()
    for kind in ("write", "write", "back", "write"):
        place.harness.messages[-1] = {**place.harness.messages[-1], "cache_control": {"type": "ephemeral"}}
        place.step(kind, 0)
        place.harness.messages = [without(message, "cache_control") for message in place.harness.messages]
    anew = [{"role": "system", "content": "The directory holds f1."}, *place.harness.messages[1:]]
    sent = place.sent_by(place.again(), anew)
    assert "wrote f2" not in json.dumps(sent)
    assert json.dumps(sent).count("note 3") == 1
    assert sent[0] == anew[0]
    assert not any("degraded" in warning for warning in place.log.tree.warnings)


def without(message: dict, key: str) -> dict:
    return {name: value for name, value in message.items() if name != key}


def test_without_rewinds_a_rewritten_history_is_nothing_special():
    place = Place()
    for _ in range(3):
        place.step("write", 0)
    shorter = [place.harness.messages[0], *place.harness.messages[4:]]
    assert place.sent_by(place.again(), shorter) == shorter
    assert place.log.tree.warnings == []
