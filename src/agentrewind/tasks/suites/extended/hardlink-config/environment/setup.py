"""The first state: the configuration of three environments, some of whose files are one file under several names."""

import os

from laying import Site, Stream

CHANCE = Stream("hardlink-config")
DATE = 1_770_000_000
HOST = "db1.internal"

OPERATIONS = """\
# Configuration

Digests are SHA-256 of a file's bytes, in lower-case hexadecimal digits.

## Environments
`etc/dev`, `etc/staging` and `etc/prod`. What environments (or workers) are to have in common is one file, hard-linked
under each of its names, so that nobody can change it for one of them alone. What is equal without being linked is
equal by accident, and will be changed for one alone some day. Which files are linked stays as it is, and so do modes.

`python3 tools/replace.py OLD NEW FILE...` replaces a text in files. It never leaves a half-written file: it writes
the new one beside the old and renames it.

## Inventory
`python3 tools/inventory.py DIRECTORY` prints the files below a directory as CSV, `path,mode,group,sha256`, sorted by
path. Paths are relative to the directory; the mode has four octal digits; the group is the first, in this order, of
the paths that are the same file (its own path for a file that isn't linked). Symbolic links are left out, wherever
they lead.

A change has an inventory of `etc` before it, `inventory/before.csv`, and after it, `inventory/after.csv`.

## List of changes
`inventory/changes.json`, an object: `before_sha256` and `after_sha256`, the digests of the two inventories, and
`files`, a list sorted by group with an object for every file (once, however many names it has) whose content has
changed: `group`, `names` (sorted), `old` and `new` (digests of its content).

## Changes
At the top of `CHANGES.md`, under its title, a section for the change with any heading, in which it is told in a line
or two, and which has the line `Changes: DIGEST` with the digest of the list of changes. Older sections stay as they
are.
"""

INVENTORY = '''\
"""Prints the files below a directory, see docs/operations.md: inventory.py DIRECTORY"""

import csv
import hashlib
import os
import pathlib
import sys


def files(top):
    """All files below a directory, sorted."""
    paths = (pathlib.Path(place, name) for place, _, names in os.walk(top) for name in names)
    return sorted(paths, key=lambda path: path.relative_to(top).as_posix())


def inventory(top):
    """A row for each file: path, mode, group, digest."""
    rows, groups = [], {}
    for path in files(top):
        name = path.relative_to(top).as_posix()
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        group = groups.setdefault(digest, name)
        rows.append((name, f"{path.stat().st_mode & 0o7777:04o}", group, digest))
    return rows


if __name__ == "__main__":
    writer = csv.writer(sys.stdout, lineterminator="\\n")
    writer.writerow(("path", "mode", "group", "sha256"))
    writer.writerows(inventory(pathlib.Path(sys.argv[1])))
'''

TESTS = """\
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
from inventory import inventory


class InventoryTest(unittest.TestCase):
    def test_linked_and_equal_files(self):
        with tempfile.TemporaryDirectory() as place:
            top = pathlib.Path(place)
            (top / "b").write_text("same")
            (top / "a").write_text("same")
            os.link(top / "b", top / "c")
            (top / "d").symlink_to("nowhere")
            groups = [(name, group) for name, _, group, _ in inventory(top)]
        self.assertEqual(groups, [("a", "a"), ("b", "b"), ("c", "b")])


if __name__ == "__main__":
    unittest.main()
"""

REPLACE = '''\
"""Replaces a text in files: replace.py OLD NEW FILE..."""

import pathlib
import shutil
import sys

old, new, *names = sys.argv[1:]
for path in map(pathlib.Path, names):
    beside = path.with_name(path.name + ".new")
    shutil.copy(path, beside)
    beside.chmod(0o600)
    beside.write_bytes(path.read_bytes().replace(old.encode(), new.encode()))
    shutil.copymode(path, beside)
    beside.replace(path)
'''

CHANGES = """\
# Changes

## 2026-01-14
Longer time-outs for mail.

## 2025-11-03
The workers have files of their own.
"""

GROUPS = (
    ("db", 0o640, HOST, ("staging/db.ini prod/db.ini", "dev/db.ini")),
    ("pool", 0o644, HOST, ("dev/pool.ini staging/pool.ini prod/pool.ini",)),
    ("jobs", 0o644, HOST, ("dev/jobs.ini prod/jobs.ini", "staging/jobs.ini")),
    ("report", 0o600, HOST, ("dev/report.ini", "staging/report.ini", "prod/report.ini")),
    ("limits", 0o444, HOST, ("staging/limits.ini prod/limits.ini", "dev/limits.ini")),
    ("worker", 0o640, HOST, ("prod/workers/a.ini prod/workers/d.ini", "prod/workers/b.ini prod/workers/c.ini",
                             "staging/workers/a.ini", "staging/workers/b.ini")),
    ("export", 0o644, HOST, ("dev/export.ini staging/import.ini", "dev/import.ini staging/export.ini")),
    ("cache", 0o644, "", ("dev/cache.ini staging/cache.ini",)),
    ("own cache", 0o644, HOST, ("prod/cache.ini",)),
    ("mail", 0o644, "", ("dev/mail.ini staging/mail.ini prod/mail.ini",)),
    ("tls", 0o600, "", ("prod/tls.ini staging/tls.ini", "dev/tls.ini")),
    ("features of dev", 0o644, "", ("dev/features.ini",)),
    ("features", 0o644, "", ("staging/features.ini", "prod/features.ini")),
)  # fmt: skip
"""What a file is for, its mode, whom it names, and the files with this content, each with all its names."""


def content(purpose: str, host: str) -> str:
    lines = [f"# {purpose}", f"[{purpose.rsplit(maxsplit=1)[-1]}]"]
    lines += [f"{key} = {CHANCE.number(1, 900)}" for key in ("timeout", "retries", "size")]
    if host:
        lines += [f"host = {host}", f"fallback = {host}:5433", f"replica = {host.replace('db1', 'db2')}"]
    return "\n".join(lines) + "\n"


def main() -> None:
    site = Site.of(DATE)
    for purpose, mode, host, separate in GROUPS:
        text = content(purpose, host)
        for names in separate:
            first, *others = names.split()
            site.file(f"etc/{first}", text, mode=mode)
            for other in others:
                place = site.directory(f"etc/{os.path.dirname(other)}")
                os.link(site.root / "etc" / first, place / os.path.basename(other))
    os.symlink("../../releases/41/etc", site.root / "etc/prod/previous")
    os.symlink("db.ini", site.root / "etc/dev/database.ini")
    site.file("docs/operations.md", OPERATIONS)
    site.file("tools/inventory.py", INVENTORY)
    site.file("tools/replace.py", REPLACE)
    site.file("tests/test_inventory.py", TESTS)
    site.file("CHANGES.md", CHANGES)
    site.finish()


main()
