"""`agentrewind learn`: training data out of runs."""

from __future__ import annotations

import click

from agentrewind.cli.options import json_option
from agentrewind.compose.places import named
from agentrewind.compose.runs import open_run
from agentrewind.core.errors import UsageError
from agentrewind.learn.credit.named import CREDITS
from agentrewind.learn.exporting import Shape, export
from agentrewind.ui.text import as_json, plural, printable


@click.group(epilog="Example: agentrewind learn export last --credit sa-grpo --out data.jsonl")
def command() -> None:
    """Make training data of runs: whole trees, what was abandoned included."""


@command.command("export", epilog="Example: agentrewind learn export last --credit sa-grpo --out data.jsonl")
@click.argument("refs", metavar="RUN...", nargs=-1, required=True)
@click.option(
    "--credit",
    type=click.Choice(list(CREDITS)),
    default="sa-grpo",
    show_default=True,
    help="How decisions are credited. `sa-grpo` compares them with others made at the same state of the files.",
)
@click.option("--sft", "shape", flag_value="sft", help="The kept path of runs that ended well, to imitate.")
@click.option(
    "--preferences",
    "shape",
    flag_value="preferences",
    help="Of each rewind that paid: the call that was kept over the one that was taken back.",
)
@click.option("--out", required=True, metavar="FILE", help="One JSON line a decision.")
@click.option("--force", is_flag=True, help="Replace an earlier export.")
@json_option
def export_command(
    refs: tuple[str, ...], credit: str, shape: Shape | None, out: str, *, force: bool, as_object: bool
) -> None:
    """Write what runs can teach into a JSONL file: one decision a line, with its own context and its advantage.

    Progress is what the run's check verified. Runs whose task is the same in words are compared with one another; the
    more of them there are (also forks of one), the more there is to compare.
    """
    runs = [open_run(ref) for ref in refs]
    if len({run.id for run in runs}) < len(runs):
        raise UsageError("A run is named twice.")
    done = export(runs, named(out, "file for the export"), shape or "decisions", credit, force=force)
    if as_object:
        print(as_json(done))
        return
    more = ""
    if "credit" in done:
        recoveries = plural(done["recoveries"], "recovery", "recoveries")
        more = f", {done['with_advantage']:,} with an advantage, over {recoveries}"
    print(f"Wrote {plural(done['rows'], 'line')} of {plural(done['runs'], 'run')} to {printable(done['file'])}{more}.")
