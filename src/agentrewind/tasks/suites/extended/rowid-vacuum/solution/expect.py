"""Prints the values of tests/expected.json, worked out from the first state.

python3 expect.py BUILT
"""

import hashlib
import json
import re
import sqlite3
import sys
from pathlib import Path

root = Path(sys.argv[1])
database = sqlite3.connect(f"file:{root / 'events.db'}?mode=ro&immutable=1", uri=True)
events = {row[0]: row[1:] for row in database.execute("SELECT rowid, * FROM events ORDER BY rowid")}


def varint(number: int) -> bytes:
    """As SQLite writes it: seven bits a byte, the high ones first."""
    digits = [number & 0x7F]
    while number := number >> 7:
        digits.append(number & 0x7F | 0x80)
    return bytes(reversed(digits))


def cell(number: int, row: tuple[str, ...]) -> str:
    """How the row begins in the file: its number, the types of its texts, its first text."""
    types = b"".join(varint(13 + 2 * len(text)) for text in row)
    return (varint(number) + varint(len(types) + 1) + types + row[0].encode()).hex()


def cited(text: str) -> set[int]:
    found = set[int]()
    for first, end in re.findall(r"#(\d+)-?(\d*)", text):
        low, high = int(first), int(first[: len(first) - len(end)] + end)
        found |= {number for number in events if low <= number <= high}
    return found


notes = {path.stem: cited(path.read_text()) for path in sorted((root / "cases").glob("*.md"))}
index = [(case, number, *events[number][:2]) for case, numbers in notes.items() for number in sorted(numbers)]
table = "case,event,at,kind\n" + "".join(",".join(map(str, row)) + "\n" for row in index)
held = set().union(*notes.values())
kept = {number: row for number, row in events.items() if row[4] >= "2026-01-01" or number in held}
values = {
    "numbers": {row[0]: number for number, row in events.items()},
    "index_sha256": hashlib.sha256(table.encode()).hexdigest(),
    "rows_sha256": hashlib.sha256(json.dumps([[number, *row] for number, row in kept.items()]).encode()).hexdigest(),
    "ledger": {
        "events": len(kept), "purged": len(events) - len(kept), "first": min(kept), "last": max(kept),
        "cited": len(index),
    },
}  # fmt: skip
lost = [{"hex": cell(number, events[number])} for number in list(events)[1:640:40]]
print(json.dumps({"values": values, "lost": lost}, indent=1))
