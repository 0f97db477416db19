"""The adapter of PydanticAI keeps the contracts of harnesses and of rewinds."""

from __future__ import annotations

from agentrewind.integrations.harnesses.contract import Job
from agentrewind.integrations.harnesses.pydai import PydanticAgent
from agentrewind.testing.harnesses import HarnessContract, RewindContract
from agentrewind.testing.scripted import say
from tests.lanes import needs

pytestmark = needs("pydantic_ai", "pydantic-ai")


class TestAlone(HarnessContract):
    def harness(self):
        return PydanticAgent()

    def job(self, **fields):
        return Job(**fields)

    def submission(self, answer):
        return say(answer)


class TestRewinds(RewindContract):
    agent = "pydantic-ai"
    place = "agentrewind.integrations.harnesses.pydai:PydanticAgent"
    asynchronous = {}  # noqa: RUF012 (it always is)


class TestRewindsByResponses(TestRewinds):
    """With the provider's Responses API."""

    options = {"api": "responses"}  # noqa: RUF012
