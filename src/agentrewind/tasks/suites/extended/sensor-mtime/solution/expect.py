"""Prints the values of tests/expected.json, worked out from the first state.

python3 expect.py BUILT
"""

import datetime as dt
import json
import struct
import sys
from pathlib import Path

paths = sorted(Path(sys.argv[1], "raw").iterdir())
files, lost = [], []
for path in paths:
    data = path.read_bytes()
    _, sequence, interval, count = struct.unpack_from("<4s3H", data)
    closed = dt.datetime.fromtimestamp(path.stat().st_mtime, dt.UTC)
    lost.append(f"{closed:%Y-%m-%d %H:%M:%S}")
    files.append((sequence, path.name, closed, interval, struct.unpack_from(f"<{count}h", data, 10)))
files.sort()

times, ends, ahead = [], {}, 2
for number, (sequence, name, closed, *_) in enumerate(files):
    if number and closed < files[number - 1][2]:
        ahead = 1
    end = closed - dt.timedelta(hours=ahead)
    times.append([name, str(sequence), f"{closed:%Y-%m-%dT%H:%M:%S}"])
    ends[name] = int(end.timestamp())
bodies = {name: struct.pack(f"<{len(values)}h", *values).hex() for _, name, _, _, values in files}
values = {"times": times, "ends": ends, "bodies": bodies}
print(json.dumps({"values": values, "lost": sorted(lost)}, indent=1))
