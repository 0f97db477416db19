"""Hard links as a part of a workspace: which names are one file is copied, and seen where traces are looked for."""

from __future__ import annotations

import os

import pytest

from agentrewind.tasks.fingerprint import fingerprint
from agentrewind.tasks.rooms import copy_of
from agentrewind.tasks.traces import found


@pytest.fixture
def linked(tmp_path):
    """Two names of one file in different directories, and an equal file of its own."""
    top = tmp_path / "linked"
    (top / "a").mkdir(parents=True)
    (top / "b").mkdir()
    (top / "a/one").write_text("same")
    os.link(top / "a/one", top / "b/one")
    (top / "b/other").write_text("same")
    return top


def test_a_copy_has_the_same_links(linked, tmp_path):
    copy_of(linked, tmp_path / "copy")
    assert fingerprint(tmp_path / "copy") == fingerprint(linked)
    assert (tmp_path / "copy/a/one").samefile(tmp_path / "copy/b/one")
    assert not (tmp_path / "copy/a/one").samefile(linked / "a/one")


def test_a_link_is_a_trace_that_writing_the_file_anew_removes(linked):
    assert found(linked, [b"a/one = b/one"]) == {b"a/one = b/one": "the links"}
    (linked / "new").write_text("other")
    (linked / "new").replace(linked / "b/one")
    assert found(linked, [b"a/one = b/one", b"b/other"]) == {b"b/other": "the names"}
