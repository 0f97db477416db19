"""The first state: a repository of forty signed commits with review notes, and an exporter with two defects."""

import base64

from laying import Repository, Site, Stream

CHANCE = Stream("notes-carryover")
START = 1_680_000_000
OLD = ("Marta Keller <marta.keller@example.org>", "J. Okafor <jokafor@contractors.example>")
NEW = ("Marta Winter <marta.winter@example.org>", "Jude Abara <jude@example.org>")
OTHERS = ("Wim de Boer <wim@example.org>", "Sofia Lindh <sofia@example.org>")
PARTS = ("parser", "cache", "report", "schema", "export", "queue")
DOINGS = ("Simplify", "Speed up", "Fix", "Document", "Split", "Log more in", "Test", "Rename things in")
REMARKS = (
    "Looked at twice, nothing to add.", "Naming could be better, fine for now.", "Measured, no slower than before.",
    "Checked on the staging machine.", "Asked for a test, got one.", "Please keep an eye on this one.",
)  # fmt: skip

README = """\
# New names in the history

Digests are SHA-256 of a file's bytes, in lower-case hexadecimal digits.

## Dump
`handover/notes.jsonl`: a line of JSON for each note in `refs/notes/review`: `commit` (the id of the commit as it is
before the rewrite), `date` (its author date, seconds since 1970), `subject` (the first line of its message) and `note`
(the text without the last line end), sorted by `date`. `python3 handover/export_notes.py` prints that.

## Rewrite
`python3 handover/rewrite_names.py` gives authors and committers on all branches the names and addresses of
`handover/mailmap`, drops the signatures, which can't be right any longer, and removes what no ref leads to any more.
Nothing else changes: files, messages, dates, the shape of the history. No object with an old address stays.

## Map
`handover/commit-map.csv`: `old,new`, a row for every commit of `main`, sorted by the old id, line ends of one `\\n`.

## Notes
In `refs/notes/review` every note is on the new commit that stands for the one that it was on, with the same text, and
there is no note on anything else.

## Report
`handover/report.md` with the lines `Notes: ` and `Map: ` (digests of the dump and of the map), `Commits: ` (how many
`main` has), and `Tip: ` (the id of its last one).
"""

EXPORT = '''\
"""Prints the review notes with their commits, a line of JSON each: export_notes.py"""

import json
import subprocess

REF = "refs/notes/commits"


def git(*words):
    return subprocess.run(["git", *words], stdout=subprocess.PIPE, check=True).stdout.decode()


def notes():
    """The ids of the notes, by the ids of their commits."""
    return {line.split()[1]: line.split()[0] for line in git("notes", "--ref", REF, "list").splitlines()}


found = notes()
rows = []
for line in git("log", "--first-parent", "--format=%H %at %s", "main").splitlines():
    commit, date, subject = line.split(" ", 2)
    if commit in found:
        text = git("cat-file", "blob", found[commit]).rstrip("\\n")
        rows.append({"commit": commit, "date": int(date), "subject": subject, "note": text})
for row in sorted(rows, key=lambda row: row["date"]):
    print(json.dumps(row))
'''

REWRITE = '''\
"""Gives authors and committers the names of handover/mailmap, on all branches, and prunes what is left behind."""

import pathlib
import re
import subprocess

MAIL = pathlib.Path(__file__).with_name("mailmap").read_text()
NAMES = {old.encode(): new.encode() for new, old in re.findall(r"^(\\S.*>) (\\S.*>)$", MAIL, re.MULTILINE)}


def git(*words, data=b""):
    return subprocess.run(["git", *words], input=data, stdout=subprocess.PIPE, check=True).stdout


def renamed(commit, made):
    head, _, message = commit.partition(b"\\n\\n")
    head = re.sub(rb"\\ngpgsig.*(?:\\n .*)*", b"", head)
    head = re.sub(rb"(?<=^parent )\\w+", lambda found: made[found[0]], head, flags=re.MULTILINE)
    for old, new in NAMES.items():
        head = re.sub(rb"(?<=^author )%b|(?<=^committer )%b" % ((re.escape(old),) * 2), new, head, flags=re.MULTILINE)
    return head + b"\\n\\n" + message


made = {}
for key in git("rev-list", "--reverse", "--topo-order", "--branches").split():
    commit = renamed(git("cat-file", "commit", key.decode()), made)
    made[key] = git("hash-object", "-t", "commit", "-w", "--stdin", data=commit).strip()
for line in git("for-each-ref", "--format=%(objectname) %(refname)", "refs/heads").decode().splitlines():
    key, ref = line.split()
    git("update-ref", ref, made[key.encode()].decode())
git("reflog", "expire", "--expire=now", "--all")
git("gc", "--quiet", "--prune=now")
print(f"{len(made)} commits")
'''


def signature() -> list[str]:
    """As an SSH key makes them; nobody here has the key."""
    text = base64.b64encode(b"SSHSIG\0\0\0\1" + CHANCE.take(230)).decode()
    lines = [text[at : at + 70] for at in range(0, len(text), 70)]
    return ["gpgsig -----BEGIN SSH SIGNATURE-----", *(f" {line}" for line in lines), " -----END SSH SIGNATURE-----"]


class History:
    """Commits one after the other, on `main` and on a branch that is merged."""

    def __init__(self, repository: Repository) -> None:
        self.repository, self.count = repository, 0
        self.files = {"README.md": b"# Ledger tools\n", ".gitignore": b"/handover/\n"}

    def add(self, *parents: str, subject: str = "") -> str:
        part, self.count = CHANCE.one_of(PARTS), self.count + 1
        self.files[f"{part}.py"] = f"# {part}, {self.count}\nVALUE = {CHANCE.number(1, 10**9)}\n".encode()
        who = OLD[0] if self.count == 1 else CHANCE.one_of((*OLD, *OTHERS))
        date = START + self.count * 86_400 + CHANCE.number(0, 40_000)
        subject = subject or f"{CHANCE.one_of(DOINGS)} the {part}"
        tree = self.repository.tree(self.files)
        return self.repository.commit(tree, parents, subject, who, date, headers=signature())


def note() -> bytes:
    verdict = CHANCE.one_of(("accepted", "accepted", "accepted with remarks"))
    return f"Reviewed-by: {CHANCE.one_of(OTHERS)}\nVerdict: {verdict}\nRemark: {CHANCE.one_of(REMARKS)}\n".encode()


def main() -> None:
    site = Site.of(date=START + 90 * 86_400)
    repository = Repository(site, ".git")
    history = History(repository)
    commits = [history.add(subject="Begin")]
    for length, branch in ((9, 3), (11, 4), (10, 0)):
        for _ in range(length):
            commits.append(history.add(commits[-1]))
        fork = commits[-1]
        for _ in range(branch):
            commits.append(history.add(commits[-1]))
        if branch:
            commits.append(history.add(fork, commits[-1], subject="Merge a branch"))
    repository.branch("main", commits[-1])
    notes = {commit: note() + f"Id: {CHANCE.word(8)}\n".encode() for commit in CHANCE.shuffled(commits)[:34]}
    who, date = "Review Bot <bot@example.org>", START + 80 * 86_400
    tip = repository.commit(repository.tree(notes), [], "Notes of the reviews", who, date)
    repository.write("refs/notes/review", f"{tip}\n")
    repository.index(history.files)
    for path, data in history.files.items():
        site.file(path, data)
    site.file("handover/README.md", README)
    site.file("handover/mailmap", "".join(f"{new} {old}\n" for new, old in zip(NEW, OLD, strict=True)))
    site.file("handover/export_notes.py", EXPORT)
    site.file("handover/rewrite_names.py", REWRITE)
    site.finish()


main()
