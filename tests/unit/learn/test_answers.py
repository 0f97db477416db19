"""Tolerant of form, strict about meaning."""

import pytest

from agentrewind.learn.answers import Asked, Reflection, Said, decision, reflection
from agentrewind.learn.worlds import _cell, _turn


@pytest.mark.parametrize(
    "text",
    [
        "<action>rewind to C_3</action>",
        "<action>Rewind To 3</action>",
        "<ACTION> rewind to c3 </ACTION>",
        "<action>rewind to C_{3}</action>",
        "<action>rewind to checkpoint 3.</action>",
        "<action>up</action> no: <action>rewind to `C_3`</action>",
        "<action>rewind to C_3",
        "<action>(1,2)<action>rewind to 3</action>",
    ],
)
def test_ways_to_ask_for_a_checkpoint(text: str) -> None:
    assert decision(text) == Asked(3)


@pytest.mark.parametrize(
    "text",
    [
        "<action>rewind</action>",
        "<action>rewind to C_3 and then up</action>",
        "<action>do not rewind to C_3</action>",
        "<action>rewind to C_-1</action>",
        "<action>rewind to three</action>",
    ],
)
def test_what_means_something_else_is_no_way_back(text: str) -> None:
    assert isinstance(decision(text), Said)


def test_only_the_last_tag_counts_and_without_one_there_is_no_decision() -> None:
    assert decision("<action>up</action>, better <action> left </action> I think") == Said("left")
    assert decision("up") is None
    assert decision("") is None
    assert decision("```action\ngo to desk 1\n```") is None
    assert decision("```action\ngo to desk 1\n```", fenced=True) == Said("go to desk 1")


def test_reflections() -> None:
    assert reflection("<remark> a </remark> <target>C_2</target>", keep=9) == Reflection("a", 2)
    assert reflection("<remark>a <remark>b", keep=9) == Reflection("b", None)
    assert reflection("just words", keep=20) == Reflection("just words", None)
    assert reflection("<remark>x</remark><action>rewind to C_4</action>", keep=9).target == 4
    assert reflection("<remark>x</remark><target>somewhere</target>", keep=9).target is None
    assert reflection("<remark>0123456789</remark>", keep=4) == Reflection("[cut] 6789", None)


def test_cells_and_turns() -> None:
    assert _cell("(2, 3)") == _cell("2,3") == _cell(" ( 2 ; 3 ) ".strip()) == (2, 3)
    assert _cell("2") is None
    assert _cell("(2,3),(4,5)") is None
    assert _turn("Up, right,RIGHT") == _turn("up right right") == ("up", "right", "right")
    assert _turn("up, up, up, up") is None
    assert _turn("north") is None
    assert _turn("") is None
