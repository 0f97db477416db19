"""Two agents side by side in one directory, each in a run of its own: one goes back, the other notices nothing."""

from __future__ import annotations

import os
import threading

from agentrewind.testing.scripted import Request, ScriptedModel, Step, call, say
from tests.e2e.test_exec import Place, here, in_workspace, one_sentence, python, until  # noqa: F401 (a fixture)

NOTE = "Two was wrong."


def test_one_run_goes_back_and_leaves_the_files_of_the_other(here: Place):  # noqa: F811
    work, met, over = here.workspace, here.base / "met", here.base / "over"
    asked = threading.Event()

    def first(request: Request) -> Step:
        results = request.results
        if request.says("[agentrewind]"):
            return say("Done.") if len(results) == 2 else in_workspace(work, f"echo 3 > three-of-a; touch {over}")
        if not results:
            return in_workspace(work, "echo 1 > one-of-a")
        if len(results) == 1:
            return in_workspace(work, f"until test -e {met}; do sleep 0.05; done; echo 2 > two-of-a")
        asked.set()
        return call("backtrack_commit", {"record_uid": "rec_000002", "memory_summary": NOTE})

    def second(request: Request) -> Step:
        results = request.results
        if not results:
            return in_workspace(work, "echo 1 > one-of-b; echo mended > a.txt")
        if len(results) == 1:
            met.touch()  # nothing of this run is at work until it is answered: what appears now is the other's
            assert asked.wait(60)
            return in_workspace(work, f"until test -e {over}; do sleep 0.05; done; echo 2 > two-of-b")
        return say("Done.")

    with ScriptedModel(first) as of_a, ScriptedModel(second) as of_b:
        options = ("--workspace", str(work), "--share", "--", *python("httpx_loop.py"))
        a = here.start("exec", "--base-url", of_a.base_url, *options)
        until((work / "one-of-a").exists)
        alone = here.cli("snap", "create", str(work))
        assert (alone.returncode, "share" in one_sentence(alone)) == (1, True)
        b = here.start("exec", "--base-url", of_b.base_url, *options)
        for running in (a, b):
            _, err = running.communicate(timeout=90)
            assert running.returncode == 0, err
    files = set(os.listdir(work))
    assert {"one-of-a", "three-of-a", "one-of-b", "two-of-b"} <= files
    assert "two-of-a" not in files
    assert (work / "a.txt").read_text() == "mended\n"
    runs = [here.json("log", run["run"]) for run in here.json("runs")]
    (gone_back,) = [run for run in runs if run["rewinds"]]
    (other,) = [run for run in runs if not run["rewinds"]]
    kept = {gap["path"]: gap["why"] for gap in gone_back["moves"][0]["kept"]}
    assert set(kept) >= {"one-of-b", "a.txt"}
    assert all(f"run {other['run']}" in kept[path] for path in ("one-of-b", "a.txt"))
    for run in runs:
        assert here.json("check", run["run"])["ok"] is True
