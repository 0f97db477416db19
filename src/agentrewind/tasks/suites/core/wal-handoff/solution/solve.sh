#!/bin/bash
set -e

# step look
ls -l
cat docs/handover.md tools/read_orders.py tools/clean.sh

# step reader
sed -i -e 's/?immutable=1/?mode=ro/' -e '/^# The service is down/d' tools/read_orders.py
python3 tools/read_orders.py 2026-03-17 | wc -l

# step amounts
sed -i -e 's/int(float(amount) \* 100)/int(Decimal(amount) * 100)/' tools/read_orders.py
grep -q '^from decimal' tools/read_orders.py || sed -i 's/^import sys$/import sys\nfrom decimal import Decimal/' tools/read_orders.py
python3 tools/read_orders.py 2026-03-17 | grep 1999

# step export
mkdir -p export
python3 tools/read_orders.py 2026-03-17 > export/orders.csv
wc -l export/orders.csv

# step totals
python3 - <<'END'
import csv, json

totals = {}
for row in csv.DictReader(open("export/orders.csv")):
    entry = totals.setdefault(row["customer"], {"orders": 0, "cents": 0})
    entry["orders"] += 1
    entry["cents"] += int(row["cents"])
open("export/totals.json", "w").write(json.dumps(totals, indent=2, sort_keys=True) + "\n")
END

# step settle
python3 - <<'END'
import sqlite3

database = sqlite3.connect("orders.db")
print(database.execute("PRAGMA journal_mode = DELETE").fetchone(), database.execute("PRAGMA integrity_check").fetchone())
database.close()
END

# step clean
sh tools/clean.sh
ls

# step reconcile
python3 - <<'END'
import csv, hashlib, json
from decimal import Decimal

export = open("export/orders.csv", "rb").read()
orders = {row["ref"]: int(row["cents"]) for row in csv.DictReader(export.decode().splitlines())}
paid = {row["ref"]: int(Decimal(row["amount"]) * 100) for row in csv.DictReader(open("bank.csv"))}
result = {
    "matched": sum(paid.get(ref) == cents for ref, cents in orders.items()),
    "differing": sorted(ref for ref, cents in orders.items() if ref in paid and paid[ref] != cents),
    "unpaid": sorted(orders.keys() - paid.keys()),
    "unknown": sorted(paid.keys() - orders.keys()),
    "export_sha256": hashlib.sha256(export).hexdigest(),
}
open("reconciliation.json", "w").write(json.dumps(result, indent=2) + "\n")
END
cat reconciliation.json

# step packet
python3 - <<'END'
import hashlib, json, pathlib

def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()

result = json.loads(pathlib.Path("reconciliation.json").read_text())
count = len(pathlib.Path("export/orders.csv").read_text().splitlines()) - 1
lines = [
    "# Hand-over of the order service",
    "",
    f"Orders: {count}",
    f"Totals: {digest('export/totals.json')}",
    f"Reconciliation: {digest('reconciliation.json')}",
    f"Open: {sum(len(result[name]) for name in ('differing', 'unpaid', 'unknown'))}",
]
pathlib.Path("packet").mkdir(exist_ok=True)
pathlib.Path("packet/handoff.md").write_text("\n".join(lines) + "\n")
END
