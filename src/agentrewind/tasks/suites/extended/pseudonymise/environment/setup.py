"""The first state: tickets and two tables with mail addresses in many spellings, and a tool that replaces them."""

from laying import Site, Stream

CHANCE = Stream("pseudonymise")
DATE = 1_790_000_000
TICKETS, PEOPLE = 48, 31
CITIES, PLANS = ("Aarhus", "Bergen", "Turku"), ("basic", "plus", "team")
FIRST = ["ada", "bo", "cem", "dina", "eli", "finn", "gro", "hugo", "ida", "jon", "kai", "lea"]
LAST = ["aho", "berg", "costa", "dahl", "ek", "falk", "gran", "holm", "ito", "juhl"]
DOMAINS = ("mail.example", "post.example", "office-west.example", "uni.lund.example")
ASKED = ("invoice", "login", "export", "delivery", "password", "contract")

OFFICER = """\
-----BEGIN CERTIFICATE-----
MIIBmjCCAUGgAwIBAgIUJkSzVRdwEF5crWR7rMQbSE2hatwwCgYIKoZIzj0EAwIw
IjEgMB4GA1UEAwwXRGF0YSBwcm90ZWN0aW9uIG9mZmljZXIwIBcNMjYxMjAxMTMz
ODM1WhgPMjEyNjExMDcxMzM4MzVaMCIxIDAeBgNVBAMMF0RhdGEgcHJvdGVjdGlv
biBvZmZpY2VyMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEqLwVUB9cCuR+xDfa
DIUidqxdnJTwa9VFi9t+sYTjAIYocKFkBsiGb18kRPOyu0lijM7hF3JqayEaGP2f
7YPFXaNTMFEwHQYDVR0OBBYEFBUJvEuI4DpVlhK7e0lKr3TOA7OyMB8GA1UdIwQY
MBaAFBUJvEuI4DpVlhK7e0lKr3TOA7OyMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZI
zj0EAwIDRwAwRAIgP5VWzKrVT5y9fxzlUBeoKOZEapnUE20PRLIRkCjmVPkCICgf
RIKPeAImSbFpHjKHD4hZcp2Aw/AM83ig3J9lHhYJ
-----END CERTIFICATE-----
"""

PRIVACY = """\
# Giving data away

Digests are SHA-256 of a file's bytes, in lower-case hexadecimal digits. CSV files have a head and end lines with a
single newline.

## People
A person is a mail address. An address is letters, digits and the characters `.`, `_`, `-`, `+`, then `@`, then two or
more names of letters, digits and `-` with a dot between them. Upper and lower case are the same, and so are addresses
that differ in what stands from a `+` to the `@`: `Nina.Vik+news@Post.example` is the person `nina.vik@post.example`.
This form, in lower case and without the `+` part, stands for the person.

`python3 tools/detect.py FILE...` prints the people in files, a line each, sorted. With `--customers CUSTOMERS` before
the files it prints how many of them are no customers, and fails if there are any; in our data there are none.

## Pseudonyms
`p-` and twelve hexadecimal digits. Each address, as a whole, is replaced by the pseudonym of its person, in all
tickets and both tables; nothing else changes.

`python3 tools/pseudonymise.py [--map MAPPING] FILE...` replaces the people in files, in place. Pseudonyms come from a
key that it makes for the run and forgets, so that two publications can't be linked. With `--map` it uses those of a
mapping, and adds people who aren't in it yet.

## Escrow
A mapping is CSV, `pseudonym,person`. It goes to the officer only: encrypted for the certificate `keys/officer.pem` as
CMS in DER form with AES-256, in `escrow/mapping.cms`. In clear it must not be left anywhere, nor must addresses of
customers.

## Summary
`report/people.csv`: `pseudonym,tickets,payments,cents`, for every customer, sorted by pseudonym: in how many tickets
the pseudonym occurs, how many payments there are and of how much together.

## Risk
`report/risk.json`, an object: `people_sha256` (of `report/people.csv`), `groups` (how many different pairs of city
and plan customers have), `smallest` (the number of customers in the smallest of these groups), `at_risk` (the number
of customers in groups of fewer than three).

## Receipt
`escrow/receipt.txt`, three lines: `mapping: ` and the digest of `escrow/mapping.cms`, `people: ` and the number of
people in it, `risk: ` and the digest of `report/risk.json`.
"""

DETECT = '''\
"""Finds people in files, see docs/privacy.md: detect.py [--customers CUSTOMERS] FILE..."""

import re
import sys

ADDRESS = re.compile(r"\\b[a-z0-9.]+@[a-z0-9.]+[a-z0-9]")


def person(address):
    """Whose address it is."""
    return address


def people(names):
    """Everybody in these files."""
    found = set()
    for name in names:
        with open(name) as file:
            found.update(person(address) for address in ADDRESS.findall(file.read()))
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["--customers"]:
        strangers = people(sys.argv[3:]) - people(sys.argv[2:3])
        print(f"{len(strangers)} people are no customers")
        raise SystemExit(bool(strangers))
    for name in sorted(people(sys.argv[1:])):
        print(name)
'''

REPLACE = '''\
"""Replaces people in files by pseudonyms, see docs/privacy.md: pseudonymise.py [--map MAPPING] FILE..."""

import csv
import hmac
import os
import sys

from detect import ADDRESS, person

names = sys.argv[1:]
mapping, known = "", {}
if names[0] == "--map":
    _, mapping, *names = names
    if os.path.exists(mapping):
        with open(mapping, newline="") as file:
            known = {row["person"]: row["pseudonym"] for row in csv.DictReader(file)}
key = os.urandom(32)


def pseudonym(address):
    name = person(address)
    return known.setdefault(name, "p-" + hmac.new(key, name.encode(), "sha256").hexdigest()[:12])


for name in names:
    with open(name) as file:
        text = file.read()
    with open(name, "w") as file:
        file.write(ADDRESS.sub(lambda found: pseudonym(found[0]), text))
if mapping:
    with open(mapping, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\\n")
        writer.writerow(("pseudonym", "person"))
        writer.writerows((known[name], name) for name in sorted(known))
'''


def spelt(address: str) -> str:
    """As people write their address."""
    name, _, domain = address.partition("@")
    way = CHANCE.number(0, 7)
    if way == 0:
        return f"{name.title()}@{domain}"
    if way == 1:
        return f"{name}+{CHANCE.one_of(('shop', 'news', 'Invoices'))}@{domain}"
    if way == 2:
        return f"{name}@{domain.title()}"
    return address.upper() if way == 3 else address


def everybody() -> list[str]:
    found: dict[str, None] = {}
    while len(found) < PEOPLE:
        first, last = CHANCE.one_of(FIRST), CHANCE.one_of(LAST)
        mark = CHANCE.one_of((".", "_", "-", "."))
        found[f"{first}{mark}{last}@{CHANCE.one_of(DOMAINS)}"] = None
    return list(found)


def ticket(number: int, people: list[str]) -> str:
    first, second = CHANCE.shuffled(people)[:2]
    asked = CHANCE.one_of(ASKED)
    lines = [f"From: {spelt(first)}", f"Ticket: {1000 + number}", f"Subject: {asked}", "", f"My {asked} doesn't work."]
    if number % 3 == 0:
        lines.append(f"Please write to {spelt(second)}, who is in the office, or to me ({spelt(first)}).")
    if number % 5 == 1:
        lines.append(f"The account is in the name of {spelt(second)}.")
    lines.append(f"Call {CHANCE.number(2000, 9000)} @ noon.")
    return "\n".join(lines) + "\n"


def main() -> None:
    site = Site.of(DATE)
    people = everybody()
    for number in range(1, TICKETS + 1):
        site.file(f"tickets/{1000 + number}.txt", ticket(number, people))
    customers = [f"{spelt(name)},{CHANCE.one_of(CITIES)},{CHANCE.one_of(PLANS)}\n" for name in CHANCE.shuffled(people)]
    site.file("data/customers.csv", "email,city,plan\n" + "".join(customers))
    payments = [f"{number},{spelt(CHANCE.one_of(people))},{CHANCE.number(900, 90000)}\n" for number in range(301, 391)]
    site.file("data/payments.csv", "number,email,cents\n" + "".join(payments))
    site.file("keys/officer.pem", OFFICER)
    site.file("docs/privacy.md", PRIVACY)
    site.file("tools/detect.py", DETECT)
    site.file("tools/pseudonymise.py", REPLACE)
    site.finish()


main()
