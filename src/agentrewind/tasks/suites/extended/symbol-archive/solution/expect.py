"""Prints the values of tests/expected.json, worked out from the first state. They don't depend on the compiler.

python3 expect.py BUILT
"""

import json
import re
import subprocess
import sys
from pathlib import Path

root = Path(sys.argv[1])


def said(*words: object) -> str:
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True).stdout


modules, functions, lost = {}, {"host": ["host_open", "main"]}, []
for path in sorted((root / "drivers").iterdir()):
    (build_id,) = re.findall(r"Build ID: (\w+)", said("readelf", "-n", path))
    modules[build_id] = path
    exported = set(re.findall(r" T (\w+)", said("nm", "-D", path)))
    functions[path.name] = sorted(re.findall(rf"(?m) [tT] ({path.stem}_\w+)$", said("nm", path)))
    lost += [name for name in functions[path.name] if name not in exported]

frames = []
for number, build_id, address in re.findall(r"(?m)^#(\d+) (\w+)\+0x(\w+)$", (root / "crash/report.txt").read_text()):
    where = int(address, 16) - (1 if number != "0" else 0)
    function, place = said("addr2line", "-f", "-s", "-e", modules[build_id], hex(where)).splitlines()
    frames.append(f"#{number} {function} {place.split(' ')[0]}")
print(json.dumps({"values": {"functions": functions, "frames": frames}, "lost": lost}, indent=1))
