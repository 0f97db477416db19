"""Whether a new process asks what was asked before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentrewind.dialects.openai_chat import OpenAIChat
from agentrewind.engine.matching import ALLOWED, SHOWN, WIDTH, Asked, Verdict, compare

TOOLS = [{"type": "function", "function": {"name": "shell"}}]
ASKED = Asked(
    "m",
    {"temperature": 0},
    TOOLS,
    [{"role": "system", "content": "It is 12:00. Be brief."}, {"role": "user", "content": "do it"}],
)


def judged(**changed):
    return compare(ASKED, replace(ASKED, **changed), OpenAIChat().canonical)


def test_the_same_question_is_exact_and_nothing_is_said():
    found = judged(messages=[dict(message) for message in ASKED.messages])
    assert (found.verdict, found.differences) == (Verdict.EXACT, ())


@pytest.mark.parametrize("name", sorted(ALLOWED))
def test_a_parameter_that_may_differ_is_soft_and_named(name):
    found = judged(params={"temperature": 0, name: "x"})
    assert found.verdict is Verdict.SOFT
    assert found.differences == (f"params.{name} was None, is 'x'",)


def test_a_volatile_field_of_a_message_is_soft():
    first, second = ASKED.messages
    found = judged(messages=[{**first, "cache_control": {"type": "ephemeral"}}, second])
    assert found.verdict is Verdict.SOFT
    assert "messages[0].cache_control" in found.differences[0]


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ({"model": "other"}, "model was 'm', is 'other'"),
        ({"params": {"temperature": 1}}, "params.temperature was 0, is 1"),
        ({"tools": []}, "tools had 1 items, has 0"),
        ({"messages": ASKED.messages[:1]}, "messages had 2 items, has 1"),
        ({"messages": [*ASKED.messages, {"role": "user", "content": "and"}]}, "messages had 2 items, has 3"),
        (
            {"messages": [{"role": "system", "content": "It is 12:01. Be brief."}, ASKED.messages[1]]},
            "messages[0].content was 'It is 12:00. Be brief.', is 'It is 12:01. Be brief.'",
        ),
    ],
)
def test_anything_else_is_hard_and_says_where(changed, where):
    found = judged(**changed)
    assert found.verdict is Verdict.HARD
    assert where in found.differences


def test_a_soft_difference_doesnt_hide_a_hard_one():
    assert judged(params={"temperature": 1, "user": "x"}).verdict is Verdict.HARD


def test_long_texts_are_shown_where_they_differ_and_few_differences_are_shown():
    old = [{"role": "user", "content": "x" * 5000 + f"old{n}"} for n in range(50)]
    new = [{"role": "user", "content": "x" * 5000 + f"new{n}"} for n in range(50)]
    found = compare(replace(ASKED, messages=old), replace(ASKED, messages=new), OpenAIChat().canonical)
    assert len(found.differences) == SHOWN
    assert all("old" in line and "new" in line for line in found.differences)
    assert max(map(len, found.differences)) < 3 * WIDTH
