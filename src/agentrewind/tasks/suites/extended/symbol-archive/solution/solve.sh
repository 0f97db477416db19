#!/bin/bash
set -e

# step look
cat docs/release.md Makefile tools/resolve.py crash/report.txt
ls -l drivers
readelf -S drivers/heat.so | grep debug

# step layout
sed -i 's|path = symbols / (build_id + ".debug")|path = symbols / ".build-id" / build_id[:2] / (build_id[2:] + ".debug")|' tools/resolve.py

# step calls
python3 - <<'PY'
import pathlib

path = pathlib.Path("tools/resolve.py")
text = path.read_text()
if "before" not in text:
    text = text.replace('        words = ["addr2line"', '''\
        before = int(number) > 0  # the call lies before the instruction to which it returns
        address = hex(int(address, 16) - before)
        words = ["addr2line"''')
path.write_text(text)
PY
python3 -m unittest discover -s tests

# step modules
make build/host
mkdir -p symbols
python3 - <<'PY'
import csv, pathlib, re, subprocess

rows = []
for path in (pathlib.Path("build/host"), *pathlib.Path("drivers").glob("*.so")):
    notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=True).stdout
    rows.append((path.name, re.search(r"Build ID: (\w+)", notes)[1]))
with open("symbols/modules.csv", "w", newline="") as file:
    csv.writer(file, lineterminator="\n").writerows([("module", "build_id"), *sorted(rows)])
PY
cat symbols/modules.csv

# step archive
tail -n +2 symbols/modules.csv | while IFS=, read -r module id; do
  target=symbols/.build-id/${id:0:2}/${id:2}.debug
  mkdir -p "$(dirname "$target")"
  for place in build drivers; do
    test -e "$target" || ! test -e "$place/$module" || objcopy --only-keep-debug "$place/$module" "$target"
  done
done
find symbols -name '*.debug'

# step release
make dist
ls -l dist

# step crash
python3 tools/resolve.py crash/report.txt > crash/resolved.txt
cat crash/resolved.txt

# step sizes
python3 - <<'PY'
import csv, hashlib, json, pathlib

data = pathlib.Path("symbols/modules.csv").read_bytes()
modules = {}
for row in csv.DictReader(data.decode().splitlines()):
    name, key = row["module"], row["build_id"]
    debug = pathlib.Path(f"symbols/.build-id/{key[:2]}/{key[2:]}.debug")
    modules[name] = {"released": pathlib.Path("dist", name).stat().st_size, "symbols": debug.stat().st_size}
sizes = {"modules_sha256": hashlib.sha256(data).hexdigest(), "modules": modules}
pathlib.Path("sizes.json").write_text(json.dumps(sizes, indent=2) + "\n")
PY
cat sizes.json

# step manifest
python3 - <<'PY'
import hashlib, json, pathlib

def sha256(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()

manifest = {
    "files": {path.name: sha256(path) for path in sorted(pathlib.Path("dist").iterdir())},
    "sizes_sha256": sha256("sizes.json"),
    "crash_sha256": sha256("crash/resolved.txt"),
}
pathlib.Path("manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
PY
