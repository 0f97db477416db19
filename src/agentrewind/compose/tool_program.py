"""Where a run offers its two tools to programs, and how they reach it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from agentrewind.compose.home import Home
from agentrewind.core.codec import Json
from agentrewind.core.errors import UsageError
from agentrewind.engine.by_program import Told
from agentrewind.engine.processes import RUN_MARK
from agentrewind.integrations.sandbox.spec import Sandbox
from agentrewind.integrations.tool_program import ToolSocket, ask
from agentrewind.integrations.tool_program.client import SOCKET, SOCKET_VARIABLE


@contextmanager
def offered(run_dir: Path, answer: Callable[[str, Json], Told], sandbox: Sandbox | None = None) -> Iterator[None]:
    """Have `answer` carry out calls that come from programs: beside the journal, and in the sandbox of the run.

    Raises:
        AgentError: a socket can't be made.
    """
    places = [run_dir, *([] if sandbox is None else [sandbox.reach])]
    with ExitStack() as sockets:
        for place in places:
            sockets.enter_context(ToolSocket(place / SOCKET, answer))
        yield


def socket_of(home: Home, environ: Mapping[str, str]) -> Path:
    """The socket of the run that this process is inside of. Raises: UsageError: it is inside of none."""
    named = environ.get(SOCKET_VARIABLE)
    if named:
        return Path(named)
    run_id = environ.get(RUN_MARK, "")
    if not home.is_run_id(run_id):
        raise UsageError(
            "This is not started inside of a run, so there is nothing to go back in. `agentrewind rewind` brings a run"
            " back from outside."
        )
    return home.run_dir(run_id) / SOCKET


def call(run_dir: Path, tool: str, arguments: Json) -> Told:
    """Have a run that is alive carry out a call of one of its tools.

    Raises:
        UsageError: it isn't alive, or offers no tools to programs. Nothing was moved.
    """
    try:
        text, ok = ask(str(run_dir / SOCKET), tool, arguments)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"The run {run_dir.name} isn't alive, or is one of a program's own session: nobody answers its tools"
            f" ({error}). Nothing was moved."
        ) from error
    return Told(text, ok)
