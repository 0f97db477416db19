import json
import os

import pytest

from agentrewind.core.sizes import size
from agentrewind.ui.text import as_json, duration, listed, one_line, plural, printable, printable_block


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain é 日本", "plain é 日本"),
        ("\x1b[31mred", "\\e[31mred"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\x07\x7f\x9b", "\\x07\\x7f\\x9b"),
        (os.fsdecode(b"caf\xe9"), "caf\\xe9"),
        ("abc\u202edef", "abc\\u202edef"),
        ("\ud800", "\\ud800"),
    ],
)
def test_nothing_printed_controls_a_terminal(raw, shown):
    assert printable(raw) == shown
    printable(raw).encode()


def test_a_block_keeps_its_lines():
    assert printable_block("a\r\n\tb\x1b") == "a\n    b\\e"


def test_names_of_any_bytes_survive_json():
    name = os.fsdecode(b"caf\xe9")
    text = as_json({"path": name})
    assert text.isascii()
    assert os.fsencode(json.loads(text)["path"]) == b"caf\xe9"


def test_words():
    assert one_line("\n  \n first \nsecond") == "first"
    assert plural(1, "file") == "1 file"
    assert plural(1204, "branch", "branches") == "1,204 branches"
    assert [duration(seconds) for seconds in (0.44, 12, 185, 7800)] == ["0.4 s", "12 s", "3 min 5 s", "2 h 10 min"]
    assert [size(count) for count in (812, 4_100_000)] == ["812 B", "4.1 MB"]
    assert listed(["a", "b", "c", "d"], 10) == "a, b, c and 7 more"
    assert listed(["a"], 1) == "a"
