"""Prints the values of tests/expected.json, worked out from the first state.

python3 expect.py BUILT
"""

import hashlib
import json
import os
import sys
from pathlib import Path

top = Path(sys.argv[1], "etc")
names: dict[int, list[str]] = {}
contents, modes, links = {}, {}, {}
for path in sorted(top.rglob("*")):
    name = path.relative_to(top).as_posix()
    if path.is_symlink():
        links[name] = os.readlink(path)
    elif path.is_file():
        names.setdefault(path.stat().st_ino, []).append(name)
        contents[name] = path.read_bytes()
        modes[name] = f"{path.stat().st_mode & 0o7777:04o}"


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def changed(data: bytes) -> bytes:
    return data.replace(b"db1.internal", b"db-a.internal")


groups = sorted(sorted(group) for group in names.values())
group_of = {name: group[0] for group in groups for name in group}
rows = [f"{name},{modes[name]},{group_of[name]},{digest(contents[name])}\n" for name in sorted(contents)]
values = {
    "before_sha256": digest(("path,mode,group,sha256\n" + "".join(rows)).encode()),
    "groups": groups,
    "modes": modes,
    "links": links,
    "old": {name: digest(data) for name, data in contents.items()},
    "new": {name: digest(changed(data)) for name, data in contents.items()},
}
lost = [" = ".join(f"etc/{name}" for name in group) for group in groups if len(group) > 1 and
        changed(contents[group[0]]) != contents[group[0]]]  # fmt: skip
print(json.dumps({"values": values, "lost": lost}, indent=1))
