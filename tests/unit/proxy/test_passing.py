"""What isn't recorded goes through byte for byte, both ways."""

from __future__ import annotations

import gzip
import http.client
import os
import socket
import threading
import time

import pytest

from tests.unit.proxy.servers import Answering, Front, Passing, Provider, dead_port, front, until


def test_method_path_query_headers_and_body_arrive_as_they_were_sent(provider: Provider, interposer: Passing):
    body = os.urandom(300_000)
    with front(interposer, provider.base_url) as place:
        place.ask(
            "PUT",
            "/v1/files/a%20b%2Fc?x=%41&y=",
            body,
            {"X-Own": "käse".encode("latin-1"), "Authorization": "Bearer mine"},
        )
    asked = provider.last
    assert (asked.method, asked.path) == ("PUT", "/v1/files/a%20b%2Fc?x=%41&y=")
    assert asked.body == body
    assert asked.header("x-own") == "käse"
    assert asked.header("authorization") == "Bearer mine"
    assert asked.header("content-length") == str(len(body))
    assert asked.header("host") == provider.base_url.split("/")[2]
    assert interposer.seen == []


def test_a_request_without_a_body_has_none_upstream(provider: Provider, interposer: Passing):
    with front(interposer, provider.base_url) as place:
        assert place.ask("GET", "/v1/models")[0] == 200
        assert place.ask("DELETE", "/v1/files/1")[0] == 200
    assert [asked.body for asked in provider.asked] == [b"", b""]
    assert provider.asked[0].header("transfer-encoding") is None
    assert provider.asked[0].header("user-agent") is None


def test_an_answer_stays_compressed_and_keeps_status_and_headers(provider: Provider, interposer: Passing):
    packed = gzip.compress(b"a long answer" * 100)
    headers = {"content-encoding": "gzip", "x-request-id": "req-1", "content-type": "text/odd"}
    provider.answer = lambda to: to.raw(418, headers, packed)
    with front(interposer, provider.base_url) as place:
        status, found, body = place.ask("GET", "/v1/anything")
    assert (status, body) == (418, packed)
    assert {name: found[name] for name in headers} == headers


def test_a_chunked_upload_streams(provider: Provider, interposer: Passing):
    with front(interposer, provider.base_url) as place:
        connection = place.client()
        connection.request(
            "POST", place.path("/v1/audio"), (piece for piece in (b"one", b"two" * 50_000)), encode_chunked=True
        )
        assert connection.getresponse().status == 200
    assert provider.last.body == b"one" + b"two" * 50_000


def test_an_answer_streams_piece_by_piece(provider: Provider, interposer: Passing):
    go_on = threading.Event()

    def answer(to: Answering) -> None:
        to.begin_stream()
        to.chunk(b"data: 1\n\n")
        go_on.wait(10)
        to.chunk(b"data: 2\n\n")
        to.chunk(b"")

    provider.answer = answer
    with front(interposer, provider.base_url) as place:
        connection = place.client()
        connection.request("GET", place.path("/v1/events"))
        stream = connection.getresponse()
        assert stream.read1(100) == b"data: 1\n\n"
        go_on.set()
        assert stream.read() == b"data: 2\n\n"


def test_a_client_that_reads_slowly_holds_the_upstream_back(provider: Provider, interposer: Passing):
    sent = []

    def answer(to: Answering) -> None:
        to.begin_stream()
        for _ in range(200):
            to.chunk(b"x" * 500_000)
            sent.append(1)
        to.chunk(b"")

    provider.answer = answer
    with front(interposer, provider.base_url) as place:
        connection = place.client()
        connection.request("GET", place.path("/v1/much"))
        stream = connection.getresponse()
        time.sleep(1)
        assert len(sent) < 100
        assert len(stream.read()) == 200 * 500_000


def test_a_client_that_leaves_ends_the_request_upstream(provider: Provider, interposer: Passing):
    provider.answer = lambda to: to.wait_until_left()
    with front(interposer, provider.base_url) as place:
        connection = place.connect("/v1/embeddings", {"input": "x"})
        until(lambda: provider.asked)
        connection.close()
        assert provider.left.wait(5)


@pytest.mark.parametrize("rest", ["/v1/models", "/v1/embeddings"])
def test_a_dead_upstream_is_a_502_with_a_reason(interposer: Passing, rest: str):
    with front(interposer, f"http://127.0.0.1:{dead_port()}/v1") as place:
        status, _, body = place.ask("GET", rest)
    assert status == 502
    assert b"could not be reached" in body


def test_an_answer_that_breaks_off_breaks_off_for_the_client_too_and_nothing_is_printed(
    provider: Provider, interposer: Passing, capfd: pytest.CaptureFixture[str]
):
    def answer(to: Answering) -> None:
        to.begin_stream()
        to.chunk(b"data: 1\n\n")
        time.sleep(0.1)
        to.handler.connection.shutdown(socket.SHUT_RDWR)

    provider.answer = answer
    with front(interposer, provider.base_url) as place:
        connection = place.client()
        connection.request("GET", place.path("/v1/events"))
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            connection.getresponse().read()
    assert capfd.readouterr() == ("", "")


def test_closing_cuts_off_what_is_passed_on_for_ever(
    provider: Provider, interposer: Passing, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("agentrewind.integrations.proxy.server.DRAIN_S", 0.2)

    def answer(to: Answering) -> None:
        to.begin_stream()
        to.chunk(b"data: 1\n\n")
        to.wait_until_left()

    provider.answer = answer
    with front(interposer, provider.base_url) as place:
        connection = place.client()
        connection.request("GET", place.path("/v1/events"))
        stream = connection.getresponse()
        assert stream.read1(100) == b"data: 1\n\n"
        place.proxy.close()
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            stream.read()


def test_connections_are_kept(provider: Provider, interposer: Passing):
    with front(interposer, provider.base_url) as place:
        connection = place.client()
        for _ in range(3):
            connection.request("GET", place.path("/v1/models"))
            first = connection.sock
            assert connection.getresponse().read()
            assert connection.sock is first


def test_the_environments_proxies_are_not_used_for_a_loopback_upstream(
    provider: Provider, interposer: Passing, monkeypatch: pytest.MonkeyPatch
):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{dead_port()}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with front(interposer, provider.base_url) as place:
        assert place.ask("GET", "/v1/models")[0] == 200
        assert place.chat({"messages": []})[0] == 200


def test_the_anthropic_address_leads_to_the_anthropic_upstream(provider: Provider, interposer: Passing):
    other = Provider()
    other.start()
    with front(interposer, f"http://127.0.0.1:{dead_port()}/v1", other.base_url.removesuffix("/v1")) as place:
        assert place.ask("POST", "/anthropic/v1/messages/count_tokens?beta=true", b"{}")[0] == 200
        assert place.ask("POST", "/anthropic/v1/messages", b"{}")[0] == 200
    other.stop()
    assert [asked.path for asked in other.asked] == ["/v1/messages/count_tokens?beta=true", "/v1/messages"]
    assert [path for path, _ in interposer.seen] == ["/v1/messages"]


def test_an_upstream_below_a_path_of_its_own(provider: Provider, interposer: Passing):
    with front(interposer, provider.base_url.removesuffix("/v1") + "/api/openai/v2/") as place:
        place.ask("GET", "/v1/models?a=b")
        place.ask("GET", "/models")
    assert [asked.path for asked in provider.asked] == ["/api/openai/v2/models?a=b", "/api/openai/v2/models"]


def test_closing_answers_what_is_under_way_and_takes_nothing_new(provider: Provider, interposer: Passing):
    go_on = threading.Event()
    answers: list[tuple[int, bytes]] = []
    provider.answer = lambda to: (go_on.wait(10), to.json({"late": True}))

    def ask(place: Front) -> None:
        status, _, body = place.chat({"messages": []})
        answers.append((status, body))

    with front(interposer, provider.base_url) as place:
        asking = threading.Thread(target=ask, args=(place,))
        asking.start()
        until(lambda: provider.asked)
        closing = threading.Thread(target=place.proxy.close)
        closing.start()
        time.sleep(0.2)
        assert place.ask("GET", "/v1/models")[0] == 503
        go_on.set()
        closing.join()
        asking.join()
    assert answers == [(200, b'{"late": true}')]
