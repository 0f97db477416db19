"""What `probe` says is what happens, and the backends know nothing of one another."""

from __future__ import annotations

import ast
from pathlib import Path

import agentrewind.snapshots.backends
from agentrewind.snapshots.backends.probe import probe
from agentrewind.testing.snapshots import describe
from tests.unit.backends.images import image

WORLDS = ("git", "reflink", "btrfs", "overlay")


def test_each_backend_is_available_or_says_why_not_and_nothing_is_left(tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    root.mkdir()
    before = describe(tmp_path).keys()
    found = {item.backend: item for item in probe(root, tmp_path / "store")}
    assert list(found) == ["main", "reflink", "btrfs", "overlayfs", "git"]
    assert all(item.available != bool(item.why_not) and item.cost for item in found.values())
    assert found["main"].available
    assert describe(tmp_path).keys() == before


def test_where_files_can_be_cloned_it_says_so(tmp_path: Path) -> None:
    with image("btrfs", tmp_path) as place:
        (place / "workspace").mkdir()
        found = {item.backend: item for item in probe(place / "workspace", place / "store")}
    assert found["reflink"].available
    assert "btrfs subvolume create" in found["btrfs"].why_not


def test_the_backends_do_not_know_one_another() -> None:
    package = Path(agentrewind.snapshots.backends.__path__[0])
    for name in WORLDS:
        tree = ast.parse((package / f"{name}.py").read_text())
        imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        others = {f"agentrewind.snapshots.backends.{other}" for other in WORLDS if other != name}
        assert not imported & others, name
