from pathlib import Path

import pytest

from agentrewind.compose.home import Home
from agentrewind.compose.places import workspace_path
from agentrewind.core.errors import WorkspaceRefused


@pytest.fixture
def home(tmp_path: Path, monkeypatch) -> Home:
    (tmp_path / "user").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    return Home(tmp_path / "data")


def refused(path: object, home: Home, **words: bool) -> str:
    with pytest.raises(WorkspaceRefused) as error:
        workspace_path(str(path), home, **words)
    return str(error.value)


def test_a_directory_is_taken_by_its_real_path(tmp_path, home):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert workspace_path(tmp_path / "link", home) == tmp_path / "real"


def test_a_missing_directory_is_refused(tmp_path, home):
    assert "no directory" in refused(tmp_path / "missing", home)


def test_a_file_is_refused(tmp_path, home):
    (tmp_path / "file").write_text("")
    assert "not a directory" in refused(tmp_path / "file", home)


def test_the_home_directory_and_what_is_above_it_need_the_explicit_word(tmp_path, home):
    elsewhere = Home(Path("/somewhere/else"))
    assert "--allow-home" in refused(tmp_path / "user", elsewhere)
    assert "above your home" in refused(tmp_path, elsewhere)
    assert workspace_path(tmp_path / "user", elsewhere, allow_home=True) == tmp_path / "user"
    assert "AGENTREWIND_HOME" in refused(tmp_path, home, allow_home=True)


def test_the_root_is_refused_whatever_is_said(home):
    assert "whole machine" in refused("/", home)
    assert "whole machine" in refused("/", home, allow_home=True)


def test_a_link_to_the_home_directory_is_the_home_directory(tmp_path, home):
    (tmp_path / "link").symlink_to("user")
    assert "home directory" in refused(tmp_path / "link", home)


def test_our_own_directory_inside_the_workspace_is_refused(tmp_path, home):
    (tmp_path / "project").mkdir()
    inside = Home(tmp_path / "project" / ".data")
    assert "AGENTREWIND_HOME" in refused(tmp_path / "project", inside)


def test_a_workspace_inside_our_own_directory_is_refused_whatever_is_said(tmp_path, home):
    (home.root / "runs").mkdir(parents=True)
    assert "own data" in refused(home.root / "runs", home, allow_home=True)
    assert "own data" in refused(home.root, home)
