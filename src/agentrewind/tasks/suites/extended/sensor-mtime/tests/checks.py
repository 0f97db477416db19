"""The checks of sensor-mtime."""

import calendar
import itertools
import re
import struct
import zlib

from checking import App, Unsatisfied, field, need, same

UNSEEN = struct.pack("<4s3H6h", b"OBS1", 9, 300, 6, 12, -32768, -3, 255, -256, -32768)
SAME_AGAIN = struct.pack("<4s3HI2hI", b"OBS2", 10, 30, 2, 1_600_000_000, -32768, -1, 0)
COLUMNS = ("file", "sequence", "wall_clock")


def p1_readings_are_decoded(app: App) -> None:
    with app.scratch("tools") as copy:
        for data, wanted in ((UNSEEN, "1500,12\n900,-3\n600,255\n300,-256\n"), (SAME_AGAIN, "0,-1\n")):
            (copy.root / "UNSEEN.OBS").write_bytes(data)
            done = copy.python("tools/decode.py", "UNSEEN.OBS")
            same(done.out, "before_end,tenths\n" + wanted, f"what the decoder prints ({done.err[-300:]})")


def p2_the_times_are_kept(app: App) -> None:
    found = [list(row.values()) for row in app.rows("index/times.csv", COLUMNS)]
    same(len(found), 33, "the number of files")
    for row, wanted in zip(found, app.expected["times"], strict=True):
        same(row, wanted, "a row of the index")


def seconds(text: str) -> int:
    """Since 1970, of a time in UTC."""
    found = re.fullmatch(r"(20\d\d)-(0[1-9]|1[0-2])-(\d\d)T(\d\d):(\d\d):(\d\d)Z", text)
    if not found:
        raise Unsatisfied(f"{text!r:.60} is no time in UTC")
    return calendar.timegm((*map(int, found.groups()), 0, 0, 0))


def p3_times_are_in_utc(app: App) -> None:
    rows = app.rows("index/utc.csv", ("file", "sequence", "end"))
    wanted = app.expected["ends"]
    same(
        [[row["file"], row["sequence"]] for row in rows],
        [row[:2] for row in app.expected["times"]],
        "the files of the index in UTC",
    )
    for row in rows:
        same(seconds(row["end"]), wanted[row["file"]], f"the end of {row['file']}")


def p4_the_files_are_upgraded(app: App) -> None:
    wanted = {name: int(sequence) for name, sequence, _ in app.expected["times"]}
    same(app.names("raw"), sorted(wanted), "the archived files")
    for name, sequence in wanted.items():
        body = bytes.fromhex(app.expected["bodies"][name])
        data = struct.pack("<4s3HI", b"OBS2", sequence, 60, len(body) // 2, app.expected["ends"][name]) + body
        same(app.data(f"raw/{name}").hex(), (data + struct.pack("<I", zlib.crc32(data))).hex(), name)


def series(app: App) -> list[list[int]]:
    rows = app.rows("merged/series.csv", ("time", "tenths"))
    need(all(re.fullmatch(r"-?\d{1,5}", row["tenths"]) for row in rows), "a reading is no number")
    return [[seconds(row["time"]), int(row["tenths"])] for row in rows]


def readings(app: App) -> list[list[int]]:
    """Every one that didn't fail, by time."""
    found = []
    for name, end in app.expected["ends"].items():
        body = bytes.fromhex(app.expected["bodies"][name])
        values = struct.unpack(f"<{len(body) // 2}h", body)
        found += [[end - 60 * before, value] for before, value in enumerate(reversed(values)) if value != -32768]
    return sorted(found)


def p5_the_series_is_whole(app: App) -> None:
    found, wanted = series(app), readings(app)
    same(len(found), len(wanted), "the number of readings")
    for row, right in zip(found, wanted, strict=True):
        same(row, right, "a reading")


def p6_the_gaps_are_listed(app: App) -> None:
    report, times = app.json("merged/gaps.json"), app.rows("merged/series.csv", ("time", "tenths"))
    same(field(report, "series_sha256", str), app.digest("merged/series.csv"), "series_sha256")
    wanted = [
        {"after": one["time"], "before": later["time"], "seconds": seconds(later["time"]) - seconds(one["time"])}
        for one, later in itertools.pairwise(times)
    ]
    same(field(report, "gaps", list), [gap for gap in wanted if gap["seconds"] > 60], "the gaps")


def p7_the_ledger_agrees(app: App) -> None:
    ledger, rows = app.json("ledger.json"), app.rows("merged/series.csv", ("time", "tenths"))
    need(rows, "the series is empty")
    same(field(ledger, "index_sha256", str), app.digest("index/utc.csv"), "index_sha256")
    same(field(ledger, "gaps_sha256", str), app.digest("merged/gaps.json"), "gaps_sha256")
    same(field(ledger, "readings", int), len(rows), "readings")
    same([field(ledger, name, str) for name in ("first", "last")], [rows[0]["time"], rows[-1]["time"]], "first, last")
    same(field(ledger, "lowest", int), min(tenths for _, tenths in series(app)), "lowest")
    same(field(ledger, "files", dict), {name: app.digest(f"raw/{name}") for name in app.names("raw")}, "files")
