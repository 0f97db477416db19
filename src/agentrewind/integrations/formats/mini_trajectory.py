"""Trajectories of mini-SWE-agent, format 1.1: written from the path on which a run stands, and read into a run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from agentrewind.core.codec import Json, canonical, digest_bytes
from agentrewind.core.cost import calls_cost
from agentrewind.core.errors import UsageError
from agentrewind.core.records import (
    FIRST_BRANCH,
    MAIN_THREAD,
    Failure,
    LlmInput,
    MessageId,
    MessageList,
    NodeBegan,
    NodeEnded,
    RecordUid,
    RunEnded,
    ToolInput,
    Usage,
    record_uid,
)
from agentrewind.dialects import openai_chat, openai_responses
from agentrewind.dialects.base import ToolCall
from agentrewind.engine.written import first_line, short
from agentrewind.integrations.formats.conversation import Turn, threads_of, turns
from agentrewind.journal.output import new_file
from agentrewind.journal.reader import RunLog
from agentrewind.journal.writer import JournalWriter

FORMAT = "mini-swe-agent-1.1"
LARGEST = 512 << 20
"""Bytes of a trajectory that is read; the format has to be read whole."""
_NS = 1_000_000_000


# --- writing ----------------------------------------------------------------------------------------------------------


def export_mini(log: RunLog, to: Path, *, force: bool = False) -> None:
    """Write the path to the head of the run, its main conversation, as one trajectory file.

    Raises:
        UsageError: no model was called, or as `new_file`. StorageFull: nothing was kept.
    """
    path = log.tree.path()
    threads = threads_of(path)
    if not threads:
        raise UsageError(f"The run {log.run_dir.name} has no model call, so there is no trajectory to write.")
    with new_file(to, force=force) as file:
        file.write(b'{"info": ' + json.dumps(_info(log)).encode() + b',\n"messages": [\n')
        first = True
        for turn in turns(log, path, threads[0]):
            for message in _messages(log, turn):
                file.write((b"" if first else b",\n") + json.dumps(message).encode())
                first = False
        exit_message = _exit(log)
        if exit_message:
            file.write(b",\n" + json.dumps(exit_message).encode())
        file.write(b'\n],\n"trajectory_format": "' + FORMAT.encode() + b'"}\n')


def _info(log: RunLog) -> Json:
    tree = log.tree
    cost = calls_cost(node for node in tree.path() if node.is_llm)
    started = tree.started
    return {
        "model_stats": {"instance_cost": cost.spent, "api_calls": cost.calls},
        "config": {
            "agent": {"task": started.task if started else ""},
            "agent_type": started.agent if started else "",
            "model": {"model_name": started.model if started else ""},
            "environment": {"cwd": started.workspace if started else ""},
        },
        "mini_version": "",
        "exit_status": _exit_status(log),
        "submission": tree.ended.answer if tree.ended else "",
        "agentrewind": {
            "run": started.run_id if started else "",
            "version": started.version if started else "",
            "rewinds": tree.rewinds,
            "calls_without_price": cost.unpriced,
        },
    }


def _exit_status(log: RunLog) -> str:
    ended = log.tree.ended
    return "" if ended is None else "Submitted" if ended.ok else "Failed"


def _exit(log: RunLog) -> Json:
    ended = log.tree.ended
    if ended is None:
        return None
    extra = {"exit_status": _exit_status(log), "submission": ended.answer, "reason": ended.reason}
    return {"role": "exit", "content": ended.answer or ended.reason, "extra": extra}


def _messages(log: RunLog, turn: Turn) -> Iterator[Json]:
    node, reply = turn.node, turn.reply
    for item in turn.new:
        yield {"role": item.role, "content": item.text}
    if reply is None:
        return
    ended = node.ended
    extra = {
        "actions": [_action(call) for call in reply.calls],
        "response": turn.response,
        "cost": (ended.usage.usd if ended else None) or 0.0,
        "timestamp": node.began.started_ns / _NS,
        "agentrewind": {"record_uid": node.uid, "branch": node.began.branch},
    }
    message: dict[str, Json] = {"role": "assistant", "content": reply.text, "extra": extra}
    if reply.calls:
        message["tool_calls"] = [_declared(call) for call in reply.calls]
    yield message
    recorded = _recorded(log, turn)
    for item in turn.results:
        whole = recorded.get(item.call_id, {})
        extra = {"raw_output": whole.get("output", item.text), "returncode": whole.get("returncode")}
        yield {"role": "tool", "tool_call_id": item.call_id, "content": item.text, "extra": extra}


def _recorded(log: RunLog, turn: Turn) -> dict[str, Json]:
    """The whole results of recorded tool calls, by call id: what the model was shown may be shortened."""
    found: dict[str, Json] = {}
    for node in turn.tools:
        if node.began.tool and node.began.tool.call_id and node.ended and node.ended.output:
            found[node.began.tool.call_id] = _object(log.get(node.ended.output))
    return found


def _action(call: ToolCall) -> Json:
    command = call.arguments.get("command") if isinstance(call.arguments, dict) else None
    return {"command": command if isinstance(command, str) else call.raw_arguments, "tool_call_id": call.id}


def _declared(call: ToolCall) -> Json:
    arguments = call.raw_arguments or json.dumps(call.arguments)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


# --- reading ----------------------------------------------------------------------------------------------------------


def read_mini(path: Path) -> Json:
    """A trajectory file, checked.

    Raises:
        UsageError: it can't be read, is too large, or isn't one.
    """
    try:
        if path.stat().st_size > LARGEST:
            raise UsageError(f"{path} is larger than a trajectory can be ({LARGEST >> 20} MB). Nothing was imported.")
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not a trajectory: it isn't JSON ({error}).") from error
    kind = found.get("trajectory_format") if isinstance(found, dict) else None
    if kind != FORMAT:
        raise UsageError(f"{path} is not a trajectory of the format {FORMAT} (it says {str(kind)[:60]!r}).")
    messages = found.get("messages")
    if not isinstance(messages, list) or not all(isinstance(item, dict) for item in messages):
        raise UsageError(f"{path} is not a trajectory: it has no list of messages.")
    return found


def task_of(found: Json) -> str:
    """What was asked for: the first message of the user."""
    return next((str(item.get("content")) for item in found["messages"] if item.get("role") == "user"), "")


def model_of(found: Json) -> str:
    config = _object(_object(found.get("info")).get("config"))
    return str(_object(config.get("model")).get("model_name", ""))


def import_mini(found: Json, log: JournalWriter) -> None:
    """Write the calls of a checked trajectory into a new journal: it has no snapshots, so nothing to go back to."""
    reading = _Reading(log, model_of(found))
    for message in found["messages"]:
        reading.take(message)
    info = _object(found.get("info"))
    status = str(info.get("exit_status") or "")
    submission = info.get("submission")
    answer = submission if isinstance(submission, str) else ""
    log.append(RunEnded(reading.now, status == "Submitted", f"imported: {status or 'no exit status'}", None, answer))


class _Reading:
    """Turns messages into nodes one by one."""

    def __init__(self, log: JournalWriter, model: str) -> None:
        self._log, self._model = log, model
        self._ids: list[MessageId] = []
        self._last: RecordUid | None = None
        self._stored = 0
        self._calls: dict[str, ToolCall] = {}
        self.now = log.tree.started.started_ns if log.tree.started else 0

    def take(self, message: dict[str, Json]) -> None:
        extra = _object(message.get("extra"))
        self._clock(extra)
        bare = {key: value for key, value in message.items() if key != "extra"}
        if message.get("role") == "assistant" or message.get("object") == "response":
            self._answer(bare, extra)
        elif message.get("role") == "tool" or message.get("type") == "function_call_output":
            self._result(bare, extra)
        elif message.get("role") != "exit":
            self._ids.append(self._log.put(bare))

    def _clock(self, extra: dict[str, Json]) -> None:
        at = extra.get("timestamp")
        if isinstance(at, int | float) and 0 < at < 1 << 33:
            self.now = max(self.now, int(at * _NS))

    def _uid(self) -> RecordUid:
        return record_uid(len(self._log.tree.nodes) + 1)

    def _began(self, uid: RecordUid, llm: LlmInput | None = None, tool: ToolInput | None = None) -> None:
        content = canonical(
            list(self._ids) if llm else {"name": tool and tool.name, "arguments": tool and tool.arguments}
        )
        self._log.append(
            NodeBegan(
                uid,
                "llm" if llm else "tool",
                self._log.tree.head,
                FIRST_BRANCH,
                MAIN_THREAD,
                digest_bytes(content),
                None,
                self.now,
                llm,
                tool,
                raw_length=len(self._ids),
            )
        )

    def _answer(self, message: dict[str, Json], extra: dict[str, Json]) -> None:
        uid = self._uid()
        messages = MessageList(self._last, self._stored if self._last else 0, tuple(self._ids[self._stored :]))
        if self._last is None:
            messages = MessageList(None, 0, tuple(self._ids))
        is_items = message.get("object") == "response"
        dialect = "openai_responses" if is_items else "openai_chat"
        self._began(uid, llm=LlmInput(self._model, messages, dialect=dialect))
        self._last, self._stored = uid, len(self._ids)
        choice = {"index": 0, "message": message, "finish_reason": _finish(extra.get("response"))}
        whole = message if is_items else {**_object(extra.get("response")), "choices": [choice]}
        self._log.append(self._ended(uid, whole, message, extra))
        items = _list(message.get("output")) if is_items else [message]
        self._ids += [self._log.put(item) for item in items]
        self._calls |= {call.id: call for call in _calls_in(message)}

    def _ended(self, uid: RecordUid, whole: Json, message: dict[str, Json], extra: dict[str, Json]) -> NodeEnded:
        usage = _usage(whole)
        cost = extra.get("cost")
        priced = ""
        if isinstance(cost, int | float) and cost > 0:
            usage, priced = replace(usage, usd=float(cost)), "the imported trajectory"
        line = first_line(str(message.get("content") or ""))
        calls = tuple(map(short, _calls_in(message)))
        return NodeEnded(uid, self._log.put(whole), usage=usage, digest=line, calls=calls, priced=priced)

    def _result(self, message: dict[str, Json], extra: dict[str, Json]) -> None:
        call_id = str(message.get("tool_call_id", message.get("call_id")))
        call = self._calls.get(call_id, ToolCall(call_id, "bash", None))
        uid = self._uid()
        self._began(uid, tool=ToolInput(call.name, call.arguments, call_id))
        output = {
            "output": extra.get("raw_output", message.get("content", message.get("output"))),
            "returncode": extra.get("returncode"),
        }
        error = extra.get("exception_info")
        failure = Failure("Error", error, "tool") if isinstance(error, str) and error else None
        shown = first_line(str(output["output"]))
        self._log.append(NodeEnded(uid, self._log.put(output), failure, digest=shown))
        self._ids.append(self._log.put(message))


def _calls_in(message: dict[str, Json]) -> Iterator[ToolCall]:
    """The calls of an answer."""
    for call in _list(message.get("tool_calls")):
        function = _object(_object(call).get("function"))
        yield _call(_object(call).get("id"), function)
    for item in _list(message.get("output")) if message.get("object") == "response" else ():
        if _object(item).get("type") == "function_call":
            yield _call(item.get("call_id"), item)


def _call(call_id: Json, asked: dict[str, Json]) -> ToolCall:
    """`arguments` is the text itself where that doesn't parse: somebody else's record is kept as it is."""
    given = asked.get("arguments")
    raw = given if isinstance(given, str) else json.dumps(given)
    return ToolCall(str(call_id), str(asked.get("name")), _parsed(given), raw)


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _finish(response: Json) -> str | None:
    choices = _list(_object(response).get("choices"))
    found = _object(choices[0]).get("finish_reason") if choices else None
    return found if isinstance(found, str) else None


def _object(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _parsed(arguments: Json) -> Json:
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments


def _usage(response: Json) -> Usage:
    counts = _object(_object(response).get("usage"))
    is_of_responses = "input_tokens" in counts and "prompt_tokens" not in counts
    return openai_responses.usage_of(counts) if is_of_responses else openai_chat.usage_of(counts)
