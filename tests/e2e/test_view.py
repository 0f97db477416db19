"""The page beside the command that makes a run, and the command that shows one."""

from __future__ import annotations

import re

from agentrewind.testing.scripted import ScriptedModel, say
from tests.e2e.test_exec import Place, here, one_sentence, python  # noqa: F401 (a fixture)


def test_the_link_is_printed_and_its_key_is_kept_nowhere(here: Place) -> None:  # noqa: F811
    with ScriptedModel(lambda _: say("Done.")) as model:
        done = here.exec(model.base_url, *python("httpx_loop.py"), options=("--view",))
    assert done.returncode == 0, done.stderr
    found = re.search(r"page (http://127\.0\.0\.1:\d+/run/\S+)\?token=(\S+)", done.stderr)
    assert found is not None, done.stderr
    assert found[1].endswith(here.json("runs")[0]["run"])
    for path in (here.base / "home").rglob("*"):
        assert not path.is_file() or found[2].encode() not in path.read_bytes(), path


def test_a_run_that_is_not_there_is_said(here: Place) -> None:  # noqa: F811
    assert "no run yet" in one_sentence(here.cli("view", "last"))


def test_a_run_becomes_one_file(here: Place) -> None:  # noqa: F811
    with ScriptedModel(lambda _: say("Done.")) as model:
        here.exec(model.base_url, *python("httpx_loop.py"))
    page = ("export", "last", "--html", str(here.base / "run.html"))
    assert here.cli(*page).returncode == 0
    assert here.json(*page, "--force", "--redact")["html"]["steps"] == 1
    assert "there already" in one_sentence(here.cli(*page))
