from __future__ import annotations

import pytest

from agentrewind.core.errors import RewindRefused, StoreError, UnknownRecord, UsageError
from agentrewind.core.records import FilesRestored, RewindGivenUp, RewindIntended, Rewound
from agentrewind.engine.offline import restore_files, resume, resume_point, rewind, settle, undo
from tests.unit.engine.test_session import Rig, commit, say, shell


def three_steps() -> Rig:
    rig = Rig([shell(1), shell(2), shell(3), say("done")])
    for _ in range(3):
        rig.step()
    rig.session._checkpointer.save()
    return rig


def intended(rig: Rig, target: str = "rec_000003") -> RewindIntended:
    snapshot = rig.session.tree.node(target).began.snapshot
    live = rig.world.snapshot().id
    intent = RewindIntended(rig.log.tree.head, target, snapshot, live, "the note", "b1", "main")
    rig.log.append(intent)
    return intent


def test_settling_finishes_a_rewind_that_was_cut_off() -> None:
    rig = three_steps()
    intended(rig)
    said = settle(rig.log, rig.world)
    assert rig.world.files == {"a": "1"}
    assert rig.log.tree.intent is None
    assert rig.log.tree.branch == "b1"
    assert "Finished the rewind to rec_000003" in said[0]


def test_settling_saves_what_somebody_wrote_after_the_crash() -> None:
    rig = three_steps()
    intended(rig)
    rig.world.files["mine"] = "precious"
    said = settle(rig.log, rig.world)
    assert rig.world.files == {"a": "1"}
    assert any(files.get("mine") == "precious" for files in rig.world.saved.values())
    assert "is saved as snapshot" in said[1]


def test_settling_gives_up_where_the_target_is_damaged_and_brings_the_present_back() -> None:
    rig = three_steps()
    intent = intended(rig)
    rig.world.fails_to_restore = {intent.snapshot}
    rig.world.files["half"] = "written"
    settle(rig.log, rig.world)
    assert rig.world.files == {"a": "3"}
    assert isinstance(rig.log.events[-1], RewindGivenUp)


def test_settling_says_so_where_neither_state_can_be_had() -> None:
    rig = three_steps()
    intent = intended(rig)
    rig.world.fails_to_restore = {intent.snapshot, intent.live}
    with pytest.raises(StoreError, match="name the two states"):
        settle(rig.log, rig.world)
    assert rig.log.tree.intent is not None


def test_nothing_to_settle_touches_nothing() -> None:
    rig = three_steps()
    events = len(rig.log.events)
    assert settle(rig.log, rig.world) == []
    assert len(rig.log.events) == events


def test_a_person_rewinds_and_the_run_resumes_from_there_with_the_note() -> None:
    rig = three_steps()
    rewound = rewind(rig.log, rig.world, "rec_000003", "try the other way")
    assert rewound.by == "person"
    assert rig.world.files == {"a": "1"}
    point = resume_point(rig.log)
    assert point.at == "rec_000003"
    assert "try the other way" in point.seed[-1]["content"]
    assert len(point.seed) == len(rig.log.tree.messages("rec_000003")) + 1


def test_a_note_that_nobody_has_answered_yet_outlives_any_number_of_crashes() -> None:
    rig = three_steps()
    rewind(rig.log, rig.world, "rec_000003", "try the other way")
    for _ in range(3):
        point, _ = resume(rig.log, rig.world)
        assert point.at == "rec_000003"
        assert point.seed[-1]["content"].count("try the other way") == 1


def test_a_rewind_to_a_tool_call_is_refused_and_to_an_unknown_record_too() -> None:
    rig = three_steps()
    with pytest.raises(RewindRefused, match="tool call"):
        rewind(rig.log, rig.world, "rec_000002", "n")
    with pytest.raises(UnknownRecord):
        rewind(rig.log, rig.world, "rec_000077", "n")
    assert rig.world.files == {"a": "3"}


def test_undo_takes_a_rewind_back_and_undo_again_redoes_it() -> None:
    rig = Rig([shell(1), shell(2), commit("rec_000003"), say("done")])
    for _ in range(3):
        rig.step()
    assert rig.world.files == {"a": "1"}
    event = undo(rig.log, rig.world)
    assert isinstance(event, Rewound)
    assert rig.world.files == {"a": "2"}
    assert rig.log.tree.head == "rec_000005"
    undo(rig.log, rig.world)
    assert rig.world.files == {"a": "1"}


def test_undo_of_a_restore_brings_the_files_back() -> None:
    rig = three_steps()
    report = restore_files(rig.log, rig.world, "rec_000003")
    assert rig.world.files == {"a": "1"}
    assert report.live
    assert isinstance(undo(rig.log, rig.world), FilesRestored)
    assert rig.world.files == {"a": "3"}


def test_a_dry_run_touches_neither_files_nor_journal() -> None:
    rig = three_steps()
    events = len(rig.log.events)
    report = restore_files(rig.log, rig.world, "rec_000001", dry_run=True)
    assert [act.path for act in report.acts] == ["a"]
    assert rig.world.files == {"a": "3"}
    assert len(rig.log.events) == events


def test_undo_with_nothing_to_undo_says_so() -> None:
    rig = three_steps()
    with pytest.raises(UsageError, match="nothing to undo"):
        undo(rig.log, rig.world)


def test_resume_goes_to_the_last_checkpoint_saves_the_present_and_serves_the_answer_again() -> None:
    rig = three_steps()
    rig.world.files["half"] = "of a tool call"
    point, said = resume(rig.log, rig.world)
    assert point.at == "rec_000005"
    assert point.serves
    assert rig.world.files == {"a": "2"}
    assert any(files.get("half") for files in rig.world.saved.values())
    assert said
    undo(rig.log, rig.world)
    assert rig.world.files["half"] == "of a tool call"
