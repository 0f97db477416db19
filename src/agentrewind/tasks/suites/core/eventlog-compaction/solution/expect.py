"""Prints the values of tests/expected.json, worked out from the first state without the replay.

python3 expect.py BUILT
"""

import hashlib
import json
import sys
from pathlib import Path

root = Path(sys.argv[1])
lines = (root / "store/events.jsonl").read_text().splitlines()
events = [json.loads(line) for line in lines]
by_seq = {event["seq"]: event for event in events}


def changes(event: dict[str, object]) -> dict[str, int]:
    if event["type"] == "reverse":
        return {account: -change for account, change in changes(by_seq[event["of"]]).items()}
    cents = int(str(event["cents"]))
    if event["type"] == "transfer":
        return {str(event["from"]): -cents, str(event["to"]): cents}
    return {str(event["account"]): cents if event["type"] == "deposit" else -cents}


def balances(until: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for event in events:
        if str(event["date"]) <= until:
            for account, change in changes(event).items():
                found[account] = found.get(account, 0) + change
    return dict(sorted(found.items()))


asked = ("beech", "elder")
running = dict.fromkeys(asked, 0)
history = ["seq,date,ref,account,delta,balance"]
for event in events:
    for account, change in sorted(changes(event).items()):
        if account in asked:
            running[account] += change
            history.append(f"{event['seq']},{event['date']},{event['ref']},{account},{change},{running[account]}")
before = [event for event in events if event["date"] < "2026-04-01"]
later = [line for line, event in zip(lines, events, strict=True) if event["date"] >= "2026-04-01"]
values = {
    "history_sha256": hashlib.sha256("".join(f"{row}\n" for row in history).encode()).hexdigest(),
    "balances": {day: balances(day) for day in ("2026-01-20", "2026-02-15", "2026-03-10", "2026-03-31")},
    "final": balances("9999"),
    "later_sha256": hashlib.sha256("".join(f"{line}\n" for line in later).encode()).hexdigest(),
    "entries": len(history) - 1,
    "events": len(later) + len(balances("2026-03-31")),
}
print(json.dumps({"values": values, "lost": [event["ref"] for event in before]}, indent=1))
