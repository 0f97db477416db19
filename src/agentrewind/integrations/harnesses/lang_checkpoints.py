"""LangGraph's checkpoints and ours name each other.

A record of a model call says from which LangGraph checkpoint the graph made it; the metadata of a LangGraph checkpoint
say in which run it was written, and after which record.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, Protocol

from agentrewind.core.records import RecordUid
from agentrewind.core.tree import RunTree
from agentrewind.integrations.harnesses.frameworks import hung

RUN, RECORD = "agentrewind_run", "agentrewind_record"
"""The fields in the metadata of a LangGraph checkpoint."""
_MARK = "langgraph:"
_PARTS = ("thread_id", "checkpoint_ns", "checkpoint_id")


class Remembers(Protocol):
    """A run, while it is recorded or afterwards."""

    id: str

    @property
    def tree(self) -> RunTree: ...


class Records(Remembers, Protocol):
    """A run that is being recorded."""

    def called_from(self, name: Callable[[], str]) -> None: ...


def config_at(run: Remembers, uid: str) -> dict[str, Any]:
    """The `config` of the LangGraph checkpoint from which the graph made the model call `uid`: what
    `graph.get_state`, `graph.update_state` and `graph.invoke` take.

    Raises:
        KeyError: there is no such record, or no LangGraph checkpoint behind it.
    """
    began = run.tree.nodes[RecordUid(uid)].began
    if not began.origin.startswith(_MARK):
        raise KeyError(f"{uid} was not called from a graph with a checkpointer")
    return {"configurable": json.loads(began.origin.removeprefix(_MARK))}


def record_at(run: Remembers, config: Mapping[str, Any]) -> RecordUid | None:
    """The first model call that was made from this LangGraph checkpoint: its snapshot holds the files of that state.

    None where none was.
    """
    name = _name(config["configurable"])
    calls = (node.uid for node in run.tree.nodes.values() if node.began.origin == name)
    return min(calls, default=None)


def attach(graph: Any, run: Records) -> Callable[[], None]:
    """Have both sides name each other, where the graph keeps checkpoints; what undoes that for the graph."""
    from langgraph.checkpoint.base import BaseCheckpointSaver

    run.called_from(_here)
    saver = graph.checkpointer
    return _in_step(saver, run) if isinstance(saver, BaseCheckpointSaver) else lambda: None


def _here() -> str:
    """The checkpoint that the present step of a graph begins from; empty outside of a graph that keeps any."""
    from langgraph.runtime import get_runtime

    try:
        info = get_runtime().execution_info
    except (KeyError, RuntimeError):
        return ""
    if info is None or info.thread_id is None:
        return ""
    return _name(
        {
            "thread_id": info.thread_id,
            "checkpoint_ns": info.checkpoint_ns.rpartition("|")[0],  # the last part is that of the step
            "checkpoint_id": info.checkpoint_id,
        }
    )


def _name(configurable: Mapping[str, Any]) -> str:
    return _MARK + json.dumps({part: str(configurable.get(part) or "") for part in _PARTS})


def _in_step(saver: Any, run: Remembers) -> Callable[[], None]:
    """Have a checkpointer write our names into the metadata of what it saves."""
    put, aput = saver.put, saver.aput
    after: dict[str, RecordUid] = {}

    def named(config: Mapping[str, Any], checkpoint: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Deterministic, although a checkpoint may be written while the next call is under way: the record is that of
        the call that was made from the checkpoint before, else the one that stands there.
        """
        before = config["configurable"]
        record = record_at(run, config) or after.get(_name(before))
        if record is None:
            return {**metadata, RUN: run.id}
        after[_name({**before, "checkpoint_id": checkpoint["id"]})] = record
        return {**metadata, RUN: run.id, RECORD: record}

    def put_named(config: Any, checkpoint: Any, metadata: Any, versions: Any) -> Any:
        return put(config, checkpoint, named(config, checkpoint, metadata), versions)

    async def aput_named(config: Any, checkpoint: Any, metadata: Any, versions: Any) -> Any:
        return await aput(config, checkpoint, named(config, checkpoint, metadata), versions)

    undo = ExitStack()
    undo.callback(hung(saver, "put", put_named))
    undo.callback(hung(saver, "aput", aput_named))
    return undo.close
