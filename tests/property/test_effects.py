"""Whatever a model sends as a command: it is classified, in words that fit on a line, and nothing is run."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentrewind.core.effects import overall
from agentrewind.effects.classify import Classifier

PIECES = st.sampled_from(
    ["git push", "echo", "rm -rf", "$(", ")", "`", '"', "'", "|", "&&", ";", "<<EOF\n", "EOF\n", "{", "}", "if", "then",
     "fi", "for x in", "do", "done", "case", "esac", "eval", "bash -c", "xargs", "find . -exec", "\\;", "sudo", "$x",
     "${x:-", "x=", ">", "2>&1", "/etc", "~", "-", "--", "python -c", "import os", "\n", " ", "make", "cd", "..", "\0"]
)  # fmt: skip
TEXTS = st.one_of(st.text(max_size=300), st.lists(PIECES, max_size=40).map(" ".join), st.lists(PIECES).map("".join))
KEYS = ("command", "path", "code", "x")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=30),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["command", "path", "code", "x"]), inner)
    ),
)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory) -> Classifier:
    root: Path = tmp_path_factory.mktemp("workspace")
    (root / "Makefile").write_text("all:\n\tgit push\n")
    return Classifier.of(root, home="/home/dev")


def is_sound(effects) -> bool:
    return bool(effects) and all(effect.what.isprintable() and len(effect.what) < 300 for effect in effects)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=TEXTS)
def test_any_text_has_a_class(classifier, text):
    assert is_sound(classifier.command(text))


@settings(max_examples=80, deadline=None)
@given(name=st.sampled_from(["bash", "python", "Write", "apply_patch", "WebFetch", "x"]) | st.text(), value=VALUES)
def test_any_call_has_a_class(classifier, name, value):
    assert is_sound(classifier.call(name, value))


@settings(max_examples=80, deadline=None)
@given(text=TEXTS)
def test_what_stands_before_it_never_hides_a_push(classifier, text):
    """An unreadable text may leave the push unseen, but then it says that it couldn't be read."""
    effects = classifier.command(f"{text}\ngit push origin main")
    assert overall(effects) == "external" or any(effect.kind == "unknown" for effect in effects) or speaks_only(text)


def speaks_only(text: str) -> bool:
    """Whether `text` ends inside of a comment, a quote or a here-document, or defines what comes after it."""
    return any(sign in text for sign in ("<<", "'", '"', "#", "\\", "exit", "{", "(", "case", "for", "alias", "`"))
