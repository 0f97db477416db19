"""The first state: the files of a logger whose modification times alone say when they were recorded."""

import calendar
import struct

from laying import Site, Stream

CHANCE = Stream("sensor-mtime")
DATE = 1_764_000_000
BEGIN = calendar.timegm((2025, 10, 25, 17, 52, 16))
PUT_BACK = calendar.timegm((2025, 10, 26, 1, 0, 0))
FILES, INTERVAL = 33, 60
PAUSES = {4: 11, 9: 17, 16: 8, 22: 23, 28: 14}
"""Before these files the logger slept, for so many minutes."""

STATION = """\
# The station at the pass

Digests are SHA-256 of a file's bytes, in lower-case hexadecimal digits. Times in UTC are written
`2025-10-25T18:00:00Z`, wall-clock times `2025-10-25T20:00:00`.

## Logger
The logger measures every `interval` seconds and closes a file when its buffer is full, at the moment of the last
measurement. It numbers its files (`sequence`); their names mean nothing. A card keeps the wall-clock time of the
station without a zone, and is read as if that were UTC: so the modification time of a file, shown in UTC, is what the
clock on the wall of the station said when the file was closed.

That clock was two hours ahead of UTC (summer time) until 26 October 2025, 03:00, when it was put back to 02:00; since
then it is one hour ahead.

## Files (`raw/*.OBS`)

    version 1   the four bytes OBS1, u16 sequence, u16 interval, u16 count, count readings
    version 2   the four bytes OBS2, u16 sequence, u16 interval, u16 count, u32 end, count readings,
                u32 CRC-32 of everything before it

Numbers are little-endian. `end` is the time of the last measurement in seconds since 1970, UTC; 0 means that nobody
knows it. A reading is an i16, tenths of a degree; -32768 stands for a measurement that failed. A failed one took its
time as any other.

`python3 tools/decode.py FILE`, for both versions, prints the readings of a file as CSV, `before_end,tenths`, in the
order in which they were measured: how many seconds before the end, and the temperature. Failed ones are left out.

## Index
`index/times.csv`: `file,sequence,wall_clock`, for each file its name in `raw`, its number, and the wall-clock time at
its end; sorted by sequence. `index/utc.csv`: `file,sequence,end`, the same in UTC.

## Upgrade
`python3 tools/upgrade.py FILE...` writes files again as version 2, under the same name. It takes `end` from
`index/utc.csv`, and puts 0 for files that aren't there. Files of version 2 get their `end` anew, if it is there.

## Series
`python3 tools/merge.py` prints all readings of the archive, `time,tenths`, by time; keep it as `merged/series.csv`.

## Gaps
`merged/gaps.json`, an object: `series_sha256`, the digest of the series, and `gaps`, a list with an object `after`,
`before`, `seconds` for every two readings next to one another in the series that are more than 60 seconds apart:
their times, and how far.

## Ledger
`ledger.json`, an object: `index_sha256` (of `index/utc.csv`), `gaps_sha256` (of `merged/gaps.json`), `readings` (in
the series), `first` and `last` (their times), `lowest` (tenths), and `files`, the digest of each archived file by
name.
"""

DECODE = '''\
"""Prints the readings of a file, see docs/station.md: decode.py FILE"""

import struct
import sys

HEADS = {b"OBS1": struct.Struct("<4s3H"), b"OBS2": struct.Struct("<4s3HI")}


def readings(data):
    """Seconds before the end, and tenths of a degree, for each measurement that didn't fail."""
    head = HEADS[data[:4]]
    interval, count = head.unpack_from(data)[2:4]
    values = struct.unpack_from(f"<{count}H", data, head.size)
    values = [value for value in values if value != 0x8000]
    return [((len(values) - 1 - number) * interval, value) for number, value in enumerate(values)]


if __name__ == "__main__":
    with open(sys.argv[1], "rb") as file:
        found = readings(file.read())
    print("before_end,tenths")
    for before, tenths in found:
        print(f"{before},{tenths}")
'''

UPGRADE = '''\
"""Writes files again as version 2, see docs/station.md: upgrade.py FILE..."""

import calendar
import csv
import pathlib
import struct
import sys
import time
import zlib

HEADS = {b"OBS1": struct.Struct("<4s3H"), b"OBS2": struct.Struct("<4s3HI")}
ends = {}
index = pathlib.Path("index/utc.csv")
if index.exists():
    for row in csv.DictReader(index.read_text().splitlines()):
        ends[row["file"]] = calendar.timegm(time.strptime(row["end"], "%Y-%m-%dT%H:%M:%SZ"))

for name in sys.argv[1:]:
    path = pathlib.Path(name)
    data = path.read_bytes()
    head = HEADS[data[:4]]
    _, sequence, interval, count, *given = head.unpack_from(data)
    end = ends.get(path.name, given[0] if given else 0)
    body = data[head.size : head.size + 2 * count]
    new = HEADS[b"OBS2"].pack(b"OBS2", sequence, interval, count, end) + body
    beside = path.with_suffix(".NEW")
    beside.write_bytes(new + struct.pack("<I", zlib.crc32(new)))
    beside.replace(path)
'''

MERGE = '''\
"""Prints all readings of the archive by time."""

import pathlib
import struct
import time

from decode import readings

rows = []
for path in sorted(pathlib.Path("raw").glob("*.OBS")):
    data = path.read_bytes()
    if data[:4] != b"OBS2":
        raise SystemExit(f"{path} is no file of version 2")
    (end,) = struct.unpack_from("<I", data, 10)
    rows += [(end - before, tenths) for before, tenths in readings(data)]
print("time,tenths")
for moment, tenths in sorted(rows):
    print(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment)), tenths, sep=",")
'''


def values(count: int, start: int) -> list[int]:
    """A night that gets colder, with a failed measurement now and then, at the end of some files too."""
    found = [start + CHANCE.number(-9, 7) - place // 4 for place in range(count)]
    for _ in range(CHANCE.number(0, 2)):
        found[CHANCE.number(0, count - 1)] = -32768
    if CHANCE.number(1, 4) == 1:
        found[-1] = -32768
    return found


def main() -> None:
    site = Site.of(DATE)
    end, numbers = BEGIN, range(211, 211 + FILES)
    for place, sequence in enumerate(numbers):
        count = CHANCE.number(19, 29)
        end += count * INTERVAL + PAUSES.get(place, 0) * 60
        ahead = 7200 if end < PUT_BACK else 3600
        data = struct.pack("<4s3H", b"OBS1", sequence, INTERVAL, count)
        data += struct.pack(f"<{count}h", *values(count, 42 - 4 * place))
        site.file(f"raw/{CHANCE.word(8).upper()}.OBS", data, date=end + ahead)
    site.file("docs/station.md", STATION)
    site.file("tools/decode.py", DECODE)
    site.file("tools/upgrade.py", UPGRADE)
    site.file("tools/merge.py", MERGE)
    site.finish()


main()
