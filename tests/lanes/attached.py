"""An agent of a program's own, attached to a session: what its model says, and what must come of it."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import agentrewind
from agentrewind.testing.scripted import Request, ScriptedModel, Step, call, calls, say

NOTE = "the second text was wrong"


class Toolbox:
    """Tools as plain functions."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def write(self, name: str, text: str) -> str:
        """Write a text into a file."""
        (self.place / name).write_text(text)
        return f"wrote {name}"

    def write_late(self, name: str) -> str:
        """Write a file, after a while."""
        time.sleep(1.5)
        (self.place / name).write_text("late")
        return f"wrote {name}"

    def boom(self) -> str:
        """Fail."""
        time.sleep(0.3)
        raise RuntimeError("boom")


def goes_back(request: Request) -> Step:
    """Two files, then two more in one answer, then back to before those."""
    if request.says(NOTE):
        return say("Done.")
    if not request.results:
        return calls([("write", {"name": "a", "text": "one"}), ("write", {"name": "b", "text": "two"})])
    if "wrote c" not in str(request.results):
        return call("write", {"name": "c", "text": "three"})
    listed = re.findall(r"(rec_\d+)[^\n]*write\(c", request.results[-1])
    if not listed:
        return call("backtrack_candidates", {"reason": "wrong"})
    return call("backtrack_commit", {"record_uid": listed[0], "memory_summary": NOTE})


def fails_beside(request: Request) -> Step:
    """A slow call and one that raises, in one answer."""
    return say("Done.") if request.results else calls([("write_late", {"name": "late"}), ("boom", {})])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENTREWIND_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@contextmanager
def recorded(place: Path, script) -> Iterator[tuple[agentrewind.LiveRun, ScriptedModel]]:
    with ScriptedModel(script) as model, agentrewind.session(place) as run:
        yield run, model


def names(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


def went_back(run: agentrewind.LiveRun, model: ScriptedModel, place: Path) -> None:
    """The files are those before the second answer, and every call of a tool is a record with its id."""
    assert names(place) == ["a", "b"]
    found = agentrewind.open_run(run.id)
    assert found.tree.rewinds == 1
    nodes = [node for node in found.tree.nodes.values() if node.began.tool is not None]
    assert sorted(node.began.tool.arguments["name"] for node in nodes) == ["a", "b", "c"]
    assert all(str(node.began.tool.call_id).startswith("call_") for node in nodes)
    assert sorted(found.output(node.uid) for node in nodes) == ["wrote a", "wrote b", "wrote c"]
    assert model.refused == []


async def no_record_ends_before_its_tool(run: agentrewind.LiveRun, place: Path) -> None:
    """The program has its error back. What runs beside it is at work in the record, or has ended there and in truth: so
    no rewind restores files that a thread still writes.
    """
    (late,) = (node.uid for node in run.tree.nodes.values() if node.began.tool and node.began.tool.name == "write_late")
    async with asyncio.timeout(30):
        while run.tree.node(late).ended is None:  # noqa: ASYNC110 (nobody tells)
            await asyncio.sleep(0.01)
    assert names(place) == ["late"]
    (failed,) = (node for node in run.tree.nodes.values() if node.began.tool and node.began.tool.name == "boom")
    assert failed.ended.error.type == "RuntimeError"
