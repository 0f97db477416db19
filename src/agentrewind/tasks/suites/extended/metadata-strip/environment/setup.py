"""The first state: pictures with private texts in them, consents, a reader with two defects, a tool that strips."""

import struct
import zlib

from laying import Site, Stream

CHANCE = Stream("metadata-strip")
PICTURES, PERSONS = 28, 11

RUNBOOK = """\
# From the field to the gallery

Digests are SHA-256 of a file's bytes, in lower-case hexadecimal digits. CSV files have a head, commas and line ends of
one `\\n`.

## Reader
`tools/pngmeta.py` reads what is embedded in pictures, see `docs/png.md`. `python3 tools/pngmeta.py FILE...` prints the
texts of these files as JSON, `--check` says whether subject and time of all of `photos/` can be read.

## Index
`private/index.csv`: `file,subject,taken`, one row a picture, by name; subject and time as they are embedded (`Subject`
and `Creation Time`). `private/` stays in the house.

## Stripping
`python3 tools/strip.py` rewrites the pictures in `photos/` without anything that isn't needed to show them, and lists
in `reports/strip.json` what they consist of now. What shows a picture (`IHDR`, `PLTE`, `IDAT`, `gAMA`, `pHYs`) stays as
it is, byte for byte; besides it there is only `IEND`, and nothing behind that.

## Gallery
`gallery.json`, a list of objects with `file`, `width`, `height` and `sha256` (of the stripped picture): the pictures of
persons whose scope in `consents.csv` is `public`, in the order in which they were taken. The others stay in `photos/`
and are not listed.

## Ledger
`private/ledger.csv`: `subject,scope,pictures,shown`, one row for each person who is on a picture, by subject. The scope
of a person who is not in `consents.csv` is `none`; `shown` counts the pictures in the gallery.

## Attestation
`attestation.txt`, four lines: `index: `, `stripped: `, `gallery: ` and `ledger: `, with the digests of
`private/index.csv`, `reports/strip.json`, `gallery.json` and `private/ledger.csv`.
"""

PNG = """\
# Our pictures

The eight bytes `89 50 4E 47 0D 0A 1A 0A`, then chunks until `IEND`. All numbers are big-endian.

    chunk    u32 length of the content, four letters of kind, the content, u32 CRC-32 of kind and content
    tEXt     keyword, a zero byte, text; keyword and text are Latin-1
    zTXt     keyword, two zero bytes, text as above, compressed by zlib

Some cameras write a text as `tEXt`, some as `zTXt`, the keywords are the same. Other kinds of chunks are skipped by the
reader, and so is what some cameras leave behind `IEND`. `texts(data)` gives a dictionary, or raises `Damaged` with one
of these as its text, the first that applies while reading from the front: `no PNG` (other first bytes), `truncated`
(the file ends before `IEND` is complete), `checksum` (a CRC differs).
"""

PNGMETA = '''\
"""What is embedded in pictures: pngmeta.py FILE... | pngmeta.py --check"""

import json
import pathlib
import struct
import sys
import zlib

SIGNATURE = bytes.fromhex("89504e470d0a1a0a")


class Damaged(ValueError):
    """No picture as docs/png.md has it."""


def chunks(data):
    """Kind and content of each chunk."""
    if data[:8] != SIGNATURE:
        raise Damaged("no PNG")
    at, found, kind = 8, [], b""
    while kind != b"IEND":
        size = int.from_bytes(data[at : at + 4], "big")
        if at + 12 + size > len(data):
            raise Damaged("truncated")
        kind, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        at += 12 + size
        if struct.unpack(">I", data[at - 4 : at])[0] != zlib.crc32(content):
            raise Damaged("checksum")
        found.append((kind, content))
    return found


def texts(data):
    """The embedded texts by their keywords."""
    found = {}
    for kind, content in chunks(data):
        keyword, _, text = content.partition(b"\\0")
        if kind == b"tEXt":
            found[keyword.decode("latin-1")] = text.decode("latin-1")
    return found


def check(paths):
    for path in paths:
        try:
            embedded = texts(path.read_bytes())
        except Damaged as error:
            sys.exit(f"{path.name}: {error}")
        if missing := {"Subject", "Creation Time"} - set(embedded):
            sys.exit(f"{path.name}: no {' and no '.join(sorted(missing))}")
    print(f"{len(paths)} pictures, all with subject and time")


if __name__ == "__main__":
    if "--check" in sys.argv:
        check(sorted((pathlib.Path(__file__).resolve().parent.parent / "photos").glob("*.png")))
    else:
        print(json.dumps({name: texts(pathlib.Path(name).read_bytes()) for name in sys.argv[1:]}, indent=1))
'''

STRIP = '''\
"""Rewrites the pictures in photos/ without anything that isn't needed to show them."""

import hashlib
import json
import pathlib
import struct
import zlib

from pngmeta import SIGNATURE, chunks

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHOWN = (b"IHDR", b"PLTE", b"IDAT", b"gAMA", b"pHYs", b"IEND")

report = {}
for path in sorted((ROOT / "photos").glob("*.png")):
    kept = [(kind, content) for kind, content in chunks(path.read_bytes()) if kind in SHOWN]
    parts = [struct.pack(">I", len(c)) + k + c + struct.pack(">I", zlib.crc32(k + c)) for k, c in kept]
    data = SIGNATURE + b"".join(parts)
    path.write_bytes(data)
    report[path.name] = {"chunks": [k.decode() for k, _ in kept], "sha256": hashlib.sha256(data).hexdigest()}
(ROOT / "reports").mkdir(exist_ok=True)
(ROOT / "reports/strip.json").write_text(json.dumps(report, indent=1) + "\\n")
print(f"{len(report)} pictures stripped")
'''


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def stored(data: bytes) -> bytes:
    """A zlib stream that doesn't compress: the same whichever zlib is at hand."""
    size = len(data)
    return b"\x78\x01\x01" + struct.pack("<HH", size, size ^ 0xFFFF) + data + struct.pack(">I", zlib.adler32(data))


def text(keyword: bytes, value: str, *, compressed: bool) -> bytes:
    if compressed:
        return chunk(b"zTXt", keyword + b"\0\0" + stored(value.encode("latin-1")))
    return chunk(b"tEXt", keyword + b"\0" + value.encode("latin-1"))


def picture(number: int, subject: str, taken: str) -> bytes:
    """Of one of four cameras: grey or in colours, with texts here or there, and sometimes something behind the end."""
    width, height, colours = 12 + CHANCE.number(0, 12), 8 + CHANCE.number(0, 8), CHANCE.one_of((1, 3))
    lines = b"".join(b"\0" + CHANCE.take(width * colours) for _ in range(height))
    camera = number % 4
    embedded = [
        text(b"Subject", subject, compressed=camera == 2),
        text(b"Creation Time", taken, compressed=camera == 3),
        chunk(b"gpSx", CHANCE.take(16)),
    ]
    head = struct.pack(">IIBBBBB", width, height, 8, 0 if colours == 1 else 2, 0, 0, 0)
    parts = [chunk(b"IHDR", head), chunk(b"gAMA", struct.pack(">I", 45455))]
    parts += embedded[:2] if camera else []
    parts += [chunk(b"pHYs", struct.pack(">IIB", 2835, 2835, 1)), chunk(b"IDAT", stored(lines)), embedded[2]]
    parts += [] if camera else embedded[:2]
    behind = b"THMB" + CHANCE.take(40) if number % 9 == 5 else b""
    return bytes.fromhex("89504e470d0a1a0a") + b"".join(parts) + chunk(b"IEND", b"") + behind


def times() -> list[str]:
    """No two are equal, and they don't follow the names."""
    days = CHANCE.shuffled(range(PICTURES))
    clock = [(CHANCE.number(6, 19), CHANCE.number(0, 59), CHANCE.number(0, 59)) for _ in days]
    return [
        f"2025-{5 + day // 20:02}-{1 + day % 20:02}T{h:02}:{m:02}:{s:02}"
        for day, (h, m, s) in zip(days, clock, strict=True)
    ]


def consents(persons: list[str]) -> str:
    """Of most of those who are on pictures, and of two who aren't."""
    scopes = ("public", "internal", "public", "public")
    rows = [(person, scopes[number % 4]) for number, person in enumerate(persons[:-2])]
    rows += [(f"P{CHANCE.word(8)}", "public") for _ in range(2)]
    lines = [f"{person},{scope},2025-04-{CHANCE.number(1, 30):02}\n" for person, scope in sorted(rows)]
    return "subject,scope,signed\n" + "".join(lines)


def main() -> None:
    site = Site.of(date=1_750_000_000)
    persons = [f"P{CHANCE.word(8)}" for _ in range(PERSONS)]
    subjects = CHANCE.shuffled([persons[number % PERSONS] for number in range(PICTURES)])
    for number, (subject, taken) in enumerate(zip(subjects, times(), strict=True)):
        site.file(f"photos/plate-{number + 1:02}.png", picture(number, subject, taken))
    site.file("consents.csv", consents(persons))
    site.file("docs/runbook.md", RUNBOOK)
    site.file("docs/png.md", PNG)
    site.file("tools/pngmeta.py", PNGMETA)
    site.file("tools/strip.py", STRIP)
    site.finish()


main()
