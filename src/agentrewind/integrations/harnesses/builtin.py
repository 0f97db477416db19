"""The built-in shell agent: a loop over a chat completions endpoint with one tool."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from agentrewind.core.codec import Json
from agentrewind.core.edits import Message
from agentrewind.core.errors import AgentError, ProviderError
from agentrewind.core.strategy import Stop
from agentrewind.integrations.harnesses import sdk, shell
from agentrewind.integrations.harnesses.contract import Job, Outcome

if TYPE_CHECKING:
    import httpx

BASE_URL = "https://api.openai.com/v1"
CUT_OFF_LIMIT = 3
"""How many answers in a row may end at the token limit without a tool call."""

SHELL: Json = {
    "type": "function",
    "function": {"name": shell.NAME, "description": shell.DESCRIPTION, "parameters": shell.PARAMETERS},
}

CUT_OFF = "Your answer was cut off at the token limit. Go on, in smaller pieces: one short tool call at a time."


@dataclass(frozen=True, slots=True)
class BuiltinAgent:
    """The loop. Settings of a job that it knows, all optional:

    `max_steps`: how many model calls it may make (no limit).
    `temperature`: 0 unless given; None leaves it out of the request.
    `request`: more fields of the request body, for example `max_tokens`.
    `command_timeout_s`: the time-out of commands for which the model sets none (no limit).
    `pass_keys`: the names of keys in `environ` that commands may see.
    """

    name: str = field(default="builtin", init=False)
    preload: ClassVar[tuple[str, ...]] = ("httpx", "agentrewind.integrations.harnesses.builtin")
    """What a process imports from which processes of this agent are forked."""
    seeds: ClassVar[bool] = True
    """Whether it goes on from `Job.seed`."""
    options: ClassVar[tuple[str, ...]] = ("max_steps", "temperature", "request", "command_timeout_s", "pass_keys")
    retry_delays_s: tuple[float, ...] = (1.0, 4.0, 15.0)
    """How long to wait before each new try of a request that failed in passing."""

    def run(self, job: Job) -> Outcome:
        with _client(job) as client:
            return _Conversation(job, _Endpoint(job, client, self.retry_delays_s)).run()


class _Conversation:
    def __init__(self, job: Job, endpoint: _Endpoint) -> None:
        self._job = job
        self._endpoint = endpoint
        self._shell = shell.Shell(job)
        self._messages: list[Message] = [dict(message) for message in job.seed] or _opening(job)

    def run(self) -> Outcome:
        limit = self._job.settings.get("max_steps")
        cut_off = steps = 0
        while limit is None or steps < limit:
            steps += 1
            message, finish = self._endpoint.answer(self._messages)
            self._messages.append(message)
            if message.get("tool_calls"):
                self._messages += [self._result(call) for call in message["tool_calls"]]
            elif finish == "length":
                cut_off += 1
                if cut_off == CUT_OFF_LIMIT:
                    raise AgentError(f"The model's answer was cut off at its token limit {cut_off} times in a row.")
                self._messages.append({"role": "user", "content": CUT_OFF})
                continue
            else:
                decision = self._job.submit(message["content"])
                if isinstance(decision, Stop):
                    return Outcome(decision.ok, decision.reason, message["content"])
                self._messages.append({"role": "user", "content": decision.message})
            cut_off = 0
        return Outcome(ok=False, reason=f"The limit of {limit} model calls was reached.")

    def _result(self, call: Json) -> Message:
        return {"role": "tool", "tool_call_id": call["id"], "content": self._run(call)}

    def _run(self, call: Json) -> str:
        name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
        if name != shell.NAME:
            return f"There is no tool {name!r}. Nothing was run; the tool for commands is 'shell'."
        if UNPARSED in arguments:
            return (
                "The arguments of this call are not a JSON object, so nothing was run. Call shell again with"
                ' {"command": "..."}, with quotes and line breaks inside the command escaped.'
            )
        return self._shell.call(arguments, call["id"])


def _opening(job: Job) -> list[Message]:
    return [{"role": "system", "content": shell.instructions(job)}, {"role": "user", "content": job.task}]


# --- the endpoint -----------------------------------------------------------------------------------------------------

UNPARSED = "unparsed_arguments"
"""Arguments that aren't a JSON object go back to the provider under this name: many refuse a history that holds them
as they were."""

_IN_PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


def _client(job: Job) -> httpx.Client:
    import httpx

    return httpx.Client(
        headers={"Authorization": f"Bearer {job.api_key.strip()}"} if job.api_key else {},
        timeout=httpx.Timeout(sdk.REQUEST_TIMEOUT_S, connect=15.0),
        mounts={"all://127.0.0.1": None, "all://localhost": None, "all://[::1]": None},  # never through a proxy
    )


@dataclass(frozen=True, slots=True)
class _InPassing:
    """A failure that may be gone at the next try. `wait_s` is what the provider asked for."""

    problem: ProviderError
    wait_s: float | None = None


class _Endpoint:
    """One model behind one URL."""

    def __init__(self, job: Job, client: httpx.Client, retry_delays_s: tuple[float, ...]) -> None:
        self._base = (job.base_url or BASE_URL).rstrip("/")
        self._url = self._base + "/chat/completions"
        self._model = job.model
        self._key = (job.api_key or "").strip()
        self._say = job.say
        self._client = client
        self._delays = retry_delays_s
        self._answered = False
        self._params = sdk.request_fields(job)

    def answer(self, messages: list[Message]) -> tuple[Message, str | None]:
        """The model's next message in the form in which it goes back to the provider, and why it ended.

        Raises:
            ProviderError: one sentence: the endpoint can't be reached, refused, or answered with something else.
        """
        response = self._send(messages)
        try:
            choice = response.json()["choices"][0]
            message = _tidy(choice["message"], len(messages))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            start = self._quoted(response.text)
            raise ProviderError(f"{self._url} answered with something that is no chat completion: {start}") from error
        self._answered = True
        return message, choice.get("finish_reason")

    def _send(self, messages: list[Message]) -> httpx.Response:
        delays = iter(self._delays)
        while True:
            outcome = self._attempt(messages)
            if not isinstance(outcome, _InPassing):
                return outcome
            delay = next(delays, None)
            if delay is None:
                raise outcome.problem
            self._say(f"{outcome.problem} Trying again.")
            time.sleep(delay if outcome.wait_s is None else outcome.wait_s)

    def _attempt(self, messages: list[Message]) -> httpx.Response | _InPassing:
        import httpx

        try:
            response = self._post(messages)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, UnicodeEncodeError) as error:
            raise ProviderError(
                f"Nothing can be sent to {self._base} with this API key: {self._quoted(str(error))}"
            ) from error
        except httpx.TransportError as error:
            return self._unreachable(error, final=isinstance(error, httpx.ConnectError) and not self._answered)
        if response.is_success:
            return response
        refusal = self._refusal(response)
        if response.status_code in _IN_PASSING:
            return _InPassing(refusal, _retry_after(response))
        if response.status_code == 400 and "temperature" in self._params and "temperature" in str(refusal):  # noqa: PLR2004
            del self._params["temperature"]  # reasoning models take none
            return self._attempt(messages)
        raise refusal

    def _post(self, messages: list[Message]) -> httpx.Response:
        body = {"model": self._model, "messages": messages, "tools": [SHELL], **self._params}
        # Not httpx's own encoder: it fails on the lone surrogates that a model or a file name may hold.
        return self._client.post(
            self._url, content=json.dumps(body).encode(), headers={"Content-Type": "application/json"}
        )

    def _unreachable(self, error: httpx.TransportError, *, final: bool) -> _InPassing:
        """Nobody listening at the first call is a wrong URL: `final`, no more tries."""
        said = self._quoted(str(error) or type(error).__name__)
        problem = ProviderError(f"The model's endpoint {self._base} could not be reached: {said}")
        problem.__cause__ = error
        if final:
            raise problem
        return _InPassing(problem)

    def _refusal(self, response: httpx.Response) -> ProviderError:
        status, said = response.status_code, self._quoted(_error_text(response))
        return ProviderError(
            f"The model's endpoint {self._base} {sdk.refusal(status, self._model)} (HTTP {status}): {said}"
        )

    def _quoted(self, text: str) -> str:
        if self._key:
            text = text.replace(self._key, "[key]")
        return " ".join(text.split())[:300] or "(no text)"


def _error_text(response: httpx.Response) -> str:
    try:
        body = response.json()
    except (ValueError, RecursionError):
        return response.text
    error = body.get("error", body) if isinstance(body, Mapping) else body
    message = error.get("message") or error.get("detail") if isinstance(error, Mapping) else error
    return message if isinstance(message, str) else response.text


def _retry_after(response: httpx.Response) -> float | None:
    try:
        return min(max(float(response.headers["retry-after"]), 0.0), 60.0)
    except (KeyError, ValueError):
        return None


def _tidy(message: Json, at: int) -> Message:
    """The assistant message number `at` without empty fields and with calls that any provider takes back."""
    tidy = {key: value for key, value in message.items() if value not in (None, [], {})}
    tidy |= {"role": "assistant", "content": message.get("content")}
    if "tool_calls" in tidy:
        calls = enumerate(tidy["tool_calls"])
        return {**tidy, "tool_calls": [_tidy_call(call, f"call_{at}_{number}") for number, call in calls]}
    return {**tidy, "content": _text(message.get("content"))}


def _tidy_call(call: Json, default_id: str) -> Json:
    function = {"name": "", **call["function"]}
    raw = function.get("arguments") or "{}"
    if not isinstance(raw, str):
        raw = json.dumps(raw)
    function["arguments"] = raw if _is_json_object(raw) else json.dumps({UNPARSED: raw})
    return {**call, "id": call.get("id") or default_id, "type": "function", "function": function}


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _text(content: Json) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content if isinstance(part, Mapping))
    if not isinstance(content, str | None):
        raise TypeError("the content of a message is neither text nor a list of parts")
    return content or ""
