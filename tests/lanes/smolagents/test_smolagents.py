"""The adapters of the real smolagents keep the contract of rewinds; what CodeAgent adds to it."""

from __future__ import annotations

from agentrewind.testing.harnesses import RewindContract
from agentrewind.testing.scripted import Call, Turn
from tests.lanes import needs

pytestmark = needs("smolagents", "smolagents")

SYNCHRONOUS = {"async": "smolagents is synchronous"}


class TestToolCallingAgent(RewindContract):
    agent = "smolagents-tools"
    place = "agentrewind.integrations.harnesses.smol:ToolCallingAgent"
    not_applicable = SYNCHRONOUS

    def submission(self, answer):
        return Turn("", (Call("final_answer", {"answer": answer}),))


def code(text, *lines):
    return Turn("\n".join((text, "<code>", *lines, "</code>")))


def written(call):
    return f"print({call.name}({', '.join(f'{name}={value!r}' for name, value in call.arguments.items())}))"


class TestCodeAgent(RewindContract):
    agent = "smolagents"
    place = "agentrewind.integrations.harnesses.smol:CodeAgent"
    not_applicable = SYNCHRONOUS

    def said(self, text, calls):
        return code(text, *map(written, calls))

    def caught(self, uid, note, after):
        back = written(Call("backtrack_commit", {"record_uid": uid, "memory_summary": note}))
        late = written(Call("shell", {"command": after}))
        return code("Whatever it takes.", "try:", f"    {back}", "except:", f"    {late}", "finally:", f"    {late}")

    def submission(self, answer):
        return code("That is it.", f"final_answer({answer!r})")
