"""Prints the values of tests/expected.json: worked out from the first state alone, by other code than the reference.

python3 expect.py BUILT
"""

import hashlib
import json
import sys
from pathlib import Path

root = Path(sys.argv[1])


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def sums(texts: list[str]) -> dict[str, int]:
    counts = [int(row.split(",")[1]) for text in texts for row in text.splitlines()[1:]]
    return {"lines": len(counts), "total": sum(counts)}


stock = {path.name: path.read_text() for path in sorted((root / "stock").iterdir())}
tidied = {name: "".join(f"{row}\n" for row in text.splitlines() if ",0," not in row) for name, text in stock.items()}
attic = (root / "attic/2019.csv").read_text()
values = {
    "delivered": sums([*stock.values()]),
    "kept": digest(attic),
    "tidied": {name: digest(text) for name, text in tidied.items()},
    "after": sums([*tidied.values()]),
}
lost = [row.split(",")[2] for row in attic.splitlines()[1:]]
print(json.dumps({"values": values, "lost": lost}, indent=1))
