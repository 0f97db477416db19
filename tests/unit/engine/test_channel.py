"""Messages, bytes and sockets between two processes."""

from __future__ import annotations

import os
import struct
import threading

import pytest

from agentrewind.engine.channel import Gone, Line, pair


def both():
    ours, theirs = pair()
    return ours, Line(theirs)


def test_objects_and_bytes_arrive_as_they_were():
    left, right = both()
    with left, right:
        value = {"text": "é \ud83d lone, \x00", "list": [1, 2.5, None, True]}
        data = os.urandom(3 << 20)
        sender = threading.Thread(target=left.send, args=(value, data))
        sender.start()
        assert right.receive() == (value, data)
        sender.join()
        right.send("back")
        assert left.receive() == ("back", b"")


def test_a_side_that_is_closed_is_gone_for_the_other():
    left, right = both()
    left.close()
    with right:
        with pytest.raises(Gone):
            right.receive()
        with pytest.raises(Gone):
            right.take_over()


def test_half_a_message_is_none():
    ours, theirs = pair()
    theirs.sendall(struct.pack("!QQ", 100, 0) + b"half")
    theirs.close()
    with ours, pytest.raises(Gone):
        ours.receive()


def test_an_impossible_length_is_refused_before_it_is_read():
    ours, theirs = pair()
    theirs.sendall(struct.pack("!QQ", 1 << 60, 0))
    with ours, theirs, pytest.raises(Gone, match="impossible"):
        ours.receive()


def test_each_dialled_line_is_a_connection_of_its_own():
    left, right = both()
    one, two = left.dial(), left.dial()
    first, second = Line(right.take_over()), Line(right.take_over())
    with left, right, one, two, first, second:
        two.send("two")
        one.send("one")
        assert (first.receive()[0], second.receive()[0]) == ("one", "two")
        assert not os.get_inheritable(first.fileno())


def test_a_line_that_nobody_takes_over_is_gone():
    left, right = both()
    right.close()
    with left, pytest.raises(Gone):
        left.dial()


def test_something_that_is_no_line_is_not_taken_over():
    ours, theirs = pair()
    theirs.send(b"+")
    with ours, theirs, pytest.raises(Gone):
        ours.take_over()
