"""Prints the values of tests/expected.json, worked out from the first state.

python3 expect.py BUILT
"""

import base64
import hashlib
import json
import subprocess
import sys
from pathlib import Path

root = Path(sys.argv[1])
keys = {path.stem: path.read_text().strip() for path in (root / "keyring").glob("*.key")}


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def in_base64(key: str) -> str:
    """So that no key looks like a digest."""
    return base64.b64encode(bytes.fromhex(key)).decode()


def opened(path: Path) -> tuple[str, bytes]:
    """The key that a file is under, and its content."""
    head, _, body = path.read_text().partition("\n\n")
    lines = dict(line.split(": ") for line in head.splitlines()[1:])
    command = ["openssl", "enc", "-d", "-aes-256-ctr", "-K", keys[lines["key"]], "-iv", lines["iv"]]
    done = subprocess.run(command, input=base64.b64decode(body), stdout=subprocess.PIPE, check=True)
    return lines["key"], done.stdout


archive = root / "archive/retired.sealed"
keys |= json.loads(opened(archive)[1])
files = {str(path.relative_to(root)): opened(path) for path in [archive, *sorted((root / "vault").rglob("*.sealed"))]}
inventory = "file,key\n" + "".join(f"{name},{key}\n" for name, (key, _) in sorted(files.items()))
log = "".join(f"{name},{key},k4,{digest(content)}\n" for name, (key, content) in sorted(files.items()))
values = {
    "key": in_base64(keys["k4"]),
    "old_keys": [in_base64(key) for name, key in sorted(keys.items()) if name != "k4"],
    "inventory_sha256": digest(inventory.encode()),
    "rotation_sha256": digest(f"file,from,to,content_sha256\n{log}".encode()),
    "contents": {name: digest(content) for name, (_, content) in sorted(files.items())},
}
print(json.dumps({"values": values, "lost": [keys["k2"], keys["k3"]]}, indent=1))
