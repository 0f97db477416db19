"""The first state: an event store of a quarter and a month, a replay with two defects, a compactor without mercy."""

import json

from laying import Site, Stream

CHANCE = Stream("eventlog-compaction")
ACCOUNTS = ("acacia", "beech", "cedar", "dogwood", "elder", "fir")
ASKED = ("beech", "elder")
MONTHS = ((1, 31), (2, 28), (3, 31), (4, 14))
BY_MONTH = (58, 54, 60, 12)
ENOUGH = 63
"""Lines of the history of the two accounts; when there are so many, what follows is about the others."""

EVENTS = """\
# Events

`store/events.jsonl`, one JSON object a line, in the order in which they happened: `seq`, `date`, `ref` (the number of
the paper), `type`, and what belongs to the type. Amounts are whole cents.

| type | fields | effect |
| --- | --- | --- |
| `deposit` | `account`, `cents` | the account gets the amount, from outside |
| `withdraw` | `account`, `cents` | the amount goes outside |
| `transfer` | `from`, `to`, `cents` | the one gives what the other gets |
| `reverse` | `of` | takes back all effects of the event with that `seq`, of the same month and never a reversal |
| `snapshot` | `account`, `cents` | the balance of the account at the beginning of `date`; stands before all other
events |
"""

CLOSING = """\
# Closing a quarter

Digests are SHA-256 of a file's bytes, in lower-case hexadecimal digits. CSV has a head and line ends of one `\\n`.

## Replay
`books/replay.py`; its tests are in `tests/`. `python3 tools/balances.py [DATE]` prints the balances at the end of a
day, or after all events, as JSON.

## Requests of auditors
- `audit/history.csv`, `seq,date,ref,account,delta,balance`: a line for each time that an event changed one of the
  accounts asked for, in the order of the events (of a transfer or its reversal between both: by name), with the change
  and the balance after it, in cents.
- `audit/balances.json`: an object, for each day asked for what `tools/balances.py` says of its end.

## Compaction
`python3 tools/compact.py 2026-04-01` replaces all events before that day by a snapshot of each account. It is made once
all requests are answered. We may not keep events longer than needed, so no copy is made.

## Audit
`audit/audit.json`, an object: `history_sha256`, `balances_sha256`, `entries` (lines of the history, without the head),
`events` (how many are in the store after the compaction), `total` (cents over all accounts after all events).

## Attestation
`attestation.txt`, two lines: `audit: ` and the digest of `audit/audit.json`, `store: ` and the digest of the store.
"""

REPLAY = '''\
"""Works out balances from events, see docs/events.md."""

import json


def load(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def effects(event, earlier):
    """What an event does: account and change, in pairs. `earlier` has the events before it by their seq."""
    match event["type"]:
        case "deposit":
            return [(event["account"], event["cents"])]
        case "withdraw":
            return [(event["account"], -event["cents"])]
        case "transfer":
            return [(event["from"], -event["cents"])]
        case "reverse":
            return [(account, change) for account, change in effects(earlier[event["of"]], earlier)]
        case "snapshot":
            return [(event["account"], event["cents"])]


def replay(events, until=None):
    """The balances at the end of the day `until`, or after all events."""
    balances, earlier = {}, {}
    for event in events:
        if until is not None and event["date"] > until:
            break
        for account, change in effects(event, earlier):
            balances[account] = balances.get(account, 0) + change
        earlier[event["seq"]] = event
    return dict(sorted(balances.items()))
'''

BALANCES = '''\
"""Prints balances: balances.py [DATE]"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from books.replay import load, replay

print(json.dumps(replay(load(ROOT / "store/events.jsonl"), *sys.argv[1:2])))
'''

COMPACT = '''\
"""Replaces the events before a day by a snapshot of each account: compact.py DATE"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from books.replay import load, replay

day, path = sys.argv[1], ROOT / "store/events.jsonl"
events = load(path)
before = [event for event in events if event["date"] < day]
if not before:
    sys.exit("there is nothing before that day")
first = before[-1]["seq"] - len(replay(before)) + 1
kept = [
    {"seq": first + number, "date": day, "ref": "close", "type": "snapshot", "account": account, "cents": cents}
    for number, (account, cents) in enumerate(replay(before).items())
]
kept += [event for event in events if event["date"] >= day]
path.write_text("".join(json.dumps(event) + "\\n" for event in kept))
print(f"{len(events)} events became {len(kept)}")
'''

TESTS = """\
import pathlib
import unittest

from books.replay import load, replay

ROOT = pathlib.Path(__file__).resolve().parent.parent


class ReplayTest(unittest.TestCase):
    def test_nothing_is_lost_between_accounts(self):
        events = load(ROOT / "store/events.jsonl")
        taken_back = {event.get("of") for event in events}
        outside = sum(
            {"deposit": 1, "withdraw": -1, "snapshot": 1}.get(event["type"], 0) * event.get("cents", 0)
            for event in events
            if event["seq"] not in taken_back
        )
        self.assertEqual(sum(replay(events).values()), outside)

    def test_balances_of_a_day(self):
        events = [
            {"seq": 1, "date": "2026-01-01", "type": "deposit", "account": "a", "cents": 5},
            {"seq": 2, "date": "2026-01-02", "type": "withdraw", "account": "a", "cents": 3},
        ]
        self.assertEqual(replay(events, "2026-01-01"), {"a": 5})


if __name__ == "__main__":
    unittest.main()
"""


def event(seq: int, date: str, month: list[dict[str, object]], accounts: tuple[str, ...]) -> dict[str, object]:
    """One event about these accounts; reversals of something of the same month that wasn't reversed."""
    head: dict[str, object] = {"seq": seq, "date": date, "ref": f"P{CHANCE.word(14)}"}
    kind = CHANCE.one_of(("deposit", "deposit", "withdraw", "transfer", "transfer", "reverse"))
    taken_back = {item.get("of") for item in month}
    about = [item for item in month if accounts_of(item) <= set(accounts) and item["seq"] not in taken_back]
    if kind == "reverse" and about:
        return {**head, "type": "reverse", "of": CHANCE.one_of(about)["seq"]}
    cents = CHANCE.number(100, 99_999)
    if kind == "transfer":
        giver, taker = CHANCE.shuffled(accounts)[:2]
        return {**head, "type": "transfer", "from": giver, "to": taker, "cents": cents}
    kind = kind if kind != "reverse" else "deposit"
    return {**head, "type": kind, "account": CHANCE.one_of(accounts), "cents": cents}


def accounts_of(item: dict[str, object]) -> set[str]:
    if item["type"] == "reverse":
        return {"", *ACCOUNTS}
    return {str(item[name]) for name in ("account", "from", "to") if name in item}


def store() -> list[dict[str, object]]:
    events: list[dict[str, object]] = []
    others = tuple(name for name in ACCOUNTS if name not in ASKED)
    lines = 0
    for (month, days), count in zip(MONTHS, BY_MONTH, strict=True):
        this: list[dict[str, object]] = []
        for place in range(count):
            date = f"2026-{month:02}-{1 + place * days // count:02}"
            who = ACCOUNTS if lines < ENOUGH and month < 4 else others
            made = event(len(events) + 1, date, this, who)
            touched = accounts_of(made)
            if made["type"] == "reverse":
                touched = accounts_of(next(item for item in this if item["seq"] == made["of"]))
            lines += len(touched & set(ASKED))
            this.append(made)
            events.append(made)
    return events


def main() -> None:
    site = Site.of(date=1_776_200_000)
    site.file("store/events.jsonl", "".join(json.dumps(item) + "\n" for item in store()))
    days = "2026-01-20, 2026-02-15, 2026-03-10 and 2026-03-31"
    site.file("request.md", f"# Request\n\nAccounts: {' and '.join(ASKED)}, from the beginning.\n\nBalances: {days}.\n")
    site.file("docs/events.md", EVENTS)
    site.file("docs/closing.md", CLOSING)
    site.file("books/__init__.py", "")
    site.file("books/replay.py", REPLAY)
    site.file("tools/balances.py", BALANCES)
    site.file("tools/compact.py", COMPACT)
    site.file("tests/test_replay.py", TESTS)
    site.finish()


main()
