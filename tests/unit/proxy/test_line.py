"""The way upstream of a recorded call: through the environment's proxies, in TLS, and cut off while it waits."""

from __future__ import annotations

import datetime as dt
import http.client
import ipaddress
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from agentrewind.integrations.proxy.client import ClientLeft
from tests.unit.proxy.servers import CHAT, Passing, Provider, front, until


def certificate(directory: Path) -> Path:
    """For 127.0.0.1, signed by itself; with its key in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = directory / "pem"
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + key.private_bytes(*form))
    return path


@pytest.fixture
def sealed(tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> str:
    """The base URL of a provider in TLS, whose certificate this process trusts."""
    pem = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    provider._server.socket = context.wrap_socket(provider._server.socket, server_side=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    return provider.base_url.replace("http:", "https:")


def test_an_upstream_in_tls_is_asked_again_over_the_same_connection(
    sealed: str, provider: Provider, interposer: Passing
) -> None:
    from_where = []
    provider.answer = lambda to: (from_where.append(to.handler.client_address), to.json({"answered": True}))
    with front(interposer, sealed) as place:
        for _ in range(3):
            assert place.chat({"x": 1})[2] == b'{"answered": true}'
    assert len(set(from_where)) == 1


def test_a_certificate_that_nobody_trusts_is_a_502_that_says_so(
    sealed: str, interposer: Passing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    with front(interposer, sealed) as place:
        status, _, body = place.chat({})
    assert status == 502
    assert b"certificate" in body


def test_a_client_that_leaves_ends_a_request_in_tls(sealed: str, provider: Provider, interposer: Passing) -> None:
    provider.answer = lambda to: to.wait_until_left()
    with front(interposer, sealed) as place:
        connection = place.connect(CHAT, {})
        until(lambda: provider.asked)
        connection.close()
        assert provider.left.wait(5)
        until(lambda: interposer.outcomes)
        assert isinstance(interposer.outcomes[0], ClientLeft)
        provider.answer = lambda to: to.json({"next": True})
        assert place.chat({})[2] == b'{"next": true}'


@contextmanager
def full() -> Iterator[str]:
    """The base URL of a server that takes no connection any more, and refuses none."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        waiting = []
        for _ in range(4):
            waiting.append(socket.socket())
            waiting[-1].setblocking(False)
            waiting[-1].connect_ex(server.getsockname())
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        for item in waiting:
            item.close()


def test_a_client_that_leaves_while_a_connection_is_made_is_not_waited_for(interposer: Passing) -> None:
    with full() as url, front(interposer, url) as place:
        connection = place.connect(CHAT, {})
        until(lambda: interposer.seen)
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        connection.close()
        until(lambda: interposer.outcomes, 5)
    assert isinstance(interposer.outcomes[0], ClientLeft)


def test_an_upstream_elsewhere_is_reached_through_the_environments_proxy(
    provider: Provider, interposer: Passing, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", provider.base_url.removesuffix("/v1").removeprefix("http://"))
    with front(interposer, "http://model.example/v1") as place:
        assert place.chat({})[2] == b'{"answered": true}'
    assert provider.last.path == "http://model.example/v1/chat/completions"
    monkeypatch.setenv("no_proxy", "other.example,model.example")
    with front(interposer, "http://model.example/v1") as place:
        assert place.chat({})[0] == 502
    assert len(provider.asked) == 1


def test_a_connection_that_the_upstream_has_closed_meanwhile_is_not_used_again(
    provider: Provider, interposer: Passing
) -> None:
    def answer(to) -> None:
        to.json({"answered": True})
        to.handler.close_connection = True

    provider.answer = answer
    with front(interposer, provider.base_url) as place:
        connection = http.client.HTTPConnection(*place.address, timeout=10)
        for _ in range(5):
            connection.request("POST", place.path(CHAT), b"{}", {"content-type": "application/json"})
            assert connection.getresponse().read() == b'{"answered": true}'
        connection.close()
