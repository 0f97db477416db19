"""Where the model's context can't be made exact, the journal, the record of the rewind and the model itself say so."""

from __future__ import annotations

import json

from agentrewind.core.records import Rewound, RunResumed, Warned
from agentrewind.core.redact import Redactor
from agentrewind.dialects.openai_chat import OpenAIChat
from agentrewind.engine.offline import resume_point
from agentrewind.engine.session import Session
from tests.unit.engine.test_session import Rig, ask, commit, say, shell
from tests.unit.engine.wire import PATH, SHELL, Harness, Provider

SECRET = "hunter2-but-longer"


def rewound_and_summed_up(*turns) -> Rig:
    """The harness put a summary in the place of some messages that were abandoned and some that were not."""
    rig = Rig([shell(1), shell(2), commit("rec_000003", "NOTE"), shell(3), shell(4), shell(5), *turns])
    for _ in range(5):
        rig.step()
    rig.harness.messages[4:8] = [{"role": "user", "content": "Summary: wrote 2, then 3."}]
    return rig


def warnings(rig: Rig) -> list[str]:
    return [event.text for event in rig.events(Warned)]


def test_a_summary_of_kept_and_abandoned_is_said_to_the_journal_and_to_the_model() -> None:
    rig = rewound_and_summed_up(say("done"))
    rig.step()
    (told,) = warnings(rig)
    assert "main" in told
    assert "context: degraded" in told
    assert "wrote 2" in json.dumps(rig.last[:-1])
    assert "can't be told from the rest" in rig.last[-1]["content"]
    assert json.dumps(rig.last).count("NOTE") == 1


def test_it_is_said_once_and_stays_where_it_was_said() -> None:
    rig = rewound_and_summed_up(shell(6), shell(7), say("done"))
    rig.step()
    first = rig.last
    rig.step()
    rig.step()
    assert len(warnings(rig)) == 1
    assert rig.last[: len(first)] == first


def test_a_rewind_to_before_it_is_exact_again() -> None:
    rig = rewound_and_summed_up(commit("rec_000001", "BACK"), say("done"))
    rig.step()
    assert [event.context for event in rig.events(Rewound)] == ["exact", "exact"]
    assert rig.last[:-1] == rig.provider.bodies[0]["messages"]
    assert "can't be told" not in rig.last[-1]["content"]
    assert rig.last[-1]["content"].count("NOTE") == rig.last[-1]["content"].count("BACK") == 1


def test_a_rewind_to_after_it_is_recorded_as_degraded() -> None:
    rig = rewound_and_summed_up(shell(6), shell(7))
    rig.step()
    rig.step()
    rig.provider.turns = [commit(rig.session.tree.path()[-2].uid, "BACK"), say("done")]
    rig.step()
    assert [event.context for event in rig.events(Rewound)] == ["exact", "degraded"]
    assert "can't be told from the rest" in json.dumps(rig.last)


def test_an_exchange_that_has_no_place_any_more_is_no_loss() -> None:
    rig = Rig([shell(1), ask, shell(2), shell(3), say("done")])
    for _ in range(3):
        rig.step()
    rig.harness.messages[2:6] = [{"role": "user", "content": "Summary."}]
    rig.step()
    assert warnings(rig) == []


def test_a_history_that_became_nothing_but_a_summary_is_told_that_it_may_speak_of_what_was_abandoned() -> None:
    rig = Rig([shell(1), shell(2), commit("rec_000003", "NOTE"), shell(3), say("done")])
    for _ in range(3):
        rig.step()
    rig.harness.messages[2:] = [{"role": "user", "content": "Summary: wrote 1, 2 and 3."}]
    rig.step()
    (told,) = warnings(rig)
    assert "may be an earlier one in a shortened form" in told
    assert "look at a file" in rig.last[-1]["content"]
    assert json.dumps(rig.last).count("NOTE") == 1


def test_another_task_with_other_tools_is_no_such_thing() -> None:
    rig = Rig([shell(1), shell(2), commit("rec_000003", "NOTE"), shell(3), say("other")])
    for _ in range(3):
        rig.step()
    other = json.loads(json.dumps(SHELL).replace("shell", "read"))
    messages = [{"role": "system", "content": "You are an agent."}, {"role": "user", "content": "another task"}]
    rig.session.call(PATH, {"model": "m", "messages": messages, "tools": [other]}, rig.provider)
    assert warnings(rig) == []
    assert rig.last == messages


# --- secrets ----------------------------------------------------------------------------------------------------------


def after_a_crash(*turns) -> tuple[Rig, Session, Harness]:
    """A run in which a tool printed a secret, resumed by another process. It went a step on before its crash."""
    redact = Redactor([SECRET])
    rig = Rig([shell(1, text=SECRET), shell(2), shell(3)], redact=redact)
    for _ in range(3):
        rig.step()
    point = resume_point(rig.log)
    again = Session(rig.log, rig.world, [OpenAIChat()], redact=redact)
    again.resume_at(point)
    rig.log.append(RunResumed(0, rig.log.tree.next_branch(), point.at, serves=point.serves))
    rig.provider = Provider(list(turns))
    return rig, again, Harness(again, rig.world)


def test_a_secret_that_the_agent_still_holds_is_in_the_context_to_which_it_goes_back() -> None:
    rig, again, harness = after_a_crash(shell(4), commit("rec_000003", "NOTE"), say("done"))
    harness.messages = list(rig.harness.messages)
    harness.step(rig.provider)
    harness.step(rig.provider)
    assert SECRET in json.dumps(rig.provider.bodies[-1]["messages"][:-1])
    assert [event.context for event in rig.events(Rewound)] == ["exact"]
    assert "[redacted" not in json.dumps(rig.provider.bodies[-1])
    assert again.tree.warnings == []


def test_a_secret_that_nobody_holds_any_more_is_a_mark_and_that_is_said() -> None:
    rig, again, harness = after_a_crash(commit("rec_000003", "NOTE"), say("done"))
    harness.messages = list(resume_point(rig.log).seed)
    harness.messages[2:] = [{"role": "user", "content": "go on"}]
    harness.step(rig.provider)
    sent = rig.provider.bodies[-1]["messages"]
    assert SECRET not in json.dumps(sent)
    assert "[redacted" in json.dumps(sent[:-1])
    assert "never use the mark" in sent[-1]["content"]
    assert [event.context for event in rig.events(Rewound)] == ["degraded"]
    assert "held a secret" in again.tree.warnings[-1]


def test_an_agent_that_begins_again_with_marks_in_the_place_of_secrets_is_told_so_once_and_so_is_the_user() -> None:
    rig, again, harness = after_a_crash(shell(5), say("done"))
    harness.messages = list(resume_point(rig.log).seed)
    assert harness.step(rig.provider)["tool_calls"][0]["id"] == "c3"  # the answer that had come is given again
    harness.step(rig.provider)
    harness.step(rig.provider)
    assert [text for text in again.tree.warnings if "held secrets" in text] == again.tree.warnings
    assert "rec_000005" in again.tree.warnings[0]
    told = [item for item in rig.provider.bodies[-1]["messages"] if "never use the mark" in str(item["content"])]
    assert [item["role"] for item in told] == ["system"]
