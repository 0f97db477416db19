"""The checks of i18n-extraction."""

from typing import Any
from checking import App, field, line_of, need, same

UNSEEN = {
    "app/a.py": "x = _('one.a')\ny = [_(\"one.b\"), _('one.c')]\n",
    "app/deep/er/b.py": "z = plural(\"two.d\", n)\nw = plural('two.e', 3)\n",
    "app/deep/c.py": 'v = _(f"three.{v}")  # keys: three.x three.y\nnothing = find("four.f")\n',
}
FOUND = ["one.a", "one.b", "one.c", "three.x", "three.y", "two.d.many", "two.d.one", "two.e.many", "two.e.one"]


def p1_the_scanner_sees_every_key(app: App) -> None:
    with app.scratch("tools") as copy:
        for name, text in UNSEEN.items():
            (copy.root / name).parent.mkdir(parents=True, exist_ok=True)
            (copy.root / name).write_text(text)
        done = copy.python("tools/extract.py", "--list")
        same(done.out.split(), FOUND, f"the keys of another source ({done.err[-300:]})")
    need(app.python("tools/extract.py", "--check").code == 0, "the check of the scanner doesn't pass")


def p2_the_baseline_is_right(app: App) -> None:
    same(app.json("baseline/keys.json"), app.expected["keys"], "the baseline")


def catalog(app: App, locale: str) -> dict[str, Any]:
    found = app.json(f"locale/{locale}.json")
    need(isinstance(found, dict), f"the catalog {locale} is no object")
    return dict(found)


def p3_translations_are_as_written(app: App) -> None:
    for locale, texts in app.expected["same"].items():
        found = catalog(app, locale)
        same({key: found.get(key) for key in texts}, texts, f"the texts of {locale}")


def p4_renamed_keys_keep_their_texts(app: App) -> None:
    for locale, texts in app.expected["renamed"].items():
        found = catalog(app, locale)
        same({key: found.get(key) for key in texts}, texts, f"the renamed texts of {locale}")


def p5_catalogs_are_pruned(app: App) -> None:
    for locale in app.expected["same"]:
        wanted = sorted({**app.expected["same"][locale], **app.expected["renamed"][locale]})
        same(list(catalog(app, locale)), wanted, f"the keys of {locale}")
    same(app.names("locale"), [f"{locale}.json" for locale in sorted(app.expected["same"])], "the catalogs")


def p6_the_report_agrees(app: App) -> None:
    report = app.json("report/coverage.json")
    same(field(report, "keys_sha256", str), app.expected["keys"]["keys_sha256"], "keys_sha256")
    same(field(report, "baseline_sha256", str), app.digest("baseline/keys.json"), "baseline_sha256")
    counts = {
        locale: sum(bool(text) for text in {**app.expected["same"][locale], **app.expected["renamed"][locale]}.values())
        for locale in app.expected["same"]
    }
    same(field(report, "locales", dict), counts, "locales")


def p7_the_changes_quote_the_report(app: App) -> None:
    head, mark, older = app.text("CHANGES.md").partition("## 7\n")
    same(mark + older, "## 7\n\n- A page for the stock.\n", "the older parts")
    _, mark, entry = head.partition("## Next\n")
    need(mark and entry.strip().count("\n"), "there is no entry")
    same(line_of(entry, "Coverage"), app.digest("report/coverage.json"), "the line Coverage")
