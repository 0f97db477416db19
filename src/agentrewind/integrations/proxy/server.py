"""The proxy's server: an event loop in a thread of its own, on a free port of this machine's loopback."""

from __future__ import annotations

import asyncio
import secrets
import signal
import threading
from collections.abc import Mapping
from typing import Self

from agentrewind.core.errors import AgentError
from agentrewind.integrations.clients import Interposer
from agentrewind.integrations.loopback import listening
from agentrewind.integrations.proxy.app import ANTHROPIC_MOUNT, App, Limits
from agentrewind.integrations.proxy.callers import Callers
from agentrewind.integrations.proxy.upstream import Family, Upstream

DRAIN_S = 5.0
"""How long requests that are under way may take at the end."""
_IDLE_S = 120
"""How long a client's connection may lie idle: longer than clients themselves keep one."""
_BACKLOG = 512


class Listening:
    """The address of a proxy that isn't running yet: a port of loopback that is ours, and the token of this run.

    A client may connect from now on; it is answered when the proxy runs.

    Args:
        port: 0 for a free one.

    Raises:
        UsageError: the port is taken.
    """

    def __init__(self, port: int = 0) -> None:
        self.socket = listening(port, _BACKLOG)
        self.port: int = self.socket.getsockname()[1]
        self.token = secrets.token_urlsafe(24)
        """What a client must know. It stands in the URLs, and nowhere in what is kept."""

    @property
    def base_url(self) -> str:
        """What a client of OpenAI is told, version included."""
        return f"http://127.0.0.1:{self.port}/{self.token}/v1"

    @property
    def anthropic_base_url(self) -> str:
        """What a client of Anthropic is told, which adds the version itself."""
        return f"http://127.0.0.1:{self.port}/{self.token}{ANTHROPIC_MOUNT.decode()}"

    def close(self) -> None:
        self.socket.close()


class Proxy:
    """A proxy in front of `upstreams`, whose calls go through `interposer`. A context manager: it answers inside."""

    def __init__(
        self,
        interposer: Interposer,
        upstreams: Mapping[Family, Upstream],
        listening: Listening,
        *,
        callers: Callers | None = None,
        limits: Limits = Limits(),  # noqa: B008 (frozen)
    ) -> None:
        self._interposer, self._upstreams, self._limits = interposer, dict(upstreams), limits
        self._callers = callers or Callers()
        self.listening = listening
        self._thread = threading.Thread(target=self._run, name="agentrewind proxy", daemon=True)
        self._ready = threading.Event()
        self._stopping: asyncio.Event
        self._loop: asyncio.AbstractEventLoop
        self._failure: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        self._raise_failure()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drain and stop: when this returns, no call is under way. Again, it does nothing.

        Raises: what went wrong in the proxy itself, if anything did: it has stopped all the same.
        """
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()
        self.listening.close()
        self._raise_failure()

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if isinstance(failure, SystemExit):
            raise AgentError("The proxy's server could not be started.") from failure
        if failure is not None:
            raise failure

    def _run(self) -> None:
        # Signals are for the main thread; the threads that this one starts inherit the mask.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            asyncio.run(self._serve())
        except (Exception, SystemExit) as failure:  # noqa: BLE001 (raised again in the thread of the owner)
            self._failure = failure
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        app = App(
            self._interposer,
            self._upstreams,
            self.listening.token,
            self.listening.port,
            callers=self._callers,
            limits=self._limits,
        )
        import uvicorn  # optional, and slow to import

        config = uvicorn.Config(
            app,
            loop="asyncio",
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=_IDLE_S,
            timeout_graceful_shutdown=1,
            backlog=_BACKLOG,
        )
        server = uvicorn.Server(config)
        serving = asyncio.ensure_future(server.serve(sockets=[self.listening.socket]))
        self._ready.set()
        stopping = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        await app.close(DRAIN_S)
        server.should_exit = True
        await serving
        if app.failures:
            raise app.failures[0]
