"""The first state: a ticket database at version 3, six migrations with a lossy fourth, a runner with two defects."""

import sqlite3
from contextlib import closing

from laying import Site, Stream

CHANCE = Stream("migration-chain")
CUSTOMERS, TICKETS, LONG = 40, 160, 34
WORDS = ("printer", "invoice", "login", "order", "paper", "again", "since", "monday", "nobody", "answers", "the", "our")

RELEASE = """\
# Making a release

Digests are SHA-256 of a file's bytes, in lower-case hexadecimal digits. Everything of a release is in `release/`.

## Migrations
`migrations/000N_*.sql`, for versions from 1. A file has the statements that lead to its version, a line `-- down`, and
the statements that lead back; capitals in that line, and blanks at its end, don't matter. A statement ends as SQL has
it: a `;` in a text, or between `BEGIN` and `END` of a trigger, ends none. Lines that begin with `--` are comments.

## Runner
`python3 tools/migrate.py COMMAND [--to N]`; N is the newest version if it is not given. The version of the database is
its `user_version`.

- `plan` prints what would be done, as JSON: `from` and `to`, and `steps`, a list with `version` and `file` for each
  migration in the order in which they are run. Where N is below the version of the database, these are the migrations
  to be taken back, the newest first, and each has `run` too, the list of its statements. Nothing is changed.
- `up` runs migrations, one transaction each, and compacts the file in the end.

Every migration is read before anything is done, and the runner stops where one is not as described. There is no
command for going down: that is done by hand, by the plan.

## What belongs to a release
- `release/plan.json`: what `plan` prints before anything is run.
- `release/rows.json`: what `python3 tools/rowsums.py` prints about the database at the new version.
- `release/down.json`: what `plan --to` the old version prints then.
- `release/NOTES.md`: a few words about what changed, and three lines `Plan: `, `Rows: ` and `Down: ` with the digests
  of these files.
"""

SCHEMA = """\
# Schema of version 6

| table | columns |
| --- | --- |
| customers | `id`, `name`, `mail` |
| tickets | `id`, `customer_id`, `opened`, `summary`, `urgency` |
| ticket_texts | `ticket_id`, `body` |
| audit | `id`, `ticket_id`, `what` |

- A `summary` is the first 200 characters of what the customer wrote. Where that was longer than 200 characters, the
  whole of it, as it was written, is the `body` of the ticket in `ticket_texts`; other tickets have no row there.
- `urgency` is 1 for low, 2 for normal, 3 for high; other values are refused.
- Indexes: `tickets_by_customer` on `tickets (customer_id)`, `customers_by_mail` on `customers (mail)`, which refuses
  the same address twice.
- Trigger `tickets_moved`: when the customer of a ticket is changed there is a new row in `audit`.
"""

FILES = {
    "0001_begin.sql": """\
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, mail TEXT NOT NULL);
CREATE TABLE tickets (
    id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customers, opened TEXT NOT NULL, body TEXT NOT NULL
);
-- down
DROP TABLE tickets;
DROP TABLE customers;
""",
    "0002_audit.sql": """\
CREATE TABLE audit (id INTEGER PRIMARY KEY, ticket_id INTEGER NOT NULL, what TEXT NOT NULL);
CREATE INDEX tickets_by_customer ON tickets (customer_id);
CREATE TRIGGER tickets_moved AFTER UPDATE OF customer_id ON tickets BEGIN
    INSERT INTO audit (ticket_id, what) VALUES (old.id, 'moved; was of customer ' || old.customer_id);
END;
-- down
DROP TRIGGER tickets_moved;
DROP INDEX tickets_by_customer;
DROP TABLE audit;
""",
    "0003_priority.sql": """\
ALTER TABLE tickets ADD COLUMN priority TEXT NOT NULL DEFAULT 'normal';
-- down
ALTER TABLE tickets DROP COLUMN priority;
""",
    "0004_texts.sql": """\
-- The list of tickets is slow because of long texts: a summary is enough there.
CREATE TABLE ticket_texts (ticket_id INTEGER PRIMARY KEY REFERENCES tickets, body TEXT NOT NULL);
CREATE TABLE new_tickets (
    id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customers, opened TEXT NOT NULL,
    summary TEXT NOT NULL, priority TEXT NOT NULL DEFAULT 'normal'
);
INSERT INTO new_tickets SELECT id, customer_id, opened, substr(body, 1, 200), priority FROM tickets;
INSERT INTO ticket_texts SELECT id, summary FROM new_tickets WHERE length(summary) > 200;
DROP TABLE tickets;
ALTER TABLE new_tickets RENAME TO tickets;
-- Down
ALTER TABLE tickets RENAME COLUMN summary TO body;
UPDATE tickets SET body = (SELECT body FROM ticket_texts WHERE ticket_id = id)
    WHERE id IN (SELECT ticket_id FROM ticket_texts);
DROP TABLE ticket_texts;
""",
    "0005_urgency.sql": """\
ALTER TABLE tickets ADD COLUMN urgency INTEGER NOT NULL DEFAULT 2 CHECK (urgency BETWEEN 1 AND 3);
UPDATE tickets SET urgency = CASE priority WHEN 'low' THEN 1 WHEN 'high' THEN 3 ELSE 2 END;
ALTER TABLE tickets DROP COLUMN priority;
-- down
ALTER TABLE tickets ADD COLUMN priority TEXT NOT NULL DEFAULT 'normal';
UPDATE tickets SET priority = CASE urgency WHEN 1 THEN 'low' WHEN 3 THEN 'high' ELSE 'normal' END;
ALTER TABLE tickets DROP COLUMN urgency;
""",
    "0006_mails.sql": """\
UPDATE customers SET mail = lower(mail);
CREATE UNIQUE INDEX customers_by_mail ON customers (mail);
-- down
DROP INDEX customers_by_mail;
""",
}

MIGRATE = '''\
"""Brings app.db to another version, see docs/release.md: migrate.py plan|up [--to N]"""

import argparse
import json
import pathlib
import sqlite3
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def statements(text, name):
    """The statements of a part of a migration."""
    text = "\\n".join(line for line in text.splitlines() if not line.startswith("--"))
    found = [part.strip() + ";" for part in text.split(";") if part.strip()]
    for statement in found:
        if not sqlite3.complete_statement(statement):
            sys.exit(f"{name}: not a whole statement: {statement.splitlines()[0]}")
    return found


def migrations():
    """By version: the name of the file, and the statements up and down."""
    found = {}
    for path in sorted((ROOT / "migrations").glob("*.sql")):
        up, mark, down = path.read_text().partition("\\n-- down\\n")
        if not mark:
            sys.exit(f"{path.name}: no part for going down")
        found[int(path.name[:4])] = path.name, statements(up, path.name), statements(down, path.name)
    return found


def plan(known, version, target):
    if target >= version:
        steps = [{"version": number, "file": known[number][0]} for number in range(version + 1, target + 1)]
    else:
        down = range(version, target, -1)
        steps = [{"version": number, "file": known[number][0], "run": known[number][2]} for number in down]
    return {"from": version, "to": target, "steps": steps}


def up(database, known, version, target):
    database.execute("PRAGMA secure_delete = ON")
    for number in range(version + 1, target + 1):
        database.execute("BEGIN")
        for statement in known[number][1]:
            database.execute(statement)
        database.execute(f"PRAGMA user_version = {number}")
        database.execute("COMMIT")
        print(known[number][0])
    database.execute("VACUUM")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=("plan", "up"))
    parser.add_argument("--to", type=int)
    options = parser.parse_args()
    known = migrations()
    database = sqlite3.connect(ROOT / "app.db", isolation_level=None)
    version = database.execute("PRAGMA user_version").fetchone()[0]
    target = max(known) if options.to is None else options.to
    if options.command == "plan":
        print(json.dumps(plan(known, version, target), indent=1))
    else:
        up(database, known, version, target)
'''

ROWSUMS = '''\
"""Prints how many rows each table has, and a digest over them."""

import hashlib
import json
import pathlib
import sqlite3

database = sqlite3.connect(pathlib.Path(__file__).resolve().parent.parent / "app.db")
sums = {}
for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall():
    rows = database.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()
    sums[table] = {"rows": len(rows), "sha256": hashlib.sha256(json.dumps(rows).encode()).hexdigest()}
print(json.dumps({"version": database.execute("PRAGMA user_version").fetchone()[0], "tables": sums}, indent=1))
'''


def body(*, long: bool) -> str:
    """What a customer wrote; a long one ends with what matters, the number of a device."""
    size = CHANCE.number(230, 900) if long else CHANCE.number(20, 150)
    text = CHANCE.one_of(WORDS).title()
    while len(text) < size:
        text += CHANCE.one_of((" ", " ", " ", ", ")) + CHANCE.one_of(WORDS)
    return f"{text}.\nDevice {CHANCE.word(12)}." if long else text + "."


def statements(text: str) -> str:
    return text.partition("\n-- down\n")[0]


def fill(database: sqlite3.Connection) -> None:
    for name in list(FILES)[:3]:
        database.executescript(statements(FILES[name]))
    for key in range(1, CUSTOMERS + 1):
        row = (
            key,
            f"Customer {CHANCE.word(4)}",
            f"{CHANCE.one_of(('It', 'office', 'Desk'))}{key}@{CHANCE.word(6)}.example",
        )
        database.execute("INSERT INTO customers VALUES (?, ?, ?)", row)
    long = set(CHANCE.shuffled(range(1, TICKETS + 1))[:LONG])
    for key in range(1, TICKETS + 1):
        opened = f"2026-{CHANCE.number(1, 9):02}-{CHANCE.number(1, 28):02}"
        priority = CHANCE.one_of(("low", "normal", "normal", "high"))
        row = (key, CHANCE.number(1, CUSTOMERS), opened, body(long=key in long), priority)
        database.execute("INSERT INTO tickets VALUES (?, ?, ?, ?, ?)", row)
    for key in CHANCE.shuffled(range(1, TICKETS + 1))[:12]:
        database.execute("UPDATE tickets SET customer_id = ? WHERE id = ?", (CHANCE.number(1, CUSTOMERS), key))
    database.execute("PRAGMA user_version = 3")
    database.commit()


def main() -> None:
    site = Site.of(date=1_790_000_000)
    with closing(sqlite3.connect(site.root / "app.db")) as database:
        fill(database)
    (site.root / "app.db").chmod(0o644)
    for name, text in FILES.items():
        site.file(f"migrations/{name}", text)
    site.file("docs/release.md", RELEASE)
    site.file("docs/schema.md", SCHEMA)
    site.file("tools/migrate.py", MIGRATE)
    site.file("tools/rowsums.py", ROWSUMS)
    site.finish()


main()
