"""The real mini-SWE-agent, driven through its own extension points: no patching, nothing imported until it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from agentrewind.integrations.harnesses.contract import Job, Outcome


@dataclass(frozen=True, slots=True)
class MiniSweAgent:
    """mini-SWE-agent 2.4 with its own default configuration and without its limits on cost, steps and time.

    A submission is its command COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT. Settings of a job that it knows, all optional:

    `max_steps`: how many model calls it may make (no limit).
    `temperature`: 0 unless given; None leaves it out of the request.
    `request`: more fields of the request body, for example `max_tokens`.
    `command_timeout_s`: the time-out of commands (no limit).
    `pass_keys`: the names of keys in `environ` that commands may see.
    `trajectory`: a path to which mini-SWE-agent writes its own record after each step (none).
    """

    name: str = field(default="mini-swe-agent", init=False)
    preload: ClassVar[tuple[str, ...]] = (
        "agentrewind.integrations.harnesses.mini_classes",
        "agentrewind.integrations.harnesses.mini_lazy",
    )
    """What a process imports from which processes of this agent are forked."""
    seeds: ClassVar[bool] = True
    """Whether it goes on from `Job.seed`."""
    options: ClassVar[tuple[str, ...]] = (
        "max_steps",
        "temperature",
        "request",
        "command_timeout_s",
        "pass_keys",
        "trajectory",
    )
    retry_delays_s: tuple[float, ...] = (1.0, 4.0, 15.0)
    """How long to wait before each new try of a request that failed in passing."""

    def run(self, job: Job) -> Outcome:
        """Raises: UsageError where the package isn't installed; else as `Harness`."""
        from agentrewind.integrations.harnesses import mini_classes

        return mini_classes.run(job, self.retry_delays_s)
