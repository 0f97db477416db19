"""Prints the values of tests/expected.json, worked out from the first state with git and without the scanner.

python3 expect.py BUILT
"""

import base64
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

repo = Path(sys.argv[1]) / "repo"


def git(*words: str, at: Path = repo) -> bytes:
    return subprocess.check_output(["git", "-c", "safe.directory=*", "-C", str(at), *words])


def everything(at: Path) -> bytes:
    return git("cat-file", "--batch-all-objects", "--batch", at=at)


data = everything(repo)
leaked = {found.decode() for found in re.findall(rb"bk_live_[0-9a-f]{24}", data)}
for word in re.findall(rb"token: (\S+)", data):
    leaked.add(base64.b64decode(word).decode())
forms = [form for value in leaked for form in (value.encode(), base64.b64encode(value.encode()))]


def cleaned(content: bytes) -> str:
    for form in forms:
        content = content.replace(form, b"x" * len(form))
    return hashlib.sha256(content).hexdigest()


def commit(key: str) -> dict[str, object]:
    who, when, message = git("show", "-s", "--format=%an <%ae>%x00%at%x00%B", key).decode().rstrip("\n").split("\0")
    paths = git("ls-tree", "-r", "--name-only", key).decode().split("\n")[:-1]
    files = {path: cleaned(git("show", f"{key}:{path}")) for path in paths}
    return {"who": who, "when": int(when), "message": message.strip(), "files": files}


def commits(*words: str) -> list[dict[str, object]]:
    return [commit(key) for key in git("rev-list", "--reverse", *words).decode().split()]


lost = {}
for line in git("fsck", "--no-reflogs", "--no-progress").decode().splitlines():
    if line.startswith("dangling commit "):
        chain = commits(line.split()[2], "--not", "main")
        lost[str(chain[-1]["message"]).rpartition("Branch: ")[2]] = chain
kinds = git("cat-file", "--batch-all-objects", "--batch-check=%(objecttype)", at=repo.parent / "reference/sample")
names = kinds.decode().split()
values = {
    "leaked": sorted(leaked),
    "main": commits("main"),
    "recovered": lost,
    "sample": {"objects": len(names), **{kind: names.count(kind) for kind in ("blob", "commit", "tree")}},
}
unreached = git("fsck", "--unreachable", "--no-reflogs", "--no-progress").decode()
blobs = [git("cat-file", "blob", key) for key in re.findall(r"^unreachable blob (\w+)", unreached, re.MULTILINE)]
gone = sorted(re.findall(rb"entry\.(\w+)", b"".join(blobs)))
print(json.dumps({"values": values, "lost": [name.decode() for name in gone]}, indent=1))
