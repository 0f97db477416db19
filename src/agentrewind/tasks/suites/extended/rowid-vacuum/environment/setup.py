"""The first state: audit events that have only a row number, case notes that cite it, a reader with two defects."""

import sqlite3
from contextlib import closing

from laying import Site, Stream

CHANCE = Stream("rowid-vacuum")
EVENTS, CASES = 640, 26
KINDS = ("badge", "denied", "door-forced", "escort", "key-issued", "key-returned", "override")
PEOPLE = ("anke", "bilal", "carla", "dmitri", "elif", "farid", "greta", "hugo", "irena")
PLACES = ("archive", "dock 2", "lab 4", "north gate", "roof", "server room", "store")

RUNBOOK = """\
# Yearly purge of the audit database

Digests are SHA-256 of a file's bytes, in lower-case hexadecimal digits. CSV files have a head, commas and line ends of
one `\\n`.

## Citations
A note in `cases/` cites events by number, with a `#`:

- `#4100231`: this event;
- `#4100231-47`: a run of events, from the first number to the one whose last digits are given: here to 4100247. Of a
  run those numbers count that an event has; there were always gaps.

Numbers have six digits or seven. The line `Events:` of a note says how many different events it cites.
`python3 tools/citations.py --check` compares that. Without `--check` it writes the index.

## Key
`events` gets the column `id`, an `INTEGER PRIMARY KEY`, with the number of each event. The other columns and all
values stay. There is no other table in the end.

## Index
`refs/index.csv`: `case,event,at,kind`, a row for each event that a case cites, sorted by case and then by number.
`python3 tools/citations.py` writes it.

## Purge
`python3 tools/purge.py` removes the events whose `keep_until` is before 2026-01-01, but for those in the index, and
compacts the file. What it removed is in `log/purge.log`.

## Ledger
`ledger.json`, an object of numbers: `events` (how many there are now), `purged` (how many were removed), `first` and
`last` (the least and the greatest `id`), `cited` (the rows of the index), and `index_sha256`.

## Manifest
`manifest.txt`, two lines: `ledger: ` and `events.db: `, with the digests of these two files.
"""

CITATIONS = '''\
"""Which events the notes in cases/ cite: citations.py [--check]; without --check it writes refs/index.csv"""

import csv
import pathlib
import re
import sqlite3
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CITED = re.compile(r"#(\\d{6})(?:-(\\d+))?")


def cited(text, known):
    """The numbers that a note cites; of a run, those that are known."""
    found = set()
    for first, last in CITED.findall(text):
        if not last:
            found.add(int(first))
            continue
        found |= {number for number in range(int(first), int(last) + 1) if number in known}
    return found


database = sqlite3.connect(ROOT / "events.db")
known = {row[0]: row[1:] for row in database.execute("SELECT rowid, at, kind FROM events")}
notes = {path.stem: path.read_text() for path in sorted((ROOT / "cases").glob("*.md"))}
rows = [(case, number) for case, text in notes.items() for number in sorted(cited(text, known))]
for case, number in rows:
    if number not in known:
        sys.exit(f"{case} cites {number}, and there is no such event")
for case, text in notes.items():
    said = int(re.search(r"^Events: (\\d+)$", text, re.MULTILINE)[1])
    count = sum(owner == case for owner, _ in rows)
    if count != said:
        sys.exit(f"{case} cites {said} events, and {count} were read")
print(f"{len(rows)} citations in {len(notes)} cases")
if "--check" not in sys.argv:
    (ROOT / "refs").mkdir(exist_ok=True)
    with open(ROOT / "refs/index.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\\n")
        writer.writerow(("case", "event", "at", "kind"))
        writer.writerows((case, number, *known[number]) for case, number in rows)
'''

PURGE = '''\
"""Removes the events that are past their date and in no case, and compacts the file."""

import csv
import pathlib
import sqlite3

ROOT = pathlib.Path(__file__).resolve().parent.parent
index = ROOT / "refs/index.csv"
held = {int(row["event"]) for row in csv.DictReader(open(index))} if index.exists() else set()
database = sqlite3.connect(ROOT / "events.db", isolation_level=None)
database.execute("PRAGMA secure_delete = ON")
due = [number for (number,) in database.execute("SELECT rowid FROM events WHERE keep_until < '2026-01-01'")]
gone = [number for number in due if number not in held]
database.execute("BEGIN")
database.executemany("DELETE FROM events WHERE rowid = ?", [(number,) for number in gone])
database.execute("COMMIT")
database.execute("VACUUM")
(ROOT / "log").mkdir(exist_ok=True)
with open(ROOT / "log/purge.log", "a") as log:
    log.write(f"due {len(due)}, held {len(due) - len(gone)}, removed {len(gone)}\\n")
print(f"removed {len(gone)} events")
'''


def numbers() -> list[int]:
    """Ascending, with the gaps of former purges; six digits at first, seven later."""
    found, number = [], 987_412
    for count in range(EVENTS):
        number += CHANCE.number(1, 3) if CHANCE.number(1, 12) > 1 else CHANCE.number(20, 160)
        if count == EVENTS // 5:
            number = 1_004_100
        found.append(number)
    return found


def moment(count: int) -> str:
    day, minute = divmod(count * 1_577 + CHANCE.number(0, 1_500), 24 * 60)
    return f"{2023 + day // 336}-{1 + day // 28 % 12:02}-{1 + day % 28:02}T{minute // 60:02}:{minute % 60:02}"


def fill(database: sqlite3.Connection, rowids: list[int]) -> None:
    database.execute(
        "CREATE TABLE events (at TEXT NOT NULL, kind TEXT NOT NULL, person TEXT NOT NULL, place TEXT NOT NULL,"
        " keep_until TEXT NOT NULL)"
    )
    for count, number in enumerate(rowids):
        at = moment(count)
        until = f"{int(at[:4]) + CHANCE.number(1, 4)}-{CHANCE.number(1, 12):02}-01"
        row = (at, CHANCE.one_of(KINDS), CHANCE.one_of(PEOPLE), CHANCE.one_of(PLACES), until)
        database.execute("INSERT INTO events (rowid, at, kind, person, place, keep_until) VALUES (?,?,?,?,?,?)",
                         (number, *row))  # fmt: skip
    database.execute("PRAGMA user_version = 7")
    database.commit()


def run(rowids: list[int], first: int, count: int) -> tuple[str, set[int]]:
    """A citation of `count` events that follow one another, if their numbers differ in the last four digits at most."""
    chosen = rowids[first : first + count]
    for digits in (2, 3, 4):
        if chosen[0] // 10**digits == chosen[-1] // 10**digits:
            return f"#{chosen[0]}-{chosen[-1] % 10**digits:0{digits}}", set(chosen)
    return f"#{chosen[0]}", {chosen[0]}


def note(case: str, rowids: list[int]) -> str:
    """Single events and runs, early and late ones, some of them twice."""
    cited, sentences = set[int](), []
    for _ in range(CHANCE.number(2, 4)):
        number = CHANCE.one_of(rowids)
        cited.add(number)
        sentences.append(f"{CHANCE.one_of(PEOPLE).title()} was asked about #{number}, {CHANCE.word(6)} on the tape.")
    for _ in range(CHANCE.number(1, 2)):
        told, members = run(rowids, CHANCE.number(0, EVENTS - 8), CHANCE.number(3, 7))
        cited |= members
        sentences.append(f"The shift book has nothing about {told}.")
    sentences.append(f"Still open: #{max(cited)}.")
    head = f"# {case}\n\nOpened by: {CHANCE.one_of(PEOPLE)}\nEvents: {len(cited)}\n\n"
    return head + "\n".join(CHANCE.shuffled(sentences)) + "\n"


def main() -> None:
    site = Site.of(date=1_767_600_000)
    rowids = numbers()
    with closing(sqlite3.connect(site.root / "events.db")) as database:
        fill(database, rowids)
    (site.root / "events.db").chmod(0o644)
    for number in range(CASES):
        case = f"C-{2024 + number // 14}-{7 + number * 5:03}"
        site.file(f"cases/{case}.md", note(case, rowids))
    site.file("docs/runbook.md", RUNBOOK)
    site.file("tools/citations.py", CITATIONS)
    site.file("tools/purge.py", PURGE)
    site.finish()


main()
