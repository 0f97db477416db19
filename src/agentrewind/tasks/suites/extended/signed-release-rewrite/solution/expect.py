"""Prints the values of tests/expected.json, worked out from the first state.

python3 expect.py BUILT
"""

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

root = Path(sys.argv[1])
VIDEO = "media/intro.mov"


def git(*words: str) -> bytes:
    command = ["git", "-c", "safe.directory=*", *words]
    return subprocess.run(command, cwd=root, stdout=subprocess.PIPE, check=True).stdout


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def is_good(tag: bytes) -> bool:
    payload, mark, signature = tag.partition(b"-----BEGIN SSH SIGNATURE-----\n")
    with tempfile.NamedTemporaryFile() as beside:
        beside.write(mark + signature)
        beside.flush()
        command = ["ssh-keygen", "-Y", "verify", "-f", str(root / "release/signers"), "-I", "mara@example.org"]
        done = subprocess.run(
            [*command, "-n", "git", "-s", beside.name], input=payload, capture_output=True, check=False
        )
    return done.returncode == 0


COMMIT = """\
tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904
author Me <me@example.org> 1400000000 +0000
committer Me <me@example.org> 1400000000 +0000

One
"""


def unseen() -> dict[str, tuple[str, str]]:
    """Tags for a tool that has never seen them, with the status of each; signed with the release key."""
    made = {}
    commit = hashlib.sha1(f"commit {len(COMMIT)}\0{COMMIT}".encode(), usedforsecurity=False).hexdigest()
    for name, who, status in (
        ("a", "release", "good"),
        ("b", "mara", "bad"),
        ("c", "release", "none"),
        ("d", "release", "bad"),
    ):
        text = (
            f"object {commit}\ntype commit\ntag {name}\ntagger Me <{who}@example.org> 1400000100 +0000\n\nTag {name}\n"
        )
        command = ["ssh-keygen", "-q", "-Y", "sign", "-n", "git", "-f", str(root / "release/release.key")]
        signature = subprocess.run(command, input=text.encode(), capture_output=True, check=True).stdout.decode()
        if name == "d":
            text = text.replace("Tag d", "Tag D")
        made[name] = (text if status == "none" else text + signature, status)
    return made


def files(commit: str) -> list[str]:
    """Mode, kind, id and path of each, without the video."""
    return [row for row in git("ls-tree", "-r", commit).decode().splitlines() if not row.endswith(VIDEO)]


record, evidence, tags, lost = {}, {}, {}, []
for name in git("tag").decode().split():
    ids = [git("rev-parse", f"{name}{end}").decode().strip() for end in ("", "^{commit}", "^{tree}")]
    tag, commit = git("cat-file", "tag", ids[0]), git("cat-file", "commit", ids[1])
    status = "none" if b"SIGNATURE" not in tag else "good" if is_good(tag) else "bad"
    record[name] = dict(zip(("tag", "commit", "tree"), ids, strict=True), status=status)
    evidence |= {f"{name}.tag": digest(tag), f"{name}.commit": digest(commit)}
    if status == "good":
        message = tag.partition(b"\n\n")[2].partition(b"-----BEGIN")[0].decode().strip()
        tags[name] = {"date": int(git("show", "-s", "--format=%at", ids[1])), "message": message}
        lost.append(tag.splitlines()[-2].decode())
commits = [
    row.split("\0")
    for row in git("log", "--reverse", "--format=%H%x00%at %ct %an <%ae> %s", "main").decode().splitlines()
]
history = [[facts, files(key)] for key, facts in commits]
signer = (root / "release/signers").read_text().splitlines()[1]
values = {
    "record": record,
    "evidence": evidence,
    "tags": tags,
    "history_sha256": digest(json.dumps(history).encode()),
    "signer": signer,
    "unseen": {"signers": (root / "release/signers").read_text(), "commit": COMMIT, "tags": unseen()},
}
print(json.dumps({"values": values, "lost": lost}, indent=1))
