#!/bin/bash
set -e

# step look
cat docs/station.md tools/decode.py tools/upgrade.py tools/merge.py
ls -l --full-time raw

# step frost
sed -i -e 's/f"<{count}H"/f"<{count}h"/' -e 's/value != 0x8000/value != -0x8000/' tools/decode.py
for file in raw/*.OBS; do python3 tools/decode.py "$file" | tail -n 1; done

# step missing
python3 - <<'PY'
import pathlib

path = pathlib.Path("tools/decode.py")
text = path.read_text().replace("    values = [value for value in values if value != -0x8000]\n", "")
old = "    return [((len(values) - 1 - number) * interval, value) for number, value in enumerate(values)]\n"
path.write_text(text.replace(old, '''\
    timed = [((count - 1 - number) * interval, value) for number, value in enumerate(values)]
    return [(before, value) for before, value in timed if value != -0x8000]
'''))
PY

# step times
mkdir -p index
test -s index/times.csv || python3 - <<'PY'
import csv, os, pathlib, struct, time

rows = []
for path in pathlib.Path("raw").glob("*.OBS"):
    (sequence,) = struct.unpack_from("<H", path.read_bytes(), 4)
    closed = time.gmtime(int(os.stat(path).st_mtime))
    rows.append((path.name, sequence, time.strftime("%Y-%m-%dT%H:%M:%S", closed)))
with open("index/times.csv", "w", newline="") as file:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("file", "sequence", "wall_clock"))
    writer.writerows(sorted(rows, key=lambda row: row[1]))
PY
head -n 4 index/times.csv

# step utc
python3 - <<'PY'
import csv, datetime as dt

before, ahead, rows = "", 2, []
for row in csv.DictReader(open("index/times.csv")):
    if row["wall_clock"] < before:  # put back between this file and the one before
        ahead = 1
    before = row["wall_clock"]
    end = dt.datetime.fromisoformat(before) - dt.timedelta(hours=ahead)
    rows.append((row["file"], row["sequence"], f"{end:%Y-%m-%dT%H:%M:%SZ}"))
with open("index/utc.csv", "w", newline="") as file:
    csv.writer(file, lineterminator="\n").writerows([("file", "sequence", "end"), *rows])
PY
tail -n 3 index/utc.csv

# step upgrade
python3 tools/upgrade.py raw/*.OBS
head -qc 4 raw/*.OBS | sort | uniq -c

# step merge
mkdir -p merged
python3 tools/merge.py > merged/series.csv
wc -l merged/series.csv

# step gaps
python3 - <<'PY'
import csv, datetime as dt, hashlib, json, pathlib

series = pathlib.Path("merged/series.csv").read_bytes()
times = [row["time"] for row in csv.DictReader(series.decode().splitlines())]
gaps = []
for after, before in zip(times, times[1:]):
    seconds = int((dt.datetime.fromisoformat(before) - dt.datetime.fromisoformat(after)).total_seconds())
    if seconds > 60:
        gaps.append({"after": after, "before": before, "seconds": seconds})
found = {"series_sha256": hashlib.sha256(series).hexdigest(), "gaps": gaps}
pathlib.Path("merged/gaps.json").write_text(json.dumps(found, indent=2) + "\n")
PY
grep -c seconds merged/gaps.json

# step ledger
python3 - <<'PY'
import csv, hashlib, json, pathlib

def sha256(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()

rows = list(csv.DictReader(open("merged/series.csv")))
ledger = {
    "index_sha256": sha256("index/utc.csv"),
    "gaps_sha256": sha256("merged/gaps.json"),
    "readings": len(rows),
    "first": rows[0]["time"],
    "last": rows[-1]["time"],
    "lowest": min(int(row["tenths"]) for row in rows),
    "files": {path.name: sha256(path) for path in sorted(pathlib.Path("raw").glob("*.OBS"))},
}
pathlib.Path("ledger.json").write_text(json.dumps(ledger, indent=2) + "\n")
PY
