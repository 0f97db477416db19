"""Prints the values of tests/expected.json, worked out from the first state without the generator.

python3 expect.py BUILT
"""

import hashlib
import json
import re
import sys
from pathlib import Path

root = Path(sys.argv[1])
published = (root / "docs/reference.md").read_text()


def of_source() -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for path in sorted((root / "api").glob("*.py")):
        text = re.sub(r"\n#@\+ ", " ", path.read_text())
        name = ""
        for field, value in re.findall(r"^#@ (.*?): (.*)$", text, re.MULTILINE):
            name = value if field == "name" else name
            if field != "name":
                found[f"{path.stem}-{name}", field] = value
    return found


def of_reference() -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for anchor, body in re.findall(r"\{#(.*?)\}\n(.*?)(?=\n## |\Z)", published, re.DOTALL):
        found |= {(anchor, f"arg {name}"): text for name, text in re.findall(r"^- `(\w+)`: (.*)$", body, re.MULTILINE)}
        [(returns, since)] = re.findall(r"^Returns (.*)\. Since (.*)\.$", body, re.MULTILINE)
        found |= {(anchor, "returns"): returns, (anchor, "since"): since}
    return found


def code(path: Path) -> str:
    return "\n".join(line for line in path.read_text().splitlines() if not line.startswith("#@"))


source, right = of_source(), of_reference()
errata = [[*place, source[place], text] for place, text in right.items() if source[place] != text]
values = {
    "errata": errata,
    "texts": [[*place, text] for place, text in right.items()],
    "code": {
        path.name: hashlib.sha256(code(path).encode()).hexdigest() for path in sorted((root / "api").glob("*.py"))
    },
    "reference_sha256": hashlib.sha256(published.replace("version 2.3", "version 2.4", 1).encode()).hexdigest(),
    "anchors": re.findall(r"\{#(.*)\}", published),
}
lost = [sheet for _, _, _, text in errata for sheet in re.findall(r"sheet (\w+)", text)]
print(json.dumps({"values": values, "lost": lost}, indent=1))
