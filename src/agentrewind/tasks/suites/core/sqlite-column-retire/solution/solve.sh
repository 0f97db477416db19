#!/bin/bash
set -e

# step look
cat docs/runbook.md tools/build_map.py tools/retire_column.py
head -n 5 feed/partner.csv
python3 tools/build_map.py --check || true

# step missing-codes
sed -i 's/legacy_code, since FROM customers")/legacy_code, since FROM customers WHERE legacy_code IS NOT NULL")/' tools/build_map.py
python3 tools/build_map.py --check || true

# step shared-codes
python3 - <<'END'
import pathlib

path = pathlib.Path("tools/build_map.py")
text = path.read_text()
text = text.replace("    for customer, code, since in rows:\n", "    for customer, code, _ in sorted(rows, key=lambda row: row[2]):\n")
text = text.replace("        owners[code] = customer\n", """\
        if code in owners:
            conflicts.append((code, customer))
        else:
            owners[code] = customer
""") if "conflicts.append" not in text else text
path.write_text(text)
END
python3 tools/build_map.py --check || true

# step map
python3 tools/build_map.py || true
wc -l map/codes.csv map/conflicts.csv

# step feed
python3 - <<'END'
import csv

owners = {row["code"]: row["customer_id"] for row in csv.DictReader(open("map/codes.csv"))}
matched, unmatched = [["line", "customer_id", "amount"]], [["line", "code", "amount"]]
for row in csv.DictReader(open("feed/partner.csv")):
    owner = owners.get(row["code"].strip().upper())
    (unmatched if owner is None else matched).append([row["line"], owner or row["code"], row["amount"]])
for name, rows in (("by_customer", matched), ("unmatched", unmatched)):
    with open(f"feed/{name}.csv", "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
END

# step retire
python3 tools/retire_column.py || true

# step schema
python3 tools/describe.py > docs/schema.md
cat docs/schema.md

# step ledger
python3 - <<'END'
import hashlib, json, pathlib, sqlite3

def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()

def rows(path):
    return len(pathlib.Path(path).read_text().splitlines()) - 1

ledger = {
    "codes": rows("map/codes.csv"),
    "conflicts": rows("map/conflicts.csv"),
    "matched": rows("feed/by_customer.csv"),
    "unmatched": rows("feed/unmatched.csv"),
    "codes_sha256": digest("map/codes.csv"),
    "feed_sha256": digest("feed/by_customer.csv"),
    "schema_sha256": digest("docs/schema.md"),
    "user_version": sqlite3.connect("shop.db").execute("PRAGMA user_version").fetchone()[0],
}
pathlib.Path("ledger.json").write_text(json.dumps(ledger, indent=2) + "\n")
END

# step signoff
python3 - <<'END'
import hashlib, pathlib, sqlite3

count = sqlite3.connect("shop.db").execute("SELECT count(*) FROM customers").fetchone()[0]
digest = hashlib.sha256(pathlib.Path("ledger.json").read_bytes()).hexdigest()
pathlib.Path("signoff.txt").write_text(f"ledger: {digest}\ncustomers: {count}\n")
END
