"""What the writer does when the disk, another process or a hostile file is in its way."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from agentrewind.core import crashpoints
from agentrewind.core.errors import Busy, JournalDamaged, JournalError, StorageFull, UnknownRun, UsageError
from agentrewind.core.records import NodeEnded, RunEnded, RunStarted, Warned, record_uid
from agentrewind.core.redact import Redactor
from agentrewind.core.tree import RunTree
from agentrewind.journal import JournalWriter, read_run
from agentrewind.journal import files as files_module
from agentrewind.journal import scan as scan_module
from agentrewind.journal.check import check
from agentrewind.testing.journal import began, header, message


@pytest.fixture
def run_dir(tmp_path):
    return tmp_path / "run"


@pytest.fixture
def writer(run_dir):
    with JournalWriter.create(run_dir, header()) as writer:
        yield writer


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_no_room_is_said_and_the_writer_goes_on(writer, run_dir, monkeypatch, number):
    def full(fd, data):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(files_module.os, "write", full)
        for act in (lambda: writer.append(Warned("x")), lambda: writer.put("x")):
            with pytest.raises(StorageFull, match="earlier lines are whole"):
                act()
    writer.append(Warned(writer.put("y")))
    assert writer.events == len(read_run(run_dir).events) == 2


def test_another_fault_of_the_disk_is_no_want_of_room(writer, monkeypatch):
    def broken(fd, data):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(files_module.os, "write", broken)
    with pytest.raises(JournalError, match=r"journal\.jsonl can't be written: Input/output error"):
        writer.append(Warned("x"))


def test_a_part_that_could_not_be_cut_off_at_once_is_cut_off_by_the_next_append(writer, run_dir, monkeypatch):
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(files_module.os, "write", lambda fd, data: write(fd, data[:10]))
        patch.setattr(files_module.os, "ftruncate", _refuse)
        with pytest.raises(OSError, match="busy"):
            writer.append(Warned("x"))
    assert (run_dir / "journal.jsonl").read_bytes().endswith(b'{"n":1,"ev')
    writer.append(Warned("y"))
    assert read_run(run_dir).tree.warnings == ["y"]


def _refuse(fd, size):
    raise OSError("busy")


def test_an_interrupt_just_after_the_write_leaves_no_event_that_was_not_taken(writer, run_dir, monkeypatch):
    """A Ctrl-C between the write and its return: the caller never heard of it, so the line doesn't stay."""
    write = os.write

    def interrupted(fd, data):
        write(fd, data)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(files_module.os, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            writer.append(began(1))
    writer.append(began(1))
    assert read_run(run_dir).tree == writer.tree
    assert check(run_dir) == []


def test_an_interrupt_after_the_write_leaves_journal_and_tree_in_step(writer, run_dir):
    """A Ctrl-C between the line and the tree: the event stands, and the next append finds it in the tree."""

    def interrupt():
        crashpoints.disarm()
        raise KeyboardInterrupt

    for event, again in ((began(1), began(1)), (NodeEnded(record_uid(1)), NodeEnded(record_uid(1)))):
        crashpoints.arm("journal.event-written", interrupt)
        with pytest.raises(KeyboardInterrupt):
            writer.append(event)
        with pytest.raises(JournalError, match=r"twice|already"):
            writer.append(again)
    writer.append(Warned("interrupted"))
    assert read_run(run_dir).tree == writer.tree
    assert writer.events == 4
    assert check(run_dir) == []


def test_an_interrupt_after_a_content_was_written_gives_no_later_one_its_number(writer, run_dir):
    """A Ctrl-C between the line and what the writer remembers of it: the content is put again, in a line of its own."""

    def interrupt():
        crashpoints.disarm()
        raise KeyboardInterrupt

    crashpoints.arm("journal.content-written", interrupt)
    with pytest.raises(KeyboardInterrupt):
        writer.put(message(1))
    for number in (1, 2, 3):
        writer.append(began(number, writer.put(message(number))))
    log = read_run(run_dir)
    assert log.tree == writer.tree
    assert [log.get(content) for content in log.tree.messages(record_uid(3))] == [message(n) for n in (1, 2, 3)]
    assert len((run_dir / "content.jsonl").read_bytes().splitlines()) == 4
    assert check(run_dir) == []
    writer.close()
    with JournalWriter.open(run_dir) as again:
        assert again.tree == log.tree
        again.append(NodeEnded(record_uid(3), again.put("new")))
    assert read_run(run_dir).get(again.tree.nodes[record_uid(3)].ended.output) == "new"


def test_a_content_put_while_the_files_are_read_is_no_damage(writer, run_dir, monkeypatch):
    """A reader reads the journal, then the contents, while a writer goes on in between."""
    scan_contents = scan_module._scan_contents

    def meanwhile(path, found):
        writer.append(began(1, writer.put(message(1))))
        scan_contents(path, found)

    monkeypatch.setattr(scan_module, "_scan_contents", meanwhile)
    assert len(read_run(run_dir).events) == 1
    monkeypatch.undo()
    assert len(read_run(run_dir).events) == 2


def test_an_event_on_disk_names_contents_by_the_number_of_their_line(writer, run_dir):
    tools, first = writer.put([{"name": "bash"}]), writer.put(message(1))
    node = began(1, first)
    writer.append(replace(node, llm=replace(node.llm, tools=tools)))
    writer.append(NodeEnded(record_uid(1), writer.put("answer")))
    lines = [json.loads(line) for line in (run_dir / "journal.jsonl").read_text().splitlines()]
    contents = [json.loads(line) for line in (run_dir / "content.jsonl").read_text().splitlines()]
    assert lines[1]["llm"] == {"model": "model", "messages": {"added": [1]}, "tools": 0}
    assert lines[2]["output"] == 2
    assert [(line["n"], line["content"]) for line in contents] == [
        (0, [{"name": "bash"}]), (1, message(1)), (2, "answer"),
    ]  # fmt: skip


def test_a_file_that_shrinks_under_the_writer_is_damage(writer, run_dir):
    os.truncate(run_dir / "journal.jsonl", 10)
    with pytest.raises(JournalDamaged, match=r"journal\.jsonl, byte 10"):
        writer.append(Warned("x"))


def test_contents_are_synced_before_the_lines_that_name_them(writer, run_dir, monkeypatch):
    synced = []
    monkeypatch.setattr(files_module.os, "fdatasync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    writer.append(began(1, writer.put(message(1))))
    assert synced == []
    writer.sync()
    assert [os.path.basename(path) for path in synced] == ["content.jsonl", "journal.jsonl"]
    writer.sync()
    assert len(synced) == 2


def test_in_power_mode_every_append_is_synced_when_it_returns(run_dir, monkeypatch):
    synced = []
    with JournalWriter.create(run_dir, header(), durability="power") as writer:
        monkeypatch.setattr(files_module.os, "fdatasync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
        writer.append(began(1, writer.put(message(1))))
        assert [os.path.basename(path) for path in synced] == ["content.jsonl", "journal.jsonl"]
        writer.append(Warned("x"))
        assert [os.path.basename(path) for path in synced[2:]] == ["journal.jsonl"]


def test_a_failed_sync_is_an_error(writer, monkeypatch):
    def broken(fd):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(files_module.os, "fdatasync", broken)
    writer.append(Warned("x"))
    with pytest.raises(JournalError, match="Input/output"):
        writer.sync()


def test_a_closed_writer_refuses_and_can_be_closed_again(run_dir):
    writer = JournalWriter.create(run_dir, header())
    writer.close()
    writer.close()
    for act in (lambda: writer.append(Warned("x")), lambda: writer.put(1), writer.sync, lambda: writer.get("sha256:")):
        with pytest.raises(UsageError, match="closed"):
            act()


def test_an_unknown_content_is_an_error_in_writer_and_reader(writer, run_dir):
    for source in (writer, read_run(run_dir)):
        with pytest.raises(JournalError, match="sha256:none"):
            source.get("sha256:none")


def test_a_content_that_changes_on_disk_is_noticed_when_it_is_read(writer, run_dir):
    content = writer.put("a content to be damaged")
    log = read_run(run_dir)
    path = run_dir / "content.jsonl"
    path.write_bytes(path.read_bytes().replace(b"damaged", b"DAMAGED"))
    for source in (writer, log):
        with pytest.raises(JournalDamaged, match=r"content\.jsonl, byte"):
            source.get(content)


def test_what_json_cannot_hold_is_refused_as_an_event(writer, run_dir):
    before = (run_dir / "journal.jsonl").read_bytes()
    deep = []
    for _ in range(5000):
        deep = [deep]
    for settings in ({"x": float("nan")}, {"x": b""}, {"x": deep}, {"x": 10**5000}):
        with pytest.raises(UsageError, match="recorded"):
            JournalWriter.create(run_dir.parent / "other", RunStarted("r", "/w", 1, "0", settings=settings))
    assert not (run_dir.parent / "other").exists()
    assert (run_dir / "journal.jsonl").read_bytes() == before


def test_an_entry_that_no_reader_would_take_is_not_written(writer, run_dir, monkeypatch):
    monkeypatch.setattr("agentrewind.journal.format.MAX_LINE", 1000)
    for act in (lambda: writer.put("x" * 1000), lambda: writer.append(Warned("x" * 1000))):
        with pytest.raises(UsageError, match="too long"):
            act()
    assert read_run(run_dir).tree.warnings == []


def test_secrets_reach_neither_file_nor_tree(run_dir):
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    started = RunStarted("r", "/w", 1, "0", task=f"use {token}", settings={"api_key": "k-12345678"})
    with JournalWriter.create(run_dir, started, redact=Redactor(["blue giraffe"])) as writer:
        writer.append(Warned(f"{token} blue giraffe"))
        assert writer.tree.started.settings == {"api_key": "[redacted api-key]"}
        assert writer.tree == RunTree.fold(read_run(run_dir).events)
    kept = b"".join(path.read_bytes() for path in run_dir.iterdir())
    assert not any(secret in kept for secret in (token.encode(), b"k-12345678", b"blue giraffe"))


def test_ids_are_never_redacted(run_dir):
    with JournalWriter.create(run_dir, header(), redact=lambda value: "gone" if isinstance(value, str) else value) as w:
        w.append(began(1))
        assert list(w.tree.nodes) == ["rec_000001"]
        assert w.tree.nodes["rec_000001"].began.branch == "b0"
        assert w.tree.started.run_id == "gone"


# --- directories ---


def test_a_run_that_never_began_can_be_begun(run_dir):
    run_dir.mkdir()
    (run_dir / "journal.jsonl.new").write_bytes(b'{"n":0,"ev')
    (run_dir / "content.jsonl").write_bytes(b"")
    with pytest.raises(UnknownRun, match="no run"):
        read_run(run_dir)
    JournalWriter.create(run_dir, header()).close()
    assert read_run(run_dir).events == (header(),)


def test_a_torn_header_is_damage(run_dir):
    JournalWriter.create(run_dir, header()).close()
    os.truncate(run_dir / "journal.jsonl", 20)
    with pytest.raises(JournalDamaged, match="the run never began"):
        JournalWriter.open(run_dir)
    assert [problem.what for problem in check(run_dir)][-1:] == ["the header of the run is missing"]


def test_a_directory_that_can_not_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(UsageError, match="can't be kept"):
            JournalWriter.create(place, header())


def test_no_room_for_the_header_leaves_no_run(run_dir, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(files_module.os, "write", lambda fd, data: len(data) // 2)
        with pytest.raises(StorageFull):
            JournalWriter.create(run_dir, header())
    with pytest.raises(UnknownRun):
        read_run(run_dir)
    JournalWriter.create(run_dir, header()).close()


@pytest.mark.parametrize("name", ["journal.jsonl", "content.jsonl"])
@pytest.mark.parametrize("kind", ["link", "pipe", "directory"])
def test_a_file_that_is_none_is_not_read_and_not_waited_for(run_dir, tmp_path, name, kind):
    JournalWriter.create(run_dir, header()).close()
    path = run_dir / name
    path.rename(tmp_path / "elsewhere")
    if kind == "link":
        path.symlink_to(tmp_path / "elsewhere")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    for act in (JournalWriter.open, read_run):
        with pytest.raises(JournalDamaged, match=f"{name}, byte 0: it is not a regular file"):
            act(run_dir)


def test_a_lease_that_is_a_link_is_refused_and_its_target_untouched(run_dir, tmp_path):
    JournalWriter.create(run_dir, header()).close()
    (tmp_path / "precious").write_text("mine")
    (run_dir / "lease").unlink()
    (run_dir / "lease").symlink_to(tmp_path / "precious")
    with pytest.raises(JournalError, match="lease"):
        JournalWriter.open(run_dir)
    assert (tmp_path / "precious").read_text() == "mine"
    assert not read_run(run_dir).alive


# --- the lease ---


def test_the_lease_says_who_holds_it(writer, run_dir):
    assert json.loads((run_dir / "lease").read_text())["pid"] == os.getpid()
    with pytest.raises(Busy, match=rf"process {os.getpid()} \(since 20\d\d-"):
        JournalWriter.open(run_dir)


@pytest.mark.parametrize("said", [b"", b"[]", b"{}", b'{"pid":"x","since":1}', b"\xff", b"[" * 4000])
def test_a_lease_that_says_nothing_still_keeps_a_second_writer_out(writer, run_dir, said):
    (run_dir / "lease").write_bytes(said)
    with pytest.raises(Busy, match="another process"):
        JournalWriter.open(run_dir)


def test_a_holder_that_is_dead_but_left_a_child_is_named_as_such(writer, run_dir):
    child = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    (run_dir / "lease").write_text(json.dumps({"pid": int(child.stdout), "since": "then"}))
    with pytest.raises(Busy, match="left behind"):
        JournalWriter.open(run_dir)


def test_a_program_that_the_run_starts_does_not_keep_the_lease(run_dir):
    writer = JournalWriter.create(run_dir, header())
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], close_fds=False)
    try:
        writer.close()
        JournalWriter.open(run_dir).close()
        assert child.poll() is None
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()


def test_a_run_is_alive_while_it_is_written(run_dir):
    with JournalWriter.create(run_dir, header()) as writer:
        assert read_run(run_dir).alive
        writer.append(RunEnded(5, ok=True, reason="done"))
    assert not read_run(run_dir).alive


def test_an_unfinished_line_of_a_live_run_is_no_warning(writer, run_dir):
    with (run_dir / "journal.jsonl").open("ab") as file:
        file.write(b'{"n":1,"ev')
    assert read_run(run_dir).warnings == ()
    assert check(run_dir) == []
    writer.close()
    assert len(read_run(run_dir).warnings) == 1
    assert len(check(run_dir)) == 1
