"""Requests beside a journal, and the session that takes them up."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

import pytest

from agentrewind.core.errors import UsageError
from agentrewind.core.records import Paused, RecordUid, RewindRejected, Rewound, Unpaused
from agentrewind.engine.people import OVER, People
from agentrewind.journal.requests import Requests, RewindRequest, Unreadable, new_id
from tests.unit.engine.test_session import Rig, say, shell


def asked(to: str, note: str = "a person's note") -> RewindRequest:
    return RewindRequest(new_id(), RecordUid(to), note, 1)


class Staffed(Rig):
    """A rig whose run listens to people."""

    def __init__(self, base: Path, turns) -> None:
        super().__init__(turns)
        self.requests = Requests(base)
        self.session.people = People(self.log, self.requests)


# --- the files --------------------------------------------------------------------------------------------------------


def test_a_request_is_whole_private_and_comes_oldest_first(tmp_path: Path) -> None:
    requests = Requests(tmp_path)
    assert requests.waiting() == []
    assert not requests.paused
    first, second = asked("rec_000001", "né à 12 °C"), asked("rec_000002")
    requests.ask(second)
    requests.ask(first)
    assert requests.waiting() == [first, second]
    assert (tmp_path / "requests").stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "requests").iterdir()} == {0o600}


def test_a_request_is_taken_or_withdrawn_never_both(tmp_path: Path) -> None:
    for _ in range(30):
        requests, request = Requests(tmp_path), asked("rec_000001")
        requests.ask(request)
        assert sorted(_at_once(request, requests.take, requests.withdraw)) == [False, True]
        requests.done(request.id)
        assert requests.waiting() == []


def _at_once(request: RewindRequest, *acts) -> list[bool]:
    won: list[bool] = []
    threads = [threading.Thread(target=lambda act=act: won.append(act(request.id))) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return won


def test_what_is_no_request_is_named_and_nothing_else_is_read(tmp_path: Path) -> None:
    requests = Requests(tmp_path)
    requests.ask(asked("rec_000001"))
    place = tmp_path / "requests"
    (place / "1.asked").write_text("{")
    (place / "2.asked").write_text(json.dumps({"id": "other", "to": "rec_000001", "note": "n", "at_ns": 1}))
    (place / "3.asked").write_text(json.dumps({"id": "3", "to": 7, "note": "n", "at_ns": 1}))
    (place / "4.asked").symlink_to("/etc/passwd")
    (place / "5.part").write_text("half")
    (place / "6.asked").mkdir()
    found = requests.waiting()
    assert [type(item) for item in found].count(Unreadable) == 5
    assert [item.to for item in found if isinstance(item, RewindRequest)] == ["rec_000001"]


def test_a_note_of_more_than_a_megabyte_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="too long"):
        Requests(tmp_path).ask(asked("rec_000001", "x" * (1 << 20)))
    assert Requests(tmp_path).waiting() == []


# --- the run ----------------------------------------------------------------------------------------------------------


def test_a_request_is_carried_out_at_the_next_call_and_only_there(tmp_path: Path) -> None:
    rig = Staffed(tmp_path, [shell(1), shell(2), shell(3), say("done")])
    rig.step()
    rig.step()
    rig.requests.ask(asked("rec_000003"))
    assert rig.world.files == {"a": "2"}
    assert rig.events(Rewound) == []
    rig.step()
    (move,) = rig.events(Rewound)
    assert (move.by, move.target, move.note) == ("person", "rec_000003", "a person's note")
    assert rig.world.files == {"a": "3"}
    assert "a person's note" in rig.last[-1]["content"]
    assert "the person that you work for" in rig.last[-1]["content"]
    assert [message["role"] for message in rig.last] == ["system", "user", "assistant", "tool", "system"]
    assert rig.requests.waiting() == []
    assert rig.step()["content"] == "done"


def test_what_the_journal_knows_is_never_carried_out_again(tmp_path: Path) -> None:
    rig = Staffed(tmp_path, [shell(1), shell(2), shell(3), say("done")])
    rig.step()
    rig.step()
    request = asked("rec_000003")
    rig.requests.ask(request)
    rig.step()
    rig.requests.ask(request)
    rig.step()
    assert len(rig.events(Rewound)) == 1
    assert rig.requests.waiting() == []


@pytest.mark.parametrize(
    ("to", "note", "word"),
    [
        ("rec_000099", "n", "There is no record"),
        ("rec_000002", "n", "tool call"),
        ("rec_000001", " \n", "note is empty"),
    ],
)
def test_a_request_that_cant_be_is_refused_in_the_journal_and_the_run_goes_on(tmp_path, to, note, word) -> None:
    rig = Staffed(tmp_path, [shell(1), shell(2), say("done")])
    rig.step()
    rig.requests.ask(asked(to, note))
    rig.step()
    (refused,) = rig.events(RewindRejected)
    assert (refused.by, word in refused.told) == ("person", True)
    assert "backtrack" not in refused.told
    assert rig.world.files == {"a": "2"}
    assert rig.requests.waiting() == []


def test_a_person_may_say_the_same_twice_and_more_often_than_the_agent_may(tmp_path: Path) -> None:
    rig = Staffed(tmp_path, [shell(1), *(shell(n) for n in range(2, 6)), say("done")])
    rig.step()
    for _ in range(2):
        rig.step()
        rig.requests.ask(asked("rec_000001"))
    rig.step()
    assert len(rig.events(Rewound)) == 2


def test_a_request_for_another_conversation_waits_for_its_next_call(tmp_path: Path) -> None:
    rig = Staffed(tmp_path, [shell(1), say("a title"), shell(2), say("done")])
    rig.step()
    rig.requests.ask(asked("rec_000001"))
    body = {"model": "m", "messages": [{"role": "user", "content": "Write a title."}]}
    rig.session.call("/v1/chat/completions", body, rig.provider)
    assert rig.events(Rewound) == []
    rig.step()
    assert len(rig.events(Rewound)) == 1


def test_a_request_that_can_no_longer_be_heard_is_refused_at_the_end(tmp_path: Path) -> None:
    rig = Staffed(tmp_path, [shell(1), say("done")])
    rig.step()
    rig.requests.ask(asked("rec_000001"))
    rig.requests.pause()
    rig.session.end("done", ok=True)
    assert [event.told for event in rig.events(RewindRejected)] == [OVER]
    assert (rig.requests.waiting(), rig.requests.paused) == ([], False)
    assert rig.log.tree.ended is not None


def test_a_paused_call_sends_nothing_until_it_may_and_rewinds_happen_meanwhile(tmp_path: Path) -> None:
    rig = Staffed(tmp_path, [shell(1), shell(2), shell(3), say("done")])
    rig.step()
    rig.step()
    rig.requests.pause()
    worker = threading.Thread(target=rig.step)
    worker.start()
    _until(lambda: rig.events(Paused))
    assert len(rig.provider.bodies) == 2
    rig.requests.ask(asked("rec_000003"))
    _until(lambda: rig.events(Rewound))
    assert rig.world.files == {"a": "1"}
    assert len(rig.provider.bodies) == 2
    rig.requests.unpause()
    worker.join(10)
    assert len(rig.events(Paused)) == len(rig.events(Unpaused)) == 1
    assert rig.log.tree.paused is None
    assert rig.world.files == {"a": "3"}


class Leaving:
    """A client that goes away while its call waits."""

    left = False

    def __call__(self, body):
        raise ConnectionError


def test_a_call_whose_client_has_left_waits_no_longer_and_leaves_no_record(tmp_path: Path) -> None:
    rig = Staffed(tmp_path, [shell(1)])
    rig.step()
    rig.requests.pause()
    send, raised = Leaving(), []

    def call() -> None:
        try:
            rig.session.call("/v1/chat/completions", {"model": "m", "messages": rig.harness.messages}, send)
        except ConnectionError as error:
            raised.append(error)

    worker = threading.Thread(target=call)
    worker.start()
    _until(lambda: rig.events(Paused))
    nodes = len(rig.log.tree.nodes)
    send.left = True
    worker.join(10)
    assert len(raised) == 1
    assert len(rig.log.tree.nodes) == nodes
    assert rig.log.tree.paused is not None


def _until(what) -> None:
    deadline = time.monotonic() + 10
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_ctrl_c_while_a_request_is_written_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(_):
        assert [path.suffix for path in (tmp_path / "requests").iterdir()] == [".part"]
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Requests(tmp_path).ask(asked("rec_000001"))
    assert list((tmp_path / "requests").iterdir()) == []
