"""Records come out in the order in which their frames went in, whichever thread built them."""

from __future__ import annotations

import threading

import pytest

from agentrewind.snapshots.packs import Row
from agentrewind.snapshots.pipeline import FEW, Pipeline

COUNT = FEW + 30


def frame(number: int) -> tuple[list[Row], bytes]:
    return [Row(bytes(32), number, 0)], b"%d" % number


def test_the_order_is_kept_and_many_are_built_elsewhere() -> None:
    threads: set[int] = set()

    def build(_: list[Row], content: bytes) -> bytes:
        threads.add(threading.get_ident())
        return b"built " + content

    pipeline = Pipeline(build)
    for _ in range(2):
        found = [built for number in range(COUNT) for built in pipeline.put(*frame(number))]
        found += pipeline.drain()
        assert [record for _, record in found] == [b"built %d" % number for number in range(COUNT)]
        assert [rows[0].size for rows, _ in found] == list(range(COUNT))
    assert len(threads) > 1
    assert not [thread for thread in threading.enumerate() if thread.name == "agentrewind-pack"]


def test_a_step_needs_no_thread() -> None:
    pipeline = Pipeline(lambda _, content: content)
    for number in range(FEW):
        assert len(list(pipeline.put(*frame(number)))) == 1
    assert not [thread for thread in threading.enumerate() if thread.name == "agentrewind-pack"]
    assert not list(pipeline.drain())


def test_what_goes_wrong_elsewhere_is_told_here_and_the_next_append_is_as_new() -> None:
    def build(_: list[Row], content: bytes) -> bytes:
        if content == b"%d" % (FEW + 2):
            raise MemoryError
        return content

    pipeline = Pipeline(build)
    with pytest.raises(MemoryError):
        [built for number in range(COUNT) for built in pipeline.put(*frame(number))]
    pipeline.drop()
    assert [record for _, record in pipeline.put(*frame(0))] == [b"0"]
    assert not list(pipeline.drain())


def test_what_was_dropped_does_not_come_out_later() -> None:
    pipeline = Pipeline(lambda _, content: content)
    for number in range(FEW + 3):
        list(pipeline.put(*frame(number)))
    pipeline.drop()
    assert not list(pipeline.drain())
