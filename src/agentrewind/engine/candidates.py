"""The list of rewind targets that an agent (or a person) sees (rewind.md, section 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentrewind.core.records import Judged, RecordUid, ThreadId
from agentrewind.core.standing import effects_of, standing_words
from agentrewind.core.tree import Node, RunTree
from agentrewind.core.world import Change

ALWAYS_NEWEST = 10
LARGE_DELETION = 20
"""From this many deleted paths on, a step is a large deletion."""
FILES_NAMED = 3


@dataclass(frozen=True, slots=True)
class Candidate:
    """A checkpoint: what was done from there to the next one, and what it would mean to go back."""

    uid: RecordUid
    age: int
    """How many nodes come after it on the path."""
    digest: str
    calls: tuple[str, ...]
    changes: tuple[Change, ...]
    changed: int
    satisfied: int | None
    total: int | None
    same_files_as: RecordUid | None
    effects: tuple[str, ...]
    """What happened outside the workspace in this step and would survive."""
    complete: bool
    deleted: int = 0
    """How many paths are gone after it."""
    unknown: int = 0
    """How many calls of this step may have reached further, for all that one knows."""


@dataclass(frozen=True, slots=True)
class Listing:
    """`shown` of `available` candidates, oldest first."""

    shown: tuple[Candidate, ...]
    available: int


def candidates(tree: RunTree, thread: ThreadId | None = None, limit: int = 80) -> Listing:
    """The checkpoints on the current path, thinned to `limit`, never cut."""
    path = tree.path()
    place = {node.uid: index for index, node in enumerate(path)}
    targets = tree.checkpoints(thread)
    if not targets:  # a conversation that has only begun, or snapshots that all failed
        return Listing((), 0)
    ends = [place[node.uid] for node in targets[1:]] + [len(path)]
    first_with: dict[str, RecordUid] = {}
    verdicts = _verdicts(path)
    found = [
        _candidate(tree, path[place[node.uid] : end], len(path) - place[node.uid] - 1, verdicts[node.uid], first_with)
        for node, end in zip(targets, ends, strict=True)
    ]
    return Listing(tuple(thin(found, limit)), len(found))


def _verdicts(path: Sequence[Node]) -> dict[RecordUid, Judged | None]:
    """The newest verdict before each node, for all of them in one pass."""
    found: dict[RecordUid, Judged | None] = {}
    newest: Judged | None = None
    for node in path:
        found[node.uid] = newest
        newest = node.judged or newest
    return found


def _candidate(
    tree: RunTree, segment: Sequence[Node], age: int, verdict: Judged | None, first_with: dict[str, RecordUid]
) -> Candidate:
    node = segment[0]
    effects = [effect for _, effect in effects_of(segment)]
    changes = {change.path: change for step in segment if step.after for change in step.after.changes.items}
    changed = max(len(changes), *(step.after.changes.total if step.after else 0 for step in segment))
    state = tree.states.get(node.began.snapshot) if node.began.snapshot else None
    files = state.fingerprint if state else ""
    same = first_with.setdefault(files, node.uid) if files else node.uid
    return Candidate(
        node.uid,
        age,
        node.ended.digest if node.ended else "",
        node.ended.calls if node.ended else (),
        tuple(changes[path] for path in sorted(changes)),
        changed,
        verdict.satisfied if verdict else None,
        verdict.total if verdict else None,
        None if same == node.uid else same,
        standing_words(effects),
        bool(state and state.complete),
        max(sum(change.status == "D" for change in changes.values()), *(_deleted(step) for step in segment)),
        len({effect.call or effect.what for effect in effects if effect.may_survive}),
    )


def _deleted(step: Node) -> int:
    return step.after.changes.deleted if step.after else 0


def thin(found: Sequence[Candidate], limit: int) -> list[Candidate]:
    """At most `limit` of them: the first, the newest ten, every turning point, then evenly over the rest.

    A turning point is a change of validator progress, a step before an effect or a large deletion. Where these alone
    are too many, the newest win.
    """
    if len(found) <= limit:
        return list(found)
    keep = {0, *range(len(found) - min(ALWAYS_NEWEST, limit), len(found))}
    for index, here in enumerate(found):
        before = found[index - 1] if index else here
        if here.satisfied != before.satisfied or here.effects or here.deleted >= LARGE_DELETION:
            keep.add(index)
    chosen = sorted(keep)
    if len(chosen) > limit:
        chosen = [0, *chosen[len(chosen) - limit + 1 :]] if limit > 1 else chosen[-limit:]
    return [found[index] for index in _filled(chosen, len(found), limit)]


def _filled(chosen: list[int], size: int, limit: int) -> list[int]:
    """`chosen` and, up to `limit`, others spread evenly over what it leaves out."""
    taken = set(chosen)
    rest = [index for index in range(size) if index not in taken]
    free = limit - len(chosen)
    spread = (rest[(2 * number + 1) * len(rest) // (2 * free)] for number in range(free)) if free > 0 else ()
    return sorted({*chosen, *spread})


def render(listing: Listing) -> str:
    """The listing as a tool result: one line a candidate, and one on what was left out."""
    if not listing.shown:
        return "There is no checkpoint to go back to yet. Go on with the task."
    lines = ["Checkpoints, oldest first. Going back to one returns to the moment just before that step."]
    lines += [line(candidate) for candidate in listing.shown]
    left_out = listing.available - len(listing.shown)
    if left_out:
        lines.append(f"{left_out} more checkpoints between these are not shown; any of their uids is valid too.")
    return "\n".join(lines)


def line(candidate: Candidate) -> str:
    """One candidate in one line."""
    parts = [f"{candidate.uid}  {_counted(candidate.age, 'step')} ago"]
    if candidate.satisfied is not None:
        parts.append(f"progress {candidate.satisfied}/{candidate.total}" if candidate.total else "progress known")
    said = "; ".join(filter(None, (candidate.digest, *candidate.calls)))
    parts.append(said or "(no answer)")
    parts.append(_files(candidate))
    if candidate.same_files_as:
        parts.append(f"files as at {candidate.same_files_as}")
    if candidate.effects:
        parts.append("would survive: " + "; ".join(candidate.effects))
    if candidate.unknown:
        parts.append(f"{_counted(candidate.unknown, 'call')} with unknown effects")
    if not candidate.complete:
        parts.append("snapshot incomplete")
    return " | ".join(parts)


def _files(candidate: Candidate) -> str:
    if not candidate.changed:
        return "no files changed"
    named = ", ".join(f"{change.status} {readable(change.path)}" for change in candidate.changes[:FILES_NAMED])
    more = candidate.changed - min(FILES_NAMED, len(candidate.changes))
    return f"{_counted(candidate.changed, 'file')}: {named}" + (f" and {more} more" if more else "")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def readable(path: str) -> str:
    """A path in one line, whatever bytes it holds."""
    return path.encode("unicode_escape", "backslashreplace").decode("ascii") if not path.isprintable() else path
