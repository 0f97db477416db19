from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time

import pytest

from agentrewind.core.budgets import Budget
from agentrewind.core.codec import digest
from agentrewind.core.errors import StorageFull
from agentrewind.core.records import Judged, RewindGivenUp, RewindRejected, Rewound, Snapshotted, Warned
from agentrewind.core.strategy import GoOn
from agentrewind.core.wire import WireReply
from agentrewind.dialects.openai_chat import OpenAIChat
from agentrewind.engine.processes import Process
from agentrewind.engine.session import Session
from tests.unit.engine.wire import PATH, SHELL, Harness, Provider, answer
from tests.unit.engine.worlds import MemoryLog, MemoryWorld


class Rig:
    def __init__(self, turns, harness=Harness, **settings) -> None:
        self.world = MemoryWorld({"a": "0"})
        self.log = MemoryLog()
        self.session = Session(self.log, self.world, [OpenAIChat()], **settings)
        self.provider = Provider(turns)
        self.harness = harness(self.session, self.world)

    def step(self):
        return self.harness.step(self.provider)

    @property
    def last(self) -> list[dict]:
        return self.provider.bodies[-1]["messages"]

    def events(self, kind):
        return [event for event in self.log.events if isinstance(event, kind)]


def shell(number: int, name: str = "a", text: str | None = None):
    return lambda _: answer(calls=[(f"c{number}", "shell", {"name": name, "text": text or str(number)})])


def commit(uid: str, note: str = "it failed; do otherwise", *, also=()):
    return lambda _: answer(calls=[("k1", "backtrack_commit", {"record_uid": uid, "memory_summary": note}), *also])


def ask(_):
    return answer(calls=[("q1", "backtrack_candidates", {"reason": "lost"})])


def say(text: str):
    return lambda _: answer(text=text)


def test_a_rewind_brings_files_and_conversation_back_together_and_the_harness_never_sees_it() -> None:
    rig = Rig([shell(1), shell(2), shell(3), commit("rec_000003"), say("done")])
    for _ in range(3):
        rig.step()
    assert rig.world.files == {"a": "3"}
    before = rig.provider.bodies[1]["messages"]
    final = rig.step()
    assert rig.world.files == {"a": "1"}
    assert final == {"role": "assistant", "content": "done"}
    assert rig.last[: len(before)] == before
    assert [message["role"] for message in rig.last[len(before) :]] == ["system"]
    assert "it failed; do otherwise" in rig.last[-1]["content"]
    assert not any("backtrack" in json.dumps(message) for message in rig.harness.messages)


def test_later_calls_keep_the_cut_and_the_note_stands_once() -> None:
    rig = Rig([shell(1), shell(2), commit("rec_000003"), shell(4, "b"), say("done")])
    for _ in range(4):
        rig.step()
    text = json.dumps(rig.last)
    assert text.count("it failed; do otherwise") == 1
    assert "wrote b" in text
    assert '\\"text\\": \\"2\\"' not in text


def test_candidates_are_answered_inside_and_stay_in_the_models_view() -> None:
    rig = Rig([shell(1), ask, shell(2), say("done")])
    rig.step()
    rig.step()
    listing = rig.last[-1]
    assert listing["role"] == "tool"
    assert "rec_000001" in listing["content"]
    rig.step()
    assert any(message.get("content") == listing["content"] for message in rig.last)
    assert not any("backtrack" in json.dumps(message) for message in rig.harness.messages)


def test_a_second_rewind_to_before_the_first_swallows_its_cut_and_carries_both_notes() -> None:
    rig = Rig(
        [
            shell(1),
            shell(2),
            commit("rec_000003", "first note"),
            shell(3),
            commit("rec_000001", "second note"),
            say("ok"),
        ]
    )
    for _ in range(4):
        rig.step()
    assert rig.world.files == {"a": "0"}
    assert len(rig.last) == 3
    assert rig.last[-1]["content"].count("first note") == 1
    assert rig.last[-1]["content"].count("second note") == 1


def test_a_rewind_into_an_abandoned_branch_shows_that_branch() -> None:
    rig = Rig(
        [shell(1), shell(2, text="lost"), shell(3), commit("rec_000001", "n1"), commit("rec_000005", "n2"), say("x")]
    )
    for _ in range(4):
        rig.step()
    assert rig.world.files == {"a": "lost"}
    assert "lost" in json.dumps(rig.last)
    assert rig.last[-1]["content"].count("n1") == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"record_uid": "rec_000099", "memory_summary": "m"}, "There is no record rec_000099"),
        ({"record_uid": "rec_000002", "memory_summary": "m"}, "tool call"),
        ({"record_uid": "rec_000001", "memory_summary": "  "}, "memory_summary is empty"),
        ({"record_uid": "rec_000001"}, "needs record_uid and memory_summary"),
        ({"record_uid": "rec_000003", "memory_summary": "m"}, "where you are now"),
    ],
)
def test_a_bad_call_moves_nothing_and_says_what_to_do(arguments, told) -> None:
    turns = [shell(1), lambda _: answer(calls=[("k", "backtrack_commit", arguments)]), say("done")]
    rig = Rig(turns)
    rig.step()
    assert rig.step()["content"] == "done"
    assert rig.world.files == {"a": "1"}
    assert told in rig.last[-1]["content"]
    assert [event.told for event in rig.events(RewindRejected)] == [rig.last[-1]["content"]]
    assert rig.events(Rewound) == []


def test_a_commit_among_parallel_calls_wins_and_the_record_says_so() -> None:
    also = [("c9", "shell", {"name": "b", "text": "never"})]
    rig = Rig([shell(1), commit("rec_000001", also=also), say("done")])
    rig.step()
    rig.step()
    assert "b" not in rig.world.files
    notes = [node.ended.note for node in rig.session.tree.nodes.values() if node.ended.note]
    assert notes == ["not executed because of backtrack_commit: shell(b)"]


def test_candidates_among_parallel_calls_leave_every_call_answered() -> None:
    both = [("q", "backtrack_candidates", {"reason": "r"}), ("c", "shell", {"name": "b", "text": "x"})]
    rig = Rig([shell(1), lambda _: answer(calls=both), say("done")])
    rig.step()
    rig.step()
    assert "Not executed" in rig.last[-1]["content"]
    assert "b" not in rig.world.files


def test_the_same_target_with_the_same_note_is_refused_once() -> None:
    rig = Rig([shell(1), commit("rec_000001"), shell(2), commit("rec_000001"), commit("rec_000001"), say("done")])
    for _ in range(3):
        rig.step()
    assert len(rig.events(RewindRejected)) == 1
    assert "very same note" in rig.events(RewindRejected)[0].told
    assert len(rig.events(Rewound)) == 2


def test_the_budget_of_rewinds_is_kept() -> None:
    rig = Rig(
        [shell(1), commit("rec_000001", "one"), shell(2), commit("rec_000001", "two"), say("x")],
        budget=Budget(rewinds=1),
    )
    for _ in range(3):
        rig.step()
    assert len(rig.events(Rewound)) == 1
    assert "used up" in rig.events(RewindRejected)[0].told


def test_a_model_that_calls_the_tools_for_ever_is_stopped_and_the_harness_gets_a_valid_answer() -> None:
    rig = Rig([ask] * 4, budget=Budget(internal_calls=3))
    message = rig.step()
    assert not message.get("tool_calls")
    assert "tools" in rig.provider.bodies[-1]
    assert len(rig.provider.bodies[-1]["tools"]) == 1
    assert rig.events(Warned)


def test_a_failed_restore_moves_nothing_and_the_agent_is_told() -> None:
    rig = Rig([shell(1), commit("rec_000001"), say("done")])
    rig.step()
    rig.world.fails_to_restore = {rig.session.tree.node("rec_000001").began.snapshot}
    rig.step()
    assert rig.world.files == {"a": "1"}
    assert "was not made" in rig.last[-1]["content"]
    assert len(rig.events(RewindGivenUp)) == 1
    assert rig.session.tree.intent is None


def test_a_restore_that_breaks_half_way_is_taken_back() -> None:
    rig = Rig([shell(1), commit("rec_000001"), say("done")])
    rig.step()
    rig.world.breaks_restoring = {rig.session.tree.node("rec_000001").began.snapshot}
    rig.step()
    assert rig.world.files == {"a": "1"}
    assert rig.session.tree.intent is None


def test_a_failed_snapshot_is_a_visible_hole_and_no_target() -> None:
    rig = Rig([shell(1), shell(2), commit("rec_000003"), say("done")])
    rig.step()
    rig.world.full = True
    rig.step()
    rig.world.full = False
    rig.step()
    holes = [event for event in rig.events(Snapshotted) if event.snapshot is None]
    assert holes
    assert "No room left" in holes[0].failed
    assert "no snapshot" in rig.events(RewindRejected)[0].told
    assert "rec_000003" not in [node.uid for node in rig.session.tree.checkpoints()]


def test_an_incomplete_snapshot_is_no_target_without_a_word() -> None:
    rig = Rig([shell(1), commit("rec_000001"), say("done")])
    rig.world.incomplete = True
    rig.step()
    rig.step()
    assert "incomplete" in rig.events(RewindRejected)[0].told


def test_a_full_journal_stops_the_run_with_its_own_error() -> None:
    rig = Rig([shell(1)])
    rig.log.full = True
    with pytest.raises(StorageFull):
        rig.step()
    assert isinstance(rig.session.broken, StorageFull)
    with pytest.raises(StorageFull):
        rig.session.tool("shell", {}, lambda: "never")


def test_a_provider_error_goes_to_the_harness_as_it_came_and_the_attempt_is_recorded() -> None:
    rig = Rig([lambda _: WireReply(500, (), b'{"error": "overloaded"}'), shell(1)])
    assert rig.step() == {"error": "overloaded"}
    assert rig.session.tree.node("rec_000001").ended.error.type == "HTTP 500"
    rig.step()
    assert rig.world.files == {"a": "1"}


def test_a_transport_error_travels_through_unchanged() -> None:
    def broken(_):
        raise ConnectionResetError("gone")

    rig = Rig([broken])
    with pytest.raises(ConnectionResetError, match="gone"):
        rig.step()
    assert rig.session.tree.node("rec_000001").ended.error.boundary == "provider"


def test_a_live_call_that_fails_after_a_rewind_is_made_again_from_the_restored_point() -> None:
    rig = Rig([shell(1), shell(2), commit("rec_000003"), lambda _: WireReply(503, (), b"{}"), say("done")])
    rig.step()
    rig.step()
    rig.step()
    assert rig.step()["content"] == "done"
    assert rig.last[-1]["role"] == "system"
    assert len(rig.events(Rewound)) == 1


def test_keeping_the_world_moves_the_context_alone() -> None:
    rig = Rig([shell(1), commit("rec_000001"), say("done")], keep_world=True)
    rig.step()
    rig.step()
    assert rig.world.files == {"a": "1"}
    assert len(rig.last) == 3


def test_without_the_offer_nothing_is_injected() -> None:
    rig = Rig([say("done")], offers_rewind=False)
    rig.step()
    assert [tool["function"]["name"] for tool in rig.provider.bodies[-1]["tools"]] == ["shell"]


def test_a_conversation_without_tools_is_left_alone() -> None:
    rig = Rig([say("a title")])
    rig.session.call(PATH, {"model": "m", "messages": [{"role": "user", "content": "title?"}]}, rig.provider)
    assert "tools" not in rig.provider.bodies[-1]


def test_every_record_can_be_expanded_to_what_was_sent_and_its_input_id_says_so() -> None:
    rig = Rig([shell(1), ask, shell(2), commit("rec_000001"), shell(3), say("done")])
    for _ in range(4):
        rig.step()
    tree = rig.session.tree
    sent = [node for node in tree.nodes.values() if node.is_llm]
    assert len(sent) == len(rig.provider.bodies)
    for node, body in zip(sent, rig.provider.bodies, strict=True):
        messages = [rig.log.get(item) for item in tree.messages(node.uid)]
        assert messages == body["messages"]
        expanded = {
            "model": "m",
            "params": node.began.llm.params,
            "messages": messages,
            "tools": rig.log.get(node.began.llm.tools),
        }
        assert node.began.input_id == digest(expanded)


def test_a_second_conversation_is_its_own_thread_and_ends_with_a_rewind_to_before_it() -> None:
    rig = Rig([shell(1), say("sub done"), commit("rec_000001"), say("main done")])
    rig.step()
    other = {"model": "m", "tools": [SHELL], "messages": [{"role": "user", "content": "sub task"}]}
    rig.session.call(PATH, other, rig.provider)
    rig.step()
    assert rig.events(Rewound)[0].ended_threads == ("t1",)
    later = {
        **other,
        "messages": [
            *other["messages"],
            {"role": "assistant", "content": "sub done"},
            {"role": "user", "content": "more"},
        ],
    }
    reply = rig.session.call(PATH, later, rig.provider)
    assert reply.status == 400
    assert b"ended by a rewind" in reply.body


def test_a_rewind_waits_for_a_tool_that_runs_elsewhere_and_is_refused_when_it_takes_too_long() -> None:
    rig = Rig([shell(1), commit("rec_000001"), say("done")], budget=Budget(batch_wait_s=0.1))
    rig.step()
    started, free = threading.Event(), threading.Event()

    def slow() -> str:
        started.set()
        free.wait(10)
        return "late"

    worker = threading.Thread(target=lambda: rig.session.tool("slow tool", {}, slow))
    worker.start()
    started.wait(10)
    rig.step()
    free.set()
    worker.join()
    assert "slow tool" in rig.events(RewindRejected)[0].told
    assert rig.world.files == {"a": "1"}


def test_a_rewind_goes_through_once_the_other_tool_has_ended() -> None:
    rig = Rig([shell(1), commit("rec_000001"), say("done")], budget=Budget(batch_wait_s=10))
    rig.step()
    started = threading.Event()

    def slow() -> str:
        started.set()
        time.sleep(0.3)
        return "in time"

    worker = threading.Thread(target=lambda: rig.session.tool("slow tool", {}, slow))
    worker.start()
    started.wait(10)
    rig.step()
    worker.join()
    assert len(rig.events(Rewound)) == 1


def test_a_tools_exception_is_recorded_and_raised() -> None:
    rig = Rig([])
    with pytest.raises(ZeroDivisionError):
        rig.session.tool("div", {"by": 0}, lambda: 1 / 0)
    assert rig.session.tree.node("rec_000001").ended.error.type == "ZeroDivisionError"


def test_a_verdict_is_recorded_and_the_strategy_decides() -> None:
    class Always:
        name = "always"
        offers_rewind = True

        def decide(self, tree, verdict):
            return GoOn(f"{len(tree.verdicts)} so far: {verdict.feedback}")

    rig = Rig([shell(1), shell(2)])
    rig.step()
    decision = rig.session.submit(lambda after: Judged(after, False, 1, "item 3", "no", 2, 10), Always())
    assert decision == GoOn("1 so far: no")
    rig.step()
    assert rig.session.tree.progress("rec_000004").satisfied == 2


def test_history_that_the_harness_rewrote_keeps_what_was_cut_out_of_sight() -> None:
    rig = Rig(
        [
            shell(1),
            shell(2, text="lost words"),
            shell(3, text="lost words too"),
            commit("rec_000003"),
            shell(5),
            say("ok"),
        ]
    )
    for _ in range(4):
        rig.step()
    rig.harness.messages[1] = {"role": "user", "content": "do it (summarised)"}
    rig.step()
    text = json.dumps(rig.last)
    assert "lost words" not in text
    assert text.count("it failed; do otherwise") == 1


def test_the_end_is_recorded_once_with_the_last_state() -> None:
    rig = Rig([shell(1)])
    rig.step()
    rig.session.end("accepted", ok=True)
    rig.session.end("accepted", ok=True)
    assert rig.session.tree.ended.ok
    assert rig.session.tree.ended.snapshot == rig.world.at
    assert not rig.session.wants("POST", "h", PATH)


def test_only_what_was_started_after_the_target_is_ended(tmp_path) -> None:
    def start(_):
        children.append(subprocess.Popen(["sleep", "60"]))
        time.sleep(0.05)
        return answer(calls=[("c", "shell", {"name": "a", "text": "same"})])

    children: list[subprocess.Popen] = []
    rig = Rig([start, shell(2, text="same"), start, commit("rec_000005"), say("done")])
    try:
        for _ in range(3):
            rig.step()
        rig.step()
        early, late = children
        assert early.poll() is None
        assert late.wait(5) == -signal.SIGTERM
        assert [text.split()[0] for text in rig.events(Rewound)[0].ended_processes] == [str(late.pid)]
    finally:
        for child in children:
            child.kill()
            child.wait()


def test_a_rewind_that_leaves_a_process_alive_is_refused_with_its_number_and_words() -> None:
    stays = Process(4711, 1, 5, zombie=False, command="postgres -D data")
    rig = Rig([shell(1), shell(2), commit("rec_000001"), say("done")], end_processes=lambda _: ([], [stays]))
    for _ in range(3):
        rig.step()
    assert rig.events(Rewound) == []
    assert len(rig.events(RewindGivenUp)) == 1
    told = rig.last[-1]["content"]
    assert "4711 (postgres -D data)" in told
    assert "not made" in told
    assert rig.world.files["a"] == "2"


def test_a_server_that_was_there_before_may_go_on_making_children(tmp_path) -> None:
    busy = subprocess.Popen(["bash", "-c", "while :; do sleep 0.01; done"], start_new_session=True)
    rig = Rig([shell(1), shell(2), commit("rec_000003"), say("done")])
    try:
        time.sleep(0.05)
        for _ in range(3):
            rig.step()
        assert len(rig.events(Rewound)) == 1
        assert busy.poll() is None
    finally:
        os.killpg(busy.pid, signal.SIGKILL)
        busy.wait()
