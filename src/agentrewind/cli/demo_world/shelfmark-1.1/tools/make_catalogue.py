"""Make build/catalogue.json from the records in tests/records, in shelf order."""

import argparse
import datetime
import hashlib
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from shelfmark import parse, read  # noqa: E402 (the path is set just above)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--preserve", action="store_true", help="leave every record as it is; list its defects instead of repairing it"
    )
    preserve = parser.parse_args().preserve
    paths = sorted((ROOT / "tests" / "records").rglob("*.rec"))
    entries = [entry(path, preserve=preserve) for path in paths]
    entries.sort(key=lambda item: parse(str(item["mark"])))
    target = ROOT / "build" / "catalogue.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(entries, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{target.relative_to(ROOT)}: {len(entries)} records in shelf order")


def entry(path: pathlib.Path, *, preserve: bool) -> dict[str, object]:
    if not preserve and read(str(path)).defects:
        path.write_bytes(repaired(path.read_bytes()))
    record = read(str(path))
    return {
        "file": str(path.relative_to(ROOT / "tests" / "records")),
        "mark": record.mark,
        "title": record.title,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "defects": list(record.defects),
    }


def repaired(data: bytes) -> bytes:
    """`data` as a record without defects; what doesn't belong into one is dropped."""
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    body, end, _ = text.partition("%%\n")
    lines = body.split("\n") if end else body.split("\n")[:-1]
    values = {}
    notes = []
    for key, colon, value in (line.partition(":") for line in lines):
        if colon and key == "note":
            notes.append(f"note:{value}")
        elif colon:
            values[key] = value.strip()
    values.setdefault("received", datetime.date.today().isoformat())
    return "\n".join([*(f"{key}: {value}" for key, value in values.items()), *notes, "%%", ""]).encode()


if __name__ == "__main__":
    main()
