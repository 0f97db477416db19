"""The adapter of LangChain keeps the contracts of harnesses and of rewinds."""

from __future__ import annotations

import pytest

from agentrewind.integrations.harnesses.contract import Job
from agentrewind.integrations.harnesses.lang import LangChainAgent
from agentrewind.testing.harnesses import HarnessContract, RewindContract
from agentrewind.testing.scripted import say
from tests.lanes import needs

pytestmark = needs("langchain", "langchain")


class TestAlone(HarnessContract):
    def harness(self):
        return LangChainAgent()

    def job(self, **fields):
        return Job(**fields)

    def submission(self, answer):
        return say(answer)

    # Not '"ls"': LangChain itself raises on an answer with a text in the place of arguments.
    @pytest.mark.parametrize("arguments", ["[]", "null", "{}", '{"command": ""}', ""])
    def test_arguments_of_the_wrong_kind_do_not_end_the_run(self, tmp_path, arguments):
        super().test_arguments_of_the_wrong_kind_do_not_end_the_run(tmp_path, arguments)


class TestRewinds(RewindContract):
    agent = "langchain"
    place = "agentrewind.integrations.harnesses.lang:LangChainAgent"


class TestRewindsByResponses(TestRewinds):
    """With the provider's Responses API."""

    options = {"api": "responses"}  # noqa: RUF012
