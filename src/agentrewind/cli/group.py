"""The command `agentrewind`: its commands are imported when they are used, so that it starts fast."""

from __future__ import annotations

import importlib

import click

from agentrewind import __version__

COMMANDS = {
    "doctor": "Try what agentrewind stands on here, and say what to do where something is wrong.",
    "demo": "See a run go wrong, go back and succeed: no key, no network.",
    "run": "Run an agent on a task, with every step recoverable.",
    "exec": "Run any agent program, with every step recoverable.",
    "proxy": "Record programs that are started elsewhere, through a local address.",
    "resume": "Go on with a run that a crash cut off.",
    "runs": "List the runs.",
    "log": "Show the tree of a run: branches, checkpoints, rewinds.",
    "view": "Show runs in the browser, and go back from there.",
    "tui": "Show a run in the terminal, and go back from there.",
    "show": "Show one step: what went in, what came out, what changed.",
    "diff": "Compare files and messages of two steps.",
    "cost": "Show what runs took: calls, tokens, dollars, time.",
    "effects": "Say what a command would do that a rewind can't undo.",
    "candidates": "List the checkpoints that one can go back to.",
    "rewind": "Bring a run back to a checkpoint, also one that is alive.",
    "tool": "Go back as the agent does, from a shell inside of its run.",
    "mcp": "Offer a run's two tools and its history to an MCP client.",
    "pause": "Let a run wait at its next model call.",
    "unpause": "Let a run that waits go on.",
    "fork": "Make a second run out of a checkpoint, in its own copy of the files.",
    "restore": "Bring the files back to a checkpoint.",
    "undo": "Take back the last rewind or restore.",
    "check": "Check the journal of a run and its snapshots.",
    "export": "Write a run out: records, a bundle, trajectories, spans.",
    "import": "Take in a run from a bundle or a trajectory.",
    "learn": "Make training data of runs.",
    "train": "Train a model on trials that go back.",
    "eval": "Play environments with a policy, with and without ways back.",
    "tasks": "List, check and write the tasks of the benchmark.",
    "bench": "Run tasks under several strategies, and compare what came of them.",
    "sim": "Serve the simulated model on loopback, for trying things without a real one.",
    "snap": "Save and restore any directory by hand, without an agent.",
    "store": "Look after the snapshots: what they take, whether they are sound, what may go.",
    "paths": "Show what of a directory is saved, and how.",
}
"""Name and one line of help of each command, in the order of the help page. Their modules are named like them."""
MODULES = {"import": "import_"}
"""Those that can't be."""


class LazyGroup(click.Group):
    """Finds its commands in `COMMANDS`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"agentrewind.cli.{MODULES.get(cmd_name, cmd_name)}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: agentrewind run --model gpt-5-mini 'Fix the failing test'. RUN is the id of a run, the beginning"
    " of one, or `last`.",
)
@click.version_option(__version__, prog_name="agentrewind", message="%(prog)s %(version)s")
def group() -> None:
    """Go back to any step of an agent run: conversation and files together."""
