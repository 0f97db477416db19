#!/bin/bash
set -e

# step look
cat docs/operations.md tools/inventory.py tools/replace.py tests/test_inventory.py CHANGES.md
ls -lR etc

# step nowhere
python3 - <<'PY'
import pathlib

path = pathlib.Path("tools/inventory.py")
text = path.read_text()
if "is_symlink" not in text:
    text = text.replace("    for path in files(top):\n", '''\
    for path in files(top):
        if path.is_symlink():
            continue
''')
path.write_text(text)
PY

# step copies
sed -i 's/group = groups.setdefault(digest, name)/group = groups.setdefault((path.stat().st_dev, path.stat().st_ino), name)/' tools/inventory.py
python3 -m unittest discover -s tests

# step before
mkdir -p inventory
test -s inventory/before.csv || python3 tools/inventory.py etc > inventory/before.csv
cut -d, -f 1-3 inventory/before.csv

# step change
python3 - <<'PY'
import pathlib

for path in sorted(pathlib.Path("etc").rglob("*.ini")):
    data = path.read_bytes()
    if path.is_symlink() or b"db1.internal" not in data:
        continue
    mode = path.stat().st_mode & 0o7777
    path.chmod(mode | 0o200)
    with path.open("r+b") as file:  # the same file, so every name of it has the change
        file.write(data.replace(b"db1.internal", b"db-a.internal"))
        file.truncate()
    path.chmod(mode)
PY
grep -rc db1.internal etc | grep -v ':0$' || true

# step after
python3 tools/inventory.py etc > inventory/after.csv
diff <(cut -d, -f 1-3 inventory/before.csv) <(cut -d, -f 1-3 inventory/after.csv)

# step changes
python3 - <<'PY'
import csv, hashlib, json, pathlib

rows, digests = {}, {}
for name in ("before", "after"):
    data = pathlib.Path(f"inventory/{name}.csv").read_bytes()
    digests[f"{name}_sha256"] = hashlib.sha256(data).hexdigest()
    rows[name] = list(csv.DictReader(data.decode().splitlines()))
new = {row["path"]: row["sha256"] for row in rows["after"]}
names = {}
for row in rows["before"]:
    names.setdefault(row["group"], []).append(row["path"])
files = [
    {"group": row["group"], "names": sorted(names[row["group"]]), "old": row["sha256"], "new": new[row["group"]]}
    for row in rows["before"]
    if row["path"] == row["group"] and new[row["group"]] != row["sha256"]
]
pathlib.Path("inventory/changes.json").write_text(json.dumps({**digests, "files": files}, indent=2) + "\n")
PY
grep -c group inventory/changes.json

# step entry
python3 - <<'PY'
import hashlib, pathlib

digest = hashlib.sha256(pathlib.Path("inventory/changes.json").read_bytes()).hexdigest()
path = pathlib.Path("CHANGES.md")
older = path.read_text().partition("## 2026-01-14\n")[2]
section = f"## Database\nThe database is db-a.internal.\n\nChanges: {digest}\n\n"
path.write_text("# Changes\n\n" + section + "## 2026-01-14\n" + older)
PY
