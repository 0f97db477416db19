"""Declared services: stopped before a restore, started after it, and said where they don't come up."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentrewind.core.errors import SnapshotNotFound
from agentrewind.core.world import TellsApart
from agentrewind.engine.commands import UNCONFINED
from agentrewind.engine.services import Beside, Service, Serviced, Services
from tests.unit.engine.worlds import MemoryWorld


class OwnWorld(MemoryWorld):
    """In the hands of one run."""

    shared = False

    def at_work(self, working):
        pass

    def quiet(self):
        return False

    def restore_own(self, snapshot, mine, *, people, until=None):
        raise AssertionError


def alive(path: Path) -> bool:
    pid = int(path.read_text())
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def make(tmp_path, said):
    made: list[Services] = []

    def make_one(*declared: Service) -> Services:
        environ = dict(os.environ)
        made.append(Services(declared, Beside(tmp_path, environ), UNCONFINED, tmp_path, environ, said=said.append))
        return made[-1]

    yield make_one
    for services in made:
        services.stop()


WEB = Service(
    "web",
    "echo $$ > web.new; mv web.new web.pid; sleep 600 & echo $! > child.pid; sleep 0.2; touch up; wait",
    "test -f up",
)


def test_a_service_is_up_once_its_check_succeeds(make, tmp_path, said):
    make(WEB).start()
    assert (tmp_path / "up").exists()
    assert alive(tmp_path / "web.pid")
    assert said == []


def test_it_is_stopped_with_all_that_it_started(make, tmp_path):
    services = make(WEB)
    services.start()
    services.stop()
    assert not alive(tmp_path / "web.pid")
    assert not alive(tmp_path / "child.pid")


def test_a_restore_has_it_stopped_and_started_again_even_where_it_fails(make, tmp_path):
    seen: list[bool] = []

    class World(OwnWorld):
        def restore(self, snapshot, **options):
            seen.append(alive(tmp_path / "web.pid"))
            for name in ("web.pid", "up"):
                (tmp_path / name).unlink()  # what the one that is started again makes anew
            return super().restore(snapshot, **options)

    world = World({"a": "1"})
    services = make(WEB)
    services.start()
    first = (tmp_path / "web.pid").read_text()
    serviced = Serviced(world, services)
    serviced.restore(serviced.snapshot().id)
    assert seen == [False]
    assert alive(tmp_path / "web.pid")
    assert (tmp_path / "web.pid").read_text() != first
    with pytest.raises(SnapshotNotFound):
        serviced.restore("unknown")
    assert alive(tmp_path / "web.pid")


def test_a_rewind_that_leaves_others_alone_has_it_stopped_too_and_the_run_still_says_when_it_works(make, tmp_path):
    seen: list[object] = []

    class World(OwnWorld):
        def at_work(self, working):
            seen.append(working)

        def restore_own(self, snapshot, mine, *, people, until=None):
            seen.append((mine, people, until, alive(tmp_path / "web.pid")))
            for name in ("web.pid", "up"):
                (tmp_path / name).unlink()
            return super().restore(snapshot)

    services = make(WEB)
    services.start()
    serviced = Serviced(World({"a": "1"}), services)
    assert isinstance(serviced, TellsApart)
    serviced.at_work(working=True)
    serviced.restore_own(serviced.snapshot().id, "run me", people=True)
    assert seen == [True, ("run me", True, None, False)]
    assert alive(tmp_path / "web.pid")


def test_a_dry_run_stops_nothing(make, tmp_path):
    world = OwnWorld({"a": "1"})
    services = make(WEB)
    services.start()
    first = (tmp_path / "web.pid").read_text()
    serviced = Serviced(world, services)
    serviced.restore(serviced.snapshot().id, dry_run=True)
    assert (tmp_path / "web.pid").read_text() == first


def test_one_that_ends_at_once_is_said(make, said):
    make(Service("db", "exit 3")).start()
    assert len(said) == 1
    assert "'db' did not come up" in said[0]
    assert "has ended already" in said[0]


def test_one_that_never_gets_ready_is_said_and_still_stopped(make, tmp_path, said):
    services = make(Service("db", "echo $$ > db.pid; sleep 600", "false", within_s=0.5))
    services.start()
    assert "did not succeed within 0.5 s" in said[0]
    assert alive(tmp_path / "db.pid")
    services.stop()
    assert not alive(tmp_path / "db.pid")


def test_a_daemon_that_it_left_is_stopped_too(tmp_path):
    program = f"""
import os, sys, time
from pathlib import Path
from agentrewind.core.errors import SnapshotNotFound
from agentrewind.engine.commands import UNCONFINED
from agentrewind.engine.processes import become_subreaper, descendants
from agentrewind.engine.services import Beside, Service, Services
become_subreaper()
base = Path({str(tmp_path)!r})
services = Services([Service("d", "(setsid sleep 601 &) ; sleep 602")], Beside(base, os.environ), UNCONFINED, base,
                    os.environ, said=print)
services.start()
before = [p.command for p in descendants(os.getpid())]
services.stop()
time.sleep(0.1)
print(sorted(c for c in before if "60" in c), [p.command for p in descendants(os.getpid())])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    before, _, after = done.stdout.strip().rpartition(" [")
    assert "sleep 602" in before
    assert after in ("]", "'sleep 601']"), done.stdout


def test_its_processes_are_known_so_that_a_rewind_spares_them(make, tmp_path):
    services = make(WEB)
    assert services.pids() == set()
    services.start()
    time.sleep(0.1)
    assert {int((tmp_path / name).read_text()) for name in ("web.pid", "child.pid")} <= services.pids()
