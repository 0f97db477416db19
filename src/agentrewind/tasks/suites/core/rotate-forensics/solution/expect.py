"""Prints the values of tests/expected.json, worked out from the first state.

python3 expect.py BUILT
"""

import collections
import datetime as dt
import hashlib
import json
import re
import sys
from pathlib import Path

root = Path(sys.argv[1])
names = ["gate.log", "gate.log.1", "gate.log.2", "gate.log.3"]
texts = {name: (root / "logs" / name).read_text() for name in names}


def entry(line: str) -> tuple[str, str, str, str]:
    if "|" in line:
        seconds, _, action, card, door = line.split("|")
        moment = dt.datetime.fromtimestamp(int(seconds), dt.UTC)
    else:
        stamp, _, action, card, door = line.split()
        moment = dt.datetime.fromisoformat(stamp).astimezone(dt.UTC)
        card, door = card.removeprefix("card="), door.removeprefix("door=")
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ"), action, card, door


cloned = re.findall(r"C-\w+", (root / "ticket.md").read_text())
timeline, counts = [], collections.Counter[tuple[str, str]]()
for number, name in enumerate(names):
    for time, action, card, door in map(entry, texts[name].splitlines()):
        if card in cloned:
            timeline.append([time, str(number), action, card, door])
        if number < 3:
            counts[door, action] += 1
timeline.sort()
digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
values = {
    "timeline_sha256": hashlib.sha256(
        "".join(",".join(row) + "\n" for row in [["time", "generation", "action", "card", "door"], *timeline]).encode()
    ).hexdigest(),
    "first": timeline[0][0],
    "last": timeline[-1][0],
    "generations": {name: [digests[name], len(texts[name].splitlines())] for name in names},
    "report": [[door, action, str(count)] for (door, action), count in sorted(counts.items())],
}
print(json.dumps({"values": values, "lost": texts["gate.log.3"].splitlines()}, indent=1))
