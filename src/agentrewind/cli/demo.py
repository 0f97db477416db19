"""`agentrewind demo`: a run that goes wrong, goes back, and succeeds, with nothing but this package."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import get_args

import click
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from agentrewind.cli.demo_world.layout import lay_out
from agentrewind.cli.demo_world.policy import TASK, policy
from agentrewind.cli.demo_world.proofs import CRITERIA, Evidence, Proof, of_failure, of_success
from agentrewind.cli.demo_world.story import Story
from agentrewind.cli.log import show
from agentrewind.cli.screen import glyphs, out
from agentrewind.cli.signals import ending_in_order
from agentrewind.compose.agents import Keep, RunSettings, Watcher, start
from agentrewind.compose.harnesses import harness_by_name
from agentrewind.compose.home import Home
from agentrewind.compose.places import named as named_directory
from agentrewind.compose.places import workspace_path
from agentrewind.compose.runs import Run
from agentrewind.core.errors import UsageError
from agentrewind.core.records import Rewound
from agentrewind.core.world import Changes
from agentrewind.strategies import NAMES
from agentrewind.testing.scripted import ScriptedModel
from agentrewind.ui.text import duration, printable

CHECK = "python3 checklist.py --check"
NEEDED = ("python3", "sed", "touch", "find")


AGENTS = ("builtin", "mini-swe-agent")
"""Those whose calls the script of the demo plays."""


@click.command(epilog="Examples: agentrewind demo; agentrewind demo --strategy continue; agentrewind log last")
@click.option("--agent", type=click.Choice(AGENTS), default=AGENTS[0], show_default=True, help="Which agent.")
@click.option(
    "--strategy",
    type=click.Choice(NAMES),
    default="rewind",
    show_default=True,
    help="`continue`: the same agent without the way back. It can't succeed.",
)
@click.option(
    "--keep",
    type=click.Choice(get_args(Keep)),
    default="none",
    show_default=True,
    help="`world`: going back moves the conversation only. The agent can't succeed.",
)
@click.option("--workspace", metavar="DIR", help="A new or empty directory to play in. Default: a temporary one.")
@click.pass_context
def command(ctx: click.Context, agent: str, strategy: str, keep: Keep, workspace: str | None) -> None:
    """See a run go wrong, go back, and succeed. No key, no network: the model is a script on this machine.

    An agent repairs a small library. On the way it overwrites six files that exist nowhere else, is told so too late,
    and goes back to just before that: files and conversation return together, the repair made earlier stays, and a
    note tells the agent what to do differently. Then every claim is checked. Exit code 0: all went as it should.
    """
    home = Home.of()
    _ready(agent)
    settings = RunSettings(agent, "scripted", TASK, "", CHECK, strategy, keep)
    ctx.exit(_play(home, settings, _workspace(workspace, home)))


def _ready(agent: str) -> None:
    """Raises: UsageError: the agent, or a program that it uses, isn't installed."""
    harness_by_name(agent)
    missing = [name for name in NEEDED if shutil.which(name, path=_search_path()) is None]
    if missing:
        raise UsageError(f"The agent of the demo uses {', '.join(missing)}, which is not on the PATH here.")


def _search_path() -> str:
    """The PATH of the agent's commands: our own Python first."""
    return os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)))


def _workspace(named: str | None, home: Home) -> Path:
    """An empty directory to play in; it stays, so that the run can be looked at.

    Raises:
        UsageError: the directory that was named can't be one. What was there before is as it was.
    """
    if named is None:
        path = Path(tempfile.mkdtemp(prefix="agentrewind-demo-")) / "shelfmark"
    else:
        path = named_directory(named, "workspace")
    fresh = not path.exists()
    try:
        path.mkdir(parents=True, exist_ok=True)
        empty = not any(path.iterdir())
    except OSError as error:
        raise UsageError(f"{str(path)!r} can't be used: {error.strerror}.") from error
    if not empty:
        raise UsageError(f"{str(path)!r} is not empty. Name a new directory; the demo lays out files of its own.")
    try:
        return workspace_path(path, home)
    except UsageError:
        if fresh:
            path.rmdir()
        raise


def _play(home: Home, settings: RunSettings, root: Path) -> int:
    console = out()
    originals = lay_out(root)
    _introduce(console, settings, root)
    environ = {name: value for name, value in os.environ.items() if name != "OPENAI_API_KEY"}
    environ["PATH"] = _search_path()
    begun = time.monotonic()
    with ScriptedModel(policy) as model, _no_proxy(), ending_in_order():
        watcher = Watcher(happened=Story(console).tell)
        finished = start(home, replace(settings, base_url=model.base_url), root, environ=environ, watcher=watcher)
    took = time.monotonic() - begun
    evidence = Evidence(Run(home, finished.run_id), root, originals, model.requests)
    _title(console, "The run, as `agentrewind log last` shows it")
    show(evidence.run, console)
    if evidence.rewind is not None:
        _moved(console, evidence, evidence.rewind)
    return _judge(console, evidence, settings, took)


@contextmanager
def _no_proxy() -> Iterator[None]:
    """The scripted model is on this machine: no client of this process asks a proxy for it, whatever is set."""
    names = ("NO_PROXY", "no_proxy")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "127.0.0.1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _introduce(console: Console, settings: RunSettings, root: Path) -> None:
    facts = {
        "workspace": printable(str(root)),
        "agent": f"{settings.agent}, strategy {settings.strategy}",
        "model": "a script on this machine: no key, no network",
    }
    if settings.keep == "world":
        facts["keep"] = "world: going back moves the conversation only"
    for name, fact in facts.items():
        console.print(Text(f"{name:<11}{fact}"), soft_wrap=True)
    _title(console, "What the agent does")


def _title(console: Console, text: str) -> None:
    console.print()
    console.print(Text(text, style="bold underline"))


def _moved(console: Console, evidence: Evidence, rewind: Rewound) -> None:
    """What the rewind kept, what it undid, and the note that crossed over."""
    tree = evidence.run.tree
    first, target = tree.path()[0].began.snapshot, tree.node(rewind.target).began.snapshot
    assert first is not None
    assert target is not None
    with evidence.run.reading() as world:
        kept, left = world.diff(first, target), world.diff(target, rewind.live)
    _title(console, "Kept: what was done before the point that it went back to")
    _files(console, kept)
    undone = "Left as it is, as --keep world wants it" if rewind.keep_world else "Undone"
    _title(console, f"{undone}: what was done after it")
    _files(console, left)
    _title(console, "The note that crossed over")
    for line in rewind.note.splitlines():
        console.print(Padding(Text(printable(line)), (0, 0, 0, 2)))


def _files(console: Console, changes: Changes) -> None:
    for change in changes.items:
        console.print(Text(f"  {change.status} {printable(change.path)}", style="cyan"), soft_wrap=True)


def _judge(console: Console, evidence: Evidence, settings: RunSettings, took: float) -> int:
    """Check every claim, say what came of it; the exit code."""
    succeeds = settings.strategy == "rewind" and settings.keep == "none"
    rewinds = 1 if settings.strategy == "rewind" else 0
    proofs = list(of_success(evidence) if succeeds else of_failure(evidence, rewinds=rewinds))
    _title(console, "Checked, after the run")
    for proof in proofs:
        _proof(console, proof)
    score = f"{evidence.score}/{CRITERIA} in {duration(took)}"
    console.print()
    if not all(proof.holds for proof in proofs):
        console.print(Text(f"Not what was expected: {score}; see the claims above that don't hold.", style="bold red"))
        return 1
    without = "with the files left behind" if settings.strategy == "rewind" else "without the way back"
    told = f"Success: {score}, by going back once." if succeeds else f"As expected {without}: {score}, and no further."
    console.print(Text(told, style="bold green"))
    commands = ("log last", "show last UID", *(["undo last"] if evidence.rewind else []))
    console.print("Next: " + ", ".join(f"{_program()} {command}" for command in commands), style="dim", soft_wrap=True)
    return 0


def _program() -> str:
    """How this program is called from where the user stands."""
    on_path = shutil.which("agentrewind")
    called = sys.argv[0]
    same = on_path is not None and os.path.exists(called) and os.path.samefile(on_path, called)
    return "agentrewind" if same or not called.endswith("agentrewind") else printable(called)


def _proof(console: Console, proof: Proof) -> None:
    signs = glyphs(console)
    sign = Text(signs.yes, style="bold green") if proof.holds else Text(signs.no, style="bold red")
    grid = Table.grid(padding=(0, 1))
    grid.add_row(Text(" ") + sign, Text(printable(proof.claim)))
    console.print(grid)
