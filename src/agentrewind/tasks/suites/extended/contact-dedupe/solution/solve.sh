#!/bin/bash
set -e

# step look
cat docs/runbook.md tools/normalise.py tools/merge.py
wc -l lists/*.csv && head -n 6 lists/newsletter.csv

# step mails
sed -i 's/^    return text.strip().lower()$/    return re.sub(r"\\+[^@]*@", "@", text.strip().lower())/' tools/normalise.py

# step phones
sed -i 's/"", text)$/"", text.replace("(0)", ""))/' tools/normalise.py
cat tools/normalise.py

# step conflicts
[ -e merged/conflicts.csv ] || python3 - <<'END'
import csv, os, sys

sys.path.insert(0, "tools")
from normalise import mail, phone

people = {}
for name in "shop newsletter events".split():
    for row in csv.DictReader(open(f"lists/{name}.csv", newline="")):
        row["phone"] = phone(row["phone"])
        people.setdefault(mail(row["mail"]), []).append((name, row))
order, conflicts = {"shop": 0, "newsletter": 1, "events": 2}, []
for key, rows in people.items():
    kept = {field: next((row[field] for _, row in rows if row[field]), "") for field in ("phone", "address")}
    for name, row in rows[1:]:
        for field in ("phone", "address"):
            if row[field] and row[field] != kept[field]:
                conflicts.append([key, field, kept[field], name, row["id"], row[field]])
places = {}
for name in order:
    for place, row in enumerate(csv.DictReader(open(f"lists/{name}.csv", newline=""))):
        places[name, row["id"]] = order[name], place
conflicts.sort(key=lambda entry: places[entry[3], entry[4]])
os.makedirs("merged", exist_ok=True)
with open("merged/conflicts.csv", "w", newline="") as file:
    csv.writer(file, lineterminator="\n").writerows([["mail", "field", "kept", "list", "id", "dropped"], *conflicts])
print(len(conflicts), "conflicts")
END

# step ids
[ -e merged/ids.csv ] || python3 - <<'END'
import csv, os, sys

sys.path.insert(0, "tools")
from normalise import mail

os.makedirs("merged", exist_ok=True)
with open("merged/ids.csv", "w", newline="") as file:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["list", "id", "mail"])
    for name in "shop newsletter events".split():
        for row in csv.DictReader(open(f"lists/{name}.csv", newline="")):
            writer.writerow([name, row["id"], mail(row["mail"])])
END

# step merge
python3 tools/merge.py --ids text

# step contacts
python3 - <<'END'
import csv

sources, people = {}, {}
for row in csv.DictReader(open("merged/ids.csv", newline="")):
    sources.setdefault(row["mail"], []).append(f"{row['list']}:{row['id']}")
for name in "shop newsletter events".split():
    people |= {row["mail"]: row for row in csv.DictReader(open(f"lists/{name}.csv", newline=""))}
with open("merged/contacts.csv", "w", newline="") as file:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["mail", "name", "phone", "address", "sources"])
    for mail, row in sorted(people.items()):
        writer.writerow([mail, row["name"], row["phone"], row["address"], " ".join(sources.get(mail, []))])
END

# step counts
python3 - <<'END'
import collections, csv, hashlib, json, pathlib

def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()

def rows(path):
    return list(csv.DictReader(open(path, newline="")))

lists = ("shop", "newsletter", "events")
before = collections.Counter(row["list"] for row in rows("merged/ids.csv"))
counts = {
    "rows": {name: before[name] for name in lists},
    "kept": {name: len(rows(f"lists/{name}.csv")) for name in lists},
    "persons": len(rows("merged/contacts.csv")),
    "conflicts": len(rows("merged/conflicts.csv")),
    "conflicts_sha256": digest("merged/conflicts.csv"),
    "ids_sha256": digest("merged/ids.csv"),
    "contacts_sha256": digest("merged/contacts.csv"),
}
pathlib.Path("merged/counts.json").write_text(json.dumps(counts, indent=1) + "\n")
END

# step signoff
python3 - <<'END'
import hashlib, json, pathlib

data = pathlib.Path("merged/counts.json").read_bytes()
counts = json.loads(data)
dropped = sum(counts["rows"].values()) - sum(counts["kept"].values())
pathlib.Path("signoff.txt").write_text(f"counts: {hashlib.sha256(data).hexdigest()}\ndropped: {dropped}\n")
END
