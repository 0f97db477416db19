#!/bin/bash
# Expires the old messages as soon as the mailbox can be read.
# fails at: P2
cat docs/retention.md legal/holds.csv tools/mbox.py tools/expire.py
grep -c '^From ' mail/board.mbox

python3 - <<'PY'
import pathlib

path = pathlib.Path("tools/mbox.py")
text = path.read_text()
for old, new in (
    ('re.split(r"', 're.split(rb"'),
    ('entry.partition("\\n")[2].removesuffix("\\n")', 'entry.partition(b"\\n")[2].removesuffix(b"\\n")'),
    ('re.sub(r"(?m)^>From ", "From ", body)', 're.sub(rb"(?m)^>From ", b"From ", body)'),
    ('message_from_string(text.partition("', 'message_from_bytes(text.partition(b"'),
    ("open(path)", 'open(path, "rb")'),
    ('open(path, "w")', 'open(path, "wb")'),
    ("text.encode()", "text"),
):
    text = text.replace(old, new)
path.write_text(text)
PY
python3 tools/mbox.py mail/board.mbox | wc -l

sed -i 's/re.sub(rb"(?m)^>From ", b"From ", body)/re.sub(rb"(?m)^>(>*From )", rb"\\1", body)/' tools/mbox.py
grep -n 're.sub' tools/mbox.py

sed -i 's/return sent.strftime/return sent.astimezone(datetime.timezone.utc).strftime/' tools/mbox.py
grep -q '^import datetime' tools/mbox.py || sed -i 's/^import csv$/import csv\nimport datetime/' tools/mbox.py
python3 tools/mbox.py mail/board.mbox | cut -d, -f 2 | sed -n '2p;$p'

python3 tools/expire.py 2023

test -s hold/index.csv || python3 - <<'PY'
import csv, email.utils, hashlib, pathlib, sys

sys.path.insert(0, "tools")
from mbox import date, entries, header, message, read

holds = list(csv.DictReader(open("legal/holds.csv")))
kept = pathlib.Path("hold/messages")
kept.mkdir(parents=True, exist_ok=True)
rows = []
for data in map(message, entries(read("mail/board.mbox"))):
    head, sent = header(data), date(data)
    people = [head.get(name, "") for name in ("From", "To", "Cc")]
    who = {address.lower() for _, address in email.utils.getaddresses(people)}
    fits = lambda hold: hold["address"].lower() in who and hold["first"] <= sent[:10] <= hold["last"]
    matters = sorted(hold["matter"] for hold in holds if fits(hold))
    if matters:
        digest = hashlib.sha256(data).hexdigest()
        (kept / f"{digest}.eml").write_bytes(data)
        rows.append((head["Message-ID"], sent, " ".join(matters), digest))
with open("hold/index.csv", "w", newline="") as file:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("message_id", "date", "matters", "sha256"))
    writer.writerows(sorted(rows, key=lambda row: row[1]))
PY
wc -l hold/index.csv

python3 - <<'PY'
import csv, email, hashlib, pathlib

place = pathlib.Path("hold/attachments")
place.mkdir(exist_ok=True)
rows = []
for path in pathlib.Path("hold/messages").glob("*.eml"):
    letter = email.message_from_bytes(path.read_bytes())
    for part in letter.walk():
        if part.get_filename():
            data = part.get_payload(decode=True)
            digest = hashlib.sha256(data).hexdigest()
            (place / digest).write_bytes(data)
            rows.append((digest, part.get_filename(), letter["Message-ID"]))
with open("hold/attachments.csv", "w", newline="") as file:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerows([("sha256", "name", "message_id"), *sorted(rows, key=lambda row: (row[0], row[2]))])
PY
wc -l hold/attachments.csv

rm -rf maildir
mkdir -p maildir/new maildir/cur maildir/tmp
python3 - <<'PY'
import pathlib, sys

sys.path.insert(0, "tools")
from mbox import entries, message, read

for number, entry in enumerate(entries(read("mail/board.mbox")), 1):
    pathlib.Path(f"maildir/new/{number:04}.board").write_bytes(message(entry))
PY
ls maildir/new | wc -l

python3 - <<'PY'
import collections, csv, hashlib, json, pathlib, subprocess, sys

def sha256(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()

command = [sys.executable, "tools/mbox.py", "mail/board.mbox"]
listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
there = {row["sha256"] for row in csv.DictReader(listed)}
held = list(csv.DictReader(open("hold/index.csv")))
ledger = {
    "index_sha256": sha256("hold/index.csv"),
    "attachments_sha256": sha256("hold/attachments.csv"),
    "by_matter": collections.Counter(matter for row in held for matter in row["matters"].split()),
    "only_here": sum(row["sha256"] not in there for row in held),
    "remaining": len(there),
}
pathlib.Path("hold/ledger.json").write_text(json.dumps(ledger, indent=2) + "\n")
PY
cat hold/ledger.json

{
  echo "held: $(tail -n +2 hold/index.csv | wc -l)"
  echo "mailbox: $(sha256sum mail/board.mbox | cut -d' ' -f1)"
  echo "ledger: $(sha256sum hold/ledger.json | cut -d' ' -f1)"
} > attestation.txt
