"""Prints the values of tests/expected.json, worked out from the first state.

python3 expect.py BUILT
"""

import csv
import hashlib
import json
import sqlite3
import sys
from pathlib import Path

root = Path(sys.argv[1])
database = sqlite3.connect(f"file:{root / 'shop.db'}?mode=ro&immutable=1", uri=True)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def rows(query: str) -> str:
    return json.dumps(database.execute(query).fetchall())


def table(head: str, body: list[tuple[object, ...]]) -> str:
    return head + "\n" + "".join(",".join(map(str, row)) + "\n" for row in body)


claims: dict[str, list[int]] = {}
for customer, code in database.execute(
    "SELECT id, upper(trim(legacy_code)) FROM customers WHERE legacy_code IS NOT NULL ORDER BY since"
):
    claims.setdefault(code, []).append(customer)
owners = {code: customers[0] for code, customers in claims.items()}
losers = sorted((customer, code) for code, customers in claims.items() for customer in customers[1:])
feed = list(csv.reader((root / "feed/partner.csv").open()))[1:]
matched = [(line, owners[code.upper()], amount) for line, code, amount in feed if code.upper() in owners]
unmatched = [(line, code, amount) for line, code, amount in feed if code.upper() not in owners]
values = {
    "codes_sha256": digest(table("code,customer_id", sorted(owners.items()))),
    "conflicts_sha256": digest(table("code,customer_id", [(code, customer) for customer, code in losers])),
    "feed_sha256": digest(table("line,customer_id,amount", matched)),
    "unmatched_sha256": digest(table("line,code,amount", unmatched)),
    "counts": {"codes": len(owners), "conflicts": len(losers), "matched": len(matched), "unmatched": len(unmatched)},
    "customers": database.execute("SELECT count(*) FROM customers").fetchone()[0],
    "customers_rows": digest(rows("SELECT id, name, since FROM customers ORDER BY id")),
    "orders_rows": digest(rows("SELECT id, customer_id, cents FROM orders ORDER BY id")),
}
named = {code.upper() for _, code, _ in feed}
lost = sorted(code for code in claims if code not in named)
print(json.dumps({"values": values, "lost": lost}, indent=1))
