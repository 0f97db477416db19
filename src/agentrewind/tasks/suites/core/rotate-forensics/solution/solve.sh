#!/bin/bash
set -e

# step look
cat ticket.md docs/runbook.md Makefile tools/parse_log.py tools/rotate.py
wc -l logs/*

# step old-form
python3 - <<'END'
import pathlib

path = pathlib.Path("tools/parse_log.py")
text = path.read_text()
if "OLD" not in text:
    text = text.replace("\n\ndef parse(", '''\
OLD = re.compile(r"(\\d+)\\|gate\\|(\\w+)\\|([^|\\s]+)\\|([^|\\s]+)")


def parse(''', 1)
    text = text.replace("    found = ENTRY.fullmatch(line)\n", '''\
    if old := OLD.fullmatch(line):
        seconds, action, card, door = old.groups()
        moment = dt.datetime.fromtimestamp(int(seconds), dt.timezone.utc)
        return f"{moment:%Y-%m-%dT%H:%M:%SZ}", action, card, door
    found = ENTRY.fullmatch(line)
''')
path.write_text(text)
END
python3 tools/parse_log.py logs/gate.log.3 | sed -n 1,3p

# step zones
sed -i 's/time = dt.datetime.fromisoformat(stamp)$/time = dt.datetime.fromisoformat(stamp + zone).astimezone(dt.timezone.utc)/' tools/parse_log.py
python3 -m unittest discover -s tests

# step archive
mkdir -p forensics/logs
cp -np logs/gate.log* forensics/logs/ || true
python3 - <<'END'
import hashlib, json, pathlib

index = []
for path in sorted(pathlib.Path("forensics/logs").iterdir()):
    data = path.read_bytes()
    index.append({"file": path.name, "sha256": hashlib.sha256(data).hexdigest(), "entries": len(data.splitlines())})
pathlib.Path("forensics/index.json").write_text(json.dumps(index, indent=2) + "\n")
END

# step timeline
python3 - <<'END'
import csv, pathlib, re, sys

sys.path.insert(0, "tools")
from parse_log import parse

cards = re.findall(r"C-\w+", pathlib.Path("ticket.md").read_text())
rows = []
place = pathlib.Path("forensics/logs") if pathlib.Path("forensics/logs").is_dir() else pathlib.Path("logs")
for path in place.glob("gate.log*"):
    for line in path.read_text().splitlines():
        time, action, card, door = parse(line)
        if card in cards:
            rows.append((time, path.name.removeprefix("gate.log").strip(".") or 0, action, card, door))
pathlib.Path("forensics").mkdir(exist_ok=True)
with open("forensics/timeline.csv", "w", newline="") as file:
    head = ("time", "generation", "action", "card", "door")
    csv.writer(file, lineterminator="\n").writerows([head, *sorted(rows)])
END
wc -l forensics/timeline.csv

# step report
make report
cat report/weekly.csv

# step retention
sed -i 's/^keep = 3$/keep = 12/' config/rotate.toml

# step postmortem
python3 - <<'END'
import csv, hashlib, pathlib

def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()

rows = list(csv.DictReader(open("forensics/timeline.csv")))
lines = [
    "# Cloned cards",
    "",
    f"Timeline: {digest('forensics/timeline.csv')}",
    f"Archive: {digest('forensics/index.json')}",
    f"Report: {digest('report/weekly.csv')}",
    f"Entries: {len(rows)}",
    f"First: {rows[0]['time']}",
    f"Last: {rows[-1]['time']}",
]
pathlib.Path("postmortem.md").write_text("\n".join(lines) + "\n")
END
