"""Prints the values of tests/expected.json, worked out from the first state.

python3 expect.py BUILT
"""

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

root = Path(sys.argv[1])


def git(*words: str) -> str:
    command = ["git", "-c", "safe.directory=*", *words]
    return subprocess.run(command, cwd=root, stdout=subprocess.PIPE, check=True).stdout.decode()


def digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


NAMES = {old: new for new, old in re.findall(r"^(.*?>) (.*>)$", (root / "handover/mailmap").read_text(), re.MULTILINE)}
FORM = "%H%x00%P%x00%at%x00%ct%x00%an <%ae>%x00%cn <%ce>%x00%T%x00%s"
commits = {line.split("\0")[0]: line.split("\0")[1:] for line in git("log", f"--format={FORM}", "main").splitlines()}
notes = {line.split()[1]: line.split()[0] for line in git("notes", "--ref", "review", "list").splitlines()}
history = sorted(
    [int(at), int(ct), NAMES.get(author, author), NAMES.get(committer, committer), tree, subject,
     [int(commits[key][1]) for key in parents.split()]]
    for parents, at, ct, author, committer, tree, subject in commits.values()
)  # fmt: skip
dump = [
    {"commit": key, "date": int(at), "subject": subject, "note": git("cat-file", "blob", notes[key]).rstrip("\n")}
    for key, (_, at, *_, subject) in commits.items()
    if key in notes
]
dump.sort(key=lambda row: row["date"])
values = {
    "dump_sha256": digest(dump),
    "history_sha256": digest(history),
    "carried_sha256": digest([[row["date"], row["note"]] for row in dump]),
    "old": {key: int(row[1]) for key, row in sorted(commits.items())},
    "addresses": [old.partition("<")[2].rstrip(">") for old in NAMES],
}
signed = (git("cat-file", "commit", key).splitlines()[7].strip() for key in list(commits)[::4])
print(json.dumps({"values": values, "lost": sorted(line for line in signed if len(line) == 70)}, indent=1))
