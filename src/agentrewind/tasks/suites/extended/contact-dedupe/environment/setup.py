"""The first state: three lists of people that disagree, a normaliser with two defects, a tool that merges in place."""

import csv
import io

from laying import Site, Stream

CHANCE = Stream("contact-dedupe")
LISTS = ("shop", "newsletter", "events")
PERSONS, CONFLICTS, BLANKS = 70, 37, 8
FIRST = ("ada", "ben", "cleo", "dora", "emil", "fay", "gus", "hal", "ida", "jon")
LAST = ("abel", "brandt", "costa", "dietz", "ekberg", "fink", "grau")
STREETS = ("Lindenweg", "Hafenstr.", "Am Markt", "Ringstr.", "Gartenweg")
TOWNS = ("Halle", "Jena", "Gera", "Suhl")
TAGS = ("+news", "+shop", "+2024", "+events")

RUNBOOK = """\
# Merging the lists

Digests are SHA-256 of a file's bytes, in lower-case hexadecimal digits. CSV files have a head, commas and line ends of
one `\\n`. The order of the lists is shop, newsletter, events.

## Normal form
Rows with the same mail address in normal form are one person. `tools/normalise.py` has `mail(text)` and `phone(text)`:

- a mail address has no blanks around it and small letters only, and what begins with a `+` before the `@` is left out:
  ` Ada.Abel+news@Example.org` is `ada.abel@example.org`;
- a phone number is written with nothing but digits after the `+` of its country. `(0)` is left out; then `00` at the
  beginning is a `+`, and another `0` there stands for `+49`: `0049 (0) 345/1234`, `+49 345 1234` and `0345-1234` are
  `+493451234`. No number is an empty text.

## What is kept
The first row of a person, in the order of the lists and of their rows, is kept, and the others are dropped. A phone
number or an address that it lacks comes from the first row of the person that has one.

## Conflicts
`merged/conflicts.csv`: `mail,field,kept,list,id,dropped`, for each dropped row that has another phone number or address
than is kept; the field is `phone` or `address`, `kept` and `dropped` are the two values, numbers in normal form.
A value that is missing is no conflict. In the order of the dropped rows, phone before address.

## Ids
`merged/ids.csv`: `list,id,mail`, for every row of the three lists as they came, in their order: the id as it stands
there, digit for digit, and the mail address in normal form.

## Merging
`python3 tools/merge.py [--ids FORM]` leaves in each of `lists/*.csv` the rows that are kept, in normal form. Ids are
written as numbers if nothing else is said, as the old mailing system wanted them; `--ids text` leaves them as they are.
On our cards `0417` and `00417` are two people.

## Contacts
`merged/contacts.csv`: `mail,name,phone,address,sources`, one row a person, by mail address, as in the merged lists.
`sources` are all rows of the person as `LIST:ID` in their order, with one blank between.

## Counts
`merged/counts.json`, an object: `rows` and `kept`, objects with the numbers of rows of each list before and after,
`persons`, `conflicts` (their number), and the digests `conflicts_sha256`, `ids_sha256` and `contacts_sha256`.

## Sign-off
`signoff.txt`, two lines: `counts: ` and the digest of the counts, `dropped: ` and how many rows were dropped in all.
"""

NORMALISE = '''\
"""The normal form of mail addresses and phone numbers, see docs/runbook.md."""

import re


def mail(text):
    return text.strip().lower()


def phone(text):
    digits = re.sub("[^0-9+]", "", text)
    if digits.startswith("00"):
        return "+" + digits[2:]
    if digits.startswith("0"):
        return "+49" + digits[1:]
    return digits
'''

MERGE = '''\
"""Leaves one row a person in lists/, see docs/runbook.md: merge.py [--ids number|text]"""

import argparse
import csv
import pathlib

from normalise import mail, phone

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--ids", choices=("number", "text"), default="number")
as_numbers = parser.parse_args().ids == "number"
place = pathlib.Path(__file__).resolve().parent.parent / "lists"
people, lists = {}, {}
for name in ("shop", "newsletter", "events"):
    lists[name] = []
    with open(place / f"{name}.csv", newline="") as file:
        for row in csv.DictReader(file):
            row["mail"], row["phone"] = mail(row["mail"]), phone(row["phone"])
            if as_numbers:
                row["id"] = int(row["id"])
            first = people.setdefault(row["mail"], row)
            if first is row:
                lists[name].append(row)
            for field in ("phone", "address"):
                first[field] = first[field] or row[field]
for name, rows in lists.items():
    with open(place / f"{name}.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, ("id", "name", "mail", "phone", "address"), lineterminator="\\n")
        writer.writeheader()
        writer.writerows(rows)
    print(f"{name}: {len(rows)} rows")
'''

Row = dict[str, str]


def number() -> str:
    return CHANCE.one_of(("345", "3641", "171")) + "".join(str(CHANCE.number(0, 9)) for _ in range(7))


def address() -> str:
    return f"{CHANCE.number(10000, 99999)} {CHANCE.one_of(TOWNS)}, {CHANCE.one_of(STREETS)} {CHANCE.number(1, 90)}"


def people() -> list[Row]:
    names = CHANCE.shuffled([(first, last) for first in FIRST for last in LAST])[:PERSONS]
    return [
        {
            "name": f"{first.title()} {last.title()}",
            "mail": f"{first}.{last}@example.org",
            "phone": number(),
            "address": address(),
        }
        for first, last in names
    ]


def written(row: Row) -> Row:
    """As somebody typed it."""
    local, _, domain = row["mail"].partition("@")
    local = CHANCE.one_of((local, local.title(), local + CHANCE.one_of(TAGS), local + CHANCE.one_of(TAGS)))
    area = 3 if row["phone"].startswith(("345", "171")) else 4
    forms = ("0{} {}", "0{}/{}", "+49 {} {}", "+49 (0) {} {}", "0049 {}-{}")
    typed = CHANCE.one_of(forms).format(row["phone"][:area], row["phone"][area:]) if row["phone"] else ""
    return {**row, "mail": f"{local}@{domain}", "phone": typed}


def rows() -> list[tuple[str, Row]]:
    """Of all lists, in their order: a person stands in one to three of them, and in the newsletter's at times twice."""
    found: dict[str, list[Row]] = {name: [] for name in LISTS}
    subsets = (("shop",), ("events",), ("newsletter", "newsletter"), ("shop", "newsletter"), ("newsletter", "events"),
               ("shop", "events"), ("shop", "newsletter", "events"))  # fmt: skip
    for place, person in enumerate(people()):
        for name in subsets[place % len(subsets)]:
            found[name].append(dict(person))
    return [(name, row) for name in LISTS for row in CHANCE.shuffled(found[name])]


def disagreeing(flat: list[tuple[str, Row]]) -> None:
    """Change what later rows of a person say, and take something from first rows that the only other one still has."""
    groups: dict[str, list[Row]] = {}
    for _, row in flat:
        groups.setdefault(row["mail"], []).append(row)
    later = [(row, field) for group in groups.values() for row in group[1:] for field in ("phone", "address")]
    chosen = CHANCE.shuffled(later)[:CONFLICTS]
    for row, field in chosen:
        row[field] = number() if field == "phone" else address()
    changed = {(id(row), field) for row, field in chosen}
    pairs = [group for group in groups.values() if len(group) == 2]
    same = [(group[0], f) for group in pairs for f in ("phone", "address") if (id(group[1]), f) not in changed]
    for row, field in CHANCE.shuffled(same)[:BLANKS]:
        row[field] = ""


def ids() -> list[str]:
    """Different as texts; many are the same as numbers."""
    numbers = [CHANCE.number(3, 9999) for _ in range(90)]
    found = [f"{value:0{width}}" for value in numbers for width in (4, 5, 6)]
    return CHANCE.shuffled(list(dict.fromkeys(found)))


def main() -> None:
    site = Site.of(date=1_710_000_000)
    flat = rows()
    disagreeing(flat)
    numbered = [(name, {"id": key, **written(row)}) for (name, row), key in zip(flat, ids(), strict=False)]
    for name in LISTS:
        text = io.StringIO()
        writer = csv.DictWriter(text, ("id", "name", "mail", "phone", "address"), lineterminator="\n")
        writer.writeheader()
        writer.writerows(row for place, row in numbered if place == name)
        site.file(f"lists/{name}.csv", text.getvalue())
    site.file("docs/runbook.md", RUNBOOK)
    site.file("tools/normalise.py", NORMALISE)
    site.file("tools/merge.py", MERGE)
    site.finish()


main()
