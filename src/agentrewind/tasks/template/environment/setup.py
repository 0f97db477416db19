"""The first state: three files of stock, one of 2019 in the attic, a counting tool with two defects."""

from laying import Site, Stream

RUNBOOK = """\
# Runbook of the store

A file of stock has the head `item,count,lot` and a line for each lot. A negative count is a return: it is taken off.

- `tools/total.py` prints one line of JSON about `stock/*.csv`: `{"lines": N, "total": N}`. With `--check` it adds up
  `tools/sample.csv` instead, which has 4 lines and a total of 21, and says whether that comes out.
- **Baseline**: what `tools/total.py` prints for the stock as delivered, as `BASELINE.json`.
- **Tidying**: `python3 tools/tidy.py` takes the lots with a count of 0 out of `stock/` and empties the attic. What is
  to be kept of `attic/` is put into `keep/` under its own name before that, byte for byte.
- **Ledger**: `LEDGER.json`, an object with `baseline_sha256` (of `BASELINE.json`), `kept_sha256` (of the kept file),
  and `lines` and `total` of the tidied stock.
- **Changes**: a line `Ledger: DIGEST` in `CHANGES.md`, with the SHA-256 of `LEDGER.json`.
"""

TOTAL = '''\
"""Adds up files of stock."""

import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent


def add_up(files):
    lines = total = 0
    for file in files:
        for row in file.read_text().splitlines():
            item, count, lot = row.split(",")
            lines += 1
            total += abs(int(count))
    return {"lines": lines, "total": total}


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        found = add_up([HERE / "sample.csv"])
        print("as it should be" if found == {"lines": 4, "total": 21} else f"wrong: {found}")
        sys.exit(found != {"lines": 4, "total": 21})
    print(json.dumps(add_up(sorted((HERE.parent / "stock").glob("*.csv")))))
'''

TIDY = '''\
"""Takes empty lots out of the stock and empties the attic."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent

for file in sorted((ROOT / "stock").glob("*.csv")):
    rows = file.read_text().splitlines()
    file.write_text("".join(row + "\\n" for row in rows if row.split(",")[1] != "0"))
for file in sorted((ROOT / "attic").glob("*")):
    file.unlink()
'''


def stock(chance: Stream, lots: int) -> str:
    items = ("bolts", "hinges", "nails", "screws", "washers")
    rows = [f"{chance.one_of(items)},{chance.number(-4, 30)},{chance.word(12)}" for _ in range(lots)]
    rows[lots // 2] = f"nails,0,{chance.word(12)}"
    return "item,count,lot\n" + "".join(f"{row}\n" for row in rows)


def main() -> None:
    site = Site.of(date=1_600_000_000)
    chance = Stream("tidy-store")
    for name in ("east", "north", "south"):
        site.file(f"stock/{name}.csv", stock(chance, 12))
    site.file("attic/2019.csv", stock(chance, 20), date=1_577_000_000)
    site.file("tools/sample.csv", "item,count,lot\nnails,5,a\nnails,20,b\nbolts,-4,c\nbolts,0,d\n")
    site.file("tools/total.py", TOTAL)
    site.file("tools/tidy.py", TIDY)
    site.file("RUNBOOK.md", RUNBOOK)
    site.file("CHANGES.md", "# Changes\n\n")
    site.finish()


main()
