"""Calls that go through the interposer."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest
import zstandard
from openai import APIError, OpenAI

from agentrewind.core.errors import StoreError
from agentrewind.integrations.proxy.app import Limits
from agentrewind.integrations.proxy.client import ClientLeft
from tests.unit.proxy.servers import CHAT, Answering, dead_port, front, until

QUICK = Limits(keep_alive_s=0.1)
COMMENT = b": agentrewind\n\n"
STREAM = b'data: {"id": 1}\n\ndata: [DONE]\n\n'


def slowly(seconds: float, status: int = 200, body: bytes = STREAM):
    def answer(to: Answering) -> None:
        time.sleep(seconds)
        to.raw(status, {"content-type": "text/event-stream" if status == 200 else "application/json"}, body)

    return answer


def test_the_interposer_decides_what_goes_upstream_and_the_client_gets_the_answers_bytes(provider, interposer):
    raw = b'{"choices":  [1.50, "\\u00e9"]}'
    provider.answer = lambda to: to.raw(200, {"content-type": "application/json", "x-request-id": "r1"}, raw)
    with front(interposer, provider.base_url) as place:
        status, headers, body = place.chat({"messages": [], "text": "käse 🧀"})
    assert (status, body, headers["x-request-id"]) == (200, raw, "r1")
    assert interposer.seen == [("/v1/chat/completions", {"messages": [], "text": "käse 🧀"})]
    assert json.loads(provider.last.body) == {"messages": [], "text": "käse 🧀", "added": True}
    assert provider.last.path == "/v1/chat/completions"
    assert provider.last.header("content-length") == str(len(provider.last.body))
    assert provider.last.header("accept-encoding") == "identity"


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("zstd", zstandard.ZstdCompressor().compress),
        ("GZIP", gzip.compress),
    ],
)
def test_a_compressed_request_is_understood(provider, interposer, encoding, pack):
    body = pack(b'{"messages": [1]}')
    with front(interposer, provider.base_url) as place:
        assert place.ask("POST", CHAT, body, {"content-encoding": encoding})[0] == 200
    assert interposer.seen[0][1] == {"messages": [1]}
    assert provider.last.header("content-encoding") is None
    assert json.loads(provider.last.body)["messages"] == [1]


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        (b"not json", ""),
        (b"", ""),
        (gzip.compress(b"{}", mtime=0)[:-6], "gzip"),
        (b"{}", "gzip"),
        (b"{}", "odd"),
        (b"\xff", "zstd"),
    ],
)
def test_what_cannot_be_read_is_passed_on_untouched(provider, interposer, body, encoding):
    with front(interposer, provider.base_url) as place:
        assert place.ask("POST", CHAT, body, {"content-encoding": encoding} if encoding else {})[0] == 200
    assert interposer.seen == []
    assert provider.last.body == body
    assert provider.last.header("content-encoding") == (encoding or None)


@pytest.mark.parametrize("encoding", ["", "gzip", "zstd"])
def test_a_body_over_the_limit_is_refused_also_where_it_was_small_on_the_way(provider, interposer, encoding):
    body = b'{"messages": ["' + b"x" * 200_000 + b'"]}'
    body = {"": body, "gzip": gzip.compress(body), "zstd": zstandard.ZstdCompressor().compress(body)}[encoding]
    with front(interposer, provider.base_url, limits=Limits(body=100_000)) as place:
        status, _, told = place.ask("POST", CHAT, body, {"content-encoding": encoding} if encoding else {})
    assert status == 413
    assert b"larger than 100,000 bytes" in told
    assert provider.asked == []


# --- keys -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", ["agentrewind", "dummy", "EMPTY", "none", ""])
def test_a_client_without_a_key_gets_the_one_that_is_set(provider, interposer, sent):
    with front(interposer, provider.base_url, key="sk-ours") as place:
        place.chat({}, Authorization=f"Bearer {sent}")
        place.ask("GET", "/v1/models")
        place.ask("POST", "/anthropic/v1/messages", b"{}", {"x-api-key": sent})
    assert [asked.header("authorization") for asked in provider.asked] == ["Bearer sk-ours", "Bearer sk-ours", None]
    assert provider.last.header("x-api-key") == "sk-ours"


def test_a_clients_own_key_goes_on_untouched(provider, interposer):
    with front(interposer, provider.base_url, key="sk-ours") as place:
        place.chat({}, Authorization="Bearer sk-theirs")
        place.ask("POST", "/anthropic/v1/messages", b"{}", {"x-api-key": "sk-ant-theirs", "anthropic-version": "1"})
        place.ask("POST", "/anthropic/v1/messages", b"{}", {"authorization": "Bearer oauth-theirs"})
    assert provider.asked[0].header("authorization") == "Bearer sk-theirs"
    assert provider.asked[1].header("x-api-key") == "sk-ant-theirs"
    assert provider.asked[1].header("anthropic-version") == "1"
    assert provider.asked[2].header("authorization") == "Bearer oauth-theirs"
    assert provider.asked[2].header("x-api-key") is None


def test_without_a_key_of_ours_a_placeholder_goes_on(provider, interposer):
    with front(interposer, provider.base_url) as place:
        place.chat({}, Authorization="Bearer dummy")
    assert provider.last.header("authorization") == "Bearer dummy"


# --- what fails -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 401, 429, 500, 503])
@pytest.mark.parametrize("stream", [False, True])
def test_an_error_of_the_upstream_arrives_as_it_is(provider, interposer, status, stream):
    provider.answer = lambda to: to.raw(
        status, {"content-type": "application/json", "retry-after": "7"}, b'{"error": "no"}'
    )
    with front(interposer, provider.base_url, limits=QUICK) as place:
        found, headers, body = place.chat({"stream": stream})
    assert (found, body, headers["retry-after"]) == (status, b'{"error": "no"}', "7")


@pytest.mark.parametrize("stream", [False, True])
def test_a_dead_upstream_is_a_502_that_says_so(interposer, stream):
    with front(interposer, f"http://127.0.0.1:{dead_port()}/v1") as place:
        status, headers, body = place.chat({"stream": stream})
    assert (status, headers["content-type"]) == (502, "application/json")
    assert "could not be reached" in json.loads(body)["error"]["message"]


def test_an_upstream_that_breaks_off_is_a_502(provider, interposer):
    def answer(to: Answering) -> None:
        to.begin_stream()
        to.chunk(b"data: 1\n\n")
        to.handler.connection.shutdown(socket.SHUT_RDWR)

    provider.answer = answer
    with front(interposer, provider.base_url) as place:
        status, _, body = place.chat({})
    assert status == 502
    assert b"broke" in body


def test_an_upstream_that_says_nothing_is_a_504_in_the_end(provider, interposer):
    provider.answer = lambda to: to.wait_until_left()
    with front(interposer, provider.base_url, limits=Limits(silence_s=0.3)) as place:
        status, _, body = place.chat({})
    assert status == 504
    assert b"in time" in body


def test_a_run_that_can_not_be_recorded_is_a_500_that_says_so(provider, interposer):
    def act(_body, _send):
        raise StoreError("No room left.")

    interposer.act = act
    with front(interposer, provider.base_url) as place:
        status, _, body = place.chat({})
    assert status == 500
    assert "No room left." in json.loads(body)["error"]["message"]


def test_a_mistake_of_ours_is_a_500_and_raised_in_the_end_and_not_lost(provider, interposer):
    def act(_body, _send):
        raise ValueError("a mistake")

    interposer.act = act

    def ask() -> None:
        with front(interposer, provider.base_url) as place:
            assert place.chat({})[0] == 500

    with pytest.raises(ValueError, match="a mistake"):
        ask()


# --- keep-alive -------------------------------------------------------------------------------------------------------


def test_comments_come_while_a_streamed_answer_is_waited_for_and_then_the_answer_itself(provider, interposer):
    provider.answer = slowly(0.7)
    with front(interposer, provider.base_url, limits=QUICK) as place:
        begun = time.monotonic()
        status, headers, body = place.chat({"stream": True})
    assert time.monotonic() - begun >= 0.7
    assert (status, headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert body.endswith(STREAM)
    comments = body.removesuffix(STREAM)
    assert comments == COMMENT * comments.count(b"\n\n")
    assert 3 <= comments.count(b"\n\n") <= 7


def test_comments_arrive_at_once_and_not_with_the_answer(provider, interposer):
    go_on = threading.Event()
    provider.answer = lambda to: (go_on.wait(10), to.raw(200, {}, STREAM))
    with front(interposer, provider.base_url, limits=QUICK) as place:
        connection = place.connect(CHAT, {"stream": True})
        found = b""
        while COMMENT not in found:
            found += connection.recv(1000)
        assert found.startswith(b"HTTP/1.1 200 ")
        assert not go_on.is_set()
        go_on.set()
        while b"[DONE]" not in found:
            found += connection.recv(1000)
        connection.close()


def test_a_quick_answer_and_a_plain_one_have_no_comments(provider, interposer):
    with front(interposer, provider.base_url, limits=QUICK) as place:
        provider.answer = slowly(0)
        assert place.chat({"stream": True})[2] == STREAM
        provider.answer = slowly(0.4, body=b"{}")
        assert place.chat({})[2] == b"{}"


def test_an_error_after_the_first_comment_is_an_event_of_the_dialect(provider, interposer):
    provider.answer = slowly(0.4, 500, b'{"error": {"message": "overloaded", "type": "server_error"}}')
    with front(interposer, provider.base_url, limits=QUICK) as place:
        chat = place.chat({"stream": True})
        messages = place.ask("POST", "/anthropic/v1/messages", b'{"stream": true}')
        responses = place.ask("POST", "/v1/responses", b'{"stream": true}')
    assert [status for status, _, _ in (chat, messages, responses)] == [200] * 3
    events = [body.rsplit(COMMENT, 1)[1].decode() for _, _, body in (chat, messages, responses)]
    assert json.loads(events[0].removeprefix("data: "))["error"]["message"] == "overloaded"
    for event in events[1:]:
        assert event.startswith("event: error\ndata: ")
        payload = json.loads(event.split("data: ")[1])
        assert payload["type"] == "error"
        assert payload["error"]["message"] == "overloaded"
    assert json.loads(events[2].split("data: ")[1])["message"] == "overloaded"


def test_a_connection_that_breaks_after_the_first_comment_is_an_event_too(provider, interposer):
    def answer(to: Answering) -> None:
        time.sleep(0.4)
        to.handler.connection.shutdown(socket.SHUT_RDWR)

    provider.answer = answer
    with front(interposer, provider.base_url, limits=QUICK) as place:
        status, _, body = place.chat({"stream": True})
    assert status == 200
    assert "agentrewind:" in json.loads(body.rsplit(b"data: ", 1)[1])["error"]["message"]


CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}


def test_the_openai_sdk_reads_over_comments_and_raises_what_comes_after_them(provider, interposer):
    delta = {**CHUNK, "choices": [{"index": 0, "delta": {"content": "at last"}, "finish_reason": None}]}
    with (
        front(interposer, provider.base_url, limits=QUICK) as place,
        OpenAI(base_url=place.proxy.listening.base_url, api_key="any", max_retries=0) as client,
    ):

        def ask() -> str:
            parts = client.chat.completions.create(model="m", messages=[], stream=True)
            return "".join(part.choices[0].delta.content or "" for part in parts)

        provider.answer = slowly(0.4, body=b"data: " + json.dumps(delta).encode() + b"\n\ndata: [DONE]\n\n")
        assert ask() == "at last"
        provider.answer = slowly(0.4, 429, b'{"error": {"message": "slow down"}}')
        with pytest.raises(APIError, match="slow down"):
            ask()


# --- clients that leave, clients in crowds ----------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_ends_the_request_upstream_and_the_call(provider, interposer, stream):
    provider.answer = lambda to: to.wait_until_left()
    with front(interposer, provider.base_url, limits=QUICK) as place:
        connection = place.connect(CHAT, {"stream": stream})
        until(lambda: provider.asked)
        connection.close()
        assert provider.left.wait(5)
        until(lambda: interposer.outcomes)
        assert isinstance(interposer.outcomes[0], ClientLeft)
        provider.answer = lambda to: to.json({"next": True})
        assert place.chat({})[2] == b'{"next": true}'


def test_work_that_was_begun_for_a_client_who_left_comes_to_its_end_and_sends_nothing_more(provider, interposer):
    begun, go_on = threading.Event(), threading.Event()

    def act(body, send):
        begun.set()
        go_on.wait(10)
        return send(body)

    interposer.act = act
    with front(interposer, provider.base_url) as place:
        connection = place.connect(CHAT, {})
        assert begun.wait(5)
        connection.close()
        time.sleep(0.2)
        go_on.set()
        until(lambda: interposer.outcomes)
    assert isinstance(interposer.outcomes[0], ClientLeft)
    assert provider.asked == []


def test_an_answer_that_is_there_when_its_client_has_left_is_told_of(provider, interposer):
    answered, go_on = threading.Event(), threading.Event()

    def act(body, send):
        reply = send(body)
        answered.set()
        go_on.wait(10)
        return reply

    interposer.act = act
    with front(interposer, provider.base_url) as place:
        connection = place.connect(CHAT, {})
        assert answered.wait(5)
        connection.close()
        time.sleep(0.2)
        go_on.set()
        until(lambda: interposer.lost)
        assert place.chat({})[0] == 200
    assert interposer.lost == interposer.outcomes[:1]


def test_the_interposer_may_ask_several_times(provider, interposer):
    interposer.act = lambda _body, send: [send({"n": number}) for number in range(3)][-1]
    with front(interposer, provider.base_url) as place:
        assert place.chat({})[0] == 200
    assert [json.loads(asked.body)["n"] for asked in provider.asked] == [0, 1, 2]


def test_a_hundred_calls_wait_at_the_same_time_and_each_gets_its_own_answer(provider, interposer):
    together = threading.Barrier(100, timeout=20)

    provider.answer = lambda to: (together.wait(), to.json({"for": json.loads(to.asked.body)["who"]}))
    with front(interposer, provider.base_url) as place, ThreadPoolExecutor(100) as pool:
        answers = list(pool.map(lambda who: json.loads(place.chat({"who": who})[2]), range(100)))
    assert [answer["for"] for answer in answers] == list(range(100))


def test_a_cut_off_call_is_answered_when_the_proxy_closes(provider, interposer, monkeypatch):
    monkeypatch.setattr("agentrewind.integrations.proxy.server.DRAIN_S", 0.2)
    provider.answer = lambda to: to.wait_until_left()
    answers = []
    with front(interposer, provider.base_url) as place:
        asking = threading.Thread(target=lambda: answers.append(place.chat({})))
        asking.start()
        until(lambda: provider.asked)
        place.proxy.close()
        asking.join(5)
    assert answers[0][0] == 503
    assert isinstance(interposer.outcomes[0], ClientLeft)
