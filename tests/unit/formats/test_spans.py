"""OpenTelemetry: what a real receiver on loopback decodes."""

from __future__ import annotations

import gzip
import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agentrewind.core.errors import UsageError
from agentrewind.integrations.formats import spans as module
from agentrewind.integrations.formats.spans import NotReceived, export_spans
from agentrewind.journal.reader import RunLog


class Receiver:
    """Decodes the protobuf of each request; the spans it got, in order."""

    def __init__(self, status: int = 200) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                assert self.headers["content-type"] == "application/x-protobuf"
                receiver.requests.append(ExportTraceServiceRequest.FromString(body))
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1/traces"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    @property
    def spans(self) -> list[Any]:
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


def attributes(span: Any) -> dict[str, Any]:
    found = {}
    for item in span.attributes:
        kind = item.value.WhichOneof("value")
        value = getattr(item.value, kind)
        found[item.key] = [part.string_value for part in value.values] if kind == "array_value" else value
    return found


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


def test_each_branch_is_a_tree_of_spans_and_what_it_kept_is_not_sent_again(log: RunLog, receiver: Receiver) -> None:
    assert export_spans(log, receiver.url) == len(receiver.spans)
    agents = [span for span in receiver.spans if span.name == "invoke_agent builtin"]
    assert len(agents) == 2
    uids = [attributes(span).get("agentrewind.record_uid") for span in receiver.spans]
    calls = [uid for uid in uids if uid is not None]
    assert sorted(calls) == sorted(log.tree.nodes)
    parents = {span.span_id for span in agents}
    assert all(span.parent_span_id in parents for span in receiver.spans if span not in agents)
    assert len({span.trace_id for span in receiver.spans}) == 1


def test_a_later_branch_links_to_the_call_that_it_forked_at(log: RunLog, receiver: Receiver) -> None:
    export_spans(log, receiver.url)
    second = next(span for span in receiver.spans if attributes(span).get("agentrewind.branch") == "b1")
    target = next(span for span in receiver.spans if attributes(span).get("agentrewind.record_uid") == "rec_000003")
    assert [link.span_id for link in second.links] == [target.span_id]


def test_a_chat_says_model_tokens_and_ending_by_the_conventions(log: RunLog, receiver: Receiver) -> None:
    export_spans(log, receiver.url)
    chat = next(span for span in receiver.spans if attributes(span).get("agentrewind.record_uid") == "rec_000001")
    assert (chat.name, chat.kind) == ("chat m", 3)
    found = attributes(chat)
    assert found["gen_ai.operation.name"] == "chat"
    assert found["gen_ai.provider.name"] == "openai"
    assert found["gen_ai.request.model"] == found["gen_ai.response.model"] == "m"
    assert found["gen_ai.response.finish_reasons"] == ["tool_calls"]
    assert (found["gen_ai.usage.input_tokens"], found["gen_ai.usage.output_tokens"]) == (10, 5)
    node = log.tree.nodes["rec_000001"]
    assert chat.start_time_unix_nano == node.began.started_ns
    assert chat.end_time_unix_nano == node.began.started_ns + int(node.ended.latency_ms * 1e6)
    tool = next(span for span in receiver.spans if span.name == "execute_tool shell")
    assert attributes(tool)["gen_ai.tool.call.id"] == "c1"


def test_unknown_token_numbers_are_absent_and_failures_are_errors(log: RunLog, receiver: Receiver) -> None:
    export_spans(log, receiver.url)
    silent = [
        uid for uid, node in log.tree.nodes.items() if node.is_llm and node.answered and not node.ended.usage.known
    ]
    for span in receiver.spans:
        found = attributes(span)
        if found.get("agentrewind.record_uid") in silent:
            assert "gen_ai.usage.input_tokens" not in found
    [failed] = [span for span in receiver.spans if span.status.code == 2]
    assert attributes(failed)["error.type"] == "HTTP 500"


def test_contents_are_sent_only_when_asked_for(log: RunLog, receiver: Receiver) -> None:
    words = ("do otherwise", "thinking", "wrote a", "You are an agent", "overloaded", "do it")
    export_spans(log, receiver.url)
    without = b"".join(request.SerializeToString() for request in receiver.requests)
    assert [word for word in words if word.encode() in without] == []
    receiver.requests.clear()
    export_spans(log, receiver.url, content=True)
    with_it = b"".join(request.SerializeToString() for request in receiver.requests)
    assert [word for word in words if word.encode() not in with_it] == []
    chat = next(span for span in receiver.spans if attributes(span).get("agentrewind.record_uid") == "rec_000001")
    [message] = json.loads(attributes(chat)["gen_ai.output.messages"])
    assert message["parts"][0] == {"type": "text", "content": "thinking"}
    assert message["parts"][1]["name"] == "shell"


def test_a_second_export_names_the_same_spans(log: RunLog, receiver: Receiver) -> None:
    export_spans(log, receiver.url)
    first = [(span.trace_id, span.span_id) for span in receiver.spans]
    receiver.requests.clear()
    export_spans(log, receiver.url)
    assert [(span.trace_id, span.span_id) for span in receiver.spans] == first
    assert len(set(first)) == len(first)


def test_many_spans_go_in_batches(log: RunLog, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH", 3)
    count = export_spans(log, receiver.url)
    assert len(receiver.requests) == -(-count // 3)
    assert len(receiver.spans) == count


def test_a_receiver_that_refuses_is_said(log: RunLog) -> None:
    refusing = Receiver(status=400)
    try:
        with pytest.raises(NotReceived, match="did not take the spans"):
            export_spans(log, refusing.url, timeout_s=1)
    finally:
        refusing.close()


def test_what_is_no_url_is_refused(log: RunLog) -> None:
    with pytest.raises(UsageError, match="not the address"):
        export_spans(log, "localhost:4318")


def test_the_other_dialects_are_read_too(other_dialect: RunLog, receiver: Receiver) -> None:
    export_spans(other_dialect, receiver.url)
    chats = [attributes(span) for span in receiver.spans if span.name == "chat m"]
    assert [found["gen_ai.usage.input_tokens"] for found in chats] == [7, 7]
    assert {found["gen_ai.provider.name"] for found in chats} <= {"openai", "anthropic"}
