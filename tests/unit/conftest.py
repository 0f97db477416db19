"""Small trees by hand."""

import pytest

from agentrewind.core.records import (
    MAIN_THREAD,
    BranchId,
    LlmInput,
    MessageList,
    NodeBegan,
    NodeEnded,
    RewindIntended,
    Rewound,
    RunStarted,
    Snapshotted,
    ToolInput,
    Usage,
    record_uid,
)
from agentrewind.core.tree import RunTree
from agentrewind.core.world import Change, Changes, SnapshotId


class Builder:
    def __init__(self) -> None:
        self.tree = RunTree()
        self.add(RunStarted("20261201-003812-x-0001", "/w", 1, "0", "Fix it", "builtin", "m"))

    def add(self, event):
        self.tree.apply(event)
        return event

    def node(self, *calls: str, tool: str = "", digest: str = "", changed: str = "", open_end: bool = False):
        uid = record_uid(len(self.tree.nodes) + 1)
        llm, used = (None, ToolInput(tool)) if tool else (LlmInput("m", MessageList()), None)
        snapshot = SnapshotId(f"s{len(self.tree.nodes)}")
        self.add(
            NodeBegan(
                uid,
                "tool" if tool else "llm",
                self.tree.head,
                self.tree.branch,
                MAIN_THREAD,
                "sha256:0",
                snapshot,
                1,
                llm,
                used,
            )
        )
        if not open_end:
            self.add(NodeEnded(uid, usage=Usage(10, 2), digest=digest, calls=calls))
            items = (Change("M", changed),) if changed else ()
            self.add(Snapshotted(SnapshotId(f"s{len(self.tree.nodes)}"), uid, changes=Changes(items, len(items))))
        return uid

    def rewind(self, target, note="use the other mode", why="rewind"):
        branch = BranchId(f"b{len(self.tree.branches)}")
        live = SnapshotId("live")
        self.add(RewindIntended(self.tree.head, target, SnapshotId("s"), live, note, branch, MAIN_THREAD, why=why))
        return self.add(Rewound(branch, self.tree.head, target, live, note, why=why, restored=3))


@pytest.fixture
def run() -> Builder:
    return Builder()
