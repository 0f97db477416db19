"""The signal gets through what harnesses catch, and says nothing that a retryer could take for a rate limit."""

from __future__ import annotations

import asyncio

import pytest

from agentrewind.engine.signal import RewindSignal


@pytest.mark.parametrize(
    "kind", [Exception, KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError, BaseExceptionGroup]
)
def test_it_is_none_of_those_that_somebody_handles(kind):
    assert not issubclass(RewindSignal, kind)


def test_its_text_is_always_the_same_and_holds_no_digit():
    assert str(RewindSignal()) == str(RewindSignal())
    assert not any(character.isdigit() for character in f"{RewindSignal()!r}")
