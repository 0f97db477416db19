"""The way upstream of a recorded call: through the environment's proxies, in TLS, and cut off while it waits."""

from __future__ import annotations

import asyncio
import datetime as dt
import gc
import ipaddress
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from agentrewind.integrations.proxy.client import ClientLeft
from agentrewind.integrations.proxy.connections import Attempt, Attempts, Network
from tests.unit.proxy.servers import CHAT, Fickle, Passing, Provider, front, read_request, until


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


def test_an_upstream_that_closes_each_connection_is_asked_over_new_ones(
    provider: Provider, interposer: Passing
) -> None:
    def answer(to) -> None:
        to.json({"answered": True})
        to.handler.close_connection = True

    provider.answer = answer
    with front(interposer, provider.base_url) as place:
        client = place.client()
        for _ in range(5):
            client.request("POST", place.path(CHAT), b"{}", {"content-type": "application/json"})
            assert client.getresponse().read() == b'{"answered": true}'
    assert len(provider.asked) == 5


# --- an upstream that hangs up at the moment at which it is asked -----------------------------------------------------


def cut(connection: socket.socket) -> None:
    """The close meets the request: what was sent and not read makes the kernel reset the connection."""
    connection.recv(1)


def end(connection: socket.socket) -> None:
    read_request(connection)


def begin(connection: socket.socket) -> None:
    read_request(connection)
    connection.sendall(b"H")


def crash(connection: socket.socket) -> None:
    """Nothing more is read, nor sent: the request goes into the void and the other side hears of a reset."""
    connection.recv(1, socket.MSG_PEEK)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize("hang_up", [cut, end, crash])
def test_a_call_over_a_kept_connection_that_breaks_unheard_is_made_again_over_a_new_one(hang_up, interposer: Passing):
    with Fickle([1, 9], hang_up) as upstream, front(interposer, upstream.base_url) as place:
        assert [place.chat({})[::2] for _ in range(3)] == [(200, b"{}")] * 3
        assert upstream.connections == 3  # the one of the second attempt isn't kept


def test_so_is_the_second_request_of_one_call(interposer: Passing) -> None:
    interposer.act = lambda body, send: [send(body) for _ in range(3)][-1]
    with Fickle([1, 9], cut) as upstream, front(interposer, upstream.base_url) as place:
        assert place.chat({})[0] == 200


def test_a_call_is_made_again_once_and_not_over_another_kept_connection(interposer: Passing) -> None:
    with Fickle([1, 1, 0], end) as upstream, front(interposer, upstream.base_url) as place:
        together = threading.Barrier(2, timeout=10)
        interposer.act = lambda body, send: (together.wait(), send(body), together.wait())[1]
        with ThreadPoolExecutor(2) as pool:
            assert [status for status, _, _ in pool.map(place.chat, [{}, {}])] == [200, 200]
        interposer.act = None
        status, _, body = place.chat({})
        assert (status, b"broke" in body, upstream.connections) == (502, True, 3)


def test_a_call_over_a_new_connection_is_never_made_again(interposer: Passing) -> None:
    with Fickle([0], end) as upstream, front(interposer, upstream.base_url) as place:
        assert place.chat({})[0] == 502
        assert upstream.connections == 1


def test_nor_is_one_that_was_answered_a_byte(interposer: Passing) -> None:
    with Fickle([1], begin) as upstream, front(interposer, upstream.base_url) as place:
        assert [place.chat({})[0] for _ in range(2)] == [200, 502]
        assert upstream.connections == 1


def test_nor_is_one_whose_client_has_left(interposer: Passing) -> None:
    asked = threading.Event()

    def wait(connection: socket.socket) -> None:
        read_request(connection)
        asked.set()
        connection.recv(1)

    with Fickle([1], wait) as upstream, front(interposer, upstream.base_url) as place:
        assert place.chat({})[0] == 200
        client = place.connect(CHAT, {})
        assert asked.wait(10)
        client.close()
        until(lambda: len(interposer.outcomes) == 2)
        assert isinstance(interposer.outcomes[1], ClientLeft)
        assert upstream.connections == 1


@pytest.mark.parametrize("hang_up", [cut, end, crash])
def test_what_only_asks_and_is_passed_on_is_asked_again_too(hang_up, interposer: Passing) -> None:
    with Fickle([1, 9], hang_up) as upstream, front(interposer, upstream.base_url) as place:
        assert [place.ask("GET", "/v1/models")[::2] for _ in range(3)] == [(200, b"{}")] * 3
    with Fickle([0], hang_up) as upstream, front(interposer, upstream.base_url) as place:
        assert place.ask("GET", "/v1/models")[0] == 502
        assert upstream.connections == 1


@pytest.mark.parametrize(("method", "body"), [("POST", b"{}"), ("POST", None), ("DELETE", None), ("PUT", b"{}")])
def test_what_may_do_something_is_passed_on_once(method: str, body: bytes | None, interposer: Passing) -> None:
    with Fickle([1], end) as upstream, front(interposer, upstream.base_url) as place:
        assert place.ask("GET", "/v1/models")[0] == 200
        assert place.ask(method, "/v1/batches", body)[0] == 502
        assert upstream.connections == 1


# --- no connection is left open ---------------------------------------------------------------------------------------


@dataclass
class Leaving:
    """A caller that goes away at one of the moments at which it is told what to cut: before anything, while it is
    connected, and when that has been done.
    """

    at: int
    server: socket.socket
    peer: socket.socket | None = None
    told: int = 0

    def holds(self, cut: object) -> None:
        del cut
        self.told += 1
        if self.told == 2:  # so it is connected by now
            self.peer = self.server.accept()[0]
        if self.told == self.at:
            raise ClientLeft


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    thread = threading.Thread(target=made.run_forever)
    thread.start()
    yield made
    made.call_soon_threadsafe(made.stop)
    thread.join()
    made.close()


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_caller_that_leaves_leaves_no_connection_behind(at: int, loop: asyncio.AbstractEventLoop) -> None:
    attempts = Attempts()
    network = Network(loop, attempts)
    with socket.create_server(("127.0.0.1", 0)) as server:
        caller = Leaving(at, server)
        attempts.current = Attempt(caller)
        with pytest.raises(ClientLeft):
            network.connect_tcp(*server.getsockname()).start_tls(ssl.create_default_context(), "127.0.0.1")
        if caller.peer is None:
            server.settimeout(0.2)
            with pytest.raises(TimeoutError):
                server.accept()
        else:
            with caller.peer as peer:
                peer.settimeout(10)
                assert peer.recv(1) == b""
        gc.collect()  # a socket that was only dropped warns here
