"""The shell tool of the agents that we start, and what they are told of it; adapters give it their harness's form."""

from __future__ import annotations

import math

from agentrewind.core.codec import Json
from agentrewind.core.errors import NotRun
from agentrewind.core.tools import CANDIDATES, COMMIT
from agentrewind.engine.commands import CommandResult
from agentrewind.integrations.harnesses.contract import Job, progress_line
from agentrewind.integrations.sandbox import commands_of
from agentrewind.integrations.sandbox.spec import told

NAME = "shell"
DESCRIPTION = "Run a bash command in the workspace and return its output (stdout and stderr) and exit code."
COMMAND = "The command, as you would type it."
TIMEOUT = "End the command after this many seconds. By default it runs as long as it needs."
PARAMETERS: Json = {
    "type": "object",
    "properties": {
        "command": {"type": "string", "description": COMMAND},
        "timeout": {"type": "number", "description": TIMEOUT},
    },
    "required": ["command"],
}

OUTPUT_LIMIT = 16_000
"""How many bytes of a command's output the model sees."""

SYSTEM = """\
You are a careful engineer who works through a shell. Do the task that the user gives you in the workspace, a directory
that already holds what you need.

How it works:
- Every call of the shell tool starts a new bash in the workspace. What a command changes on disk stays; a cd, a
  variable or an activated environment ends with the command, so put what belongs together into one command.
- Commands have no input and no terminal: give every answer by option or file, and start long-running programs in the
  background with their output sent to a file.
- Look before you change, change in small steps, and run what you wrote.
- {submit}\
"""
ANSWER = """\
When the task is done, and only then, answer without a tool call and say in a few sentences what you did. That is
  your submission: it is checked, and if something is still missing you are told what, and go on.\
"""
REWIND = f"You can also go back to an earlier point of your work: see the tools {CANDIDATES} and {COMMIT}."


def instructions(job: Job, submit: str = ANSWER) -> str:
    """What the agent is told before its task. `submit`: how it says that it is done."""
    parts = (SYSTEM.format(submit=submit), told(job.sandbox), REWIND if job.offers_rewind else "")
    return "\n\n".join(filter(None, parts))


class Shell:
    """Runs the commands of one job. Every call is recorded."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._commands = commands_of(job.sandbox)

    def call(self, arguments: Json, call_id: str | None = None) -> str:
        """What the model is told of a call with these arguments, whatever they are.

        Raises:
            RewindSignal: the agent goes back.
        """
        given = arguments if isinstance(arguments, dict) else {}
        command, timeout = given.get("command"), given.get("timeout")
        if not isinstance(command, str) or not command.strip():
            return "Nothing was run: 'command' must be the command to run, as a string."
        if timeout is not None and not (_is_number(timeout) and 0 < timeout < math.inf):
            return "Nothing was run: 'timeout' must be a number of seconds above 0."
        job = self._job
        job.say(progress_line(command))
        recorded = {"command": command} if timeout is None else {"command": command, "timeout": timeout}
        try:
            return job.recorder.tool(NAME, recorded, lambda: _told(self._run(command, timeout)), call_id=call_id)
        except NotRun as held:
            return str(held)

    def _run(self, command: str, timeout: float | None) -> CommandResult:
        settings = self._job.settings
        return self._commands.run(
            command,
            cwd=self._job.workspace,
            environ=self._job.environ,
            timeout_s=settings.get("command_timeout_s") if timeout is None else timeout,
            output_limit=OUTPUT_LIMIT,
            pass_keys=settings.get("pass_keys", ()),
        )


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _told(result: CommandResult) -> str:
    end = "" if not result.output or result.output.endswith("\n") else "\n"
    if result.timed_out:
        return f"{result.output}{end}[timed out after {result.seconds:.0f} s; the command was ended]"
    return f"{result.output}{end}[exit code {result.exit_code}]"
