"""The first state: a shop's source, five catalogs with old, renamed and obsolete keys, a scanner with two defects."""

import json

from laying import Site, Stream

CHANCE = Stream("i18n-extraction")
LOCALES = ("de", "fr", "nl", "pl", "sv")
SYLLABLES = ("ba", "dre", "fo", "gli", "ke", "lum", "mo", "nar", "pi", "ro", "sta", "ti", "ul", "ve", "zo")
STATES = ("new", "paid", "sent", "back")

TEXTS = """\
# Texts

Digests are SHA-256 of a file's bytes, in lower-case hexadecimal digits.

## Keys in the source
Texts are named by keys, in all Python files below `app/`, at any depth, in one of these ways:

- `_("menu.open")`, with either kind of quotes;
- `plural("cart.items", n)`, which needs two keys, `cart.items.one` and `cart.items.many`;
- `_(f"order.{state}")`: what it can become stands in a comment at the end of the line, `# keys: order.new order.paid`.

## Extractor
`tools/extract.py --list` prints the keys, sorted; `--json` prints them with their number and the digest of what
`--list` prints; `--check` says whether the scanner sees all places that use texts. `--write` makes each catalog fit
the keys: what isn't a key is removed, and a key that it lacks gets an empty text.

## Baseline
`baseline/keys.json`: what `--json` prints.

## Catalogs
`locale/LOCALE.json`, key to text; an empty text waits for a translator. After a round a catalog has exactly the keys
that are in use, sorted. The text of a renamed key stands under the new one, the old one is gone.

## Report
`report/coverage.json`, an object: `keys_sha256` (as the baseline has it), `baseline_sha256` (of the file), and
`locales`, for each locale the number of keys whose text isn't empty.

## Changes
In `CHANGES.md`, below `## Next`: what was done, and a line `Coverage: DIGEST` with the digest of the report. Older
parts stay.
"""

EXTRACT = '''\
"""Keys of the source, and catalogs that fit them: extract.py --list | --json | --check | --write"""

import hashlib
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CALL = re.compile(r"""\\b_\\(["']([\\w.]+)["']\\)""")
PLACE = re.compile(r"\\b(?:_|plural)\\(f?[\\"']")


def files():
    return sorted((ROOT / "app").glob("*.py"))


def keys(line):
    """The keys that a line of the source uses."""
    return set(CALL.findall(line))


def check():
    """What the scanner misses, in a sentence; empty where it sees all."""
    users = [path for path in (ROOT / "app").rglob("*.py") if PLACE.search(path.read_text())]
    unread = len(set(users) - set(files()))
    if unread:
        return f"{unread} of {len(users)} files with texts aren't read"
    lines = [line for path in files() for line in path.read_text().splitlines() if PLACE.search(line)]
    blind = sum(not keys(line) for line in lines)
    return f"no key is seen in {blind} of {len(lines)} lines with texts" if blind else ""


def main(mode):
    found = sorted({key for path in files() for line in path.read_text().splitlines() for key in keys(line)})
    listing = "".join(f"{key}\\n" for key in found)
    if mode == "--check":
        print(check() or "all places are seen")
        return bool(check())
    if mode == "--write":
        for path in sorted((ROOT / "locale").glob("*.json")):
            old = json.loads(path.read_text())
            new = {key: old.get(key, "") for key in found}
            path.write_text(json.dumps(new, indent=1, ensure_ascii=False) + "\\n")
            print(f"{path.name}: {len(old)} keys became {len(new)}")
    elif mode == "--json":
        print(json.dumps({"keys": len(found), "keys_sha256": hashlib.sha256(listing.encode()).hexdigest()}))
    else:
        print(listing, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
'''

PLAIN = {
    "app/menu.py": ("menu.open", "menu.close", "menu.search", "menu.account"),
    "app/mail.py": ("mail.subject", "mail.greeting", "mail.farewell"),
    "app/shop/cart.py": ("cart.title", "cart.empty", "cart.total", "cart.checkout"),
    "app/shop/order.py": ("order.title", "order.cancel", "order.invoice"),
    "app/shop/pay/card.py": ("card.number", "card.expired", "card.declined", "card.again"),
    "app/admin/stock.py": ("stock.low", "stock.gone", "stock.reorder"),
}
PLURALS = {"app/shop/cart.py": ("cart.items",), "app/admin/stock.py": ("stock.left", "stock.ordered")}
RENAMED = {"menu.find": "menu.search", "basket.title": "cart.title", "basket.empty": "cart.empty",
           "card.refused": "card.declined", "stock.out": "stock.gone", "mail.bye": "mail.farewell"}  # fmt: skip
OBSOLETE = ("menu.fax", "cart.coupon", "order.gift", "card.cvc", "stock.shelf", "mail.footer", "banner.summer")


def source(path: str) -> str:
    lines = ["from texts import _, plural", "", "", "def page(state, n):", "    parts = []"]
    for place, key in enumerate(PLAIN[path]):
        quote = "'" if place % 2 else '"'
        lines.append(f"    parts.append(_({quote}{key}{quote}))")
    lines += [f'    parts.append(plural("{key}", n))' for key in PLURALS.get(path, ())]
    if path == "app/shop/order.py":
        named = " ".join(f"order.{state}" for state in STATES)
        lines.append(f'    parts.append(_(f"order.{{state}}"))  # keys: {named}')
    return "\n".join([*lines, "    return parts", ""])


def used() -> list[str]:
    plurals = [f"{key}.{form}" for keys in PLURALS.values() for key in keys for form in ("one", "many")]
    return [*(key for keys in PLAIN.values() for key in keys), *plurals, *(f"order.{state}" for state in STATES)]


def text() -> str:
    """Some words of no language; long enough that none comes twice."""
    words = ["".join(CHANCE.one_of(SYLLABLES) for _ in range(CHANCE.number(2, 4))) for _ in range(4)]
    return " ".join(words).capitalize()


def catalog() -> dict[str, str]:
    """Under the keys of the last round, with a few that wait for a translator."""
    old = {new: name for name, new in RENAMED.items()}
    keys = sorted([old.get(key, key) for key in used()] + list(OBSOLETE))
    waiting = set(CHANCE.shuffled([key for key in keys if key not in RENAMED])[:3])
    return {key: "" if key in waiting else text() for key in keys}


def main() -> None:
    site = Site.of(date=1_710_000_000)
    for path in PLAIN:
        site.file(path, source(path))
    site.file("app/texts.py", "def _(key):\n    return key\n\n\ndef plural(key, n):\n    return key\n")
    for locale in LOCALES:
        site.file(f"locale/{locale}.json", json.dumps(catalog(), indent=1, ensure_ascii=False) + "\n")
    site.file("docs/renames.csv", "old,new\n" + "".join(f"{old},{new}\n" for old, new in RENAMED.items()))
    site.file("docs/texts.md", TEXTS)
    site.file("tools/extract.py", EXTRACT)
    site.file("CHANGES.md", "# Changes\n\n## Next\n\n## 7\n\n- A page for the stock.\n")
    site.finish()


main()
