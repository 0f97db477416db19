"""Bodies that grow are read and written as the JSON library would, whatever they have in common with earlier ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrewind.integrations.proxy.growing import Growing

TEXTS = st.text(max_size=8) | st.sampled_from(['"', "\\", "}", "],", '{"role":', "käse 🧀", "\u2028", "[" * 5])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3))
MESSAGES = st.fixed_dictionaries({"role": st.sampled_from(["user", "tool"]), "content": VALUES})
FORMS = st.sampled_from(
    [{}, {"separators": (",", ":")}, {"indent": 1}, {"ensure_ascii": False}, {"separators": (" ,\t", "\r\n: ")}]
)


@st.composite
def talks(draw: st.DrawFn) -> list[tuple[bytes, Any]]:
    """Bodies one after the other, each with its text: longer, shorter, changed in the middle, of something else."""
    form, found, messages = draw(FORMS), [], draw(st.lists(MESSAGES, max_size=4))
    name, before, after = draw(st.sampled_from(["messages", "input"])), draw(VALUES), draw(VALUES)
    for _ in range(draw(st.integers(1, 6))):
        match draw(st.sampled_from(["more", "less", "changed", "other", "fields"])):
            case "more":
                messages = [*messages, *draw(st.lists(MESSAGES, max_size=3))]
            case "less":
                messages = messages[: draw(st.integers(0, len(messages)))]
            case "changed" if messages:
                place = draw(st.integers(0, len(messages) - 1))
                messages = [*messages[:place], draw(MESSAGES), *messages[place + 1 :]]
            case "fields":
                before, after = draw(VALUES), draw(VALUES)
            case _:
                messages = draw(st.lists(MESSAGES, max_size=4))
        body = {"model": before, name: messages, "more": after}
        found.append((json.dumps(body, **form).encode("utf-8", "surrogatepass"), body))
    return found


@settings(deadline=None)
@given(talks(), st.data())
def test_all_is_read_as_it_is_and_written_as_it_was_read_with_what_was_put_in_between(talk, data) -> None:
    growing = Growing()
    for content, body in talk:
        found = growing.read(content)
        assert json.dumps(found) == json.dumps(body)
        assert json.loads(growing.write(found)) == body
        name = "messages" if "messages" in body else "input"
        first = data.draw(st.integers(0, len(body[name])))
        last = data.draw(st.integers(first, len(body[name])))
        put = data.draw(st.lists(MESSAGES, max_size=2))
        edited = {**found, name: [*found[name][:first], *put, *found[name][last:]], "tools": []}
        expected = {**body, name: [*body[name][:first], *put, *body[name][last:]], "tools": []}
        assert json.loads(growing.write(edited)) == expected
        assert json.dumps(found) == json.dumps(body)


@settings(deadline=None)
@given(st.lists(MESSAGES, min_size=1, max_size=6), st.integers(0, 5), FORMS)
def test_of_a_body_that_goes_on_only_what_is_new_is_parsed(messages, cut, form) -> None:
    growing = Growing()
    cut = min(cut, len(messages))
    earlier = growing.read(json.dumps({"messages": messages[:cut]}, **form).encode())
    later = growing.read(json.dumps({"messages": messages}, **form).encode())
    assert all(one is other for one, other in zip(earlier["messages"], later["messages"], strict=False))


def test_a_change_in_the_middle_leaves_what_stands_before_it() -> None:
    growing = Growing()
    messages = [{"role": "user", "content": f"number {number}"} for number in range(100)]
    earlier = growing.read(json.dumps({"model": "m", "messages": messages}).encode())
    messages[63] = {"role": "user", "content": "another"}
    later = growing.read(json.dumps({"model": "m", "messages": messages}).encode())
    same = [one is other for one, other in zip(earlier["messages"], later["messages"], strict=True)]
    assert same == [True] * 63 + [False] * 37


def test_what_was_sent_goes_on_as_it_was_sent() -> None:
    growing = Growing()
    first, second = '{"role" : "user", "content": 1.50}', '{"content":"\\u00e9", "role":"user"}'
    for text in (f'{{"messages": [{first}]}}', f'{{"messages": [{first} ,\n{second} ]}}'):
        body = growing.read(text.encode())
    new = {"role": "system", "content": "note"}
    assert growing.write({"messages": body["messages"]}).decode() == f'{{"messages":[{first} ,\n{second}]}}'
    wanted = f'{{"messages":[{{"role":"system","content":"note"}},{second}]}}'
    assert growing.write({"messages": [new, body["messages"][1]]}).decode() == wanted


@pytest.mark.parametrize(
    "content",
    [
        b'{"messages": [{"a": 1}], "messages": [{"a": 2}]}',
        b'{"model": 1, "model": 2, "messages": [{"a": 1}]}',
        b'{"messages": [1, {"a": 1}], "x": NaN}',
        b'{"messages": []}',
        b'{"messages": {}, "input": "text"}',
        b'{"messages": [{"a": 1}], "input": [{"b": 2}]}',
        b"[1]",
        b" null ",
        b'\xef\xbb\xbf{"messages": [{"a": 1}]}',
        '{"messages": [{"a": 1}]}'.encode("utf-16"),
        b'{"messages": [{"a": "\xed\xa0\x80"}]}',
        b'{"messages": [{"a": "\\ud800"}]}',
        b"{}",
        b"",
        b"{",
        b'{"messages"',
        b'{"messages": [{"a": 1}',
        b'{"messages": [{"a": 1},]}',
        b'{"messages": [{"a": 1}],}',
        b'{"messages": [{"a": 1}]} x',
        b'{"messages": [{"a": 1} {"b": 1}]}',
        b'{"messages": [{"a": 1}] "x": 1}',
        b"\xff",
    ],
)
def test_odd_bodies_are_what_the_library_says_also_after_another_one(content: bytes) -> None:
    def as_read(read) -> Any:
        try:
            return repr(read(content))
        except ValueError:
            return "no JSON"

    growing = Growing()
    assert as_read(growing.read) == as_read(json.loads)
    growing.read(b'{"messages": [{"a": 1}]}')
    assert as_read(growing.read) == as_read(json.loads)
    if as_read(json.loads) != "no JSON":
        body = growing.read(content)
        assert repr(json.loads(growing.write(body))) == repr(body)


def test_it_remembers_no_more_than_some_conversations() -> None:
    growing = Growing()
    for number in range(100):
        growing.read(json.dumps({"messages": [{"of": number}, {"text": "x" * 1000}]}).encode())
    assert len(growing._known) == 16
    for number in range(20):
        growing.read(json.dumps({"messages": [{"of": number}, {"text": "x" * 4_000_000}]}).encode())
    assert sum(len(known.text) for known in growing._known) <= 32 << 20
