"""Whether what a plan will overwrite or remove is saved: in the live state, and so that the store gives it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrewind.snapshots import entry as e
from agentrewind.snapshots.contents import Contents
from agentrewind.snapshots.packs import ObjectDamaged, ObjectMissing
from agentrewind.snapshots.rules import VOLATILE, PathClass, PathRules
from agentrewind.snapshots.scan import class_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentrewind.snapshots.entry import Entry
    from agentrewind.snapshots.plan import Plan
    from agentrewind.snapshots.store import Store

_RECOGNISED = PathRules(private=(), excluded=(), volatile=VOLATILE)


def at_stake(todo: Plan, live: Mapping[str, bytes]) -> list[str]:
    """What stands there and will be overwritten or removed."""
    files = [path for step in todo.files for path in step.paths if _is_overwritten(live.get(path), step.data)]
    return [*todo.remove, *files]


def _is_overwritten(live: bytes | None, target: bytes) -> bool:
    return live is not None and (e.kind_of(live) != e.FILE or e.content_of(live) != e.content_of(target))


def unsaved(todo: Plan, live: Mapping[str, bytes], target: Mapping[str, bytes], *, same_rules: bool) -> set[str]:
    """What is at stake and isn't in the live state, for being volatile: but for caches that are recognised as such.

    Nothing counts as one that the target has, or may have had by other rules than today's.
    """
    return {
        path
        for path in at_stake(todo, live)
        if e.kind_of(live.get(path)) == e.VOLATILE
        and not (same_rules and e.kind_of(target.get(path)) not in e.TRACKED and _is_recognised(path, live[path]))
    }


def _is_recognised(path: str, data: bytes) -> bool:
    return class_of(_RECOGNISED, path, is_directory=e.is_volatile_directory(data)) is PathClass.VOLATILE


def unreadable(store: Store, todo: Plan, live: Mapping[str, bytes]) -> dict[str, str]:
    """What is at stake and can't be read back from the store, each with why. Costs as much as the plan overwrites."""
    store.forget_bodies()
    contents = Contents(store, keep=False)
    stake = set(at_stake(todo, live))
    others = {path for step in todo.files for path in step.paths if path in live} - stake
    bad: dict[str, str] = {}
    entries = {path: e.decode(live[path]) for path in stake | others if e.kind_of(live.get(path)) == e.FILE}
    for path in sorted(entries, key=lambda path: store.place(entries[path].content)):
        try:
            _read_back(contents, entries[path], whole=path in stake)
        except (ObjectMissing, ObjectDamaged) as error:
            bad[path] = str(error)
    return bad


def _read_back(contents: Contents, entry: Entry, *, whole: bool) -> None:
    """Raises: ObjectMissing, ObjectDamaged."""
    if whole:
        contents.check_file(entry)
    else:
        contents.xattrs(entry)
