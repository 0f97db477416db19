#!/bin/bash
set -e

# step look
cat docs/runbook.md tools/members.py tools/repack.py
ls -l deposits
python3 tools/members.py --check || true

# step compression
sed -i 's/tarfile.open(path, "r:gz")/tarfile.open(path)/' tools/members.py
python3 tools/members.py --check || true

# step old-files
sed -i 's/{tarfile.REGTYPE: "file", tarfile.DIRTYPE/{tarfile.REGTYPE: "file", tarfile.AREGTYPE: "file", tarfile.DIRTYPE/' tools/members.py
python3 tools/members.py --check || true

# step hard-links
sed -i -e 's/tarfile.SYMTYPE: "symlink"}$/tarfile.SYMTYPE: "symlink", tarfile.LNKTYPE: "hardlink"}/' \
    -e 's/if kind == "symlink" else/if kind in ("symlink", "hardlink") else/' tools/members.py
python3 tools/members.py --check

# step originals
[ -e records/originals.csv ] || {
    mkdir -p records
    echo archive,bytes,sha256 > records/originals.csv
    for path in deposits/*; do
        echo "$(basename "$path"),$(stat -c %s "$path"),$(sha256sum "$path" | cut -d' ' -f1)" >> records/originals.csv
    done
}
cat records/originals.csv

# step members
mkdir -p records
[ -e records/members.csv ] || python3 tools/members.py deposits/* > records/members.csv
head -n 5 records/members.csv

# step repack
python3 tools/repack.py

# step manifest
python3 - <<'END'
import csv, hashlib, json, pathlib

def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()

manifest = {name + "_sha256": digest(f"records/{name}.csv") for name in ("originals", "members")}
rows = list(csv.DictReader(open("records/members.csv")))
manifest["archives"] = []
for original in csv.DictReader(open("records/originals.csv")):
    name = original["archive"].partition(".")[0] + ".tar.gz"
    manifest["archives"].append({
        "archive": name,
        "original": original["archive"],
        "original_sha256": original["sha256"],
        "sha256": digest(f"deposits/{name}"),
        "members": sum(row["archive"] == original["archive"] for row in rows),
    })
pathlib.Path("manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
END

# step index
python3 - <<'END'
import csv, datetime

rows = [row for row in csv.DictReader(open("records/members.csv")) if row["type"] == "file"]
with open("index.csv", "w", newline="") as file:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["day", "archive", "member"])
    for row in sorted(rows, key=lambda row: int(row["mtime"])):
        day = datetime.datetime.fromtimestamp(int(row["mtime"]), datetime.timezone.utc).date()
        writer.writerow([day, row["archive"].partition(".")[0] + ".tar.gz", row["member"]])
END
head -n 3 index.csv

# step sums
sha256sum deposits/* index.csv manifest.json records/* > SHA256SUMS
