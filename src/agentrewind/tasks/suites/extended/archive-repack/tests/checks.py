"""The checks of archive-repack."""

import io
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from checking import App, Unsatisfied, field, need, same, sha256

DATE = 1577836800
COLUMNS = ("archive", "member", "type", "mode", "size", "mtime", "owner", "link")
KINDS = {
    tarfile.REGTYPE: "file",
    tarfile.AREGTYPE: "file",
    tarfile.DIRTYPE: "dir",
    tarfile.SYMTYPE: "symlink",
    tarfile.LNKTYPE: "hardlink",
}
UNSEEN = (
    ("d", tarfile.DIRTYPE, 0o1777, "", 11, "ada"),
    ("d/one", tarfile.AREGTYPE, 0o600, "", 222_222_222, ""),
    ("d/two", tarfile.LNKTYPE, 0o600, "d/one", 333_333_333, "ben"),
    ("three", tarfile.SYMTYPE, 0o777, "../nowhere", 444_444_444, ""),
    ("four, five", tarfile.REGTYPE, 0o4755, "", 1, "ada"),
)


def unseen(form: int, mode: str) -> tuple[bytes, list[list[str]]]:
    """An archive that is nowhere in the workspace, and its rows in the table."""
    data, rows = io.BytesIO(), []
    with tarfile.open(fileobj=data, mode=mode, format=form) as archive:
        for name, kind, bits, link, time, owner in UNSEEN:
            member = tarfile.TarInfo(name)
            member.type, member.mode, member.linkname, member.mtime = kind, bits, link, time
            member.uname, member.uid = owner, 1234
            member.size = len(name) if KINDS[kind] == "file" else 0
            archive.addfile(member, io.BytesIO(name.encode()))
            rows.append([name, KINDS[kind], f"{bits:04o}", str(member.size), str(time), owner or "1234", link])
    return data.getvalue(), rows


def p1_the_lister_lists_what_is_allowed(app: App) -> None:
    with app.scratch("tools") as copy:
        names, wanted = [], []
        for number, (form, mode) in enumerate(((tarfile.USTAR_FORMAT, "w:gz"), (tarfile.GNU_FORMAT, "w"))):
            data, rows = unseen(form, mode)
            names.append(f"other-{number}.tar" + (".gz" if mode == "w:gz" else ""))
            (copy.root / names[-1]).write_bytes(data)
            wanted += [[names[-1], *row] for row in rows]
        done = copy.python("tools/members.py", *names)
        need(done.code == 0, f"the lister breaks off: {done.err[-400:]}")
        (copy.root / "table.csv").write_text(done.out, encoding="utf-8")
        same(table(copy, "table.csv", COLUMNS), wanted, "what it prints of other archives")


def table(app: App, path: str, columns: tuple[str, ...]) -> list[list[str]]:
    return [list(row.values()) for row in app.rows(path, columns)]


def p2_the_originals_are_on_record(app: App) -> None:
    found = table(app, "records/originals.csv", ("archive", "bytes", "sha256"))
    same(found, app.expected["originals"], "the record of the originals")


def p3_the_members_are_on_record(app: App) -> None:
    same(table(app, "records/members.csv", COLUMNS), app.expected["members"], "the record of the members")


@contextmanager
def package(app: App, name: str) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(fileobj=io.BytesIO(app.data(f"deposits/{name}")), mode="r:gz") as archive:
            yield archive
    except (tarfile.TarError, OSError, EOFError, ValueError, KeyError, zlib.error) as error:
        raise Unsatisfied(f"{name} can't be read: {error}") from error


def p4_the_packages_are_reproducible(app: App) -> None:
    same(app.names("deposits"), list(app.expected["contents"]), "the list of packages")
    for name in app.expected["contents"]:
        head = app.data(f"deposits/{name}")[:8]
        need(head[:4] == b"\x1f\x8b\x08\0" and head[4:] == bytes(4), f"the gzip header of {name} is {head.hex()}")
        with package(app, name) as archive:
            found = archive.getmembers()
        for member in found:
            owner = (member.uid, member.gid, member.uname, member.gname)
            same((member.mtime, *owner), (DATE, 0, 0, "", ""), f"time and owner of {member.name} in {name}")
        order = [(member.islnk(), member.name) for member in found]
        same(order, sorted(order), f"the order of the members of {name}")


def p5_the_packages_hold_what_the_originals_held(app: App) -> None:
    for name, wanted in app.expected["contents"].items():
        with package(app, name) as archive:
            found = {}
            for member in archive:
                need(member.type in KINDS and member.name not in found, f"{member.name} in {name}")
                file = archive.extractfile(member) if member.isreg() else None
                content = file.read() if file else b""
                found[member.name] = [KINDS[member.type], f"{member.mode:04o}", member.linkname, sha256(content)]
        same(found, wanted, f"what is in {name}")


def p6_the_manifest_agrees(app: App) -> None:
    manifest = app.json("manifest.json")
    for name in ("originals", "members"):
        same(field(manifest, f"{name}_sha256", str), app.digest(f"records/{name}.csv"), f"{name}_sha256")
    wanted = [
        {
            "archive": name,
            "original": original,
            "original_sha256": digest,
            "sha256": app.digest(f"deposits/{name}"),
            "members": len(app.expected["contents"][name]),
        }
        for name, (original, _, digest) in zip(app.expected["contents"], app.expected["originals"], strict=True)
    ]
    same(field(manifest, "archives", list), wanted, "archives")


def p7_the_index_is_by_day(app: App) -> None:
    same(table(app, "index.csv", ("day", "archive", "member")), app.expected["index"], "the index")


def p8_the_checksums_agree(app: App) -> None:
    deposits = [f"deposits/{name}" for name in app.expected["contents"]]
    paths = [*deposits, "index.csv", "manifest.json", "records/members.csv", "records/originals.csv"]
    wanted = [f"{app.digest(path)}  {path}" for path in paths]
    same(app.text("SHA256SUMS").replace(" *", "  ").splitlines(), wanted, "the list of checksums")
