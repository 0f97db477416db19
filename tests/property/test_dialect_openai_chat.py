"""What holds for every answer and every history: assembling, splicing, and provider-valid lists after any cuts."""

from __future__ import annotations

import contextlib
import copy
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from agentrewind.core.edits import Edit, splice
from agentrewind.core.errors import ProviderError
from agentrewind.core.tools import CANDIDATES, TOOLS
from agentrewind.dialects.openai_chat import OpenAIChat
from agentrewind.testing.scripted import Call, Turn, chunks, refusal, response_to

CHAT = OpenAIChat()
texts = st.text(max_size=30)
names = st.sampled_from(["bash", "read", "write"])
arguments = st.dictionaries(st.text(min_size=1, max_size=5), st.none() | st.integers() | texts, max_size=3)


@st.composite
def responses(draw):
    """Whole answers, with the fields that servers add."""
    calls = draw(st.lists(st.tuples(names, arguments | st.just("{broken")), max_size=3))
    turn = Turn(draw(texts), tuple(Call(*call) for call in calls), draw(texts))
    response = response_to({"model": "m", "messages": []}, turn, "chatcmpl-1", 1)
    if draw(st.booleans()):
        response["system_fingerprint"] = "fp"
    if draw(st.booleans()):
        del response["usage"]
    if draw(st.booleans()):
        response["choices"][0]["stop_reason"] = draw(st.sampled_from([None, 7, "</s>"]))
    return response


@settings(max_examples=200, deadline=None)
@given(responses(), st.booleans())
def test_what_is_rendered_is_parsed_to_the_same(response, stream):
    before = copy.deepcopy(response)
    reply = CHAT.parse(CHAT.render(response, stream=stream), stream=stream)
    assert reply.response == before == response
    assert reply == CHAT.parse(json.dumps(response).encode(), stream=False)


def pieces(text, draw):
    at = sorted(draw(st.sets(st.integers(0, len(text)), max_size=4)))
    return [text[start:stop] for start, stop in zip([0, *at], [*at, len(text)], strict=True)]


@st.composite
def event_streams(draw):
    """An answer and one of the streams that carry it: split anywhere, with any line ends, comments and no `[DONE]`."""
    response = draw(responses())
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    lines = []
    usage = "usage" in response
    for chunk in chunks(response, usage=usage):
        if draw(st.booleans()):
            lines += [": keep-alive", ""]
        if draw(st.booleans()):
            lines.append("event: message")
        text = json.dumps(chunk, ensure_ascii=draw(st.booleans()))
        if draw(st.booleans()):
            text = json.dumps(chunk, indent=1)
        lines += [*(draw(st.sampled_from(["data: ", "data:"])) + part for part in text.split("\n")), ""]
    if draw(st.booleans()):
        lines += ["data: [DONE]", ""]
    body = end.join([*lines, ""])
    return response, body.encode("utf-8", "surrogatepass")


@settings(max_examples=200, deadline=None)
@given(event_streams())
def test_a_stream_says_what_the_plain_answer_says(case):
    response, body = case
    plain = CHAT.parse(json.dumps(response).encode(), stream=False)
    streamed = CHAT.parse(body, stream=True)
    assert (streamed.message, streamed.text, streamed.calls) == (plain.message, plain.text, plain.calls)
    assert (streamed.finish_reason, streamed.usage) == (plain.finish_reason, plain.usage)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_deltas_may_be_cut_anywhere(data):
    text, args = data.draw(st.text(max_size=40)), data.draw(st.text(max_size=40))
    deltas = [{"content": part} for part in pieces(text, data.draw)]
    deltas += [{"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": {"name": "f"}}]}]
    deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": part}}]} for part in pieces(args, data.draw)]
    events = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    reply = CHAT.parse("".join(f"data: {json.dumps(event)}\n\n" for event in events).encode(), stream=True)
    assert reply.text == text
    assert [call.raw_arguments for call in reply.calls] == [args]


@settings(max_examples=100, deadline=None)
@given(responses(), st.sets(names))
def test_without_calls_leaves_an_answer_that_can_be_sent_back(response, gone):
    left = CHAT.without_calls(response, frozenset(gone))
    reply = CHAT.parse(CHAT.render(left, stream=False), stream=False)
    assert all(call.name not in gone for call in reply.calls)
    assert (reply.finish_reason == "tool_calls") == bool(reply.calls)
    results = CHAT.results(reply.message, {call.id: "" for call in reply.calls})
    assert CHAT.problems([CHAT.user("x"), reply.message, *results]) == []


def places(value):
    """Every place in a JSON value, as a path of keys."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(), *((key, *rest) for key, item in items for rest in places(item))]


@settings(max_examples=300, deadline=None)
@given(responses(), st.booleans(), st.sampled_from([None, True, 7, "x", [], ["x"], {}, {"x": 1}]), st.data())
def test_whatever_a_server_sends_is_an_answer_or_a_provider_error(response, stream, odd, data):
    payloads = list(chunks(response, usage=False)) if stream else [response]
    at = data.draw(st.integers(0, len(payloads) - 1))
    *path, last = data.draw(st.sampled_from(places(payloads[at])[1:]))
    inner = payloads[at]
    for key in path:
        inner = inner[key]
    inner[last] = odd
    body = "".join(f"data: {json.dumps(payload)}\n\n" for payload in payloads) if stream else json.dumps(payloads[0])
    with contextlib.suppress(ProviderError):
        reply = CHAT.parse(body.encode(), stream=stream)
        CHAT.results(reply.message, {call.id: "" for call in reply.calls})
        CHAT.canonical(reply.message)
        CHAT.without_calls(reply.response, frozenset({"bash"}))
        CHAT.render(reply.response, stream=stream)


odd_values = st.sampled_from([None, True, 7, "x", "", [], ["x"], [{}], {}, {"x": 1}, {"type": []}])


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=4), odd_values, st.data())
def test_whatever_a_harness_sends_is_understood_or_passed_through(calls, odd, data):
    run = Conversation()
    for number in calls:
        run.step(number, user=False)
    body = {"model": "m", "messages": run.raw, "tools": [{"type": "function", "function": {"name": "bash"}}]}
    body = json.loads(json.dumps(body))
    *path, last = data.draw(st.sampled_from(places(body)[1:]))
    inner = body
    for key in path:
        inner = inner[key]
    inner[last] = odd
    if CHAT.problems_with(body) is None:
        messages = CHAT.messages(body)
        CHAT.problems(messages)
        json.dumps([CHAT.canonical(message) for message in messages])
        CHAT.with_tools(body, TOOLS)
        CHAT.params(body)
        CHAT.model(body)


# --- provider-valid after every possible cut --------------------------------------------------------------------------


class Conversation:
    """A harness and its interposer as rewind.md section 4 has them, without any engine."""

    def __init__(self) -> None:
        self.raw = [{"role": "system", "content": "s"}, {"role": "user", "content": "task"}]
        self.edits: tuple[Edit, ...] = ()
        self.live = [True, True]
        """Of each raw message: whether it is on the present path."""
        self.calls: list[tuple[int, tuple[Edit, ...], list, list[bool]]] = []
        self.notes: list[str] = []
        self.made = 0

    @property
    def effective(self):
        return splice(self.raw, self.edits)

    def ids(self, count):
        self.made += count
        return [f"call_{self.made - at}" for at in range(count)]

    def ask(self):
        """A call: what is needed to come back to it."""
        self.calls.append((len(self.raw), self.edits, self.effective, list(self.live)))

    def assistant(self, ids, name="bash"):
        calls = [{"id": item, "type": "function", "function": {"name": name, "arguments": "{}"}} for item in ids]
        return {"role": "assistant", "content": f"turn {self.made} {len(self.raw)}"} | (
            {"tool_calls": calls} if calls else {}
        )

    def say(self, *messages):
        self.raw = [*self.raw, *messages]
        self.live += [True] * len(messages)

    def step(self, calls, user):
        """A call that the harness gets its answer to, the results of its tools, and perhaps a word of the user."""
        self.ask()
        message = self.assistant(self.ids(calls))
        self.say(message, *CHAT.results(message, {item["id"]: "ok" for item in message.get("tool_calls", ())}))
        if user or not calls:
            self.say({"role": "user", "content": f"go on {len(self.raw)}"})

    def listing(self):
        """A call whose answer is a rewind tool: answered in between, the harness never sees it."""
        self.ask()
        message = self.assistant(self.ids(1), CANDIDATES)
        results = CHAT.results(message, {item["id"]: "list" for item in message["tool_calls"]})
        end = len(self.raw)
        self.edits = (*self.edits, Edit(end, end, (message, *results)))

    def rewind(self, target):
        """From a call made now back to call `target`, on whatever branch that is."""
        self.ask()
        length, edits, prefix, live = self.calls[target]
        self.notes.append(f"note {len(self.notes)}")
        missing = [note for note in self.notes if note not in held_notes(edits)]
        memory = CHAT.memory("\n".join(f"<{note}>" for note in missing), "system")
        here = Edit(length, len(self.raw), (memory,), f"b{len(self.notes)}", tuple(missing))
        self.edits = (*edits, here)
        self.live = [*live, *[False] * (len(self.raw) - length)]
        return prefix


def held_notes(edits):
    return {note for edit in edits for note in edit.notes}


moves = st.lists(
    st.tuples(st.sampled_from(["step", "step", "step", "list", "rewind"]), st.integers(0, 3), st.booleans()),
    max_size=25,
)


@settings(max_examples=300, deadline=None)
@given(moves)
def test_after_any_rewinds_the_list_is_valid_and_holds_what_it_must(moves):
    run = Conversation()
    run.step(1, user=False)
    for kind, number, user in moves:
        match kind:
            case "step":
                run.step(number, user)
            case "list":
                run.listing()
            case "rewind":
                prefix = run.rewind(number * 7 % len(run.calls))
                effective = run.effective
                assert effective[: len(prefix)] == prefix
                assert len(effective) == len(prefix) + 1
                text = json.dumps(effective)
                assert [text.count(f"<{note}>") for note in run.notes] == [1] * len(run.notes)
        effective = run.effective
        assert CHAT.problems(effective) == []
        assert refusal({"model": "m", "messages": effective}) is None
        present = [message for message, live in zip(run.raw, run.live, strict=True) if live]
        inserted = [message for edit in run.edits for message in edit.inserted]
        assert [message for message in effective if not any(message is item for item in inserted)] == present


@settings(max_examples=100, deadline=None)
@given(moves)
def test_without_edits_a_list_is_what_the_harness_sent(moves):
    run = Conversation()
    for _, number, user in moves:
        run.step(number, user)
    assert splice(run.raw, ()) == run.raw
    assert CHAT.messages(CHAT.with_messages({"model": "m", "messages": []}, run.raw)) == run.raw


@settings(max_examples=200, deadline=None)
@given(moves, st.data())
def test_a_broken_pair_is_seen(moves, data):
    run = Conversation()
    run.step(2, user=False)
    for _, number, user in moves:
        run.step(number, user)
    tools = [index for index, message in enumerate(run.raw) if message["role"] == "tool"]
    index = data.draw(st.sampled_from(tools))
    gone = [*run.raw[:index], *run.raw[index + 1 :]]
    doubled = [*run.raw[: index + 1], *run.raw[index:]]
    for broken in (gone, doubled):
        assert CHAT.problems(broken)
        assert refusal({"model": "m", "messages": broken})
