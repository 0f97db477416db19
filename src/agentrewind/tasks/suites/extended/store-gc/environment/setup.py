"""The first state: a store of chunks with two whole releases, and a third that only the journal knows of."""

import hashlib
import json

from laying import Site, Stream

CHANCE = Stream("store-gc")
DATE = 1_777_000_000
PARTS = ("engine", "codec", "panel", "sync", "help")
KINDS = ("bin", "dat", "txt", "tbl")
OLD_FILES, NEW_FILES = 16, 34

STORE = """\
# The release store

Digests are SHA-256 of bytes, in lower-case hexadecimal digits. Paths are relative to the top directory.

## Objects
`store/objects/ab/REST` is an object whose digest is `abREST`: a chunk of a file, or a manifest. A file is the bytes of
its chunks, one after the other. Chunks are shared by all files and releases that have them.

## Journal
`store/journal.tsv` has what publishers did, a record a line. Columns are separated by tabs:

    number  session  verb  arguments...

| verb | arguments | meaning |
| --- | --- | --- |
| `begin` | release | the session publishes this release |
| `put` | path, mode, chunks | the file, new or instead of what was there; chunks are digests separated by spaces |
| `mode` | path, mode | another mode for a file |
| `move` | path, new path | another name for a file; what had that name is replaced |
| `drop` | path | the file is left out after all |
| `seal` | | the session is over, and what it put is the release |
| `abort` | | the session is over, and nothing of it counts |

Sessions run side by side. One that isn't sealed (yet) doesn't count. A release is sealed once.

`python3 tools/journal.py RELEASE [JOURNAL]` prints what a release consists of as lines `path`, `mode`, `chunks`,
separated by tabs, sorted by path.

## Manifest
`releases/RELEASE.json`: an object with `release` and `files`, a list sorted by `path`, in which each file has `path`,
`mode` (as in the journal), `size` and `sha256` (of the whole file), and `chunks` (the list of digests, in order).

## Ref
A release belongs to the store when the manifest, byte for byte as it is in `releases/`, is an object of the store, and
`store/refs/RELEASE` holds the digest of that object and a newline. A release is retired by removing its ref and its
manifest in `releases/`.

## Collection
`python3 tools/gc.py` removes all objects that no ref leads to, and says how many. Refs lead to manifests, and these to
chunks. Nothing is published while it runs.

## Checkout
`python3 tools/checkout.py RELEASE TARGET` lays the files of a release out. A mirror takes them from `out/RELEASE`.

## Report
`report/tree.txt`: for each file of the checkout a line `MODE SHA256 PATH`, from the files as they are there, sorted by
path; the mode has four octal digits, and the path is relative to the checkout. `report/collection.json`, an object:
`manifest_sha256` (of the manifest of the new release), `tree_sha256` (of `report/tree.txt`), `objects` and `bytes` (how
many objects the store has after the collection, and their size together), `refs` (the sorted list of names).

## Attestation
`attestation.txt`, three lines: `release: ` and the content of its ref, `tree: ` and the digest of `report/tree.txt`,
`report: ` and the digest of `report/collection.json`.
"""

JOURNAL = '''\
"""Says what a release consists of according to the journal: journal.py RELEASE [JOURNAL]"""

import sys


def records(path):
    """Session, verb and arguments of each record."""
    with open(path) as file:
        for line in file:
            _, session, verb, *words = line.split()
            yield session, verb, words


def contents(path, release):
    """Mode and chunks by path."""
    files, sessions = {}, set()
    for session, verb, words in records(path):
        if verb == "begin" and words == [release]:
            sessions.add(session)
        if session not in sessions:
            continue
        if verb == "put":
            name, mode, chunks = words[0], words[1], words[2:]
            if not mode.isdigit():
                raise SystemExit(f"no mode: {mode}")
            files[name] = (mode, " ".join(chunks))
        elif verb == "mode":
            files[words[0]] = (words[1], files[words[0]][1])
        elif verb == "move":
            files[words[1]] = files.pop(words[0])
        elif verb == "drop":
            files.pop(words[0], None)
    return files


if __name__ == "__main__":
    where = sys.argv[2] if len(sys.argv) > 2 else "store/journal.tsv"
    for name, (mode, chunks) in sorted(contents(where, sys.argv[1]).items()):
        print(name, mode, chunks, sep="\\t")
'''

OBJECTS = '''\
"""The objects of the store."""

import hashlib
import json
import pathlib

STORE = pathlib.Path(__file__).resolve().parent.parent / "store"


def place(digest):
    return STORE / "objects" / digest[:2] / digest[2:]


def get(digest):
    data = place(digest).read_bytes()
    if hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(f"object {digest} is damaged")
    return data


def put(data):
    """Returns the digest."""
    name = hashlib.sha256(data).hexdigest()
    place(name).parent.mkdir(parents=True, exist_ok=True)
    place(name).write_bytes(data)
    return name


def manifest(release):
    return json.loads(get((STORE / "refs" / release).read_text().strip()))
'''

GC = '''\
"""Removes all objects that no ref leads to."""

from objects import STORE, manifest

kept = set()
for ref in (STORE / "refs").iterdir():
    kept.add(ref.read_text().strip())
    for file in manifest(ref.name)["files"]:
        kept.update(file["chunks"])
removed = 0
for path in (STORE / "objects").glob("??/*"):
    if path.parent.name + path.name not in kept:
        path.unlink()
        removed += 1
for place in (STORE / "objects").iterdir():
    if not any(place.iterdir()):
        place.rmdir()
print(f"{removed} objects removed, {len(kept)} kept")
'''

CHECKOUT = '''\
"""Lays the files of a release out: checkout.py RELEASE TARGET"""

import pathlib
import sys

from objects import get, manifest

release, target = sys.argv[1:]
for file in manifest(release)["files"]:
    path = pathlib.Path(target, file["path"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(map(get, file["chunks"])))
    path.chmod(int(file["mode"], 8))
'''


class Store:
    """Puts objects and records, as a publisher does."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.lines: list[str] = []

    def put(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        self.site.file(f"store/objects/{digest[:2]}/{digest[2:]}", data)
        return digest

    def chunk(self) -> str:
        return self.put(CHANCE.take(CHANCE.number(200, 900)))

    def record(self, session: str, verb: str, *words: str) -> None:
        self.lines.append("\t".join((str(len(self.lines) + 1), session, verb, *words)))

    def chunks(self, shared: list[str]) -> list[str]:
        """One to four, some of them of those that are there already."""
        return [
            CHANCE.one_of(shared) if shared and CHANCE.number(1, 5) == 1 else self.chunk()
            for _ in range(CHANCE.number(1, 4))
        ]

    def published(self, release: str, files: dict[str, tuple[str, list[str]]]) -> None:
        """All of a release but for its records: manifest and ref."""
        rows = []
        for path, (mode, chunks) in sorted(files.items()):
            data = b"".join((self.site.root / "store/objects" / key[:2] / key[2:]).read_bytes() for key in chunks)
            digest = hashlib.sha256(data).hexdigest()
            rows.append({"path": path, "mode": mode, "size": len(data), "sha256": digest, "chunks": chunks})
        text = json.dumps({"release": release, "files": rows}, indent=1) + "\n"
        self.site.file(f"releases/{release}.json", text)
        self.site.file(f"store/refs/{release}", self.put(text.encode()) + "\n")


def names(count: int, *, spaced: bool) -> list[str]:
    found = [f"{PARTS[number % 5]}/{CHANCE.word(6)}.{KINDS[number % 4]}" for number in range(count)]
    if spaced:
        found[4] = "help/quick start.txt"
        found[11] = "panel/day and night.dat"
        found[27] = "help/what is new.txt"
    return found


def older(store: Store, release: str, session: str, shared: list[str]) -> list[str]:
    """A release that was published whole. Returns its chunks."""
    files = {name: (CHANCE.one_of(("0644", "0755")), store.chunks(shared)) for name in names(OLD_FILES, spaced=False)}
    store.record(session, "begin", release)
    for name, (mode, chunks) in files.items():
        store.record(session, "put", name, mode, " ".join(chunks))
    store.record(session, "seal")
    store.published(release, files)
    return [chunk for _, chunks in files.values() for chunk in chunks]


def newest(store: Store, shared: list[str]) -> None:
    """2.4.0: an aborted session, then one that is sealed, with one for 2.5.0 beside it that never ends."""
    paths = names(NEW_FILES, spaced=True)
    store.record("s-51", "begin", "2.4.0")
    for name in (*paths[:9], "engine/trial run.bin"):
        store.record("s-51", "put", name, "0644", " ".join(store.chunks(shared)))
    store.record("s-51", "abort")
    store.record("s-52", "begin", "2.4.0")
    store.record("s-53", "begin", "2.5.0")
    for number, name in enumerate(paths):
        first = f"incoming/{number:02}" if number % 6 == 2 else name
        mode = CHANCE.one_of(("0644", "0644", "0755"))
        store.record("s-52", "put", first, mode, " ".join(store.chunks(shared)))
        if number % 5 == 1:
            store.record("s-53", "put", name, "0600", store.chunk())
        if number % 7 == 3:
            store.record("s-52", "put", first, mode, " ".join(store.chunks(shared)))
        if first != name:
            store.record("s-52", "move", first, name)
        if number % 9 == 5:
            store.record("s-52", "mode", name, "0755" if mode == "0644" else "0644")
        if number % 11 == 7:
            store.record("s-52", "put", f"sync/debug log {number}.txt", "0644", store.chunk())
            store.record("s-52", "drop", f"sync/debug log {number}.txt")
    store.record("s-52", "seal")
    store.record("s-53", "put", "engine/next.bin", "0755", store.chunk())


def main() -> None:
    site = Site.of(DATE)
    store = Store(site)
    shared = older(store, "2.2.1", "s-17", [])
    shared = older(store, "2.3.0", "s-34", shared)
    newest(store, shared)
    site.file("store/journal.tsv", "".join(line + "\n" for line in store.lines))
    site.file("docs/store.md", STORE)
    site.file("tools/journal.py", JOURNAL)
    site.file("tools/objects.py", OBJECTS)
    site.file("tools/gc.py", GC)
    site.file("tools/checkout.py", CHECKOUT)
    site.finish()


main()
