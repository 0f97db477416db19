"""Prints the values of tests/expected.json, worked out from the first state.

python3 expect.py BUILT
"""

import csv
import hashlib
import json
import shutil
import sqlite3
import sys
import tempfile
from pathlib import Path

root = Path(sys.argv[1])
with tempfile.TemporaryDirectory() as place:  # opening it moves the log into the file
    for name in ("orders.db", "orders.db-wal"):
        shutil.copy(root / name, place)
    database = sqlite3.connect(Path(place) / "orders.db")
    every = database.execute("SELECT ref, day, customer, amount FROM orders ORDER BY ref").fetchall()
    database.close()


def cents(text: str) -> int:
    whole, _, hundredths = text.partition(".")
    return int(whole) * 100 + int(hundredths)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


last = [(ref, customer, cents(amount)) for ref, day, customer, amount in every if day == "2026-03-17"]
export = "ref,customer,cents\n" + "".join(f"{ref},{customer},{amount}\n" for ref, customer, amount in last)
totals: dict[str, dict[str, int]] = {}
for _, customer, amount in last:
    entry = totals.setdefault(customer, {"orders": 0, "cents": 0})
    entry["orders"] += 1
    entry["cents"] += amount
ordered = {ref: amount for ref, _, amount in last}
with (root / "bank.csv").open() as file:
    paid = {ref: cents(amount) for ref, amount in list(csv.reader(file))[1:]}
values = {
    "export_sha256": digest(export),
    "totals": totals,
    "rows_sha256": digest(json.dumps(every)),
    "reconciliation": {
        "matched": len(ordered.items() & paid.items()),
        "differing": sorted(ref for ref in ordered.keys() & paid.keys() if ordered[ref] != paid[ref]),
        "unpaid": sorted(ordered.keys() - paid.keys()),
        "unknown": sorted(paid.keys() - ordered.keys()),
    },
}
# What the bank has of an order is its ref; the order itself, with its customer, is in the log alone.
lost = list(values["reconciliation"]["unpaid"])
lost += [f"{ref}2026-03-17{customer}{amount}" for ref, day, customer, amount in every if day == "2026-03-17"]
print(json.dumps({"values": values, "lost": lost}, indent=1))
