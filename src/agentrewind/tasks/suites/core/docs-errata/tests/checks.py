"""The checks of docs-errata."""

import re

from checking import App, field, line_of, need, same, sha256

UNSEEN = """\
#@ name: open
#@ arg a: first,
#@+ second,
#@+ third
#@ arg b: alone
#@ returns: the a
#@ since: 9.1
def open(a, b): ...
#@ name: shut
#@ returns: nothing,
#@+ really
#@ since: 9.2
def shut(): ...
"""
GENERATED = """\
# Reference, version 9.9

## open {#gate-open}

- `a`: first, second, third
- `b`: alone

Returns the a. Since 9.1.

## shut {#gate-shut}


Returns nothing, really. Since 9.2.
"""
OLDER = "## 2.3\n\n- Corrections of limits.\n\n## 2.2\n\n- The meter.\n"


def p1_the_generator_is_right(app: App) -> None:
    with app.scratch("tools") as copy:
        for name, text in (("api/gate.py", UNSEEN), ("VERSION", "9.9\n")):
            (copy.root / name).parent.mkdir(exist_ok=True)
            (copy.root / name).write_text(text)
        done = copy.python("tools/gendoc.py", "--out", "out.md")
        need(done.code == 0, f"the generator breaks off: {done.err[-400:]}")
        same(copy.text("out.md"), GENERATED, "the reference of another source")


def p2_the_errata_are_listed(app: App) -> None:
    rows = [list(row.values()) for row in app.rows("errata/errata.csv", ("anchor", "field", "printed", "right"))]
    same(len(rows), len(app.expected["errata"]), "the number of errata")
    same(rows, app.expected["errata"], "the errata")


def p3_the_source_is_corrected(app: App) -> None:
    found = []
    for name in app.expected["code"]:
        text = app.text(f"api/{name}")
        code = "\n".join(line for line in text.splitlines() if not line.startswith("#@"))
        same(sha256(code.encode()), app.expected["code"][name], f"the digest of the code in {name}")
        function = ""
        for key, value in re.findall(r"^#@ (.*?): (.*)$", re.sub(r"\n#@\+ ", " ", text), re.MULTILINE):
            function = value if key == "name" else function
            if key != "name":
                found.append([f"{name.removesuffix('.py')}-{function}", key, value])
    same(found, app.expected["texts"], "the texts of the annotations")


def p4_the_reference_is_generated(app: App) -> None:
    same(app.text("VERSION").strip(), "2.4", "the version")
    same(app.digest("docs/reference.md"), app.expected["reference_sha256"], "the digest of the reference")


def p5_links_lead_somewhere(app: App) -> None:
    links = re.findall(r"\]\(reference\.md#(.*?)\)", app.text("docs/guide.md"))
    same(len(links), 12, "the number of links")
    anchors = re.findall(r"\{#(.*)\}", app.text("docs/reference.md"))
    same([link for link in links if link not in anchors], [], "the links that lead nowhere")


def p6_the_index_agrees(app: App) -> None:
    index = app.json("docs/index.json")
    same(field(index, "anchors", list), app.expected["anchors"], "anchors")
    same(field(index, "errata", int), len(app.expected["errata"]), "errata")
    same(field(index, "errata_sha256", str), app.digest("errata/errata.csv"), "errata_sha256")
    same(field(index, "reference_sha256", str), app.digest("docs/reference.md"), "reference_sha256")


def p7_the_changes_quote_the_index(app: App) -> None:
    head, mark, older = app.text("CHANGES.md").partition("## 2.3\n")
    same(mark + older, OLDER, "the older entries")
    _, mark, entry = head.partition("## 2.4\n")
    need(mark and entry.strip().count("\n"), "there is no entry for 2.4 above the others")
    same(line_of(entry, "Index"), app.digest("docs/index.json"), "the line Index")
