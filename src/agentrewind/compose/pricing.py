"""What each call costs, by a maintained table, written into its record when it ends: a later report says the same."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import sys
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from agentrewind.core.codec import Json
from agentrewind.core.records import Event, LlmInput, MessageId, MessageList, NodeEnded, NotesMerged, Usage
from agentrewind.engine.checkpointer import Log
from agentrewind.engine.logs import InFront

TABLE = "genai-prices"
NO_TABLE = "no price table was installed (`pip install 'agentrewind[prices]'` adds it)"

_PROVIDERS = {"anthropic_messages": "anthropic"}
_CUT = 60


class Priced(InFront[Log]):
    """A journal that adds the price to each answer that goes into it."""

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self._newest: tuple[MessageId, Json] | None = None

    def put(self, content: Json) -> MessageId:
        found = self._log.put(content)
        self._newest = (found, content)
        return found

    def _response(self, output: MessageId) -> Json:
        """An answer; the one that was put last, as nearly every one is, isn't read again."""
        if self._newest is not None and self._newest[0] == output:
            return self._newest[1]
        return self.get(output)

    def append(self, event: Event) -> None:
        match event:
            case NodeEnded():
                self._log.append(self._priced(event))
            case NotesMerged(output=output) if output is not None:
                self._log.append(_priced_merge(event, self._response(output)))
            case _:
                self._log.append(event)

    def _priced(self, event: NodeEnded) -> NodeEnded:
        node = self.tree.nodes.get(event.uid)
        if node is None or node.began.llm is None or event.output is None:
            return event
        usd, priced = price(node.began.llm, event.usage, self._response(event.output), node.began.started_ns)
        return replace(event, usage=replace(event.usage, usd=usd), priced=sys.intern(priced))


def _priced_merge(event: NotesMerged, response: Json) -> NotesMerged:
    llm = LlmInput(event.model, MessageList(), dialect=event.dialect)
    usd, priced = price(llm, event.usage, response, event.at_ns)
    return replace(event, usage=replace(event.usage, usd=usd), priced=priced)


def price(llm: LlmInput, usage: Usage, response: Json, at_ns: int) -> tuple[float | None, str]:
    """The list price of a call in US dollars, and which entry of which table it is by; None, and why there is none.

    The model is the one that the provider says it used, else the one that was asked for.
    """
    if not usage.known:
        return None, "the server said no token numbers"
    if importlib.util.find_spec("genai_prices") is None:
        return None, NO_TABLE
    answer = response if isinstance(response, dict) else {}
    models = [name for name in dict.fromkeys((answer.get("model"), llm.model)) if isinstance(name, str) and name]
    try:
        found = next(filter(None, (_looked_up(name, llm.dialect, usage, answer, at_ns) for name in models)), None)
    except ValueError:
        return None, "the server's token numbers don't fit together"
    if found is None:
        return None, f"{TABLE} {_version()} doesn't know the model {llm.model[:_CUT]!r}"
    by = f"{TABLE} {_version()}"
    if found.auto_update_timestamp is not None:
        by += f" as of {found.auto_update_timestamp:%Y-%m-%d}"
    return float(found.total_price), f"{by}: {found.provider.id}/{found.model.id}"


def _looked_up(model: str, dialect: str, usage: Usage, answer: dict[str, Json], at_ns: int) -> Any:
    """A price calculation of genai-prices, or None. Raises: ValueError: it refuses the numbers."""
    import genai_prices

    counts = genai_prices.Usage(
        input_tokens=usage.input,
        output_tokens=usage.output,
        cache_read_tokens=usage.cached,
        cache_write_tokens=usage.cache_write,
        cache_write_1h_tokens=usage.cache_write_1h,
        output_reasoning_tokens=usage.reasoning,
    )
    tier = answer.get("service_tier")
    context = {"service_tier": tier} if isinstance(tier, str) else None
    when = datetime.fromtimestamp(at_ns / 1e9, UTC)
    for provider in dict.fromkeys((_PROVIDERS.get(dialect), None)):
        try:
            return genai_prices.calc_price(
                counts, model, provider_id=provider, genai_request_timestamp=when, price_context=context
            )
        except LookupError:
            continue
    return None


@functools.cache
def _version() -> str:
    return importlib.metadata.version("genai-prices")
