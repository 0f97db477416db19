"""What the adapters of agent frameworks share: the shell as a tool that they record themselves, and its clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from agentrewind.core.codec import Json
from agentrewind.integrations.harnesses import sdk, shell
from agentrewind.integrations.harnesses.contract import Job, Outcome

T = TypeVar("T")

OPTIONS = (
    "max_steps",
    "temperature",
    "request",
    "command_timeout_s",
    "pass_keys",
    "stream",
    "api",
)
"""The settings that these agents know: those of the built-in one; `stream`: whether the model's answers are streamed;
`api`: `chat` (the default) or `responses`.
"""
UNREADABLE = (
    "The arguments of this call are not a JSON object, so nothing was run. Call the tool again, with quotes and line"
    " breaks inside of texts escaped."
)


class _Unrecorded:
    """The recorder inside of a tool whose calls are recorded around it."""

    def tool(self, name: str, arguments: Json, run: Callable[[], T], *, call_id: str | None = None) -> T:
        del name, arguments, call_id
        return run()


def shell_of(job: Job) -> Callable[[Json], str]:
    """The shell of a job as a function of its arguments, for a tool that whoever calls it records."""
    inner = shell.Shell(replace(job, recorder=_Unrecorded()))  # type: ignore[arg-type]
    return inner.call


def hung(holder: Any, name: str, value: object) -> Callable[[], None]:
    """Hang a function on an object in place of the method of its class, or of what hangs there; what undoes that."""
    before = vars(holder).get(name)
    setattr(holder, name, value)

    def undo() -> None:
        if before is None:
            delattr(holder, name)
        else:
            setattr(holder, name, before)

    return undo


def limit_reached(job: Job) -> Outcome:
    return Outcome(ok=False, reason=f"The limit of {job.settings.get('max_steps')} model calls was reached.")


def async_client(job: Job) -> Any:
    """A client of the OpenAI SDK."""
    import openai

    plain = openai.DefaultAsyncHttpxClient(trust_env=not sdk.is_loopback(job.base_url))
    return openai.AsyncOpenAI(**sdk.client_options(job), http_client=plain)


def api_of(job: Job) -> str:
    return str(job.settings.get("api", "chat"))


def streams(job: Job) -> bool:
    return bool(job.settings.get("stream"))
