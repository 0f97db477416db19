"""The hook itself: what it takes over, what it gives back, what it leaves as it was."""

from __future__ import annotations

import asyncio
import gzip
import json
import subprocess
import sys
import textwrap
import threading

import anyio
import httpx
import httpx2
import pytest

from agentrewind.core.errors import UsageError
from agentrewind.core.wire import WireReply
from agentrewind.integrations.clients import install
from agentrewind.testing.scripted import ScriptedModel, hang, say

BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
SAID = b'{"said": true}'


class Passing:
    """Passes every chat completion on."""

    def __init__(self, act=None) -> None:
        self.act = act or (lambda body, send: send(body))
        self.seen = []
        self.ended = []
        self.lost = []

    def wants(self, method, host, path):
        return (method, host) == ("POST", "127.0.0.1") and path == "/v1/chat/completions"

    def undelivered(self, reply):
        self.lost.append(reply)

    def call(self, path, body, send):
        self.seen.append((path, body))
        try:
            reply = self.act(body, send)
        except BaseException as error:
            self.ended.append(error)
            raise
        self.ended.append(reply)
        return reply


@pytest.fixture(params=[httpx, httpx2], ids=["httpx", "httpx2"])
def library(request):
    return request.param


@pytest.fixture
def model():
    with ScriptedModel(lambda request: say(f"{len(request.messages)} messages")) as found:
        yield found


def url(model):
    return f"{model.base_url}/chat/completions"


def said(response):
    return response.json()["choices"][0]["message"]["content"]


def constant(status=200, headers=(), body=SAID):
    return lambda _body, _send: WireReply(status, headers, body)


# --- what passes ------------------------------------------------------------------------------------------------------


def test_a_plain_client_as_litellm_uses_it(library, model):
    with install(Passing()) as installation, library.Client() as client:
        response = client.post(url(model), json=BODY, headers={"x-key": "secret"})
        assert said(response) == "1 messages"
        assert response.request.headers["x-key"] == "secret"
        assert installation.interposer.seen == [("/v1/chat/completions", BODY)]
        assert "x-key" in model.header_names[0]


def test_streamed_by_lines(library, model):
    body = {**BODY, "stream": True}
    with install(Passing()), library.Client() as client, client.stream("POST", url(model), json=body) as response:
        assert not response.is_closed
        lines = [line for line in response.iter_lines() if line]
    assert lines[-1] == "data: [DONE]"
    assert response.is_closed


def test_streamed_by_lines_async(library, model):
    async def work():
        body = {**BODY, "stream": True}
        async with library.AsyncClient() as client, client.stream("POST", url(model), json=body) as response:
            return [line async for line in response.aiter_lines() if line]

    with install(Passing()):
        assert asyncio.run(work())[-1] == "data: [DONE]"


def test_a_streamed_response_can_be_read_raw_or_whole_or_not_at_all(library, model):
    with install(Passing(constant())), library.Client() as client:
        with client.stream("POST", url(model), json=BODY) as response:
            assert b"".join(response.iter_raw()) == SAID
        with client.stream("POST", url(model), json=BODY) as response:
            assert response.read() == SAID
        with client.stream("POST", url(model), json=BODY) as response:
            pass
        assert response.is_closed
    assert model.requests == []


def test_an_async_streamed_response_can_be_read_whole_and_closed(library, model):
    async def work():
        async with library.AsyncClient() as client:
            response = await client.send(client.build_request("POST", url(model), json=BODY), stream=True)
            content = await response.aread()
            await response.aclose()
            return content

    with install(Passing(constant())):
        assert asyncio.run(work()) == SAID


def test_the_changed_body_goes_out_with_its_own_length(library, model):
    def longer(body, send):
        return send({**body, "messages": [*body["messages"], {"role": "user", "content": "é\ud83d" * 50}]})

    with install(Passing(longer)), library.Client() as client:
        assert said(client.post(url(model), json=BODY)) == "2 messages"
    assert model.last["messages"][-1]["content"] == "é\ud83d" * 50


def test_a_compressed_and_a_chunked_request_are_understood(library, model):
    text = json.dumps(BODY).encode()
    with install(Passing()) as installation, library.Client() as client:
        assert client.post(url(model), content=gzip.compress(text), headers={"content-encoding": "gzip"}).is_success
        assert client.post(url(model), content=iter([text[:9], text[9:]])).is_success
        assert [body for _, body in installation.interposer.seen] == [BODY, BODY]
    assert "content-encoding" not in model.header_names[0]
    assert "transfer-encoding" not in model.header_names[1]


def test_what_is_not_json_goes_its_usual_way(library, model):
    with install(Passing()) as installation, library.Client() as client:
        assert client.post(url(model), content=b"{nonsense").status_code == 400
        assert client.post(url(model), content=b"x", headers={"content-encoding": "br"}).status_code == 400
        assert installation.interposer.seen == []


def test_headers_of_the_connection_and_of_the_old_bytes_do_not_reach_the_caller(library, model):
    headers = (
        ("Content-Encoding", "gzip"),
        ("Content-Length", "999"),
        ("Transfer-Encoding", "chunked"),
        ("Connection", "close"),
        ("Set-Cookie", "a=1"),
        ("Set-Cookie", "b=2"),
    )
    with install(Passing(constant(418, headers))), library.Client() as client:
        response = client.post(url(model), json=BODY)
    assert (response.status_code, response.content) == (418, SAID)
    assert response.headers.get_list("set-cookie") == ["a=1", "b=2"]
    assert response.headers["content-length"] == str(len(SAID))
    assert not {"content-encoding", "transfer-encoding", "connection"} & set(response.headers)


def test_time_limits_and_authentication_are_those_of_the_caller(library):
    with ScriptedModel([hang()]) as model, install(Passing()) as installation, library.Client() as client:
        with pytest.raises(library.ReadTimeout) as raised:
            client.post(url(model), json=BODY, timeout=0.1, auth=("user", "word"))
        assert installation.interposer.ended == [raised.value]
        assert "authorization" in model.header_names[0]


def test_a_refused_connection_is_the_library_s_own_error(library):
    with ScriptedModel([]) as model:
        closed = url(model)

    async def work():
        async with library.AsyncClient() as client:
            await client.post(closed, json=BODY)

    with install(Passing()), library.Client() as client:
        with pytest.raises(library.ConnectError):
            client.post(closed, json=BODY)
        with pytest.raises(library.ConnectError):
            asyncio.run(work())


def test_what_the_interposer_uses_itself_is_not_handled_again(library, model):
    def nested(body, send):
        with library.Client() as other:
            assert other.post(url(model), json=BODY).is_success
        return send(body)

    async def work():
        async with library.AsyncClient() as client:
            return await client.post(url(model), json=BODY)

    with install(Passing(nested)) as installation, library.Client() as client:
        assert client.post(url(model), json=BODY).is_success
        assert asyncio.run(work()).is_success
        assert len(installation.interposer.seen) == 2
        assert len(model.requests) == 4


def test_a_client_used_inside_the_send_is_not_handled_again(library, model):
    def hook(_request):
        with library.Client() as other:
            other.post(url(model), json=BODY)

    with install(Passing()) as installation, library.Client(event_hooks={"request": [hook]}) as client:
        assert client.post(url(model), json=BODY).is_success
        assert len(installation.interposer.seen) == 1


class Signal(BaseException):
    pass


def test_a_base_exception_of_the_interposer_reaches_the_caller_and_leaves_the_hook_working(library, model):
    signals = [Signal("a"), Signal("b")]

    def act(body, send):
        if signals:
            raise signals.pop()
        return send(body)

    async def work():
        async with library.AsyncClient() as client:
            await client.post(url(model), json=BODY)

    with install(Passing(act)) as installation, library.Client() as client:
        with pytest.raises(Signal):
            client.post(url(model), json=BODY)
        with pytest.raises(Signal):
            asyncio.run(work())
        assert client.post(url(model), json=BODY).is_success
        assert len(installation.interposer.seen) == 3


# --- async ------------------------------------------------------------------------------------------------------------


def test_the_interposer_may_block_while_other_tasks_go_on(library, model):
    gate = threading.Event()

    def act(body, send):
        assert gate.wait(5)
        return send(body)

    async def work():
        async with library.AsyncClient() as client:
            calls = [asyncio.create_task(client.post(url(model), json=BODY)) for _ in range(50)]
            await asyncio.sleep(0.05)
            gate.set()
            return await asyncio.gather(*calls)

    with install(Passing(act)):
        assert all(response.is_success for response in asyncio.run(work()))
    assert len(model.requests) == 50


async def cancelled_by_task(call, when):
    task = asyncio.create_task(call())
    assert await asyncio.to_thread(when.wait, 5)
    task.cancel("enough")
    task.cancel("really")
    with pytest.raises(asyncio.CancelledError):
        await task


async def cancelled_by_timeout(call, when):
    async def strike():
        assert await asyncio.to_thread(when.wait, 5)
        limit.reschedule(asyncio.get_running_loop().time())

    async def limited():
        async with limit:
            await call()

    limit = asyncio.timeout(None)
    striking = asyncio.create_task(strike())
    with pytest.raises(TimeoutError):
        await limited()
    await striking


async def cancelled_by_scope(call, when):
    async def strike():
        assert await asyncio.to_thread(when.wait, 5)
        scope.cancel()

    with anyio.CancelScope() as scope:
        striking = asyncio.create_task(strike())
        await call()
    assert scope.cancelled_caught
    await striking


CANCELLATIONS = pytest.mark.parametrize("cancel", [cancelled_by_task, cancelled_by_timeout, cancelled_by_scope])


@pytest.fixture
def arrived():
    return threading.Event()


@pytest.fixture
def silent(arrived):
    """A provider that takes a request and doesn't answer."""

    def script(_request):
        arrived.set()
        return hang()

    with ScriptedModel(script) as found:
        yield found


@CANCELLATIONS
def test_a_cancelled_caller_ends_its_request_and_the_interposer_hears_of_it(library, silent, arrived, cancel):
    interposer = Passing()

    async def work():
        async with library.AsyncClient() as client:
            await cancel(lambda: client.post(url(silent), json=BODY), arrived)
            assert [type(error) for error in interposer.ended] == [asyncio.CancelledError]

    with install(interposer):
        asyncio.run(work())


@CANCELLATIONS
def test_a_cancelled_caller_waits_until_the_interposer_has_finished_what_it_does(library, model, cancel):
    working = threading.Event()
    done = []

    def act(body, send):
        reply = send(body)
        if done:
            return reply
        working.set()
        threading.Event().wait(0.3)  # restoring files, say
        done.append(True)
        return send(body)

    interposer = Passing(act)

    async def work():
        async with library.AsyncClient() as client:
            await cancel(lambda: client.post(url(model), json=BODY), working)
            assert done == [True]
            assert [type(error) for error in interposer.ended] == [asyncio.CancelledError]
            assert (await client.post(url(model), json=BODY)).is_success

    with install(interposer):
        asyncio.run(work())
    assert len(model.requests) == 2


def test_an_answer_that_is_there_when_its_caller_has_been_cancelled_is_told_of(library, model):
    answered = threading.Event()

    def act(body, send):
        reply = send(body)
        answered.set()
        threading.Event().wait(0.3)  # what is written down after an answer
        return reply

    interposer = Passing(act)

    async def work():
        async with library.AsyncClient() as client:
            await cancelled_by_task(lambda: client.post(url(model), json=BODY), answered)

    with install(interposer):
        asyncio.run(work())
    assert interposer.lost == interposer.ended
    assert interposer.lost[0].ok


def test_an_interposer_that_keeps_a_cancellation_to_itself_does_not_undo_it(library, silent, arrived):
    def act(body, send):
        try:
            return send(body)
        except asyncio.CancelledError:
            return constant()(body, send)

    async def work():
        async with library.AsyncClient() as client:
            await cancelled_by_task(lambda: client.post(url(silent), json=BODY), arrived)

    with install(Passing(act)):
        asyncio.run(work())


def test_a_coroutine_that_is_thrown_away_lets_the_interposer_end(library):
    interposer = Passing()
    ended = threading.Event()

    def act(body, send):
        try:
            return send(body)
        finally:
            ended.set()

    interposer.act = act

    async def work():
        async with library.AsyncClient() as client:
            coroutine = client.post(url(model), json=BODY)
            future = coroutine.send(None)
            await asyncio.sleep(0.1)
            coroutine.close()
            assert await asyncio.to_thread(ended.wait, 5)
            del future

    with ScriptedModel([hang()]) as model, install(interposer):
        asyncio.run(work())


# --- install and remove -----------------------------------------------------------------------------------------------


def methods():
    return [getattr(module, name).__dict__["send"] for module in (httpx, httpx2) for name in ("Client", "AsyncClient")]


def test_remove_restores_the_originals_exactly(model):
    before, finders = methods(), list(sys.meta_path)
    installation = install(Passing())
    assert not set(before) & set(methods())
    installation.remove()
    assert methods() == before
    assert sys.meta_path == finders
    installation.remove()
    assert httpx.post(url(model), json=BODY).is_success
    assert installation.interposer.seen == []


def test_the_same_interposer_twice_is_one_installation_and_is_asked_once(model):
    interposer = Passing()
    first = install(interposer)
    assert install(interposer) is first
    httpx.post(url(model), json=BODY)
    first.remove()
    httpx.post(url(model), json=BODY)
    first.remove()
    httpx.post(url(model), json=BODY)
    assert len(interposer.seen) == 2


def test_another_interposer_is_refused_and_nothing_is_changed():
    with install(Passing()):
        before = methods()
        with pytest.raises(UsageError, match="remove it first"):
            install(Passing())
        assert methods() == before


def test_somebody_else_s_hook_over_ours_stays(monkeypatch, model):
    interposer = Passing()
    others = []
    original = httpx.Client.send
    installation = install(interposer)
    ours = httpx.Client.send

    def theirs(client, request, **options):
        others.append(request.url.path)
        return ours(client, request, **options)

    monkeypatch.setattr(httpx.Client, "send", theirs)
    installation.remove()
    assert httpx.Client.send is theirs
    assert httpx.post(url(model), json=BODY).is_success
    assert interposer.seen == []
    with install(interposer):
        assert httpx.post(url(model), json=BODY).is_success
    assert len(interposer.seen) == 1
    assert len(others) == 2
    monkeypatch.setattr(httpx.Client, "send", original)


def isolated(code):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


SETUP = """
    import sys
    from agentrewind.integrations.clients import install
    class Passing:
        def wants(self, method, host, path): return False
        def call(self, path, body, send): raise AssertionError
    installation = install(Passing())
    assert not {"httpx", "httpx2", "anyio", "openai"} & set(sys.modules)
"""


def test_libraries_that_are_imported_later_are_hooked_and_none_is_imported():
    isolated(
        SETUP
        + """
    import importlib.util
    assert importlib.util.find_spec("httpx2").origin.endswith("__init__.py")
    import httpx2, httpx._client
    import httpx
    for module in (httpx, httpx2):
        assert type(module.__spec__.loader).__name__ == "SourceFileLoader" == type(module.__loader__).__name__
        for client in (module.Client, module.AsyncClient):
            assert client.send.__wrapped__
    installation.remove()
    assert not hasattr(httpx.Client.send, "__wrapped__")
    assert not hasattr(httpx2.AsyncClient.send, "__wrapped__")
    """
    )


def test_a_library_imported_after_the_removal_is_not_hooked():
    isolated(
        SETUP
        + """
    installation.remove()
    import httpx2
    assert not hasattr(httpx2.Client.send, "__wrapped__")
    """
    )


def test_httpx2_in_the_place_of_httpx_is_hooked_once():
    isolated(
        SETUP
        + """
    import httpx2
    httpx2.alias_httpx()
    import httpx
    assert httpx is httpx2
    assert not hasattr(httpx.Client.send.__wrapped__, "__wrapped__")
    installation.remove()
    assert not hasattr(httpx.Client.send, "__wrapped__")
    """
    )


def test_a_library_that_is_not_there_is_no_problem():
    isolated(
        SETUP
        + """
    class Missing:
        def find_spec(self, name, path, target=None):
            if name == "httpx2":
                raise ModuleNotFoundError(name)
    sys.meta_path.insert(1, Missing())
    try:
        import httpx2
    except ModuleNotFoundError:
        pass
    import httpx
    assert httpx.Client.send.__wrapped__
    """
    )


def test_async_requests_that_are_not_wanted_or_not_json_go_their_usual_way(library, model):
    async def work():
        async with library.AsyncClient() as client:
            assert (await client.get(f"{model.base_url}/models")).is_success
            assert (await client.post(url(model), content=b"{nonsense")).status_code == 400

    with install(Passing()) as installation:
        asyncio.run(work())
        assert installation.interposer.seen == []


@pytest.mark.parametrize("name", ["httpx", "httpx2"])
def test_a_library_that_another_thread_is_importing_is_waited_for(name):
    isolated(
        SETUP.replace("installation = install(Passing())", "").replace('"anyio", ', "")
        + f"""
    import importlib, threading
    entered, go = threading.Event(), threading.Event()
    class Slow:
        def find_spec(self, fullname, path, target=None):
            if fullname == "{name}._client":
                entered.set()
                go.wait(5)
    sys.meta_path.insert(0, Slow())
    thread = threading.Thread(target=importlib.import_module, args=("{name}",))
    thread.start()
    assert entered.wait(20)
    assert not hasattr(sys.modules["{name}"], "Client")
    threading.Timer(0.2, go.set).start()
    installation = install(Passing())
    assert sys.modules["{name}"].Client.send.__wrapped__
    thread.join()
    """
    )


def test_a_library_whose_import_is_under_way_at_the_removal_is_not_hooked():
    isolated(
        SETUP
        + """
    class Removing:
        def find_spec(self, fullname, path, target=None):
            if fullname == "httpx2._client":
                installation.remove()
    sys.meta_path.insert(0, Removing())
    import httpx2
    assert not hasattr(httpx2.Client.send, "__wrapped__")
    """
    )
