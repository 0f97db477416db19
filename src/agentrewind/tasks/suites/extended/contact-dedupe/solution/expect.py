"""Prints the values of tests/expected.json, worked out from the first state without the tools.

python3 expect.py BUILT
"""

import csv
import json
import re
import sys
from pathlib import Path

root = Path(sys.argv[1])
LISTS = ("shop", "newsletter", "events")


def mail(text: str) -> str:
    return re.sub(r"\+[^@]*@", "@", text.strip().lower())


def phone(text: str) -> str:
    digits = re.sub(r"[^\d+]", "", text.replace("(0)", ""))
    return re.sub("^0", "+49", re.sub("^00", "+", digits))


rows = [(name, row) for name in LISTS for row in csv.DictReader((root / f"lists/{name}.csv").open(newline=""))]
people: dict[str, list[tuple[str, dict[str, str]]]] = {}
for name, row in rows:
    people.setdefault(mail(row["mail"]), []).append((name, row))
kept = {}
for key, group in people.items():
    form = {"id": group[0][1]["id"], "name": group[0][1]["name"], "mail": key}
    for field in ("phone", "address"):
        form[field] = next((row[field] for _, row in group if row[field]), "")
    kept[key] = {**form, "phone": phone(form["phone"])}

conflicts, lost = [], []
for name, row in rows:
    key = mail(row["mail"])
    if (name, row) == people[key][0]:
        continue
    for field, value in (("phone", phone(row["phone"])), ("address", row["address"])):
        if value and value != kept[key][field]:
            conflicts.append([key, field, kept[key][field], name, row["id"], value])
            lost.append(row[field])
lists = {name: [list(kept[key].values()) for key, group in people.items() if group[0][0] == name] for name in LISTS}
contacts = [
    [key, kept[key]["name"], kept[key]["phone"], kept[key]["address"], " ".join(f"{n}:{row['id']}" for n, row in group)]
    for key, group in sorted(people.items())
]
values = {
    "conflicts": conflicts,
    "ids": [[name, row["id"], mail(row["mail"])] for name, row in rows],
    "lists": lists,
    "contacts": contacts,
    "rows": {name: sum(place == name for place, _ in rows) for name in LISTS},
}
print(json.dumps({"values": values, "lost": lost}, indent=1))
