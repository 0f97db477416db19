"""Prints the values of tests/expected.json, worked out from the first state without the migrations.

python3 expect.py BUILT
"""

import hashlib
import json
import sqlite3
import sys
from pathlib import Path

root = Path(sys.argv[1])
database = sqlite3.connect(f"file:{root / 'app.db'}?mode=ro&immutable=1", uri=True)
URGENCY = {"low": 1, "normal": 2, "high": 3}
SHORT = 200


def digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


tickets, texts, lost = [], [], []
for key, customer, opened, body, priority in database.execute("SELECT * FROM tickets ORDER BY id"):
    tickets.append([key, customer, opened, body[:SHORT], URGENCY[priority]])
    if len(body) > SHORT:
        texts.append([key, body])
        lost.append(body[-20:])
customers = [[key, name, mail.lower()] for key, name, mail in database.execute("SELECT * FROM customers ORDER BY id")]
values = {
    "rows": {
        "audit": digest(database.execute("SELECT * FROM audit ORDER BY id").fetchall()),
        "customers": digest(customers),
        "tickets": digest(tickets),
    },
    "texts": digest(texts),
    "migrations": {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((root / "migrations").iterdir())
        if not path.name.startswith("0004")
    },
}
print(json.dumps({"values": values, "lost": lost}, indent=1))
