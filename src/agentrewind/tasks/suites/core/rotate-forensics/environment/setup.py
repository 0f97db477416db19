"""The first state: four generations of a log in two forms, a parser with two defects, a report that rotates first."""

import datetime as dt

from laying import Site, Stream

CHANCE = Stream("rotate-forensics")
BEGIN = dt.datetime(2026, 2, 2, 6, 0, tzinfo=dt.UTC)
DOORS = ("north", "south", "lab", "archive", "garage")
BY_GENERATION = {3: 12, 2: 9, 1: 8, 0: 7}
OTHERS = 40

RUNBOOK = """\
# Runbook of the door system

Digests are SHA-256 of a file's bytes, in lower-case hexadecimal digits. Times are written in UTC,
`2026-02-02T06:00:00Z`.

## Log
`logs/gate.log` is the present generation, `gate.log.1` the one before, and so on; the highest number is the oldest. An
entry of the present release is

    2026-02-16T10:12:47+01:00 gate DENY card=C-1f00aa door=lab

with the local time and its distance from UTC. The previous release wrote seconds since 1970 and other separators:

    1770012345|gate|DENY|C-1f00aa|lab

`tools/parse_log.py FILE...` prints the entries of both forms as CSV, `time,action,card,door`, in the order of the
files.

## Timeline
`forensics/timeline.csv`, `time,generation,action,card,door`: every entry of the cards of the ticket, in all generations
as they are at the beginning of the case, by time (no two are equal). The generation is its number then, 0 for the
present.

## Archive
`forensics/logs/`: a copy of each generation as it is at the beginning of the case, under its name there, byte for byte.
`forensics/index.json`: a list of objects `file`, `sha256` and `entries` (how many the copy has), sorted by `file`.

## Weekly report
`make report` closes the present generation (`tools/rotate.py` moves each one place on and keeps as many closed ones as
`config/rotate.toml` says; an empty log is not rotated) and writes `report/weekly.csv` from the three newest closed
ones.

## Retention
`keep` in `config/rotate.toml`. After a case it is set to 12; nothing else in the file changes.

## Postmortem
`postmortem.md`, with the lines `Timeline: `, `Archive: `, `Report: ` (digests of the timeline, the index, the report),
`Entries: ` (of the timeline), `First: ` and `Last: ` (their times).
"""

PARSER = '''\
"""Prints the entries of logs as CSV: parse_log.py FILE..."""

import csv
import datetime as dt
import re
import sys

ENTRY = re.compile(r"(\\S{19})([+-]\\d\\d:\\d\\d) gate (\\w+) card=(\\S+) door=(\\S+)")


def parse(line):
    """Time, action, card and door of an entry."""
    found = ENTRY.fullmatch(line)
    if not found:
        raise ValueError(f"no entry: {line!r}")
    stamp, zone, action, card, door = found.groups()
    time = dt.datetime.fromisoformat(stamp)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ"), action, card, door


def main(files):
    writer = csv.writer(sys.stdout, lineterminator="\\n")
    writer.writerow(("time", "action", "card", "door"))
    for name in files:
        with open(name) as file:
            writer.writerows(parse(line.rstrip("\\n")) for line in file)


if __name__ == "__main__":
    main(sys.argv[1:])
'''

ROTATE = '''\
"""Closes the present generation of the log and moves the others one place on."""

import pathlib
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
KEEP = tomllib.loads((ROOT / "config/rotate.toml").read_text())["keep"]
log = ROOT / "logs/gate.log"
if log.stat().st_size:
    log.with_name(f"gate.log.{KEEP}").unlink(missing_ok=True)
    for number in range(KEEP - 1, 0, -1):
        if log.with_name(f"gate.log.{number}").exists():
            log.with_name(f"gate.log.{number}").rename(log.with_name(f"gate.log.{number + 1}"))
    log.rename(log.with_name("gate.log.1"))
    log.touch()
'''

REPORT = '''\
"""Counts what happened at each door in the three newest closed generations."""

import collections
import csv
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from parse_log import parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
counts = collections.Counter()
for number in (1, 2, 3):
    for line in (ROOT / f"logs/gate.log.{number}").read_text().splitlines():
        _, action, _, door = parse(line)
        counts[door, action] += 1
(ROOT / "report").mkdir(exist_ok=True)
with open(ROOT / "report/weekly.csv", "w", newline="") as file:
    writer = csv.writer(file, lineterminator="\\n")
    writer.writerow(("door", "action", "count"))
    writer.writerows((door, action, count) for (door, action), count in sorted(counts.items()))
'''

MAKEFILE = """\
report:
	python3 tools/rotate.py
	python3 tools/report.py

test:
	python3 -m unittest discover -s tests

.PHONY: report test
"""

TESTS = """\
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
from parse_log import parse


class ParserTest(unittest.TestCase):
    def test_the_present_form(self):
        found = parse("2026-02-16T10:12:47+00:00 gate DENY card=C-1 door=lab")
        self.assertEqual(found, ("2026-02-16T10:12:47Z", "DENY", "C-1", "lab"))

    def test_anything_else_is_refused(self):
        with self.assertRaises(ValueError):
            parse("gate DENY")


if __name__ == "__main__":
    unittest.main()
"""


def card() -> str:
    return f"C-{CHANCE.word(12)}"


def generation(number: int, cloned: tuple[str, str], first: int) -> str:
    """Entries in order, one every few minutes; those of the cloned cards among them."""
    staff = [card() for _ in range(8)]
    who = [CHANCE.one_of(cloned) for _ in range(BY_GENERATION[number])] + [CHANCE.one_of(staff) for _ in range(OTHERS)]
    lines = []
    for place, name in enumerate(CHANCE.shuffled(who)):
        time = BEGIN + dt.timedelta(seconds=(first + place) * 611 + CHANCE.number(0, 600))
        action, door = CHANCE.one_of(("OPEN", "OPEN", "DENY")), CHANCE.one_of(DOORS)
        if number == 3 or (number == 2 and place < 15):
            lines.append(f"{int(time.timestamp())}|gate|{action}|{name}|{door}\n")
        else:
            zone = CHANCE.one_of((1, 2))
            local = time + dt.timedelta(hours=zone)
            lines.append(f"{local:%Y-%m-%dT%H:%M:%S}+0{zone}:00 gate {action} card={name} door={door}\n")
    return "".join(lines)


def main() -> None:
    site = Site.of(date=int(BEGIN.timestamp()) + 20 * 86_400)
    cloned = (card(), card())
    for place, number in enumerate((3, 2, 1, 0)):
        name = "logs/gate.log" + (f".{number}" if number else "")
        date = int(BEGIN.timestamp()) + (place + 1) * 40_000
        site.file(name, generation(number, cloned, place * 60), date=date)
    site.file("ticket.md", f"# Cloned cards\n\nCards: {cloned[0]} and {cloned[1]}. Their owners were on holiday.\n")
    site.file("docs/runbook.md", RUNBOOK)
    site.file("config/rotate.toml", '# Of closed generations.\nkeep = 3\nowner = "facilities"\n')
    site.file("tools/parse_log.py", PARSER)
    site.file("tools/rotate.py", ROTATE)
    site.file("tools/report.py", REPORT)
    site.file("tests/test_parse_log.py", TESTS)
    site.file("Makefile", MAKEFILE)
    site.finish()


main()
