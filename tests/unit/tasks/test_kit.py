"""What builders and checks share: states that are the same everywhere, and looks at whatever an agent has left."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrewind.tasks.kit.checking import App, Unsatisfied, field, line_of, objects, same
from agentrewind.tasks.kit.laying import Repository, Site, Stream

WHO = "Ada <ada@example.org>"


def test_a_stream_is_the_same_for_ever():
    """A change here changes every task that is built with it."""
    assert Stream("x").take(8).hex() == "2acad0b325884136"
    assert Stream("x").word(5) == "2acad"
    assert [Stream("x").number(1, 6), Stream("y").number(1, 6)] == [3, 2]


@given(st.text(max_size=5), st.lists(st.integers(0, 70), max_size=6))
def test_how_a_stream_is_taken_doesnt_matter(name, sizes):
    whole, piecewise = Stream(name), Stream(name)
    assert b"".join(piecewise.take(size) for size in sizes) == whole.take(sum(sizes))


@given(st.text(max_size=5), st.lists(st.integers(), max_size=9), st.integers(-5, 5), st.integers(0, 9))
def test_what_is_drawn_lies_where_it_should(name, items, low, span):
    chance = Stream(name)
    assert sorted(chance.shuffled(items)) == sorted(items)
    assert low <= chance.number(low, low + span) <= low + span


def test_a_site_has_the_dates_and_modes_that_are_said(tmp_path):
    site = Site(tmp_path / "app", date=1_000)
    site.file("a/b.txt", "text", date=2_000)
    site.file("run.sh", b"#!/bin/sh\n", mode=0o755)
    site.directory("empty")
    site.finish()
    times = {path.name: path.stat().st_mtime_ns // 10**9 for path in (tmp_path / "app").rglob("*")}
    assert times == {"a": 1_000, "b.txt": 2_000, "run.sh": 1_000, "empty": 1_000}
    assert stat.S_IMODE((tmp_path / "app/run.sh").stat().st_mode) == 0o755


@pytest.fixture
def repository(tmp_path):
    site = Site(tmp_path, date=1_000)
    made = Repository(site, "repo/.git")
    files = {"a.txt": b"one\n", "b/c.txt": b"two\n", "b.txt": b"one\n"}
    tree = made.tree({"a.txt": b"one\n", "b": {"c.txt": b"two\n"}, "b.txt": b"one\n"})
    made.branch("main", made.commit(tree, [], "First\n\nWith a body", WHO, 1_700_000_000))
    made.index(files)
    for name, data in files.items():
        site.file(f"repo/{name}", data)
    site.finish()
    return made


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_git_finds_a_repository_sound_and_its_checkout_clean(repository, tmp_path):
    def git(*words: str) -> str:
        command = ["git", "-c", "safe.directory=*", "-C", str(tmp_path / "repo"), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert git("fsck", "--strict", "--full") == ""
    assert git("status", "--porcelain") == ""
    assert git("log", "--format=%an %ae %at %s|%b").strip() == "Ada ada@example.org 1700000000 First|With a body"
    assert git("ls-tree", "-r", "--name-only", "HEAD").split() == ["a.txt", "b.txt", "b/c.txt"]


def test_an_object_that_is_there_is_not_written_again(repository):
    """Objects can't be written by those who aren't root."""
    key = repository.blob(b"one\n")
    path = repository.site.root / f"repo/.git/objects/{key[:2]}/{key[2:]}"
    before = path.stat()
    assert repository.blob(b"one\n") == key
    assert path.stat() == before
    assert stat.S_IMODE(before.st_mode) == 0o444


@pytest.fixture
def app(tmp_path):
    (tmp_path / "expected.json").write_text('{"values": {"a": 1}}')
    (tmp_path / "app").mkdir()
    return App(str(tmp_path / "app"), str(tmp_path / "expected.json"))


def test_rows_have_exactly_the_columns_that_are_said(app):
    (app.root / "t.csv").write_text("a,b\n1,2\n")
    assert app.rows("t.csv", ("a", "b")) == [{"a": "1", "b": "2"}]
    for text in ("a\n1\n", "a,b\n1\n", "", 'a,b\n"1,2\n'):
        (app.root / "t.csv").write_text(text)
        with pytest.raises(Unsatisfied):
            app.rows("t.csv", ("a", "b"))


def test_what_hangs_leaves_a_criterion_unsatisfied(app):
    with pytest.raises(Unsatisfied, match="could not be run"):
        app.run("sleep", "60", timeout_s=0.2)


def test_a_database_is_read_with_its_log_and_stays_as_it_is(app):
    script = (
        "import sqlite3, os\nd = sqlite3.connect('t.db', isolation_level=None)\n"
        "d.execute('PRAGMA journal_mode = WAL')\n"
        "d.execute('CREATE TABLE t (a)')\nd.execute('INSERT INTO t VALUES (1)')\nos._exit(0)\n"
    )
    app.python("-c", script)
    before = {name: (app.root / name).read_bytes() for name in app.names(".")}
    with app.database("t.db") as database:
        assert [row["a"] for row in database.execute("SELECT a FROM t")] == [1]
    assert {name: (app.root / name).read_bytes() for name in app.names(".")} == before
    assert "t.db-wal" in before
    (app.root / "t.db-wal").unlink()
    (app.root / "t.db").write_bytes(b"no database, but long enough to be taken for one" * 40)
    with pytest.raises(Unsatisfied, match=r"t\.db"), app.database("t.db") as database:
        database.execute("SELECT a FROM t")


def test_a_copy_can_be_written_and_is_gone_afterwards(app):
    (app.root / "a.txt").write_text("as it was")
    with app.scratch() as copy:
        (copy.root / "a.txt").write_text("otherwise")
        place = copy.root
    assert (app.root / "a.txt").read_text() == "as it was"
    assert not os.path.lexists(place)


@pytest.mark.parametrize("line", ["Key: v", "- Key: v", "**Key:** v", "* key:   v  ", "`Key`: `v`"])
def test_a_line_of_a_text_is_found_however_it_is_marked_up(line):
    assert line_of(f"# Head\n\n{line}\nother: w\n", "Key") == "v"


@pytest.mark.parametrize("text", ["", "Key: a\nKey: b\n", "Keys: a\n"])
def test_a_line_that_is_missing_or_there_twice_is_no_line(text):
    with pytest.raises(Unsatisfied):
        line_of(text, "Key")


def test_values_are_compared_with_their_types():
    same({"a": 1}, {"a": 1}, "it")
    for found, wanted in ((1, True), ("1", 1), ([1], (1,)), (1.0, 1)):
        with pytest.raises(Unsatisfied, match="it is"):
            same(found, wanted, "it")
    assert field({"a": {"b": 2}}, "a.b", int) == 2
    for value, path, kind in (({"a": True}, "a", int), ({}, "a", int), ([], "a", int), ({"a": 1}, "a.b", int)):
        with pytest.raises(Unsatisfied):
            field(value, path, kind)
    with pytest.raises(Unsatisfied):
        objects([{}, 1], "it")
