"""`agentrewind store` as a person uses it: check, stats, gc with runs and by hand, export, limits and keys."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from agentrewind.compose.home import Home
from agentrewind.compose.worlds import open_world
from agentrewind.core.records import RunEnded, RunStarted, Snapshotted
from agentrewind.journal.writer import JournalWriter
from tests.unit.snapshots.test_store import flip, forget_caches, records

PROGRAM = Path(sys.executable).with_name("agentrewind")


class Bench:
    """A home, a project and the program."""

    def __init__(self, base: Path) -> None:
        self.home = Home(base / "home").made()
        self.project = base / "project"
        self.project.mkdir()
        self.base = base

    def run(self, *arguments: str, code: int = 0, **environ: str) -> str:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("AGENTREWIND")}
        ours = {"AGENTREWIND_HOME": str(self.home.root), "COLUMNS": "400"}
        done = subprocess.run(
            [str(PROGRAM), *arguments], cwd=self.project, text=True, capture_output=True, check=False,
            stdin=subprocess.DEVNULL, env={**clean, **ours, **environ},
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        assert "should not" not in done.stderr
        return done.stdout + done.stderr

    def facts(self, *arguments: str) -> dict:
        return json.loads(self.run(*arguments, "--json"))[0]

    def make_run(self, number: int, *, ended: bool = True) -> str:
        run_id = f"2026120{number}-000000-some-run-000{number}"
        with (
            open_world(self.home, self.project, holder=f"run {run_id}") as world,
            JournalWriter.create(self.home.run_dir(run_id), RunStarted(run_id, str(self.project), number, "0")) as log,
        ):
            for step in range(3):
                (self.project / "file").write_bytes(random.Random(10 * number + step).randbytes(40_000))
                log.append(Snapshotted(world.snapshot().id))
            if ended:
                log.append(RunEnded(number, ok=True, reason="done"))
        os.utime(self.home.run_dir(run_id) / "journal.jsonl", (number * 86_400, number * 86_400))
        return run_id

    @property
    def store(self) -> Path:
        return self.home.store_of(self.project)

    def whole(self) -> int:
        with open_world(self.home, self.project, reading=True) as world:
            assert all(world.verify(found.id).ok for found in world.snapshots())
            return len(world.snapshots())


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_without_a_word_only_what_nobody_needs_goes(bench: Bench) -> None:
    runs = [bench.make_run(number) for number in (1, 2)]
    (bench.project / "file").write_text("by hand")
    bench.run("snap", "create")
    assert bench.facts("store", "gc")["snapshots"] == []
    subprocess.run(["rm", "-r", str(bench.home.run_dir(runs[0]))], check=True)
    facts = bench.facts("store", "stats")
    assert (facts["snapshots"], facts["runs"], facts["by_hand"]) == (7, 1, 1)
    assert facts["unneeded"] > 100_000
    done = bench.facts("store", "gc")
    assert len(done["snapshots"]) == 3
    assert done["before"] - done["after"] > 100_000
    assert bench.whole() == 4
    assert "0 snapshots removed" in bench.run("store", "gc", ".")


def test_runs_go_by_number_and_age_after_a_word(bench: Bench) -> None:
    runs = [bench.make_run(number) for number in (1, 2, 3, 4)]
    said = bench.run("store", "gc", "--keep-runs", "2", "--dry-run")
    assert all(f"remove run {run}" in said for run in runs[:2])
    assert bench.home.run_ids() == runs
    assert "nobody can be asked" in bench.run("store", "gc", "--keep-runs", "2", code=2)
    assert bench.home.run_ids() == runs
    bench.run("store", "gc", "--keep-runs", "3", "--yes")
    assert bench.home.run_ids() == runs[1:]
    os.utime(bench.home.run_dir(runs[3]) / "journal.jsonl")
    bench.run("store", "gc", "--keep-days", "2", "--yes")
    assert bench.home.run_ids() == runs[3:]
    assert bench.whole() == 3
    bench.run("store", "gc", runs[3], "--keep-runs", "0", "--yes")
    assert bench.home.run_ids() == []
    assert bench.whole() == 0


def test_the_oldest_go_until_it_fits(bench: Bench) -> None:
    runs = [bench.make_run(number) for number in (1, 2, 3, 4)]
    done = bench.facts("store", "gc", "--max-size", "300kB", "--yes")
    assert done["runs"] == runs[:2]
    assert done["after"] < 300_000
    assert bench.whole() == 6
    assert "is not a size" in bench.run("store", "gc", "--max-size", "much", code=2)


def test_a_run_that_goes_on_is_never_removed(bench: Bench) -> None:
    ended, going = bench.make_run(1), bench.make_run(2, ended=False)
    with JournalWriter.open(bench.home.run_dir(going)):
        bench.run("store", "gc", "--keep-runs", "0", "--yes")
        assert bench.home.run_ids() == [going]
        assert bench.whole() == 3
    assert ended != going


def test_while_somebody_saves_a_collection_is_refused(bench: Bench) -> None:
    bench.make_run(1)
    with open_world(bench.home, bench.project, holder="run 7"):
        assert "(run 7) holds them" in bench.run("store", "gc", code=1)
        assert "Left alone" in bench.run("store", "gc", "--all", code=1)


def test_what_was_saved_by_hand_as_well_outlives_the_run(bench: Bench) -> None:
    run = bench.make_run(1)
    bench.run("snap", "create")
    bench.run("store", "gc", run, "--keep-runs", "0", "--yes")
    assert bench.home.run_ids() == []
    assert bench.whole() == 1
    assert "needs --keep-days or --max-size" in bench.run("store", "gc", "--by-hand", code=2)
    bench.run("store", "gc", "--by-hand", "--keep-days", "0", "--yes")
    assert bench.whole() == 0


def test_a_run_that_can_not_be_read_stops_it(bench: Bench) -> None:
    run = bench.make_run(1)
    journal = bench.home.run_dir(run) / "journal.jsonl"
    flip(journal, journal.stat().st_size // 2)
    assert "nobody knows which snapshots it needs" in bench.run("store", "gc", code=1)
    flip(journal, journal.stat().st_size // 2)
    flip(journal, 3)
    assert "nobody knows which snapshots it needs" in bench.run("store", "gc", code=1)
    assert bench.whole() == 3


def test_check_names_what_is_damaged_and_only_that(bench: Bench) -> None:
    run = bench.make_run(1)
    assert "is sound: 3 snapshots" in bench.run("store", "check")
    assert "is sound" in bench.run("store", "check", run, "--read-data")
    forget_caches(bench.store)
    path, record = records(bench.store)[0]
    flip(path, record.body_at + 50)
    said = bench.run("store", "check", "--read-data", code=1)
    assert "contents are missing or damaged: 'file'" in said
    assert "2 can be brought back whole" in said
    facts = json.loads(bench.run("store", "check", "--all", "--read-data", "--json", code=1))
    assert len(facts[0]["problems"]) == 1


def test_list_and_places(bench: Bench) -> None:
    assert "Nothing has been saved yet" in bench.run("store", "list")
    assert "Nothing has been saved of" in bench.run("store", "stats", code=2)
    assert "neither a directory nor a run" in bench.run("store", "stats", "nothing", code=2)
    bench.make_run(1)
    assert str(bench.project) in bench.run("store", "list")
    facts = bench.facts("store", "list")
    assert facts["runs"] == 1
    assert facts["bytes"] > 100_000


def test_a_run_is_exported_as_commits(bench: Bench) -> None:
    bench.make_run(1)
    run = bench.make_run(2)
    assert "Wrote 3 commits" in bench.run("store", "export", "--git", str(bench.base / "one"), run)
    assert "Wrote 6 commits" in bench.run("store", "export", "--git", str(bench.base / "all"))
    assert "there already" in bench.run("store", "export", "--git", str(bench.base / "all"), code=2)


def test_limits_of_the_settings(bench: Bench) -> None:
    (bench.project / "agentrewind.toml").write_text('[store]\nmax_size = "100 kB"\nmin_free = 0\n')
    (bench.project / "a").write_bytes(os.urandom(94_000))
    said = bench.run("snap", "create")
    assert said.count("of the 100.0 kB that they may") == 1
    (bench.project / "b").write_bytes(os.urandom(20_000))
    assert "their limit is 100.0 kB" in bench.run("snap", "create", code=1)
    (bench.project / "agentrewind.toml").write_text('[store]\nmax_sise = "1 GB"\n')
    assert "no setting 'max_sise'" in bench.run("snap", "create", code=2)
    (bench.project / "agentrewind.toml").write_text("[store]\nmax_size = true\n")
    assert "store.max_size" in bench.run("snap", "create", code=2)


def test_encryption_by_setting_and_key_file(bench: Bench) -> None:
    key, other = bench.base / "key", bench.base / "other"
    key.write_bytes(os.urandom(32))
    other.write_bytes(os.urandom(32))
    (bench.project / "telling-name").write_text("a secret")
    (bench.project / "agentrewind.toml").write_text("[store]\nencrypt = true\n")
    assert "there is no key" in bench.run("snap", "create", code=2)
    bench.run("snap", "create", AGENTREWIND_STORE_KEY_FILE=str(key))
    assert not [path for path in bench.store.rglob("*") if path.is_file() and b"telling" in path.read_bytes()]
    assert "there is no key" in bench.run("snap", "list", code=2)
    assert "not that of the encrypted" in bench.run("snap", "list", code=2, AGENTREWIND_STORE_KEY_FILE=str(other))
    for act in (("snap", "list"), ("store", "check", "--read-data"), ("store", "gc"), ("store", "stats")):
        bench.run(*act, AGENTREWIND_STORE_KEY_FILE=str(key))
    assert "needs a key file" in bench.run("store", "gc", code=2, AGENTREWIND_STORE_PASSPHRASE="hello")


def test_encryption_by_hand_and_passphrase(bench: Bench) -> None:
    (bench.project / "a").write_text("a")
    bench.run("snap", "create", "--encrypt", AGENTREWIND_STORE_PASSPHRASE="correct horse")
    assert '"encrypted": true' in bench.run("store", "stats", "--json", AGENTREWIND_STORE_PASSPHRASE="correct horse")
    assert "not that of" in bench.run("store", "stats", code=2, AGENTREWIND_STORE_PASSPHRASE="battery staple")
