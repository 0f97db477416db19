"""The checks of store-gc."""

import json
import os
from typing import Any

from checking import App, field, line_of, need, objects, same, sha256

UNSEEN = """\
1|a|begin|9.1
2|b|begin|9.1
3|c|begin|9.2
4|b|put|x/one two.txt|0644|11 22
5|a|put|x/one two.txt|0755|33
6|c|put|x/other|0644|77
7|b|put|tmp 1|0600|44
8|a|put|y|0644|55
9|b|move|tmp 1|z and z
10|a|abort
11|b|put|y y|0644|
12|b|mode|z and z|0755
13|b|put|gone|0644|66
14|b|drop|gone
15|b|seal
16|d|begin|9.2
""".replace("|", "\t")
READ = "x/one two.txt|0644|11 22\ny y|0644|\nz and z|0755|44\n".replace("|", "\t")


def p1_the_journal_is_read(app: App) -> None:
    with app.scratch("tools") as copy:
        (copy.root / "unseen.tsv").write_text(UNSEEN)
        done = copy.python("tools/journal.py", "9.1", "unseen.tsv")
        same(done.out, READ, f"what is said of a journal ({done.err[-300:]})")
        done = copy.python("tools/journal.py", "9.2", "unseen.tsv")
        same((done.code, done.out), (0, ""), "what is said of a release that was never sealed")


def p2_the_manifest_is_rebuilt(app: App) -> None:
    release(app)


def release(app: App) -> list[dict[str, Any]]:
    """The files of 2.4.0, as the manifest has them and they are right."""
    manifest = app.json("releases/2.4.0.json")
    same(field(manifest, "release", str), "2.4.0", "the release")
    files = objects(field(manifest, "files", list), "files")
    same([item.get("path") for item in files], app.expected["paths"], "the paths")
    found = sha256(json.dumps(files, sort_keys=True).encode())
    same(found, app.expected["files_sha256"], "the digest of what the manifest says of its files")
    return files


def stored(app: App, digest: str) -> None:
    same(app.digest(f"store/objects/{digest[:2]}/{digest[2:]}"), digest, "the digest of an object")


def p3_it_is_a_release_of_the_store(app: App) -> None:
    manifest = app.digest("releases/2.4.0.json")
    same(app.text("store/refs/2.4.0"), manifest + "\n", "the ref")
    stored(app, manifest)
    for chunk in sorted({chunk for item in release(app) for chunk in item["chunks"]}):
        stored(app, chunk)


def held(app: App) -> dict[str, int]:
    """The objects of the store and their sizes."""
    top = app.root / "store/objects"
    return {
        place.name + path.name: path.lstat().st_size
        for place in (sorted(top.iterdir()) if top.is_dir() else ())
        if place.is_dir()
        for path in place.iterdir()
    }


def p4_the_garbage_is_collected(app: App) -> None:
    same(app.names("store/refs"), ["2.3.0", "2.4.0"], "the refs")
    same(app.names("releases"), ["2.3.0.json", "2.4.0.json"], "the manifests")
    same(app.digest("store/refs/2.3.0"), app.expected["kept_sha256"], "the digest of the ref of 2.3.0")
    same(app.digest("releases/2.3.0.json"), app.text("store/refs/2.3.0").strip(), "the manifest of 2.3.0")
    found = sorted(held(app).keys() - {app.digest("releases/2.4.0.json")})
    same(
        sha256(" ".join(found).encode()),
        app.expected["objects_sha256"],
        f"the digest of {len(found)} names in the store",
    )
    for digest in found:
        stored(app, digest)


def tree(app: App) -> str:
    """The files of the checkout as they are, in the form of the report."""
    top = app.root / "out/2.4.0"
    found = {}
    for path in top.rglob("*"):
        if path.is_symlink() or not path.is_dir():
            name = path.relative_to(top).as_posix()
            found[name] = f"{os.lstat(path).st_mode & 0o7777:04o} {app.digest(f'out/2.4.0/{name}')} {name}\n"
    return "".join(found[name] for name in sorted(found))


def p5_the_checkout_is_the_release(app: App) -> None:
    wanted = "".join(f"{item['mode']} {item['sha256']} {item['path']}\n" for item in release(app))
    found = tree(app).splitlines()
    same([line for line in found if line not in wanted.splitlines()], [], "what the checkout has otherwise")
    same(found, wanted.splitlines(), "the checkout")


def p6_the_report_agrees(app: App) -> None:
    report = app.json("report/collection.json")
    same(app.text("report/tree.txt"), tree(app), "the list of the checkout")
    need(app.text("report/tree.txt"), "the list of the checkout is empty")
    same(field(report, "manifest_sha256", str), app.digest("releases/2.4.0.json"), "manifest_sha256")
    same(field(report, "tree_sha256", str), app.digest("report/tree.txt"), "tree_sha256")
    sizes = held(app)
    same(field(report, "objects", int), len(sizes), "objects")
    same(field(report, "bytes", int), sum(sizes.values()), "bytes")
    same(field(report, "refs", list), app.names("store/refs"), "refs")


def p7_the_attestation_agrees(app: App) -> None:
    text = app.text("attestation.txt")
    same(line_of(text, "release"), sha256(app.data("releases/2.4.0.json")), "the ref")
    same(line_of(text, "tree"), app.digest("report/tree.txt"), "the digest of the list")
    same(line_of(text, "report"), app.digest("report/collection.json"), "the digest of the report")
