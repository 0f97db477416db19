"""The checks of wal-handoff."""

import json
import shutil
import sqlite3
from contextlib import closing

from checking import App, field, line_of, same, sha256

UNSEEN = [
    ("b1", "2020-01-02", "Ann", "19.99"),
    ("a2", "2020-01-02", "Bob", "0.29"),
    ("c3", "2020-01-03", "Ann", "5.00"),
]


def p1_the_tool_reads_what_was_committed(app: App) -> None:
    with app.scratch("tools") as copy:
        live, left = copy.root / "live.db", copy.root / "left.db"
        with closing(sqlite3.connect(live)) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("CREATE TABLE orders (ref TEXT PRIMARY KEY, day TEXT, customer TEXT, amount TEXT)")
            database.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", UNSEEN)
            database.commit()
            for end in ("", "-wal"):
                shutil.copy(f"{live}{end}", f"{left}{end}")
        done = copy.python("tools/read_orders.py", "2020-01-02", "left.db")
        same(done.out, "ref,customer,cents\na2,Bob,29\nb1,Ann,1999\n", f"what the tool prints ({done.err[-300:]})")


def p2_the_last_day_is_exported(app: App) -> None:
    same(app.digest("export/orders.csv"), app.expected["export_sha256"], "the digest of the export")


def p3_the_totals_are_right(app: App) -> None:
    same(app.json("export/totals.json"), app.expected["totals"], "the totals")


def p4_the_database_is_one_sound_file(app: App) -> None:
    with app.scratch("orders.db") as copy, copy.database("orders.db") as database:
        rows = [list(row) for row in database.execute("SELECT ref, day, customer, amount FROM orders ORDER BY ref")]
        same(
            sha256(json.dumps(rows, default=str).encode()),
            app.expected["rows_sha256"],
            f"the digest of {len(rows)} orders",
        )
        for pragma, wanted in (("journal_mode", "delete"), ("integrity_check", "ok")):
            same(database.execute(f"PRAGMA {pragma}").fetchone()[0], wanted, pragma)


def p5_nothing_lies_about(app: App) -> None:
    patterns = ("core.*", "*.tmp", "*.db-*")
    same([name for pattern in patterns for name in app.names(".", pattern)], [], "what the crash left")


def p6_it_is_reconciled_with_the_bank(app: App) -> None:
    found, wanted = app.json("reconciliation.json"), app.expected["reconciliation"]
    same(field(found, "matched", int), wanted["matched"], "matched")
    for name in ("differing", "unpaid", "unknown"):
        same(field(found, name, list), wanted[name], name)
    same(field(found, "export_sha256", str), app.digest("export/orders.csv"), "export_sha256")


def p7_the_packet_agrees(app: App) -> None:
    text, wanted = app.text("packet/handoff.md"), app.expected["reconciliation"]
    count = len(app.rows("export/orders.csv", ("ref", "customer", "cents")))
    same(line_of(text, "Orders"), str(count), "the number of orders")
    same(line_of(text, "Totals"), app.digest("export/totals.json"), "the digest of the totals")
    same(line_of(text, "Reconciliation"), app.digest("reconciliation.json"), "the digest of the reconciliation")
    same(
        line_of(text, "Open"),
        str(sum(len(wanted[name]) for name in ("differing", "unpaid", "unknown"))),
        "the open ones",
    )
