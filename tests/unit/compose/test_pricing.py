"""Prices are looked up once, when a call ends, and stand in its record."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json

import genai_prices
import pytest

from agentrewind.compose.pricing import NO_TABLE, Priced, price
from agentrewind.core.cost import costs
from agentrewind.core.records import LlmInput, MessageList, NodeEnded, Usage
from agentrewind.core.wire import WireReply
from agentrewind.dialects.openai_chat import OpenAIChat
from agentrewind.engine.session import Session
from tests.unit.engine.wire import Harness, answer
from tests.unit.engine.worlds import MemoryLog, MemoryWorld

VERSION = importlib.metadata.version("genai-prices")
NOW = 1_790_000_000 * 10**9


def llm(model: str, dialect: str = "openai_chat") -> LlmInput:
    return LlmInput(model, MessageList(), dialect=dialect)


def test_the_price_is_that_of_the_table_and_the_record_names_the_entry() -> None:
    usd, by = price(llm("gpt-4o"), Usage(1000, 100, cached=400, reasoning=20), {}, NOW)
    expected = genai_prices.calc_price(
        genai_prices.Usage(input_tokens=1000, output_tokens=100, cache_read_tokens=400), "gpt-4o"
    )
    assert usd == float(expected.total_price) > 0
    assert by == f"genai-prices {VERSION}: openai/gpt-4o"


def test_what_is_written_to_the_cache_costs_more_and_for_an_hour_more_still() -> None:
    model = llm("claude-sonnet-4-5", "anthropic_messages")
    plain, short, long = (
        price(model, Usage(10_000, 10, cache_write=written, cache_write_1h=hour), {}, NOW)[0]
        for written, hour in ((0, 0), (9000, 0), (9000, 9000))
    )
    assert plain < short < long


def test_the_model_that_answered_counts_before_the_one_that_was_asked_for() -> None:
    usd, by = price(llm("gpt-4o"), Usage(1000, 100), {"model": "gpt-4o-mini"}, NOW)
    assert by.endswith("openai/gpt-4o-mini")
    assert usd == price(llm("gpt-4o-mini"), Usage(1000, 100), {}, NOW)[0]


@pytest.mark.parametrize(
    ("model", "usage", "why"),
    [
        ("scripted", Usage(10, 2), f"genai-prices {VERSION} doesn't know the model 'scripted'"),
        ("", Usage(10, 2), f"genai-prices {VERSION} doesn't know the model ''"),
        ("gpt-4o", Usage(), "the server said no token numbers"),
        ("gpt-4o", Usage(10, 2, cached=999), "the server's token numbers don't fit together"),
    ],
)
def test_what_has_no_price_says_why(model: str, usage: Usage, why: str) -> None:
    assert price(llm(model), usage, {"model": 7}, NOW) == (None, why)


def test_without_the_table_nothing_is_priced_and_the_record_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert price(llm("gpt-4o"), Usage(10, 2), {}, NOW) == (None, NO_TABLE)


def test_a_recorded_call_keeps_its_price_whatever_the_table_says_later(monkeypatch) -> None:
    log = MemoryLog()
    session = Session(Priced(log), MemoryWorld(), [OpenAIChat()])
    Harness(session, MemoryWorld()).step(as_model("gpt-4o"))
    session.end("done", ok=True)
    ended = next(event for event in log.events if isinstance(event, NodeEnded))
    first = costs(log.events)
    assert ended.usage.usd == first.total.usd > 0
    monkeypatch.setattr(genai_prices, "calc_price", None)
    assert costs(log.events) == first


def test_a_server_that_streams_no_usage_makes_the_call_unknown() -> None:
    log = MemoryLog()
    session = Session(Priced(log), MemoryWorld(), [OpenAIChat()])
    body = b'data: {"id":"r","model":"gpt-4o","choices":[{"index":0,"delta":{"role":"assistant","content":"hi"}}]}\n\n'
    body += b'data: {"id":"r","model":"gpt-4o","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    request = {"model": "gpt-4o", "messages": [{"role": "user", "content": "x"}], "stream": True}
    session.call("/v1/chat/completions", request, lambda _: WireReply(200, (), body + b"data: [DONE]\n\n"))
    total = costs(log.events).total
    assert (total.uncounted, total.unpriced, total.usd) == (1, 1, None)


def as_model(name: str):
    """A provider that answers as this model."""

    def send(_: dict) -> WireReply:
        return WireReply(200, (), json.dumps({**json.loads(answer(text="hi")), "model": name}).encode())

    return send
