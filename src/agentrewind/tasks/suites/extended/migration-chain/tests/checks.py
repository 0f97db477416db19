"""The checks of migration-chain."""

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

from checking import App, Unsatisfied, field, line_of, need, objects, same, sha256

FILES = ("0004_texts.sql", "0005_urgency.sql", "0006_mails.sql")
TABLES = {
    "audit": ["id", "ticket_id", "what"],
    "customers": ["id", "name", "mail"],
    "ticket_texts": ["ticket_id", "body"],
    "tickets": ["id", "customer_id", "opened", "summary", "urgency"],
}
UNSEEN = {
    "0001_one.sql": (
        [
            "CREATE TABLE a (x TEXT DEFAULT 'p;\nq');",
            "CREATE TRIGGER t AFTER DELETE ON a BEGIN\nINSERT INTO a VALUES (1);\nINSERT INTO a VALUES (2);\nEND;",
        ],
        "-- DOWN  ",
        ["DROP TABLE a;"],
    ),
    "0002_two.sql": (
        ["INSERT INTO a (x) VALUES ('a;b');", "INSERT INTO a (x) VALUES ('c');"],
        "-- down",
        ["DELETE FROM a WHERE x = ';';", "DROP TRIGGER t;"],
    ),
    "0003_three.sql": (["CREATE VIEW v AS SELECT x FROM a;"], "-- Down", ["DROP VIEW v;"]),
}
TEXTS = {1: "x" * 200, 2: "é; " * 67, 3: "short", 4: "line\n" * 90, 5: "y" * 201}


def p1_the_runner_does_what_is_agreed(app: App) -> None:
    with app.scratch("tools") as copy:
        (copy.root / "migrations").mkdir()
        for name, (up, mark, down) in UNSEEN.items():
            text = "\n".join(["-- a comment; and more", *up, mark, "-- another", *down, ""])
            (copy.root / "migrations" / name).write_text(text, encoding="utf-8")
        steps = [{"version": number, "file": name} for number, name in enumerate(UNSEEN, 1)]
        same(planned(copy), {"from": 0, "to": 3, "steps": steps}, "its plan of other migrations")
        done = copy.python("tools/migrate.py", "up", "--to", "2")
        need(done.code == 0, f"running other migrations: {done.err[-400:]}")
        with copy.database("app.db") as database:
            found = [row[0] for row in database.execute("SELECT x FROM a ORDER BY x")]
            same(found, ["a;b", "c"], "the rows after them")
        back = [{**step, "run": UNSEEN[str(step["file"])][2]} for step in (steps[1], steps[0])]
        wanted = plain({"from": 2, "to": 0, "steps": back})
        same(plain(planned(copy, "--to", "0")), wanted, "its plan for going down")


def planned(app: App, *words: str) -> object:
    done = app.python("tools/migrate.py", "plan", *words)
    need(done.code == 0, f"there is no plan: {done.err[-400:]}")
    try:
        found: object = json.loads(done.out)
    except ValueError as error:
        raise Unsatisfied(f"the plan is no JSON: {error}") from error
    return found


def p2_the_plan_is_that_of_the_release(app: App) -> None:
    steps = [{"version": number, "file": name} for number, name in enumerate(FILES, 4)]
    same(app.json("release/plan.json"), {"from": 3, "to": 6, "steps": steps}, "the plan")


@contextmanager
def elsewhere(app: App, version: int) -> Iterator[sqlite3.Connection]:
    """A database that others bring from version 3 to this one."""
    with app.scratch("tools", "migrations") as copy:
        first = copy.python("tools/migrate.py", "up", "--to", "3")
        need(first.code == 0, f"version 3 elsewhere: {first.err[-400:]}")
        try:
            with closing(sqlite3.connect(copy.root / "app.db")) as database:
                database.execute("INSERT INTO customers VALUES (7, 'Zoe', 'Z@z.example'), (8, 'Al', 'a@z.example')")
                rows = [(key, 7, "2020-01-01", text, "high") for key, text in TEXTS.items()]
                database.executemany("INSERT INTO tickets VALUES (?, ?, ?, ?, ?)", rows)
                database.commit()
        except sqlite3.Error as error:
            raise Unsatisfied(f"version 3 elsewhere: {error}") from error
        then = copy.python("tools/migrate.py", "up", "--to", str(version))
        need(then.code == 0, f"version {version} elsewhere: {then.err[-400:]}")
        with copy.database("app.db") as database:
            yield database


def texts(database: sqlite3.Connection) -> list[list[object]]:
    return [list(row) for row in database.execute("SELECT ticket_id, body FROM ticket_texts ORDER BY ticket_id")]


def p3_long_texts_are_whole(app: App) -> None:
    with elsewhere(app, 4) as database:
        same(texts(database), [[key, text] for key, text in TEXTS.items() if len(text) > 200], "long texts elsewhere")
        found = {row[0]: row[1] for row in database.execute("SELECT id, summary FROM tickets")}
        same(found, {key: text[:200] for key, text in TEXTS.items()}, "the summaries elsewhere")
    with app.database("app.db") as database:
        found = sha256(json.dumps(texts(database), default=str).encode())
        same(found, app.expected["texts"], "the digest of the long texts")


def p4_the_database_is_at_version_6(app: App) -> None:
    for name, digest in app.expected["migrations"].items():
        same(app.digest(f"migrations/{name}"), digest, name)
    with app.database("app.db") as database:
        for pragma, wanted in (("user_version", 6), ("integrity_check", "ok")):
            same(database.execute(f"PRAGMA {pragma}").fetchone()[0], wanted, pragma)
        for table, columns in TABLES.items():
            found = [row["name"] for row in database.execute(f"PRAGMA table_info({table})")]
            same(found, columns, f"the columns of {table}")
        for table, digest in app.expected["rows"].items():
            same(summed(database, table)["sha256"], digest, f"the digest of {table}")


def summed(database: sqlite3.Connection, table: str) -> dict[str, object]:
    rows = [list(row) for row in database.execute(f"SELECT * FROM {table} ORDER BY 1")]
    return {"rows": len(rows), "sha256": sha256(json.dumps(rows, default=str).encode())}


def p5_indexes_trigger_and_constraints_work(app: App) -> None:
    with app.database("app.db") as database:
        constrained(database)
    with elsewhere(app, 6) as database:
        constrained(database)


def constrained(database: sqlite3.Connection) -> None:
    query = "SELECT name, tbl_name FROM sqlite_master WHERE type IN ('index', 'trigger') AND sql NOT NULL ORDER BY name"
    wanted = [
        ["customers_by_mail", "customers"],
        ["tickets_by_customer", "tickets"],
        ["tickets_moved", "tickets"],
    ]
    same([list(row) for row in database.execute(query)], wanted, "indexes and triggers")
    columns = [row["name"] for row in database.execute("PRAGMA index_info(tickets_by_customer)")]
    same(columns, ["customer_id"], "the columns of tickets_by_customer")
    before = database.execute("SELECT count(*) FROM audit").fetchone()[0]
    database.execute("UPDATE tickets SET customer_id = 8 WHERE id = 1")
    same(database.execute("SELECT count(*) FROM audit").fetchone()[0], before + 1, "rows of audit after a move")
    for statement in (
        "UPDATE tickets SET urgency = 4 WHERE id = 2",
        "INSERT INTO customers SELECT 900, name, mail FROM customers WHERE id = 7",
    ):
        try:
            database.execute(statement)
        except sqlite3.IntegrityError:
            continue
        raise Unsatisfied(f"it takes {statement}")
    same(database.execute("PRAGMA foreign_key_check").fetchall(), [], "references that lead nowhere")


def p6_the_sums_are_right(app: App) -> None:
    with app.database("app.db") as database:
        wanted = {"version": 6, "tables": {table: summed(database, table) for table in TABLES}}
    same(app.json("release/rows.json"), wanted, "the sums")


def p7_the_way_down_is_planned(app: App) -> None:
    steps = []
    for number, name in reversed(list(enumerate(FILES, 4))):
        down = re.split(r"(?im)^-- down[ \t]*$", app.text(f"migrations/{name}"), maxsplit=1)
        need(len(down) == 2, f"{name} has no part for going down")
        steps.append({"version": number, "file": name, "run": statements(down[1])})
    wanted = plain({"from": 6, "to": 3, "steps": steps})
    same(plain(app.json("release/down.json")), wanted, "the plan for going down")


def statements(text: str) -> list[str]:
    text = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
    found, begun = [], ""
    for part in text.split(";")[:-1]:
        begun += part + ";"
        if sqlite3.complete_statement(begun):
            found.append(begun)
            begun = ""
    return found


def plain(plan: object) -> object:
    """A plan without what doesn't matter in its statements: how lines are broken, and the last semicolon."""
    for step in objects(field(plan, "steps", list), "steps"):
        if "run" in step:
            need(isinstance(step["run"], list), "the statements of a step are no list")
            step["run"] = [" ".join(str(statement).split()).rstrip("; ") for statement in step["run"]]
    return plan


def p8_the_notes_quote_the_rest(app: App) -> None:
    text = app.text("release/NOTES.md")
    for key, name in (("Plan", "plan"), ("Rows", "rows"), ("Down", "down")):
        same(line_of(text, key), app.digest(f"release/{name}.json"), f"the digest of the {name} in the notes")
    said = [line for line in text.splitlines() if line.strip() and not re.match(r"#|\W*(Plan|Rows|Down)\W*:", line)]
    need(said, "the notes don't say what changed")
