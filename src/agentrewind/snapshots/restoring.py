"""A whole restore: the present saved, the intent written, passes over the workspace until it is equal to the target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrewind.core.crashpoints import named, reach
from agentrewind.core.errors import RestoreInterrupted, RestoreRefused, SnapshotDamaged, StorageFull, StoreError
from agentrewind.core.world import Act, Gap, Pending, RestoreReport, SnapshotId
from agentrewind.snapshots import entry as e
from agentrewind.snapshots.access import loosen, set_mode, set_modes
from agentrewind.snapshots.attribution import A_PERSON, Whose, of_others
from agentrewind.snapshots.beneath import sync_file_system
from agentrewind.snapshots.between import between
from agentrewind.snapshots.drift import EQUAL, LEFT, MADE_EQUAL, NONE, Drift, Policy, found, with_databases
from agentrewind.snapshots.intent import Kept, clear_intent, is_pending, write_intent
from agentrewind.snapshots.manifests import difference
from agentrewind.snapshots.packs import ObjectDamaged, ObjectMissing
from agentrewind.snapshots.plan import Difference, Plan, plan
from agentrewind.snapshots.restore import Outcome, Pass
from agentrewind.snapshots.saved import unreadable, unsaved
from agentrewind.snapshots.scan import Pry
from agentrewind.snapshots.target import Target

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentrewind.snapshots.manifests import Delta
    from agentrewind.snapshots.scan import Seen
    from agentrewind.snapshots.site import Site

PASSES = 3
PATIENCE = 20
"""How often something that another process writes to meanwhile is saved again and tried anew: after the first pass each
is about that alone.
"""
_VOLATILE = "volatile, and not saved"
_LIVE_SAVED = named("snapshot.restore-live-saved")
_APPLIED = named("snapshot.restore-applied")
_VERIFIED = named("snapshot.restore-verified")


def rehearse(site: Site, name: SnapshotId, policy: Policy, *, accept_incomplete: bool) -> RestoreReport:
    """What a restore would do now. Nothing is written.

    Raises:
        SnapshotDamaged, RestoreRefused: it couldn't be done.
    """
    site.follow_root(make=False)
    target = Target(site, name)
    since = policy.since or site.current
    also: frozenset[str] = frozenset()
    for _ in range(PASSES):
        drift = _rehearsed_drift(site, name, since, policy, seen := site.look(also=also))
        difference = target.compared(seen)
        held = with_databases(drift, seen.entries, difference.target) if policy.keep else NONE
        todo = plan(difference, seen, held, also, site.rules)
        more = unsaved(todo, seen.entries, difference.target, same_rules=target.same_rules)
        if more <= also:
            break
        also |= more
    if not accept_incomplete:
        _refuse_unsaved(todo)
    target.check(site.fd, todo, seen)
    return RestoreReport(
        name, None, tuple(todo.acts), tuple(todo.kept), target.lost, dry_run=True, drift=_drifted(todo, drift)
    )


def _rehearsed_drift(site: Site, target: SnapshotId, since: SnapshotId | None, policy: Policy, seen: Seen) -> Drift:
    if since is None:
        return NONE
    if policy.whose is None:
        return found(difference(Target(site, since).whole(), seen.entries), since)
    others = of_others(site.store, target, since, policy.whose)
    if not policy.whose.lately:
        return others
    late = found(difference(Target(site, since).whole(), seen.entries), since).paths
    return Drift(target, {**others.paths, **{path: f"{how} by {A_PERSON}" for path, how in late.items()}}, told=True)


def _drifted(todo: Plan, drift: Drift) -> tuple[Gap, ...]:
    """What becomes of the drift that a plan comes across."""
    held = {gap.path: gap.why for gap in todo.kept if gap.path in set(todo.held)}
    equal = {act.path: f"{drift.why(act.path)}: {EQUAL}" for act in todo.acts if act.path in drift}
    return tuple(Gap(path, why) for path, why in sorted({**held, **equal}.items()))


def _refuse_unsaved(todo: Plan) -> None:
    if todo.unsaved:
        named_paths = "; ".join(f"{gap.path!r} {gap.why}" for gap in todo.unsaved[:10])
        raise RestoreRefused(
            f"What is there now can't be saved first: {named_paths}. Nothing was touched. Make it readable, or accept"
            " an incomplete restore to leave it as it is."
        )


def _not_saved(lacking: dict[str, str]) -> RestoreRefused:
    gaps = "; ".join(f"{path!r}: {why}" for path, why in sorted(lacking.items())[:10])
    return RestoreRefused(f"What is there now can't be saved first: {gaps}. Nothing was touched.")


def lossy_gaps(lost: dict[str, set[str]]) -> tuple[Gap, ...]:
    """Attributes that could not be set, in words."""
    return tuple(Gap(path, f"not brought back: {', '.join(sorted(what))}") for path, what in sorted(lost.items()))


class Restoring:
    """One restore: passes over the workspace until it is equal to the target or something stands in the way.

    `kept` is what an earlier try of the same restore wrote down about drift.
    """

    def __init__(
        self,
        site: Site,
        name: SnapshotId,
        *,
        accept_incomplete: bool,
        policy: Policy = MADE_EQUAL,
        kept: Kept | None = None,
    ) -> None:
        self._site = site
        self._store = site.store
        self._name = name
        self._accept = accept_incomplete
        self._goal = Target(site, name)
        self._policy = policy
        self._kept = kept
        self._also: frozenset[str] = frozenset()
        self._begun = False
        self._since = policy.since or site.current
        self._drift = NONE
        self._opened: dict[str, int] = {}
        self._live: SnapshotId | None = None
        self._saved: SnapshotId | None = None
        """The present as the pass before found it."""
        self._acts: dict[str, Act] = {}
        self._drifted: dict[str, Gap] = {}
        self._lost: dict[str, set[str]] = {}
        self._touched = False
        self._was_pending = is_pending(self._store.directory)

    def run(self) -> RestoreReport:
        """Raises: as `WorkspaceWorld.restore`."""
        self._site.follow_root(make=True)
        try:
            return self._passes()
        finally:
            self._close_again(self._opened)

    def _close_again(self, modes: dict[str, int]) -> None:
        """Give back the modes of what was opened to be read, unless the restore has set them."""
        set_modes(self._site.fd, {path: mode for path, mode in modes.items() if path not in self._acts})
        modes.clear()

    def _make_readable(self, path: str) -> int | None:
        try:
            return loosen(self._site.fd, path, write=False)
        except OSError:
            return None

    def _passes(self) -> RestoreReport:
        conflicts: list[Gap] = []
        for _ in range(PATIENCE):
            try:
                difference, todo = self._save_and_plan(conflicts)
                conflicts = self._carry_out(difference, todo) if todo.acts else []
            except (RestoreRefused, SnapshotDamaged, StorageFull) as error:
                if not self._touched:
                    raise
                raise self._interrupted(str(error), []) from error
            if not conflicts:
                return self._done(todo)
            self._site.distrust(gap.path for gap in conflicts)  # nobody may have told of what was written there
            what = LEFT if self._policy.keep else EQUAL
            self._drifted.update((gap.path, Gap(gap.path, f"{gap.why}: {what}")) for gap in conflicts)
        why = f"{PATIENCE} times something else was there than was saved a moment before"
        if self._touched or self._was_pending:
            raise self._interrupted(why, conflicts)
        clear_intent(self._store.directory)
        raise RestoreRefused(f"The restore was not made: {why}{_names(conflicts)}. Nothing was touched.")

    def _save_and_plan(self, conflicts: list[Gap]) -> tuple[Difference, Plan]:
        for attempt in range(PASSES):
            difference, todo = self._saved_and_planned(None if attempt else conflicts)
            if not (lacking := self._lacking(difference, todo)):
                break
            self._site.distrust(lacking)
        else:
            raise _not_saved(lacking)
        self._drifted.update((gap.path, gap) for gap in _drifted(todo, self._drift) if gap.path not in self._acts)
        if not self._accept:
            _refuse_unsaved(todo)
        else:
            todo.kept += todo.unsaved
        return difference, todo

    def _saved_and_planned(self, conflicts: list[Gap] | None) -> tuple[Difference, Plan]:
        label = f"before restoring {self._name[:12]}"
        pry = Pry(self._make_readable, self._opened)
        live = self._site.save(label, pry, also=self._also, automatic=True).id
        self._store.start_sync()
        if self._saved is None:
            self._drift = self._find_drift(live)
        else:
            self._take_in(conflicts, self._saved, live)
        if not self._begun:
            self._live = live
        self._saved = live
        reach(_LIVE_SAVED)
        seen = self._site.known
        difference = self._goal.difference(live, seen)
        return difference, plan(difference, seen, self._held(difference), self._also, self._site.rules)

    def _lacking(self, difference: Difference, todo: Plan) -> dict[str, str]:
        """What is to be overwritten or removed and isn't saved, each with why: then it is to be saved once more."""
        more = self._unsaved(difference, todo)
        self._also |= more
        return dict.fromkeys(more, _VOLATILE) or unreadable(self._store, todo, difference.live)

    def _unsaved(self, difference: Difference, todo: Plan) -> set[str]:
        return unsaved(todo, difference.live, difference.target, same_rules=self._goal.same_rules)

    def _find_drift(self, live: SnapshotId) -> Drift:
        """What had changed since the last look when this restore was first begun."""
        whose = self._policy.whose
        if whose is not None and self._kept is None:
            self._kept = Kept(self._name, whose.until or live, whose.mine, whose.people)
        if self._kept is not None and self._kept.mine:
            kept = self._kept
            return of_others(self._store, kept.since, kept.until, Whose(kept.mine, kept.people))
        if self._kept is not None:
            since, until = self._kept.since, self._kept.until
        elif self._since is not None:
            since, until = self._since, live
        else:
            return NONE
        if self._policy.keep:
            self._kept = Kept(since, until)
        return found(self._step(since, until), since)

    def _step(self, since: SnapshotId, until: SnapshotId) -> Delta:
        rules = self._store.rules
        if rules(since) == rules(until):
            return between(self._store, since, until)
        return difference(Target(self._site, since).whole(), Target(self._site, until).whole())

    def _take_in(self, conflicts: list[Gap] | None, before: SnapshotId, now: SnapshotId) -> None:
        """What stood in the way of the pass before and really is something else by now drifted during the restore; so
        did everything that changed where no pass lies between the two states (`conflicts` None).
        """
        changed = found(between(self._store, before, now), before).paths
        paths = changed if conflicts is None else [gap.path for gap in conflicts if gap.path in changed]
        meanwhile = dict.fromkeys(paths, "changed during the restore")
        self._drift = Drift(self._drift.since, {**self._drift.paths, **meanwhile}, self._drift.told)

    def _held(self, difference: Difference) -> Drift:
        """What somebody else wrote and wants kept."""
        return with_databases(self._drift, difference.live, difference.target) if self._policy.keep else NONE

    def _carry_out(self, difference: Difference, todo: Plan) -> list[Gap]:
        """One pass; what stood in the way."""
        site = self._site
        self._goal.check(site.fd, todo, site.known)
        work = Pass(
            site.fd, self._goal.contents, seen=site.known, target=difference.target, plan=todo,
            meanwhile=site.read_events, progress=site.progress,
        )  # fmt: skip
        assert self._live is not None
        if lacking := self._unsaved(difference, todo):
            raise _not_saved(dict.fromkeys(lacking, _VOLATILE))
        self._announce(Pending(self._name, self._live))
        try:
            outcome = work.run()
        except (OSError, ObjectDamaged, ObjectMissing) as error:
            raise self._interrupted(str(error), []) from error
        finally:
            for path, mode in work.loosened.items():
                set_mode(site.fd, path, mode)
        self._note(todo, outcome)
        self._close_again(self._opened)
        reach(_APPLIED)
        return outcome.conflicts or self._verify()

    def _announce(self, pending: Pending) -> None:
        """The intent is written, and it and the live state would survive a power loss. Nothing is touched before."""
        self._begun = True
        write_intent(self._store.directory, pending, accept_incomplete=self._accept, kept=self._kept)
        try:
            self._store.sync()
        except StoreError:
            if not (self._touched or self._was_pending):
                clear_intent(self._store.directory)
            raise

    def _note(self, todo: Plan, outcome: Outcome) -> None:
        self._touched |= outcome.touched
        left = {gap.path for gap in outcome.conflicts}
        self._acts.update((act.path, act) for act in todo.acts if act.path not in left)
        for path, what in outcome.lossy.items():
            self._lost.setdefault(path, set()).update(what)

    def _verify(self) -> list[Gap]:
        """Look at everything again: what still differs, but for what is declared lossy."""
        site = self._site
        pry = Pry(self._make_readable)
        seen = site.look(pry)
        set_modes(site.fd, pry.modes)
        if site.durability == "power":
            sync_file_system(site.fd)
        after = self._goal.difference_since(site.moved(), seen)
        left = plan(after, seen, self._held(after), self._also, site.rules)
        wrong = [act for act in left.acts if not self._is_declared(act.path, after.live.get(act.path), after.target)]
        if not wrong:
            site.current = self._name
        reach(_VERIFIED)
        return [Gap(act.path, f"needs to be brought back once more ({act.what})") for act in wrong]

    def _is_declared(self, path: str, now: bytes | None, wanted: Mapping[str, bytes]) -> bool:
        """Whether the difference is one that was reported as lossy, or a cache file that a process makes anew."""
        target = wanted.get(path)
        if e.kind_of(now) == e.VOLATILE:
            return True
        lost = self._lost.get(path, set())
        if now is None or target is None or not lost:
            return False
        return e.masked(now, lost) == e.masked(target, lost)

    def _done(self, todo: Plan) -> RestoreReport:
        in_background = self._site.durability == "process"
        clear_intent(self._store.directory, wait=not in_background)
        if in_background:
            self._store.start_sync_of_names()
        return RestoreReport(
            self._name,
            self._live,
            tuple(self._acts[path] for path in sorted(self._acts)),
            tuple(todo.kept),
            (*self._goal.lost, *lossy_gaps(self._lost)),
            verified=True,
            drift=tuple(self._drifted[path] for path in sorted(self._drifted)),
        )

    def _interrupted(self, why: str, conflicts: list[Gap]) -> RestoreInterrupted:
        return RestoreInterrupted(
            f"The restore of {self._name} stopped half-way: {why}{_names(conflicts)}. The state before it is saved as"
            f" {self._live}; `resume()` finishes the restore, and saves what is there by then first."
        )


def _names(gaps: list[Gap]) -> str:
    paths = ", ".join(repr(gap.path) for gap in gaps[:10])
    return f" ({paths})" if paths else ""
