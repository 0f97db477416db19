"""What a change to this library must satisfy, in ten points.

python3 checklist.py          all ten, with a tick at each that holds
python3 checklist.py --check  the first that doesn't hold, and how many do; exit code 0 when all do
"""

import hashlib
import json
import pathlib
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent
RECEIVED = ROOT / "tests" / "records" / "received"
DEFECTS = {
    "boat.rec": "last line cut off",
    "drums.rec": "a key twice",
    "eclipse.rec": "no date of receipt",
    "facade.rec": "not UTF-8",
    "garden.rec": "mixed line ends",
    "harbour.rec": "bytes after the end",
}
BROKEN_ORDER = """
import sys, unittest, decimal
sys.path[:0] = ["src", "tests"]
import shelfmark.mark
parse = shelfmark.mark.parse
def broken(text):
    mark = parse(text)
    cutters = tuple((letter, decimal.Decimal(str(digits).partition(".")[2] or "0")) for letter, digits in mark.cutters)
    return type(mark)(mark.letters, mark.number, cutters, mark.year)
shelfmark.parse = shelfmark.mark.parse = broken
unittest.main(module=None, argv=["unittest", "discover", "-s", "tests"])
"""


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    path = str(ROOT / "src")
    environ = {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environ, capture_output=True, text=True, check=False
    )


def order_is_right() -> bool:
    code = "from shelfmark import parse as p; assert p('QA76.9 .D3') < p('QA76.9 .D35') < p('QA76.9 .D4')"
    return python("-c", code).returncode == 0


def tests_pass() -> bool:
    return python("-m", "unittest", "discover", "-s", "tests").returncode == 0


def a_test_guards_the_order() -> bool:
    return tests_pass() and python("-c", BROKEN_ORDER).returncode != 0


def change_is_noted() -> bool:
    text = (ROOT / "CHANGES.md").read_text(encoding="utf-8")
    return "\n- " in text.partition("## Unreleased")[2].partition("\n## ")[0]


def catalogue() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((ROOT / "build" / "catalogue.json").read_text(encoding="utf-8"))
    return found


def records() -> dict[str, pathlib.Path]:
    base = ROOT / "tests" / "records"
    return {str(path.relative_to(base)): path for path in base.rglob("*.rec")}


def catalogue_is_whole() -> bool:
    return sorted(item["file"] for item in catalogue()) == sorted(records())


def shelf_key(mark: str) -> tuple[str, Decimal, list[str]]:
    """Digits after a cutter's letter are decimals, so they compare as text does."""
    head, *rest = mark.split(" ")
    letters = head.rstrip("0123456789.")
    return letters, Decimal(head[len(letters) :]), [part.lstrip(".") for part in rest]


def catalogue_is_in_order() -> bool:
    marks = [shelf_key(item["mark"]) for item in catalogue()]
    return marks == sorted(marks)


def digests_are_right() -> bool:
    found = records()
    return catalogue_is_whole() and all(
        hashlib.sha256(found[item["file"]].read_bytes()).hexdigest() == item["sha256"] for item in catalogue()
    )


def seals() -> list[tuple[str, int, str]]:
    lines = (ROOT / "tests" / "records" / "SEALS").read_text(encoding="utf-8").splitlines()
    return [(digest, int(time), name) for digest, time, name in (line.split() for line in lines)]


def bytes_are_as_received() -> bool:
    return all(hashlib.sha256((RECEIVED / name).read_bytes()).hexdigest() == digest for digest, _, name in seals())


def times_are_as_received() -> bool:
    return all((RECEIVED / name).stat().st_mtime_ns == time for _, time, name in seals())


def defects_are_listed() -> bool:
    listed = {item["file"]: item["defects"] for item in catalogue()}
    return all(listed.get(f"received/{name}") == [defect] for name, defect in DEFECTS.items())


CRITERIA: tuple[tuple[str, Callable[[], bool]], ...] = (
    ("Cutters compare as decimals: .D3, .D35, .D4", order_is_right),
    ("The tests pass", tests_pass),
    ("A test fails when cutters compare as whole numbers again", a_test_guards_the_order),
    ('CHANGES.md has a line under "Unreleased"', change_is_noted),
    ("build/catalogue.json lists every record", catalogue_is_whole),
    ("The catalogue is in shelf order", catalogue_is_in_order),
    ("The catalogue has the digest of each record", digests_are_right),
    ("The six received records are as they came", bytes_are_as_received),
    ("Their times are the dates of receipt", times_are_as_received),
    ("The catalogue names the defect of each of the six", defects_are_listed),
)


def holds(criterion: Callable[[], bool]) -> bool:
    try:
        return criterion()
    except (OSError, ValueError, KeyError, TypeError):
        return False


def main() -> int:
    results = [holds(criterion) for _, criterion in CRITERIA]
    lines = [f"[{'x' if ok else ' '}] {n}. {text}" for n, (ok, (text, _)) in enumerate(zip(results, CRITERIA), 1)]
    if "--check" in sys.argv:
        lines = [line for line in lines if line.startswith("[ ]")][:1]
    print("\n".join([*lines, f"progress: {sum(results)}/{len(results)}"]))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
