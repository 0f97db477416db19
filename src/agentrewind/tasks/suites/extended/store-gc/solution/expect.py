"""Prints the values of tests/expected.json, worked out from the first state.

python3 expect.py BUILT
"""

import hashlib
import json
import sys
from pathlib import Path

root = Path(sys.argv[1])


def object_of(digest: str) -> bytes:
    return (root / "store/objects" / digest[:2] / digest[2:]).read_bytes()


records = [line.split("\t") for line in (root / "store/journal.tsv").read_text().splitlines()]
begun = {session: words[0] for _, session, verb, *words in records if verb == "begin"}
(sealed,) = (session for _, session, verb, *_ in records if verb == "seal" and begun[session] == "2.4.0")
entries: dict[str, list[str]] = {}
for _, session, verb, *words in records:
    if session == sealed and verb == "put":
        entries[words[0]] = [words[1], words[2]]
    elif session == sealed and verb == "mode":
        entries[words[0]][0] = words[1]
    elif session == sealed and verb == "move":
        entries[words[1]] = entries.pop(words[0])
    elif session == sealed and verb == "drop":
        del entries[words[0]]

files, new = [], set()
for path, (mode, chunks) in sorted(entries.items()):
    data = b"".join(map(object_of, chunks.split()))
    digest = hashlib.sha256(data).hexdigest()
    files.append({"path": path, "mode": mode, "size": len(data), "sha256": digest, "chunks": chunks.split()})
    new.update(chunks.split())

kept = (root / "store/refs/2.3.0").read_text().strip()
old = {chunk for file in json.loads(object_of(kept))["files"] for chunk in file["chunks"]}
retired = (root / "store/refs/2.2.1").read_text().strip()
older = {chunk for file in json.loads(object_of(retired))["files"] for chunk in file["chunks"]}
values = {
    "paths": [item["path"] for item in files],
    "files_sha256": hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest(),
    "kept_sha256": hashlib.sha256(f"{kept}\n".encode()).hexdigest(),
    "objects_sha256": hashlib.sha256(" ".join(sorted({kept} | old | new)).encode()).hexdigest(),
}
lost = [{"hex": object_of(chunk)[:24].hex()} for chunk in sorted(new - old - older)]
print(json.dumps({"values": values, "lost": lost}, indent=1))
