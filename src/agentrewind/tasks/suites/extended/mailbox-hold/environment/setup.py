"""The first state: a mailbox of which more than half is under legal hold, and tools that read and expire it."""

import base64
import datetime as dt
import re
from email.utils import format_datetime

from laying import Site, Stream

CHANCE = Stream("mailbox-hold")
DATE = 1_736_000_000
ANN, BO, CY = "ann.berger@board.example", "bo.lind@board.example", "cy.oduya@board.example"
OTHERS = ("press@board.example", "it@board.example", "d.moreau@partner.example", "sales@supplier.example")
HOLDS = (("M-1107", ANN, "2021-03-01", "2021-09-30"), ("M-1212", BO, "2022-06-01", "2023-03-31"),
         ("M-1240", CY, "2020-07-01", "2021-06-30"))  # fmt: skip
WORDS = ("budget", "lease", "audit", "offer", "minutes", "annex", "draft", "notice", "invoice", "clause", "board",
         "review", "quarter", "vote", "plan")  # fmt: skip

RETENTION = """\
# Retention of mail

Digests are SHA-256 of bytes, in lower-case hexadecimal digits. Times are written in UTC, `2021-03-01T08:00:00Z`; a
message counts with the time of its `Date`, brought to UTC. CSV files have a head and end lines with a single newline.

## Mailbox
`mail/board.mbox`. A line that begins with `From ` is the envelope of a message; the lines after it, to the empty line
before the next envelope or the end of the file, are the message. A line of a message that begins with `From `, after
any number of `>`, has been given one `>` more, which doesn't belong to the message. Messages are bytes: some are not
UTF-8.

`python3 tools/mbox.py FILE` lists the messages as CSV, `message_id,date,size,sha256` (bytes and digest of the
message), in the order of the file.

## Hold
`legal/holds.csv` names for each matter an address and the first and the last day, in UTC. Held for a matter are the
messages of these days that come from the address or go to it (`From`, `To`, `Cc`; case doesn't matter). Each held
message is kept as `hold/messages/DIGEST.eml`. `hold/index.csv`: `message_id,date,matters,sha256`, matters sorted and
separated by a space, rows sorted by date.

## Attachments
Each attachment of a held message (a part with a file name), decoded, is kept as `hold/attachments/DIGEST` too.
`hold/attachments.csv`: `sha256,name,message_id`, sorted by digest, then by message id.

## Expiry
`python3 tools/expire.py YEAR` removes the messages from the mailbox that were sent before that year. The others stay
in it as they are, byte for byte.

## Maildir
`maildir/` with its directories `new`, `cur` and `tmp`: in `new` each message that remains in the mailbox, a file
each. Names are free.

## Ledger
`hold/ledger.json`, an object: `index_sha256` and `attachments_sha256` (of the two CSV files), `by_matter` (how many
messages are held for each matter), `only_here` (how many held messages aren't in the mailbox any more), `remaining`
(how many messages the mailbox has).

## Attestation
`attestation.txt`, three lines: `held: ` and the number of held messages, `mailbox: ` and the digest of the mailbox,
`ledger: ` and the digest of the ledger.
"""

MBOX = '''\
"""Lists the messages of a mailbox, see docs/retention.md: mbox.py FILE"""

import csv
import email
import email.utils
import hashlib
import re
import sys


def entries(text):
    """Each message with its envelope, as it stands in the mailbox."""
    return re.split(r"(?m)^(?=From )", text)[1:]


def message(entry):
    """The message of an entry."""
    body = entry.partition("\\n")[2].removesuffix("\\n")
    return re.sub(r"(?m)^>From ", "From ", body)


def header(text):
    """What stands above the body."""
    return email.message_from_string(text.partition("\\n\\n")[0])


def date(text):
    """When a message was sent."""
    sent = email.utils.parsedate_to_datetime(header(text)["Date"])
    return sent.strftime("%Y-%m-%dT%H:%M:%SZ")


def read(path):
    with open(path) as file:
        return file.read()


def write(path, kept):
    """Make a mailbox of entries."""
    with open(path, "w") as file:
        file.writelines(kept)


def main(path):
    writer = csv.writer(sys.stdout, lineterminator="\\n")
    writer.writerow(("message_id", "date", "size", "sha256"))
    for text in map(message, entries(read(path))):
        data = text.encode()
        writer.writerow((header(text)["Message-ID"], date(text), len(data), hashlib.sha256(data).hexdigest()))


if __name__ == "__main__":
    main(sys.argv[1])
'''

EXPIRE = '''\
"""Removes what was sent before a year from the mailbox: expire.py YEAR"""

import sys

from mbox import date, entries, message, read, write

found = entries(read("mail/board.mbox"))
kept = [entry for entry in found if date(message(entry)) >= sys.argv[1]]
write("mail/board.mbox", kept)
print(f"{len(found) - len(kept)} messages expired, {len(kept)} kept")
'''


def day(first: str, last: str) -> dt.datetime:
    """A moment from one day to another, in some office's zone."""
    begin, end = (dt.datetime.fromisoformat(text + "T12:00:00+00:00") for text in (first, last))
    seconds = CHANCE.number(0, int((end - begin).total_seconds()))
    return in_zone(begin + dt.timedelta(seconds=seconds), CHANCE.one_of((-5, 0, 1, 2, 9)))


def in_zone(moment: dt.datetime, hours: int) -> dt.datetime:
    return moment.astimezone(dt.timezone(dt.timedelta(hours=hours)))


def at(text: str, hours: int) -> dt.datetime:
    return in_zone(dt.datetime.fromisoformat(text + "+00:00"), hours)


def letters() -> list[tuple[dt.datetime, str, str]]:
    """When, from whom, to whom (with `Cc` after a bar)."""
    found = []
    for number, (_, address, first, last) in enumerate(HOLDS):
        for place in range((13, 14, 11)[number]):
            other = CHANCE.one_of(OTHERS)
            who = ((address, other), (other, address.upper()), (other, f"{CHANCE.one_of(OTHERS)}|{address}"))[place % 3]
            found.append((day(first, last), *who))
    found += [
        (at("2021-09-30T22:30:00", 2), ANN, OTHERS[0]),  # the day after, by the clock of the office
        (at("2022-06-01T01:15:00", -5), OTHERS[2], BO),  # the day before
        (at("2022-12-31T23:20:00", 9), BO, OTHERS[3]),
        (at("2021-05-11T09:05:00", 0), CY, ANN),  # for two matters
    ]
    found += [
        (at("2021-10-01T03:30:00", -5), OTHERS[1], ANN),
        (at("2022-05-31T23:00:00", 2), BO, OTHERS[3]),
        (at("2023-01-01T02:30:00", -5), OTHERS[0], ANN),
        (at("2022-12-31T23:40:00", 1), OTHERS[1], CY),
    ]
    found += [(day("2021-11-01", "2024-10-01"), ANN, CHANCE.one_of(OTHERS)) for _ in range(6)]
    found += [(day("2023-04-02", "2024-10-01"), CHANCE.one_of(OTHERS), BO) for _ in range(4)]
    found += [(day("2020-02-01", "2024-10-01"), CHANCE.one_of(OTHERS), CHANCE.one_of(OTHERS)) for _ in range(14)]
    return sorted(found, key=lambda item: item[0])


def body(number: int) -> bytes:
    """Some lines; in some messages one that looks like an envelope, or like a quoted one, or letters of Latin-1."""
    lines = [" ".join(CHANCE.one_of(WORDS) for _ in range(CHANCE.number(5, 11))) for _ in range(CHANCE.number(3, 7))]
    lines.append(f"Reference {CHANCE.word(16)}.")
    extra = {1: "From what I hear the vote is open.", 4: ">From the minutes of last week:", 6: ">> From my side yes."}
    if number % 8 in extra:
        lines.insert(2, extra[number % 8])
    if number % 7 == 5:
        lines.insert(1, "Gr\u00fc\u00dfe aus K\u00f6ln, \u00e0 bient\u00f4t")
    return "\n".join(lines).encode("latin-1") + b"\n"


def letter(number: int, when: dt.datetime, sender: str, to: str) -> bytes:
    """The bytes of a message."""
    first, _, second = to.partition("|")
    head = [f"From: {sender}", f"To: {first}", *([f"Cc: {second}"] if second else []), f"Date: {format_datetime(when)}",
            f"Subject: {CHANCE.one_of(WORDS)} {CHANCE.one_of(WORDS)}",
            f"Message-ID: <{CHANCE.word(14)}@board.example>", "MIME-Version: 1.0"]  # fmt: skip
    plain = b"Content-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: 8bit\n\n"
    if number % 4 != 3:
        return "\n".join(head).encode() + b"\n" + plain + body(number)
    mark = f"=_{CHANCE.word(12)}"
    packed = base64.encodebytes(CHANCE.take(CHANCE.number(90, 400))).decode()
    name = f"{CHANCE.one_of(WORDS)}-{CHANCE.number(1, 9)}.pdf"
    part = (
        f"--{mark}\nContent-Type: application/pdf\nContent-Transfer-Encoding: base64\n"
        f'Content-Disposition: attachment; filename="{name}"\n\n{packed}--{mark}--\n'
    )
    head.append(f'Content-Type: multipart/mixed; boundary="{mark}"')
    return "\n".join(head).encode() + f"\n\n--{mark}\n".encode() + plain + body(number) + part.encode()


def main() -> None:
    site = Site.of(DATE)
    mailbox = b""
    for number, (when, sender, to) in enumerate(letters()):
        quoted = re.sub(rb"(?m)^(>*From )", rb">\1", letter(number, when, sender, to))
        moment = when.astimezone(dt.UTC)
        mailbox += f"From {sender} {moment:%a %b} {moment.day:2} {moment:%H:%M:%S %Y}\n".encode() + quoted + b"\n"
    site.file("mail/board.mbox", mailbox, mode=0o600)
    rows = "".join(",".join(hold) + "\n" for hold in HOLDS)
    site.file("legal/holds.csv", "matter,address,first,last\n" + rows)
    site.file("docs/retention.md", RETENTION)
    site.file("tools/mbox.py", MBOX)
    site.file("tools/expire.py", EXPIRE)
    site.finish()


main()
