"""Adapters by name and by what a program has made."""

from __future__ import annotations

import subprocess
import sys

import pytest

from agentrewind.cli.options import agent_options
from agentrewind.compose import harnesses
from agentrewind.compose.harnesses import KNOWN, attach, checked_options, harness_by_name
from agentrewind.core.errors import UsageError
from agentrewind.integrations.harnesses.builtin import BuiltinAgent


def test_an_adapter_of_somebody_is_named_by_module_and_class() -> None:
    made = harness_by_name("agentrewind.integrations.harnesses.builtin:BuiltinAgent")
    assert isinstance(made, BuiltinAgent)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nobody", "There are: builtin, "),
        ("no.such.module:Class", "There is no adapter at 'no.such.module:Class'"),
        ("json:nothing", "There is no adapter at 'json:nothing'"),
        ("decimal:Decimal", "is no adapter: it has no name, preload, seeds, options, run"),
        (":", "There is no adapter at ':'"),
    ],
)
def test_what_is_no_adapter_is_refused_in_a_sentence(name: str, told: str) -> None:
    with pytest.raises(UsageError, match="adapter") as caught:
        harness_by_name(name)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("mini", "mini-swe-agent"),
        ("Qwen", "qwen-agent"),
        ("smolagent", "smolagents or smolagents-tools"),
        ("langgraph", "langchain"),
        ("pydantic_ai", "pydantic-ai"),
        ("open-ai-agents", "openai-agents"),
    ],
)
def test_a_name_that_comes_near_one_of_ours_is_asked_about(name: str, meant: str) -> None:
    with pytest.raises(UsageError, match=rf"no agent '{name}'\. Did you mean {meant}\? There are: "):
        harness_by_name(name)


def test_a_name_that_comes_near_none_is_not() -> None:
    for name in ("nobody", "", " "):
        with pytest.raises(UsageError, match=rf"no agent '{name}'\. There are: "):
            harness_by_name(name)


def test_a_package_that_is_not_there_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harnesses.importlib.util, "find_spec", lambda _: None)
    for name, known in KNOWN.items():
        if known.package:
            with pytest.raises(UsageError, match=rf"agentrewind\[{known.extra}\]"):
                harness_by_name(name)


def test_every_adapter_is_made_and_names_itself_without_its_package() -> None:
    code = (
        "import sys, importlib\n"
        "from agentrewind.compose.harnesses import KNOWN\n"
        "for name, known in KNOWN.items():\n"
        "    module, _, kind = known.place.partition(':')\n"
        "    made = getattr(importlib.import_module('agentrewind.integrations.harnesses.' + module), kind)()\n"
        "    assert made.name == name and made.preload and made.options, name\n"
        "    assert not known.package or known.package not in sys.modules, name\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_setting_that_the_agent_does_not_know_is_refused_with_those_that_it_does() -> None:
    with pytest.raises(UsageError, match=r"no setting 'max_step'. It has: max_steps"):
        checked_options(BuiltinAgent(), {"max_step": 3})
    checked_options(BuiltinAgent(), {"max_steps": 3})


def test_settings_are_json_where_they_can_be_read_as_such() -> None:
    words = ["max_steps=30", "stream=true", 'request={"max_tokens": 5}', "note=as it is", "url=http://a?b=c"]
    assert agent_options(words) == {
        "max_steps": 30,
        "stream": True,
        "request": {"max_tokens": 5},
        "note": "as it is",
        "url": "http://a?b=c",
    }


@pytest.mark.parametrize("word", ["max_steps", "=3", ""])
def test_a_word_that_sets_nothing_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match="write NAME=VALUE"):
        agent_options([word])


def test_an_agent_of_no_harness_that_we_know_is_refused_and_told_what_to_do() -> None:
    with pytest.raises(UsageError, match=r"no adapter for a object.*agentrewind\.tool"):
        attach(object(), None)  # type: ignore[arg-type]
