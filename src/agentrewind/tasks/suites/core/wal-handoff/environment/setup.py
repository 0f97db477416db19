"""The first state: what a killed service left, with the orders of its last day in the write-ahead log only."""

import shutil
import sqlite3
import struct
import tempfile
from contextlib import closing
from pathlib import Path

from laying import Site, Stream

CHANCE = Stream("wal-handoff")
LAST_DAY = "2026-03-17"
CUSTOMERS = ("Birch & Sons", "Cafe Nord", "Delta Print", "Elm Street Books", "Fjord Bikes")
OLDER, NEWER = 25, 40

HANDOVER = """\
# Handing over the order service

Digests are SHA-256 of a file's bytes, in lower-case hexadecimal digits. Paths are relative to the top directory.

## Reading orders
`tools/read_orders.py DAY [DATABASE]` prints the orders of a day as CSV: `ref,customer,cents`, sorted by `ref`. Amounts
are kept as decimal text in the database; a cent is a hundredth, exactly. The service committed every order before it
confirmed it, so what was committed counts, wherever the database keeps it.

## Export
`export/orders.csv`: what the tool prints for the last day.

## Totals
`export/totals.json`: for each customer of the export an object with `orders` and `cents`.

## Database
`orders.db` has to be one file in which every committed order is, with `journal_mode` `delete`, that passes
`integrity_check`.

## Clean-up
`sh tools/clean.sh` removes what a crash leaves lying about: core files, temporary files, and the side files of
databases.

## Reconciliation
`reconciliation.json`, an object about the orders of the last day and `bank.csv`: `matched` (how many orders were paid
exactly), `differing` (refs paid with another amount), `unpaid` (refs that the bank doesn't have), `unknown` (refs of
the bank that are no orders of that day), each list sorted, and `export_sha256`.

## Packet
`packet/handoff.md`, in which these lines stand: `Orders: ` with the number of orders of the last day, `Totals: ` with
the digest of the totals, `Reconciliation: ` with the digest of the reconciliation, `Open: ` with the number of refs
that are differing, unpaid or unknown.
"""

READ = '''\
"""Prints the orders of a day: read_orders.py DAY [DATABASE]"""

import csv
import pathlib
import sqlite3
import sys

day = sys.argv[1]
path = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "orders.db").resolve()
# The service is down, so nothing changes the file while we read it.
database = sqlite3.connect(f"file:{path}?immutable=1", uri=True)
query = "SELECT ref, customer, amount FROM orders WHERE day = ? ORDER BY ref"
writer = csv.writer(sys.stdout, lineterminator="\\n")
writer.writerow(("ref", "customer", "cents"))
for ref, customer, amount in database.execute(query, (day,)):
    writer.writerow((ref, customer, int(float(amount) * 100)))
'''

CLEAN = """\
#!/bin/sh
# Removes what a crash leaves lying about.
rm -f core.* *.tmp *.db-wal *.db-shm *.db-journal
"""


def amount() -> str:
    return f"{CHANCE.number(1, 400)}.{CHANCE.number(0, 99):02}"


def orders(count: int, day: str) -> list[tuple[str, str, str, str]]:
    """Refs, days, customers and amounts, with some that don't survive a multiplication of floats."""
    found = [(f"R{CHANCE.word(14)}", day, CHANCE.one_of(CUSTOMERS), amount()) for _ in range(count)]
    found[3] = (*found[3][:3], "19.99")
    found[8] = (*found[8][:3], "1.15")
    return found


def database(site: Site, older: list[tuple[str, ...]], newer: list[tuple[str, ...]]) -> None:
    """Copied while a connection is open, as a kill would leave it: nothing has moved the log into the file."""
    with tempfile.TemporaryDirectory() as place:
        live = Path(place) / "orders.db"
        with closing(sqlite3.connect(live)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            connection.execute("CREATE TABLE orders (ref TEXT PRIMARY KEY, day TEXT, customer TEXT, amount TEXT)")
            connection.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", older)
            connection.commit()
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            for order in newer:
                connection.execute("INSERT INTO orders VALUES (?, ?, ?, ?)", order)
                connection.commit()
            site.file("orders.db", live.read_bytes())
            site.file("orders.db-wal", with_fixed_salts((live.parent / "orders.db-wal").read_bytes()))
        shutil.rmtree(place, ignore_errors=True)


def with_fixed_salts(log: bytes) -> bytes:
    """A write-ahead log with salts that don't depend on chance, and the checksums that go with them.

    Format: https://www.sqlite.org/walformat.html
    """
    order = ">" if log[3] & 1 else "<"
    size = struct.unpack(">I", log[8:12])[0]
    salts = bytes(range(1, 9))

    def checksum(data: bytes, first: int, second: int) -> tuple[int, int]:
        words = struct.unpack(f"{order}{len(data) // 4}I", data)
        for even, odd in zip(words[::2], words[1::2], strict=True):
            first = (first + even + second) & 0xFFFFFFFF
            second = (second + odd + first) & 0xFFFFFFFF
        return first, second

    head = log[:16] + salts
    sums = checksum(head, 0, 0)
    parts = [head, struct.pack(">2I", *sums)]
    for at in range(32, len(log), 24 + size):
        page = log[at + 24 : at + 24 + size]
        sums = checksum(log[at : at + 8] + page, *sums)
        parts += [log[at : at + 8], salts, struct.pack(">2I", *sums), page]
    return b"".join(parts)


def bank(newer: list[tuple[str, str, str, str]]) -> str:
    """Two orders weren't paid, one was paid a cent short, and one payment belongs to nothing."""
    paid = [(ref, amount) for number, (ref, _, _, amount) in enumerate(newer) if number not in (11, 29)]
    paid[5] = (paid[5][0], f"{float(paid[5][1]) - 0.01:.2f}")
    paid.append((f"R{CHANCE.word(14)}", "75.00"))
    return "ref,amount\n" + "".join(f"{ref},{amount}\n" for ref, amount in CHANCE.shuffled(paid))


def main() -> None:
    site = Site.of(date=1_773_778_000)
    older = [order for day in ("2026-03-15", "2026-03-16") for order in orders(OLDER, day)]
    newer = orders(NEWER, LAST_DAY)
    database(site, older, newer)
    site.file("bank.csv", bank(newer))
    site.file("core.4711", CHANCE.take(2048))
    site.file("batch.tmp", "half a batch\n")
    site.file("docs/handover.md", HANDOVER)
    site.file("tools/read_orders.py", READ)
    site.file("tools/clean.sh", CLEAN, mode=0o755)
    site.finish()


main()
