# ruff: noqa: E501 (texts of files)
"""The corpus of commands, the workspace that they are read in, and how well a classifier does on them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from agentrewind.core.effects import overall
from agentrewind.effects.places import Place
from agentrewind.effects.reading import Reading

FILES = {
    "scripts/publish.sh": '#!/bin/bash\nset -e\ncd "$(dirname "$0")/.."\nVERSION=${1:-next}\ngit push origin "$VERSION"\n',
    "scripts/clean.sh": "rm -rf build dist\nfind . -name '*.pyc' -delete\n",
    "scripts/notify.py": "import os\nimport requests\n\nURL = os.environ['HOOK']\nrequests.post(URL, json={'text': 'x'})\n",
    "scripts/gen.py": "from pathlib import Path\n\nPath('out').mkdir(exist_ok=True)\n(Path('out') / 'a.txt').write_text('x')\n",
    "scripts/outside.py": "import os, shutil\nshutil.copy('a', os.path.expanduser('~/copy'))\n",
    "Makefile": (
        "PREFIX ?= /usr/local\nTWINE = twine\n\nall: build\n\nbuild: main.c\n\t@echo building\n\t$(CC) -o app main.c\n\n"
        "main.c:\n\ttouch main.c\n\ntest: build\n\tpytest -q\n\npublish: build\n\tpython -m build\n\t$(TWINE) upload dist/*\n\n"
        "release: test publish\n\ninstall: build\n\tinstall -m 755 app $(PREFIX)/bin/app\n\n"
        "uninstall:\n\trm -f $(PREFIX)/bin/app\n"
    ),
    "package.json": (
        '{"name": "x", "scripts": {"lint": "eslint .", "build": "tsc -p . && cp -r a dist", "test": "jest",'
        ' "release": "npm run build && npm publish", "ship": "curl -X POST https://hook.acme.dev"}}'
    ),
    "README.md": "git push\n",
    "app.db": "x",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    expected: str
    command: str


def workspace(root: Path) -> Path:
    """The workspace that the commands of the corpus are written for."""
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "scripts/publish.sh").chmod(0o755)
    (root / "sub").mkdir()
    return root


def cases(name: str, root: Path) -> list[Case]:
    text = (Path(__file__).parents[2] / "corpus/effects" / f"{name}.tsv").read_text()
    lines = [line.split("\t", 1) for line in text.splitlines() if line and not line.startswith("#")]
    return [Case(kind, command.replace("⏎", "\n").replace("{ws}", str(root))) for kind, command in lines]


@dataclass(frozen=True, slots=True)
class Scores:
    """How often each class was expected, given, and both."""

    expected: Counter[str]
    given: Counter[str]
    right: Counter[str]
    wrong: tuple[tuple[str, Case], ...]

    def recall(self, kind: str) -> float:
        return self.right[kind] / self.expected[kind]

    def precision(self, kind: str) -> float:
        return self.right[kind] / self.given[kind]

    def table(self) -> str:
        lines = [f"{'class':10} {'cases':>5} {'recall':>7} {'precision':>9}"]
        for kind in ("external", "outside", "workspace", "read", "unknown"):
            recall, precision = self.recall(kind), self.precision(kind)
            lines.append(f"{kind:10} {self.expected[kind]:5} {recall:7.3f} {precision:9.3f}")
        return "\n".join(lines)


def scores(root: Path, found: list[Case]) -> Scores:
    reading = Reading(Place.of(str(root), "/home/dev"))  # in this process: none of these texts is hostile
    given = [(overall(reading.effects("shell", {"command": case.command})), case) for case in found]
    return Scores(
        Counter(case.expected for case in found),
        Counter(kind for kind, _ in given),
        Counter(kind for kind, case in given if kind == case.expected),
        tuple((kind, case) for kind, case in given if kind != case.expected),
    )
