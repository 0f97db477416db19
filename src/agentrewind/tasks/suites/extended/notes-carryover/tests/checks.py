"""The checks of notes-carryover."""

import json

from checking import App, line_of, need, objects, same, sha256

UNSEEN = """\
commit refs/heads/main
mark :1
committer Me <me@example.org> 1500000000 +0000
data 13
First

Begun.

commit refs/heads/side
mark :2
committer Me <me@example.org> 1500000200 +0000
data 7
Aside

from :1

commit refs/heads/main
mark :3
committer Me <me@example.org> 1500000100 +0000
data 7
Ahead

from :1

commit refs/heads/main
mark :4
committer Me <me@example.org> 1500000300 +0000
data 7
Merged
from :3
merge :2

commit refs/notes/review
committer Me <me@example.org> 1500000400 +0000
data 6
Notes
N inline :2
data 16
Seen.

Is fine.
N inline :1
data 6
Seen.

commit refs/notes/commits
committer Me <me@example.org> 1500000500 +0000
data 6
Other
N inline :4
data 6
Other

"""
NOTED = (
    ("main~2", 1_500_000_000, "First", "Seen."),
    ("main^2", 1_500_000_200, "Aside", "Seen.\n\nIs fine."),
)
FORM = "%H%x00%P%x00%at%x00%ct%x00%an <%ae>%x00%cn <%ce>%x00%T%x00%s"


def digest(value: object) -> str:
    return sha256(json.dumps(value).encode())


def parsed(text: str, what: str) -> list[dict[str, object]]:
    try:
        return objects([json.loads(line) for line in text.splitlines()], what)
    except (ValueError, RecursionError):
        need(condition=False, why=f"{what} is not one JSON object a line")
        return []


def p1_every_note_is_found(app: App) -> None:
    with app.scratch("handover/export_notes.py") as copy:
        copy.git(".", "-c", "init.defaultBranch=main", "init", "-q")
        copy.git(".", "fast-import", "--quiet", data=UNSEEN.encode())
        found = parsed(copy.python("handover/export_notes.py").out, "what it prints")
        wanted = [
            {"commit": copy.git(".", "rev-parse", ref).decode().strip(), "date": date, "subject": subject, "note": note}
            for ref, date, subject, note in NOTED
        ]
        same(found, wanted, "what it prints of another repository")


def p2_the_dump_is_from_before(app: App) -> None:
    rows = parsed(app.text("handover/notes.jsonl"), "the dump")
    names = ("commit", "date", "subject", "note")
    need(all(set(row) == set(names) for row in rows), "a row of the dump has other fields than agreed")
    same(
        digest([{name: row[name] for name in names} for row in rows]), app.expected["dump_sha256"], "the dump's digest"
    )


def history(app: App) -> dict[str, list[str]]:
    """What git says of every commit of main, by id."""
    lines = app.git(".", "log", f"--format={FORM}", "main").decode(errors="replace").splitlines()
    return {line.split("\0")[0]: line.split("\0")[1:] for line in lines if line.count("\0") == FORM.count("%x00")}


def p3_the_names_are_new(app: App) -> None:
    commits = history(app)
    rows = sorted(
        [int(at), int(ct), author, committer, tree, subject, [int(commits[key][1]) for key in parents.split()]]
        for parents, at, ct, author, committer, tree, subject in commits.values()
    )
    same(digest(rows), app.expected["history_sha256"], "the digest of the history of main")
    same(app.git(".", "symbolic-ref", "HEAD").decode().strip(), "refs/heads/main", "what is checked out")
    everything = app.git(".", "cat-file", "--batch-all-objects", "--batch")
    for address in app.expected["addresses"]:
        need(address.encode() not in everything, f"{address} is left in an object")


def p4_the_map_is_complete(app: App) -> None:
    rows = app.rows("handover/commit-map.csv", ["old", "new"])
    same([row["old"] for row in rows], sorted(app.expected["old"]), "the old ids")
    commits = history(app)
    for row in rows:
        old, new = row["old"], row["new"]
        need(new in commits and new != old, f"{new} is no new commit")
        same(int(commits[new][1]), app.expected["old"][old], f"the date of the commit that stands for {old}")


def p5_the_notes_are_carried_over(app: App) -> None:
    commits, found = history(app), []
    for line in app.git(".", "notes", "--ref", "review", "list").decode().splitlines():
        note, key = line.split()
        need(key in commits, f"there is a note on {key}, which is no commit of main")
        text = app.git(".", "cat-file", "blob", note).decode(errors="replace").rstrip("\n")
        found.append([int(commits[key][1]), text])
    same(digest(sorted(found)), app.expected["carried_sha256"], "the digest of the notes by their commits' dates")


def p6_the_report_agrees(app: App) -> None:
    text = app.text("handover/report.md")
    for key, name in (("Notes", "notes.jsonl"), ("Map", "commit-map.csv")):
        same(line_of(text, key), app.digest(f"handover/{name}"), f"the line {key}")
    same(line_of(text, "Commits"), str(len(app.expected["old"])), "the line Commits")
    same(line_of(text, "Tip"), app.git(".", "rev-parse", "main").decode().strip(), "the line Tip")
