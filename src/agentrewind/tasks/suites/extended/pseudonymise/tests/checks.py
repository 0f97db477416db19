"""The checks of pseudonymise."""

import csv
import io
import re

from checking import App, field, line_of, need, same, sha256

UNSEEN = """\
To: <Zoe.Quill+x+y@Sub-one.Site.EXAMPLE>, zoe.quill@sub-one.site.example.
(a_b-c.9@d.example) no@where, @none.example, 5 @ noon; A_B-C.9+@D.example/x
"""
FOUND = "a_b-c.9@d.example\nzoe.quill@sub-one.site.example\n"
ADDRESS = re.compile(rb"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", re.ASCII)


def p1_people_are_found(app: App) -> None:
    with app.scratch("tools") as copy:
        (copy.root / "unseen.txt").write_text(UNSEEN)
        (copy.root / "customers.csv").write_text("email,city\nA_b-c.9+old@d.Example,Oslo\n")
        done = copy.python("tools/detect.py", "unseen.txt")
        same(done.out, FOUND, f"who is found ({done.err[-300:]})")
        done = copy.python("tools/detect.py", "--customers", "customers.csv", "unseen.txt")
        same((done.code, done.out.split()[:1]), (1, ["1"]), "how many are no customers")


def mapping(app: App) -> dict[str, str]:
    """Who has which pseudonym, as the officer reads it."""
    data = app.data("escrow/mapping.cms")
    with app.scratch("escrow") as copy:
        (copy.root / "officer.key").write_text(app.expected["officer_key"])
        done = copy.run("openssl", "cms", "-decrypt", "-binary", "-inform", "DER", "-inkey", "officer.key", data=data)
    need(done.code == 0, f"it can't be decrypted: {done.err[-300:]}")
    try:
        head, *rows = list(csv.reader(io.StringIO(done.out.replace("\r\n", "\n")), strict=True)) or [[]]
    except csv.Error:
        head, rows = [], []
    same(head, ["pseudonym", "person"], "the head of the mapping")
    need(all(len(row) == 2 for row in rows), "a row of the mapping hasn't two columns")
    return dict(rows)


def p2_everybody_can_be_found_again(app: App) -> None:
    found = mapping(app)
    same(sorted(found.values()), sorted(app.expected["people"]), "the people in escrow")
    strange = [name for name in found if not re.fullmatch(r"p-[0-9a-f]{12}", name)]
    same(strange, [], "what is no pseudonym")


def p3_everybody_has_one_pseudonym(app: App) -> None:
    found = mapping(app)
    same(
        app.names("tickets"),
        [name.partition("/")[2] for name in app.expected["files"] if "tickets/" in name],
        "tickets",
    )
    for name, digest in app.expected["files"].items():
        text = app.text(name)
        whole = re.sub(r"\bp-[0-9a-f]{12}\b", lambda word: found.get(word[0], word[0]), text)
        same(sha256(whole.encode()), digest, f"the digest of {name} with the people that it had")


def p4_no_address_is_left(app: App) -> None:
    people = {name.encode() for name in app.expected["people"]}
    for path in sorted(app.root.rglob("*")):
        if path.is_file() and not path.is_symlink():
            name = path.relative_to(app.root).as_posix()
            there = {re.sub(rb"\+.*@", b"@", found.lower()) for found in ADDRESS.findall(app.data(name))}
            need(not there & people, f"{name} has addresses of customers")


def p5_the_summary_joins(app: App) -> None:
    wanted = [
        [pseudonym, *map(str, app.expected["people"].get(person, ()))]
        for pseudonym, person in sorted(mapping(app).items())
    ]
    found = [list(row.values()) for row in app.rows("report/people.csv", ("pseudonym", "tickets", "payments", "cents"))]
    same(found, wanted, "the summary")


def p6_the_risk_is_reported(app: App) -> None:
    risk = app.json("report/risk.json")
    same(field(risk, "people_sha256", str), app.digest("report/people.csv"), "people_sha256")
    for name, value in app.expected["risk"].items():
        same(field(risk, name, int), value, name)


def p7_the_receipt_agrees(app: App) -> None:
    text = app.text("escrow/receipt.txt")
    same(line_of(text, "mapping"), app.digest("escrow/mapping.cms"), "the digest of the mapping")
    same(line_of(text, "people"), str(len(app.expected["people"])), "the number of people")
    same(line_of(text, "risk"), app.digest("report/risk.json"), "the digest of the report")
