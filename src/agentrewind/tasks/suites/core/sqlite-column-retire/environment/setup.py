"""The first state: a shop database with a column of codes, a partner delivery, a mapping tool with two defects."""

import sqlite3
from contextlib import closing

from laying import Site, Stream

CHANCE = Stream("sqlite-column-retire")
CUSTOMERS, ORDERS, DELIVERED = 180, 400, 70
FIRST = ("Ada", "Ben", "Cleo", "Dora", "Emil", "Fay", "Gus", "Hal", "Ida", "Jon")
LAST = ("Abel", "Brandt", "Costa", "Dietz", "Ekberg", "Fink", "Grau", "Holm")

RUNBOOK = """\
# Retiring the legacy codes

Digests are SHA-256 of a file's bytes, in lower-case hexadecimal digits. CSV files have a head, commas and line ends of
one `\\n`, and are sorted as said.

## Map
A code is compared without blanks around it and in capitals; that form is what we write. Customers without a code are
not in the map. Where customers share a code it belongs to the one who came first (`since`, no two are equal), and the
others are conflicts. `python3 tools/build_map.py` writes, unless something is wrong,

- `map/codes.csv`: `code,customer_id`, sorted by code;
- `map/conflicts.csv`: `code,customer_id`, the customers who lost their code, sorted by customer number.

## Feed
`feed/partner.csv` names customers by their codes (`line,code,amount`; codes as the partner types them). Convert it to
`feed/by_customer.csv`: `line,customer_id,amount`, in the order of the lines. Lines with a code that is not in the map
go to `feed/unmatched.csv`, as they are, with the head of the delivery.

## Retirement
`python3 tools/retire_column.py` drops the column and its index, sets `user_version` to 5, and compacts the file.

## Schema
`python3 tools/describe.py` prints the description of the database as it is; keep it as `docs/schema.md`.

## Ledger
`ledger.json`, an object: `codes` and `conflicts` (the numbers of rows of the two maps), `matched` and `unmatched`
(lines of the feed), `codes_sha256`, `feed_sha256` (of `feed/by_customer.csv`), `schema_sha256` (of `docs/schema.md`),
and `user_version` of the database.

## Sign-off
`signoff.txt`, two lines: `ledger: ` and the digest of the ledger, `customers: ` and the number of customers.
"""

BUILD_MAP = '''\
"""Builds the map from legacy codes to customers: build_map.py [--check]"""

import csv
import pathlib
import sqlite3
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def build(rows):
    """The owner of each code, and the customers who share one that isn't theirs."""
    owners, conflicts = {}, []
    for customer, code, since in rows:
        code = code.strip().upper()
        owners[code] = customer
    return owners, conflicts


def write(name, rows):
    (ROOT / "map").mkdir(exist_ok=True)
    with open(ROOT / "map" / name, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\\n")
        writer.writerow(("code", "customer_id"))
        writer.writerows(rows)


database = sqlite3.connect(ROOT / "shop.db")
rows = database.execute("SELECT id, legacy_code, since FROM customers").fetchall()
try:
    owners, conflicts = build(rows)
except AttributeError:
    sys.exit("a customer has no code")
missing = sum(code is not None for _, code, _ in rows) - len(owners) - len(conflicts)
if missing:
    sys.exit(f"{missing} customers with a code are neither in the map nor among the conflicts")
if "--check" not in sys.argv:
    write("codes.csv", sorted(owners.items()))
    write("conflicts.csv", sorted(conflicts, key=lambda item: item[1]))
print(f"{len(owners)} codes, {len(conflicts)} conflicts")
'''

RETIRE = '''\
"""Drops customers.legacy_code and compacts the file."""

import pathlib
import sqlite3
import sys

database = sqlite3.connect(pathlib.Path(__file__).resolve().parent.parent / "shop.db", isolation_level=None)
if "legacy_code" not in [row[1] for row in database.execute("PRAGMA table_info(customers)")]:
    sys.exit("the column is gone already")
database.execute("PRAGMA secure_delete = ON")
database.execute("DROP INDEX IF EXISTS customers_by_code")
database.execute("ALTER TABLE customers DROP COLUMN legacy_code")
database.execute("PRAGMA user_version = 5")
database.execute("VACUUM")
database.close()
'''

DESCRIBE = '''\
"""Prints what is in the database, as Markdown."""

import pathlib
import sqlite3

database = sqlite3.connect(pathlib.Path(__file__).resolve().parent.parent / "shop.db")
print(f"# Schema, version {database.execute('PRAGMA user_version').fetchone()[0]}")
for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall():
    print(f"\\n## {table}, {database.execute(f'SELECT count(*) FROM {table}').fetchone()[0]} rows\\n")
    for _, name, kind, *_ in database.execute(f"PRAGMA table_info({table})").fetchall():
        print(f"- {name} {kind}")
'''


def codes() -> list[str | None]:
    """One for each customer: some have none, some have that of another, typed in another way."""
    found: list[str | None] = [f"K{CHANCE.word(10)}".upper() for _ in range(CUSTOMERS)]
    for customer in CHANCE.shuffled(range(0, CUSTOMERS, 2))[:11]:
        found[customer] = None
    for customer in CHANCE.shuffled(range(1, CUSTOMERS, 2))[:8]:
        other = found[customer - 1]
        found[customer] = f" {other.lower()}" if other else found[customer]
    return found


def fill(database: sqlite3.Connection, owned: list[str | None]) -> None:
    database.execute(
        "CREATE TABLE customers (id INTEGER PRIMARY KEY, legacy_code TEXT, name TEXT NOT NULL, since TEXT NOT NULL)"
    )
    database.execute("CREATE INDEX customers_by_code ON customers (legacy_code)")
    database.execute(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customers, cents INTEGER NOT NULL)"
    )
    days = CHANCE.shuffled(range(CUSTOMERS))
    for customer, (code, day) in enumerate(zip(owned, days, strict=True), 1):
        since = f"20{10 + day // 28:02}-03-{1 + day % 28:02}"
        name = f"{CHANCE.one_of(FIRST)} {CHANCE.one_of(LAST)}"
        database.execute("INSERT INTO customers VALUES (?, ?, ?, ?)", (customer, code, name, since))
    for order in range(1, ORDERS + 1):
        row = (order, CHANCE.number(1, CUSTOMERS), CHANCE.number(100, 90_000))
        database.execute("INSERT INTO orders VALUES (?, ?, ?)", row)
    database.execute("PRAGMA user_version = 4")
    database.commit()


def delivery(owned: list[str | None]) -> str:
    """Of a third of the customers, and of two whom nobody knows; codes typed carelessly."""
    known = [code.strip() for code in owned if code]
    lines = []
    for line in range(1, DELIVERED + 1):
        code = f"K{CHANCE.word(10)}" if line in (23, 61) else CHANCE.one_of(known[:60])
        lines.append(f"{line},{CHANCE.one_of((code, code.lower(), code.upper()))},{CHANCE.number(5, 500)}.00\n")
    return "line,code,amount\n" + "".join(lines)


def main() -> None:
    site = Site.of(date=1_680_000_000)
    owned = codes()
    with closing(sqlite3.connect(site.root / "shop.db")) as database:
        fill(database, owned)
    (site.root / "shop.db").chmod(0o644)
    site.file("feed/partner.csv", delivery(owned))
    site.file("docs/runbook.md", RUNBOOK)
    site.file("tools/build_map.py", BUILD_MAP)
    site.file("tools/retire_column.py", RETIRE)
    site.file("tools/describe.py", DESCRIBE)
    site.finish()


main()
