#!/bin/bash
set -e

# step look
cat docs/rotation.md tools/envelope.py tools/rotate.py
ls -R keyring vault archive
python3 tools/envelope.py --self-check || true

# step seal
sed -i 's/iv, body.encode()).hexdigest()$/iv, base64.b64decode(body)).hexdigest()/' tools/envelope.py
python3 tools/envelope.py --self-check || true

# step counter
sed -i 's/iv.hex()\[:16\]\]/iv.hex()]/' tools/envelope.py
python3 tools/envelope.py --self-check || true

# step inventory
[ -s inventory.csv ] || grep -r '^key: ' archive vault | LC_ALL=C sort | sed -e '1i file,key' -e 's/:key: /,/' > inventory.csv
cat inventory.csv

# step archive
python3 - <<'END'
import json, pathlib, sys

sys.path.insert(0, "tools")
import envelope

archive = pathlib.Path("archive/retired.sealed")
content = envelope.opened(archive.read_text())
for name, key in json.loads(content).items():
    pathlib.Path(f"keyring/{name}.key").write_text(key + "\n")
archive.write_text(envelope.seal("k4", content, envelope.key_of("k4")))
END
ls keyring

# step rotate
python3 tools/rotate.py k4
ls keyring

# step log
python3 - <<'END'
import csv, hashlib, pathlib, sys

sys.path.insert(0, "tools")
import envelope

with open("rotation.csv", "w", newline="") as file:
    log = csv.writer(file, lineterminator="\n")
    log.writerow(("file", "from", "to", "content_sha256"))
    for row in csv.DictReader(open("inventory.csv")):
        text = pathlib.Path(row["file"]).read_text()
        digest = hashlib.sha256(envelope.opened(text)).hexdigest()
        log.writerow((row["file"], row["key"], envelope.head_of(text)["key"], digest))
END

# step escrow
python3 - <<'END'
import hashlib, json, pathlib

def digest(data):
    return hashlib.sha256(data).hexdigest()

record = {
    "key": "k4",
    "key_sha256": digest(bytes.fromhex(pathlib.Path("keyring/k4.key").read_text())),
    "files": len(pathlib.Path("rotation.csv").read_text().splitlines()) - 1,
    "inventory_sha256": digest(pathlib.Path("inventory.csv").read_bytes()),
    "rotation_sha256": digest(pathlib.Path("rotation.csv").read_bytes()),
}
pathlib.Path("escrow.json").write_text(json.dumps(record, indent=2) + "\n")
END
