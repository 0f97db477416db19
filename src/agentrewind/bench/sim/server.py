"""The simulated model behind a real server: OpenAI's Chat Completions on loopback.

The name of the model says what is asked for, so that the server keeps nothing: `TASK:SEED` or `TASK:SEED:PROFILE` for
the agent, `guard:TASK:SEED` (and so on) for the guard of its calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agentrewind.bench.sim.guard import judged
from agentrewind.bench.sim.model import Simulated
from agentrewind.bench.sim.policy import Policy
from agentrewind.bench.sim.profiles import DEFAULT, profile_named
from agentrewind.core.errors import UsageError
from agentrewind.testing.scripted import Request, ScriptedModel, Step, fail

GUARD = "guard"


def model_name(task: str, seed: int, profile: str = DEFAULT) -> str:
    """The model that is `profile` on `task` in the run with this seed."""
    return f"{task}:{seed}:{profile}"


def guard_name(task: str, seed: int, profile: str = DEFAULT) -> str:
    """The guard beside it."""
    return f"{GUARD}:{model_name(task, seed, profile)}"


@dataclass(frozen=True, slots=True)
class _Player:
    policies: Mapping[str, Policy]

    def __call__(self, request: Request) -> Step:
        name = str(request.body["model"])
        try:
            model = self._model(name.removeprefix(f"{GUARD}:"))
        except UsageError as error:
            return fail(404, str(error))
        return judged(model, request) if name.startswith(f"{GUARD}:") else model.answer(request)

    def _model(self, name: str) -> Simulated:
        """Raises: UsageError: it names no task, seed or profile."""
        task, _, rest = name.partition(":")
        seed, _, profile = rest.partition(":")
        if task not in self.policies or not (seed or "0").isdigit():
            raise UsageError(
                f"There is no model {name!r}. Say TASK:SEED:PROFILE, TASK being one of: {', '.join(self.policies)}."
            )
        return Simulated(self.policies[task], profile_named(profile or DEFAULT), int(seed or 0))


def served(policies: Mapping[str, Policy], *, port: int = 0) -> ScriptedModel:
    """The server for these tasks, not yet started; `port` 0 is any free one."""
    return ScriptedModel(_Player(dict(policies)), models=tuple(policies), remember=False, port=port)
