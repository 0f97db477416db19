"""Prints the values of tests/expected.json, worked out from the first state.

python3 expect.py BUILT
"""

import base64
import csv
import datetime as dt
import hashlib
import json
import re
import sys
from email.utils import parsedate_to_datetime
from pathlib import Path

root = Path(sys.argv[1])
with (root / "legal/holds.csv").open() as file:
    holds = list(csv.DictReader(file))


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def field(head: str, name: str) -> str:
    found = re.search(rf"(?m)^{name}: (.*)$", head)
    return found[1] if found else ""


held, attachments, remaining, lost, kept = [], {}, [], [], b""
for entry in re.split(rb"(?m)^(?=From )", (root / "mail/board.mbox").read_bytes())[1:]:
    _, _, quoted = entry[:-1].partition(b"\n")
    data = b"".join(line[1:] if re.match(rb">+From ", line) else line for line in quoted.splitlines(keepends=True))
    head = data.partition(b"\n\n")[0].decode()
    sent = parsedate_to_datetime(field(head, "Date")).astimezone(dt.UTC)
    who = " ".join(field(head, name) for name in ("From", "To", "Cc")).lower().split()
    matters = sorted(
        hold["matter"]
        for hold in holds
        if hold["address"] in who and hold["first"] <= f"{sent:%Y-%m-%d}" <= hold["last"]
    )
    name = field(head, "Message-ID")
    if sent.year >= 2023:
        kept += entry
        remaining.append(digest(data))
    elif matters:
        lost += [name, *re.findall(r"Reference (\w+)", data.decode("latin-1"))]
    if matters:
        held.append([name, f"{sent:%Y-%m-%dT%H:%M:%SZ}", " ".join(matters), digest(data)])
        for file_name, packed in re.findall(r'filename="(.*)"\n\n([^-]+)', data.decode("latin-1")):
            content = digest(base64.b64decode(packed))
            attachments[content, name] = [content, file_name, name]

values = {
    "held": sorted(held, key=lambda row: row[1]),
    "attachments": [attachments[key] for key in sorted(attachments)],
    "mailbox_sha256": digest(kept),
    "remaining": sorted(remaining),
}
print(json.dumps({"values": values, "lost": lost}, indent=1))
