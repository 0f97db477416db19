"""The checks of git-scrub-recover."""

import base64
import json
from typing import Any

from checking import App, field, line_of, need, same, sha256

TOKEN = "bk_live_" + "0123456789abcdef01234567"
BLOBS = (
    f"a = '{TOKEN}'\n",
    f"token: {base64.b64encode(TOKEN.encode()).decode()}\n",
    "bk_live_0123\nTOKEN=\n",
    f"TOKEN={TOKEN[:-1]}8\n",
)
MAIN = "refs/heads/main"


def p1_the_scanner_finds_everything(app: App) -> None:
    with app.scratch("tools") as copy:
        copy.git(".", "init", "--quiet", "made")
        keys = [copy.git("made", "hash-object", "-w", "--stdin", data=text.encode()).decode().strip() for text in BLOBS]
        found = printed(copy, "made")
        wanted = {"objects": 4, "blob": 4, "matches": sorted([keys[0], keys[1], keys[3]])}
        same(found, wanted, "what the scanner says of another repository")
        done = copy.python("tools/leak_scan.py", "--values", "made")
        same(done.out.split(), [TOKEN, f"{TOKEN[:-1]}8"], "the values that it finds there")
    need(app.python("tools/leak_scan.py", "--self-check").code == 0, "the self-check doesn't pass")


def printed(app: App, repository: str) -> Any:
    done = app.python("tools/leak_scan.py", repository)
    try:
        return json.loads(done.out)
    except ValueError:
        return f"{done.out} {done.err[-400:]}"


def p2_the_baseline_is_of_the_sample(app: App) -> None:
    baseline = app.json("baseline/sample.json")
    for name, count in app.expected["sample"].items():
        same(field(baseline, name, int), count, name)
    matches = field(baseline, "matches", list)
    same(len(matches), 3, "the number of matches")
    found = app.git("reference/sample", "cat-file", "--batch", data="".join(f"{key}\n" for key in matches).encode())
    same(found.count(b" blob "), 3, "the number of matches that are blobs of the sample")


def p3_the_leaked_values_are_written_down(app: App) -> None:
    same(app.text("handoff/leaked_values.txt").split("\n"), [*app.expected["leaked"], ""], "the leaked values")


def history(app: App, *words: str) -> list[dict[str, Any]]:
    """The commits, with the digests of their files after cleaning: so it doesn't matter whether that is done yet."""
    found = []
    for key in app.git("repo", "rev-list", "--reverse", *words, "--").decode().split():
        shown = app.git("repo", "show", "-s", "--format=%an <%ae>%x00%at%x00%B", key).decode(errors="replace")
        who, when, message = shown.rstrip("\n").split("\0")
        rows = [row.split(b"\t") for row in app.git("repo", "ls-tree", "-r", "-z", key).split(b"\0") if row]
        files = {name.decode(): digest(app, head.split()[2].decode()) for head, name in rows}
        found.append({"who": who, "when": int(when), "message": message.strip(), "files": files})
    return found


def digest(app: App, blob: str) -> str:
    data = app.git("repo", "cat-file", "blob", blob)
    for form in forms(app):
        data = data.replace(form, b"x" * len(form))
    return sha256(data)


def forms(app: App) -> list[bytes]:
    return [form for value in app.expected["leaked"] for form in (value.encode(), base64.b64encode(value.encode()))]


def p4_the_lost_work_is_back(app: App) -> None:
    for name, commits in app.expected["recovered"].items():
        same(history(app, f"refs/heads/recovered/{name}", "--not", MAIN), commits, f"recovered/{name}")


def p5_no_credential_is_left(app: App) -> None:
    everything = app.git("repo", "cat-file", "--batch-all-objects", "--batch")
    for form in forms(app):
        need(form not in everything, "a credential is left in an object")
        for path in sorted(app.root.glob("repo/**/*")):
            if path.is_file() and not path.is_symlink():
                need(form not in app.data(str(path.relative_to(app.root))), f"a credential is left in {path.name}")


def p6_the_history_is_as_it_was(app: App) -> None:
    same(history(app, MAIN), app.expected["main"], "the history of main")
    same(app.git("repo", "symbolic-ref", "HEAD").decode().strip(), MAIN, "the branch that is checked out")
    with app.scratch("repo") as copy:
        same(copy.git("repo", "status", "--porcelain").decode(), "", "what git says of the checkout")


def p7_it_is_verified(app: App) -> None:
    found = app.json("handoff/verification.json")
    same(field(found, "matches", list), [], "the matches after the cleaning")
    listed = app.git("repo", "cat-file", "--batch-all-objects", "--batch-check=%(objecttype)").decode().split()
    for kind in ("blob", "commit", "tree"):
        same(field(found, kind, int), listed.count(kind), kind)


def p8_the_report_agrees(app: App) -> None:
    text = app.text("handoff/report.md")
    for key, path in (("Baseline", "baseline/sample.json"), ("Values", "handoff/leaked_values.txt")):
        same(line_of(text, key), app.digest(path), f"the line {key}")
    same(line_of(text, "Verification"), app.digest("handoff/verification.json"), "the line Verification")
    same(line_of(text, "Recovered"), str(sum(map(len, app.expected["recovered"].values()))), "the line Recovered")
    same(line_of(text, "Tip"), app.git("repo", "rev-parse", MAIN).decode().strip(), "the line Tip")
