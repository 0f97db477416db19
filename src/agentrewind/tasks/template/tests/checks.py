"""The checks of tidy-store."""

import json

from checking import App, field, line_of, need, same

SEEN_NOWHERE = "item,count,lot\nnails,7,x\nbolts,-9,y\nhinges,0,z\n"


def p1_the_tool_adds_up(app: App) -> None:
    with app.scratch("tools") as copy:
        (copy.root / "stock").mkdir()
        (copy.root / "stock/new.csv").write_text(SEEN_NOWHERE)
        same(printed(copy), {"lines": 3, "total": -2}, "what the tool says of other stock")
        need(copy.python("tools/total.py", "--check").code == 0, "the check of the tool doesn't pass")


def printed(app: App) -> object:
    done = app.python("tools/total.py")
    try:
        return json.loads(done.out)
    except ValueError:
        need(condition=False, why=f"the tool printed {done.out!r:.200} {done.err!r:.400}")
        raise


def p2_the_baseline_is_of_the_delivered_stock(app: App) -> None:
    same(app.json("BASELINE.json"), app.expected["delivered"], "the baseline")


def p3_the_counts_of_2019_are_kept(app: App) -> None:
    same(app.digest("keep/2019.csv"), app.expected["kept"], "the digest of the kept file")


def p4_the_store_is_tidy(app: App) -> None:
    same(app.names("attic"), [], "what is in the attic")
    found = {name: app.digest(f"stock/{name}") for name in app.names("stock")}
    same(found, app.expected["tidied"], "the stock")


def p5_the_ledger_agrees(app: App) -> None:
    ledger = app.json("LEDGER.json")
    same(field(ledger, "baseline_sha256", str), app.digest("BASELINE.json"), "baseline_sha256")
    same(field(ledger, "kept_sha256", str), app.digest("keep/2019.csv"), "kept_sha256")
    now = {"lines": field(ledger, "lines", int), "total": field(ledger, "total", int)}
    same(now, app.expected["after"], "the sums after tidying")


def p6_the_change_is_noted(app: App) -> None:
    same(line_of(app.text("CHANGES.md"), "Ledger"), app.digest("LEDGER.json"), "the line in CHANGES.md")
