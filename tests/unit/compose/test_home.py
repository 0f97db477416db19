from pathlib import Path

import pytest

from agentrewind.compose.home import Home, new_run_id, slug
from agentrewind.core.errors import UnknownRun, UsageError
from agentrewind.core.records import RunStarted
from agentrewind.journal.writer import JournalWriter


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def made(home: Home, run_id: str, started_ns: int = 1) -> str:
    JournalWriter.create(home.run_dir(run_id), RunStarted(run_id, "/w", started_ns, "0")).close()
    return run_id


def test_the_variable_wins_over_the_data_directory(tmp_path):
    assert Home.of({"AGENTREWIND_HOME": str(tmp_path / "x")}).root == tmp_path / "x"
    assert Home.of({}).root.name == "agentrewind"


def test_a_run_id_is_sortable_and_readable():
    early, late = new_run_id("Fix the bug!", 10**18), new_run_id("Another", 2 * 10**18)
    assert early.startswith("20010909-014640-fix-the-bug-")
    assert early < late


def test_a_task_without_words_still_has_an_id():
    assert new_run_id("日本語", 10**18).startswith("20010909-014640-")
    assert slug("日本語") == ""


def test_a_slug_is_short_and_whole_words():
    assert slug("Fix the catalogue generator which damages fixtures") == "fix-the-catalogue-generator"


def test_last_is_the_newest(home):
    made(home, "20261201-003812-b-0001", 5)
    newest = made(home, "20261201-003813-a-0002", 6)
    assert home.find("last") == newest


def test_of_two_in_one_second_last_is_the_one_that_began_later(home):
    later = made(home, "20261201-003812-a-ffff", 9)
    made(home, "20261201-003812-z-0001", 8)
    assert home.find("last") == later


@pytest.mark.parametrize("ref", ["20261201-003812-b-0001", "20261201-003812", "0001"])
def test_an_id_its_beginning_or_its_end_names_a_run(home, ref):
    made(home, "20261201-003812-b-0001")
    made(home, "20261201-003913-a-0002")
    assert home.find(ref) == "20261201-003812-b-0001"


@pytest.mark.parametrize("ref", ["nope", "", "../x", "20261202"])
def test_an_unknown_run_is_refused_and_the_newest_is_named(home, ref):
    newest = made(home, "20261201-003812-b-0001")
    with pytest.raises(UnknownRun, match=newest):
        home.find(ref)


def test_an_ambiguous_beginning_is_refused_and_says_which(home):
    both = {made(home, "20261201-003812-b-0001"), made(home, "20261201-003913-a-0002")}
    with pytest.raises(UnknownRun) as refused:
        home.find("20261201")
    assert all(run_id in str(refused.value) for run_id in both)


def test_without_any_run_it_says_so(home):
    with pytest.raises(UnknownRun, match="no run yet"):
        home.find("last")


def test_a_directory_without_a_journal_is_no_run(home):
    home.run_dir("20261201-003812-b-0001").mkdir(parents=True)
    assert home.run_ids() == []


def test_two_workspaces_of_one_name_have_two_stores(home):
    one, two = home.store_of(Path("/a/site")), home.store_of(Path("/b/site"))
    assert one != two
    assert one.name.startswith("site-")


def test_a_workspace_of_any_bytes_has_a_store_of_plain_ones(home):
    assert home.store_of(Path("/a/caf\udce9\n")).name.isascii()


def test_it_is_readable_by_its_user_alone(home):
    home.made()
    assert home.root.stat().st_mode & 0o077 == 0
    assert home.runs.is_dir()


def test_a_home_that_can_not_be_made_is_bad_use(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="AGENTREWIND_HOME"):
        Home(tmp_path / "file" / "home").made()
