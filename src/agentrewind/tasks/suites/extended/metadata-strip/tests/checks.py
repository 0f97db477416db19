"""The checks of metadata-strip."""

import struct
import zlib

from checking import App, line_of, need, same, sha256

SIGNATURE = bytes.fromhex("89504e470d0a1a0a")
SHOWN = (b"IHDR", b"PLTE", b"IDAT", b"gAMA", b"pHYs")
PROBE = """
import json, sys
sys.path.insert(0, "tools")
from pngmeta import Damaged, texts
said = []
for line in sys.stdin:
    try:
        said.append(texts(bytes.fromhex(line)))
    except Damaged as error:
        said.append(str(error))
print(json.dumps(said))
"""


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def unseen() -> list[tuple[bytes, object]]:
    """Pictures that are nowhere in the workspace, with what has to be said of them."""
    head, end = SIGNATURE + chunk(b"IHDR", bytes(13)), chunk(b"IEND", b"")
    plain = chunk(b"tEXt", b"Subject\0Zo\xeb")
    packed = chunk(b"zTXt", b"Creation Time\0\0" + zlib.compress(b"2001-02-03T04:05:06"))
    note = chunk(b"zTXt", b"Note\0\0" + zlib.compress(b"\xe9t\xe9"))
    both = {"Subject": "Zoë", "Creation Time": "2001-02-03T04:05:06"}
    flipped = plain[:-5] + b"\x2a" + plain[-4:]
    return [
        (head + plain + packed + end, both),
        (head + packed + chunk(b"qqQq", b"Subject\0no") + plain + end + b"Subject\0no", both),
        (head + note + chunk(b"tEXt", b"Place\0") + end, {"Note": "été", "Place": ""}),
        (head + end, {}),
        (head + flipped + end, "checksum"),
        (head + plain + end[:-1], "truncated"),
        (head + plain, "truncated"),
        (b"GIF89a" + bytes(60), "no PNG"),
        (head + plain + end[:4] + b"JEND" + end[8:], "checksum"),
    ]


def p1_the_reader_reads_what_is_allowed(app: App) -> None:
    cases = unseen()
    said = app.answers(PROBE, "".join(f"{data.hex()}\n" for data, _ in cases).encode(), "the reader")
    same(said, [wanted for _, wanted in cases], "what the reader says of pictures that it hasn't seen")


def p2_the_index_is_complete(app: App) -> None:
    rows = [list(row.values()) for row in app.rows("private/index.csv", ("file", "subject", "taken"))]
    same(rows, app.expected["index"], "the index")


def picture(app: App, name: str) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """Kinds and contents of the chunks of a picture, and what is behind them."""
    data = app.data(f"photos/{name}")
    need(data.startswith(SIGNATURE), f"{name} is no PNG")
    found: list[tuple[bytes, bytes]] = []
    at = len(SIGNATURE)
    while not found or found[-1][0] != b"IEND":
        need(at + 12 <= len(data), f"{name} is truncated")
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        content = data[at + 8 : at + 8 + size]
        need(data[at : at + 12 + size] == chunk(kind, content), f"the chunk {kind!r} of {name} is damaged")
        found.append((kind, content))
        at += 12 + size
    return found, data[at:]


def p3_the_pictures_look_as_they_did(app: App) -> None:
    for name, wanted in app.expected["pictures"].items():
        shown = b"".join(kind + content for kind, content in picture(app, name)[0] if kind in SHOWN)
        same(sha256(shown), wanted["shown_sha256"], f"the digest of what {name} shows")


def p4_nothing_else_is_in_them(app: App) -> None:
    same(app.names("photos"), list(app.expected["pictures"]), "the list of pictures")
    report = app.json("reports/strip.json")
    need(isinstance(report, dict), "the report is no object")
    same(sorted(report), list(app.expected["pictures"]), "the pictures in the report")
    for name, item in report.items():
        parts, behind = picture(app, name)
        kinds = [kind for kind, _ in parts]
        need(set(kinds) <= {*SHOWN, b"IEND"} and not behind, f"{name} has {kinds} and {len(behind)} bytes behind")
        wanted = {"chunks": [kind.decode() for kind in kinds], "sha256": app.digest(f"photos/{name}")}
        same(item, wanted, f"what the report says of {name}")


def p5_the_gallery_lists_what_may_be_shown(app: App) -> None:
    pictures = app.expected["pictures"]
    wanted = [
        {
            "file": name,
            "width": pictures[name]["width"],
            "height": pictures[name]["height"],
            "sha256": app.digest(f"photos/{name}"),
        }
        for name in app.expected["gallery"]
    ]
    same(app.json("gallery.json"), wanted, "the gallery")


def p6_the_ledger_agrees(app: App) -> None:
    rows = [list(row.values()) for row in app.rows("private/ledger.csv", ("subject", "scope", "pictures", "shown"))]
    same(rows, app.expected["ledger"], "the ledger")


def p7_the_attestation_agrees(app: App) -> None:
    text = app.text("attestation.txt")
    files = {
        "index": "private/index.csv",
        "stripped": "reports/strip.json",
        "gallery": "gallery.json",
        "ledger": "private/ledger.csv",
    }
    for key, path in files.items():
        same(line_of(text, key), app.digest(path), f"the digest of {path} in the attestation")
