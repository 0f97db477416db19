"""The words in which the simulated model calls tools of harnesses that don't declare them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrewind.bench.sim.reading import step_at
from agentrewind.bench.sim.wording import heard
from agentrewind.testing.scripted import Call, Request, Turn

PROMPTS = {
    "json": "Call with <tool_call></tool_call>: shell, backtrack_candidates, backtrack_commit",
    "code": "Write <code></code>. def shell(command), def backtrack_candidates(reason), def backtrack_commit(...)",
}
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="<\r\x00"))
CALLS = st.builds(
    Call,
    st.sampled_from(["shell", "backtrack_candidates", "backtrack_commit"]),
    st.dictionaries(st.sampled_from(["command", "reason", "record_uid", "memory_summary"]), TEXT),
)


def request(prompt: str, *messages: dict) -> Request:
    said = [{"role": "system", "content": prompt}, {"role": "user", "content": "The task."}, *messages]
    return Request({"model": "m", "messages": said}, 0, 0, ())


@pytest.mark.parametrize("words", PROMPTS)
@given(text=TEXT, call=CALLS)
def test_what_is_said_is_heard_again(words: str, text: str, call: Call) -> None:
    prompt = PROMPTS[words]
    answer = heard(request(prompt)).turn(Turn(text.strip(), (call,)))
    assert answer.calls == ()
    again = heard(request(prompt, {"role": "assistant", "content": answer.text})).said[-1]
    assert (again.role, again.calls) == ("assistant", (call,))
    assert again.text.endswith(text.strip())


@pytest.mark.parametrize("words", PROMPTS)
def test_a_list_of_checkpoints_shows_which_step_an_answer_did(words: str) -> None:
    command = Call("shell", {"command": "# step 2 of 4: keep it\ncp a b"})
    answer = heard(request(PROMPTS[words])).turn(Turn("Keep it.", (command,)))
    listing = f"rec_000003  2 steps ago | {answer.text.splitlines()[0]} | 1 file: A b"
    assert step_at(listing, "rec_000003") == 1


@pytest.mark.parametrize("words", PROMPTS)
def test_an_answer_without_calls_is_heard_as_one(words: str) -> None:
    prompt = PROMPTS[words]
    answer = heard(request(prompt)).turn(Turn("I'm done."))
    assert heard(request(prompt, {"role": "assistant", "content": answer.text})).said[-1].calls == ()


@pytest.mark.parametrize("words", PROMPTS)
def test_a_call_that_breaks_off_is_heard_as_none_that_can_be_run(words: str) -> None:
    prompt = PROMPTS[words]
    answer = heard(request(prompt)).turn(Turn("Now.", (Call("shell", '{"command": "'),)))
    (call,) = heard(request(prompt, {"role": "assistant", "content": answer.text})).said[-1].calls
    assert not isinstance(call.arguments, dict)


def test_results_and_the_next_task_are_told_apart() -> None:
    in_json = {
        "role": "user",
        "content": "<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n</tool_response>",
    }
    found = heard(request(PROMPTS["json"], in_json)).said[2:]
    assert [(item.role, item.text) for item in found] == [("tool", "one"), ("tool", "two")]
    in_code = {"role": "user", "content": "Observation:\nExecution logs:\none\nNew task:\nThe check says no."}
    found = heard(request(PROMPTS["code"], in_code)).said[2:]
    assert [(item.role, item.text) for item in found] == [("tool", "one"), ("user", "The check says no.")]


@pytest.mark.parametrize(
    "text", ["<tool_call>\nnot json\n</tool_call>", "<tool_call>\n[1]\n</tool_call>", "<code>\n(\n</code>"]
)
def test_what_nobody_could_have_said_raises_nothing(text: str) -> None:
    for prompt in PROMPTS.values():
        heard(request(prompt, {"role": "assistant", "content": text}))


def test_which_tools_there_are_stands_in_the_instructions() -> None:
    assert list(heard(request(PROMPTS["code"])).tools) == ["shell", "backtrack_candidates", "backtrack_commit"]
    assert list(heard(request("<tool_call> shell")).tools) == ["shell"]


def test_declared_tools_are_taken_as_they_are() -> None:
    tools = [{"type": "function", "function": {"name": "bash"}}]
    body = {"model": "m", "messages": [{"role": "system", "content": PROMPTS["json"]}], "tools": tools}
    given = heard(Request(body, 0, 0, ()))
    assert given.tools == ["bash"]
    assert given.turn(Turn("x", (Call("bash", {}),))).calls
