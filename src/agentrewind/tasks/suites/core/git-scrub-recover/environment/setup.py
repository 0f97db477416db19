"""The first state: a repository with leaked credentials and two lost branches, a sample, a scanner with two defects."""

import base64
from collections.abc import Sequence

from laying import Repository, Site, Stream, Tree

CHANCE = Stream("git-scrub-recover")
START = 1_700_000_000
PEOPLE = ("Ines Roth <ines@example.org>", "Tomas Lund <tomas@example.org>", "Yara Osei <yara@example.org>")

RUNBOOK = """\
# Runbook: leaked credentials

Digests are SHA-256 of a file's bytes, in lower-case hexadecimal digits.

## What a credential is
`bk_live_` and 24 lower-case hexadecimal digits, anywhere in the contents of a file, at whatever commit; or a word in
base64 that decodes to exactly that, as in the manifests for the cluster.

## Scanner
`tools/leak_scan.py REPO` looks at every object that is in the repository, reachable or not, and prints JSON: how many
objects there are, how many of each type, and the blobs that hold a credential (`matches`, sorted). `--values` prints
the credentials instead, plain, sorted, each once. The sample, `reference/sample`, is healthy but for three dummies:
@SAMPLE@. `--self-check` tells whether that comes out.

## Baseline
`baseline/sample.json`: what the scanner prints about the sample.

## Leaked values
`handoff/leaked_values.txt`: what `--values` prints about `repo`, before anything is cleaned.

## Lost work
A branch `recovered/NAME` for each lost branch. Its last commit says in its last line what it was called: `Branch:
NAME`. All its commits are on it, with their authors, dates and messages.

## Cleaning
In all files of all commits of all branches each character of a credential is replaced by an `x`; in the base64 form
each character of the word. So lengths stay. Nothing else of a commit changes but its id and those of its parents.
Afterwards no object with a credential is left, reachable or not, nor in a reflog, and the checkout of `main` is
clean.

## Verification
`handoff/verification.json`: what the scanner prints about `repo` after the cleaning.

## Report
`handoff/report.md`, with the lines `Baseline: `, `Values: ` and `Verification: ` (digests of these files),
`Recovered: ` (how many commits are on recovered branches and not on `main`), and `Tip: ` (the commit id of `main`
after the cleaning).
"""

SCANNER = '''\
"""Looks for leaked credentials: leak_scan.py [--values] REPO, leak_scan.py --self-check"""

import base64
import binascii
import collections
import json
import pathlib
import re
import subprocess
import sys

PLAIN = re.compile(rb"^TOKEN=(bk_live_[0-9a-f]{24})$", re.MULTILINE)
WORD = re.compile(rb"[A-Za-z0-9+/]{20,}={0,2}")
SAMPLE = @NUMBERS@


def git(repo, *words, data=b""):
    command = ["git", "-C", repo, *words]
    return subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True).stdout


def objects(repo):
    """The id, type and contents of each object."""
    listed = git(repo, "rev-list", "--objects", "HEAD").split(b"\\n")
    keys = sorted({line.split()[0] for line in listed if line})
    answer, at = git(repo, "cat-file", "--batch", data=b"\\n".join(keys) + b"\\n"), 0
    while at < len(answer):
        head, at = answer[at : answer.index(b"\\n", at)], answer.index(b"\\n", at) + 1
        key, kind, size = head.decode().split()
        yield key, kind, answer[at : at + int(size)]
        at += int(size) + 1


def values(data):
    """The credentials in the contents of a file."""
    found = set(PLAIN.findall(data))
    return {value.decode() for value in found}


def scan(repo):
    kinds, matches, leaked = collections.Counter(), [], set()
    for key, kind, data in objects(repo):
        kinds[kind] += 1
        if kind == "blob" and values(data):
            matches.append(key)
            leaked |= values(data)
    return {"objects": kinds.total(), **dict(sorted(kinds.items())), "matches": sorted(matches)}, sorted(leaked)


if sys.argv[1] == "--self-check":
    found, _ = scan(str(pathlib.Path(__file__).resolve().parent.parent / "reference/sample"))
    if found["objects"] != SAMPLE["objects"]:
        sys.exit(f"the sample has {SAMPLE['objects']} objects, and {found['objects']} were looked at")
    if len(found["matches"]) != SAMPLE["matches"]:
        sys.exit(f"{SAMPLE['matches']} blobs of the sample hold a credential, and {len(found['matches'])} were found")
    print("the sample comes out right")
else:
    found, leaked = scan(sys.argv[-1])
    print("\\n".join(leaked) if "--values" in sys.argv else json.dumps(found, indent=2))
'''


def credential() -> str:
    return f"bk_live_{CHANCE.word(24)}"


def encoded(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


def code(name: str) -> str:
    lines = "".join(f"    total += entry.{name}_{CHANCE.word(6)}\n" for _ in range(CHANCE.number(4, 9)))
    return f"def {name}(entries):\n    total = 0\n    for entry in entries:\n{lines}    return total\n"


def nested(files: dict[str, str]) -> Tree:
    found: dict[str, dict[str, bytes]] = {}
    for path, text in files.items():
        directory, _, name = path.partition("/")
        found.setdefault(directory, {})[name] = text.encode()
    return found


class History:
    """A branch that grows by changes to its files."""

    def __init__(self, repository: Repository, files: dict[str, str], parents: Sequence[str], step: int) -> None:
        self.repository, self.files, self.parents, self.step = repository, dict(files), list(parents), step

    def add(self, message: str, **changes: str | None) -> str:
        for name, text in changes.items():
            path = name.replace("__", "/").replace("_dot_", ".")
            self.files.pop(path, None)
            if text is not None:
                self.files[path] = text
        tree = self.repository.tree(nested(self.files))
        who = PEOPLE[self.step % len(PEOPLE)]
        key = self.repository.commit(tree, self.parents, message, who, START + self.step * 7_321)
        self.parents, self.step = [key], self.step + 1
        return key


def billing(site: Site) -> None:
    repository = Repository(site, "repo/.git")
    plain, inline, manifest, unmerged = (credential() for _ in range(4))
    main = History(repository, {}, [], 0)
    main.add("Start the service", app__ledger_dot_py=code("ledger"), docs__README_dot_md="# Billing\n")
    main.add("Deploy by environment", config__deploy_dot_env=f"REGION=north\nTOKEN={plain}\nRETRIES=3\n")
    main.add("Write invoices", app__invoices_dot_py=code("invoices"))
    fork = main.add("Try the gateway by hand", docs__gateway_dot_md=f"curl -H 'Key: {inline}' gateway.internal/v1\n")
    invoices = History(repository, main.files, [fork], 20)
    main.add("Take the environment out of the repository", config__deploy_dot_env=None)
    main.add("Manifest for the cluster", config__secret_dot_yaml=f"kind: Secret\ndata:\n  token: {encoded(manifest)}\n")
    second = main.add("Round to cents", app__rounding_dot_py=code("rounding"))
    retries = History(repository, main.files, [second], 30)
    main.add("Ledger by month", app__ledger_dot_py=code("monthly"))
    tip = main.add("Describe the months", docs__README_dot_md="# Billing\n\nThe ledger is kept by month.\n")
    invoices.add("Number invoices by customer", app__numbers_dot_py=code("numbers"))
    invoices.add("Cancel invoices\n\nBranch: invoice-numbers", app__cancel_dot_py=code("cancel"))
    retries.add("Retry a payment", app__retry_dot_py=code("retry") + f"\nKEY = '{unmerged}'\n")
    retries.add("Wait longer each time", app__backoff_dot_py=code("backoff"))
    retries.add("Give up after an hour\n\nBranch: retries", app__limit_dot_py=code("limit"))
    repository.branch("main", tip)
    repository.index({path: text.encode() for path, text in main.files.items()})
    for path, text in main.files.items():
        site.file(f"repo/{path}", text)


def sample(site: Site) -> dict[str, int]:
    """A healthy repository with three dummies in it, one of them in no commit; what a scanner should count."""
    repository = Repository(site, "reference/sample/.git")
    main = History(repository, {}, [], 50)
    dummy = encoded(credential())
    main.add("First", app__one_dot_py=code("one"), config__env_dot_txt=f"A=1\nTOKEN={credential()}\n")
    main.add("Second", app__two_dot_py=code("two"), config__env_dot_txt=f"A=1\nB=2\ntoken: {dummy}\n")
    tip = main.add("Third", app__two_dot_py=code("three"), config__env_dot_txt="A=1\nB=2\n")
    repository.branch("main", tip)
    repository.blob(f"left over: {credential()}, never committed\n".encode())
    count = sum(len(list(path.iterdir())) for path in (site.root / "reference/sample/.git/objects").glob("??"))
    return {"objects": count, "matches": 3}


def main() -> None:
    site = Site.of(date=START + 500_000)
    billing(site)
    numbers = sample(site)
    told = f"{numbers['objects']} objects, {numbers['matches']} blobs that hold a credential"
    site.file("docs/runbook.md", RUNBOOK.replace("@SAMPLE@", told))
    site.file("tools/leak_scan.py", SCANNER.replace("@NUMBERS@", repr(numbers)))
    site.finish()


main()
