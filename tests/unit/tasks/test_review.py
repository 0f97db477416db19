"""What a reader says of a task: read where it is there, refused where it isn't whole."""

from __future__ import annotations

import datetime as dt

import pytest

from agentrewind.core.errors import BadTask
from agentrewind.tasks.review import QUESTIONS, review_of
from tests.unit.tasks.good import changed

ANSWERS = "".join(
    f'[{question}]\nscore = {number}\nsays = """\nIt is\nso."""\n' for number, question in enumerate(QUESTIONS, 1)
)
WHOLE = f'reader = "somebody else"\ndate = 2026-12-01\n{ANSWERS}'


def test_a_review_has_a_score_and_a_reason_for_each_question(tmp_path):
    assert review_of(tmp_path) is None
    (tmp_path / "review.toml").write_text(WHOLE)
    review = review_of(tmp_path)
    assert review is not None
    assert (review.reader, review.date) == ("somebody else", dt.date(2026, 12, 1))
    assert [(question, answer.score) for question, answer in review.answers.items()] == [
        (question, number) for number, question in enumerate(QUESTIONS, 1)
    ]
    assert {answer.says for answer in review.answers.values()} == {"It is so."}
    assert review.doubts == ("practice", "mechanisms")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[practice]", "[practice", "no TOML"),
        ("[practice]", "[practices]", "must have the tables practice, .*practices"),
        ('reader = "somebody else"\n', "", "who read the task"),
        ("date = 2026-12-01", 'date = "2026-12-01"', "on which day"),
        ("score = 4", "score = 6", r"\[fidelity\] needs a score from 1 to 5, and has 6"),
        ("score = 4", "score = true", r"\[fidelity\] needs a score"),
        ("score = 4", "score = 4\nsays = 3\n[more]", "must have the tables"),
        ("[practice]\nscore = 1\n", "practice = 3\n[mechanisms]\n#", "review.toml"),
    ],
)
def test_a_review_that_is_not_whole_is_refused_by_what_it_lacks(old, new, said, tmp_path):
    (tmp_path / "review.toml").write_text(WHOLE)
    changed(tmp_path / "review.toml", old, new)
    with pytest.raises(BadTask, match=said):
        review_of(tmp_path)
