"""Fork checkpoints: a rewind wakes the process as it was, with what it held besides its messages."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from agentrewind.core.records import Rewound
from agentrewind.journal.check import check
from agentrewind.testing.scripted import Request, ScriptedModel, Step, say
from tests.e2e import forking_agents
from tests.e2e.forking_agents import lines
from tests.e2e.fresh_agents import Played, play
from tests.e2e.test_fresh import (
    ONE,
    PARENT,
    TWO,
    Place,
    command,
    commit,
    here,
    importable,
    is_sound,
    killing,
    no_process_of,
    notes,
    once,
    one_rewind,
    place,
    script,
    shell,
    went_back_once,
    without_memory,
)
from tests.trees import content, differences

__all__ = ["here", "importable"]  # fixtures of that module

FORKING = ("--mode", "fresh", "--fork-checkpoints", "8")


def forking(agent, script, base: Path, *, copies: int = 8, **more) -> tuple[Played, list[str]]:
    told: list[str] = []
    return play(agent, script, base, fork_checkpoints=copies, told=told.append, **more), told


def nobody_left(base: Path) -> bool:
    """No process of the run, parked or not, is alive."""
    (run,) = (base / "home" / "runs").iterdir()
    mark = f"AGENTREWIND_RUN={run.name}".encode()
    return not any(mark in environ(pid) for pid in os.listdir("/proc") if pid.isdigit() and int(pid) != os.getpid())


def environ(pid: str) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def test_a_variable_is_after_the_rewind_what_it_was_at_the_checkpoint(tmp_path):
    played, told = forking(forking_agents.Remembers, one_rewind, tmp_path)
    went_back_once(played, starts=1)
    assert played.tree.warnings == []
    first, second, third, *_ = held = lines(tmp_path / "held")
    assert len(held) == 4, "the call that was rewound never came back to the agent"
    assert third[1:] == second[1:], "it holds what it held at its second call"
    assert third[0] != second[0] == first[0]
    assert len(lines(tmp_path / "asked")) == 4, "a woken process begins nothing anew"
    assert told[-1].startswith("Fork checkpoints (experimental): ")
    assert "1 woken" in told[-1]
    assert " 0.0 MiB" not in told[-1]
    assert nobody_left(tmp_path)


def test_without_them_the_agent_goes_its_way_again(tmp_path):
    played, told = forking(forking_agents.Remembers, one_rewind, tmp_path, copies=0)
    went_back_once(played, starts=2)
    held = lines(tmp_path / "held")
    assert len(held) == 5
    assert held[2][1:] != held[0][1:], "a replay draws anew"
    assert told == []


def three_rewinds(request: Request) -> Step:
    """Back to the second call, on, back to the first one after it, and back to the second once more."""
    said, three = json.dumps(without_memory(request.messages)), "NOTE-THREE"
    got = notes(request.messages)
    if three in got:
        return say("Done.") if "third" in said else shell("echo third >> ../side; echo third | tee c.txt")
    if TWO in got:
        return commit("rec_000003", three) if "second" in said else shell("echo second | tee b.txt")
    if ONE in got:
        return commit("rec_000006", TWO) if "better" in said else shell("echo better | tee good.txt")
    match len(request.results):
        case 0:
            return shell("echo first > first.txt; echo first")
        case 1:
            return shell("echo worse | tee bad.txt")
    return commit("rec_000003", ONE)


def test_nested_rewinds_and_a_second_one_to_the_same_checkpoint(tmp_path):
    plain, _ = forking(forking_agents.Remembers, three_rewinds, _made(tmp_path / "plain"), copies=0)
    played, told = forking(forking_agents.Remembers, three_rewinds, _made(tmp_path / "forked"))
    assert played.error is None
    assert played.tree.warnings == plain.tree.warnings == []
    assert played.requests == plain.requests, "the model sees the same in both"
    moves = [move for move in played.tree.moves if isinstance(move, Rewound)]
    assert [move.ended_processes for move in moves] == [(), (), ()], "copies count as left running"
    assert [move.target for move in moves] == ["rec_000003", "rec_000006", "rec_000003"]
    assert played.starts == 1
    assert plain.starts == 4
    held = [tuple(line[1:]) for line in lines(tmp_path / "forked" / "held")]
    assert len({item for item in held if len(item) == 2}) == 1, "each time it was the second call, with its number"
    assert sorted(path.name for path in played.workspace.iterdir()) == ["c.txt", "first.txt"]
    assert "3 woken" in told[-1]
    assert check(played.run_dir) == []
    assert nobody_left(tmp_path / "forked")


def _made(path: Path) -> Path:
    path.mkdir()
    return path


def test_a_checkpoint_whose_copy_was_thinned_out_is_reached_by_replay(tmp_path):
    played, told = forking(forking_agents.Remembers, one_rewind, tmp_path, copies=1)
    went_back_once(played, starts=2)
    assert "0 woken" in told[-1]
    assert nobody_left(tmp_path)


@pytest.mark.parametrize(
    ("agent", "why"),
    [
        (forking_agents.HasAThread, "threads"),
        (forking_agents.HasAChild, "processes of its own"),
        (forking_agents.HasAnEventLoop, "event loop"),
    ],
)
def test_what_can_not_be_held_twice_is_not_parked_and_that_is_said_once(tmp_path, agent, why):
    played, told = forking(agent, one_rewind, tmp_path)
    assert played.error is None
    assert played.starts == 2
    (line,) = told
    assert why in line
    assert line.startswith("No fork checkpoint")


def test_the_generator_of_random_numbers_and_the_place_in_an_open_file_are_those_of_the_checkpoint(tmp_path):
    played, _ = forking(forking_agents.DrawsFromRandom, one_rewind, _made(tmp_path / "random"))
    went_back_once(played, starts=1)
    _, second, again, _ = (tmp_path / "random" / "random").read_text().split()
    assert second == again
    played, _ = forking(forking_agents.ReadsAFile, one_rewind, _made(tmp_path / "file"))
    went_back_once(played, starts=1)
    assert (tmp_path / "file" / "read").read_text().split() == ["1000", "1001", "1001", "1002"]


def test_a_woken_copy_finds_its_connections_closed_by_the_other_side(tmp_path):
    played, _ = forking(forking_agents.HoldsAConnection, one_rewind, tmp_path)
    went_back_once(played, starts=1)
    assert (tmp_path / "connection").read_text().split() == ["open", "open", "closed", "closed"]


def parked(base: Path) -> list[int]:
    """The processes that the one of the agent's first call isn't, children of this one that have its mark."""
    (run,) = (base / "home" / "runs").iterdir()
    mark = f"AGENTREWIND_RUN={run.name}".encode()
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    zygotes = [pid for pid in children if Path(f"/proc/{pid}/task/{pid}/children").read_text().strip()]
    return [int(pid) for pid in children if mark in environ(pid) and pid not in zygotes]


def test_a_killed_copy_is_replaced_by_the_replay(tmp_path):
    def script(request: Request) -> Step:
        step = one_rewind(request)
        if len(request.results) == 2 and not request.says(ONE):
            pids = parked(tmp_path)
            assert len(pids) == 3
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
        return step

    played, told = forking(forking_agents.Remembers, script, tmp_path)
    went_back_once(played, starts=2)
    assert "0 woken" in told[-1]
    assert nobody_left(tmp_path)


def test_a_copy_that_is_killed_after_it_was_woken_fails_the_run_as_any_process_of_the_agent(tmp_path):
    played, _ = forking(forking_agents.DiesWhenItIsWoken, one_rewind, tmp_path)
    assert "SIGKILL" in str(played.error)
    assert (tmp_path / "killed").exists()
    assert check(played.run_dir) == []
    assert nobody_left(tmp_path)


# --- by the command line ----------------------------------------------------------------------------------------------


def copies_of(here: Place) -> list[str]:
    """The processes of the agent that are alive, parked or not; its commands are others. A kill takes a moment."""
    (run,) = (here.workspace.parent / "home" / "runs").iterdir()
    mark = f"AGENTREWIND_RUN={run.name}".encode()
    until = time.monotonic() + 3
    while True:
        pids = [pid for pid in os.listdir("/proc") if pid.isdigit() and mark in environ(pid)]
        found = [pid for pid in pids if b"integrations.zygote" in command(pid)]
        if not found or time.monotonic() > until:
            return found
        time.sleep(0.02)


def test_the_built_in_agent_ends_in_the_context_and_the_files_of_a_replay(tmp_path):
    found = []
    for name, options in (("plain", ("--mode", "fresh")), ("forked", FORKING)):
        here = place(tmp_path / name)
        with ScriptedModel(script) as model:
            done = here.run(model, *options)
            assert done.returncode == 0, done.stderr
            assert model.refused == []
            found.append((list(model.requests), here))
        is_sound(here)
    (plain, there), (forked, here) = found
    assert forked == plain
    assert differences(content(there.workspace), content(here.workspace)) == []
    assert there.side == here.side
    assert "2 woken" in done.stderr
    assert no_process_of(here)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("who", ["agent", "supervisor"])
def test_a_run_whose_process_is_killed_leaves_no_copy_and_is_resumed(here, tmp_path, who, when):
    """After the rewind the agent's process is a woken copy: a child of the supervisor, with no zygote between."""
    above = PARENT.format("$PPID")
    supervisor = above if when == "after" else PARENT.format(above)
    kill = once(tmp_path, f"kill -9 {'$PPID' if who == 'agent' else supervisor}")
    with ScriptedModel(killing(kill, when)) as model:
        killed = here.run(model, *FORKING)
        assert killed.returncode == (1 if who == "agent" else -signal.SIGKILL), killed.stderr
        assert (tmp_path / "killed").exists()
        assert copies_of(here) == [], "a copy outlived its run"
        done = here.cli("resume", "last")
        assert done.returncode == 0, done.stderr
        assert notes(model.last["messages"]) == [ONE]
    assert sorted(path.name for path in here.workspace.iterdir()) == ["first.txt", "good.txt", "kept"]
    assert no_process_of(here)
    is_sound(here)


@pytest.mark.parametrize("point", ["fresh.process told to end", "rewind.committed", "fresh.target reached"])
def test_a_supervisor_killed_in_the_middle_of_a_rewind_leaves_no_copy_and_is_resumed(here, point):
    with ScriptedModel(one_rewind) as model:
        killed = here.run(model, *FORKING, AGENTREWIND_CRASH_AT=point)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert no_process_of(here)
        done = here.cli("resume", "last")
        assert done.returncode == 0, done.stderr
        assert notes(model.last["messages"]) == [ONE]
    assert sorted(path.name for path in here.workspace.iterdir()) == ["first.txt", "good.txt", "kept"]
    is_sound(here)


def test_they_need_fresh_mode_and_are_no_part_of_the_paper(here: Place):
    for options, why in ((("--fork-checkpoints", "2"), "--mode fresh"), ((*FORKING[2:], "--paper"), "--paper settles")):
        done = here.cli("run", "--model", "m", "--base-url", "http://127.0.0.1:9/v1", *options, "Do it")
        assert done.returncode == 2
        assert why in done.stderr
        assert "Traceback" not in done.stderr
