"""What shows without a validator that an agent doesn't get on: a loop, a standstill, the same error (rewind.md, 6).

Pure: a tree, and the results of tools as the model sees them, in; what was noticed out. Nothing here acts.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from agentrewind.core.codec import digest_bytes
from agentrewind.core.errors import UsageError
from agentrewind.core.records import RecordUid, ThreadId
from agentrewind.core.tree import Node, RunTree

ENDS = 2000
"""How many characters at each end of a result are looked at."""
SHOWN = 160
"""How many characters of an error are shown again."""
_FAILS = re.compile(
    r"(error|exception)s?\b|\b(errno|traceback|failed|failure|fatal|denied|not found|no such|cannot|can't|unable to)\b"
    r"|(exit|return)[ _-]?code\W{0,4}-?[1-9]",
    re.IGNORECASE,
)
_WENT_WELL = re.compile(r"(exit|return)[ _-]?code\W{0,4}0\b", re.IGNORECASE)
_CHANGING = re.compile(r"0x[0-9a-f]+|\d+(\.\d+)? ?(ms|s|seconds)\b", re.IGNORECASE)
"""What differs from one time to the next although the error is the same."""


@dataclass(frozen=True, slots=True)
class Noticing:
    """From when on something is noticed; 0 for never.

    `loop`: so many times the same next action from the same files. `stall`: so many nodes without a change of the
    world. `errors`: so many times the same error of a tool.
    """

    loop: int = 2
    stall: int = 40
    errors: int = 3


OFF = Noticing(0, 0, 0)


def noticing_named(name: str) -> Noticing:
    """What `on`, `off`, or some of `loop=N,stall=N,errors=N` (the others as by default) names.

    Raises:
        UsageError: it names nothing.
    """
    if name in ("on", ""):
        return Noticing()
    if name == "off":
        return OFF
    found = Noticing()
    for part in name.split(","):
        key, _, number = (item.strip() for item in part.partition("="))
        if key not in Noticing.__slots__ or not (number.isascii() and number.isdigit()):
            raise UsageError(f"Nothing can be noticed by {part!r}. Say on, off, or loop=2,stall=40,errors=3.")
        found = replace(found, **{key: int(number)})
    if found.loop == 1 or found.errors == 1:
        raise UsageError("What happens once is no loop and no repeated error: say 2 or more, or 0 for never.")
    return found


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that was noticed. Equal keys are one thing, told once."""

    kind: Literal["loop", "stall", "error"]
    key: str
    text: str
    seen: tuple[RecordUid, ...] = ()


def loop(tree: RunTree, thread: ThreadId, times: int) -> Notice | None:
    """The newest action of a conversation was taken before, from the very same files."""
    last = next((node for node in tree.ancestors(tree.head) if node.is_llm and node.began.thread == thread), None)
    if not times or last is None or last.ended is None or last.began.snapshot is None or not last.ended.action:
        return None
    acted = [tree.node(uid) for uid in tree.acted[last.began.snapshot, last.ended.action]]
    # One that was held back and comes again was told to.
    seen = [node.uid for node in acted if node.began.thread == thread and not node.held]
    if len(seen) < times:
        return None
    earlier = ", ".join(seen[-4:-1])
    text = (
        f"You did exactly this before, with the files exactly as they are now ({earlier}): "
        f"{', '.join(last.ended.calls)}. If it is not meant to be repeated, do something else."
    )
    return Notice("loop", f"loop:{last.began.snapshot}:{last.ended.action}", text, tuple(seen[-4:]))


def stall(tree: RunTree, nodes: int) -> Notice | None:
    """The last `nodes` nodes of the path have left the files as they were."""
    path = list(itertools.islice(tree.ancestors(tree.head), nodes)) if nodes else []
    if len(path) < nodes or not path or tree.live is None or tree.live.snapshot is None:
        return None
    here = tree.live.snapshot
    if any(not _saw(node, tree, here) for node in path):
        return None
    text = f"The files have not changed in the last {nodes} steps. If the task needs changes, make them now."
    return Notice("stall", f"stall:{here}", text, (path[-1].uid, path[0].uid))


def _saw(node: Node, tree: RunTree, here: str) -> bool:
    """Whether the files at a node are those of snapshot `here`."""
    snapshot = node.began.snapshot
    if snapshot is None or snapshot == here:
        return snapshot == here
    state, now = tree.states.get(snapshot), tree.live
    return bool(state and now and state.fingerprint and state.fingerprint == now.fingerprint)


def fails(text: str) -> bool:
    """Whether a tool's result speaks of an error, where nothing else says so."""
    ends = text if len(text) <= 2 * ENDS else text[:ENDS] + "\n" + text[-ENDS:]
    return _FAILS.search(ends) is not None and _WENT_WELL.search(ends) is None


def error(results: Iterable[tuple[str, bool | None]], times: int) -> Notice | None:
    """The newest result of a tool is an error that it gave `times` times.

    Args:
        results: text, and whether it failed (None: nobody says), newest first.
        times: 0 for never.
    """
    found = iter(results)
    text, failed = next(found, ("", False))
    if not times or failed is False or not (failed or fails(text)):
        return None
    bare = _bare(text)
    if 1 + sum(_bare(other) == bare for other, _ in found) < times:
        return None
    said = " ".join(text.split())
    shown = said if len(said) <= SHOWN else said[: SHOWN - 1] + "…"
    told = f"A tool has now given this error {times} times: {shown} Find its cause before you try it again."
    return Notice("error", f"error:{digest_bytes(bare.encode('utf-8', 'surrogatepass'))[:23]}", told)


def _bare(text: str) -> str:
    return _CHANGING.sub("#", text.strip())


def first(notices: Sequence[Notice | None], told: frozenset[str]) -> Notice | None:
    """The first that wasn't told yet."""
    return next((notice for notice in notices if notice is not None and notice.key not in told), None)
