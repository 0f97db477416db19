"""The first state: two vendored packages with changes by hand, an index of releases, a resolver with three defects."""

import hashlib
import io
import tarfile

from laying import Site, Stream

CHANCE = Stream("vendor-upgrade")
DATE = 1_715_000_000

VENDORING = """\
# Vendored packages

Digests are SHA-256 of a file's bytes, in lower-case hexadecimal digits.

## Releases
`index/NAME-VERSION.tar` is a release: a directory NAME with the package. A version is numbers with dots, compared
number by number; `1.4` and `1.4.0` are the same. With `a`, `b` or `rc` and a number behind it, it is a pre-release,
which we never take. `requirements.txt` says what may be taken: `>=`, `<` and `~=`. `~= 0.4.1` means at least 0.4.1,
and of the series 0.4; `~= 1.2` at least 1.2, and of the series 1. Of what may be taken, the newest is.
`python3 tools/lock.py choose SPECIFIER VERSION...` prints which that is.

## Patches
`patches/NAME.patch` for each package: a unified diff from the release that the lock named before the upgrade to what
was in `vendor/` then, all of it, new files too. Paths begin with `a/NAME/` and `b/NAME/`.

## Upgrade
`python3 tools/lock.py upgrade` chooses, writes `requirements.lock` (a line for each package, sorted:
`NAME==VERSION sha256:` and the digest of the release), and puts these releases into `vendor/`. Then the patches are
applied to them; they fit.

## Bill of materials
`sbom.json`: an object with an object for each package by its name: `version`, `archive_sha256` (of the release) and
`patch_sha256` (of the patch).

## Notes
`UPGRADE.md`, with a line for each package, `NAME: OLD -> NEW` (versions), and a line `SBOM: ` with the digest of
`sbom.json`.
"""

LOCK = '''\
"""Chooses releases and vendors them: lock.py self-check, lock.py choose SPECIFIER VERSION..., lock.py upgrade"""

import hashlib
import pathlib
import re
import shutil
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CASES = (
    (">= 1.2, < 2", ["1.9", "1.10", "1.2", "2.0"], "1.10"),
    (">= 1, < 3", ["1.4", "2.1", "2.2rc1"], "2.1"),
    ("~= 3.1.4", ["3.1.4", "3.1.20", "3.2.0"], "3.1.20"),
)


def key(version):
    """What versions are compared by."""
    return version.split(".")


def allowed(version, specifier):
    for part in specifier.split(","):
        sign, bound = re.match(r"(>=|<|~=) *(\\S+)", part.strip()).groups()
        if sign == "<" and key(version) >= key(bound):
            return False
        if sign in (">=", "~=") and key(version) < key(bound):
            return False
    return True


def choose(specifier, versions):
    return max((version for version in versions if allowed(version, specifier)), key=key)


def releases(name):
    """The versions of a package that are in the index."""
    return [path.name[len(name) + 1 : -4] for path in (ROOT / "index").glob(f"{name}-*.tar")]


def vendor(name, archive):
    shutil.rmtree(ROOT / "vendor" / name, ignore_errors=True)
    with tarfile.open(archive) as tar:
        tar.extractall(ROOT / "vendor")


def upgrade():
    lines = []
    for line in (ROOT / "requirements.txt").read_text().splitlines():
        name, specifier = re.match(r"(\\w+) *(.*)", line).groups()
        version = choose(specifier, releases(name))
        archive = ROOT / f"index/{name}-{version}.tar"
        lines.append(f"{name}=={version} sha256:{hashlib.sha256(archive.read_bytes()).hexdigest()}\\n")
        vendor(name, archive)
    (ROOT / "requirements.lock").write_text("".join(sorted(lines)))
    print("".join(lines), end="")


if sys.argv[1] == "choose":
    print(choose(sys.argv[2], sys.argv[3:]))
elif sys.argv[1] == "upgrade":
    upgrade()
else:
    for specifier, versions, wanted in CASES:
        found = choose(specifier, versions)
        if found != wanted:
            sys.exit(f"{specifier}: of {', '.join(versions)} it chooses {found}, not {wanted}")
    print("all cases are chosen right")
'''

WRAP = '''\
"""Breaks text into lines."""


def wrap(text, {width}):
    """Lines of at most so many characters, broken at blanks."""
{more}    lines, line = [], ""
    for word in text.split(" "):
        if line and len(line) + 1 + len(word) > {width}:
            lines.append(line)
            line = word
        else:
            line = f"{{line}} {{word}}" if line else word
    return [*lines, line]


def indent(lines, by=2):
    return [" " * by + line for line in lines]
'''

SLUG = '''\
"""Names for files."""

import re
import unicodedata


def slug(text):
    """In small letters, digits and hyphens."""
    text = unicodedata.normalize("NFKD", text)
    text = text.encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
'''

PARSE = '''\
"""Reads dates."""

import datetime


def parse(text):
    """A date as it is written here."""
    day, month, year = text.split(".")
    return datetime.date(int(year), int(month), int(day))
'''

SPAN = '''\
"""Spans of days."""

import datetime


def days(first, last):
    return (last - first).days
{extra}

def due(date, after):
    """The day on which something is due, so many days after a date."""
    return date + datetime.timedelta(days=after)
'''

INVOICE = '''\
"""Invoices as text."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "vendor"))

import dateline
import textkit


def name_of(customer, date):
    """The file of an invoice."""
    return f"{dateline.parse(date):%Y-%m-%d}-{textkit.slug(customer)}.txt"


def render(customer, date, what):
    due = dateline.due(dateline.parse(date), 14)
    body = textkit.indent(textkit.wrap(what, width=32))
    return "\\n".join([f"To {customer}, {date}", *body, f"Due on {due:%d.%m.%Y}", ""])
'''

TESTS = """\
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from billing import invoice


class Invoices(unittest.TestCase):
    def test_umlauts_are_written_out_in_names(self):
        self.assertEqual(invoice.name_of("M\\u00fcller & S\\u00f6hne", "03.05.2024"), "2024-05-03-mueller-soehne.txt")

    def test_years_of_two_digits_are_of_this_century(self):
        self.assertEqual(invoice.name_of("A", "03.05.24"), "2024-05-03-a.txt")

    def test_nothing_is_due_at_the_weekend(self):
        self.assertIn("Due on 20.05.2024", invoice.render("A", "04.05.2024", "Work"))

    def test_numbers_are_not_parted_from_their_units(self):
        self.assertIn("\\n  12\\u00a0kg", invoice.render("A", "03.05.2024", "Delivery of coffee, roasted, 12\\u00a0kg"))


if __name__ == "__main__":
    unittest.main()
"""


def told(version: str) -> str:
    return f'\n__version__ = "{version}"\n'


def textkit(version: str, width: str, more: str = "", slug: str = SLUG) -> dict[str, str]:
    return {
        "textkit/__init__.py": "from textkit.slug import slug\nfrom textkit.wrap import indent, wrap\n" + told(version),
        "textkit/slug.py": slug,
        "textkit/wrap.py": WRAP.format(width=width, more=more),
    }


def dateline(version: str, extra: str = "") -> dict[str, str]:
    return {
        "dateline/__init__.py": "from dateline.parse import parse\nfrom dateline.span import days, due\n"
        + told(version),
        "dateline/parse.py": PARSE,
        "dateline/span.py": SPAN.format(extra=extra),
    }


def weeks(count: int) -> str:
    return f"\n\ndef weeks(first, last):\n    return days(first, last) // {7 * count} * {count}\n"


def archive(files: dict[str, str]) -> bytes:
    """Without compression, so that it is the same whatever the version of zlib."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, text in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(text.encode()), DATE, 0o644
            tar.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()


def mark() -> str:
    """What tells a change by hand from every other way to do the same."""
    return f"{CHANCE.one_of(('see', 'ticket', 'asked for in', 'from'))} {CHANCE.word(10)}"


def by_hand(files: dict[str, str]) -> dict[str, str]:
    """The packages with what was changed in them over the years."""
    changed = dict(files)
    changed["textkit/slug.py"] = (
        changed["textkit/slug.py"]
        .replace(
            '    text = unicodedata.normalize("NFKD", text)\n',
            f'    text = written_out(text)  # {mark()}\n    text = unicodedata.normalize("NFKD", text)\n',
        )
        .replace("import unicodedata\n", "import unicodedata\n\nfrom textkit.letters import written_out\n")
    )
    changed["textkit/letters.py"] = (
        f'"""Letters that are written out in names ({mark()})."""\n\n'
        'LETTERS = {"\\u00e4": "ae", "\\u00f6": "oe", "\\u00fc": "ue", "\\u00df": "ss"}\n\n\n'
        'def written_out(text):\n    return "".join(LETTERS.get(letter, letter) for letter in text.lower())\n'
    )
    changed["dateline/parse.py"] = changed["dateline/parse.py"].replace(
        "    return datetime.date(int(year), int(month), int(day))\n",
        f'    if len(year) == 2:  # {mark()}\n        year = f"20{{year}}"\n'
        "    return datetime.date(int(year), int(month), int(day))\n",
    )
    changed["dateline/span.py"] = changed["dateline/span.py"].replace(
        "    return date + datetime.timedelta(days=after)\n",
        f"    day = date + datetime.timedelta(days=after)\n    while day.weekday() > 4:  # {mark()}\n"
        "        day += datetime.timedelta(days=1)\n    return day\n",
    )
    return changed


def main() -> None:
    site = Site.of(DATE)
    stripped = "    text = text.strip()\n"
    base = {**textkit("1.9.0", "width"), **dateline("0.4.1")}
    published = {
        "textkit-1.8.3": textkit("1.8.3", "width"),
        "textkit-1.9.0": textkit("1.9.0", "width"),
        "textkit-1.10.0": textkit("1.10.0", "columns"),
        "textkit-1.10.2": textkit("1.10.2", "columns", stripped, SLUG.replace("Names for files.", "Names of files.")),
        "textkit-1.11.0rc1": textkit("1.11.0rc1", "columns", stripped, SLUG.replace("small", "lower-case")),
        "textkit-2.0.0": textkit("2.0.0", "size", stripped, SLUG.replace("slug(text)", "slug(text, *, limit=80)")),
        "dateline-0.4.1": dateline("0.4.1"),
        "dateline-0.4.9": dateline("0.4.9", weeks(1)),
        "dateline-0.4.10": dateline("0.4.10", weeks(2)),
        "dateline-0.5.0": dateline("0.5.0", weeks(3)),
    }
    for name, files in published.items():
        site.file(f"index/{name}.tar", archive(files))
    locked = {
        name: hashlib.sha256(archive(published[name])).hexdigest() for name in ("dateline-0.4.1", "textkit-1.9.0")
    }
    lines = "".join(f"{name.replace('-', '==')} sha256:{digest}\n" for name, digest in locked.items())
    site.file("requirements.lock", lines)
    site.file("requirements.txt", "dateline ~= 0.4.1\ntextkit >= 1.9, < 2\n")
    for name, text in by_hand(base).items():
        site.file(f"vendor/{name}", text)
    site.file("billing/__init__.py", "")
    site.file("billing/invoice.py", INVOICE)
    site.file("tests/test_invoices.py", TESTS)
    site.file("docs/vendoring.md", VENDORING)
    site.file("tools/lock.py", LOCK)
    site.finish()


main()
