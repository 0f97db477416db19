"""The checks of hardlink-config."""

import os
import shutil
from pathlib import Path

from checking import App, field, line_of, need, same, sha256

OLDER = "## 2026-01-14\nLonger time-outs for mail.\n\n## 2025-11-03\nThe workers have files of their own.\n"
HEAD = "path,mode,group,sha256\n"


def p1_the_inventory_is_right(app: App) -> None:
    with app.scratch("tools") as copy:
        top = copy.root / "unseen"
        (top / "y/z").mkdir(parents=True)
        for name, text in (("y/b", "one"), ("c", "one"), ("y/z/d", "two"), ("e", "one")):
            (top / name).write_text(text)
            (top / name).chmod(0o640)
        os.link(top / "y/b", top / "y/z/a")
        os.link(top / "y/z/d", top / "B")
        os.link(top / "e", top / "f")
        os.symlink("c", top / "link")
        os.symlink("missing", top / "y/broken")
        shutil.copy(top / "c", top / "y/z/.c")
        groups = {
            "B": "B",
            "c": "c",
            "e": "e",
            "f": "e",
            "y/b": "y/b",
            "y/z/.c": "y/z/.c",
            "y/z/a": "y/b",
            "y/z/d": "B",
        }
        rows = [f"{name},0640,{group},{sha256((top / name).read_bytes())}\n" for name, group in groups.items()]
        done = copy.python("tools/inventory.py", "unseen")
        same(done.out, HEAD + "".join(rows), f"the inventory ({done.err[-300:]})")
    app.tests_pass("tests")


def p2_the_inventory_before_is_kept(app: App) -> None:
    same(app.digest("inventory/before.csv"), app.expected["before_sha256"], "the digest of the inventory before")


def files(app: App) -> dict[str, Path]:
    """All that is no directory below `etc`."""
    top = app.root / "etc"
    return {
        path.relative_to(top).as_posix(): path
        for path in sorted(top.rglob("*"))
        if path.is_symlink() or not path.is_dir()
    }


def p3_the_host_is_changed(app: App) -> None:
    for name, digest in app.expected["new"].items():
        same(app.digest(f"etc/{name}"), digest, f"the digest of {name}")


def p4_the_same_files_are_linked(app: App) -> None:
    names: dict[tuple[int, int], list[str]] = {}
    for name, path in files(app).items():
        if not path.is_symlink():
            names.setdefault((path.stat().st_dev, path.stat().st_ino), []).append(name)
    same(
        sorted(sorted(group) for group in names.values() if len(group) > 1),
        [group for group in app.expected["groups"] if len(group) > 1],
        "what is linked",
    )


def p5_modes_and_names_are_as_before(app: App) -> None:
    found = files(app)
    links = {name: os.readlink(path) for name, path in found.items() if path.is_symlink()}
    same(links, app.expected["links"], "the symbolic links")
    modes = {name: f"{path.lstat().st_mode & 0o7777:04o}" for name, path in found.items() if name not in links}
    same(modes, app.expected["modes"], "the modes")


def p6_the_changes_are_listed(app: App) -> None:
    wanted = app.expected
    group_of = {name: group[0] for group in wanted["groups"] for name in group}
    rows = [f"{name},{wanted['modes'][name]},{group_of[name]},{wanted['new'][name]}\n" for name in sorted(group_of)]
    same(app.text("inventory/after.csv"), HEAD + "".join(rows), "the inventory after")
    changes = app.json("inventory/changes.json")
    for name in ("before", "after"):
        same(field(changes, f"{name}_sha256", str), app.digest(f"inventory/{name}.csv"), f"{name}_sha256")
    listed = [
        {"group": group[0], "names": group, "old": wanted["old"][group[0]], "new": wanted["new"][group[0]]}
        for group in wanted["groups"]
    ]
    same(field(changes, "files", list), [item for item in listed if item["old"] != item["new"]], "the changed files")


def p7_there_is_an_entry(app: App) -> None:
    section, mark, older = app.text("CHANGES.md").partition("## 2026-01-14\n")
    same((mark + older).strip(), OLDER.strip(), "the older sections")
    same(line_of(section, "Changes"), app.digest("inventory/changes.json"), "the digest of the list of changes")
    said = [
        line for line in section.splitlines() if line.strip() and not line.startswith("#") and "Changes:" not in line
    ]
    need(section.startswith("# Changes\n") and said, "the section doesn't tell what was changed")
