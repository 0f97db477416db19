"""The journal keeps its contract, and the contract catches journals that don't."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentrewind.core import crashpoints
from agentrewind.core.codec import digest
from agentrewind.core.tree import RunTree
from agentrewind.journal import JournalWriter, read_run
from agentrewind.journal import files as files_module
from agentrewind.journal import format as format_module
from agentrewind.journal import lease as lease_module
from agentrewind.journal import scan as scan_module
from agentrewind.journal import writer as writer_module
from agentrewind.journal.check import check
from agentrewind.journal.files import AppendedFile, Line
from agentrewind.testing.journal import JournalContract


class Ours:
    crash_points = tuple(name for name in crashpoints.names() if name.startswith("journal."))

    def create(self, run_dir, started, redact):
        return JournalWriter.create(run_dir, started, redact=redact)

    def open(self, run_dir):
        return JournalWriter.open(run_dir)

    def read(self, run_dir):
        return read_run(run_dir)

    def problems(self, run_dir):
        return [str(problem) for problem in check(run_dir)]


class TestJournal(Ours, JournalContract):
    pass


class Subject(Ours, JournalContract):
    __test__ = False


def test_every_step_between_two_writes_has_a_crash_point():
    assert set(Ours.crash_points) == {
        "journal.header-written",
        "journal.run-created",
        "journal.content-tail-dropped",
        "journal.content-written",
        "journal.event-written",
        "journal.content-synced",
        "journal.line-cut-short",
    }


# --- broken journals, each caught by the check that is meant for it ---------------------------------------------------


def no_checksums(patch):
    patch.setattr(format_module, "is_sealed", lambda line: True)
    patch.setattr(format_module, "check_seal", lambda line: None)


def torn_tail_left_standing(patch):
    patch.setattr(writer_module, "_cut", lambda path, size: None)
    patch.setattr(AppendedFile, "_settle", lambda self: None)


def torn_tail_swallows_the_line_before(patch):
    lines = files_module.lines

    def eager(fd, path):
        found = list(lines(fd, path))
        if found and not found[-1].complete:
            found = [*found[:-2], Line(found[-2].offset, found[-2].data, complete=False)]
        return iter(found)

    patch.setattr("agentrewind.journal.scan.lines", eager)


def no_lease(patch):
    patch.setattr(lease_module, "_lock", lambda fd, path: None)


def reader_repairs(patch):
    def repairing(run_dir: Path):
        log = read_run(run_dir)
        JournalWriter.open(run_dir).close()
        return log

    patch.setattr(Subject, "read", lambda self, run_dir: repairing(run_dir))


def reader_takes_the_lease(patch):
    held = []

    def locking(run_dir: Path):
        held.append(lease_module.Lease.take(run_dir))
        return read_run(run_dir)

    patch.setattr(Subject, "read", lambda self, run_dir: locking(run_dir))


def written_when_closed(patch):
    """Lines wait in memory."""
    append = AppendedFile.append
    close = AppendedFile.close

    def later(self, line):
        self.__dict__.setdefault("waiting", []).append(line)
        self._end = (self._end[0], self._end[1] + 1)
        return self._end[0] + sum(map(len, self.waiting[:-1]))

    def flush(self):
        for line in self.__dict__.get("waiting", []):
            append(self, line)
        close(self)

    patch.setattr(AppendedFile, "append", later)
    patch.setattr(AppendedFile, "close", flush)


def half_a_line_kept(patch):
    def careless(self, line):
        self._end = (self._end[0] + os.write(self._fd, line), self._end[1] + 1)
        return self._end[0] - len(line)

    patch.setattr(AppendedFile, "append", careless)


def tree_before_disk(patch):
    check_event = RunTree.check

    def early(self, event):
        check_event(self, event)
        self.warnings.append("taken")

    patch.setattr(RunTree, "check", early)


def written_before_refused(patch):
    patch.setattr(RunTree, "check", lambda self, event: None)


def hashed_before_redacted(patch):
    put = JournalWriter.put

    def leaky(self, content):
        put(self, content)
        return digest(content)

    patch.setattr(JournalWriter, "put", leaky)


def events_not_redacted(patch):
    patch.setattr(writer_module, "redacted", lambda event, redact: event)


def readable_by_all(patch):
    os_open = os.open
    patch.setattr(os, "open", lambda path, flags, mode=0o777, **kw: os_open(path, flags, mode | 0o044, **kw))


def line_numbers_ignored(patch):
    decoded = scan_module._decoded
    patch.setattr(scan_module, "_decoded", lambda path, line, found: (len(found.events), decoded(path, line, found)[1]))


def unknown_contents_named_by_any_number(patch):
    patch.setattr(writer_module, "_number_of", lambda contents: lambda content: 0)


def contents_never_looked_for(patch):
    patch.setattr(scan_module, "_stored", lambda number, found: found.ids[number] if found.ids[number:] else "lost")


def contents_counted_as_they_come(patch):
    locate = format_module.locate_content
    numbers = itertools.count()

    def renumbering(line):
        return next(numbers), *locate(line)[1:]

    scan_contents = scan_module._scan_contents

    def scan_anew(path, found):
        nonlocal numbers
        numbers = itertools.count()
        scan_contents(path, found)

    patch.setattr(format_module, "locate_content", renumbering)
    patch.setattr(scan_module, "_scan_contents", scan_anew)


def torn_content_left_standing(patch):
    """What is left of the last content is taken for it."""
    scan_contents = scan_module._scan_contents

    def generous(path, found):
        scan_contents(path, found)
        if not path.read_bytes().endswith(b"\n"):
            found.ids.append("half")

    patch.setattr(scan_module, "_scan_contents", generous)


Mutate = Callable[[pytest.MonkeyPatch], None]
MUTANTS: list[tuple[Mutate, str, tuple[str, ...]]] = [
    (no_checksums, "test_any_byte_changed_is_found_and_the_place_is_named", ("content",)),
    (torn_tail_left_standing, "test_a_last_line_torn_at_any_byte_is_dropped_and_nothing_else", ("journal",)),
    (torn_tail_swallows_the_line_before, "test_a_last_line_torn_at_any_byte_is_dropped_and_nothing_else", ("journal",)),
    (no_lease, "test_a_second_writer_is_refused_and_told_who_the_first_is", ()),
    (no_lease, "test_a_writer_in_another_process_is_refused_and_its_death_frees_the_run", ()),
    (reader_repairs, "test_a_reader_changes_nothing_and_keeps_no_writer_out", ()),
    (reader_takes_the_lease, "test_a_reader_changes_nothing_and_keeps_no_writer_out", ()),
    (written_when_closed, "test_killed_at_every_crash_point_the_run_keeps_all_that_was_acknowledged", ()),
    (half_a_line_kept, "test_a_full_disk_leaves_every_line_whole_and_a_later_append_works", ()),
    (tree_before_disk, "test_a_full_disk_leaves_every_line_whole_and_a_later_append_works", ()),
    (written_before_refused, "test_an_event_that_the_tree_refuses_is_not_written", ()),
    (
        unknown_contents_named_by_any_number,
        "test_an_event_that_names_a_content_that_was_never_put_is_not_written",
        (),
    ),
    (hashed_before_redacted, "test_secrets_are_redacted_before_they_are_written_or_hashed", ()),
    (events_not_redacted, "test_secrets_are_redacted_before_they_are_written_or_hashed", ()),
    (readable_by_all, "test_files_are_private", ()),
    (line_numbers_ignored, "test_a_line_that_is_gone_or_doubled_is_found", ()),
    (contents_never_looked_for, "test_a_content_that_is_named_and_gone_is_found", ()),
    (contents_never_looked_for, "test_a_content_that_is_torn_and_was_named_is_found", ()),
    (contents_counted_as_they_come, "test_a_content_that_is_gone_doubled_or_moved_is_found", ()),
    (torn_content_left_standing, "test_a_content_that_is_torn_and_was_named_is_found", ()),
]


@contextmanager
def caught() -> Iterator[None]:
    """The check failed."""
    try:
        yield
    except (AssertionError, pytest.fail.Exception):
        return
    pytest.fail("the broken journal passed")


@pytest.mark.parametrize(
    ("mutate", "check_name", "args"), MUTANTS, ids=[f"{m[0].__name__}-{m[1][5:35]}" for m in MUTANTS]
)
def test_a_broken_journal_is_caught(mutate, check_name, args, tmp_path, monkeypatch):
    in_path = tmp_path if "crash_point" in check_name else tmp_path / "run"
    mutate(monkeypatch)
    with caught():
        getattr(Subject(), check_name)(in_path, *args)


@pytest.mark.parametrize(("check_name", "args"), sorted({(name, args) for _, name, args in MUTANTS}))
def test_the_unbroken_journal_passes_the_same_checks_called_the_same_way(check_name, args, tmp_path):
    getattr(Subject(), check_name)(tmp_path if "crash_point" in check_name else tmp_path / "run", *args)
