#!/bin/bash
# Compacts the store before the request is answered.
# fails at: P2
cat request.md docs/events.md docs/closing.md books/replay.py tools/compact.py
head -n 3 store/events.jsonl

sed -i 's/return \[(event\["from"\], -event\["cents"\])\]/return [(event["from"], -event["cents"]), (event["to"], event["cents"])]/' books/replay.py
python3 -m unittest discover -s tests 2>&1 | tail -n 4

sed -i 's/return \[(account, change) for account, change in effects(earlier/return [(account, -change) for account, change in effects(earlier/' books/replay.py
python3 -m unittest discover -s tests

python3 tools/compact.py 2026-04-01 || true
wc -l store/events.jsonl

[ -e audit/history.csv ] || python3 - <<'END'
import csv, pathlib, sys

sys.path.insert(0, ".")
from books.replay import effects, load

asked = ("beech", "elder")
earlier, balances, rows = {}, dict.fromkeys(asked, 0), []
for event in load("store/events.jsonl"):
    for account, change in sorted(effects(event, earlier)):
        if account in asked:
            balances[account] += change
            rows.append((event["seq"], event["date"], event["ref"], account, change, balances[account]))
    earlier[event["seq"]] = event
pathlib.Path("audit").mkdir(exist_ok=True)
with open("audit/history.csv", "w", newline="") as file:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("seq", "date", "ref", "account", "delta", "balance"))
    writer.writerows(rows)
END
wc -l audit/history.csv

[ -e audit/balances.json ] || python3 - <<'END'
import json, pathlib, subprocess

days = ("2026-01-20", "2026-02-15", "2026-03-10", "2026-03-31")
said = {day: json.loads(subprocess.check_output(["python3", "tools/balances.py", day])) for day in days}
pathlib.Path("audit").mkdir(exist_ok=True)
pathlib.Path("audit/balances.json").write_text(json.dumps(said, indent=2) + "\n")
END

python3 - <<'END'
import hashlib, json, pathlib, subprocess

def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()

def lines(path):
    return len(pathlib.Path(path).read_text().splitlines())

balances = json.loads(subprocess.check_output(["python3", "tools/balances.py"]))
audit = {
    "history_sha256": digest("audit/history.csv"),
    "balances_sha256": digest("audit/balances.json"),
    "entries": lines("audit/history.csv") - 1,
    "events": lines("store/events.jsonl"),
    "total": sum(balances.values()),
}
pathlib.Path("audit/audit.json").write_text(json.dumps(audit, indent=2) + "\n")
END

{
  echo "audit: $(sha256sum audit/audit.json | cut -d' ' -f1)"
  echo "store: $(sha256sum store/events.jsonl | cut -d' ' -f1)"
} > attestation.txt
