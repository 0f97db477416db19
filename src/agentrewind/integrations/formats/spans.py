"""OpenTelemetry spans with the GenAI conventions: one tree a branch, sent to an OTLP receiver after the fact.

`invoke_agent` holds a `chat` for each model call and an `execute_tool` for each recorded tool call of its branch. What
a branch kept of an earlier one isn't sent again: a link leads to the call that it forked at. Ids follow from those of
the run, so that a second export names the same spans. Needs the extra `otel`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from agentrewind.core.codec import Json
from agentrewind.core.errors import AgentRewindError, UsageError
from agentrewind.core.records import BranchId, Failure
from agentrewind.core.tree import Branch, Node
from agentrewind.integrations.formats.conversation import Said, Turn, threads_of, turns
from agentrewind.journal.reader import RunLog

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

BATCH = 200
_PROVIDERS = {"anthropic_messages": "anthropic", "openai_chat": "openai", "openai_responses": "openai"}
_PARAMS = {
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "top_k": "gen_ai.request.top_k",
    "max_tokens": "gen_ai.request.max_tokens",
    "max_completion_tokens": "gen_ai.request.max_tokens",
    "max_output_tokens": "gen_ai.request.max_tokens",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "presence_penalty": "gen_ai.request.presence_penalty",
    "seed": "gen_ai.request.seed",
}


class NotReceived(AgentRewindError):
    """The receiver didn't take the spans; earlier batches may be there."""


def export_spans(log: RunLog, url: str, *, content: bool = False, timeout_s: float = 10.0) -> int:
    """Send the spans of a run to `url`, batch by batch; how many. `content` adds messages, arguments and results.

    Raises:
        UsageError: the extra isn't installed, or this is no URL. NotReceived.
    """
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"{url!r} is not the address of an OTLP receiver, like http://localhost:4318/v1/traces.")
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import SpanExportResult
    except ImportError as error:
        raise UsageError("OTLP needs more packages: `pip install 'agentrewind[otel]'` adds them.") from error
    exporter = OTLPSpanExporter(endpoint=url, timeout=timeout_s)
    sent = 0
    batch: list[ReadableSpan] = []
    try:
        for span in spans(log, content=content):
            batch.append(span)
            if len(batch) == BATCH:
                sent += _sent(exporter, batch, SpanExportResult.SUCCESS, url)
                batch = []
        sent += _sent(exporter, batch, SpanExportResult.SUCCESS, url) if batch else 0
    finally:
        exporter.shutdown()
    return sent


def _sent(exporter: Any, batch: Sequence[ReadableSpan], success: Any, url: str) -> int:
    if exporter.export(batch) is not success:
        raise NotReceived(f"The receiver at {url} did not take the spans; the run is as it was. Is it listening there?")
    return len(batch)


def spans(log: RunLog, *, content: bool = False) -> Iterator[ReadableSpan]:
    """The spans of a run, those of a branch after one another."""
    return _Spans(log, content=content).all()


class _Spans:
    def __init__(self, log: RunLog, *, content: bool) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        started = log.tree.started
        self._log, self._content = log, content
        self._run = started.run_id if started else log.run_dir.name
        version = started.version if started else ""
        self._resource = Resource({"service.name": "agentrewind", "service.version": version})
        self._scope = InstrumentationScope("agentrewind", version)
        self._nodes: dict[BranchId, list[Node]] = {branch: [] for branch in log.tree.branches}
        for node in log.tree.nodes.values():
            self._nodes[node.began.branch].append(node)

    def all(self) -> Iterator[ReadableSpan]:
        for branch in self._log.tree.branches.values():
            if self._nodes[branch.id]:
                yield self._agent(branch)
                yield from self._calls(branch)

    def _calls(self, branch: Branch) -> Iterator[ReadableSpan]:
        nodes = self._nodes[branch.id]
        yield from (self._tool(node) for node in nodes if not node.is_llm)
        path = self._log.tree.path(nodes[-1].uid)
        own = {node.uid for node in nodes}
        for thread in threads_of(path):
            for turn in turns(self._log, path, thread):
                if turn.node.uid in own:
                    yield self._chat(turn)

    def _agent(self, branch: Branch) -> ReadableSpan:
        from opentelemetry.trace import Link

        nodes, started = self._nodes[branch.id], self._log.tree.started
        name = (started.agent if started else "") or "agent"
        attributes: dict[str, Json] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": name,
            "gen_ai.conversation.id": self._run,
            "agentrewind.branch": branch.id,
        }
        links = []
        if branch.forked_at is not None:
            links = [Link(self._context(branch.forked_at), {"agentrewind.forked_at": branch.forked_at})]
            attributes["agentrewind.forked_at"] = branch.forked_at
        if self._content and branch.opened_by is not None and branch.opened_by.note:
            attributes["agentrewind.note"] = branch.opened_by.note
        begun, ended = min(node.began.started_ns for node in nodes), max(map(_end_ns, nodes))
        return self._span(f"invoke_agent {name}", f"branch {branch.id}", (begun, ended), attributes, links=links)

    def _chat(self, turn: Turn) -> ReadableSpan:
        from opentelemetry.trace import SpanKind

        node, reply = turn.node, turn.reply
        llm, ended = node.began.llm, node.ended
        assert llm is not None
        attributes: dict[str, Json] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _PROVIDERS.get(llm.dialect, llm.dialect),
            "gen_ai.request.model": llm.model,
            "gen_ai.conversation.id": self._run,
            **_request(llm.params),
            **_response(turn.response, reply.finish_reason if reply else None),
        }
        if ended is not None and ended.usage.known:
            usage = ended.usage
            attributes |= {
                "gen_ai.usage.input_tokens": usage.input,
                "gen_ai.usage.output_tokens": usage.output,
                "gen_ai.usage.cache_read.input_tokens": usage.cached,
                "gen_ai.usage.cache_creation.input_tokens": usage.cache_write,
                "gen_ai.usage.reasoning.output_tokens": usage.reasoning,
            }
            if usage.usd is not None:
                attributes["agentrewind.cost.usd"] = usage.usd
        if self._content:
            attributes |= _contents(turn)
        return self._of_node(node, f"chat {llm.model}", attributes, SpanKind.CLIENT)

    def _tool(self, node: Node) -> ReadableSpan:
        from opentelemetry.trace import SpanKind

        tool = node.began.tool
        assert tool is not None
        attributes: dict[str, Json] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool.name,
            "gen_ai.tool.type": "function",
        }
        if tool.call_id:
            attributes["gen_ai.tool.call.id"] = tool.call_id
        if self._content:
            attributes["gen_ai.tool.call.arguments"] = json.dumps(tool.arguments)
            if node.ended and node.ended.output:
                attributes["gen_ai.tool.call.result"] = json.dumps(self._log.get(node.ended.output))
        return self._of_node(node, f"execute_tool {tool.name}", attributes, SpanKind.INTERNAL)

    def _of_node(self, node: Node, name: str, attributes: dict[str, Json], kind: Any) -> ReadableSpan:
        attributes |= {"agentrewind.record_uid": node.uid, "agentrewind.thread": node.began.thread}
        if node.began.snapshot is not None:
            attributes["agentrewind.snapshot"] = node.began.snapshot
        error = node.ended.error if node.ended else None
        if error is not None:
            attributes["error.type"] = error.type
        parent, times = f"branch {node.began.branch}", (node.began.started_ns, _end_ns(node))
        return self._span(name, node.uid, times, attributes, parent=parent, kind=kind, error=error)

    def _span(
        self,
        name: str,
        key: str,
        times: tuple[int, int],
        attributes: dict[str, Json],
        *,
        parent: str | None = None,
        kind: Any = None,
        error: Failure | None = None,
        links: Sequence[Any] = (),
    ) -> ReadableSpan:
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.status import Status, StatusCode

        status = Status(StatusCode.ERROR, error.message if self._content else error.type) if error else Status()
        return ReadableSpan(
            name,
            context=self._context(key),
            parent=None if parent is None else self._context(parent),
            resource=self._resource,
            attributes={name: value for name, value in attributes.items() if value is not None},
            links=tuple(links),
            kind=kind or SpanKind.INTERNAL,
            status=status,
            start_time=times[0],
            end_time=times[1],
            instrumentation_scope=self._scope,
        )

    def _context(self, key: str) -> Any:
        from opentelemetry.trace import SpanContext, TraceFlags

        trace = int.from_bytes(hashlib.sha256(self._run.encode()).digest()[:16], "big") or 1
        span = int.from_bytes(hashlib.sha256(f"{self._run}\0{key}".encode()).digest()[:8], "big") or 1
        return SpanContext(trace, span, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _end_ns(node: Node) -> int:
    return node.began.started_ns + int((node.ended.latency_ms if node.ended else 0.0) * 1_000_000)


def _request(params: Json) -> dict[str, Json]:
    if not isinstance(params, dict):
        return {}
    found: dict[str, Json] = {
        _PARAMS[key]: value for key, value in params.items() if key in _PARAMS and isinstance(value, int | float)
    }
    stop = params.get("stop", params.get("stop_sequences"))
    if isinstance(stop, list) and all(isinstance(item, str) for item in stop):
        found["gen_ai.request.stop_sequences"] = stop
    return found


def _response(response: Json, finish: str | None) -> dict[str, Json]:
    if not isinstance(response, dict):
        return {}
    found: dict[str, Json] = {}
    for key, name in (("id", "gen_ai.response.id"), ("model", "gen_ai.response.model")):
        if isinstance(response.get(key), str):
            found[name] = response[key]
    if finish:
        found["gen_ai.response.finish_reasons"] = [finish]
    return found


def _contents(turn: Turn) -> dict[str, Json]:
    """Messages as parts. Of the request only what is new in it: the rest stands in the spans before."""
    found: dict[str, Json] = {"gen_ai.input.messages": json.dumps([_part(item) for item in turn.new])}
    if turn.reply is not None:
        parts: list[Json] = [{"type": "text", "content": turn.reply.text}] if turn.reply.text else []
        parts += [
            {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}
            for call in turn.reply.calls
        ]
        message = {"role": "assistant", "parts": parts, "finish_reason": turn.reply.finish_reason or "stop"}
        found["gen_ai.output.messages"] = json.dumps([message])
    return found


def _part(item: Said) -> Json:
    return {"role": item.role, "parts": [{"type": "text", "content": item.text}]}
