"""Prints the values of tests/expected.json, worked out from the first state without the scanner.

python3 expect.py BUILT
"""

import csv
import hashlib
import json
import re
import sys
from pathlib import Path

root = Path(sys.argv[1])
source = "".join(path.read_text() for path in sorted((root / "app").rglob("*.py")) if path.name != "texts.py")
keys = set(re.findall(r"_\([\"'](.*?)[\"']\)", source))
keys |= {f"{key}.{form}" for key in re.findall(r"plural\(\"(.*?)\"", source) for form in ("one", "many")}
keys |= {key for names in re.findall(r"# keys: (.*)", source) for key in names.split()}
with (root / "docs/renames.csv").open() as file:
    renames = {new: old for old, new in list(csv.reader(file))[1:]}
catalogs = {path.stem: json.loads(path.read_text()) for path in sorted((root / "locale").glob("*.json"))}
listing = "".join(f"{key}\n" for key in sorted(keys))
values = {
    "keys": {"keys": len(keys), "keys_sha256": hashlib.sha256(listing.encode()).hexdigest()},
    "same": {name: {key: old[key] for key in sorted(keys) if key in old} for name, old in catalogs.items()},
    "renamed": {name: {new: old[was] for new, was in sorted(renames.items())} for name, old in catalogs.items()},
}
unseen = [key for key in sorted(keys) if not key.startswith(("menu.", "mail."))]
lost = [old[key] for old in catalogs.values() for key in unseen if len(old.get(key, "")) > 8]
print(json.dumps({"values": values, "lost": lost}, indent=1, ensure_ascii=False))
