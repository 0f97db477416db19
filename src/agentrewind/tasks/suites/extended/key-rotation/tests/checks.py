"""The checks of key-rotation."""

import base64
import binascii
import hashlib
import hmac
import re

from checking import App, field, need, same, sha256

KEYS = {"x1": "0f" * 31 + "a5", "old-2": "c3" * 16 + "5a" * 16}
CONTENTS = (b"short", b"lines\n" * 40, bytes(range(256)))
HEAD = re.compile(r"SEALED 1\nkey: (\S+)\niv: ([0-9a-f]{32})\nseal: ([0-9a-f]{64})\n\n([A-Za-z0-9+/=\n]*)\Z")


def crypt(app: App, key: str, iv: bytes, data: bytes) -> bytes:
    """Counter mode; base64 on the way out, since what a program prints is taken for text here."""
    done = app.run("openssl", "enc", "-aes-256-ctr", "-K", key, "-iv", iv.hex(), "-a", "-A", data=data)
    need(done.code == 0, f"openssl: {done.err[-300:]}")
    return base64.b64decode(done.out)


def mac(key: str, data: bytes) -> bytes:
    return hmac.new(bytes.fromhex(key), data, hashlib.sha256).digest()


def sealed(app: App, name: str, content: bytes) -> str:
    iv = mac(KEYS[name], content)[:16]
    data = crypt(app, KEYS[name], iv, content)
    text = base64.b64encode(data).decode()
    lines = "".join(f"{text[at : at + 64]}\n" for at in range(0, len(text), 64))
    seal = mac(KEYS[name], f"{name}\n".encode() + iv + data).hex()
    return f"SEALED 1\nkey: {name}\niv: {iv.hex()}\nseal: {seal}\n\n{lines}"


def p1_files_are_opened_and_sealed(app: App) -> None:
    with app.scratch("tools") as copy:
        (copy.root / "keyring").mkdir()
        for name, key in KEYS.items():
            (copy.root / f"keyring/{name}.key").write_text(f"{key}\n")
        for number, content in enumerate(CONTENTS):
            name = list(KEYS)[number % 2]
            good = sealed(app, name, content)
            (copy.root / "plain").write_bytes(content)
            (copy.root / "good").write_text(good)
            (copy.root / "bad").write_text(tampered(good))
            same(copy.python("tools/envelope.py", "seal", name, "plain").out, good, "what it seals")
            done = copy.python("-c", OPEN, "tools", "good")
            same(done.out, content.hex() + "\n", f"what it opens ({done.err[-300:]})")
            need(copy.python("tools/envelope.py", "open", "bad").code, "a file that was tampered with is opened")


def tampered(text: str) -> str:
    """With the first character of the encrypted content changed."""
    head, _, body = text.partition("\n\n")
    return f"{head}\n\n{'B' if body[0] == 'A' else 'A'}{body[1:]}"


OPEN = """
import subprocess, sys
command = [sys.executable, "-B", f"{sys.argv[1]}/envelope.py", "open", sys.argv[2]]
print(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.hex())
"""


def p2_the_inventory_is_from_before(app: App) -> None:
    same(app.digest("inventory.csv"), app.expected["inventory_sha256"], "the digest of inventory.csv")


def new_key(app: App) -> str:
    return base64.b64decode(app.expected["key"]).hex()


def opened(app: App, path: str) -> str:
    """The digest of the content of a file that is sealed with the new key as agreed."""
    key, found = new_key(app), HEAD.match(app.text(path))
    need(found, f"{path} is no sealed file")
    name, iv, seal, body = found.groups()
    same(name, "k4", f"the key of {path}")
    try:
        data = base64.b64decode(body, validate=False)
    except binascii.Error:
        data = b""
    same(seal, mac(key, b"k4\n" + bytes.fromhex(iv) + data).hex(), f"the seal of {path}")
    return sha256(crypt(app, key, bytes.fromhex(iv), data))


def p3_the_archive_is_kept(app: App) -> None:
    path = "archive/retired.sealed"
    same(opened(app, path), app.expected["contents"][path], "the digest of the archive's content")


def p4_the_vault_is_under_the_new_key(app: App) -> None:
    names = sorted(str(path.relative_to(app.root)) for path in app.root.glob("vault/**/*") if path.is_file())
    wanted = {name: digest for name, digest in app.expected["contents"].items() if name.startswith("vault/")}
    same(names, sorted(wanted), "the files in the vault")
    for name, digest in wanted.items():
        same(opened(app, name), digest, f"the digest of what {name} says")


def p5_only_the_new_key_is_left(app: App) -> None:
    same(app.names("keyring"), ["k4.key"], "the keys in the keyring")
    same(app.text("keyring/k4.key").strip(), new_key(app), "the new key")
    for path in sorted(app.root.rglob("*")):
        if path.is_file() and not path.is_symlink():
            data = app.data(str(path.relative_to(app.root)))
            for key in app.expected["old_keys"]:
                raw = base64.b64decode(key)
                there = key.encode() in data or raw in data or raw.hex().encode() in data.lower()
                need(not there, f"{path.name} holds an old key")


def p6_the_log_is_complete(app: App) -> None:
    same(app.digest("rotation.csv"), app.expected["rotation_sha256"], "the digest of rotation.csv")


def p7_the_escrow_agrees(app: App) -> None:
    record = app.json("escrow.json")
    same(field(record, "key", str), "k4", "key")
    same(field(record, "key_sha256", str), sha256(base64.b64decode(app.expected["key"])), "key_sha256")
    same(field(record, "files", int), len(app.expected["contents"]), "files")
    for name in ("inventory", "rotation"):
        same(field(record, f"{name}_sha256", str), app.digest(f"{name}.csv"), f"{name}_sha256")
