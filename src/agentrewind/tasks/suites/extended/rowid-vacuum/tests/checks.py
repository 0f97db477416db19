"""The checks of rowid-vacuum."""

import json
import sqlite3
from contextlib import closing

from checking import App, field, line_of, need, same, sha256

UNSEEN = [
    (555120, "2020-01-01T00:01", "badge"),
    (555127, "2020-01-01T00:02", "denied"),
    (999998, "2020-01-02T00:03", "escort"),
    (1000007, "2020-01-03T00:04", "badge"),
    (1000196, "2020-01-04T00:05", "override"),
    (1000204, "2020-01-05T00:06", "denied"),
    (1000290, "2020-01-06T00:07", "badge"),
]
NOTES = {
    "A": ("Twice #555127, and then #1000196-204.\nAlso #555127", [555127, 1000196, 1000204]),
    "B": ("From #1000003-1204 on; not before #999998.", [999998, 1000007, 1000196, 1000204, 1000290]),
    "C": ("#555119-21 and #1000202-9", [555120, 1000204]),
}
COLUMNS = "at, kind, person, place, keep_until"


def p1_citations_are_read(app: App) -> None:
    with app.scratch("tools") as copy:
        with closing(sqlite3.connect(copy.root / "events.db")) as database:
            database.execute("CREATE TABLE events (at TEXT, kind TEXT)")
            database.executemany("INSERT INTO events (rowid, at, kind) VALUES (?, ?, ?)", UNSEEN)
            database.commit()
        (copy.root / "cases").mkdir()
        for case, (text, numbers) in NOTES.items():
            (copy.root / f"cases/{case}.md").write_text(f"# {case}\n\nEvents: {len(numbers)}\n\n{text}\n")
        done = copy.python("tools/citations.py")
        need(done.code == 0, f"the reader breaks off: {done.err[-400:]}")
        rows = {number: f"{number},{at},{kind}\n" for number, at, kind in UNSEEN}
        wanted = [f"{case},{rows[number]}" for case, (_, numbers) in NOTES.items() for number in numbers]
        same(copy.text("refs/index.csv"), "".join(["case,event,at,kind\n", *wanted]), "its index of other notes")


def p2_every_event_has_its_number(app: App) -> None:
    with app.database("events.db") as database:
        columns = {
            row["name"]: (row["type"].upper(), row["pk"]) for row in database.execute("PRAGMA table_info(events)")
        }
        same(columns.get("id"), ("INTEGER", 1), "the column id")
        rows = [tuple(row) for row in database.execute("SELECT at, id FROM events")]
    need(rows, "there are no events")
    for at, number in rows:
        same(number, app.expected["numbers"].get(at), f"the number of the event of {at}")


def p3_the_index_is_complete(app: App) -> None:
    same(app.digest("refs/index.csv"), app.expected["index_sha256"], "the digest of the index")


def p4_the_right_events_are_left(app: App) -> None:
    with app.database("events.db") as database:
        rows = [list(row) for row in database.execute(f"SELECT id, {COLUMNS} FROM events ORDER BY id")]
    same(sha256(json.dumps(rows, default=str).encode()), app.expected["rows_sha256"], "the digest of the events")


def p5_the_file_is_compact(app: App) -> None:
    with app.database("events.db") as database:
        for pragma, wanted in (("freelist_count", 0), ("integrity_check", "ok"), ("user_version", 7)):
            same(database.execute(f"PRAGMA {pragma}").fetchone()[0], wanted, pragma)
        names = [row["name"] for row in database.execute("SELECT name FROM sqlite_master ORDER BY name")]
        same(names, ["events"], "what is in the database")


def p6_the_ledger_agrees(app: App) -> None:
    ledger = app.json("ledger.json")
    for name, count in app.expected["ledger"].items():
        same(field(ledger, name, int), count, name)
    same(field(ledger, "index_sha256", str), app.digest("refs/index.csv"), "index_sha256")


def p7_the_manifest_agrees(app: App) -> None:
    text = app.text("manifest.txt")
    for name, path in (("ledger", "ledger.json"), ("events.db", "events.db")):
        same(line_of(text, name), app.digest(path), f"the line {name}")
