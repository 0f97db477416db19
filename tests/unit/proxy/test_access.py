"""Who may use the proxy."""

from __future__ import annotations

import json

import pytest

from agentrewind.core.errors import UsageError
from agentrewind.integrations.proxy import Listening, Upstream
from tests.unit.proxy.servers import Front, Passing, Provider, front


def refused(place: Front, path: str, headers: dict[str, str]) -> str:
    connection = place.client()
    connection.request("POST", path, b"{}", headers)
    answer = connection.getresponse()
    assert answer.status == 403
    assert answer.getheader("content-type") == "application/json"
    told: str = json.loads(answer.read())["error"]["message"]
    return told


@pytest.mark.parametrize("token", ["", "wrong", "almost"])
def test_without_the_token_nothing_is_answered_and_nothing_goes_upstream(provider: Provider, token: str):
    interposer = Passing()
    with front(interposer, provider.base_url) as place:
        known = place.proxy.listening.token
        given = known[:-1] if token == "almost" else token
        told = refused(place, f"/{given}/v1/chat/completions", {})
        assert "token" in told
        assert known not in told
        assert refused(place, "/v1/models", {})
    assert interposer.seen == []
    assert provider.asked == []


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "LOCALHOST.evil:{port}"]
)
def test_a_page_that_another_name_leads_here_is_refused_although_it_knows_the_token(provider: Provider, host: str):
    with front(Passing(), provider.base_url) as place:
        told = refused(place, place.path("/v1/models"), {"Host": host.format(port=place.address[1])})
    assert "Host" in told
    assert provider.asked == []


def test_localhost_is_this_machine(provider: Provider):
    with front(Passing(), provider.base_url) as place:
        status, _, _ = place.ask("GET", "/v1/models", headers={"Host": f"LocalHost:{place.address[1]}"})
    assert status == 200


def test_it_listens_on_loopback_alone(provider: Provider):
    with front(Passing(), provider.base_url) as place:
        assert place.proxy.listening.socket.getsockname()[0] == "127.0.0.1"


def test_tokens_are_long_and_never_the_same():
    made = [Listening() for _ in range(3)]
    assert len({one.token for one in made}) == 3
    assert all(len(one.token) >= 32 for one in made)
    for one in made:
        one.close()


def test_a_port_that_is_taken_is_one_sentence():
    first = Listening()
    with pytest.raises(UsageError, match=f"port {first.port} .* can't be used"):
        Listening(first.port)
    first.close()


@pytest.mark.parametrize("url", ["", "localhost:8000/v1", "ftp://host/v1", "http:///v1", "http://host:x/v1"])
def test_an_upstream_that_is_no_url_is_one_sentence(url: str):
    with pytest.raises(UsageError, match="URL"):
        Upstream(url)


def test_a_websocket_is_refused_with_the_status_that_lets_a_client_ask_by_http(provider: Provider):
    asks = {
        "Connection": "Upgrade",
        "Upgrade": "WebSocket",
        "Sec-WebSocket-Key": "x" * 24,
        "Sec-WebSocket-Version": "13",
    }
    interposer = Passing()
    with front(interposer, provider.base_url) as place:
        status, _, body = place.ask("GET", "/v1/responses", headers=asks)
    assert (status, "websocket" in json.loads(body)["error"]["message"]) == (426, True)
    assert (interposer.seen, provider.asked) == ([], [])
