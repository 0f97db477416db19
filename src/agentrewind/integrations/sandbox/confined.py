"""Running one command in a sandbox of any kind: a kind says how it is started there, and what its own failures are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from agentrewind.engine.commands import OUTPUT_LIMIT, CommandResult, result_of
from agentrewind.engine.started import Start
from agentrewind.integrations.sandbox.environment import environment
from agentrewind.integrations.sandbox.spec import Sandbox


@dataclass(frozen=True, slots=True)
class Wanted:
    """A command as it is to run inside, in `cwd` as that is seen there, with `variables` and no others."""

    command: str
    cwd: str
    variables: dict[str, str]
    environ: Mapping[str, str]
    """The environment outside, from which `variables` were chosen."""


def wanted(
    sandbox: Sandbox, command: str, cwd: Path, environ: Mapping[str, str], pass_keys: Collection[str] = ()
) -> Wanted:
    """The command as the sandbox lets it run."""
    inside = sandbox.inside(cwd)
    return Wanted(command, inside, environment(sandbox, environ, pass_keys, inside), environ)


@dataclass(frozen=True, slots=True)
class Confined:
    """Commands in a sandbox: `Commands`, with the time limit of the sandbox where none is named."""

    sandbox: Sandbox
    prepared: Callable[[Sandbox, Wanted], AbstractContextManager[Start]]
    """What starts a command. Raises inside: OSError: it can't be."""
    blamed: Callable[[CommandResult, Sandbox], CommandResult]
    """A result that says so where it was the sandbox that failed."""

    def run(
        self,
        command: str,
        *,
        cwd: Path,
        environ: Mapping[str, str],
        timeout_s: float | None = None,
        output_limit: int = OUTPUT_LIMIT,
        pass_keys: Collection[str] = (),
    ) -> CommandResult:
        """See `Commands`."""
        limit = self.sandbox.confinement.limits.seconds if timeout_s is None else timeout_s
        prepared = self.prepared(self.sandbox, wanted(self.sandbox, command, cwd, environ, pass_keys))
        return self.blamed(result_of(prepared, cwd, timeout_s=limit, output_limit=output_limit), self.sandbox)
