"""A user's command as the validator of submissions: exit code 0 accepts, its output is the feedback."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agentrewind.core.records import Judged, RecordUid
from agentrewind.engine.commands import CANNOT_START, UNCONFINED, CommandResult, Commands

FEEDBACK_LIMIT = 4_000
"""How many characters of the end of the output the agent is told."""
ITEM_LIMIT = 200
EVALUATOR_ERROR = "evaluator error: "
"""How `first_failure` begins where the check could not give a verdict."""

_NOT_FOUND = 127
_READ = 2_000
_OUTPUT_LIMIT = 1_000_000


@dataclass(frozen=True, slots=True)
class CommandCheck:
    """Runs `command` in the workspace to judge it."""

    command: str
    environ: Mapping[str, str]
    timeout_s: float | None = None
    commands: Commands = UNCONFINED
    """Where it runs: what it runs may be what the agent wrote."""

    def judge(self, workspace: Path, after: RecordUid | None = None) -> Judged:
        """The verdict on the workspace as it is now. Never raises for what the command does.

        A command that can't start (exit codes 126 and 127) or takes longer than `timeout_s` (124) gives no verdict on
        the work. That is an evaluator error: never accepted, `first_failure` begins with `EVALUATOR_ERROR`, and the
        feedback says so. It is told to the agent like a rejection because the agent may be the one who has to write,
        or has broken, what the check runs; five in a row end the run as five equal failures do.
        """
        result = self.commands.run(
            self.command, cwd=workspace, environ=self.environ, timeout_s=self.timeout_s, output_limit=_OUTPUT_LIMIT
        )
        output = plain(result.output)
        satisfied, total = progress(output) or (None, None)
        if result.exit_code == 0 and not result.timed_out:
            return Judged(after, accepted=True, exit_code=0, satisfied=satisfied, total=total)
        no_verdict = self._no_verdict(result)
        return Judged(
            after,
            accepted=False,
            exit_code=result.exit_code,
            first_failure=EVALUATOR_ERROR + no_verdict if no_verdict else first_failure(output),
            feedback=_feedback(output, result.exit_code, no_verdict),
            satisfied=satisfied,
            total=total,
        )

    def _no_verdict(self, result: CommandResult) -> str:
        """Why the result says nothing about the work; empty where it does."""
        if result.timed_out:
            return f"the check did not end within {self.timeout_s:g} s"
        if result.exit_code in (CANNOT_START, _NOT_FOUND):
            return f"the check could not be run (exit code {result.exit_code})"
        return ""


def is_evaluator_error(verdict: Judged) -> bool:
    """Whether the check gave no verdict on the work."""
    return verdict.first_failure.startswith(EVALUATOR_ERROR)


def _feedback(output: str, exit_code: int, no_verdict: str) -> str:
    tail = output.strip("\n")
    if len(tail) > FEEDBACK_LIMIT:
        tail = "[...]\n" + tail[-FEEDBACK_LIMIT:]
    if no_verdict:
        head = f"{no_verdict[0].upper()}{no_verdict[1:]}, so it says nothing about your work."
        return f"{head} Its output:\n{tail}" if tail else head
    return tail or f"The check failed with exit code {exit_code} and printed nothing."


_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours and cursor movements
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles and links
    r"|\x1b[@-Z\\-_]"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"
)


def plain(output: str) -> str:
    """`output` as a terminal would leave it: no control sequences, of overwritten lines only what stands at the end."""
    lines = _CONTROL.sub("", output).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)


# --- what failed first ------------------------------------------------------------------------------------------------

_ITEMS = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"^(?P<item>(?:FAILED|ERROR) \S+(?:::.+?|\.py))(?: - .*)?$",  # pytest's summary; the message may vary
        r"^(?P<item>(?:FAIL|ERROR): \w+ \(.+\))$",  # unittest
        r"^[ \t]*(?P<item>not ok\b(?!.*# (?:TODO|SKIP)).*)$",  # TAP
        r"^[ \t]*(?P<item>--- FAIL: \S+)",  # go test
        r"^(?P<item>test \S+ \.\.\. FAILED)$",  # cargo test
        r"^[ \t]*(?P<item>[✗✘✕×❌][ \t]*\S.*)$",  # noqa: RUF001
        r"^[ \t]*(?P<item>(?:[-*][ \t]*)?\[ \][ \t]*\S.*)$",  # an unticked line of a checklist
        r"^[ \t]*(?P<item>\[(?:FAIL|FAILED|ERROR|KO|NO)\].*)$",
        r"^[ \t]*(?P<item>(?:FAIL|FAILED)\b(?! \((?:failures|errors)=).*)$",
        r"^(?P<item>.*?(?:\b(?:fatal )?error(?:\[\w+\]|\s+[A-Z]+\d+)?:\s.*))$",  # compilers
    )
)


def first_failure(output: str) -> str:
    """The first failing item that `output` (of `plain`) names, normalised: equal for the same failure.

    The first line of the most telling kind that occurs: a test runner's, then a checklist's, then a compiler's; else
    the last line that isn't empty.
    """
    for pattern in _ITEMS:
        if match := pattern.search(output):
            return normalised(match["item"])
    last = next((line for line in reversed(output.splitlines()) if line.strip()), "")
    return normalised(last)


_VARYING = tuple(
    (re.compile(pattern, re.IGNORECASE), name)
    for pattern, name in (
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uuid>"),
        (r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|\s?[+-]\d\d:?\d\d)?)?", "<time>"),
        (r"\b\d\d?:\d\d:\d\d(?:[.,]\d+)?\b", "<time>"),
        (r"0x[0-9a-f]+\b", "<address>"),
        (r"(?:/private)?(?:/var/folders|/var/tmp|/tmp|/dev/shm)/[^\s:'\")\],]+", "<tmp>"),
        (r"\b(pid|process|thread)([ =:#]*)\d+\b", r"\1\2<n>"),
        (r"(?<=\w)\[\d+\](?=:)", "[<n>]"),
        (r"\b\d+(?:\.\d+)?(?:\s?(?:ns|µs|us|ms|s|secs?|seconds?|mins?|minutes?)|m)\b", "<duration>"),
        (r"(?<=[\w>]):\d+(?::\d+)?(?=:)", ":<n>"),  # file:line:column:
        (r"(?<=, )line \d+\b", "line <n>"),
        (r"\s+", " "),
    )
)


def normalised(item: str) -> str:
    """`item` without what varies between two runs of the same check: times, addresses, temporary paths, lines, pids."""
    item = item[:_READ]
    for pattern, name in _VARYING:
        item = pattern.sub(name, item)
    return item.strip()[:ITEM_LIMIT]


# --- how far it got ---------------------------------------------------------------------------------------------------

_RATIO = re.compile(
    r"\b(?:progress|satisfied|passed|criteria|checks|tests)\b(?: ?[:=])? {0,9}(\d{1,9}) ?(?:/|of|out of) ?(\d{1,9})\b"
    r"|\b(\d{1,9}) ?(?:/|of|out of) ?(\d{1,9}) (?:(?:criteria|checks|tests|items|steps) )?(?:satisfied|passed|ok)\b",
    re.IGNORECASE,
)
_PYTEST = re.compile(r"^=* ?((?:\d+ [a-z]+(?:, )?)+) in [\d.]+s\b.*$", re.MULTILINE)
_COUNT = re.compile(r"(\d+) (passed|failed|errors?)\b")
_CARGO = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed", re.MULTILINE)
_UNITTEST = re.compile(r"^Ran (\d+) tests? in .*\n+(OK|FAILED)(?: \((.*)\))?", re.MULTILINE)
_PLAN = re.compile(r"^1\.\.(\d+)", re.MULTILINE)


def progress(output: str) -> tuple[int, int] | None:
    """(satisfied, all) where `output` says so, else None. A count that can't be (7/5) says nothing."""
    for read in (_ratio, _pytest, _unittest, _cargo, _tap):
        found = read(output)
        if found is not None and 0 <= found[0] <= found[1] != 0:
            return found
    return None


def _ratio(output: str) -> tuple[int, int] | None:
    last = None
    for last in _RATIO.finditer(output):  # noqa: B007 the last one counts
        pass
    if last is None:
        return None
    satisfied, total = (group for group in last.groups() if group is not None)
    return int(satisfied), int(total)


def _pytest(output: str) -> tuple[int, int] | None:
    summaries = _PYTEST.findall(output)
    counts = {name.rstrip("s"): int(count) for count, name in _COUNT.findall(summaries[-1])} if summaries else {}
    return (counts.get("passed", 0), sum(counts.values())) if counts else None


def _unittest(output: str) -> tuple[int, int] | None:
    summaries = _UNITTEST.findall(output)
    if not summaries:
        return None
    ran, _, details = summaries[-1]
    failed = sum(int(count) for count in re.findall(r"(?:failures|errors|unexpected successes)=(\d+)", details))
    total = int(ran) - sum(int(count) for count in re.findall(r"skipped=(\d+)", details))
    return total - failed, total


def _cargo(output: str) -> tuple[int, int] | None:
    results = [(int(passed), int(failed)) for passed, failed in _CARGO.findall(output)]
    passed = sum(result[0] for result in results)
    return (passed, passed + sum(result[1] for result in results)) if results else None


def _tap(output: str) -> tuple[int, int] | None:
    plan = _PLAN.search(output)
    return (len(re.findall(r"^ok\b", output, re.MULTILINE)), int(plan[1])) if plan else None
