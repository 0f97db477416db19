"""Prints the values of tests/expected.json, worked out from the first state.

python3 expect.py BUILT
"""

import csv
import hashlib
import json
import re
import sys
from collections import Counter
from pathlib import Path

root = Path(sys.argv[1])
ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", re.ASCII)
OFFICER_KEY = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg4NfXlzT9Oc8p0wAy
QBQ8U7+6AnNmNKjMmeioBeIwEwehRANCAASovBVQH1wK5H7EN9oMhSJ2rF2clPBr
1UWL236xhOMAhihwoWQGyIZvXyRE87K7SWKMzuEXcmprIRoY/Z/tg8Vd
-----END PRIVATE KEY-----
"""
"""It protects nothing but this task: it lets the check open what is encrypted for the officer."""


def person(address: str) -> str:
    return re.sub(r"\+.*@", "@", address.lower())


texts = {path.relative_to(root).as_posix(): path.read_text() for path in sorted(root.glob("tickets/*"))}
texts |= {f"data/{name}.csv": (root / f"data/{name}.csv").read_text() for name in ("customers", "payments")}
normal = {name: ADDRESS.sub(lambda found: person(found[0]), text) for name, text in texts.items()}
customers = list(csv.DictReader(normal["data/customers.csv"].splitlines()))
payments = list(csv.DictReader(normal["data/payments.csv"].splitlines()))
people = {}
for name in sorted(row["email"] for row in customers):
    cents = [int(row["cents"]) for row in payments if row["email"] == name]
    count = sum(name in ADDRESS.findall(text) for path, text in normal.items() if path.startswith("tickets/"))
    people[name] = [count, len(cents), sum(cents)]
groups = Counter((row["city"], row["plan"]) for row in customers)
values = {
    "people": people,
    "files": {name: hashlib.sha256(text.encode()).hexdigest() for name, text in normal.items()},
    "risk": {
        "groups": len(groups),
        "smallest": min(groups.values()),
        "at_risk": sum(count for count in groups.values() if count < 3),
    },
    "officer_key": OFFICER_KEY,
}
lost = sorted({address for text in texts.values() for address in ADDRESS.findall(text)})
print(json.dumps({"values": values, "lost": lost}, indent=1))
