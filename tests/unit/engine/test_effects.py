"""Effects of calls: decided before they run, known in every mount, held back where the run says so."""

from __future__ import annotations

import json

import pytest

from agentrewind.core.effects import Annotations, Effect
from agentrewind.core.errors import NotRun
from agentrewind.core.records import Gated, NodeBegan, NodeEnded, RecordUid, Rewound, Warned
from agentrewind.core.standing import surviving
from agentrewind.core.tree import RunTree
from agentrewind.core.wire import WireReply
from agentrewind.dialects.openai_chat import OpenAIChat
from agentrewind.engine.candidates import candidates, line
from agentrewind.engine.effects import Effects
from agentrewind.engine.gate import Gate
from agentrewind.engine.offline import ResumePoint
from agentrewind.engine.session import Session
from tests.unit.engine import test_session
from tests.unit.engine.test_session import commit, say, shell
from tests.unit.engine.wire import PATH, SHELL, Harness, Provider, answer


def classify(name, arguments, annotations: Annotations | None = None):
    """The text of the command says what it is."""
    text = str(arguments.get("text", "")) if isinstance(arguments, dict) else ""
    if annotations is not None and annotations.read_only:
        return (Effect("read", name, source="annotation"),)
    for word in ("external", "outside", "unknown"):
        if word in text:
            return (Effect(word, text),)
    return (Effect("external", text, reads=True) if "fetch" in text else Effect("workspace", text),)


class Rig(test_session.Rig):
    def __init__(self, turns, gate: Gate | None = None, harness=Harness) -> None:
        super().__init__(turns, harness)
        self.session.effects = Effects(classify, gate)


class WireOnly(Harness):
    """A program whose tools we don't see: only its calls of the model pass."""

    def step(self, provider):
        body = {"model": "m", "messages": list(self.messages), "tools": [SHELL]}
        message = json.loads(self.session.call(PATH, body, provider).body)["choices"][0]["message"]
        self.messages.append(message)
        for call in message.get("tool_calls") or ():
            text = self.write(json.loads(call["function"]["arguments"]))
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
        return message


def do(number: int, text: str, name: str = "a"):
    return shell(number, name, text)


def test_a_call_has_its_effects_before_it_runs():
    rig = Rig([do(1, "external push"), say("done")])
    seen = []
    rig.harness.write = lambda _: seen.extend(rig.log.events) or "ok"
    rig.step()
    began = [event for event in seen if isinstance(event, NodeBegan) and event.kind == "tool"]
    assert [effect.kind for event in began for effect in event.effects] == ["external"]
    asked = [event for event in seen if isinstance(event, NodeEnded)]
    assert [effect.call for event in asked for effect in event.effects] == ["c1"]


@pytest.mark.parametrize("harness", [Harness, WireOnly])
def test_a_rewind_lists_what_survives_once_in_every_mount(harness):
    rig = Rig([do(1, "one"), do(2, "external push"), do(3, "fetch it"), commit("rec_000001"), say("ok")], None, harness)
    for _ in range(4):
        rig.step()
    text = rig.last[-1]["content"]
    assert "Effects outside the workspace that still stand: external push." in text


def test_what_an_earlier_rewind_left_standing_is_said_again():
    turns = [do(1, "one"), do(2, "external push"), commit("rec_000003"), do(3, "outside b"), commit("rec_000001")]
    rig = Rig([*turns, say("ok")])
    for _ in range(4):
        rig.step()
    assert "external push; outside b" in rig.last[-1]["content"]


def test_what_is_not_known_comes_last_and_says_so():
    rig = Rig([do(1, "one"), do(2, "unknown tool"), do(3, "external push"), commit("rec_000001"), say("ok")])
    for _ in range(4):
        rig.step()
    assert "still stand: external push; perhaps: unknown tool." in rig.last[-1]["content"]


def test_calls_beside_a_rewind_tool_have_no_effects():
    also = ("c9", "shell", {"name": "a", "text": "external push"})
    commits = ("k1", "backtrack_commit", {"record_uid": "rec_000001", "memory_summary": "failed"})
    rig = Rig([do(1, "one"), lambda _: answer(calls=[commits, also]), say("ok")])
    rig.step()
    rig.step()
    assert "still stand: none known." in rig.last[-1]["content"]


def test_the_candidates_say_what_would_survive():
    rig = Rig([do(1, "external push"), do(2, "unknown x"), do(3, "c")])
    for _ in range(3):
        rig.step()
    first, second, third = map(line, candidates(rig.session.tree).shown)
    assert "would survive: external push" in first
    assert "1 call with unknown effects" in second
    assert "survive" not in third
    assert "unknown" not in third


def test_hints_of_a_tool_on_the_wire_are_believed():
    rig = Rig([do(1, "external push")])
    tool = {**SHELL, "function": {**SHELL["function"], "annotations": {"readOnlyHint": True, "openWorldHint": "?"}}}
    body = {"model": "m", "messages": rig.harness.messages, "tools": [tool]}
    rig.session.call(PATH, body, rig.provider)
    assert [effect.kind for node in rig.session.tree.path() for effect in node.effects] == ["read"]


def test_a_journal_without_effects_reads_as_before():
    rig = Rig([do(1, "one")])
    rig.session.effects = Effects()
    rig.step()
    assert all(node.effects == () for node in RunTree.fold(rig.log.events).path())


# --- modes ------------------------------------------------------------------------------------------------------------

HARNESSES = pytest.mark.parametrize("harness", [Harness, WireOnly])


@HARNESSES
def test_annotate_tells_the_agent_first_and_runs_the_same_call_when_it_comes_again(harness):
    rig = Rig([do(1, "external push"), do(2, "external push"), say("done")], Gate("annotate"), harness)
    rig.step()
    assert rig.world.files == {"a": "external push"}
    (told,) = rig.events(Gated)
    assert (told.outcome, told.uid, told.call) == ("told", "rec_000001", "c1")
    assert "make the very same call again" in rig.last[-1]["content"]
    assert not any("Not run yet" in json.dumps(message) for message in rig.harness.messages)


@HARNESSES
def test_annotate_holds_another_call_back_again(harness):
    rig = Rig([do(1, "external a"), do(2, "external b"), say("done")], Gate("annotate"), harness)
    assert rig.step() == {"role": "assistant", "content": "done"}
    assert [gate.outcome for gate in rig.events(Gated)] == ["told", "told"]
    assert rig.world.files == {"a": "0"}


@HARNESSES
def test_block_never_lets_it_run(harness):
    rig = Rig([do(1, "outside x"), do(2, "c"), say("done")], Gate("block"), harness)
    rig.step()
    assert rig.world.files == {"a": "c"}
    assert "not allowed in this run" in json.dumps(rig.last)
    assert surviving(rig.session.tree, "rec_000001") == []


@HARNESSES
def test_what_only_reads_and_what_stays_inside_is_never_held(harness):
    rig = Rig([do(1, "fetch it"), do(2, "c"), do(3, "unknown d")], Gate("block"), harness)
    for _ in range(3):
        rig.step()
    assert rig.world.files == {"a": "unknown d"}
    assert rig.events(Gated) == []


def test_unknown_calls_are_held_where_the_run_says_so():
    rig = Rig([do(1, "unknown d"), say("ok")], Gate("block", ("external", "unknown")))
    rig.step()
    assert rig.world.files == {"a": "0"}


@HARNESSES
@pytest.mark.parametrize(
    ("said", "files", "outcome"),
    [(True, "external push", "approved"), (False, "0", "refused"), (None, "0", "refused")],
)
def test_confirm_asks_a_person_once(harness, said, files, outcome):
    questions = []
    gate = Gate("confirm", ask=lambda what: questions.append(what) or said)
    rig = Rig([do(1, "external push"), say("done")], gate, harness)
    rig.step()
    assert rig.world.files == {"a": files}
    assert questions == ["external push"]
    assert [gate.outcome for gate in rig.events(Gated)] == [outcome]
    if said is None:
        assert "nobody can be asked here" in rig.last[-1]["content"]


def test_the_others_of_the_same_turn_are_not_run_either():
    both = [("c1", "shell", {"name": "a", "text": "1"}), ("c2", "shell", {"name": "b", "text": "external"})]
    rig = Rig([lambda _: answer(calls=both), say("done")], Gate("block"))
    rig.step()
    assert rig.world.files == {"a": "0"}
    assert [message["role"] for message in rig.last[-2:]] == ["tool", "tool"]
    assert "another call of the same turn" in rig.last[-2]["content"]


def test_a_model_that_never_stops_is_given_back_without_its_calls():
    rig = Rig([do(number, "external x") for number in range(40)], Gate("block"), WireOnly)
    message = rig.step()
    assert not message.get("tool_calls")
    assert rig.world.files == {"a": "0"}


def list_and_do(number: int, text: str):
    shell_call = (f"c{number}", "shell", {"name": "a", "text": text})
    return lambda _: answer(calls=[(f"k{number}", "backtrack_candidates", {"reason": "?"}), shell_call])


def test_what_a_model_that_never_stops_asks_for_beside_is_run_once_and_its_effects_are_recorded():
    """Where calls are only recorded, the agent gets the last answer without the rewind tools."""
    rig = Rig([list_and_do(number, "external x") for number in range(21)] + [say("done")], harness=WireOnly)
    message = rig.step()
    assert [call["function"]["name"] for call in message["tool_calls"]] == ["shell"]
    newest = rig.session.tree.nodes[rig.session.tree.head]
    assert [(effect.kind, effect.call) for effect in newest.effects] == [("external", "c20")]
    assert newest.ended.note == ""
    assert [node.effects for node in rig.session.tree.path()[:-1]] == [()] * 20
    rig.step()
    said = [item["tool_call_id"] for item in rig.provider.bodies[-1]["messages"] if item["role"] == "tool"]
    assert said.count("c20") == 1


def test_a_rewind_that_comes_last_of_too_many_is_not_made():
    turns = [list_and_do(number, "x") for number in range(20)] + [commit("rec_000001"), say("done")]
    rig = Rig(turns, harness=WireOnly)
    rig.step()
    assert rig.events(Rewound) == []
    assert any("in a row" in event.text for event in rig.events(Warned))


def test_a_tool_that_no_answer_asked_for_is_held_too():
    rig = Rig([], Gate("block"))
    with pytest.raises(NotRun, match="not allowed in this run"):
        rig.session.tool("shell", {"text": "external"}, rig.world.files.clear)
    assert rig.world.files == {"a": "0"}
    assert rig.session.tool("shell", {"text": "x"}, lambda: 5) == 5
    assert rig.session.broken is None


def test_after_a_rewind_the_agent_is_told_anew():
    turns = [do(1, "one"), do(2, "external p"), do(3, "external p"), commit("rec_000003"), do(4, "external p")]
    rig = Rig([*turns, do(5, "external p"), say("ok")], Gate("annotate"))
    for _ in range(4):
        rig.step()
    assert [gate.outcome for gate in rig.events(Gated)] == ["told", "told"]


def test_an_error_of_the_provider_passes_through():
    rig = Rig([lambda _: WireReply(500, (), b"no")], Gate("block"))
    assert rig.session.call(PATH, {"model": "m", "messages": rig.harness.messages}, rig.provider).status == 500


def test_the_name_of_a_rewind_tool_hides_nothing_in_a_run_that_has_none():
    also = ("c9", "shell", {"name": "a", "text": "external push"})
    named = ("k1", "backtrack_commit", {"record_uid": "rec_000001", "memory_summary": "failed"})
    rig = Rig([lambda _: answer(calls=[named, also]), say("ok")], Gate("block"), WireOnly)
    rig.session = Session(rig.log, rig.world, [OpenAIChat()], offers_rewind=False)
    rig.session.effects = Effects(classify, Gate("block"))
    rig.harness = WireOnly(rig.session, rig.world)
    rig.step()
    assert [gate.outcome for gate in rig.events(Gated)] == ["blocked"]
    assert rig.world.files == {"a": "0"}


@pytest.mark.parametrize("mode", ["confirm", "block", "annotate"])
def test_an_answer_whose_question_a_crash_left_open_is_not_given_again_as_if_it_were_allowed(mode):
    class Killed(BaseException): ...

    class Dies(Gate):
        def settle(self, questions):
            raise Killed

    rig = Rig([do(1, "external push")], Dies(mode), WireOnly)
    with pytest.raises(Killed):
        rig.step()
    again = Session(rig.log, rig.world, [OpenAIChat()])
    again.effects = Effects(classify, Gate(mode))
    again.resume_at(ResumePoint(RecordUid("rec_000001"), (), None, serves=True))
    provider = Provider([do(2, "external push"), say("I leave it")])
    program = WireOnly(again, rig.world)
    assert program.step(provider)["content"] == "I leave it"
    assert rig.world.files == {"a": "0"}
    assert len(rig.events(Gated)) == 1


def test_an_answer_that_a_person_allowed_before_a_crash_is_given_again_without_asking():
    rig = Rig([do(1, "external push")], Gate("confirm", ask=lambda _: True), WireOnly)
    rig.step()
    again = Session(rig.log, rig.world, [OpenAIChat()])
    again.effects = Effects(classify, Gate("confirm"))
    again.resume_at(ResumePoint(RecordUid("rec_000001"), (), None, serves=True))
    message = WireOnly(again, rig.world).step(Provider([]))
    assert [call["id"] for call in message["tool_calls"]] == ["c1"]


@pytest.mark.parametrize("mode", ["confirm", "block"])
def test_what_can_not_be_read_is_not_sent_where_calls_are_held(mode):
    rig = Rig([do(1, "external push")], Gate(mode), WireOnly)
    body = {"model": "m", "n": 2, "messages": rig.harness.messages, "tools": [SHELL]}
    reply = rig.session.call(PATH, body, rig.provider)
    assert reply.status == 400
    assert b"was not sent" in reply.body
    assert rig.provider.bodies == []
    assert [warned.text.startswith("A call was refused") for warned in rig.events(Warned)] == [True]


def test_what_can_not_be_read_passes_where_nothing_is_held():
    rig = Rig([say("ok")], Gate("annotate"), WireOnly)
    body = {"model": "m", "n": 2, "messages": rig.harness.messages}
    assert rig.session.call(PATH, body, rig.provider).status == 200
