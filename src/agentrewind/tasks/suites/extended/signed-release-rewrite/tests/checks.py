"""The checks of signed-release-rewrite."""

import json
import re

from checking import App, line_of, need, same, sha256

TAG = re.compile(
    r"object (\w+)\ntype commit\ntag (.*)\ntagger Release <release@example\.org> \d+ [+-]\d{4}\n\n(.*)\Z", re.DOTALL
)
MARK = "-----BEGIN SSH SIGNATURE-----\n"


def signature_is_good(app: App, tag: str) -> bool:
    """Of the release key, whatever the list of signers in the workspace says now."""
    payload, mark, signature = tag.partition(MARK)
    with app.scratch("release/README.md") as copy:
        (copy.root / "signers").write_text(app.expected["signer"] + "\n")
        (copy.root / "signature").write_text(mark + signature)
        words = ("-f", "signers", "-I", "release@example.org", "-n", "git", "-s", "signature")
        return copy.run("ssh-keygen", "-Y", "verify", *words, data=payload.encode()).code == 0


def p1_signatures_are_told_apart(app: App) -> None:
    unseen, wanted = app.expected["unseen"], {}
    with app.scratch("release/verify_tags.py") as copy:
        copy.git(".", "-c", "init.defaultBranch=main", "init", "-q")
        (copy.root / "release/signers").write_text(unseen["signers"])

        def written(kind: str, text: str) -> str:
            return copy.git(".", "hash-object", "-t", kind, "-w", "--stdin", data=text.encode()).decode().strip()

        tree, commit = written("tree", ""), written("commit", unseen["commit"])
        copy.git(".", "update-ref", "refs/tags/light", commit)
        for name, (text, status) in unseen["tags"].items():
            wanted[name] = {"tag": written("tag", text), "commit": commit, "tree": tree, "status": status}
            copy.git(".", "update-ref", f"refs/tags/{name}", wanted[name]["tag"])
        done = copy.python("release/verify_tags.py")
    try:
        found = json.loads(done.out)
    except ValueError:
        found = done.err[-400:]
    same(found, wanted, "what the tool says of other tags")


def p2_it_was_verified_before(app: App) -> None:
    same(app.json("release/verification.json"), app.expected["record"], "the record")


def p3_the_evidence_is_kept(app: App) -> None:
    same(app.names("release/evidence"), sorted(app.expected["evidence"]), "the files of the evidence")
    for name, digest in app.expected["evidence"].items():
        same(app.digest(f"release/evidence/{name}"), digest, f"the digest of {name}")


def p4_the_repository_is_small(app: App) -> None:
    sizes = app.git(".", "cat-file", "--batch-all-objects", "--batch-check=%(objectsize)").decode().split()
    need(max(map(int, sizes), default=0) <= 1_000_000, "an object is larger than a megabyte")
    whole = sum(path.lstat().st_size for path in (app.root / ".git").rglob("*") if path.is_file())
    need(whole <= 1_000_000, f".git has {whole} bytes")


def p5_the_history_is_as_it_was(app: App) -> None:
    rows = app.git(".", "log", "--reverse", "--format=%H%x00%at %ct %an <%ae> %s", "main").decode(errors="replace")
    history = []
    for row in rows.splitlines():
        key, _, facts = row.partition("\0")
        history.append([facts, app.git(".", "ls-tree", "-r", key).decode(errors="replace").splitlines()])
    same(sha256(json.dumps(history).encode()), app.expected["history_sha256"], "the digest of the history of main")
    same(app.git(".", "symbolic-ref", "HEAD").decode().strip(), "refs/heads/main", "what is checked out")


def p6_the_releases_are_signed(app: App) -> None:
    dates = dict(row.split() for row in app.git(".", "log", "--format=%H %at", "main").decode().splitlines())
    same(app.git(".", "tag").decode().split(), sorted(app.expected["tags"]), "the tags")
    for name, wanted in app.expected["tags"].items():
        tag = app.git(".", "cat-file", "tag", name).decode(errors="replace")
        found = TAG.match(tag)
        need(found, f"{name} isn't a tag of a commit by the release's tagger")
        commit, told, message = found.groups()
        same(told, name, "the name in the tag")
        same(dates.get(commit), str(wanted["date"]), f"the date of the commit of {name}")
        same(message.partition(MARK)[0].strip(), wanted["message"], f"the message of {name}")
        need(signature_is_good(app, tag), f"the signature of {name} isn't one of the release key")


def p7_the_notes_agree(app: App) -> None:
    text = app.text("release/notes.md")
    for key, name in (("Verification", "verification.json"), ("Tool", "verify_tags.py")):
        same(line_of(text, key), app.digest(f"release/{name}"), f"the line {key}")
    same(line_of(text, "Tags"), " ".join(sorted(app.expected["tags"])), "the line Tags")
    same(line_of(text, "Tip"), app.git(".", "rev-parse", "main").decode().strip(), "the line Tip")
