"""The first state: files sealed under three keys, one of them in a sealed archive, a tool with two defects."""

import base64
import hashlib
import hmac
import json
import subprocess

from laying import Site, Stream

CHANCE = Stream("key-rotation")
UNDER = {
    "k3": ("billing/gateway", "billing/ledger", "mail/relay", "search/index", "web/session", "web/oauth"),
    "k2": ("billing/bank", "hr/payroll", "mail/lists", "search/replica"),
    "k1": ("hr/badge", "legal/notary", "web/legacy-api", "legal/registry"),
}
NOTES = (
    "Rotate with the certificate.",
    "Ask Noor before a change.",
    "Used by the batch at night.",
    "Only from the DMZ.",
)

ROTATION = """\
# Key rotation 2026

Digests are SHA-256 of bytes, in lower-case hexadecimal digits. CSV files have a head, commas and line ends of one
`\\n`. Paths are relative to the top directory, with `/`.

## Sealed files
A sealed file is text. Its lines: `SEALED 1`; `key: ` and the name of the key; `iv: ` and 32 hexadecimal digits;
`seal: ` and 64; an empty line; base64 of the encrypted content, 64 characters a line.

The content is encrypted with AES-256 in counter mode. The key is `keyring/NAME.key`: 64 hexadecimal digits and a line
end. The seal is HMAC-SHA256, with the same key, of the key's name, a line end, the 16 bytes of the iv, and the
encrypted bytes (not their base64). The iv of a file is the first 16 bytes of HMAC-SHA256 of its content with the key.

`tools/envelope.py open FILE` prints the content of a sealed file, `tools/envelope.py seal KEY FILE` prints what the
content in FILE (`-`: standard input) looks like sealed with KEY. Nothing is opened whose seal is broken.
`--self-check` tries it on `reference/`.

## Inventory
`inventory.csv`: `file,key`, every file in `vault/` and `archive/` and the key under which it is sealed before the
rotation, sorted by file.

## Archive
`archive/retired.sealed` is a JSON object of the keys that were retired in former years, by name. It gets sealed with
the new key; its content stays as it is, byte for byte.

## Vault
`tools/rotate.py k4` seals the files in `vault/` with `k4`, names those that it can't open, and destroys the keys in
the keyring under which no file of the vault is left.

## Log
`rotation.csv`: `file,from,to,content_sha256`, the files of the inventory in its order: the key before and after, and
the digest of the content.

## Escrow
`escrow.json`, an object: `key` (the name of the key that is left), `key_sha256` (of its 32 bytes), `files` (how many
are sealed with it), `inventory_sha256`, and `rotation_sha256`.
"""

ENVELOPE = '''\
"""Opens and seals files: envelope.py open FILE, envelope.py seal KEY FILE, envelope.py --self-check"""

import base64
import hashlib
import hmac
import pathlib
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Unopened(Exception):
    """The file can't be opened."""


def key_of(name, directory=ROOT / "keyring"):
    path = directory / f"{name}.key"
    if not path.exists():
        raise Unopened(f"the key {name} is not in the keyring")
    return bytes.fromhex(path.read_text().strip())


def mac(key, *parts):
    return hmac.new(key, b"".join(parts), hashlib.sha256)


def crypt(key, iv, data):
    """Counter mode: the same in both directions."""
    command = ["openssl", "enc", "-aes-256-ctr", "-K", key.hex(), "-iv", iv.hex()[:16]]
    done = subprocess.run(command, input=data, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return done.stdout


def seal(name, content, key):
    iv = mac(key, content).digest()[:16]
    body = textwrap.fill(base64.b64encode(crypt(key, iv, content)).decode(), 64) + "\\n"
    sign = mac(key, name.encode(), b"\\n", iv, body.encode()).hexdigest()
    return f"SEALED 1\\nkey: {name}\\niv: {iv.hex()}\\nseal: {sign}\\n\\n{body}"


def head_of(text):
    """The lines above the empty one, by name."""
    mark, *lines = text.partition("\\n\\n")[0].splitlines()
    if mark != "SEALED 1":
        raise Unopened("this is no sealed file")
    return dict(line.split(": ", 1) for line in lines)


def opened(text, keys=ROOT / "keyring"):
    head, body = head_of(text), text.partition("\\n\\n")[2]
    key, iv = key_of(head["key"], keys), bytes.fromhex(head["iv"])
    sign = mac(key, head["key"].encode(), b"\\n", iv, body.encode()).hexdigest()
    if not hmac.compare_digest(sign, head["seal"]):
        raise Unopened("the seal is broken")
    return crypt(key, iv, base64.b64decode(body))


def self_check():
    sample = (ROOT / "reference/sample.sealed").read_text()
    wanted = (ROOT / "reference/sample.txt").read_bytes()
    try:
        found = opened(sample, ROOT / "reference")
    except Unopened as error:
        sys.exit(f"the sample can't be opened: {error}")
    if found != wanted:
        sys.exit("the sample opens, to something else than its content")
    if seal("sample", wanted, key_of("sample", ROOT / "reference")) != sample:
        sys.exit("the content of the sample is sealed to something else than the sample")
    print("the sample is opened and sealed as it should be")


def main(words):
    if words == ["--self-check"]:
        self_check()
    elif words[:1] == ["open"] and len(words) == 2:
        sys.stdout.buffer.write(opened(pathlib.Path(words[1]).read_text()))
    elif words[:1] == ["seal"] and len(words) == 3:
        content = sys.stdin.buffer.read() if words[2] == "-" else pathlib.Path(words[2]).read_bytes()
        sys.stdout.write(seal(words[1], content, key_of(words[1])))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Unopened as error:
        sys.exit(str(error))
'''

ROTATE = '''\
"""Seals the vault with a new key and destroys those that it needs no longer: rotate.py KEY"""

import pathlib
import sys

import envelope

NEW, ROOT = sys.argv[1], envelope.ROOT
needed, left = {NEW}, []
for path in sorted((ROOT / "vault").rglob("*.sealed")):
    text = path.read_text()
    name = envelope.head_of(text)["key"]
    if name == NEW:
        continue
    try:
        content = envelope.opened(text)
    except envelope.Unopened as error:
        needed.add(name)
        left.append(f"{path.relative_to(ROOT)}: {error}")
        continue
    path.write_text(envelope.seal(NEW, content, envelope.key_of(NEW)))
for key in sorted((ROOT / "keyring").glob("*.key")):
    if key.stem not in needed:
        key.write_bytes(bytes(key.stat().st_size))  # so that the disk does not keep it
        key.unlink()
print("\\n".join([*left, f"left as they were: {len(left)}"]))
'''


def mac(key: bytes, data: bytes) -> bytes:
    return hmac.new(key, data, hashlib.sha256).digest()


def sealed(name: str, key: bytes, content: bytes) -> str:
    iv = mac(key, content)[:16]
    command = ["openssl", "enc", "-aes-256-ctr", "-K", key.hex(), "-iv", iv.hex()]
    data = subprocess.run(command, input=content, stdout=subprocess.PIPE, check=True).stdout
    text = base64.b64encode(data).decode()
    lines = "".join(f"{text[at : at + 64]}\n" for at in range(0, len(text), 64))
    seal = mac(key, f"{name}\n".encode() + iv + data).hex()
    return f"SEALED 1\nkey: {name}\niv: {iv.hex()}\nseal: {seal}\n\n{lines}"


def content(path: str) -> bytes:
    """The settings of a service, with one or two passwords."""
    head = (
        f"# {path}\nhost = {path.partition('/')[0]}{CHANCE.number(1, 9)}.internal\nport = {CHANCE.number(1024, 9999)}\n"
    )
    more = "".join(f"secret_{number} = {CHANCE.word(40)}\n" for number in range(CHANCE.number(1, 3)))
    return f"{head}{more}# {CHANCE.one_of(NOTES)}\n".encode()


def main() -> None:
    site = Site.of(date=1_772_000_000)
    keys = {name: CHANCE.take(32) for name in ("k0", "k1", "k2", "k3", "k4", "sample")}
    for name in ("k2", "k3", "k4"):
        site.file(f"keyring/{name}.key", f"{keys[name].hex()}\n", mode=0o600)
    for name, paths in UNDER.items():
        for path in paths:
            site.file(f"vault/{path}.sealed", sealed(name, keys[name], content(path)))
    retired = json.dumps({name: keys[name].hex() for name in ("k0", "k1")}, indent=2) + "\n"
    site.file("archive/retired.sealed", sealed("k2", keys["k2"], retired.encode()))
    sample = b"a sample, " + CHANCE.word(120).encode() + b"\n\x00 not only text\n"
    site.file("reference/sample.txt", sample)
    site.file("reference/sample.key", f"{keys['sample'].hex()}\n")
    site.file("reference/sample.sealed", sealed("sample", keys["sample"], sample))
    site.file("docs/rotation.md", ROTATION)
    site.file("tools/envelope.py", ENVELOPE)
    site.file("tools/rotate.py", ROTATE)
    site.finish()


main()
