"""The first state: a repository with a video in its history and tags signed by a key that is gone, a verifier."""

import base64
import hashlib
import struct
import subprocess
import tempfile
from pathlib import Path

from laying import Repository, Site, Stream

CHANCE = Stream("signed-release-rewrite")
START = 1_690_000_000
MARA = "Mara Ilves <mara@example.org>"
PEOPLE = (MARA, "Oskar Hahn <oskar@example.org>", "Priya Nair <priya@example.org>")
# Keys of this task alone: seed and public half.
MARAS_KEY = ("72bb7e28d29ac2e6e01360abef1a65ebd23022a2a432aeca8cff8a232ff2ecda",
             "af9bec4f5363a12fef3765fc62d88085ca15eb8e18d6d6f356cb49241e57c2ae")  # fmt: skip
RELEASE_KEY = ("ded2f121db43caa2259b646025586a781b92d6591f908f34fac4f8503fe59dec",
               "60d13b778e6f81de6baf2402f8fbbeea0058c1bed35dee45aef98879816b9fed")  # fmt: skip
VIDEO = "media/intro.mov"
PARTS = ("codec", "mixer", "player", "queue", "scene")

README = """\
# Publishing the repository

Digests are SHA-256 of a file's bytes, in lower-case hexadecimal digits. Ids are those of git.

## Verification
`python3 release/verify_tags.py` prints a JSON object about all annotated tags, by name, sorted: `tag` (its id),
`commit`, `tree`, and `status`: `none` without a signature, `good` with a signature of the tagger over the tag as git
makes it (`release/signers` has the keys, in the format of ssh-keygen), and `bad` with any other. Signatures are those
of SSH keys. `--self-check` tries it on the tag in `release/reference/`.

## Record
`release/verification.json`: what the tool prints about the repository before the rewrite.

## Evidence
`release/evidence/NAME.tag` and `release/evidence/NAME.commit` for every annotated tag of before: the tag and the commit
that it names, byte for byte as git has them (`git cat-file tag`, `git cat-file commit`). Whoever has these two and the
key can verify the signature and see which tree was released.

## Rewrite
`media/intro.mov` is in no commit of `main` any more; everything else stays: all commits, their files, messages,
authors and dates. No object in the repository is larger than a megabyte, and the whole of `.git` isn't either.

## Tags
For every tag whose signature was good there is a tag of the same name and message again, on the commit that stands for
the old one, by `Release <release@example.org>` and signed with `release/release.key`. There are no other tags.

## Notes
`release/notes.md` with the lines `Verification: ` and `Tool: ` (digests of the record and of `verify_tags.py`),
`Tags: ` (the names of the tags that there are, sorted, with blanks between), and `Tip: ` (the id of the last commit of
`main`).
"""

VERIFY = '''\
"""Verifies the signatures of annotated tags: verify_tags.py [--self-check]"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
MARK = b"-----BEGIN PGP SIGNATURE-----"


def git(*words):
    return subprocess.run(["git", *words], stdout=subprocess.PIPE, check=True, cwd=HERE.parent).stdout


def status(tag, signers):
    """Of the whole text of a tag."""
    at = tag.find(MARK)
    if at < 0:
        return "none"
    payload, signature = tag[:at], tag[at:]
    tagger = re.search(rb"^tagger .*<(.*)>", payload, re.MULTILINE)[1].decode()
    with tempfile.NamedTemporaryFile() as file:
        file.write(signature)
        file.flush()
        command = ["ssh-keygen", "-Y", "verify", "-f", signers, "-I", tagger, "-n", "file", "-s", file.name]
        done = subprocess.run(command, input=payload, capture_output=True)
    return "bad" if done.returncode else "good"


def verified():
    found = {}
    for line in git("for-each-ref", "--format=%(objecttype) %(refname:short)", "refs/tags").decode().splitlines():
        kind, name = line.split()
        if kind == "tag":
            ids = [git("rev-parse", f"refs/tags/{name}{end}").decode().strip() for end in ("", "^{commit}", "^{tree}")]
            tag = git("cat-file", "tag", ids[0])
            found[name] = dict(zip(("tag", "commit", "tree"), ids), status=status(tag, HERE / "signers"))
    return found


if "--self-check" in sys.argv:
    found = status((HERE / "reference/sample.tag").read_bytes(), HERE / "reference/signers")
    if found != "good":
        sys.exit(f"the signature of the sample is good, and the tool says {found}")
    print("the signature of the sample is good")
else:
    print(json.dumps(verified(), indent=2, sort_keys=True))
'''


def string(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def public(key: tuple[str, str]) -> bytes:
    return string(b"ssh-ed25519") + string(bytes.fromhex(key[1]))


def private(key: tuple[str, str]) -> str:
    """In the format of OpenSSH, without a passphrase."""
    seed, half = (bytes.fromhex(part) for part in key)
    inner = bytes(8) + public(key) + string(seed + half) + string(b"")
    inner += bytes(range(1, 1 + -len(inner) % 8))
    whole = b"openssh-key-v1\0" + string(b"none") * 2 + string(b"") + struct.pack(">I", 1)
    text = base64.b64encode(whole + string(public(key)) + string(inner)).decode()
    lines = "".join(f"{text[at : at + 70]}\n" for at in range(0, len(text), 70))
    return f"-----BEGIN OPENSSH PRIVATE KEY-----\n{lines}-----END OPENSSH PRIVATE KEY-----\n"


def signer(mail: str, key: tuple[str, str]) -> str:
    return f"{mail} ssh-ed25519 {base64.b64encode(public(key)).decode()}\n"


def signed(payload: bytes, key: tuple[str, str]) -> bytes:
    """With the signature below that git would make; an Ed25519 signature is the same each time."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "key"
        file.touch(mode=0o600)
        file.write_text(private(key))
        command = ["ssh-keygen", "-q", "-Y", "sign", "-n", "git", "-f", str(file)]
        done = subprocess.run(command, input=payload, capture_output=True, check=True)
    return payload + done.stdout


def tag(commit: str, name: str, message: str, who: str, date: int) -> bytes:
    return f"object {commit}\ntype commit\ntag {name}\ntagger {who} {date} +0000\n\n{message}\n".encode()


class History:
    def __init__(self, repository: Repository, site: Site) -> None:
        self.repository, self.site, self.count = repository, site, 0
        self.files = {"README.md": b"# Stage\n\nPlays scenes.\n", ".gitignore": b"/release/\n"}
        self.video = b""
        self.tip: list[str] = []

    def add(self, message: str) -> str:
        self.count += 1
        part = CHANCE.one_of(PARTS)
        lines = "".join(f"{part}_{CHANCE.word(5)} = {CHANCE.number(1, 10**6)}\n" for _ in range(CHANCE.number(3, 8)))
        self.files[f"{part}.py"] = f"# {part}, change {self.count}\n{lines}".encode()
        tree = self.repository.tree({**self.files, **({"media": {"intro.mov": self.video}} if self.video else {})})
        who, date = CHANCE.one_of(PEOPLE), START + self.count * 90_000 + CHANCE.number(0, 50_000)
        self.tip = [self.repository.commit(tree, self.tip, message, who, date)]
        return self.tip[0]

    def release(self, name: str, key: tuple[str, str] | None, message: str = "", payload_of: str = "") -> None:
        """Tag the tip; with a `payload_of` another name, the signature is of a tag of that name."""
        text, date = message or f"Stage {name[1:]}", START + self.count * 90_000 + 60_000
        whole = payload = tag(self.tip[0], name, text, MARA, date)
        if key is not None:
            other = tag(self.tip[0], payload_of or name, text, MARA, date)
            whole = payload + signed(other, key)[len(other) :]
        self.repository.tag(name, self.repository.tag_object(whole))


def main() -> None:
    site = Site.of(date=START + 40 * 86_400)
    repository = Repository(site, ".git")
    history = History(repository, site)
    for message in ("Begin", "Play a scene", "Queue scenes"):
        history.add(message)
    history.release("v0.8", MARAS_KEY)
    history.add("Mix sound")
    history.video = hashlib.shake_128(b"intro").digest(5 << 20)
    history.add("Show the introduction when it starts")
    history.add("Shorter queues")
    history.release("v0.9", MARAS_KEY, "Stage 0.9\n\nWith an introduction.")
    history.add("Fade scenes")
    history.release("v0.9.1", MARAS_KEY, payload_of="v0.9")
    history.video = b""
    history.add("Stream the introduction instead")
    history.add("Seek in scenes")
    history.release("v1.0", MARAS_KEY, "Stage 1.0\n\nScenes can be sought in.\nSee the README.")
    history.add("Count dropped frames")
    history.release("v1.1-rc1", None)
    history.add("Name the codecs")
    history.release("v1.1", MARAS_KEY)
    for message in ("Describe the scenes", "Prepare the publication"):
        tip = history.add(message)
    repository.branch("main", tip)
    repository.index(history.files)
    for path, data in history.files.items():
        site.file(path, data)
    sample = tag("5" * 40, "v3", "A sample", "Release <release@example.org>", START)
    site.file("release/reference/sample.tag", signed(sample, RELEASE_KEY))
    site.file("release/reference/signers", signer("release@example.org", RELEASE_KEY))
    site.file("release/signers", signer("mara@example.org", MARAS_KEY) + signer("release@example.org", RELEASE_KEY))
    site.file("release/release.key", private(RELEASE_KEY), mode=0o600)
    site.file("release/README.md", README)
    site.file("release/verify_tags.py", VERIFY)
    site.finish()


main()
