"""The checks of sqlite-column-retire."""

import json
import sqlite3
from contextlib import closing

from checking import App, field, line_of, need, same, sha256

UNSEEN = (
    (1, None, "2001-01-01"),
    (2, "zz9 ", "2005-05-05"),
    (3, "AB1", "2003-03-03"),
    (4, "ZZ9", "2004-04-04"),
    (5, " ab1", "2002-02-02"),
    (6, "q7", "2006-06-06"),
    (7, "Zz9", "2007-07-07"),
)


def p1_the_tool_treats_codes_as_agreed(app: App) -> None:
    with app.scratch("tools") as copy:
        with closing(sqlite3.connect(copy.root / "shop.db")) as database:
            database.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, legacy_code TEXT, since TEXT, name TEXT)")
            database.executemany("INSERT INTO customers VALUES (?, ?, ?, 'x')", UNSEEN)
            database.commit()
        done = copy.python("tools/build_map.py")
        need(done.code == 0, f"the tool breaks off: {done.err[-400:]}")
        same(copy.text("map/codes.csv"), "code,customer_id\nAB1,5\nQ7,6\nZZ9,4\n", "its map of other customers")
        same(copy.text("map/conflicts.csv"), "code,customer_id\nZZ9,2\nAB1,3\nZZ9,7\n", "its conflicts")


def p2_the_map_is_complete(app: App) -> None:
    same(app.digest("map/codes.csv"), app.expected["codes_sha256"], "the digest of map/codes.csv")
    same(app.digest("map/conflicts.csv"), app.expected["conflicts_sha256"], "the digest of map/conflicts.csv")


def p3_the_delivery_is_converted(app: App) -> None:
    same(app.digest("feed/by_customer.csv"), app.expected["feed_sha256"], "the digest of feed/by_customer.csv")
    same(app.digest("feed/unmatched.csv"), app.expected["unmatched_sha256"], "the digest of feed/unmatched.csv")


def p4_customers_and_orders_are_as_they_were(app: App) -> None:
    queries = {
        "customers_rows": "SELECT id, name, since FROM customers ORDER BY id",
        "orders_rows": "SELECT id, customer_id, cents FROM orders ORDER BY id",
    }
    with app.database("shop.db") as database:
        for name, query in queries.items():
            rows = [list(row) for row in database.execute(query)]
            same(sha256(json.dumps(rows, default=str).encode()), app.expected[name], f"the digest of {name}")


def p5_the_column_is_retired(app: App) -> None:
    with app.database("shop.db") as database:
        columns = [row["name"] for row in database.execute("PRAGMA table_info(customers)")]
        same(columns, ["id", "name", "since"], "the columns of customers")
        indexes = [row["name"] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'index'")]
        same(indexes, [], "the indexes")
        for pragma, wanted in (("user_version", 5), ("freelist_count", 0), ("integrity_check", "ok")):
            same(database.execute(f"PRAGMA {pragma}").fetchone()[0], wanted, pragma)


def p6_the_schema_is_described(app: App) -> None:
    wanted = [f"- {name}" for name in ("id INTEGER", "name TEXT", "since TEXT")]
    text = app.text("docs/schema.md")
    _, mark, customers = text.partition(f"## customers, {app.expected['customers']} rows\n")
    need(mark and text.startswith("# Schema, version 5\n"), "the head of docs/schema.md isn't that of version 5")
    same(customers.partition("##")[0].split("\n")[1:4], wanted, "what docs/schema.md says of customers")
    need("legacy_code" not in text, "docs/schema.md still has the column")


def p7_the_ledger_agrees(app: App) -> None:
    ledger = app.json("ledger.json")
    for name, count in app.expected["counts"].items():
        same(field(ledger, name, int), count, name)
    files = {"codes_sha256": "map/codes.csv", "feed_sha256": "feed/by_customer.csv", "schema_sha256": "docs/schema.md"}
    for name, path in files.items():
        same(field(ledger, name, str), app.digest(path), name)
    same(field(ledger, "user_version", int), 5, "user_version")


def p8_it_is_signed_off(app: App) -> None:
    text = app.text("signoff.txt")
    same(line_of(text, "ledger"), app.digest("ledger.json"), "the digest of the ledger in the sign-off")
    same(line_of(text, "customers"), str(app.expected["customers"]), "the number of customers")
