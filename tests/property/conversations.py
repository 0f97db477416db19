"""What the property tests of the dialects share: streams in any form, places in JSON, and a harness with its edits."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from agentrewind.core.edits import Edit, splice
from agentrewind.core.tools import CANDIDATES
from agentrewind.testing.scripted import Call, Turn

texts = st.text(max_size=30)
names = st.sampled_from(["bash", "read", "write"])
arguments = st.dictionaries(st.text(min_size=1, max_size=5), st.none() | st.integers() | texts, max_size=3)
odd_values = st.sampled_from([None, True, 7, "x", "", [], ["x"], [{}], {}, {"x": 1}, {"type": []}, [{"type": "text"}]])


@st.composite
def turns(draw):
    calls = draw(st.lists(st.tuples(names, arguments | st.just("{broken")), max_size=3))
    return Turn(draw(texts), tuple(Call(*call) for call in calls), draw(texts), draw(st.sampled_from(["", "length"])))


def pieces(text, draw):
    """The text cut at random places."""
    at = sorted(draw(st.sets(st.integers(0, len(text)), max_size=4)))
    return [text[start:stop] for start, stop in zip([0, *at], [*at, len(text)], strict=True)]


def places(value):
    """Every place in a JSON value, as a path of keys."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(), *((key, *rest) for key, item in items for rest in places(item))]


def spoiled(value, odd, draw):
    """A copy with `odd` at a random place."""
    value = json.loads(json.dumps(value))
    *path, last = draw(st.sampled_from(places(value)[1:]))
    inner = value
    for key in path:
        inner = inner[key]
    inner[last] = odd
    return value


def body_of(payloads, draw):
    """The payloads as an event stream with any line ends, comments, names or none, and data over several lines."""
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    named = draw(st.booleans())
    lines = []
    for payload in payloads:
        if draw(st.booleans()):
            lines += [": keep-alive", ""]
        lines += [f"event: {payload['type']}"] if named else []
        text = json.dumps(payload, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1])))
        lines += [*(draw(st.sampled_from(["data: ", "data:"])) + part for part in text.split("\n")), ""]
    return end.join([*lines, ""]).encode("utf-8", "surrogatepass")


# --- a harness and its interposer, as rewind.md section 4 has them, without any engine --------------------------------

moves = st.lists(
    st.tuples(
        st.sampled_from(["step", "step", "step", "list", "rewind"]),
        st.integers(0, 3),
        st.booleans(),
        st.sampled_from(["", "hm"]),
    ),
    max_size=20,
)


class Conversation:
    """Every request goes to a strict provider, which must not refuse it.

    Args:
        harness: `body()` gives a request without messages, `start` and `spoken(results, text)` what the harness says.
        api: the provider.
    """

    def __init__(self, dialect, api, harness) -> None:
        self.dialect, self.api, self.harness = dialect, api, harness
        self.raw = list(harness.start)
        self.edits: tuple[Edit, ...] = ()
        self.live = [True] * len(self.raw)
        """Of each raw message: whether it is on the present path."""
        self.calls: list[tuple[int, tuple[Edit, ...], list, list[bool]]] = []
        self.notes: list[str] = []
        self.made = 0
        self.answers = 0
        self.history: dict[str, list] = {}
        self.last = ""

    @property
    def effective(self):
        return splice(self.raw, self.edits)

    def request(self):
        """What goes upstream, made from what the harness sends: all of it, or what is new after the last answer."""
        body = self.harness.request(self.raw, self.last, len(self.history.get(self.last, ())))
        prior = self.dialect.continues(body)
        raw = [*self.history.get(prior, ()), *self.dialect.messages(body)]
        assert [self.dialect.canonical(item) for item in raw] == [self.dialect.canonical(item) for item in self.raw]
        return self.dialect.with_messages(self.dialect.as_whole(body, raw), splice(raw, self.edits))

    def is_valid(self, messages):
        assert self.dialect.problems(messages) == []
        body = self.dialect.with_messages(self.request(), messages)
        assert self.api.refusal(json.loads(json.dumps(body))) is None

    def ask(self, turn):
        """One call: what is needed to come back to it, and the provider's answer."""
        body = json.loads(json.dumps(self.request()))
        assert self.api.refusal(body) is None
        self.calls.append((len(self.raw), self.edits, self.effective, list(self.live)))
        self.answers += 1
        response = self.api.response(body, turn, self.answers, self.made + 1)
        self.made += len(turn.calls)
        self.api.keep(body, response)
        stream = self.answers % 2 == 0
        return self.dialect.parse(self.dialect.render(response, stream=stream), stream=stream)

    def say(self, *messages):
        self.raw = [*self.raw, *messages]
        self.live += [True] * len(messages)

    def step(self, calls, user, reasoning):
        """A call that the harness gets its answer to, the results of its tools, and perhaps a word of the user."""
        asked = tuple(Call("bash", {"n": number}) for number in range(calls))
        reply = self.ask(Turn(f"turn {len(self.raw)}", asked, reasoning))
        self.say(*reply.messages)
        self.last = self.dialect.reply_id(reply) or ""
        self.history[self.last] = list(self.raw)
        results = self.dialect.results(reply.messages, {call.id: "ok" for call in reply.calls})
        self.say(*self.harness.spoken(results, f"go on {len(self.raw)}" if user or not calls else ""))

    def listing(self, reasoning):
        """A call whose answer is a rewind tool: answered in between, the harness never sees it."""
        reply = self.ask(Turn("", (Call(CANDIDATES, {}), Call("bash", {})), reasoning))
        results = self.dialect.results(reply.messages, {call.id: "list" for call in reply.calls})
        end = len(self.raw)
        self.edits = (*self.edits, Edit(end, end, (*reply.messages, *results)))

    def cut(self, target):
        """The edits of a rewind from here to call `target`, and the notes that stand in them."""
        length, edits, _, live = self.calls[target]
        held = {note for edit in edits for note in edit.notes}
        missing = tuple(note for note in self.notes if note not in held)
        memory = self.dialect.memory("".join(f"<{note}>" for note in missing) or "nothing", "system")
        here = Edit(length, len(self.raw), (memory,), f"b{len(self.notes)}", missing)
        return (*edits, here), [*live, *[False] * (len(self.raw) - length)]

    def rewind(self, target):
        """From here back to call `target`, on whatever branch that is; what stood before the call then."""
        self.notes.append(f"note {len(self.notes)}")
        prefix = self.calls[target][2]
        self.edits, self.live = self.cut(target)
        return prefix

    def play(self, moves):
        """Carry out the moves; after each, the list holds what it must and is valid."""
        self.step(1, user=False, reasoning="hm")
        for kind, number, user, reasoning in moves:
            match kind:
                case "step":
                    self.step(number, user, reasoning)
                case "list":
                    self.listing(reasoning)
                case "rewind":
                    prefix = self.rewind(number * 7 % len(self.calls))
                    assert self.effective[: len(prefix)] == prefix
                    assert len(self.effective) == len(prefix) + 1
            self.holds_what_it_must()
        for target in range(len(self.calls)):
            self.is_valid(splice(self.raw, self.cut(target)[0]))

    def holds_what_it_must(self):
        effective = self.effective
        self.is_valid(effective)
        text = json.dumps(self.request())
        if self.edits and self.edits[-1].notes:
            assert [text.count(f"<{note}>") for note in self.notes] == [1] * len(self.notes)
        present = [message for message, live in zip(self.raw, self.live, strict=True) if live]
        inserted = [message for edit in self.edits for message in edit.inserted]
        assert [message for message in effective if not any(message is item for item in inserted)] == present
