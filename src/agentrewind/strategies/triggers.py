"""When a run is rewound although nobody asked (rewind.md, section 6). Pure: a tree in, a wish out.

A trigger is looked at before each call of the main conversation. It asks once for the same files with the same note, so
that one which changes nothing can't go on for ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from agentrewind.core.errors import UsageError
from agentrewind.core.records import MAIN_THREAD, Judged, RecordUid
from agentrewind.core.tree import Node, RunTree
from agentrewind.strategies.noticing import loop
from agentrewind.strategies.selectors import best_point, targets

LOOPED = (
    "From here {did} was done more than once with the files exactly as they were, so the run was taken back without"
    " being asked. Do something else."
)
FEEDBACK = 1000
"""How many characters of a check's feedback stand in a note."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A rewind that a strategy wants."""

    target: RecordUid
    note: str


class Trigger(Protocol):
    """Says when a run is to go back unasked."""

    @property
    def name(self) -> str: ...

    def fires(self, tree: RunTree) -> Wanted | None:
        """The rewind that is due now; None where none is."""


@dataclass(frozen=True, slots=True)
class AfterFailures:
    """The last `times` submissions on the path failed at the same point: back to where progress was best, or to the
    beginning where no check counts.
    """

    times: int

    @property
    def name(self) -> str:
        return f"failures:{self.times}"

    def fires(self, tree: RunTree) -> Wanted | None:
        """See `Trigger`."""
        verdicts = _verdicts(tree)[-self.times :]
        if len(verdicts) < self.times or any(not _same(item, verdicts[-1]) for item in verdicts):
            return None
        found = targets(tree, tree.main or MAIN_THREAD)
        target = best_point(tree, found) or next(iter(found), None)
        what = f"{self.times} submissions in a row were rejected at the same point"
        return _wanted(target, what, verdicts[-1])


@dataclass(frozen=True, slots=True)
class AtLoop:
    """The same action was taken again from the very same files: back to before it was taken first on this path."""

    times: int = 2
    name: str = "loop"

    def fires(self, tree: RunTree) -> Wanted | None:
        """See `Trigger`."""
        notice = loop(tree, tree.main or MAIN_THREAD, self.times)
        if notice is None:
            return None
        newest = tree.node(notice.seen[-1])
        again = [node for node in targets(tree, tree.main or MAIN_THREAD) if _same_step(node, newest)]
        did = ", ".join(newest.ended.calls) if newest.ended else ""
        return Wanted(again[0].uid, LOOPED.format(did=did)) if again else None


@dataclass(frozen=True, slots=True)
class AtRegression:
    """The newest verdict counts less than an earlier one on the path: back to where progress was best."""

    name: str = "regression"

    def fires(self, tree: RunTree) -> Wanted | None:
        """See `Trigger`."""
        verdicts = [item for item in _verdicts(tree) if item.satisfied is not None and item.total]
        if not verdicts or _part(verdicts[-1]) >= max(map(_part, verdicts)):
            return None
        target = best_point(tree, targets(tree, tree.main or MAIN_THREAD))
        best = max(verdicts, key=_part)
        what = f"Progress fell from {best.satisfied}/{best.total} to {verdicts[-1].satisfied}/{verdicts[-1].total}"
        return _wanted(target, what, verdicts[-1])


def _same_step(one: Node, other: Node) -> bool:
    """Whether two calls led to the same action from the same files."""
    if one.ended is None or other.ended is None or one.held:  # what was held back was not done
        return False
    return (one.began.snapshot, one.ended.action) == (other.began.snapshot, other.ended.action)


def _verdicts(tree: RunTree) -> list[Judged]:
    """Those on the present path, oldest first."""
    return [node.judged for node in tree.path() if node.judged is not None]


def _same(one: Judged, other: Judged) -> bool:
    return not one.accepted and (one.exit_code, one.first_failure) == (other.exit_code, other.first_failure)


def _part(verdict: Judged) -> float:
    return (verdict.satisfied or 0) / (verdict.total or 1)


def _wanted(target: Node | None, what: str, verdict: Judged) -> Wanted | None:
    if target is None:
        return None
    said = verdict.feedback.strip() or verdict.first_failure or f"exit code {verdict.exit_code}"
    shown = said if len(said) <= FEEDBACK else said[:FEEDBACK] + "…"
    note = f"{what}, so the run was taken back to here without being asked. The check said: {shown}"
    return Wanted(target.uid, f"{note}\nDo it in another way from here.")


def wanted(tree: RunTree, triggers: Iterable[Trigger]) -> tuple[Wanted, str] | None:
    """The first rewind that is due and was not made yet, and the trigger that wants it."""
    for trigger in triggers:
        found = trigger.fires(tree)
        if found is not None and not _made(tree, found):
            return found, trigger.name
    return None


def _made(tree: RunTree, wish: Wanted) -> bool:
    """Whether one to the same files with the same note was made, or refused, before: another would change nothing."""
    files = tree.node(wish.target).began.snapshot
    if any(note.text == wish.note and tree.node(note.target).began.snapshot == files for note in tree.notes):
        return True
    return any(item.target == wish.target and item.by.startswith("strategy") for item in tree.rejected)


NAMES = ("never", "failures:N", "loop", "regression")


def triggers_named(name: str) -> tuple[Trigger, ...]:
    """The triggers that `never`, or a list as `failures:3,loop,regression`, names; none for an empty one.

    Raises:
        UsageError: it names none.
    """
    if name in ("never", ""):
        return ()
    return tuple(map(_named, name.split(",")))


def _named(name: str) -> Trigger:
    kind, _, number = name.strip().partition(":")
    if kind == "failures" and number.isascii() and number.isdigit() and int(number) > 1:
        return AfterFailures(int(number))
    if kind == "loop" and not number:
        return AtLoop()
    if kind == "regression" and not number:
        return AtRegression()
    raise UsageError(f"There is no trigger {name!r}. Known: {', '.join(NAMES)} (N at least 2), with commas between.")
