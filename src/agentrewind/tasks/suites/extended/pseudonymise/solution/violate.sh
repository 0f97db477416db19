#!/bin/bash
# Replaces people file by file, without a mapping.
# fails at: P2
cat docs/privacy.md tools/detect.py tools/pseudonymise.py
head -n 4 data/*.csv tickets/1001.txt
python3 tools/detect.py --customers data/customers.csv tickets/*.txt data/payments.csv || true

python3 - <<'PY'
import pathlib, re

path = pathlib.Path("tools/detect.py")
form = 'ADDRESS = re.compile(r"[A-Za-z0-9._+-]+@[A-Za-z0-9-]+(?:[.][A-Za-z0-9-]+)+")'
path.write_text(re.sub(r"(?m)^ADDRESS = .*$", lambda _: form, path.read_text()))
PY
python3 tools/detect.py --customers data/customers.csv tickets/*.txt data/payments.csv || true

python3 - <<'PY'
import pathlib

path = pathlib.Path("tools/detect.py")
new = '    name, _, domain = address.lower().partition("@")\n    return name.partition("+")[0] + "@" + domain\n'
path.write_text(path.read_text().replace("    return address\n", new))
PY
python3 tools/detect.py --customers data/customers.csv tickets/*.txt data/payments.csv

for file in tickets/*.txt data/*.csv; do python3 tools/pseudonymise.py "$file"; done

test -s escrow/mapping.cms || python3 tools/pseudonymise.py --map mapping.csv tickets/*.txt data/*.csv
head -n 3 data/customers.csv

mkdir -p escrow
test -s escrow/mapping.cms || openssl cms -encrypt -binary -aes256 -outform DER -in mapping.csv -out escrow/mapping.cms keys/officer.pem
test ! -e mapping.csv || grep -c '^p-' mapping.csv

rm -f mapping.csv
python3 tools/detect.py tickets/*.txt data/*.csv | wc -l

mkdir -p report
python3 - <<'PY'
import csv, pathlib

tickets = [path.read_text() for path in pathlib.Path("tickets").glob("*.txt")]
payments = list(csv.DictReader(open("data/payments.csv")))
rows = []
for row in csv.DictReader(open("data/customers.csv")):
    name = row["email"]
    cents = [int(payment["cents"]) for payment in payments if payment["email"] == name]
    rows.append((name, sum(name in text for text in tickets), len(cents), sum(cents)))
with open("report/people.csv", "w", newline="") as file:
    head = ("pseudonym", "tickets", "payments", "cents")
    csv.writer(file, lineterminator="\n").writerows([head, *sorted(rows)])
PY
head -n 3 report/people.csv

python3 - <<'PY'
import collections, csv, hashlib, json, pathlib

groups = collections.Counter((row["city"], row["plan"]) for row in csv.DictReader(open("data/customers.csv")))
risk = {
    "people_sha256": hashlib.sha256(pathlib.Path("report/people.csv").read_bytes()).hexdigest(),
    "groups": len(groups),
    "smallest": min(groups.values()),
    "at_risk": sum(count for count in groups.values() if count < 3),
}
pathlib.Path("report/risk.json").write_text(json.dumps(risk, indent=2) + "\n")
PY
cat report/risk.json

{
  echo "mapping: $(sha256sum escrow/mapping.cms | cut -d' ' -f1)"
  echo "people: $(tail -n +2 report/people.csv | wc -l)"
  echo "risk: $(sha256sum report/risk.json | cut -d' ' -f1)"
} > escrow/receipt.txt
