"""The first state: six old tarballs, a lister with three defects, a tool that repacks in place."""

import struct
import zlib
from dataclasses import dataclass

from laying import Site, Stream

CHANCE = Stream("archive-repack")
SITES = ("1998-lake", "2001-bog", "2003-dune", "2006-fjord", "2010-mire", "2012-heath")
PARTS = ("level", "ph", "wind", "turf", "salt", "silt", "core", "moss")

RUNBOOK = """\
# Repacking a deposit

Digests are SHA-256 of a file's bytes, in lower-case hexadecimal digits. CSV files have a head, commas and line ends of
one `\\n`. Archives are ordered by name.

## What a deposit is
A tar archive (`.tar`), or one that is compressed by gzip (`.tgz`, `.tar.gz`), in whichever of the old formats tar
programs read. In it are files, directories, symbolic links and hard links.

## Lister
`python3 tools/members.py ARCHIVE...` prints a table as CSV: `archive,member,type,mode,size,mtime,owner,link`.

| column | |
| --- | --- |
| archive | the name of the archive, without directories |
| member | its name in the archive, without a slash at the end |
| type | `file`, `dir`, `symlink` or `hardlink` |
| mode | four octal digits |
| size | bytes of content, 0 for all but files |
| mtime | seconds since 1970 |
| owner | the name of the owner, or where the archive has none the number |
| link | where a link leads, as it stands there; empty for files and directories |

Members come in the order of the archive. `--check` says whether all of `deposits/` can be listed.

## Records
`records/originals.csv`: `archive,bytes,sha256`, the deposits as they were handed in. `records/members.csv`: what the
lister prints about all of them.

## Repacking
`python3 tools/repack.py` replaces each archive in `deposits/` by one named `.tar.gz` that doesn't depend on when and
by whom it was made: members are sorted by name, hard links after all others; all times are 1577836800; owner and group
are 0, without names; the gzip header has neither time nor name. Names, contents, modes and links stay.

## Manifest
`manifest.json`, an object: `originals_sha256` and `members_sha256`, the digests of the two records, and `archives`, a
list of objects with `archive` (the new name), `original` (the old one), `original_sha256`, `sha256` and `members`
(how many).

## Index
`index.csv`: `day,archive,member`, all files (no links), by the time that they had in the original, the oldest first;
the day is that in UTC, as `2001-02-28`, the archive has its new name.

## Checksums
`SHA256SUMS`: what `sha256sum` prints about all files in `deposits/` and `records/`, `index.csv` and `manifest.json`, by
path, with paths as seen from the top.
"""

MEMBERS = '''\
"""Lists what is in archives: members.py ARCHIVE... | members.py --check"""

import csv
import pathlib
import sys
import tarfile

KINDS = {tarfile.REGTYPE: "file", tarfile.DIRTYPE: "dir", tarfile.SYMTYPE: "symlink"}


class Unknown(ValueError):
    pass


def members(path):
    """The rows of the table about an archive."""
    rows = []
    with tarfile.open(path, "r:gz") as archive:
        for member in archive:
            if member.type not in KINDS:
                raise Unknown(f"{member.name} is of an unknown type, {member.type}")
            kind, owner = KINDS[member.type], member.uname or member.uid
            link = member.linkname if kind == "symlink" else ""
            mode = f"{member.mode:04o}"
            rows.append([path.name, member.name, kind, mode, member.size, member.mtime, owner, link])
    return rows


def check(paths):
    count = 0
    for path in paths:
        try:
            count += len(members(path))
        except (tarfile.TarError, Unknown) as error:
            sys.exit(f"{path.name}: {error}")
    print(f"{len(paths)} archives, {count} members")


if __name__ == "__main__":
    if "--check" in sys.argv:
        deposits = pathlib.Path(__file__).resolve().parent.parent / "deposits"
        check(sorted(deposits.iterdir()))
    else:
        writer = csv.writer(sys.stdout, lineterminator="\\n")
        writer.writerow(["archive", "member", "type", "mode", "size", "mtime", "owner", "link"])
        for name in sys.argv[1:]:
            writer.writerows(members(pathlib.Path(name)))
'''

REPACK = '''\
"""Replaces the archives in deposits/ by reproducible ones, see docs/runbook.md."""

import gzip
import io
import os
import pathlib
import re
import tarfile

DATE = 1577836800

for path in sorted((pathlib.Path(__file__).resolve().parent.parent / "deposits").iterdir()):
    packed = io.BytesIO()
    with tarfile.open(path) as old, tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as new:
        for member in sorted(old, key=lambda member: (member.islnk(), member.name)):
            content = old.extractfile(member) if member.isreg() else None
            member.mtime, member.uid, member.gid, member.uname, member.gname = DATE, 0, 0, "", ""
            new.addfile(member, content)
    name = re.sub(r"(\\.tar|\\.tgz|\\.tar\\.gz)$", "", path.name) + ".tar.gz"
    path.unlink()
    with open(path.with_name(name), "wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as stream:
        stream.write(packed.getvalue())
    print(name, os.path.getsize(path.with_name(name)))
'''


@dataclass
class Member:
    name: str
    kind: bytes
    content: bytes = b""
    mode: int = 0o644
    link: str = ""


class Times:
    """Odd seconds between 1995 and 2012, no two of them equal."""

    def __init__(self) -> None:
        self._given: set[int] = set()

    def next(self) -> int:
        while (value := CHANCE.number(800_000_000, 1_330_000_000) | 1) in self._given:
            pass
        self._given.add(value)
        return value


TIMES = Times()


def block(member: Member, owner: tuple[int, str], *, old: bool) -> bytes:
    """A member with its header, as ustar has it, or the tar programs before that."""
    kind = b"\0" if old and member.kind in (b"0", b"5") else member.kind
    name = member.name + ("/" if member.kind == b"5" else "")
    numbers = [b"%07o\0" % value for value in (member.mode, owner[0], 100)]
    numbers += [b"%011o\0" % value for value in (len(member.content), TIMES.next())]
    head = (
        name.encode().ljust(100, b"\0") + b"".join(numbers) + b" " * 8 + kind + member.link.encode().ljust(100, b"\0")
    )
    head += b"" if old else b"ustar\0" + b"00" + owner[1].encode().ljust(32, b"\0") + b"staff".ljust(32, b"\0")
    head = head.ljust(512, b"\0")
    head = head[:148] + b"%06o\0 " % sum(head) + head[156:]
    return head + member.content + bytes(-len(member.content) % 512)


def gzipped(data: bytes) -> bytes:
    """A gzip file that doesn't compress, with a time in its head: the same whichever zlib is at hand."""
    pieces = [data[at : at + 65535] for at in range(0, len(data), 65535)]
    blocks = [
        struct.pack("<BHH", number == len(pieces), len(piece), len(piece) ^ 0xFFFF) + piece
        for number, piece in enumerate(pieces, 1)
    ]
    head = b"\x1f\x8b\x08\0" + struct.pack("<I", TIMES.next()) + b"\0\x03"
    return head + b"".join(blocks) + struct.pack("<II", zlib.crc32(data), len(data))


def measured() -> bytes:
    lines = [f"{n},{CHANCE.number(0, 9999) / 100:.2f}\n" for n in range(CHANCE.number(5, 60))]
    return "".join(["n,value\n", *lines]).encode()


def deposit(top: str, *, old: bool) -> list[Member]:
    """Measurements, a program, links to the newest of them, and in all but the oldest hard links to the calibration."""
    parts = CHANCE.shuffled(PARTS)[: CHANCE.number(4, 6)]
    found = [Member(top, b"5", mode=0o755), Member(f"{top}/data", b"5", mode=CHANCE.one_of((0o755, 0o750, 0o2775)))]
    found += [
        Member(f"{top}/data/{part}.csv", b"0", measured(), CHANCE.one_of((0o644, 0o640, 0o444))) for part in parts
    ]
    program = f"#!/bin/sh\n# run {CHANCE.word(12)}\nsort -t, -k2 data/{parts[0]}.csv\n".encode()
    found.append(Member(f"{top}/run.sh", b"0", program, 0o755))
    found.append(Member(f"{top}/latest", b"2", mode=0o777, link=f"data/{parts[-1]}.csv"))
    if not old:
        found.append(Member(f"{top}/calibration.csv", b"1", mode=found[2].mode, link=found[2].name))
        found.append(Member(f"{top}/README", b"0", f"Deposit of {top}, {CHANCE.word(8)}.\n".encode()))
    return found


def main() -> None:
    site = Site.of(date=1_600_000_000)
    for number, top in enumerate(SITES):
        old = number == 0
        owners = [(500 + CHANCE.number(0, 400), f"{CHANCE.word(6)}.{top[5:]}") for _ in range(2)]
        data = b"".join(block(member, CHANCE.one_of(owners), old=old) for member in deposit(top, old=old)) + bytes(1024)
        site.file(f"deposits/{top}.{'tgz' if number % 2 else 'tar'}", gzipped(data) if number % 2 else data)
    site.file("docs/runbook.md", RUNBOOK)
    site.file("tools/members.py", MEMBERS)
    site.file("tools/repack.py", REPACK)
    site.finish()


main()
