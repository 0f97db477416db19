"""The checks of vendor-upgrade."""

from checking import App, field, line_of, need, same

UNSEEN = (
    (">= 0.9, < 0.20", ("0.9", "0.10.3", "0.19.0", "0.20.0", "0.100", "0.20"), "0.19.0"),
    ("~= 2.3", ("2.2", "2.3", "2.30", "2.4.9", "3.0", "20.1"), "2.30"),
    ("~= 2.3.0", ("2.3.9", "2.3.10", "2.4.0", "2.30.1"), "2.3.10"),
    (">= 1.0.0, < 1.5", ("1.0", "1.5.0", "1.5", "1.4b2", "1.5a1", "1.3rc10"), "1.0"),
)
LOOK = """
import sys
sys.path.insert(0, ".")
from billing.invoice import name_of, render
print(ascii([name_of(*words[:2]), render(*words)]))
"""
INVOICES = (
    (
        ("Gro\u00dfe B\u00e4ckerei", "09.02.24", "Repair of one pump, with all its seals"),
        "2024-02-09-grosse-baeckerei.txt",
        ["09.02.24", "  Repair of one pump, with all its", "  seals", "Due on 23.02.2024", ""],
    ),
    (
        ("\u00d6l + Gas", "31.12.2023", "12 bags of coffee that were roasted last week and ground"),
        "2023-12-31-oel-gas.txt",
        ["31.12.2023", "  12 bags of coffee that were", "  roasted last week and ground", "Due on 15.01.2024", ""],
    ),
)


def p1_the_right_release_is_chosen(app: App) -> None:
    with app.scratch("tools") as copy:
        for specifier, versions, wanted in UNSEEN:
            done = copy.python("tools/lock.py", "choose", specifier, *versions)
            same(done.out.strip(), wanted, f"what it chooses of {versions} by {specifier} ({done.err[-200:]})")


def p2_the_patches_are_complete(app: App) -> None:
    for name, version in (("textkit", "1.9.0"), ("dateline", "0.4.1")):
        archive, patch = f"index/{name}-{version}.tar", app.data(f"patches/{name}.patch")
        same(app.digest(archive)[:32], app.expected["bases"][name], f"the digest of {archive}")
        with app.scratch(archive) as copy:
            need(copy.run("tar", "-xf", archive).code == 0, f"{archive} can't be unpacked")
            done = copy.run("git", "apply", "-p1", data=patch)
            need(done.code == 0, f"the patch of {name} doesn't fit: {done.err[-300:]}")
            wanted = {path: digest for path, digest in app.expected["before"].items() if path.startswith(f"{name}/")}
            same(content(copy, name), wanted, f"the digests of {name} with its patch")


def content(app: App, directory: str) -> dict[str, str]:
    """The digests of all files below a directory, by their paths; but what Python keeps for itself."""
    paths = [str(path.relative_to(app.root)) for path in sorted(app.root.glob(f"{directory}/**/*")) if path.is_file()]
    return {path: app.digest(path) for path in paths if "__pycache__" not in path}


def p3_the_lock_is_new(app: App) -> None:
    same(app.text("requirements.lock"), app.expected["lock"], "the lock")


def p4_the_packages_are_patched(app: App) -> None:
    found = {path.removeprefix("vendor/"): digest for path, digest in content(app, "vendor").items()}
    same(found, dict(sorted(app.expected["vendor"].items())), "the digests of what is vendored")


def p5_invoices_look_as_before(app: App) -> None:
    with app.scratch("billing", "vendor", "tests") as copy:
        for words, name, lines in INVOICES:
            done = copy.python("-c", f"words = {words!a}\n{LOOK}")
            wanted = [name, "\n".join([f"To {words[0]}, {lines[0]}", *lines[1:]])]
            same(done.out.strip(), ascii(wanted), f"an invoice ({done.err[-300:]})")
        copy.tests_pass("tests")


def p6_the_bill_agrees(app: App) -> None:
    bill = app.json("sbom.json")
    for name, wanted in app.expected["sbom"].items():
        for key, value in {**wanted, "patch_sha256": app.digest(f"patches/{name}.patch")}.items():
            same(field(bill, f"{name}.{key}", str), value, f"{key} of {name}")


def p7_the_notes_agree(app: App) -> None:
    text = app.text("UPGRADE.md")
    for name, wanted in app.expected["notes"].items():
        same(line_of(text, name), wanted, f"the line {name}")
    same(line_of(text, "SBOM"), app.digest("sbom.json"), "the line SBOM")
