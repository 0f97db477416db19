"""Model, environment and agent classes for mini-SWE-agent. Importing this imports it, which takes seconds.

Raises on import:
    UsageError: the package isn't installed; the text says how to install it.
"""

from __future__ import annotations

import os
import platform
import re
import ssl
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from agentrewind.core.codec import Json
from agentrewind.core.edits import Message
from agentrewind.core.errors import AgentError, AgentRewindError, NotRun, ProviderError, UsageError
from agentrewind.core.strategy import Stop
from agentrewind.core.tools import CANDIDATES, COMMIT
from agentrewind.integrations.harnesses.contract import Job, Outcome, progress_line
from agentrewind.integrations.harnesses.sdk import REQUEST_TIMEOUT_S, chain, is_loopback, request_fields
from agentrewind.integrations.sandbox import commands_of
from agentrewind.integrations.sandbox.spec import told

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else it fetches a price list at import
os.environ.setdefault("MSWEA_SILENT_STARTUP", "1")

try:
    import litellm
    import openai
    from minisweagent.agents.default import DefaultAgent
    from minisweagent.config import builtin_config_dir, get_config_from_spec
    from minisweagent.environments.local import LocalEnvironment
    from minisweagent.exceptions import Submitted
    from minisweagent.models.litellm_model import LitellmModel
except ImportError as error:
    raise UsageError(
        f"mini-SWE-agent can't be used here ({error}). `pip install 'agentrewind[mini]'` adds it."
    ) from error

OUTPUT_LIMIT = 1_000_000
"""How many bytes of a command's output are kept; mini-SWE-agent shows the model less of it."""
ACCEPTED = "Submission received. It was checked; the result follows."

FINAL = "<important>After this command, you cannot continue working on this task.</important>"
CHECKED = "Your work is then checked; if something is still missing, you are told what and go on."
ONE_CALL = "- Your response MUST include AT LEAST ONE bash tool call\n"
REWIND = f"  (or a call of {CANDIDATES} or {COMMIT}, with which you can go back to an earlier point of your work)\n"


def run(job: Job, retry_delays_s: tuple[float, ...]) -> Outcome:
    """As `Harness.run`."""
    config = _config()
    litellm.suppress_debug_info = True  # else every error prints a banner to the terminal
    with closing(Model(job, config["model"], retry_delays_s)) as model:
        agent = Agent(
            model,
            Environment(job, config["environment"].get("env", {})),
            job=job,
            system_template=config["agent"]["system_template"],
            instance_template=adjusted(
                config["agent"]["instance_template"], offers_rewind=job.offers_rewind, sandbox=told(job.sandbox)
            ),
            step_limit=job.settings.get("max_steps") or 0,
            cost_limit=0.0,
            wall_time_limit_seconds=0,
            output_path=job.settings.get("trajectory"),
        )
        try:
            ended = agent.run(job.task)
        except AgentRewindError:
            raise
        except Exception as error:  # whatever a foreign program raises
            raise AgentError(f"mini-SWE-agent failed: {type(error).__name__}: {error}") from error
    if agent.stop is not None:
        return Outcome(agent.stop.ok, agent.stop.reason, agent.answer)
    return Outcome(ok=False, reason=_reason(ended.get("exit_status", ""), job), answer=agent.answer)


def _config() -> Json:
    """mini-SWE-agent's own default. By its whole path: by its name, a mini.yaml in the current directory would win."""
    return get_config_from_spec(builtin_config_dir / "mini.yaml")


def adjusted(template: str, *, offers_rewind: bool, sandbox: str = "") -> str:
    """The instructions, with what is not so here replaced: a submission is not the end, and bash not the only tool."""
    template = template.replace(FINAL, CHECKED)
    if sandbox:
        template = f"{template.rstrip()}\n\n{sandbox}\n"
    return template.replace(ONE_CALL, ONE_CALL + REWIND) if offers_rewind else template


def _reason(exit_status: str, job: Job) -> str:
    match exit_status:
        case "LimitsExceeded":
            return f"The limit of {job.settings.get('max_steps')} model calls was reached."
        case "RepeatedFormatError":
            return "The model answered several times in a row without a usable tool call."
        case _:
            return f"mini-SWE-agent ended: {exit_status or 'for no stated reason'}."


class Agent(DefaultAgent):  # type: ignore[misc]
    """mini-SWE-agent's loop, in which a submission is judged and may be followed by more work."""

    def __init__(self, model: Model, env: Environment, *, job: Job, **config: Any) -> None:
        super().__init__(model, env, **config)
        self._job = job
        self._seed = [dict(message) for message in job.seed]
        self.stop: Stop | None = None
        self.answer = ""

    def add_messages(self, *messages: Message) -> list[Message]:
        """The seed takes the place of the two messages with which `run` opens every conversation."""
        seed, self._seed = self._seed, []
        added: list[Message] = super().add_messages(*(seed or messages))
        return added

    def execute_actions(self, message: Message) -> list[Message]:
        outputs: list[Json] = []
        try:
            for action in message["extra"]["actions"]:
                outputs.append(self.env.execute(action))  # noqa: PERF401 (what ran before a submission must stay)
        except Submitted as submitted:
            self.answer = submitted.messages[0]["content"].strip() or str(message.get("content") or "")
            decision = self._job.submit(self.answer)
            if isinstance(decision, Stop):
                self.stop = decision
                raise
            outputs.append({"output": ACCEPTED, "returncode": 0, "exception_info": ""})
            feedback = [self.model.format_message(role="user", content=decision.message)]
        else:
            feedback = []
        results = self.model.format_observation_messages(message, outputs, self.get_template_vars())
        return self.add_messages(*results, *feedback)


class Environment(LocalEnvironment):  # type: ignore[misc]
    """The workspace of a job: every command is recorded, has no input, and runs as long as it needs."""

    def __init__(self, job: Job, env: dict[str, str]) -> None:
        super().__init__(cwd=str(job.workspace), env=env)
        self._job = job
        self._commands = commands_of(job.sandbox)

    def execute(self, action: Json, cwd: str = "", *, timeout: int | None = None) -> dict[str, Any]:
        """Raises: Submitted: the command is the submission (and is recorded as any other)."""
        command = action.get("command", "")
        self._job.say(progress_line(command))
        try:
            output = self._job.recorder.tool(
                "bash",
                {"command": command},
                lambda: self._run(command, Path(cwd or self._job.workspace), timeout),
                call_id=action.get("tool_call_id"),
            )
        except NotRun as held:
            return {"output": str(held), "returncode": 126, "exception_info": ""}
        self._check_finished(output)
        return output

    def _run(self, command: str, cwd: Path, timeout: float | None) -> dict[str, Any]:
        result = self._commands.run(
            command,
            cwd=cwd,
            environ={**self._job.environ, **self.config.env},
            timeout_s=timeout or self._job.settings.get("command_timeout_s"),
            output_limit=OUTPUT_LIMIT,
            pass_keys=(*self._job.settings.get("pass_keys", ()), *self.config.env),
        )
        ended = f"The command was ended after {result.seconds:.0f} s (time-out)." if result.timed_out else ""
        return {"output": result.output, "returncode": result.exit_code, "exception_info": ended}

    def get_template_vars(self, **kwargs: Any) -> dict[str, Any]:
        """Without the process's environment, which would make prompts differ and may hold keys."""
        return {**self.config.model_dump(), **platform.uname()._asdict(), **kwargs}


# --- the model --------------------------------------------------------------------------------------------------------

_errors = litellm.exceptions
_IN_PASSING = (
    _errors.APIConnectionError,
    _errors.BadGatewayError,
    _errors.InternalServerError,
    _errors.RateLimitError,
    _errors.ServiceUnavailableError,
    _errors.Timeout,
)
_UNREACHABLE = (_errors.APIConnectionError, _errors.Timeout)
_WHAT: tuple[tuple[Any, str], ...] = (
    ((_errors.AuthenticationError, _errors.PermissionDeniedError), "refused the API key"),
    (_errors.NotFoundError, "doesn't know the model {model!r} (or isn't at this URL)"),
    (_errors.RateLimitError, "has no room for more requests (rate limit or quota)"),
    (_errors.BadRequestError, "refused the request"),
    (_UNREACHABLE, "could not be reached"),
    (Exception, "failed"),
)
_NOISE = re.compile(
    r"^(?:litellm\.\w+: )?(?:\w+(?:Error|Exception): )*(?:\w+Exception - )?| You can permanently set .*$", re.DOTALL
)


class Model(LitellmModel):  # type: ignore[misc]
    """A LiteLLM model that says what is wrong instead of trying again for minutes.

    Tools other than bash are offered and answered on the wire; neither this class nor the agent sees them.
    """

    abort_exceptions = (BaseException,)
    """Upstream repeats all but these, ten times in four minutes, BaseExceptions too. `_query` does the repeating."""

    def __init__(self, job: Job, config: Json, retry_delays_s: tuple[float, ...]) -> None:
        super().__init__(
            **{
                **config,
                "model_name": f"openai/{job.model}" if job.base_url else job.model,
                "model_kwargs": {**config.get("model_kwargs", {}), **_request(job)},
                "cost_tracking": "ignore_errors",
            }
        )
        self._where = f"The model's endpoint {job.base_url}" if job.base_url else f"The endpoint of {job.model}"
        self._job = job
        self._delays = retry_delays_s
        # Not in the configuration, which upstream writes into trajectories and offers to templates.
        key = job.api_key or ("none" if job.base_url else None)
        self._transport: dict[str, Any] = {"api_key": key} if key else {}
        if job.base_url and is_loopback(job.base_url):
            self._transport["client"] = _direct_client(job.base_url, key)
        self._answered = False

    def close(self) -> None:
        """End the connections that are ours; LiteLLM keeps its own for the next run."""
        if "client" in self._transport:
            self._transport["client"].close()

    def _query(self, messages: list[Message], **kwargs: Any) -> Any:
        delays = iter(self._delays)
        while True:
            try:
                response = super()._query(messages, **self._transport, **kwargs)
            except openai.OpenAIError as error:
                ours = next((cause for cause in chain(error) if isinstance(cause, AgentRewindError)), None)
                if ours is not None:  # raised under the SDK, by whoever records this run
                    raise ours from ours.__cause__
                problem, delay = self._problem(error), next(delays, None)
                if delay is None or not self._may_pass(error):
                    raise problem from error
                self._job.say(f"{problem} Trying again.")
                time.sleep(delay)
            else:
                self._answered = True
                return response

    def _may_pass(self, error: openai.OpenAIError) -> bool:
        """Nobody listening at the first call is a wrong URL."""
        if _cause(error, "UnsupportedProtocol", "InvalidURL") or (_cause(error, "ConnectError") and not self._answered):
            return False
        return isinstance(error, _IN_PASSING)

    def _problem(self, error: openai.OpenAIError) -> ProviderError:
        """`error` as one sentence."""
        transport = _cause(error, "ConnectError", "UnsupportedProtocol", "InvalidURL")
        kinds = _errors.APIConnectionError if transport else type(error)
        what = next(what for classes, what in _WHAT if issubclass(kinds, classes))
        return ProviderError(f"{self._where} {what.format(model=self._job.model)}: {self._quoted(transport or error)}")

    def _quoted(self, error: BaseException) -> str:
        text = _NOISE.sub("", str(error))
        if self._job.api_key:
            text = text.replace(self._job.api_key, "[key]")
        return " ".join(text.split())[:300] or type(error).__name__


def _request(job: Job) -> dict[str, Json]:
    """The fields of every request; those of the transport as LiteLLM names them."""
    fields: dict[str, Json] = {"timeout": REQUEST_TIMEOUT_S, "max_retries": 0, "num_retries": 0}
    if job.base_url:
        fields["api_base"] = job.base_url
    return {**fields, **request_fields(job)}


def _direct_client(base_url: str, key: str | None) -> openai.OpenAI:
    """An SDK client that asks no proxy for this machine, whatever is set.

    Where it needs no certificates it loads none, which takes longer than all else here; it then trusts nobody's.
    """
    plain = base_url.lower().startswith("http://")
    trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if plain else True
    http_client = openai.DefaultHttpxClient(trust_env=False, verify=trusted)
    return openai.OpenAI(api_key=key, base_url=base_url, max_retries=0, http_client=http_client)


def _cause(error: BaseException, *names: str) -> BaseException | None:
    """The error of that name behind `error`; by name, because httpx and httpx2 each have their own."""
    return next((cause for cause in chain(error) if type(cause).__name__ in names), None)
