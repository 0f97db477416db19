"""The checks of eventlog-compaction."""

import json
from typing import Any

from checking import App, field, line_of, need, objects, same, sha256

UNSEEN = [
    {"seq": 3, "date": "2020-01-01", "ref": "a", "type": "snapshot", "account": "x", "cents": 1000},
    {"seq": 4, "date": "2020-01-02", "ref": "b", "type": "transfer", "from": "x", "to": "y", "cents": 300},
    {"seq": 5, "date": "2020-01-03", "ref": "c", "type": "withdraw", "account": "y", "cents": 50},
    {"seq": 6, "date": "2020-01-03", "ref": "d", "type": "reverse", "of": 4},
    {"seq": 7, "date": "2020-01-04", "ref": "e", "type": "reverse", "of": 5},
    {"seq": 8, "date": "2020-01-04", "ref": "f", "type": "deposit", "account": "z", "cents": 7},
]
APRIL = "2026-04-01"


def p1_the_replay_follows_the_description(app: App) -> None:
    with app.scratch("books", "tools") as copy:
        (copy.root / "store").mkdir()
        (copy.root / "store/events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in UNSEEN))
        same(printed(copy, "2020-01-02"), {"x": 700, "y": 300}, "the balances of a day")
        same(printed(copy, "2020-01-03"), {"x": 1000, "y": -50}, "the balances of a day with a reversal")
        same(printed(copy), {"x": 1000, "y": 0, "z": 7}, "the balances after all events")
    app.tests_pass("tests")


def printed(app: App, *day: str) -> Any:
    done = app.python("tools/balances.py", *day)
    try:
        return json.loads(done.out)
    except ValueError:
        return f"{done.out} {done.err[-400:]}"


def p2_the_history_is_complete(app: App) -> None:
    rows = app.rows("audit/history.csv", ("seq", "date", "ref", "account", "delta", "balance"))
    same(len(rows), app.expected["entries"], "the number of entries")
    same(app.digest("audit/history.csv"), app.expected["history_sha256"], "the digest of the history")


def p3_the_balances_are_right(app: App) -> None:
    same(app.json("audit/balances.json"), app.expected["balances"], "the balances")


def events(app: App) -> list[dict[str, Any]]:
    try:
        found = [json.loads(line) for line in app.text("store/events.jsonl").splitlines()]
    except (ValueError, RecursionError):
        found = None
    return objects(found, "the store")


def p4_the_store_is_compacted(app: App) -> None:
    found = events(app)
    snapshots = [item.get("account") for item in found if item.get("type") == "snapshot"]
    same(snapshots, list(app.expected["balances"]["2026-03-31"]), "the accounts with a snapshot")
    need(all(item.get("date") == APRIL for item in found[: len(snapshots)]), "a snapshot of another day")
    lines = app.text("store/events.jsonl").splitlines(keepends=True)[len(snapshots) :]
    same(sha256("".join(lines).encode()), app.expected["later_sha256"], "the digest of the events since April")


def p5_the_books_come_out(app: App) -> None:
    same(printed(app), app.expected["final"], "the balances now")


def p6_the_audit_agrees(app: App) -> None:
    audit = app.json("audit/audit.json")
    same(field(audit, "history_sha256", str), app.digest("audit/history.csv"), "history_sha256")
    same(field(audit, "balances_sha256", str), app.digest("audit/balances.json"), "balances_sha256")
    same(field(audit, "entries", int), app.expected["entries"], "entries")
    same(field(audit, "events", int), app.expected["events"], "events")
    same(field(audit, "total", int), sum(app.expected["final"].values()), "total")


def p7_it_is_attested(app: App) -> None:
    text = app.text("attestation.txt")
    same(line_of(text, "audit"), app.digest("audit/audit.json"), "the digest of the audit")
    same(line_of(text, "store"), app.digest("store/events.jsonl"), "the digest of the store")
