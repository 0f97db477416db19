"""The first state: annotated sources, a published reference that was corrected, a generator with two defects."""

from laying import Site, Stream

CHANCE = Stream("docs-errata")
MODULES = ("mixer", "filter", "delay", "meter")
VERBS = ("set", "get", "reset", "load", "trim", "probe")
NOUNS = ("gain", "phase", "window", "limit", "trace", "depth")
UNITS = ("dB", "Hz", "ms", "samples", "percent")
FUNCTIONS, ERRATA = 9, 31

WRITING = """\
# How the reference is made

Digests are SHA-256 of a file's bytes, in lower-case hexadecimal digits. CSV has a head and line ends of one `\\n`.

## Annotations
Lines of `api/*.py` that begin with `#@`, before a function:

    #@ name: set_gain
    #@ arg level: gain in dB,
    #@+ from 0 to 40
    #@ returns: the gain that was set
    #@ since: 1.2

A line with `#@+` continues the one before it, with one blank between them; where a text is broken doesn't matter.

## Generator
`python3 tools/gendoc.py [--out FILE]` writes the reference, to `docs/reference.md` if no other file is named: a head
with the version from `VERSION`, then modules and their functions in the order of the source, each function as

    ## set_gain {#mixer-set_gain}

    - `level`: gain in dB, from 0 to 40

    Returns the gain that was set. Since 1.2.

with the module and the name in the anchor, because names occur in several modules. `make docs` does it for a release.

## Errata
`errata/errata.csv`, `anchor,field,printed,right`, in the order of the reference: for each text that the published
reference has otherwise than the source. The field is `arg NAME`, `returns` or `since`, `printed` the text of the
source. They are carried back by changing these texts in the annotations; code isn't touched.

## Release
`VERSION` is 2.4, and `docs/reference.md` was generated with it. Every link of `docs/guide.md` into the reference
leads to an anchor that is there.

## Index
`docs/index.json`, an object: `anchors` (a list, in the order of the reference), `errata` (their number),
`errata_sha256`, `reference_sha256`.

## Changes
In `CHANGES.md`, under a new heading `## 2.4` above the others: what was done, and a line `Index: DIGEST`.
"""

GENERATOR = '''\
"""Generates the reference from annotations: gendoc.py [--out FILE]"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def functions(path):
    """The annotated functions of a module: lists of field and text."""
    found = []
    for line in path.read_text().splitlines():
        if not line.startswith("#@ "):
            continue
        field, _, text = line[3:].partition(": ")
        if field == "name":
            found.append([])
        found[-1].append([field, text])
    return found


def section(module, fields):
    name = fields[0][1]
    texts = dict(fields)
    args = "".join(f"- `{field[4:]}`: {text}\\n" for field, text in fields if field.startswith("arg "))
    return f"## {name} {{#{name}}}\\n\\n{args}\\nReturns {texts['returns']}. Since {texts['since']}.\\n"


def reference():
    parts = [f"# Reference, version {(ROOT / 'VERSION').read_text().strip()}\\n"]
    for path in sorted((ROOT / "api").glob("*.py")):
        parts += [section(path.stem, fields) for fields in functions(path)]
    return "\\n".join(parts)


if __name__ == "__main__":
    out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1]) if "--out" in sys.argv else ROOT / "docs/reference.md"
    out.write_text(reference())
'''

MAKEFILE = """\
docs:
	python3 tools/gendoc.py

.PHONY: docs
"""

Fields = list[tuple[str, str]]


def number() -> int:
    return CHANCE.number(2, 96)


def limits() -> str:
    return f"from {number()} to {number()} {CHANCE.one_of(UNITS)} (sheet {CHANCE.word(10)})"


def function(name: str) -> Fields:
    args = [(f"arg {noun}", f"the {noun}, {limits()}") for noun in CHANCE.shuffled(NOUNS)[: CHANCE.number(1, 3)]]
    return [("name", name), *args, ("returns", f"the {CHANCE.one_of(NOUNS)}, {limits()}"), ("since", f"1.{number()}")]


def modules() -> dict[str, list[Fields]]:
    """Names that occur in several modules, so that a name alone is no anchor."""
    names = [f"{verb}_{noun}" for verb in VERBS for noun in NOUNS[:3]]
    return {module: [function(name) for name in CHANCE.shuffled(names)[:FUNCTIONS]] for module in MODULES}


def corrected(source: dict[str, list[Fields]]) -> dict[str, list[Fields]]:
    """As the writers left it: other limits and other sheets, here and there another version."""
    places = [
        (module, number, place)
        for module, found in source.items()
        for number, fields in enumerate(found)
        for place in range(1, len(fields))
    ]
    wrong = set(CHANCE.shuffled(places)[:ERRATA])

    def text(where: tuple[str, int, int], field: str, old: str) -> tuple[str, str]:
        if where not in wrong:
            return field, old
        return field, (f"1.{number()}.{number()}" if field == "since" else f"{old.partition(',')[0]}, {limits()}")

    return {
        module: [
            [text((module, number, place), field, old) for place, (field, old) in enumerate(fields)]
            for number, fields in enumerate(found)
        ]
        for module, found in source.items()
    }


def annotated(found: list[Fields]) -> str:
    """A module; long annotations go over two lines."""
    parts = []
    for fields in found:
        lines = []
        for field, text in fields:
            first, comma, rest = text.partition(", ")
            broken = comma and CHANCE.number(0, 2) == 0
            lines += [f"#@ {field}: {first},", f"#@+ {rest}"] if broken else [f"#@ {field}: {text}"]
        names = ", ".join(field.removeprefix("arg ") for field, _ in fields if field.startswith("arg "))
        body = f"def {fields[0][1]}({names}):\n    return _call({CHANCE.number(100, 999)}, {names})\n"
        parts.append("\n".join(lines) + "\n" + body)
    return '"""Part of the audio library."""\n\nfrom api._native import call as _call\n\n\n' + "\n\n".join(parts)


def published(source: dict[str, list[Fields]]) -> str:
    parts = ["# Reference, version 2.3\n"]
    for module, found in sorted(source.items()):
        for fields in found:
            texts = dict(fields)
            args = "".join(f"- `{field[4:]}`: {text}\n" for field, text in fields if field.startswith("arg "))
            name = texts["name"]
            head = f"## {name} {{#{module}-{name}}}\n\n{args}\n"
            parts.append(f"{head}Returns {texts['returns']}. Since {texts['since']}.\n")
    return "\n".join(parts)


def main() -> None:
    site = Site.of(date=1_690_000_000)
    source = modules()
    for module, found in source.items():
        site.file(f"api/{module}.py", annotated(found))
    right = corrected(source)
    site.file("docs/reference.md", published(right), date=1_690_400_000)
    links = [(module, CHANCE.one_of(found)[0][1]) for module, found in source.items() for _ in range(3)]
    guide = "".join(f"- [{name} of the {module}](reference.md#{module}-{name})\n" for module, name in links)
    site.file("docs/guide.md", f"# Guide\n\nWhere to begin:\n\n{guide}")
    site.file("docs/writing.md", WRITING)
    site.file("tools/gendoc.py", GENERATOR)
    site.file("Makefile", MAKEFILE)
    site.file("VERSION", "2.3\n")
    site.file("CHANGES.md", "# Changes\n\n## 2.3\n\n- Corrections of limits.\n\n## 2.2\n\n- The meter.\n")
    site.finish()


main()
