"""What the commit of a rewind says of the files."""

from __future__ import annotations

from agentrewind.core.records import BranchId, RecordUid, RewindIntended, ThreadId
from agentrewind.core.world import CHANGES_KEPT, Gap, RestoreReport, SnapshotId
from agentrewind.engine.rewinder import commit_of

INTENT = RewindIntended(
    None, RecordUid("rec_000001"), SnapshotId("a"), SnapshotId("b"), "note", BranchId("b1"), ThreadId("main")
)


def gaps(count: int) -> tuple[Gap, ...]:
    return tuple(Gap(f"path {number}", "somebody else's") for number in range(count))


def test_a_commit_names_only_so_many_paths_that_were_left_alone_and_counts_the_others() -> None:
    report = RestoreReport(SnapshotId("a"), None, kept=gaps(CHANGES_KEPT + 30))
    commit = commit_of(INTENT, report)
    assert (commit.kept, commit.kept_more) == (gaps(CHANGES_KEPT), 30)


def test_few_are_all_named() -> None:
    commit = commit_of(INTENT, RestoreReport(SnapshotId("a"), None, kept=gaps(CHANGES_KEPT)))
    assert (len(commit.kept), commit.kept_more) == (CHANGES_KEPT, 0)
    assert (commit_of(INTENT, None).kept, commit_of(INTENT, None).kept_more) == ((), 0)
