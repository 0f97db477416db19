"""Prints the values of tests/expected.json, worked out from the first state without the lister.

python3 expect.py BUILT
"""

import datetime as dt
import hashlib
import json
import sys
import tarfile
from pathlib import Path

root = Path(sys.argv[1])


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def kind_of(member: tarfile.TarInfo) -> str:
    kinds = {"dir": member.isdir(), "symlink": member.issym(), "hardlink": member.islnk(), "file": member.isreg()}
    [kind] = [name for name, is_it in kinds.items() if is_it]
    return kind


originals, members, contents, dated = [], [], {}, []
lost = set()
for path in sorted((root / "deposits").iterdir()):
    data = path.read_bytes()
    originals.append([path.name, str(len(data)), digest(data)])
    new = path.name.partition(".")[0] + ".tar.gz"
    contents[new] = {}
    with tarfile.open(path) as archive:
        for member in archive:
            kind, owner = kind_of(member), member.uname or str(member.uid)
            content = archive.extractfile(member).read() if kind == "file" else b""
            row = [
                member.name,
                kind,
                f"{member.mode:04o}",
                str(len(content)),
                str(member.mtime),
                owner,
                member.linkname,
            ]
            members.append([path.name, *row])
            contents[new][member.name] = [kind, row[2], member.linkname, digest(content)]
            lost |= {f"{member.mtime:011o}"} | ({member.uname} if member.uname else set())
            if kind == "file":
                dated.append((member.mtime, new, member.name))

index = [[f"{dt.datetime.fromtimestamp(time, dt.UTC):%Y-%m-%d}", *rest] for time, *rest in sorted(dated)]
values = {"originals": originals, "members": members, "contents": contents, "index": index}
print(json.dumps({"values": values, "lost": sorted(lost)}, indent=1))
