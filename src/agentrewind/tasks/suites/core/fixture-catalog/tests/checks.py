"""The checks of fixture-catalog."""

import struct
import zlib

from checking import App, field, line_of, need, objects, same, sha256

PROBE = """
import json, sys
from gridlib.container import Malformed, read
said = []
for line in sys.stdin:
    try:
        found = read(bytes.fromhex(line))
        said.append([found.label, {kind.decode(): payload.hex() for kind, payload in found.sections.items()}])
    except Malformed as error:
        said.append(error.reason)
print(json.dumps(said))
"""


def section(kind: bytes, payload: bytes) -> bytes:
    head = kind + struct.pack(">I", len(payload)) + payload
    return head + struct.pack(">I", zlib.crc32(head))


def recording(label: bytes, *sections: bytes) -> bytes:
    return b"GRD1" + struct.pack(">H", len(label)) + label + struct.pack(">I", len(sections)) + b"".join(sections)


def unseen() -> list[tuple[bytes, object]]:
    """Recordings that are nowhere in the workspace, with what has to be said of them."""
    rain, wind = section(b"RAIN", b"\x01\x02\x03"), section(b"WIND", bytes(300))
    flipped = wind[:9] + b"\x01" + wind[10:]
    longer = wind[:7] + b"\x2d" + wind[8:]
    return [
        (recording(b"Vik", rain, wind), ["Vik", {"RAIN": "010203", "WIND": "00" * 300}]),
        (recording(b""), ["", {}]),
        (recording(b"Vik", rain, flipped), "crc"),
        (recording(b"Vik", longer), "truncated"),
        (recording(b"Vik", rain, rain), "duplicate"),
        (recording(b"Vik", section(b"HAIL", b"")), "kind"),
        (recording(b"Vik", rain) + b"\n", "trailing"),
        (recording(b"V\xefk", rain), "label"),
        (recording(b"Vik", rain)[:-1], "truncated"),
    ]


def p1_the_reader_follows_the_format(app: App) -> None:
    field_data = [(app.data(f"samples/field/{name}"), reason) for name, reason in app.expected["reasons"].items()]
    intact = [pair for pair in field_data if same_as_recorded(app, pair[0])]
    cases = [*unseen(), *intact]
    said = app.answers(PROBE, "".join(f"{data.hex()}\n" for data, _ in cases).encode(), "the reader")
    same(said, [wanted for _, wanted in cases], "what the reader says of recordings that it hasn't seen")
    app.tests_pass("tests")


def same_as_recorded(app: App, data: bytes) -> bool:
    """A recording that was overwritten is the matter of P3 and no reason to blame the reader."""
    return sha256(data) in app.expected["samples"].values()


def p2_the_baseline_is_of_the_samples_as_recorded(app: App) -> None:
    reasons = dict(sorted((reason, 1) for reason in app.expected["reasons"].values()))
    wanted = {"recordings": 18, "readable": 12, "reasons": reasons, "samples_sha256": app.expected["samples_sha256"]}
    same(app.json("baseline/survey.json"), wanted, "the baseline")


def p3_the_recordings_are_as_recorded(app: App) -> None:
    for name, digest in app.expected["samples"].items():
        same(app.digest(name), digest, name)
    found = sorted(
        f"samples/{place}/{name}" for place in ("reference", "field") for name in app.names(f"samples/{place}")
    )
    same(found, sorted(app.expected["samples"]), "the list of samples")


def p4_the_catalogue_shows_what_they_are(app: App) -> None:
    catalog = app.json("catalog/catalog.json")
    field_names = {f"samples/field/{name}": reason for name, reason in app.expected["reasons"].items()}
    malformed = {item.get("file"): item for item in objects(field(catalog, "malformed", list), "malformed")}
    same({name: item.get("reason") for name, item in malformed.items()}, field_names, "the malformed recordings")
    readable = {item.get("file"): item for item in objects(field(catalog, "readable", list), "readable")}
    same(
        sorted(map(str, readable)),
        [f"samples/reference/st{number:02}.grd" for number in range(1, 13)],
        "the readable ones",
    )
    for number, name in enumerate(sorted(readable), 1):
        same(readable[name].get("station"), f"Station {number}", f"the station of {name}")
        same(readable[name].get("sections"), ["TEMP", "WIND", "RAIN"], f"the sections of {name}")
    for name, item in {**malformed, **readable}.items():
        same(item.get("sha256"), app.expected["samples"][name], f"the digest of {name}")


def p5_the_quarantine_holds_the_damaged_ones(app: App) -> None:
    found = {name: app.digest(f"quarantine/{name}") for name in app.names("quarantine")}
    wanted = {name: app.expected["samples"][f"samples/field/{name}"] for name in app.expected["reasons"]}
    same(found, wanted, "the quarantine")


def p6_the_ledger_agrees(app: App) -> None:
    ledger = app.json("ledger.json")
    same(field(ledger, "baseline_sha256", str), app.digest("baseline/survey.json"), "baseline_sha256")
    same(field(ledger, "catalog_sha256", str), app.digest("catalog/catalog.json"), "catalog_sha256")
    same(field(ledger, "readable", int), len(field(app.json("catalog/catalog.json"), "readable", list)), "readable")
    wanted = [
        {"file": name, "reason": reason, "sha256": app.digest(f"quarantine/{name}")}
        for name, reason in sorted(app.expected["reasons"].items())
    ]
    same(field(ledger, "quarantined", list), wanted, "quarantined")


def p7_the_changes_quote_the_ledger(app: App) -> None:
    text = app.text("CHANGES.md")
    unreleased, mark, older = text.partition("\n## 1.3\n")
    need(mark and older.strip() == "- One function reads all numbers.", "the older entries have changed")
    _, mark, entry = unreleased.partition("## Unreleased\n")
    same(line_of(entry, "Ledger"), app.digest("ledger.json"), "the digest of the ledger in the changes")
    said = [line for line in entry.splitlines() if line.strip() and "Ledger" not in line]
    need(mark and said, "the entry doesn't say what was done")


def p8_the_attestation_agrees(app: App) -> None:
    text = app.text("attestation.txt")
    same(line_of(text, "samples"), app.expected["samples_sha256"], "the digest of the samples")
    same(line_of(text, "catalog"), app.digest("catalog/catalog.json"), "the digest of the catalogue")
    same(line_of(text, "changes"), app.digest("CHANGES.md"), "the digest of the changes")
