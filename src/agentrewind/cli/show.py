"""`agentrewind show`: one step in full."""

from __future__ import annotations

import json
from typing import Any

import click
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from agentrewind.cli.effects import said
from agentrewind.cli.options import json_option, run_argument
from agentrewind.cli.screen import out, sentence
from agentrewind.compose.runs import Run, open_run
from agentrewind.core.codec import Json
from agentrewind.core.edits import Message
from agentrewind.core.records import NodeEnded
from agentrewind.core.tree import Node
from agentrewind.ui.facts import node_facts
from agentrewind.ui.text import (
    as_json,
    duration,
    local_time,
    one_line,
    path_name,
    plural,
    printable,
    printable_block,
    short_id,
)

INDENT = 2
ROLE_STYLES = {"system": "magenta", "user": "blue", "assistant": "green", "tool": "cyan"}


@click.command(epilog="Example: agentrewind show last rec_000003")
@run_argument
@click.argument("uid")
@click.option("--all", "every", is_flag=True, help="All messages, not only those that are new in this call.")
@json_option
def command(ref: str, uid: str, every: bool, as_object: bool) -> None:
    """Show one step: the messages that went in, what came out, the tool calls, what changed in the files, the cost."""
    run = open_run(ref)
    node = run.node(uid)
    if as_object:
        print(as_json(_facts(run, node)))
    else:
        _show(run, node, out(), every=every)


def _facts(run: Run, node: Node) -> Json:
    on_path = any(item.uid == node.uid for item in run.tree.ancestors(run.tree.head))
    facts = {**node_facts(node, on_path=on_path), "run": run.id, "output": run.output(node.uid)}
    if node.began.llm is not None:
        facts |= {
            "model": node.began.llm.model,
            "params": node.began.llm.params,
            "messages": run.messages(node.uid),
        }
    return facts


def _show(run: Run, node: Node, console: Console, *, every: bool) -> None:
    _head(node, console)
    if node.is_llm:
        _messages(run, node, console, every=every)
        _section(console, "answer")
        _answer(run, node, console)
        _note(node, console)
    else:
        assert node.began.tool is not None
        _section(console, "arguments")
        _block(console, _pretty(node.began.tool.arguments))
        _section(console, "result")
        _block(console, _pretty(run.output(node.uid)) if node.answered else _failure(node))
    _effects(node, console)
    _state(node, console)
    _then(run, node, console)


def _head(node: Node, console: Console) -> None:
    began, ended = node.began, node.ended
    what = f"model call to {began.llm.model}" if began.llm else f"tool call {began.tool.name if began.tool else ''}"
    console.print(Text.assemble((node.uid, "bold"), "  ", printable(what)))
    parts = [local_time(began.started_ns), f"branch {began.branch}", f"conversation {began.thread}"]
    if ended is not None:
        parts.append(duration(ended.latency_ms / 1000))
        if node.is_llm:
            parts += _usage(ended)
    console.print(Text(", ".join(parts), style="dim"))


def _usage(ended: NodeEnded) -> list[str]:
    """Its tokens and its price, or that they aren't known."""
    usage = ended.usage
    if ended.error is not None:
        return []
    if not usage.known:
        return ["tokens unknown"]
    cached = [f"{usage.cached:,} cached", *([f"{usage.cache_write:,} written"] if usage.cache_write else [])]
    thought = f" ({usage.reasoning:,} thought)" if usage.reasoning else ""
    tokens = f"{usage.input:,} tokens in ({', '.join(cached)}), {usage.output:,} out{thought}"
    price = f"${usage.usd:.6f}" if usage.usd is not None else "price unknown"
    return [tokens, f"{price} ({printable(ended.priced)})" if ended.priced else price]


def _messages(run: Run, node: Node, console: Console, *, every: bool) -> None:
    messages = run.messages(node.uid)
    known = 0 if every else _known(run, node)
    _section(console, f"messages ({plural(len(messages), 'message')}, {len(messages) - known} new)")
    if known:
        console.print(f"  (the first {known} are those of the call before; --all shows them)", style="dim")
    for message in messages[known:]:
        _message(message, console)


def _known(run: Run, node: Node) -> int:
    """How many of its messages the call before it on the path had sent already."""
    before = next((item for item in run.tree.ancestors(node.began.parent) if item.is_llm), None)
    if before is None:
        return 0
    pairs = zip(run.tree.messages(before.uid), run.tree.messages(node.uid), strict=False)
    count = 0
    for old, new in pairs:
        if old != new:
            break
        count += 1
    return count


def _message(message: Message, console: Console) -> None:
    role = str(message.get("role", "?"))
    console.print(Text(printable(role), style=f"bold {ROLE_STYLES.get(role, 'white')}"))
    text = _text(message.get("content"))
    if text:
        _block(console, text)
    for call in _calls(message):
        _block(console, call)


def _text(content: Json) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(
            str(part.get("text", as_json(part))) if isinstance(part, dict) else str(part) for part in content
        )
    return "" if content is None else as_json(content)


def _calls(message: Message) -> list[str]:
    calls = message.get("tool_calls")
    return [_call(call) for call in calls] if isinstance(calls, list) else []


def _call(call: Any) -> str:
    function = call.get("function", {}) if isinstance(call, dict) else {}
    return f"calls {function.get('name', '?')}: {_unfolded(function.get('arguments'))}"


def _unfolded(arguments: Json) -> str:
    """The arguments of a call as a person would write them: one plain text where there is just one."""
    try:
        parsed = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return str(arguments)
    if isinstance(parsed, dict) and len(parsed) == 1 and isinstance(value := next(iter(parsed.values())), str):
        return value
    return json.dumps(parsed, ensure_ascii=False)


def _answer(run: Run, node: Node, console: Console) -> None:
    output = run.output(node.uid) if node.answered else None
    choices = output.get("choices") if isinstance(output, dict) else None
    message = choices[0].get("message") if isinstance(choices, list) and choices else None
    if isinstance(message, dict):
        _message(message, console)
    else:
        _block(console, _pretty(output) if output is not None else _failure(node))


def _failure(node: Node) -> str:
    if node.ended is None:
        return "(it never ended: the run was cut off here)"
    error = node.ended.error
    return f"{error.type}: {error.message}" if error else "(nothing)"


def _pretty(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


def _effects(node: Node, console: Console) -> None:
    """What the call does that bringing the files back can't undo, and whether it was let run."""
    if not node.effects:
        return
    _section(console, "effects")
    for effect in node.effects:
        sentence(Text("  ").append_text(said(effect)), console)
    for gate in node.gated:
        told = f": {one_line(gate.told)}" if gate.told else ""
        sentence(Text(f"  {gate.outcome}{told}", style="yellow"), console)


def _state(node: Node, console: Console) -> None:
    _section(console, "files")
    before, after = node.began.snapshot, node.after
    console.print(f"  before: {f'snapshot {short_id(before)}' if before else 'no snapshot: it failed'}")
    if after is None:
        return
    if after.failed:
        console.print(Text(f"  after:  no snapshot: {one_line(after.failed)}", style="red"))
        return
    console.print(f"  after:  snapshot {short_id(after.snapshot)}, {plural(after.changes.total, 'path')} changed")
    for change in after.changes.items:
        console.print(f"    {change.status} {path_name(change.path)}", no_wrap=True, overflow="ellipsis")
    hidden = after.changes.total - len(after.changes.items)
    if hidden:
        console.print(f"    and {hidden:,} more")
    for gap in after.gaps:
        console.print(Text(f"    not saved as it was: {path_name(gap.path)}: {one_line(gap.why)}", style="yellow"))


def _note(node: Node, console: Console) -> None:
    """What became of the answer, where the agent didn't get all of it."""
    if node.ended is not None and node.ended.note:
        sentence(Text(f"  ({printable(one_line(node.ended.note))})", style="yellow"), console)


def _then(run: Run, node: Node, console: Console) -> None:
    """The verdict, and which records follow: how one finds the tool calls of a model call."""
    verdict = node.judged
    if verdict is not None:
        _section(console, "verdict")
        score = f", {verdict.satisfied} of {verdict.total}" if verdict.satisfied is not None else ""
        word = "accepted" if verdict.accepted else "not accepted"
        console.print(f"  {word}{score} (exit code {verdict.exit_code})")
        if verdict.feedback:
            _block(console, verdict.feedback)
    following = [item for item in run.tree.nodes.values() if item.began.parent == node.uid]
    if following:
        _section(console, "next")
        for item in following:
            what = item.began.tool.name if item.began.tool else "model call"
            console.print(f"  {item.uid}  {printable(what)}  (branch {item.began.branch})")


def _section(console: Console, title: str) -> None:
    console.print()
    console.print(Text(title, style="bold underline"))


def _block(console: Console, text: str) -> None:
    """Text of several lines, indented; whole lines where nobody looks at a screen."""
    safe = printable_block(text.rstrip("\n"))
    if console.is_terminal:
        console.print(Padding(Text(safe, overflow="fold"), (0, 0, 0, INDENT), expand=False))
        return
    for line in safe.split("\n"):
        console.print(Text(" " * INDENT + line), soft_wrap=True)
