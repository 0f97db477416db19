"""Fresh mode: each rewind ends the agent's process and begins another one, which is given what is kept."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from agentrewind.compose.home import Home
from agentrewind.compose.runs import Run, verify_snapshots
from agentrewind.core.records import Rewound
from agentrewind.journal.check import check
from agentrewind.testing.scripted import Request, ScriptedModel, Step, call, calls, say
from tests.e2e import fresh_agents
from tests.e2e.fresh_agents import play
from tests.trees import content, differences

PROGRAM = str(Path(sys.executable).with_name("agentrewind"))
ROOT = Path(__file__).parents[2]
KEY = "sk-very-secret-0123456789abcdef"
ONE = "NOTE-ONE: removing a.txt was wrong"
TWO = "NOTE-TWO: b.txt was wrong too"


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of the agent import this package."""
    paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in paths if path))


# --- a run of the built-in agent by the command line ----------------------------------------------------------------


def shell(command: str) -> Step:
    return call("shell", {"command": command})


def commit(uid: str, note: str) -> Step:
    return call("backtrack_commit", {"record_uid": uid, "memory_summary": note})


def script(request: Request) -> Step:  # noqa: PLR0911 (one line a situation)
    """Two rewinds, the second to a point that lies after the first. What is done shows in ../side as well."""
    said = json.dumps(request.messages)
    if TWO in said:
        return say("All done.") if "third" in said else shell("echo third >> ../side; echo third > c.txt; echo third")
    if ONE in said:
        if "spoilt" in said:
            last = request.results[-1]
            found = re.search(r"(rec_\d+)[^\n]*echo spoilt", last)
            return commit(found[1], TWO) if found else call("backtrack_candidates", {"reason": "b is wrong"})
        if "second" in said:
            return shell("echo spoilt >> ../side; echo x > b.txt; echo spoilt")
        return shell("echo second >> ../side; mkdir -p d; echo second > d/two.txt; echo second")
    match len(request.results):
        case 0:
            return calls([("shell", {"command": f"echo first{n} >> ../side; echo {n} > a{n}.txt"}) for n in (1, 2)])
        case 2:
            return call("backtrack_commit", {"record_uid": "rec_000099", "memory_summary": "no such record"})
        case 3:
            return shell("echo gone >> ../side; rm a1.txt; ln -s a2.txt link; chmod 600 a2.txt")
        case 4:
            return call("backtrack_candidates", {"reason": "a1.txt is gone"})
    found = re.search(r"(rec_\d+)[^\n]*echo gone", request.results[-1])
    assert found
    return commit(found[1], ONE)


@dataclass(frozen=True)
class Place:
    workspace: Path
    environ: dict[str, str]

    def cli(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PROGRAM, *arguments],
            env={**self.environ, **more},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=300,
            check=False,
        )

    def json(self, *arguments: str) -> dict:
        done = self.cli(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def run(self, model: ScriptedModel, *options: str, **more: str) -> subprocess.CompletedProcess[str]:
        common = ("--model", "m", "--base-url", model.base_url, "--workspace", str(self.workspace))
        return self.cli("run", *common, *options, "Do it", **more)

    @property
    def home(self) -> Home:
        return Home(Path(self.environ["AGENTREWIND_HOME"]))

    @property
    def side(self) -> list[str]:
        return (self.workspace.parent / "side").read_text().split()


def place(base: Path) -> Place:
    workspace = base / "work"
    (workspace / "kept").mkdir(parents=True)
    (workspace / "kept" / "file.txt").write_text("as it was\n")
    ours = ("AGENTREWIND", "OPENAI", "COLUMNS")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environ = {**kept, "HOME": str(base), "AGENTREWIND_HOME": str(base / "home"), "OPENAI_API_KEY": KEY}
    environ["AGENTREWIND_SANDBOX"] = "none"  # what is tested leaves its marks outside of the workspace
    return Place(workspace, environ)


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return place(tmp_path)


def is_memory(message: dict) -> bool:
    return message["role"] == "system" and message["content"].startswith("[agentrewind]")


def notes(messages: list[dict]) -> list[str]:
    """All notes, in order, whichever messages they stand in."""
    text = "\n".join(message["content"] for message in messages if is_memory(message))
    return re.findall(r'<note \d+ from="b\d+"[^>]*>\n(.*?)\n</note>', text, re.DOTALL)


def without_memory(messages: list[dict]) -> list[dict]:
    return [message for message in messages if not is_memory(message)]


def both_modes(base: Path, *options: str, other: str = "fresh") -> tuple[list[dict], list[dict], Place, Place]:
    """The same script in place and in another mode: the requests of each, and where each worked."""
    found = []
    for mode in ("in-place", other):
        here = place(base / mode)
        with ScriptedModel(script, api_key=KEY) as model:
            done = here.run(model, "--mode", mode, *(options if mode == other else ()))
            assert done.returncode == 0, done.stderr
            assert model.refused == []
            found.append((list(model.requests), here))
    (in_place, there), (fresh, here) = found
    return in_place, fresh, there, here


@pytest.mark.parametrize("options", [(), ("--spawn",)], ids=["fork", "spawn"])
def test_two_rewinds_end_in_the_context_and_the_files_of_in_place(tmp_path, options):
    in_place, fresh, there, here = both_modes(tmp_path, *options)
    assert len(fresh) == len(in_place), "a recorded call was made again"
    for left, right in zip(in_place, fresh, strict=True):
        assert without_memory(left["messages"]) == without_memory(right["messages"])
        assert notes(left["messages"]) == notes(right["messages"])
        assert {**left, "messages": 0} == {**right, "messages": 0}
    assert sum(map(is_memory, in_place[-1]["messages"])) == 2
    assert sum(map(is_memory, fresh[-1]["messages"])) == 1
    assert notes(fresh[-1]["messages"]) == [ONE, TWO]
    later = [request["messages"] for request in fresh if TWO in notes(request["messages"])]
    assert len({[is_memory(message) for message in messages].index(True) for messages in later}) == 1
    assert len(later) == 2
    assert differences(content(there.workspace), content(here.workspace)) == []
    assert there.side == here.side == ["first1", "first2", "gone", "second", "spoilt", "third"]


def test_the_run_says_its_mode_and_is_sound(here):
    with ScriptedModel(script, api_key=KEY) as model:
        assert here.run(model, "--mode", "fresh").returncode == 0
    assert here.json("log", "last")["mode"] == "fresh"
    assert "mode fresh" in here.cli("log", "last").stdout
    is_sound(here)


def test_a_rejected_submission_in_what_is_kept_is_not_judged_again(here):
    judge = "echo judged >> ../side; test -f right.txt || { echo 'FAIL right.txt'; exit 1; }"

    def play(request: Request) -> Step:
        if request.says(ONE):
            return say("Done.") if request.says("righted") else shell("echo righted | tee right.txt")
        if request.says("wronged"):
            return commit("rec_000005", ONE)
        if request.says("FAIL right.txt"):
            return shell("echo wronged | tee wrong.txt")
        return say("Done.") if request.says("worked") else shell("echo worked | tee -a ../side")

    with ScriptedModel(play) as model:
        done = here.run(model, "--mode", "fresh", "--check", judge)
        assert done.returncode == 0, done.stderr
        last = model.last["messages"]
    assert sum("FAIL right.txt" in str(message["content"]) for message in last) == 1
    assert not any("wronged" in str(message) for message in last)
    assert here.side == ["worked", "judged", "judged"]
    is_sound(here)


def is_sound(here: Place) -> None:
    """The journal is sound, every snapshot can be read, and no process went another way."""
    (run,) = (Run(here.home, run_id) for run_id in here.home.run_ids())
    assert check(run.path) == []
    assert verify_snapshots(run, lambda *_: None)[1] == []
    assert run.state == "done"
    assert [text for text in run.tree.warnings if "after the crash is saved" not in text] == []


# --- agents that would rather not ------------------------------------------------------------------------------------


def one_rewind(request: Request) -> Step:
    """A step, a bad one, back to before it, another one."""
    said = json.dumps(request.messages)
    if ONE in said:
        return say("Done.") if "better" in said else shell("echo better >> ../side; echo better | tee good.txt")
    match len(request.results):
        case 0:
            return shell("echo first >> ../side; echo first > first.txt")
        case 1:
            return shell("echo worse >> ../side; echo worse > bad.txt")
    return commit("rec_000003", ONE)


def went_back_once(played: fresh_agents.Played, *, starts: int = 2) -> None:
    assert played.error is None
    assert played.outcome is not None
    assert played.outcome.ok
    assert played.starts == starts
    assert played.side == ["first", "worse", "better"]
    assert sorted(path.name for path in played.workspace.iterdir()) == ["first.txt", "good.txt"]
    assert len(played.requests) == 5
    assert notes(played.last) == [ONE]
    assert "worse" not in json.dumps(without_memory(played.last))
    assert [move.target for move in played.tree.moves if isinstance(move, Rewound)] == ["rec_000003"]
    assert check(played.run_dir) == []


@pytest.mark.parametrize(
    "agent",
    [
        fresh_agents.Loop,
        fresh_agents.SwallowsAndTriesAgain,
        fresh_agents.SwallowsAndSaysItIsDone,
        fresh_agents.SwallowsAndGoesOnWithTools,
        fresh_agents.LeavesByTheBackDoor,
        fresh_agents.Crashes,
        fresh_agents.TurnsItIntoAnError,
        fresh_agents.Grouped,
    ],
)
def test_whatever_the_agent_does_with_the_signal_the_rewind_is_made(agent, tmp_path):
    played = play(agent, one_rewind, tmp_path)
    went_back_once(played)
    assert played.tree.warnings == []


def test_an_agent_that_stays_is_killed_after_the_time_of_grace(tmp_path):
    begun = time.monotonic()
    went_back_once(play(fresh_agents.SwallowsAndStays, one_rewind, tmp_path, grace_s=0.3))
    assert time.monotonic() - begun < 15


def test_what_a_tool_left_running_is_ended_and_what_ran_before_the_target_is_not(tmp_path):
    flags = tmp_path / "early", tmp_path / "late"

    def script(request: Request) -> Step:
        if request.says(ONE):
            return say("Done.")
        match len(request.results):
            case 0:
                return shell(f"(echo $BASHPID > {flags[0]}; exec sleep 60) >/dev/null 2>&1 & sleep 0.2")
            case 1:
                return shell(f"(echo $BASHPID > {flags[1]}; exec sleep 60) >/dev/null 2>&1 & sleep 0.2")
        return commit("rec_000003", ONE)

    def alive(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
        except FileNotFoundError:
            return False

    played = play(fresh_agents.UsesBash, script, tmp_path)
    early, late = (int(flag.read_text()) for flag in flags)
    try:
        assert played.error is None
        assert alive(early)
        assert not alive(late)
    finally:
        os.kill(early, signal.SIGKILL)


# --- agents that come back otherwise ---------------------------------------------------------------------------------


def test_a_prompt_that_differs_is_replaced_by_the_recorded_one_in_every_later_request(tmp_path):
    played = play(fresh_agents.ReadsTheClock, one_rewind, tmp_path)
    went_back_once(played, starts=3)
    prompts = {request["messages"][0]["content"] for request in played.requests}
    assert len(prompts) == 1, "the drifted prompt went out"
    assert any("went another way" in text and "messages[0].content" in text for text in played.tree.warnings)
    assert any("was asked otherwise (hard)" in text for text in played.tree.warnings)


def test_what_may_differ_is_served_and_said(tmp_path):
    played = play(fresh_agents.HasAnIdOfItsOwn, one_rewind, tmp_path)
    went_back_once(played)
    assert played.tree.warnings
    assert all("(soft)" in text and "params.user" in text for text in played.tree.warnings)


def test_an_agent_that_goes_another_way_is_seeded_and_runs_nothing_meanwhile(tmp_path):
    played = play(fresh_agents.Wanders, one_rewind, tmp_path)
    went_back_once(played, starts=4)
    assert sum("what was never recorded" in text for text in played.tree.warnings) == 2


def test_an_agent_that_can_not_come_back_is_where_it_was_and_is_told(tmp_path):
    def script(request: Request) -> Step:
        return say("Done, then.") if request.says("was not made") else one_rewind(request)

    played = play(fresh_agents.WandersWithoutSeed, script, tmp_path)
    assert played.error is None
    assert played.side == ["first", "worse"]
    assert sorted(path.name for path in played.workspace.iterdir()) == ["bad.txt", "first.txt"]
    *before, asked, told = played.last
    assert asked["tool_calls"][0]["function"]["name"] == "backtrack_commit"
    assert "was not made" in told["content"]
    assert "echo worse" in json.dumps(before)
    assert [move.why for move in played.tree.moves] == ["rewind", "undo"]
    assert check(played.run_dir) == []


def test_an_agent_that_never_comes_back_fails_with_its_files_as_they_were_before(tmp_path):
    played = play(fresh_agents.WandersForEver, one_rewind, tmp_path)
    assert played.error is not None
    assert "could be brought to where the run goes on" in str(played.error)
    assert sorted(path.name for path in played.workspace.iterdir()) == ["bad.txt", "first.txt"]
    assert played.side == ["first", "worse"]
    assert check(played.run_dir) == []


def test_a_tool_that_raised_in_what_is_kept_can_not_be_given_again_and_the_agent_is_seeded(tmp_path):
    played = play(fresh_agents.HasAToolThatRaises, one_rewind, tmp_path)
    went_back_once(played)
    error = played.tree.nodes["rec_000002"].ended.error
    assert (error.type, error.message, error.boundary) == ("ValueError", "the tool is broken", "tool")
    assert "fresh_agents.py" in error.traceback
    assert len(played.tree.warnings) == 1
    assert "ValueError" in played.tree.warnings[0]


def test_files_that_the_agent_writes_on_its_way_back_are_put_right(tmp_path):
    def script(request: Request) -> Step:
        return say("Done.") if request.says(ONE) else one_rewind(request)

    played = play(fresh_agents.WritesFilesWhileItStarts, script, tmp_path)
    assert (played.workspace / "started.txt").read_text() == "1"
    assert any("restored again" in text for text in played.tree.warnings)


def test_a_process_that_dies_on_its_way_back_ends_the_run_and_runs_nothing(tmp_path):
    played = play(fresh_agents.DiesOnItsWayBack, one_rewind, tmp_path)
    assert "SIGKILL" in str(played.error)
    assert played.side == ["first", "worse"]
    assert check(played.run_dir) == []


def test_a_secret_in_what_is_kept_is_given_whole_as_long_as_the_supervisor_lives(tmp_path):
    secret = "sk-proj-" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5bC7dE9f"

    def script(request: Request) -> Step:
        if request.says(ONE):
            return say("Done.")
        match len(request.results):
            case 0:
                return shell(f"echo first >> ../side; echo {secret}")
            case 1:
                return shell("echo worse >> ../side")
        return commit("rec_000003", ONE)

    played = play(fresh_agents.Loop, script, tmp_path)
    assert played.error is None
    assert json.dumps(played.last).count(secret) == 2
    assert played.tree.warnings == []
    kept = b"".join(path.read_bytes() for path in played.run_dir.iterdir() if path.is_file())
    assert secret.encode() not in kept


# --- kill -9 ----------------------------------------------------------------------------------------------------------

PARENT = "$(cut -d' ' -f4 /proc/{}/stat)"
ATTEMPT = "$PPID"
ZYGOTE = PARENT.format("$PPID")
SUPERVISOR = PARENT.format(ZYGOTE)
WHO = {"agent": ATTEMPT, "zygote": ZYGOTE, "supervisor": SUPERVISOR}


def once(tmp: Path, command: str) -> str:
    """A command that does something the first time only."""
    return f"test -e {tmp}/killed || {{ touch {tmp}/killed; {command}; sleep 5; }}"


def killing(kill: str, when: str) -> Callable[[Request], Step]:
    """One rewind, with the command `kill` in the step before it or in the one after it."""

    def script(request: Request) -> Step:
        said = json.dumps(request.messages)
        if ONE in said:
            if "better" in said:
                return say("Done.")
            return shell(f"{kill if when == 'after' else 'true'}; echo better | tee good.txt")
        match len(request.results):
            case 0:
                return shell("echo first >> ../side; echo first > first.txt")
            case 1:
                return shell(f"{kill if when == 'before' else 'true'}; echo worse > bad.txt")
        return commit("rec_000003", ONE)

    return script


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("who", WHO)
def test_a_run_whose_process_is_killed_is_resumed_to_its_end(here, tmp_path, who, when):
    kill = once(tmp_path, f"kill -9 {WHO[who]}")
    with ScriptedModel(killing(kill, when)) as model:
        killed = here.run(model, "--mode", "fresh")
        assert killed.returncode == (-signal.SIGKILL if who == "supervisor" else 1), killed.stderr
        assert (tmp_path / "killed").exists()
        if who != "supervisor":
            assert "SIGKILL" in killed.stderr
        done = here.cli("resume", "last")
        assert done.returncode == 0, done.stderr
        last = model.last["messages"]
    assert notes(last) == [ONE]
    assert sorted(path.name for path in here.workspace.iterdir()) == ["first.txt", "good.txt", "kept"]
    assert here.side == ["first"]
    is_sound(here)


POINTS = (
    "fresh.process told to end",
    "fresh.process ended",
    "rewind.world restored",
    "rewind.committed",
    "fresh.recorded answer given:2",
    "fresh.target reached",
    "journal.event-written:9",
    *(
        pytest.param(point, marks=pytest.mark.slow)
        for point in (
            "rewind.intent written",
            "rewind.processes ended",
            "fresh.next process planned",
            "journal.event-written:12",
            "journal.event-written:17",
        )
    ),
)


@pytest.mark.parametrize("point", POINTS)
def test_a_supervisor_killed_in_the_middle_is_resumed_to_its_end(here, point):
    with ScriptedModel(one_rewind) as model:
        killed = here.run(model, "--mode", "fresh", AGENTREWIND_CRASH_AT=point)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert no_process_of(here)
        done = here.cli("resume", "last")
        assert done.returncode == 0, done.stderr
        last = model.last["messages"]
    assert notes(last) == [ONE]
    assert sorted(path.name for path in here.workspace.iterdir()) == ["first.txt", "good.txt", "kept"]
    is_sound(here)


def test_two_crashes_after_a_rewind_do_not_lose_its_note(here):
    with ScriptedModel(one_rewind) as model:
        here.run(model, "--mode", "fresh", AGENTREWIND_CRASH_AT="rewind.committed")
        again = here.cli("resume", "last", AGENTREWIND_CRASH_AT="fresh.target reached")
        assert again.returncode == -signal.SIGKILL, again.stderr
        assert here.cli("resume", "last").returncode == 0
        assert notes(model.last["messages"]) == [ONE]


def no_process_of(here: Place) -> bool:
    """The agent dies with its supervisor."""
    (run,) = (here.workspace.parent / "home" / "runs").iterdir()
    mark = f"AGENTREWIND_RUN={run.name}".encode()
    until = time.monotonic() + 5
    while time.monotonic() < until:
        if not any(mark in environ(pid) for pid in os.listdir("/proc") if pid.isdigit()):
            return True
        time.sleep(0.05)
    return False


def environ(pid: str) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def processes(supervisor: int) -> dict[str, int]:
    """Who is alive: the supervisor, its zygote, the zygote's agent."""
    found = {"supervisor": supervisor}
    for who, above in (("zygote", "supervisor"), ("agent", "zygote")):
        try:
            children = Path(f"/proc/{found[above]}/task/{found[above]}/children").read_text().split()
            found[who] = next(int(pid) for pid in children if b"integrations.zygote" in command(pid))
        except (OSError, StopIteration):
            break
    return found


def command(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("who", WHO)
def test_a_kill_at_ten_random_instants_is_resumed_to_a_consistent_end(tmp_path, who):
    random, struck = Random(who), 0
    for number in range(10):
        here = place(tmp_path / str(number))
        with ScriptedModel(script, api_key=KEY) as model:
            options = ["--model", "m", "--base-url", model.base_url, "--workspace", str(here.workspace)]
            run = subprocess.Popen(
                [PROGRAM, "run", *options, "--mode", "fresh", "Do it"],
                env=here.environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            wanted = random.randrange(10)
            while run.poll() is None and len(model.requests) <= wanted:
                time.sleep(0.002)
            time.sleep(random.random() * 0.05)
            pid = processes(run.pid).get(who)
            if pid is not None and run.poll() is None:
                os.kill(pid, signal.SIGKILL)
                struck += 1
            if run.wait(300) != 0:  # an agent that had to end anyway may be killed and nobody minds
                done = here.cli("resume", "last")
                assert done.returncode == 0, done.stderr
            assert notes(model.last["messages"]) == [ONE, TWO]
            assert model.refused == []
        assert sorted(path.name for path in here.workspace.iterdir()) == ["a1.txt", "a2.txt", "c.txt", "d", "kept"]
        is_sound(here)
    assert struck >= 7, "hardly anything was killed"


# --- a person ---------------------------------------------------------------------------------------------------------


def test_ctrl_c_ends_the_run_and_its_processes_and_it_can_be_resumed(here, tmp_path):
    flag = tmp_path / "started"

    def script(request: Request) -> Step:
        return say("Done.") if request.results else shell(once(tmp_path, f"touch {flag}; sleep 30"))

    with ScriptedModel(script) as model:
        options = ["--model", "m", "--base-url", model.base_url, "--workspace", str(here.workspace), "--mode", "fresh"]
        run = subprocess.Popen(
            [PROGRAM, "run", *options, "Wait"],
            env=here.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        until = time.monotonic() + 20
        while not flag.exists() and time.monotonic() < until:
            time.sleep(0.05)
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=20)
        assert run.returncode == 130, err
        assert "Traceback" not in err
        assert no_process_of(here)
        assert here.cli("resume", "last").returncode == 0
    is_sound(here)


def test_a_rewind_by_hand_goes_on_in_a_new_process_with_its_note(here):
    def script(request: Request) -> Step:
        if request.says(ONE):
            return say("Done.")
        return shell(f"echo {len(request.results)} > f.txt") if len(request.results) < 3 else say("Done.")

    with ScriptedModel(script) as model:
        assert here.run(model, "--mode", "fresh").returncode == 0
        (run,) = (Run(here.home, run_id) for run_id in here.home.run_ids())
        run.rewind("rec_000003", ONE)
        before = len(model.requests)
        assert here.cli("resume", "last").returncode == 0
        assert len(model.requests) == before + 1
        last = model.last["messages"]
    assert notes(last) == [ONE]
    assert [message["role"] for message in last] == ["system", "user", "assistant", "tool", "system"]
    assert (here.workspace / "f.txt").read_text() == "0\n"
    is_sound(here)
