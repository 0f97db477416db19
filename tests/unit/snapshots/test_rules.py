"""Which class a path falls in."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentrewind.core.errors import UsageError
from agentrewind.snapshots.rules import PathClass, PathRules
from agentrewind.snapshots.scan import class_of


def cls(path: str, rules: PathRules | None = None) -> str:
    return class_of(rules or PathRules(), path).value


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".env", "private"), ("a/b/.env", "private"), (".env.local", "private"), (".env.example", "tracked"),
        ("id_ed25519", "private"), ("id_ed25519.pub", "tracked"), ("tls/server.key", "private"),
        ("server.pem", "private"), ("certifi/cacert.pem", "tracked"), (".aws/credentials", "private"),
        ("home/.aws/credentials", "private"), ("credentials", "tracked"), (".ssh/config", "private"),
        (".docker/config.json", "private"), ("config.json", "tracked"), ("environment", "tracked"),
        ("__pycache__/a.cpython-312.pyc", "volatile"), ("x/__pycache__/a.pyc", "volatile"), ("a.pyc", "tracked"),
        ("__pycache__/notes.txt", "tracked"), ("__pycache__/.env", "private"),
        (".pytest_cache/v/x", "volatile"), (".mypy_cache/3.12/a.json", "volatile"), (".ruff_cache/x", "volatile"),
        (".pytest_cache", "tracked"), (".mypy_cache/.env", "private"),
        ("node_modules/x/index.js", "tracked"), (".venv/bin/python", "tracked"), ("build/x", "tracked"),
        ("dist/x", "tracked"), ("tmp/x", "tracked"), (".git/index", "tracked"), ("CACHEDIR.TAG", "tracked"),
        ("line\nbreak/.env", "private"), ("bad\udcff/__pycache__/x.pyc", "volatile"),
    ],
)  # fmt: skip
def test_the_defaults(path: str, expected: str) -> None:
    assert cls(path) == expected
    assert cls(path, PathRules.everything_tracked()) == "tracked"


@pytest.mark.parametrize(
    ("pattern", "matched", "not_matched"),
    [
        ("*.log", ["a.log", "d/b.log"], ["log", "a.log.txt"]),
        ("/top", ["top"], ["d/top"]),
        ("a/b", ["a/b", "a/b/c"], ["x/a/b"]),
        ("**/b", ["b", "a/b", "a/c/b"], ["ab"]),
        ("a/**", ["a/b", "a/b/c"], ["b"]),
        ("a/**/z", ["a/z", "a/b/c/z"], ["az"]),
        ("d/", ["d/x", "e/d/x"], ["d"]),
        ("f?o", ["foo", "fxo"], ["fo", "f/o"]),
        ("[ab]x", ["ax", "bx"], ["cx"]),
        ("[!ab]x", ["cx"], ["ax"]),
        ("we.ird+", ["we.ird+"], ["weXirdd"]),
    ],
)
def test_patterns(pattern: str, matched: list[str], not_matched: list[str]) -> None:
    rules = PathRules((), (pattern,), ())
    assert [cls(path, rules) for path in matched] == ["excluded"] * len(matched)
    assert [cls(path, rules) for path in not_matched] == ["tracked"] * len(not_matched)


def test_a_later_pattern_takes_an_earlier_one_back() -> None:
    rules = PathRules((), ("*.log", "!keep.log", "very/keep.log"), ())
    assert [cls(path, rules) for path in ("a.log", "keep.log", "very/keep.log")] == ["excluded", "tracked", "excluded"]


def test_excluded_comes_first_and_private_before_volatile() -> None:
    rules = PathRules(private=("x",), excluded=("x",), volatile=("x", "y"))
    assert cls("x", rules) == "excluded"
    assert cls("x", PathRules(private=("x",), volatile=("x",))) == "private"


@pytest.mark.parametrize("pattern", ["/", "[z-a]", "!", "//"])
def test_a_bad_pattern_is_a_usage_error(pattern: str) -> None:
    with pytest.raises(UsageError, match="not a path pattern"):
        PathRules(excluded=(pattern,))


def test_settings_add_to_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "agentrewind.toml"
    path.write_text('[paths]\nprivate = ["mine.txt"]\nexcluded = ["data/"]\nvolatile = ["*.tmp"]\n')
    rules = PathRules.load(path)
    assert [cls(p, rules) for p in ("mine.txt", ".env", "data/x", "a.tmp", ".ruff_cache/x")] == [
        "private", "private", "excluded", "volatile", "volatile",
    ]  # fmt: skip
    path.write_text('[paths]\ndefaults = false\nprivate = ["mine.txt"]\n')
    assert [cls(p, PathRules.load(path)) for p in ("mine.txt", ".env")] == ["private", "tracked"]
    path.write_text("[other]\nx = 1\n")
    assert PathRules.load(path) == PathRules()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[paths]\nexclude = []\n", "no setting 'exclude'"),
        ("[paths]\nexcluded = 'x'\n", "paths.excluded must be a list"),
        ("[paths]\nexcluded = ['']\n", "paths.excluded must be a list"),
        ("[paths]\ndefaults = 1\n", "paths.defaults must be true or false"),
        ("paths = 3\n", "must be a table"),
        ("[paths\n", "can't be read as settings"),
        ("[paths]\nexcluded = ['[z-a]']\n", "not a path pattern"),
    ],
)
def test_bad_settings_name_what_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "agentrewind.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        PathRules.load(path)


def test_without_settings_the_defaults_hold(tmp_path: Path) -> None:
    assert PathRules.load(tmp_path / "absent.toml") == PathRules()


def test_equal_rules_have_equal_digests() -> None:
    assert PathRules().digest == PathRules().digest != PathRules(excluded=("x",)).digest
    assert PathClass("private") is PathClass.PRIVATE
