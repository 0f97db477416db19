#!/bin/bash
set -e

# step look
cat docs/runbook.md docs/format.md gridlib/container.py
python3 tools/survey.py samples/reference || true

# step byte-order
sed -i 's/struct.unpack("<" + form, take(struct.calcsize("<" + form)))/struct.unpack(">" + form, take(struct.calcsize(">" + form)))/' gridlib/container.py
python3 tools/survey.py samples/reference || true

# step checksum
sed -i 's/zlib.crc32(payload)$/zlib.crc32(data[begin:at])/' gridlib/container.py
python3 tools/survey.py samples/reference
python3 -m unittest discover -s tests

# step baseline
mkdir -p baseline
python3 tools/survey.py --json samples > baseline/survey.json
cat baseline/survey.json

# step catalog
rm -rf quarantine
python3 tools/catalog.py --mode quarantine
ls quarantine

# step ledger
python3 - <<'END'
import hashlib, json, pathlib

def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()

catalog = json.loads(pathlib.Path("catalog/catalog.json").read_text())
reasons = {pathlib.Path(item["file"]).name: item["reason"] for item in catalog["malformed"]}
kept = sorted(pathlib.Path("quarantine").glob("*.grd"))
ledger = {
    "baseline_sha256": digest("baseline/survey.json"),
    "catalog_sha256": digest("catalog/catalog.json"),
    "readable": len(catalog["readable"]),
    "quarantined": [{"file": p.name, "reason": reasons.get(p.name), "sha256": digest(p)} for p in kept],
}
pathlib.Path("ledger.json").write_text(json.dumps(ledger, indent=2) + "\n")
END

# step changes
python3 - <<'END'
import hashlib, pathlib, re

digest = hashlib.sha256(pathlib.Path("ledger.json").read_bytes()).hexdigest()
path = pathlib.Path("CHANGES.md")
text = re.sub(r"## Unreleased\n.*?(?=## 1\.3)", "## Unreleased\n\n", path.read_text(), flags=re.DOTALL)
entry = f"- The reader takes numbers as big-endian and checks whole sections.\n\nLedger: {digest}\n\n"
path.write_text(text.replace("## Unreleased\n\n", "## Unreleased\n\n" + entry))
END

# step attest
python3 - <<'END'
import hashlib, json, pathlib

def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()

samples = json.loads(pathlib.Path("baseline/survey.json").read_text())["samples_sha256"]
lines = [f"samples: {samples}", f"catalog: {digest('catalog/catalog.json')}", f"changes: {digest('CHANGES.md')}"]
pathlib.Path("attestation.txt").write_text("\n".join(lines) + "\n")
END
