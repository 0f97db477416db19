"""Laws of a journal over any sequence of puts, appends, refusals, reopenings and torn tails."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrewind.core.codec import digest
from agentrewind.core.errors import JournalDamaged
from agentrewind.core.records import NodeEnded, Warned, record_uid
from agentrewind.core.tree import RunTree
from agentrewind.journal import JournalWriter, read_run
from agentrewind.journal import format as fmt
from agentrewind.journal.check import check
from agentrewind.testing.journal import began, header

contents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
steps = st.lists(
    st.tuples(st.just("put"), contents)
    | st.tuples(st.just("turn"), contents)
    | st.tuples(st.just("warn"), st.text(max_size=20))
    | st.tuples(st.just("reopen"), st.none())
    | st.tuples(st.just("tear"), st.tuples(st.sampled_from([fmt.JOURNAL, fmt.CONTENT]), st.binary(max_size=40))),
    max_size=25,
)


class Run:
    """A run, and beside it what it must hold."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.writer = JournalWriter.create(run_dir, header())
        self.events = [header()]
        self.contents = {}
        self.turns = 0

    def append(self, event):
        self.writer.append(event)
        self.events.append(event)

    def put(self, content):
        found = self.writer.put(content)
        self.contents[found] = content
        return found

    def step(self, what, value):
        if what == "put":
            assert self.put(value) == digest(value)
        elif what == "turn":
            self.turns += 1
            self.append(began(self.turns, self.put(value)))
            self.append(NodeEnded(record_uid(self.turns), self.put([value])))
        elif what == "warn":
            self.append(Warned(value))
        else:
            self.writer.close()
            torn = what == "tear" and self.tear(*value)
            self.writer = JournalWriter.open(self.run_dir)
            assert bool(self.writer.warnings) == torn

    def tear(self, name, rest) -> bool:
        """Leave the beginning of a line behind the last whole one."""
        rest = rest.replace(b"\n", b"")
        with (self.run_dir / name).open("ab") as file:
            file.write(rest)
        return bool(rest)

    def holds(self):
        log = read_run(self.run_dir)
        assert list(log.events) == self.events
        assert log.tree == self.writer.tree == RunTree.fold(self.events)
        assert self.writer.events == len(self.events)
        for content, value in self.contents.items():
            assert log.get(content) == self.writer.get(content) == value
        assert check(self.run_dir) == []


@given(steps)
@settings(max_examples=60, deadline=None)
def test_a_run_holds_what_was_put_and_appended_in_order_whatever_came_between(plan):
    with tempfile.TemporaryDirectory() as place:
        run = Run(Path(place) / "run")
        for step in plan:
            run.step(*step)
        run.holds()
        run.writer.close()


@given(st.lists(contents, min_size=1, max_size=4), st.data())
@settings(max_examples=80, deadline=None)
def test_no_change_of_bytes_goes_unseen(values, data):
    """Any stretch of up to four bytes replaced, anywhere: found, or only the end of the last line was lost."""
    with tempfile.TemporaryDirectory() as place:
        run = Run(Path(place) / "run")
        for value in values:
            run.step("turn", value)
        run.writer.close()
        path = run.run_dir / data.draw(st.sampled_from([fmt.JOURNAL, fmt.CONTENT]))
        whole = path.read_bytes()
        at = data.draw(st.integers(0, len(whole) - 1))
        new = data.draw(st.binary(min_size=1, max_size=min(4, len(whole) - at)))
        changed = whole[:at] + new + whole[at + len(new) :]
        path.write_bytes(changed)
        if changed == whole:
            return
        assert check(run.run_dir)
        if changed.endswith(b"\n"):
            with pytest.raises(JournalDamaged, match=r"\.jsonl, byte \d+: "):
                read_run(run.run_dir)
            return
        with contextlib.suppress(JournalDamaged):
            events = list(read_run(run.run_dir).events)
            assert events == run.events[: len(events)]
            assert len(run.events) - len(events) <= 1
