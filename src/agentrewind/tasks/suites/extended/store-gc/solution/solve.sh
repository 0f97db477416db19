#!/bin/bash
set -e

# step look
cat docs/store.md tools/journal.py tools/gc.py
ls releases store/refs
cut -f 2,3 store/journal.tsv | sort | uniq -c

# step columns
python3 - <<'PY'
import pathlib

path = pathlib.Path("tools/journal.py")
path.write_text(path.read_text().replace("words = line.split()", 'words = line.rstrip("\\n").split("\\t")'))
PY
python3 tools/journal.py 2.4.0 | wc -l

# step sessions
python3 - <<'PY'
import pathlib

path = pathlib.Path("tools/journal.py")
text = path.read_text()
if "sealed" not in text:
    text = text.replace("    files, sessions = {}, set()\n", '''\
    files, sessions = {}, set()
    sealed = {session for session, verb, _ in records(path) if verb == "seal"}
''')
    text = text.replace("words == [release]:", "words == [release] and session in sealed:")
path.write_text(text)
PY
python3 tools/journal.py 2.4.0 | cut -f 1,2

# step manifest
python3 - <<'PY'
import hashlib, json, pathlib, subprocess, sys

sys.path.insert(0, "tools")
from objects import get

said = subprocess.run([sys.executable, "tools/journal.py", "2.4.0"], capture_output=True, text=True, check=True).stdout
files = []
for line in said.splitlines():
    path, mode, chunks = line.split("\t")
    data = b"".join(map(get, chunks.split()))
    row = {"path": path, "mode": mode, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    files.append({**row, "chunks": chunks.split()})
pathlib.Path("releases/2.4.0.json").write_text(json.dumps({"release": "2.4.0", "files": files}, indent=1) + "\n")
PY
grep -c '"path"' releases/2.4.0.json

# step pin
python3 - <<'PY'
import pathlib, sys

sys.path.insert(0, "tools")
from objects import STORE, put

digest = put(pathlib.Path("releases/2.4.0.json").read_bytes())
(STORE / "refs/2.4.0").write_text(digest + "\n")
PY
cat store/refs/2.4.0

# step collect
rm -f store/refs/2.2.1 releases/2.2.1.json
python3 tools/gc.py

# step checkout
python3 tools/checkout.py 2.4.0 out/2.4.0
find out -type f | wc -l

# step report
python3 - <<'PY'
import hashlib, json, pathlib

def sha256(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()

top = pathlib.Path("out/2.4.0")
files = {path.relative_to(top).as_posix(): path for path in top.rglob("*") if path.is_file()}
pathlib.Path("report").mkdir(exist_ok=True)
lines = [f"{files[name].stat().st_mode & 0o7777:04o} {sha256(files[name])} {name}" for name in sorted(files)]
pathlib.Path("report/tree.txt").write_text("".join(line + "\n" for line in lines))
objects = [path.stat().st_size for path in pathlib.Path("store/objects").glob("??/*")]
report = {
    "manifest_sha256": sha256("releases/2.4.0.json"),
    "tree_sha256": sha256("report/tree.txt"),
    "objects": len(objects),
    "bytes": sum(objects),
    "refs": sorted(path.name for path in pathlib.Path("store/refs").iterdir()),
}
pathlib.Path("report/collection.json").write_text(json.dumps(report, indent=2) + "\n")
PY
cat report/collection.json

# step attest
{
  echo "release: $(cat store/refs/2.4.0)"
  echo "tree: $(sha256sum report/tree.txt | cut -d' ' -f1)"
  echo "report: $(sha256sum report/collection.json | cut -d' ' -f1)"
} > attestation.txt
