"""The contract of a journal, to be run on any implementation: subclass `JournalContract` and name its factories."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar, Protocol

import pytest

from agentrewind.core import crashpoints
from agentrewind.core.codec import Json, canonical, digest
from agentrewind.core.errors import Busy, JournalDamaged, JournalError, StorageFull, UnknownRun, UsageError
from agentrewind.core.records import (
    FIRST_BRANCH,
    MAIN_THREAD,
    Event,
    LlmInput,
    MessageId,
    MessageList,
    NodeBegan,
    NodeEnded,
    RunStarted,
    Warned,
    record_uid,
)
from agentrewind.core.tree import RunTree

Redact = Callable[[Json], Json]


class Writer(Protocol):
    """The one writer of a run."""

    tree: RunTree

    @property
    def events(self) -> int: ...

    def append(self, event: Event) -> None: ...

    def put(self, content: Json) -> MessageId: ...

    def get(self, content: MessageId) -> Json: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


class Log(Protocol):
    """A run as a reader sees it."""

    @property
    def events(self) -> tuple[Event, ...]: ...

    @property
    def tree(self) -> RunTree: ...

    @property
    def warnings(self) -> tuple[str, ...]: ...

    @property
    def alive(self) -> bool: ...

    def get(self, content: MessageId) -> Json: ...


def header() -> RunStarted:
    return RunStarted("run-1", "/workspace", 1, "0", task="Mend the tests.")


def began(number: int, *added: MessageId) -> NodeBegan:
    """The llm node `number`, which sends what the one before it sent and `added`."""
    base = record_uid(number - 1) if number > 1 else None
    messages = MessageList(base, number - 1, added)
    return NodeBegan(
        record_uid(number),
        "llm",
        base,
        FIRST_BRANCH,
        MAIN_THREAD,
        digest(number),
        None,
        number,
        LlmInput("model", messages),
    )


def message(number: int) -> Json:
    return {"role": "user", "content": f"message {number} — né à 12 °C\n"}


class JournalContract:
    """What every journal promises. `create`, `open`, `read` and `check` are the factories."""

    journal_file: ClassVar[str] = "journal.jsonl"
    content_file: ClassVar[str] = "content.jsonl"
    crash_points: ClassVar[tuple[str, ...]]
    """All names at which this journal can be killed; each must be reached by `_work`."""

    def create(self, run_dir: Path, started: RunStarted, redact: Redact) -> Writer:
        raise NotImplementedError

    def open(self, run_dir: Path) -> Writer:
        raise NotImplementedError

    def read(self, run_dir: Path) -> Log:
        raise NotImplementedError

    def problems(self, run_dir: Path) -> list[str]:
        """What a check of the run finds, in words with byte offsets."""
        raise NotImplementedError

    @pytest.fixture
    def run_dir(self, tmp_path: Path) -> Path:
        return tmp_path / "runs" / "run-1"

    # --- what was written is there ---

    def test_what_was_appended_and_put_is_read_back(self, run_dir: Path) -> None:
        with self._created(run_dir) as writer:
            tree = writer.tree
            first = self._turn(writer, 1)
            self._turn(writer, 2)
        log = self.read(run_dir)
        assert log.events[0] == header()
        assert len(log.events) == writer.events == 5
        assert log.tree == tree == RunTree.fold(log.events)
        assert log.get(first) == message(1)
        assert not log.warnings
        assert self.problems(run_dir) == []

    def test_files_are_private(self, run_dir: Path) -> None:
        before = os.umask(0)
        try:
            self._finished(run_dir, 1)
        finally:
            os.umask(before)
        assert run_dir.stat().st_mode & 0o777 == 0o700
        assert {path.stat().st_mode & 0o777 for path in run_dir.iterdir()} == {0o600}

    def test_every_line_is_plain_json(self, run_dir: Path) -> None:
        self._finished(run_dir, 2)
        events = [json.loads(line) for line in (run_dir / self.journal_file).read_text().splitlines()]
        assert [event["event"] for event in events] == ["run_started", *["node_began", "node_ended"] * 2]
        assert all(json.loads(line) for line in (run_dir / self.content_file).read_text().splitlines())

    def test_a_content_is_stored_once_under_the_hash_of_its_canonical_form(self, run_dir: Path) -> None:
        with self._created(run_dir) as writer:
            ids = {writer.put({"b": 1, "a": [2]}), writer.put({"a": [2], "b": 1})}
            assert ids == {digest({"a": [2], "b": 1})}
        assert len((run_dir / self.content_file).read_bytes().splitlines()) == 1

    def test_secrets_are_redacted_before_they_are_written_or_hashed(self, run_dir: Path) -> None:
        def hide(value: Json) -> Json:
            return json.loads(json.dumps(value).replace("hunter2", "***"))

        with self._created(run_dir, hide) as writer:
            content = writer.put({"role": "user", "content": "hunter2"})
            writer.append(Warned("hunter2 was shown"))
            assert content == digest({"role": "user", "content": "***"})
            assert writer.tree.warnings == ["*** was shown"]
        assert not [path for path in run_dir.iterdir() if b"hunter2" in path.read_bytes()]

    def test_an_opened_run_goes_on_where_it_stopped(self, run_dir: Path) -> None:
        self._finished(run_dir, 2)
        size = (run_dir / self.content_file).stat().st_size
        with contextlib.closing(self.open(run_dir)) as writer:
            assert writer.events == 5
            assert writer.put(message(1)) == digest(message(1))
            assert (run_dir / self.content_file).stat().st_size == size
            self._turn(writer, 3)
        assert list(self.read(run_dir).tree.nodes) == [record_uid(1), record_uid(2), record_uid(3)]
        assert self.problems(run_dir) == []

    # --- what is refused, and leaves no trace ---

    def test_an_event_that_the_tree_refuses_is_not_written(self, run_dir: Path) -> None:
        with self._created(run_dir) as writer:
            self._turn(writer, 1)
            before = self._bytes(run_dir)
            for event in (began(1), NodeEnded(record_uid(7)), began(3), NodeEnded(record_uid(1))):
                with pytest.raises(JournalError):
                    writer.append(event)
            assert self._bytes(run_dir) == before
            self._turn(writer, 2)
        assert self.problems(run_dir) == []

    def test_an_event_that_names_a_content_that_was_never_put_is_not_written(self, run_dir: Path) -> None:
        with self._created(run_dir) as writer:
            before = self._bytes(run_dir)
            with pytest.raises(JournalError):
                writer.append(began(1, MessageId(digest("never put"))))
            assert self._bytes(run_dir) == before
            assert not writer.tree.nodes

    def test_what_is_not_json_is_refused(self, run_dir: Path) -> None:
        deep: Json = "x"
        for _ in range(100_000):
            deep = [deep]
        with self._created(run_dir) as writer:
            before = self._bytes(run_dir)
            for content in (float("nan"), b"bytes", {1, 2}, deep):
                with pytest.raises(UsageError):
                    writer.put(content)
            assert self._bytes(run_dir) == before

    def test_a_second_run_in_a_directory_is_refused(self, run_dir: Path) -> None:
        self._finished(run_dir, 1)
        before = self._bytes(run_dir)
        with pytest.raises(UsageError):
            self.create(run_dir, header(), _as_is)
        assert self._bytes(run_dir) == before

    def test_an_empty_directory_is_no_run_and_stays_empty(self, run_dir: Path) -> None:
        run_dir.mkdir(parents=True)
        for act in (self.open, self.read):
            with pytest.raises(UnknownRun):
                act(run_dir)
        assert list(run_dir.iterdir()) == []

    # --- one writer, any number of readers ---

    def test_a_second_writer_is_refused_and_told_who_the_first_is(self, run_dir: Path) -> None:
        with self._created(run_dir) as writer:
            with pytest.raises(Busy, match=str(os.getpid())):
                self.open(run_dir)
            self._turn(writer, 1)
        self.open(run_dir).close()

    def test_a_writer_in_another_process_is_refused_and_its_death_frees_the_run(self, run_dir: Path) -> None:
        def hold(say: Callable[[str], None]) -> None:
            self.create(run_dir, header(), _as_is)
            say("held")
            signal.pause()

        with _child(hold) as child:
            assert child.hear() == "held"
            assert self.read(run_dir).alive
            with pytest.raises(Busy, match=str(child.pid)):
                self.open(run_dir)
            child.kill()
        assert not self.read(run_dir).alive
        self.open(run_dir).close()

    def test_a_reader_sees_each_event_as_soon_as_append_returns(self, run_dir: Path) -> None:
        with self._created(run_dir) as writer:
            for number in range(1, 6):
                content = self._turn(writer, number)
                log = self.read(run_dir)
                assert log.tree == writer.tree
                assert log.get(content) == message(number)
                assert log.alive

    def test_a_reader_changes_nothing_and_keeps_no_writer_out(self, run_dir: Path) -> None:
        self._finished(run_dir, 2)
        with (run_dir / self.journal_file).open("ab") as file:
            file.write(b'{"n":5,"eve')
        before = self._bytes(run_dir)
        log = self.read(run_dir)
        assert log.warnings
        assert len(log.events) == 5
        assert self._bytes(run_dir) == before
        self.open(run_dir).close()

    # --- damage ---

    @pytest.mark.parametrize("file", ["journal", "content"])
    def test_a_last_line_torn_at_any_byte_is_dropped_and_nothing_else(self, run_dir: Path, file: str) -> None:
        path = run_dir / (self.journal_file if file == "journal" else self.content_file)
        self._finished(run_dir, 2)
        with contextlib.closing(self.open(run_dir)) as writer:
            if file == "journal":
                writer.append(Warned("the last line — torn"))
            else:
                writer.put("named by nobody yet")
        whole = path.read_bytes()
        begin = whole.rindex(b"\n", 0, -1) + 1
        for cut in range(begin + 1, len(whole)):
            path.write_bytes(whole[:cut])
            log = self.read(run_dir)
            assert (len(log.events), bool(log.warnings)) == (5, True)
            self.open(run_dir).close()
            assert path.read_bytes() == whole[:begin]
            assert self.problems(run_dir) == []

    @pytest.mark.parametrize("file", ["journal", "content"])
    def test_any_byte_changed_is_found_and_the_place_is_named(self, run_dir: Path, file: str) -> None:
        name = self.journal_file if file == "journal" else self.content_file
        self._finished(run_dir, 2)
        path = run_dir / name
        whole = path.read_bytes()
        for at in range(len(whole)):
            changed = bytearray(whole)
            changed[at] ^= 1 << (at % 8)
            path.write_bytes(changed)
            begin = whole.rfind(b"\n", 0, at) + 1
            with pytest.raises(JournalDamaged, match=f"{name}, byte {begin}|{name}, byte {at}"):
                self.open(run_dir)
            with pytest.raises(JournalDamaged):
                self.read(run_dir)
            assert path.read_bytes() == changed
            assert self.problems(run_dir)

    def test_a_line_that_is_gone_or_doubled_is_found(self, run_dir: Path) -> None:
        with self._created(run_dir) as writer:
            for number in range(4):
                writer.append(Warned(f"warning {number}"))
        path = run_dir / self.journal_file
        lines = path.read_bytes().splitlines(keepends=True)
        for broken in (lines[:2] + lines[3:], [*lines[:3], *lines[2:]], [lines[0], lines[2], lines[1], *lines[3:]]):
            path.write_bytes(b"".join(broken))
            with pytest.raises(JournalDamaged):
                self.open(run_dir)
            assert self.problems(run_dir)

    def test_a_content_that_is_gone_doubled_or_moved_is_found(self, run_dir: Path) -> None:
        """Else an event would get a content that isn't the one it named."""
        self._finished(run_dir, 2)
        path = run_dir / self.content_file
        lines = path.read_bytes().splitlines(keepends=True)
        assert len(lines) == 4
        for broken in (lines[1:], lines[:1] + lines[2:], lines[:-1], [lines[0], *lines], lines[::-1]):
            path.write_bytes(b"".join(broken))
            for act in (self.read, self.open):
                with pytest.raises(JournalDamaged):
                    act(run_dir)
            assert self.problems(run_dir)

    def test_a_content_that_is_torn_and_was_named_is_found(self, run_dir: Path) -> None:
        """As a power loss can leave it: the event is whole, the content before it is not."""
        self._finished(run_dir, 2)
        path = run_dir / self.content_file
        whole = path.read_bytes()
        begin = whole.rindex(b"\n", 0, -1) + 1
        lines = (run_dir / self.journal_file).read_bytes().splitlines(keepends=True)
        named_at = sum(map(len, lines[:-1]))
        for cut in range(begin, len(whole)):
            path.write_bytes(whole[:cut])
            for act in (self.read, self.open):
                with pytest.raises(JournalDamaged, match=f"{self.journal_file}, byte {named_at}: "):
                    act(run_dir)
            assert path.read_bytes() == whole[:cut]
            assert self.problems(run_dir)

    def test_a_content_that_is_named_and_gone_is_found(self, run_dir: Path) -> None:
        self._finished(run_dir, 2)
        (run_dir / self.content_file).write_bytes(b"")
        with pytest.raises(JournalDamaged):
            self.open(run_dir)
        assert self.problems(run_dir)

    # --- no room ---

    def test_a_full_disk_leaves_every_line_whole_and_a_later_append_works(self, run_dir: Path) -> None:
        """A limit on the size of files, as the kernel enforces it, cuts the write short in the middle of the line."""

        def fill(say: Callable[[str], None]) -> None:
            with self._created(run_dir) as writer:
                self._turn(writer, 1)
                before = self._bytes(run_dir)
                for room in (0, 1, 20, 60):
                    self._refuse_for_want_of_room(run_dir, writer, room)
                    assert self._bytes(run_dir) == before
                    assert writer.tree == self.read(run_dir).tree
                self._turn(writer, 2)
            say("done")

        with _child(fill) as child:
            assert child.hear() == "done"
        assert len(self.read(run_dir).events) == 5
        assert self.problems(run_dir) == []

    # --- killed ---

    def test_killed_at_every_crash_point_the_run_keeps_all_that_was_acknowledged(self, tmp_path: Path) -> None:
        assert self.crash_points
        for name in self.crash_points:
            run_dir = tmp_path / name / "run"
            said = self._kill_at(name, run_dir)
            if not said:
                self._begin_again(run_dir)
                continue
            log = self.read(run_dir)
            assert len(log.events) - int(said[-1]) in (0, 1), name
            with contextlib.closing(self.open(run_dir)) as writer:
                assert writer.tree == log.tree, name
                writer.append(Warned("gone on"))
            assert self.problems(run_dir) == [], name

    # --- how ---

    def _begin_again(self, run_dir: Path) -> None:
        """Nothing was acknowledged: the run exists with its header, or it can be begun as if nothing had been."""
        try:
            assert self.read(run_dir).events == (header(),)
        except UnknownRun:
            self.create(run_dir, header(), _as_is).close()
        assert self.problems(run_dir) == []

    def _kill_at(self, point: str, run_dir: Path) -> list[str]:
        """What a process that was killed at `point` had acknowledged until then."""

        def work(say: Callable[[str], None]) -> None:
            crashpoints.arm(point, lambda: os.kill(os.getpid(), signal.SIGKILL))
            self._work(run_dir, say)

        with _child(work) as child:
            said = child.hear_all()
            assert child.died_of() == signal.SIGKILL, f"{point} was never reached"
        return said

    def _work(self, run_dir: Path, say: Callable[[str], None]) -> None:
        """Reach every crash point; say how many events are acknowledged after each."""
        with self._created(run_dir) as writer:
            say("1")
            for number in (1, 2):
                writer.append(began(number, writer.put(message(number))))
                say(str(2 * number))
                writer.append(NodeEnded(record_uid(number), writer.put(f"answer {number}")))
                say(str(2 * number + 1))
            writer.sync()
            self._refuse_for_want_of_room(run_dir, writer, 20)
        with (run_dir / self.content_file).open("ab") as file:
            file.write(b'{"n":4,"con')
        self.open(run_dir).close()

    def _refuse_for_want_of_room(self, run_dir: Path, writer: Writer, room: int) -> None:
        size = (run_dir / self.journal_file).stat().st_size
        with _file_size_limit(size + room), pytest.raises(StorageFull):
            writer.append(Warned("x" * 200))

    @contextlib.contextmanager
    def _created(self, run_dir: Path, redact: Redact | None = None) -> Iterator[Writer]:
        with contextlib.closing(self.create(run_dir, header(), redact or _as_is)) as writer:
            yield writer

    def _finished(self, run_dir: Path, turns: int) -> None:
        with self._created(run_dir) as writer:
            for number in range(1, turns + 1):
                self._turn(writer, number)

    def _turn(self, writer: Writer, number: int) -> MessageId:
        content = writer.put(message(number))
        writer.append(began(number, content))
        writer.append(NodeEnded(record_uid(number), writer.put(f"answer {number}")))
        assert canonical(writer.get(content)) == canonical(message(number))
        return content

    def _bytes(self, run_dir: Path) -> dict[str, bytes]:
        names = (self.journal_file, self.content_file)
        return {name: (run_dir / name).read_bytes() for name in names}


def _as_is(value: Json) -> Json:
    return value


@contextlib.contextmanager
def _file_size_limit(size: int) -> Iterator[None]:
    """The kernel's own full disk: writes past `size` are cut short, then fail. Only in a child process."""
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)


class _Child:
    def __init__(self, pid: int, pipe: int) -> None:
        self.pid = pid
        self._lines = os.fdopen(pipe)
        self._status: int | None = None

    def hear(self) -> str:
        return self._lines.readline().strip()

    def hear_all(self) -> list[str]:
        """What it says until it ends."""
        return [line.strip() for line in self._lines if line.endswith("\n")]

    def kill(self) -> None:
        """It is alive, and dies of this."""
        assert os.waitpid(self.pid, os.WNOHANG) == (0, 0), "the child had ended before it was killed"
        os.kill(self.pid, signal.SIGKILL)
        assert self.died_of() == signal.SIGKILL

    def died_of(self) -> int | None:
        """The signal that ended it; None where it ended by itself."""
        if self._status is None:
            self._status = os.waitpid(self.pid, 0)[1]
        return os.WTERMSIG(self._status) if os.WIFSIGNALED(self._status) else None

    def close(self) -> None:
        if self._status is None and os.waitpid(self.pid, os.WNOHANG) == (0, 0):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self._lines.close()


@contextlib.contextmanager
def _child(work: Callable[[Callable[[str], None]], None]) -> Iterator[_Child]:
    """Run `work` in a forked process that can say lines to this one. It never returns into the test."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about forking with threads, from Python 3.12 on
        pid = os.fork()
    if pid == 0:
        _in_child(work, write)
    os.close(write)
    child = _Child(pid, read)
    try:
        yield child
    finally:
        child.close()


def _in_child(work: Callable[[Callable[[str], None]], None], write: int) -> None:
    def say(line: str) -> None:
        os.write(write, line.encode() + b"\n")

    try:
        work(say)
    except BaseException:  # noqa: BLE001  (it must not run on as a second test session)
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
    finally:
        os._exit(1)
