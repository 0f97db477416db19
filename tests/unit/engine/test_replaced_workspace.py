"""A workspace that somebody removes and makes anew while the run goes on: holes in its timeline, nothing guessed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from agentrewind.core.records import RunStarted
from agentrewind.dialects.openai_chat import OpenAIChat
from agentrewind.engine.session import Session
from agentrewind.journal.check import check
from agentrewind.journal.writer import JournalWriter
from agentrewind.snapshots.workspace import WorkspaceWorld
from tests.trees import describe, differences
from tests.unit.engine.wire import PATH, SHELL, Provider, answer


def test_a_directory_made_anew_during_a_run_is_neither_saved_nor_touched(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    (root / "a").write_text("of the run")

    def replaced() -> str:
        shutil.rmtree(root)
        root.mkdir()
        (root / "b").write_text("of somebody else")
        return "done"

    commit = {"record_uid": "rec_000001", "memory_summary": "back to the beginning"}
    model = Provider([
        lambda _: answer(calls=[("c1", "shell", {})]),
        lambda _: answer(calls=[("c2", "backtrack_commit", commit)]),
        lambda body: answer(text=body["messages"][-1]["content"]),
    ])  # fmt: skip
    log = JournalWriter.create(tmp_path / "run", RunStarted("replaced", str(root), 1, "0"))
    messages = [{"role": "user", "content": "do it"}]
    with WorkspaceWorld.open(root, tmp_path / "store") as world:
        session = Session(log, world, [OpenAIChat()])
        first = session.call(PATH, {"model": "m", "messages": list(messages), "tools": [SHELL]}, model)
        messages.append(json.loads(first.body)["choices"][0]["message"])
        session.tool("shell", {}, replaced, call_id="c1")
        messages.append({"role": "tool", "tool_call_id": "c1", "content": "done"})
        there = describe(root)
        told = session.call(PATH, {"model": "m", "messages": list(messages), "tools": [SHELL]}, model)
        assert "is another directory" in json.loads(told.body)["choices"][0]["message"]["content"]
        assert not differences(there, describe(root))
        before, *holes = (node.began.snapshot for node in log.tree.nodes.values() if node.is_llm)
        assert before is not None
        assert holes
        assert set(holes) == {None}
        assert [node.uid for node in log.tree.checkpoints()] == ["rec_000001"]
        session.end("done", ok=True)
        assert [snapshot.id for snapshot in world.snapshots()] == [before]
    log.close()
    assert check(tmp_path / "run") == []
