"""`agentrewind export`: a run for other programs, for other people, for another machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import click

from agentrewind.cli.options import json_option, run_argument
from agentrewind.cli.screen import progress
from agentrewind.compose.bundles import Bundled, export_bundle
from agentrewind.compose.home import Home
from agentrewind.compose.places import named
from agentrewind.compose.runs import Run
from agentrewind.compose.secret import redactor
from agentrewind.core.codec import Json
from agentrewind.core.errors import UsageError
from agentrewind.core.redact import Redactor
from agentrewind.integrations.formats.atif import export_atif
from agentrewind.integrations.formats.mini_trajectory import export_mini
from agentrewind.integrations.formats.spans import export_spans
from agentrewind.journal.export import export_records
from agentrewind.journal.reader import RunLog, read_run
from agentrewind.ui.standalone import export_html
from agentrewind.ui.text import as_json, path_name, plural, printable

KINDS = ("records", "bundle", "html", "atif", "mini", "otlp")
SHOWN = 5


@click.command(epilog="Example: agentrewind export last --records ./records")
@run_argument
@click.option("--records", metavar="DIR", help="One JSON line a step, with its messages in full; one file a branch.")
@click.option("--bundle", metavar="FILE", help="All of it, snapshots too, for `agentrewind import` elsewhere.")
@click.option("--html", metavar="FILE", help="A page that shows it in any browser, with nothing else needed.")
@click.option("--atif", metavar="DIR", help="Trajectories in ATIF v1.8 (Harbor), one file a branch.")
@click.option("--mini", metavar="FILE", help="The path on which it stands, as a trajectory of mini-SWE-agent (1.1).")
@click.option("--otlp", metavar="URL", help="Send it as OpenTelemetry spans, to e.g. http://localhost:4318/v1/traces.")
@click.option("--content", is_flag=True, help="With --otlp: messages, arguments and results too.")
@click.option("--redact", is_flag=True, help="Take secrets out once more, as they are recognised today; of files too.")
@click.option("--with-secrets", is_flag=True, help="With --bundle: files in which a secret is found come as they are.")
@click.option("--force", is_flag=True, help="Replace an earlier export.")
@json_option
def command(ref: str, as_object: bool, **options: Any) -> None:
    """Write a run out: for other programs, for other people, for another machine.

    What is written appears whole or not at all, and replaces something only with --force.
    """
    wanted = {kind: where for kind in KINDS if (where := options[kind]) is not None}
    if not wanted:
        raise UsageError(
            "Say what to write: --records DIR, --bundle FILE, --html FILE, --atif DIR, --mini FILE or --otlp URL."
        )
    redact, with_secrets = bool(options["redact"]), bool(options["with_secrets"])
    if redact and with_secrets:
        raise UsageError("--redact and --with-secrets say the opposite of one another; choose one.")
    home = Home.of()
    log = read_run(home.run_dir(home.find(ref)))
    hide = _redactor(log)
    export = _Export(
        home,
        log,
        log.redacted(hide) if redact else log,
        hide,
        redact=redact,
        with_secrets=with_secrets,
        content=options["content"],
        force=options["force"],
    )
    done = {kind: export.write(kind, where) for kind, where in wanted.items()}
    if as_object:
        print(as_json({"run": log.run_dir.name, **{kind: facts for kind, (_, facts) in done.items()}}))
    else:
        for line, _ in done.values():
            print(line)


def _redactor(log: RunLog) -> Redactor:
    started = log.tree.started
    workspace = named(started.workspace, "workspace") if started and os.path.isdir(started.workspace) else None
    return redactor(os.environ, workspace)


@dataclass(frozen=True, slots=True)
class _Export:
    home: Home
    log: RunLog
    shown: RunLog
    hide: Redactor
    redact: bool
    with_secrets: bool
    content: bool
    force: bool

    def write(self, kind: str, where: str) -> tuple[str, Json]:
        """A sentence about what was written, and the same as facts."""
        match kind:
            case "records" | "atif":
                return self._directory(kind, where)
            case "mini":
                to = named(where, "trajectory")
                export_mini(self.shown, to, force=self.force)
                return f"Wrote the trajectory {printable(str(to))}.", {"file": str(to)}
            case "bundle":
                return self._bundle(where)
            case "html":
                return self._page(where)
        count = export_spans(self.shown, where, content=self.content)
        return f"Sent {plural(count, 'span')} to {printable(where)}.", {"url": where, "spans": count}

    def _directory(self, kind: str, where: str) -> tuple[str, Json]:
        to = named(where, "directory for the export")
        write = export_records if kind == "records" else export_atif
        write(self.shown, to, force=self.force)
        files = sorted(path.name for path in to.iterdir())
        count = plural(len(files), "branch", "branches")
        run = self.log.run_dir.name
        return f"Wrote {count} of {run} to {printable(str(to))}.", {"directory": str(to), "files": files}

    def _page(self, where: str) -> tuple[str, Json]:
        to = named(where, "page")
        run = Run(self.home, self.log.run_dir.name)
        done = export_html(run.redacted(self.hide) if self.redact else run, to, force=self.force)
        missing = f" {plural(done.left_out, 'step')} didn't fit." if done.left_out else ""
        facts = {"file": str(to), "steps": done.steps, "differences": done.differences, "left_out": done.left_out}
        return f"Wrote {plural(done.steps, 'step')} to the page {printable(str(to))}.{missing}", facts

    def _bundle(self, where: str) -> tuple[str, Json]:
        to = named(where, "bundle")
        with progress("bundle") as step:
            done = export_bundle(
                self.home,
                self.log,
                to,
                hide=self.hide,
                redact=self.redact,
                with_secrets=self.with_secrets,
                force=self.force,
                progress=step,
            )
        facts = {
            "file": str(to),
            "snapshots": done.snapshots,
            "left_out": [{"path": gap.path, "why": gap.why} for gap in done.left_out],
            "missing_snapshots": list(done.missing),
        }
        return "\n".join(_said(done, str(to))), facts


def _said(done: Bundled, to: str) -> list[str]:
    lines = [f"Wrote the run with {plural(done.snapshots, 'snapshot')} to {printable(to)}."]
    lines += [f"  not in it: {path_name(gap.path)} ({gap.why})" for gap in done.left_out[:SHOWN]]
    if len(done.left_out) > SHOWN:
        lines.append(f"  and {len(done.left_out) - SHOWN:,} more; --json names them all")
    if done.missing:
        lines.append(f"  {plural(len(done.missing), 'snapshot')} that the store has no more can't be gone back to.")
    return lines
