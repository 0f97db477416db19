"""The first state: a reader with two defects, twelve sound recordings and six damaged ones, and a catalogue tool."""

import struct
import zlib

from laying import Site, Stream

CHANCE = Stream("fixture-catalog")

FORMAT = """\
# Recordings (`.grd`)

    file     the four bytes GRD1, a header, sections until the end of the file
    header   u16 length of the label, the label (ASCII), u32 number of sections
    section  four bytes of kind, u32 length of the payload, the payload,
             u32 CRC-32 of everything of the section before it (kind, length and payload)

All numbers are big-endian. Kinds are `TEMP`, `WIND` and `RAIN`, each at most once. A reader refuses a file, with one of
these words as the reason, the first that applies while reading from the front:

| reason | what is wrong |
| --- | --- |
| `label` | a byte of the label is no ASCII |
| `truncated` | the file ends before what it announces |
| `kind` | a section of another kind |
| `duplicate` | a kind for the second time |
| `crc` | a checksum that differs |
| `trailing` | bytes after the last section |
"""

RUNBOOK = """\
# Runbook of gridlib

Digests are SHA-256 of a file's bytes, in lower-case hexadecimal digits. Paths are relative to the top of the project.

## Reader
`gridlib/container.py`, described by `docs/format.md`. `python3 -m unittest discover -s tests` passes when it is right.

## Baseline
`python3 tools/survey.py --json samples` prints what the reader says about all samples, and a digest over their names
and contents. Keep it, exactly as printed, as `baseline/survey.json`.

## Catalogue
`python3 tools/catalog.py [--mode MODE]` writes `catalog/catalog.json`. The mode says what becomes of recordings that
the reader refuses:

- `repair` (if none is given; the stations use it): write them again with what could be read, and list them as readable;
- `strict`: stop at the first;
- `quarantine`: list them as malformed, with the reason, and put a copy into `quarantine/` under the name of the file.

## Ledger
`ledger.json`, an object: `baseline_sha256` and `catalog_sha256`, the digests of these two files; `readable`, the number
of readable recordings in the catalogue; `quarantined`, a list of objects with `file` (the name alone), `reason` and
`sha256` (of the copy), one for each file in `quarantine/`, sorted by name.

## Changes
Under `## Unreleased` in `CHANGES.md`: what was repaired, in a line or two, and a line `Ledger: DIGEST` with the digest
of the ledger. What stands under older versions stays as it is.

## Attestation
`attestation.txt`, three lines: `samples: ` and the `samples_sha256` of the baseline, `catalog: ` and the digest of the
catalogue, `changes: ` and the digest of `CHANGES.md`.
"""

READER = '''\
"""Reads recordings, see docs/format.md."""

import struct
import zlib
from dataclasses import dataclass, field

KINDS = (b"TEMP", b"WIND", b"RAIN")


class Malformed(ValueError):
    """The reason is the argument; `partial` holds what could be read before."""

    def __init__(self, reason, partial):
        super().__init__(reason)
        self.reason, self.partial = reason, partial


@dataclass
class Recording:
    label: str = ""
    sections: dict = field(default_factory=dict)


def read(data):
    found = Recording()
    at = 4

    def take(size):
        nonlocal at
        if data[:4] != b"GRD1" or at + size > len(data):
            raise Malformed("truncated", found)
        at += size
        return data[at - size : at]

    def number(form):
        return struct.unpack("<" + form, take(struct.calcsize("<" + form)))[0]

    label = take(number("H"))
    found.label = label.decode("ascii", "replace").replace("\\ufffd", "?")
    if not label.isascii():
        number("I")
        raise Malformed("label", found)
    for _ in range(number("I")):
        begin = at
        kind = take(4)
        payload = take(number("I"))
        checksum = zlib.crc32(payload)
        stored = number("I")
        if kind not in KINDS:
            raise Malformed("kind", found)
        if kind in found.sections:
            raise Malformed("duplicate", found)
        if stored != checksum:
            raise Malformed("crc", found)
        found.sections[kind] = payload
    if at < len(data):
        raise Malformed("trailing", found)
    return found


def write(recording):
    """The bytes of a recording."""
    label = recording.label.encode("ascii")
    parts = [b"GRD1", struct.pack(">H", len(label)), label, struct.pack(">I", len(recording.sections))]
    for kind, payload in recording.sections.items():
        section = kind + struct.pack(">I", len(payload)) + payload
        parts += [section, struct.pack(">I", zlib.crc32(section))]
    return b"".join(parts)
'''

TESTS = """\
import pathlib
import unittest

from gridlib.container import Malformed, Recording, read, write

ROOT = pathlib.Path(__file__).resolve().parent.parent


class ReaderTest(unittest.TestCase):
    def test_what_is_written_is_read(self):
        recording = Recording("Oslo", {b"TEMP": b"\\x00\\x01", b"RAIN": b""})
        self.assertEqual(read(write(recording)), recording)

    def test_all_reference_recordings_are_readable(self):
        for path in sorted((ROOT / "samples/reference").glob("*.grd")):
            self.assertEqual(len(read(path.read_bytes()).sections), 3, path.name)

    def test_a_flipped_bit_is_refused(self):
        data = bytearray(write(Recording("Oslo", {b"WIND": bytes(8)})))
        data[-6] ^= 1
        with self.assertRaisesRegex(Malformed, "crc"):
            read(bytes(data))


if __name__ == "__main__":
    unittest.main()
"""

SURVEY = '''\
"""What the reader says about recordings: survey.py [--json] DIRECTORY"""

import collections
import hashlib
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from gridlib.container import Malformed, read

as_json = "--json" in sys.argv
paths = sorted(pathlib.Path(sys.argv[-1]).rglob("*.grd"))
reasons, digest = collections.Counter(), hashlib.sha256()
for path in paths:
    data = path.read_bytes()
    digest.update(f"{hashlib.sha256(data).hexdigest()} {path.name}\\n".encode())
    try:
        read(data)
    except Malformed as error:
        reasons[error.reason] += 1
readable = len(paths) - reasons.total()
if as_json:
    print(json.dumps({"recordings": len(paths), "readable": readable, "reasons": dict(sorted(reasons.items())),
                      "samples_sha256": digest.hexdigest()}, indent=2))
else:
    refused = "".join(f", {count} {reason}" for reason, count in sorted(reasons.items()))
    print(f"{readable} of {len(paths)} readable{refused}")
    sys.exit(readable < len(paths))
'''

CATALOG = '''\
"""Makes the catalogue of all recordings; docs/runbook.md describes the modes."""

import argparse
import hashlib
import json
import pathlib
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from gridlib.container import Malformed, read, write

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--mode", choices=("repair", "strict", "quarantine"), default="repair")
mode = parser.parse_args().mode
catalog = {"readable": [], "malformed": []}
for path in sorted((ROOT / "samples").rglob("*.grd")):
    name, data = str(path.relative_to(ROOT)), path.read_bytes()
    try:
        recording = read(data)
    except Malformed as error:
        if mode == "strict":
            sys.exit(f"{name}: {error.reason}")
        if mode == "quarantine":
            (ROOT / "quarantine").mkdir(exist_ok=True)
            shutil.copy2(path, ROOT / "quarantine")
            entry = {"file": name, "reason": error.reason, "sha256": hashlib.sha256(data).hexdigest()}
            catalog["malformed"].append(entry)
            continue
        recording = error.partial
        data = write(recording)
        path.write_bytes(data)
    entry = {"file": name, "station": recording.label, "sections": [kind.decode() for kind in recording.sections]}
    catalog["readable"].append({**entry, "sha256": hashlib.sha256(data).hexdigest()})
(ROOT / "catalog").mkdir(exist_ok=True)
(ROOT / "catalog/catalog.json").write_text(json.dumps(catalog, indent=2) + "\\n")
print(f"{len(catalog['readable'])} readable, {len(catalog['malformed'])} malformed")
'''


def section(kind: bytes, payload: bytes) -> bytes:
    head = kind + struct.pack(">I", len(payload)) + payload
    return head + struct.pack(">I", zlib.crc32(head))


def recording(label: bytes, *sections: bytes) -> bytes:
    return b"GRD1" + struct.pack(">H", len(label)) + label + struct.pack(">I", len(sections)) + b"".join(sections)


def measured() -> bytes:
    return CHANCE.take(2 * CHANCE.number(20, 40))


def sound(label: bytes) -> bytes:
    return recording(label, *(section(kind, measured()) for kind in (b"TEMP", b"WIND", b"RAIN")))


def damaged() -> dict[str, bytes]:
    flipped = bytearray(sound(b"Drammen"))
    flipped[40] ^= 0x40
    snow, twice = section(b"SNOW", measured()), section(b"TEMP", measured())
    return {
        "bergen.grd": sound(b"Bergen")[:-23],
        "drammen.grd": bytes(flipped),
        "halden.grd": sound(b"Halden") + CHANCE.take(36),
        "larvik.grd": recording(b"Larvik", section(b"TEMP", measured()), snow),
        "moss.grd": recording(b"Moss", section(b"TEMP", measured()), twice),
        "tromso.grd": sound(bytes(0x80 | byte for byte in CHANCE.take(14))),
    }


def main() -> None:
    site = Site.of(date=1_650_000_000)
    for number in range(1, 13):
        site.file(f"samples/reference/st{number:02}.grd", sound(f"Station {number}".encode()))
    for number, (name, data) in enumerate(damaged().items()):
        site.file(f"samples/field/{name}", data, date=1_500_000_000 + number * 86_400)
    site.file("docs/format.md", FORMAT)
    site.file("docs/runbook.md", RUNBOOK)
    site.file("gridlib/__init__.py", "")
    site.file("gridlib/container.py", READER)
    site.file("tests/test_container.py", TESTS)
    site.file("tools/survey.py", SURVEY)
    site.file("tools/catalog.py", CATALOG)
    site.file("CHANGES.md", "# Changes\n\n## Unreleased\n\n## 1.3\n\n- One function reads all numbers.\n")
    site.finish()


main()
