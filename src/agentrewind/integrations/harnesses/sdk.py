"""What adapters of harnesses share that call a model through an OpenAI SDK: its client, and its errors as sentences."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from agentrewind.core.codec import Json
from agentrewind.core.errors import AgentError, AgentRewindError, ProviderError
from agentrewind.core.strategy import Stop
from agentrewind.integrations.harnesses.contract import Job, Outcome

REQUEST_TIMEOUT_S = 600.0
MAX_RETRIES = 3
"""How often the SDK repeats a request that failed in passing."""
NO_KEY = "none"
"""SDKs don't start without a key; an endpoint of one's own may need none."""

_UNREACHABLE = ("ConnectError", "ConnectTimeout", "UnsupportedProtocol", "InvalidURL", "LocalProtocolError")
_TOO_LATE = ("ReadTimeout", "APITimeoutError", "APIConnectionError")


def client_options(job: Job) -> dict[str, Any]:
    """What a client of the OpenAI SDK is made with."""
    return {
        "api_key": job.api_key or NO_KEY,
        "base_url": job.base_url,
        "timeout": REQUEST_TIMEOUT_S,
        "max_retries": MAX_RETRIES,
    }


def client(job: Job) -> Any:
    """A client of the OpenAI SDK for this job. Close it."""
    import openai

    if not is_loopback(job.base_url):
        return openai.OpenAI(**client_options(job))
    return openai.OpenAI(**client_options(job), http_client=openai.DefaultHttpxClient(trust_env=False))


def is_loopback(base_url: str | None) -> bool:
    """Whether an endpoint is on this machine: then no proxy may stand between, whatever is set."""
    try:
        return urlsplit(base_url or "").hostname in ("127.0.0.1", "::1", "localhost")
    except ValueError:
        return False


def request_fields(job: Job) -> dict[str, Json]:
    """The fields of every request besides model, messages and tools: temperature 0, unless the job says otherwise."""
    temperature = job.settings.get("temperature", 0)
    fields: dict[str, Json] = {} if temperature is None else {"temperature": temperature}
    return {**fields, **job.settings.get("request", {})}


class LimitReached(Exception):
    """The agent has made as many calls of the model as it may."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"The limit of {limit} model calls was reached.")


def until_accepted(job: Job, ask: Callable[[str | None], str]) -> Outcome:
    """Have the agent work on the task, and on what its submissions are told, until one is accepted or the run stops.

    `ask(text)` puts something to the agent, as a user's next words, and returns its answer; None where it has to go on
    from the seed of the job, which holds the task.
    """
    text = None if job.seed else job.task
    while True:
        try:
            answer = ask(text)
        except LimitReached as reached:
            return Outcome(ok=False, reason=str(reached))
        judged = _judged(job, answer)
        if isinstance(judged, Outcome):
            return judged
        text = judged


async def until_accepted_async(job: Job, ask: Callable[[str | None], Awaitable[str]]) -> Outcome:
    """As `until_accepted`, for an agent in an event loop. A check of its work is waited for in a thread."""
    text = None if job.seed else job.task
    while True:
        judged = await asyncio.to_thread(_judged, job, await ask(text))
        if isinstance(judged, Outcome):
            return judged
        text = judged


def _judged(job: Job, answer: str) -> Outcome | str:
    """How it ended, or what the agent is told."""
    decision = job.submit(answer)
    if isinstance(decision, Stop):
        return Outcome(decision.ok, decision.reason, answer)
    return decision.message


@contextmanager
def told_as_ours(harness: str, job: Job) -> Iterator[None]:
    """Whatever the harness raises, as one sentence of ours; what is no `Exception` goes on its way.

    Raises:
        ProviderError: the endpoint failed. AgentError: the harness did. Errors of ours are raised as they were.
    """
    try:
        yield
    except AgentRewindError:
        raise
    except Exception as error:
        raise problem(harness, job, error) from error


def problem(harness: str, job: Job, error: Exception) -> AgentRewindError:
    """What to tell of an error that came out of a harness."""
    causes = list(chain(error))
    ours = next((cause for cause in causes if isinstance(cause, AgentRewindError)), None)
    if ours is not None:
        return ours
    where = f"The model's endpoint {job.base_url}" if job.base_url else "The model's endpoint"
    refused = next((cause for cause in causes if isinstance(getattr(cause, "status_code", None), int)), None)
    if refused is not None:
        status: int = refused.status_code  # type: ignore[attr-defined]
        return ProviderError(f"{where} {refusal(status, job.model)} (HTTP {status}): {quoted(job, _words(refused))}")
    lost = _named(causes, _UNREACHABLE) or _named(causes, _TOO_LATE)
    if lost is not None:
        return ProviderError(f"{where} could not be reached: {quoted(job, str(lost))}")
    return AgentError(f"{harness} failed: {type(error).__name__}: {quoted(job, str(error))}")


def refusal(status: int, model: str) -> str:
    """What an endpoint did that answered with this status."""
    match status:
        case 401 | 403:
            return "refused the API key"
        case 404:
            return f"doesn't know the model {model!r} (or isn't at this URL)"
        case 429:
            return "has no room for more requests (rate limit or quota)"
        case _ if status >= 500:  # noqa: PLR2004
            return "failed"
    return "refused the request"


def quoted(job: Job, text: str) -> str:
    """Words of others, in one line and without the key."""
    key = (job.api_key or "").strip()
    if key:
        text = text.replace(key, "[key]")
    return " ".join(text.split())[:300] or "(no text)"


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """`error` and what it was raised from or during."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _named(causes: list[BaseException], names: tuple[str, ...]) -> BaseException | None:
    """By name, because httpx and httpx2 each have their own."""
    return next((cause for cause in causes if type(cause).__name__ in names), None)


def _words(error: BaseException) -> str:
    """The provider's own, where the SDK has them."""
    body = getattr(error, "body", None)
    said = body.get("message") if isinstance(body, dict) else None
    return said if isinstance(said, str) else str(error)
