"""The checks of contact-dedupe."""

import json

from checking import App, field, line_of, same

LISTS = ("shop", "newsletter", "events")
MAILS = {
    "A@B.example": "a@b.example",
    "  x.y+z@q.example ": "x.y@q.example",
    "x.y+a-b.c+d@q.example": "x.y@q.example",
    "plain@host.example": "plain@host.example",
    "N+@host.example": "n@host.example",
}
PHONES = {
    "": "",
    "0345-1234": "+493451234",
    "0049 (0) 345/1234": "+493451234",
    "+49 345 1234": "+493451234",
    "+43 (0)1 505.60": "+43150560",
    "0043 1 50560": "+43150560",
    "(0345) 1234": "+493451234",
    "+1 300 0100": "+13000100",
}
PROBE = """
import json, sys
sys.path.insert(0, "tools")
from normalise import mail, phone
mails, phones = json.load(sys.stdin)
print(json.dumps([[mail(text) for text in mails], [phone(text) for text in phones]]))
"""


def p1_the_normal_form_is_as_agreed(app: App) -> None:
    said = app.answers(PROBE, json.dumps([list(MAILS), list(PHONES)]).encode(), "the normaliser")
    same(said, [list(MAILS.values()), list(PHONES.values())], "the normal form of addresses and numbers")


def table(app: App, path: str, columns: str) -> list[list[str]]:
    return [list(row.values()) for row in app.rows(path, columns.split(","))]


def p2_the_conflicts_are_listed(app: App) -> None:
    found = table(app, "merged/conflicts.csv", "mail,field,kept,list,id,dropped")
    same(found, app.expected["conflicts"], "the list of conflicts")


def p3_the_ids_are_on_record(app: App) -> None:
    same(table(app, "merged/ids.csv", "list,id,mail"), app.expected["ids"], "the record of ids")


def p4_the_lists_are_merged(app: App) -> None:
    for name in LISTS:
        same(table(app, f"lists/{name}.csv", "id,name,mail,phone,address"), app.expected["lists"][name], name)


def p5_the_contacts_have_their_sources(app: App) -> None:
    found = table(app, "merged/contacts.csv", "mail,name,phone,address,sources")
    same(found, app.expected["contacts"], "the table of contacts")


def p6_the_counts_reconcile(app: App) -> None:
    counts = app.json("merged/counts.json")
    kept = {name: len(table(app, f"lists/{name}.csv", "id,name,mail,phone,address")) for name in LISTS}
    same(field(counts, "rows", dict), app.expected["rows"], "rows")
    same(field(counts, "kept", dict), kept, "kept")
    same(field(counts, "persons", int), sum(kept.values()), "persons")
    same(field(counts, "conflicts", int), len(app.expected["conflicts"]), "conflicts")
    for name in ("conflicts", "ids", "contacts"):
        same(field(counts, f"{name}_sha256", str), app.digest(f"merged/{name}.csv"), f"{name}_sha256")


def p7_it_is_signed_off(app: App) -> None:
    text = app.text("signoff.txt")
    dropped = sum(app.expected["rows"].values()) - len(app.expected["contacts"])
    same(line_of(text, "counts"), app.digest("merged/counts.json"), "the digest of the counts in the sign-off")
    same(line_of(text, "dropped"), str(dropped), "the number of dropped rows")
