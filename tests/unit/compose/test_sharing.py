"""Several runs in one workspace: who may come in, whose acts wait for whose, and what a rewind leaves to the others."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from openai import OpenAI

import agentrewind
from agentrewind.compose.home import Home
from agentrewind.compose.sharing import SharedWorld
from agentrewind.compose.worlds import open_world
from agentrewind.core.errors import Busy
from agentrewind.testing.scripted import Request, ScriptedModel, Step, call, say

WRITE = {"type": "function", "function": {"name": "write", "parameters": {"type": "object", "properties": {}}}}


class Place:
    def __init__(self, base: Path) -> None:
        self.home = Home(base / "home")
        self.root = base / "work"
        self.root.mkdir()
        (self.root / "first.txt").write_text("at first\n")

    @contextmanager
    def shared(self, *names: str) -> Iterator[list[SharedWorld]]:
        worlds = [SharedWorld(self.home, self.root, name) for name in names]
        try:
            for world in worlds:
                world.at_work(working=False)
            yield worlds
        finally:
            for world in worlds:
                world.close()

    def works(self, world: SharedWorld, name: str, text: str) -> None:
        """As a session does: a look before, and one after."""
        world.snapshot()
        world.at_work(working=True)
        (self.root / name).write_text(text)
        world.snapshot()
        world.at_work(working=False)

    def names(self) -> set[str]:
        return set(os.listdir(self.root))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_rehearsal_is_no_look_what_a_run_that_has_left_did_stays_its_own(place: Place) -> None:
    with place.shared("b") as (b,):
        start = b.snapshot().id
        with closing(SharedWorld(place.home, place.root, "a")):
            (place.root / "of-a").write_text("1")
        b.restore(start, dry_run=True)
        b.snapshot()
        b.restore_own(start, "run b", people=False)
        assert "of-a" in place.names()


def test_a_rewind_leaves_the_files_of_the_other_run_and_says_whose_they_are(place: Place) -> None:
    with place.shared("a", "b") as (a, b):
        start = a.snapshot().id
        place.works(a, "of-a", "1")
        place.works(b, "of-b", "2")
        place.works(b, "first.txt", "changed by b\n")
        place.works(a, "also-of-a", "3")
        report = a.restore_own(start, "run a", people=False)
        assert place.names() == {"first.txt", "of-b"}
        assert (place.root / "first.txt").read_text() == "changed by b\n"
        whose = {gap.path: gap.why for gap in report.kept}
        assert whose == {"of-b": "new by run b: left as it is", "first.txt": "changed by run b: left as it is"}
        place.works(b, "later", "4")
        a.restore_own(start, "run a", people=False)
        assert place.names() == {"first.txt", "of-b", "later"}


def test_who_doesnt_share_is_refused_while_others_do_and_the_reverse(place: Place) -> None:
    with place.shared("a"):
        with pytest.raises(Busy, match=r"run a shares it. Start another run there with --share"):
            open_world(place.home, place.root)
        (place.root / "below").mkdir()
        with pytest.raises(Busy, match="run a shares it"):
            open_world(place.home, place.root / "below")
        with closing(open_world(place.home, place.root, reading=True)):
            pass
    with closing(open_world(place.home, place.root, holder="run alone")), pytest.raises(Busy, match="run alone"):
        SharedWorld(place.home, place.root, "b")
    with place.shared("c"):
        pass
    open_world(place.home, place.root).close()


def test_acts_of_many_at_once_wait_for_one_another(place: Place) -> None:
    failures: list[BaseException] = []

    def work(world: SharedWorld, name: str) -> None:
        try:
            start = world.snapshot().id
            for number in range(4):
                place.works(world, f"{name}-{number}", f"{name} {number}")
            world.restore_own(start, f"run {name}", people=False)
        except BaseException as error:  # noqa: BLE001 (shown by the test)
            failures.append(error)

    with place.shared("a", "b") as worlds:
        threads = [threading.Thread(target=work, args=pair) for pair in zip(worlds, "ab", strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert failures == []
        assert "first.txt" in place.names()


def test_a_run_that_is_killed_at_work_blocks_nobody_and_its_files_stay(place: Place) -> None:
    program = (
        "import sys, time\nfrom pathlib import Path\nfrom agentrewind.compose.home import Home\n"
        "from agentrewind.compose.sharing import SharedWorld\n"
        "world = SharedWorld(Home(Path(sys.argv[1])), Path(sys.argv[2]), 'b')\n"
        "Path(sys.argv[2], 'of-b').write_text('2')\nprint('ready', flush=True)\ntime.sleep(60)\n"
    )
    with place.shared("a") as (a,):
        start = a.snapshot().id
        killed = subprocess.Popen(
            [sys.executable, "-c", program, str(place.home.root), str(place.root)], stdout=subprocess.PIPE
        )
        assert killed.stdout is not None
        assert killed.stdout.readline() == b"ready\n"
        killed.kill()
        killed.communicate()
        assert killed.returncode == -signal.SIGKILL
        place.works(a, "of-a", "1")
        report = a.restore_own(start, "run a", people=False)
        assert place.names() == {"first.txt", "of-b"}
        assert {gap.path: gap.why for gap in report.kept} == {"of-b": "new by run b: left as it is"}
        place.works(a, "of-a", "3")
        a.restore_own(start, "run a", people=False)
        assert place.names() == {"first.txt", "of-b"}
    open_world(place.home, place.root).close()


# --- a program's own agent --------------------------------------------------------------------------------------------


def test_a_session_in_a_program_shares_its_workspace_and_leaves_the_files_of_the_other_run(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTREWIND_HOME", str(place.home.root))

    @agentrewind.tool
    def write(name: str) -> None:
        (place.root / name).write_text("mine\n")

    def script(request: Request) -> Step:
        if request.says("[agentrewind]"):
            return say("Done.")
        if not request.results:
            return call("write", {"name": "wrong"})
        return call("backtrack_commit", {"record_uid": "rec_000001", "memory_summary": "It was wrong."})

    def works_meanwhile(request: Request) -> Step:
        if request.results:  # nothing of the session is at work until it is answered
            place.works(other, "others", "theirs\n")
        return script(request)

    with place.shared("other") as (other,), ScriptedModel(works_meanwhile) as model:
        with pytest.raises(Busy, match="--share"), agentrewind.session(place.root):
            pass
        with (
            agentrewind.session(place.root, share=True) as live,
            OpenAI(base_url=model.base_url, api_key="k") as client,
        ):
            messages: list = [{"role": "user", "content": "Go"}]
            while True:
                found = client.chat.completions.create(model="m", messages=messages, tools=[WRITE]).choices[0].message
                if not found.tool_calls:
                    break
                write(json.loads(found.tool_calls[0].function.arguments)["name"])
                result = {"role": "tool", "tool_call_id": found.tool_calls[0].id, "content": "ok"}
                messages += [found.model_dump(exclude_none=True), result]
    assert place.names() == {"first.txt", "others"}
    (move,) = agentrewind.open_run(live.id).tree.moves
    assert [(gap.path, "other" in gap.why) for gap in move.kept] == [("others", True)]
