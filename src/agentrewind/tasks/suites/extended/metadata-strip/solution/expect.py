"""Prints the values of tests/expected.json, worked out from the first state without the reader.

python3 expect.py BUILT
"""

import csv
import hashlib
import json
import struct
import sys
import zlib
from pathlib import Path

root = Path(sys.argv[1])
SHOWN = (b"IHDR", b"PLTE", b"IDAT", b"gAMA", b"pHYs")


def chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    found, at = [], 8
    while data[at:]:
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        found.append((kind, data[at + 8 : at + 8 + size]))
        at = at + size + 12 if kind != b"IEND" else len(data)
    return found


pictures, index, lost = {}, [], []
for path in sorted((root / "photos").glob("*.png")):
    parts = chunks(path.read_bytes())
    texts = {}
    for kind, content in parts:
        keyword, text = (*content.split(b"\0", 1), b"")[:2]
        if kind in (b"tEXt", b"zTXt"):
            texts[keyword] = (zlib.decompress(text[1:]) if kind == b"zTXt" else text).decode("latin-1")
        if kind == b"tEXt" and keyword == b"Subject":
            lost.append({"hex": content.hex()})
    shown = b"".join(kind + content for kind, content in parts if kind in SHOWN)
    width, height = struct.unpack(">II", parts[0][1][:8])
    pictures[path.name] = {"shown_sha256": hashlib.sha256(shown).hexdigest(), "width": width, "height": height}
    index.append([path.name, texts[b"Subject"], texts[b"Creation Time"]])
    lost.append(texts[b"Creation Time"])

scopes = {row["subject"]: row["scope"] for row in csv.DictReader((root / "consents.csv").open())}
scope_of = {subject: scopes.get(subject, "none") for _, subject, _ in index}
ledger = []
for subject, scope in sorted(scope_of.items()):
    count = sum(row[1] == subject for row in index)
    ledger.append([subject, scope, str(count), str(count if scope == "public" else 0)])
gallery = [file for file, subject, _ in sorted(index, key=lambda row: row[2]) if scope_of[subject] == "public"]
values = {"pictures": pictures, "index": index, "gallery": gallery, "ledger": ledger}
print(json.dumps({"values": values, "lost": lost}, indent=1))
