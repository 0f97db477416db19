#!/bin/bash
# Purges as soon as the citations can be read, and gives the events their key afterwards.
# fails at: P2
cat docs/runbook.md tools/citations.py tools/purge.py
head -n 20 cases/C-2024-007.md
python3 tools/citations.py --check || true

sed -i 's/#(\\d{6})(?:-/#(\\d{6,7})(?:-/' tools/citations.py
python3 tools/citations.py --check || true

sed -i 's/range(int(first), int(last) + 1)/range(int(first), int(first[: -len(last)] + last) + 1)/' tools/citations.py
python3 tools/citations.py --check || true

python3 tools/purge.py
cat log/purge.log

python3 - <<'END'
import sqlite3

database = sqlite3.connect("events.db", isolation_level=None)
if "id" not in [row[1] for row in database.execute("PRAGMA table_info(events)")]:
    database.executescript("""
        BEGIN;
        CREATE TABLE keyed (id INTEGER PRIMARY KEY, at TEXT NOT NULL, kind TEXT NOT NULL, person TEXT NOT NULL,
            place TEXT NOT NULL, keep_until TEXT NOT NULL);
        INSERT INTO keyed SELECT rowid, at, kind, person, place, keep_until FROM events ORDER BY rowid;
        DROP TABLE events;
        ALTER TABLE keyed RENAME TO events;
        COMMIT;
    """)
print(database.execute("SELECT min(id), max(id), count(*) FROM events").fetchone())
END

python3 tools/citations.py || true

python3 - <<'END'
import hashlib, json, pathlib, re, sqlite3

index = pathlib.Path("refs/index.csv").read_bytes()
database = sqlite3.connect("events.db")
count, first, last = database.execute("SELECT count(*), min(id), max(id) FROM events").fetchone()
removed = re.findall(r"removed (\d+)", pathlib.Path("log/purge.log").read_text())
ledger = {
    "events": count,
    "purged": sum(map(int, removed)),
    "first": first,
    "last": last,
    "cited": index.count(b"\n") - 1,
    "index_sha256": hashlib.sha256(index).hexdigest(),
}
pathlib.Path("ledger.json").write_text(json.dumps(ledger, indent=2) + "\n")
END

echo "ledger: $(sha256sum < ledger.json | cut -d ' ' -f 1)" > manifest.txt
echo "events.db: $(sha256sum < events.db | cut -d ' ' -f 1)" >> manifest.txt
cat manifest.txt
