"""The adapter of the OpenAI Agents SDK keeps the contracts of harnesses and of rewinds."""

from __future__ import annotations

from agentrewind.integrations.harnesses.agents_sdk import OpenAIAgent
from agentrewind.integrations.harnesses.contract import Job
from agentrewind.testing.harnesses import HarnessContract, RewindContract
from agentrewind.testing.scripted import say
from tests.lanes import needs

pytestmark = needs("agents", "openai-agents")


class TestAlone(HarnessContract):
    def harness(self):
        return OpenAIAgent()

    def job(self, **fields):
        return Job(**fields)

    def submission(self, answer):
        return say(answer)


class TestRewinds(RewindContract):
    agent = "openai-agents"
    place = "agentrewind.integrations.harnesses.agents_sdk:OpenAIAgent"
    asynchronous = {}  # noqa: RUF012 (it always is)


class TestRewindsByResponses(TestRewinds):
    """With the provider's Responses API."""

    options = {"api": "responses"}  # noqa: RUF012
