"""Who chooses the target of a rewind. Pure functions of the tree: equal trees give equal targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from agentrewind.core.errors import UsageError
from agentrewind.core.records import SUBMISSION, RecordUid, ThreadId
from agentrewind.core.tools import NAMES as TOOLS
from agentrewind.core.tree import Node, RunTree
from agentrewind.strategies.noticing import fails


class Selector(Protocol):
    """Chooses the target of a rewind that was asked for."""

    @property
    def name(self) -> str: ...

    def choose(self, tree: RunTree, asked: RecordUid, thread: ThreadId) -> RecordUid:
        """The target in place of `asked`, which is a possible one; `asked` where there is no other."""


def targets(tree: RunTree, thread: ThreadId) -> list[Node]:
    """The checkpoints of a conversation to which it can go back from where it is, oldest first.

    Those with a whole snapshot; while the model asks to go back, not those after which nothing else was done.
    """
    found = tree.checkpoints(thread)
    asking = bool(found) and found[-1].ended is not None and any(map(_is_ours, found[-1].ended.calls))
    length = found[-1].began.raw_length if asking else None
    return [
        node
        for node in found
        if node.began.snapshot and tree.complete(node.began.snapshot) and node.began.raw_length != length
    ]


def _is_ours(call: str) -> bool:
    return call.split("(", 1)[0] in TOOLS


@dataclass(frozen=True, slots=True)
class Agent:
    """What was asked for."""

    name: str = "agent"

    def choose(self, tree: RunTree, asked: RecordUid, thread: ThreadId) -> RecordUid:
        """See `Selector`."""
        del tree, thread
        return asked


@dataclass(frozen=True, slots=True)
class Drawn:
    """Any of the possible ones, each as likely. The same seed in an equal tree draws the same."""

    seed: int = 0

    @property
    def name(self) -> str:
        return f"random:{self.seed}"

    def choose(self, tree: RunTree, asked: RecordUid, thread: ThreadId) -> RecordUid:
        """See `Selector`."""
        found = targets(tree, thread)
        draw = Random(f"{self.seed} {tree.rewinds} {len(tree.nodes)}")  # noqa: S311 (a draw, no secret)
        return draw.choice(found).uid if found else asked


@dataclass(frozen=True, slots=True)
class Previous:
    """The newest one: a single step back."""

    name: str = "previous"

    def choose(self, tree: RunTree, asked: RecordUid, thread: ThreadId) -> RecordUid:
        """See `Selector`."""
        found = targets(tree, thread)
        return found[-1].uid if found else asked


@dataclass(frozen=True, slots=True)
class BestProgress:
    """Where the validator's progress was best, before anything else was done there. Without verdicts: what was asked
    for.
    """

    name: str = "best-progress"

    def choose(self, tree: RunTree, asked: RecordUid, thread: ThreadId) -> RecordUid:
        """See `Selector`."""
        best = best_point(tree, targets(tree, thread))
        return asked if best is None else best.uid


@dataclass(frozen=True, slots=True)
class Oracle:
    """The last point at which the cause had not yet been done.

    `cause` is the record, known from outside, with which things went wrong; where it isn't on the path (another branch,
    or not yet done), what was asked for.
    """

    cause: RecordUid

    @property
    def name(self) -> str:
        return f"oracle:{self.cause}"

    def choose(self, tree: RunTree, asked: RecordUid, thread: ThreadId) -> RecordUid:
        """See `Selector`."""
        return _last_before(tree, self.cause, asked, thread)


@dataclass(frozen=True, slots=True)
class FirstError:
    """The last point before the first tool call on the path that failed, by its outcome or by what its result says."""

    name: str = "first-error"

    def choose(self, tree: RunTree, asked: RecordUid, thread: ThreadId) -> RecordUid:
        """See `Selector`."""
        failed = next(filter(_failed, tree.path()), None)
        return asked if failed is None else _last_before(tree, failed.uid, asked, thread)


@dataclass(frozen=True, slots=True)
class LastChange:
    """The last point from which the files are not as they are now: just before what changed them last."""

    name: str = "last-change"

    def choose(self, tree: RunTree, asked: RecordUid, thread: ThreadId) -> RecordUid:
        """See `Selector`."""
        now = tree.live.snapshot if tree.live is not None else None
        found = [node.uid for node in targets(tree, thread) if now is not None and node.began.snapshot != now]
        return found[-1] if found else asked


def _failed(node: Node) -> bool:
    """Of a tool call of the agent's; that work was judged is none."""
    tool, ended = node.began.tool, node.ended
    if tool is None or tool.name == SUBMISSION or ended is None:
        return False
    return ended.error is not None or fails(ended.digest)


def _last_before(tree: RunTree, cause: RecordUid, asked: RecordUid, thread: ThreadId) -> RecordUid:
    """The last target at which `cause` had not yet been done; `asked` where it isn't on the path, or nothing is before
    it.
    """
    path = [node.uid for node in tree.path()]
    if cause not in path:
        return asked
    before = set(path[: path.index(cause) + 1])
    found = [node.uid for node in targets(tree, thread) if node.uid in before]
    return found[-1] if found else asked


def best_point(tree: RunTree, found: Sequence[Node]) -> Node | None:
    """The earliest of the checkpoints `found` at which progress was best; None where no verdict on the path counts.

    At points before the first verdict progress is unknown, which is less than any.
    """
    known = {node.uid for node in found}
    best: tuple[float, Node] | None = None
    newest = None
    for node in tree.path():
        if node.uid in known and newest is not None and (best is None or newest > best[0]):
            best = newest, node
        if node.judged is not None and node.judged.satisfied is not None and node.judged.total:
            newest = node.judged.satisfied / node.judged.total
    return None if best is None else best[1]


NAMES = ("agent", "random[:SEED]", "previous", "best-progress", "first-error", "last-change", "oracle:UID")
_PLAIN: dict[str, type[Agent | Previous | BestProgress | FirstError | LastChange]] = {
    "": Agent,
    "agent": Agent,
    "previous": Previous,
    "best-progress": BestProgress,
    "first-error": FirstError,
    "last-change": LastChange,
}


def selector_named(name: str) -> Selector:
    """The selector of that name; `agent` for an empty one.

    Raises:
        UsageError: there is none.
    """
    kind, _, rest = name.partition(":")
    if kind in _PLAIN and not rest:
        return _PLAIN[kind]()
    if kind == "random" and (not rest or (rest.isascii() and rest.isdigit())):
        return Drawn(int(rest or 0))
    if kind == "oracle" and rest:
        return Oracle(RecordUid(rest))
    raise UsageError(f"There is no selector {name!r}. Known: {', '.join(NAMES)}.")
