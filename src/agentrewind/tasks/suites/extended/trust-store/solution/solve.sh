#!/bin/bash
set -e

# step look
cat docs/runbook.md tools/bundle.py tools/prune.py
cat archive/signed.csv archive/revoked.csv && grep '^#' trust/bundle.pem
python3 tools/bundle.py --check || true

# step one-by-one
sed -i 's/BEGIN CERTIFICATE-----.+-----END/BEGIN CERTIFICATE-----.+?-----END/' tools/bundle.py
python3 tools/bundle.py --check || true

# step names
python3 - <<'END'
import pathlib

path = pathlib.Path("tools/bundle.py")
text = path.read_text()
text = text.replace(r'''re.match(r"CN=([^,\\]+)(,|$)", fields["subject"])''', r'''re.match(r"CN=((?:[^,\\]|\\.)+)", fields["subject"])''')
text = text.replace('"name": name[1],', r'''"name": re.sub(r"\\(.)", r"\1", name[1]),''')
path.write_text(text)
END
python3 tools/bundle.py --check

# step verify
mkdir -p records
[ -e records/verification.csv ] || python3 - <<'END'
import csv, pathlib, subprocess, sys, tempfile

sys.path.insert(0, "tools")
from bundle import described, certificates

def says_yes(*words):
    return subprocess.run(["openssl", *map(str, words)], capture_output=True).returncode == 0

roots = certificates(pathlib.Path("trust/bundle.pem").read_text())
revoked = {row["serial"]: row["revoked_at"] for row in csv.DictReader(open("archive/revoked.csv"))}
rows = []
with tempfile.TemporaryDirectory() as place:
    one, key = pathlib.Path(place, "root.pem"), pathlib.Path(place, "key.pem")
    for row in csv.DictReader(open("archive/signed.csv")):
        document, at = pathlib.Path("archive", row["document"]), row["signed_at"]
        signer, root = described(document.with_suffix(".crt").read_text()), None
        for pem in roots:
            one.write_text(pem + "\n")
            if says_yes("verify", "-no_check_time", "-no-CApath", "-CAfile", one, document.with_suffix(".crt")):
                root = described(pem)
        key.write_bytes(subprocess.check_output(["openssl", "x509", "-pubkey", "-noout", "-in", document.with_suffix(".crt")]))
        if root is None:
            verdict = "no root"
        elif not says_yes("dgst", "-sha256", "-verify", key, "-signature", document.with_suffix(".sig"), document):
            verdict = "signature"
        elif not all(item["not_before"] <= at <= item["not_after"] for item in (signer, root)):
            verdict = "expired"
        else:
            verdict = "revoked" if revoked.get(signer["serial"], "9") <= at else "valid"
        rows.append([row["document"], at, signer["name"], root["sha256"] if root else "", verdict])
with open("records/verification.csv", "w", newline="") as file:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerows([["document", "signed_at", "signer", "root_sha256", "verdict"], *rows])
END
cat records/verification.csv

# step roots
[ -e records/roots.csv ] || python3 - <<'END'
import csv, json, subprocess, sys

roots = json.loads(subprocess.check_output([sys.executable, "tools/bundle.py", "trust/bundle.pem"]))
with open("records/roots.csv", "w", newline="") as file:
    writer = csv.DictWriter(file, ("name", "serial", "not_before", "not_after", "sha256"), lineterminator="\n")
    writer.writeheader()
    writer.writerows(roots)
END
cat records/roots.csv

# step prune
python3 tools/prune.py

# step links
rm -rf trust/hashed
mkdir trust/hashed
python3 - <<'END'
import collections, pathlib, subprocess, sys

sys.path.insert(0, "tools")
from bundle import certificates

seen = collections.Counter()
for pem in certificates(pathlib.Path("trust/bundle.pem").read_text()):
    name = subprocess.run(["openssl", "x509", "-hash", "-noout"], input=pem, capture_output=True, text=True).stdout.strip()
    pathlib.Path(f"trust/hashed/{name}.{seen[name]}").write_text(pem + "\n")
    seen[name] += 1
END
ls trust/hashed

# step report
python3 - <<'END'
import collections, csv, hashlib, json, pathlib, subprocess, sys

def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()

left = {root["sha256"] for root in json.loads(subprocess.check_output([sys.executable, "tools/bundle.py", "trust/bundle.pem"]))}
documents = list(csv.DictReader(open("records/verification.csv")))
report = {
    "verification_sha256": digest("records/verification.csv"),
    "roots_sha256": digest("records/roots.csv"),
    "verdicts": dict(collections.Counter(row["verdict"] for row in documents)),
    "removed": [row["sha256"] for row in csv.DictReader(open("records/roots.csv")) if row["sha256"] not in left],
    "still": [row["document"] for row in documents if row["verdict"] == "valid" and row["root_sha256"] in left],
}
pathlib.Path("records/report.json").write_text(json.dumps(report, indent=1) + "\n")
END
cat records/report.json

# step attest
{
    echo "report: $(sha256sum records/report.json | cut -d' ' -f1)"
    echo "bundle: $(sha256sum trust/bundle.pem | cut -d' ' -f1)"
    echo "roots: $(grep -c 'BEGIN CERTIFICATE' trust/bundle.pem)"
} > attestation.txt
