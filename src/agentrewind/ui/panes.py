"""Rows and steps of a run as text for a terminal: what `ui.overview` and `ui.detail` say, in colours and words."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.text import Text

from agentrewind.core.codec import Json
from agentrewind.ui.text import one_line, path_name, plural, printable, printable_block, short_id

_LINES = 3000
"""Lines of a pane that are shown."""
_PATHS = 12
_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan", "\\": "dim"}
_WORDS = {"A": "added", "M": "changed", "D": "deleted", "T": "type changed", "P": "attributes changed"}
NO_STATE = "There is no snapshot before this step: it failed when it was taken, so it can't be gone back to."


def words_of(row: Json) -> str:
    parts = [row.get("uid", ""), row.get("note", ""), *row.get("calls", ()), row.get("said", ""), row.get("result", "")]
    return " ".join([*parts, *(path for _, path in row.get("files", ()))]).lower()


def did(row: Json) -> Text:
    margin = "│  " * min(row["d"], 8)
    if row["k"] == "left":
        what = "undo:" if row["kind"] != "rewind" else "back to before"
        return Text.assemble((margin, "dim"), (f"↩ {what} {row['to']}", "yellow"), f": {one_line(row['note'])}")
    mark = "○" if row["d"] else "●"
    text = Text.assemble(
        (margin, "dim"), (f"{mark} ", "dim" if row["d"] else "bold"), no_wrap=True, overflow="ellipsis"
    )
    if row["error"]:
        return text.append(one_line(row["error"]), "red")
    if row["held"] or row["standing"]:
        text.append("held back: " if row["held"] else f"{row['standing']}: ", "yellow" if row["held"] else "red")
    said = ", ".join(map(one_line, row["calls"])) or one_line(row["said"]) or ("…" if row["open"] else "(no text)")
    text.append(said, "dim" if row["d"] else "" if row["calls"] else "italic")
    return text.append(f" → {one_line(row['result'])}" if row["result"] and row["calls"] else "", "dim")


def files(row: Json) -> Text:
    if not row.get("changed"):
        return Text("")
    status, path = row["files"][0] if row["files"] else ("M", "")
    more = f" +{row['changed'] - 1:,}" if row["changed"] > 1 else ""
    return Text(f"{status} {path_name(path.rpartition('/')[2])}{more}", "cyan", no_wrap=True, overflow="ellipsis")


def verdict(row: Json) -> Text:
    verdict = row.get("verdict")
    if not verdict:
        return Text("")
    score = "" if verdict["satisfied"] is None else f" {verdict['satisfied']}/{verdict['total']}"
    return Text(f"{'✓' if verdict['accepted'] else '✗'}{score}", "green" if verdict["accepted"] else "red")


def _title(text: str) -> Text:
    return Text(f"\n{printable(text)}", "bold")


def _block(shown: Json) -> Iterable[Text]:
    lines = printable_block(shown["text"]).split("\n")
    yield from (Text(line) for line in lines)
    if shown["more"]:
        yield Text(f"({shown['more']:,} more characters)", "dim")


def cut(lines: Iterable[Text]) -> list[Text]:
    found: list[Text] = []
    for line in lines:
        if len(found) == _LINES:
            return [*found, Text("… the rest isn't shown; `agentrewind show` and `diff` print all of it", "dim")]
        found.append(line)
    return found


def of_step(row: Json, detail: Json) -> RenderableType:
    lines: list[Text] = [Text.assemble((row["uid"], "bold"), "  abandoned" if row["d"] else "")]
    for node in detail["nodes"]:
        lines += _of_call(node) if node["kind"] == "llm" else _of_tool(node)
        lines += [Text(f"{effect['kind']}: {one_line(effect['what'])}", "yellow") for effect in node["effects"]]
        if node["verdict"]:
            lines += [_title("verdict"), *_block({"text": node["verdict"]["feedback"] or "accepted", "more": 0})]
    return Group(*cut(lines))


def _of_call(node: Json) -> Iterable[Text]:
    if node["known"]:
        yield Text(f"({plural(node['known'], 'message')} as in the call before)", "dim")
    for message in node["messages"]:
        yield _title(message["role"])
        yield from _block(message["text"])
    if node["error"]:
        yield Text(f"{printable(node['error']['type'])}: {one_line(node['error']['message'])}", "red")
    if node["answer"]["text"]:
        yield _title("answer")
        yield from _block(node["answer"])
    for call in node["asked"]:
        yield _title(f"calls {call['name']}")
        yield from _block(call["arguments"])
    if node["note"]:
        yield Text(f"({one_line(node['note'])})", "yellow")


def _of_tool(node: Json) -> Iterable[Text]:
    yield _title(f"{(node['tool'] or {}).get('name', 'tool')} ({node['uid']})")
    if node["error"]:
        yield Text(f"{printable(node['error']['type'])}: {one_line(node['error']['message'])}", "red")
    else:
        yield from _block(node["result"])


def of_rewind(row: Json) -> RenderableType:
    facts = (
        ("went back to", f"before {row['to']}"),
        ("asked for by", row["by"]),
        ("files brought back", plural(row["restored"], "path")),
        ("context", row["context"]),
    )
    lines = [Text.assemble((f"{name}: ", "dim"), printable(str(value))) for name, value in facts]
    lines += [_title("note"), *_block({"text": row["note"], "more": 0})]
    lines += [
        Text(f"left as it was: {path_name(gap['path'])}: {one_line(gap['why'])}", "yellow") for gap in row["kept"]
    ]
    return Group(*cut(lines))


def _gap(word: str, gap: Json) -> Text:
    return Text(f"{word}: {path_name(gap['path'])}: {one_line(gap['why'])}", "yellow")


def of_memory(detail: Json, view: Json) -> RenderableType:
    lines = [Text("in the context of this call", "bold")]
    lines += [line for note in detail["memory"] for line in (_title(f"to {note['target']}"), *_block(note["text"]))]
    lines += [Text("\nall notes of the run", "bold")]
    for note in view["notes"]:
        lines += [_title(f"to {note['target']}"), *_block({"text": note["text"], "more": 0})]
    return Group(*cut(lines))


def of_state(state: Json) -> RenderableType:
    held = f"{plural(state['entries'], 'path')}, {plural(state['bytes'], 'byte')}"
    lines = [
        Text(f"snapshot {short_id(state['snapshot'])}: {held}"),
        Text("complete" if state["complete"] else "incomplete", "green" if state["complete"] else "red"),
    ]
    for name in ("excluded", "unreadable", "too_large", "unstable", "lossy"):
        lines += [_gap(name, gap) for gap in state[name]]
    return Group(*cut(lines))


def diff_lines(files: Iterable[Json]) -> Iterable[Text]:
    for item in files:
        notes = ", ".join(
            [*(["not compared line by line: " + item["what"]] if item["what"] != "text" else []), *item["notes"]]
        )
        yield Text(
            f"{_WORDS.get(item['status'], item['status'])}: {path_name(item['path'])}  {printable(notes)}", "bold"
        )
        yield from (Text(printable(line.expandtabs(4)), _DIFF_STYLES.get(line[:1], "")) for line in item["diff"])


def plan_lines(plan: Json) -> Iterable[Text]:
    acts = plan["acts"]
    told = (
        f"{plural(len(acts), 'path')} would change; what is there now is saved first."
        if acts
        else "No file would change."
    )
    yield Text(told)
    yield from (Text(f"  {act['what']} {path_name(act['path'])}", "dim") for act in acts[:_PATHS])
    if len(acts) > _PATHS:
        yield Text(f"  and {len(acts) - _PATHS:,} more", "dim")
    for what in plan["undone"][:_PATHS]:
        yield Text(f"  would be taken back first: {one_line(what)}", "green")
    for what in plan["survives"][:_PATHS]:
        yield Text(f"  stays done: {one_line(what)}", "yellow")
    for process in plan["processes"][:_PATHS]:
        yield Text(f"  would be ended: {printable(process)}", "yellow")
    if plan["alive"]:
        yield Text("The agent is alive: it goes back at its next model call.", "cyan")
