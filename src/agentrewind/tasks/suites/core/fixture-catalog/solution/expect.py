"""Prints the values of tests/expected.json: from the first state and from what was damaged in it, not from the reader.

python3 expect.py BUILT
"""

import hashlib
import json
import sys
from pathlib import Path

root = Path(sys.argv[1])
REASONS = {
    "bergen.grd": "truncated",
    "drammen.grd": "crc",
    "halden.grd": "trailing",
    "larvik.grd": "kind",
    "moss.grd": "duplicate",
    "tromso.grd": "label",
}


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


paths = sorted((root / "samples").rglob("*.grd"))
digests = {str(path.relative_to(root)): digest(path.read_bytes()) for path in paths}
listing = "".join(f"{digests[str(path.relative_to(root))]} {path.name}\n" for path in paths)
data = {name: (root / "samples/field" / name).read_bytes() for name in REASONS}
lost = {
    "bergen.grd": data["bergen.grd"][-24:],
    "drammen.grd": data["drammen.grd"][-24:],
    "halden.grd": data["halden.grd"][-24:],
    "larvik.grd": data["larvik.grd"].partition(b"SNOW")[2][4:28],
    "moss.grd": data["moss.grd"][-24:-4],
    "tromso.grd": data["tromso.grd"][6:20],
}
values = {
    "samples": digests,
    "samples_sha256": digest(listing.encode()),
    "reasons": REASONS,
}
print(json.dumps({"values": values, "lost": [{"hex": lost[name].hex()} for name in REASONS]}, indent=1))
