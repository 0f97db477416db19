"""A command as the validator: its verdict, its first failure, its progress."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrewind.core.records import record_uid
from agentrewind.tasks.check import (
    EVALUATOR_ERROR,
    FEEDBACK_LIMIT,
    CommandCheck,
    first_failure,
    is_evaluator_error,
    plain,
    progress,
)


@pytest.fixture
def judge(tmp_path):
    def call(command, **given):
        return CommandCheck(command, environ={"PATH": os.environ["PATH"]}, **given).judge(tmp_path, record_uid(7))

    return call


# --- verdicts ---------------------------------------------------------------------------------------------------------


def test_exit_code_zero_accepts(judge):
    verdict = judge("echo fine; echo progress: 3/3")
    assert (verdict.accepted, verdict.exit_code, verdict.after) == (True, 0, record_uid(7))
    assert (verdict.first_failure, verdict.feedback) == ("", "")
    assert (verdict.satisfied, verdict.total) == (3, 3)


def test_any_other_exit_code_rejects_and_the_output_is_the_feedback(judge):
    verdict = judge("echo looking; echo the file a is missing >&2; exit 3")
    assert (verdict.accepted, verdict.exit_code) == (False, 3)
    assert verdict.feedback == "looking\nthe file a is missing"
    assert verdict.first_failure == "the file a is missing"
    assert not is_evaluator_error(verdict)


def test_the_check_runs_in_the_workspace(judge, tmp_path):
    (tmp_path / "a").touch()
    assert judge("test -f a").accepted


def test_of_a_long_output_the_end_is_the_feedback(judge):
    feedback = judge("seq 1 10000; exit 1").feedback
    assert feedback.startswith("[...]\n")
    assert feedback.endswith("\n10000")
    assert FEEDBACK_LIMIT <= len(feedback) <= FEEDBACK_LIMIT + 10


def test_a_check_that_prints_nothing_still_says_something(judge):
    verdict = judge("exit 5")
    assert verdict.feedback == "The check failed with exit code 5 and printed nothing."
    assert verdict.first_failure == ""


@pytest.mark.parametrize("command", ["no-such-program-here", "./not-executable", "echo 'a' | no-such-program-here"])
def test_a_check_that_can_not_be_run_gives_no_verdict_on_the_work(judge, tmp_path, command):
    (tmp_path / "not-executable").touch()
    verdict = judge(command)
    assert not verdict.accepted
    assert is_evaluator_error(verdict)
    assert "could not be run" in verdict.feedback
    assert "says nothing about your work" in verdict.feedback


def test_a_workspace_that_is_gone_gives_no_verdict(tmp_path):
    verdict = CommandCheck("true", environ={}).judge(tmp_path / "gone")
    assert not verdict.accepted
    assert is_evaluator_error(verdict)


def test_a_check_that_takes_too_long_gives_no_verdict_on_the_work(judge):
    verdict = judge("echo begun; sleep 60", timeout_s=0.2)
    assert (verdict.accepted, verdict.exit_code) == (False, 124)
    assert verdict.first_failure == f"{EVALUATOR_ERROR}the check did not end within 0.2 s"
    assert verdict.feedback.endswith("begun")


def test_a_check_that_leaves_a_process_does_not_hang(judge):
    assert judge("sleep 20 & echo $!; kill $! ; true").accepted


def test_colours_and_progress_bars_are_not_in_the_feedback(judge):
    verdict = judge(r"printf '\033[31mFAILED\033[0m t.py::test_a - no\n 10%%\r 50%%\r100%%\n'; exit 1")
    assert verdict.feedback == "FAILED t.py::test_a - no\n100%"
    assert verdict.first_failure == "FAILED t.py::test_a"


# --- the first failure ------------------------------------------------------------------------------------------------

FAILURES = [
    (
        "x = 1\nFAILED tests/t.py::test_a[1-b c] - assert 3 == 4\nFAILED tests/t.py::test_b\n",
        "FAILED tests/t.py::test_a[1-b c]",
    ),
    ("ERROR tests/t.py - ImportError: no\n", "ERROR tests/t.py"),
    ("ERROR tests/t.py\n!!!! Interrupted\n", "ERROR tests/t.py"),
    (
        "FAIL: test_x (mod.Case.test_x)\nTraceback\nValueError: 7\nFAILED (failures=1)\n",
        "FAIL: test_x (mod.Case.test_x)",
    ),
    ("ERROR: test_x (mod.Case)\n", "ERROR: test_x (mod.Case)"),
    ("1..3\nok 1 - a\nnot ok 2 - b # TODO later\nnot ok 3 - c\n", "not ok 3 - c"),
    ("--- FAIL: TestAdd (0.03s)\n    add_test.go:9: no\nFAIL\nFAIL\tm/add\t0.004s\n", "--- FAIL: TestAdd"),
    ("test a::b ... ok\ntest a::c ... FAILED\n\nfailures:\n", "test a::c ... FAILED"),
    ("✓ one\n✗ two is missing\n✗ three\n", "✗ two is missing"),
    ("[x] one\n[ ] two\n[ ] three\n", "[ ] two"),
    ("- [x] one\n- [ ] two\n", "- [ ] two"),
    ("[PASS] one\n[FAIL] two\n", "[FAIL] two"),
    ("PASS one\nFAIL two\nFAIL three\nprogress: 1/3\n", "FAIL two"),
    ("cc -c a.c\na.c:12:5: error: expected ';'\nmake: *** [a.o] Error 1\n", "a.c:<n>: error: expected ';'"),
    ("error[E0308]: mismatched types\n --> src/main.rs:4:5\n", "error[E0308]: mismatched types"),
    ("src/a.ts(3,5): error TS2322: Type no\n", "src/a.ts(3,5): error TS2322: Type no"),
    ("Traceback (most recent call last):\n  File \"a.py\"\nKeyError: 'b'\n\n", "KeyError: 'b'"),
    ("all is lost\n\n  \n", "all is lost"),
    ("", ""),
]


@pytest.mark.parametrize(("output", "item"), FAILURES)
def test_the_first_failing_item_is_found(output, item):
    assert first_failure(output) == item


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("took 0.31s", "took 12.7s"),
        ("timeout after 5 seconds", "timeout after 61 seconds"),
        ("<Thing at 0x7f3a10>", "<Thing at 0x11b2>"),
        ("open /tmp/tmpa1b2/x.txt: no", "open /tmp/tmpzz/q.txt: no"),
        ("2026-01-02T03:04:05.678Z failed", "2026-11-12T13:14:15Z failed"),
        ("[12:30:01] failed", "[02:00:59] failed"),
        ("pid 123 died", "pid 4567 died"),
        ("server[123]: died", "server[99]: died"),
        ("a.c:12:5: error: x", "a.c:14:9: error: x"),
        ('File "a.py", line 3, in f', 'File "a.py", line 30, in f'),
        ("id 6f1c2d3e-0000-4000-8000-00000000000a", "id 6f1c2d3e-1111-4111-8111-11111111111b"),
        ("a   b", "a b"),
        ("FAILED t.py::test_a - assert 1 == 2", "FAILED t.py::test_a - assert 7 == 2"),
    ],
)
def test_what_varies_between_runs_makes_no_difference(one, other):
    assert first_failure(one) == first_failure(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("FAILED t.py::test_a", "FAILED t.py::test_b"),
        ("FAILED t.py::test_a[1]", "FAILED t.py::test_a[2]"),
        ("not ok 3 - c", "not ok 4 - d"),
        ("expected 3, got 4", "expected 3, got 5"),
        ("a.c:1:1: error: x", "b.c:1:1: error: x"),
    ],
)
def test_different_failures_stay_different(one, other):
    assert first_failure(one) != first_failure(other)


@given(st.text(max_size=400))
def test_any_output_can_be_read(output):
    text = plain(output)
    assert first_failure(text) == first_failure(text)
    assert len(first_failure(text)) <= 200
    assert "\x1b[" not in text
    found = progress(text)
    assert found is None or 0 <= found[0] <= found[1]


@pytest.mark.parametrize(
    "unit",
    ["\n", " ", "a", "1", "1 ", "=", "FAILED ", "FAILED a::", "progress ", "progress: ", "1/", "not ok ", "error ",
     "\x1b]", "\x1b[", "1 a, ", "\r", "test ", "::", "[ ] ", "a.py:1:", "(", "Ran 1 test in "],
)  # fmt: skip
@pytest.mark.parametrize("head", ["", "FAILED ", "progress", "FAIL: a ("])
def test_no_output_makes_reading_it_slow(head, unit):
    output = head + unit * (200_000 // len(unit))
    begun = time.process_time()
    text = plain(output)
    first_failure(text)
    progress(text)
    assert time.process_time() - begun < 2


def test_real_runners_are_understood(judge, tmp_path):
    (tmp_path / "test_it.py").write_text(
        textwrap.dedent(
            """
            import unittest
            class Case(unittest.TestCase):
                def test_a(self): pass
                def test_b(self): self.assertEqual(1, 2)
                def test_c(self): self.fail("no")
                @unittest.skip("later")
                def test_d(self): pass
            """
        )
    )
    plain_pytest = f"{sys.executable} -m pytest -p no:cacheprovider --color=yes"
    for command in (f"{plain_pytest} test_it.py", f"{plain_pytest} -q test_it.py", f"{plain_pytest} -v test_it.py"):
        verdict = judge(command)
        assert (verdict.first_failure, verdict.satisfied, verdict.total) == ("FAILED test_it.py::Case::test_b", 1, 3)
    verdict = judge(f"{sys.executable} -m unittest test_it")
    assert verdict.first_failure == "FAIL: test_b (test_it.Case.test_b)"
    assert (verdict.satisfied, verdict.total) == (1, 3)


@pytest.mark.skipif(
    subprocess.run(["sh", "-c", "command -v cc"], capture_output=True, check=False).returncode != 0,
    reason="no C compiler here",
)
def test_a_real_compiler_is_understood(judge, tmp_path):
    (tmp_path / "a.c").write_text("int main() { return x; }\n")
    assert judge("cc a.c").first_failure.startswith("a.c:<n>: error: ")


# --- progress ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "found"),
    [
        ("progress: 5/10", (5, 10)),
        ("Progress 5 / 10", (5, 10)),
        ("satisfied 5/10", (5, 10)),
        ("criteria: 3 of 8", (3, 8)),
        ("5 of 8 criteria passed", (5, 8)),
        ("5/8 satisfied", (5, 8)),
        ("progress: 1/3\nprogress: 2/3", (2, 3)),
        ("==== 3 failed, 5 passed in 0.12s ====", (5, 8)),
        ("3 failed, 5 passed, 2 skipped, 1 warning in 0.12s", (5, 8)),
        ("===== 2 failed, 1 passed, 1 error in 61.20s (0:01:01) =====", (1, 4)),
        ("= 8 passed in 1.0s =", (8, 8)),
        ("1 error in 0.10s", (0, 1)),
        ("Ran 8 tests in 0.001s\n\nFAILED (failures=2, errors=1)", (5, 8)),
        ("Ran 8 tests in 0.001s\n\nOK", (8, 8)),
        ("Ran 8 tests in 0.001s\n\nFAILED (failures=2, skipped=1)", (5, 7)),
        ("test result: FAILED. 3 passed; 1 failed; 0 ignored", (3, 4)),
        ("1..4\nok 1\nnot ok 2\nok 3\nnot ok 4", (2, 4)),
        ("progress: 7/5", None),
        ("progress: 0/0", None),
        ("see src/1/2", None),
        ("on 5/10 we passed the border", None),
        ("", None),
    ],
)
def test_progress_is_read_where_it_is_said(output, found):
    assert progress(output) == found
