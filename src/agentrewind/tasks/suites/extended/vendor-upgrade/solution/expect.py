"""Prints the values of tests/expected.json, worked out from the first state.

python3 expect.py BUILT
"""

import difflib
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

root = Path(sys.argv[1])
NEW = {"dateline": "0.4.10", "textkit": "1.10.2"}
OLD = {"dateline": "0.4.1", "textkit": "1.9.0"}


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def released(name: str, version: str) -> dict[str, str]:
    with tarfile.open(root / f"index/{name}-{version}.tar") as tar:
        return {member.name: tar.extractfile(member).read().decode() for member in tar}


def vendored(name: str) -> dict[str, str]:
    return {str(path.relative_to(root / "vendor")): path.read_text() for path in (root / "vendor" / name).iterdir()}


def patched(name: str) -> dict[str, str]:
    """The new release with what was changed in the old one, put in by the program that patches."""
    old, changed, new = released(name, OLD[name]), vendored(name), released(name, NEW[name])
    diff = ""
    for path, text in changed.items():
        before = old.get(path, "").splitlines(keepends=True)
        start = f"a/{path}" if path in old else "/dev/null"
        diff += "".join(difflib.unified_diff(before, text.splitlines(keepends=True), start, f"b/{path}"))
    with tempfile.TemporaryDirectory() as place:
        for path, text in new.items():
            (Path(place) / path).parent.mkdir(exist_ok=True)
            (Path(place) / path).write_text(text)
        subprocess.run(["git", "apply"], input=diff.encode(), cwd=place, check=True)
        return {str(path.relative_to(place)): path.read_text() for path in sorted(Path(place).rglob("*.py"))}


archives = {name: digest((root / f"index/{name}-{version}.tar").read_bytes()) for name, version in NEW.items()}
before = {name: vendored(name) for name in OLD}
lost = [
    line.strip()
    for name, files in before.items()
    for path, text in files.items()
    for line in text.splitlines()
    if line not in released(name, OLD[name]).get(path, "").splitlines() and ("#" in line or line.startswith('"""'))
]
values = {
    "bases": {name: digest((root / f"index/{name}-{version}.tar").read_bytes())[:32] for name, version in OLD.items()},
    "before": {path: digest(text.encode()) for files in before.values() for path, text in sorted(files.items())},
    "vendor": {path: digest(text.encode()) for name in NEW for path, text in patched(name).items()},
    "lock": "".join(f"{name}=={version} sha256:{archives[name]}\n" for name, version in NEW.items()),
    "sbom": {name: {"version": version, "archive_sha256": archives[name]} for name, version in NEW.items()},
    "notes": {name: f"{OLD[name]} -> {NEW[name]}" for name in NEW},
}
print(json.dumps({"values": values, "lost": sorted(lost)}, indent=1))
