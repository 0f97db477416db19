"""The adapters of the real smolagents keep the contract of rewinds; what CodeAgent adds to it."""

from __future__ import annotations

from agentrewind.integrations.harnesses.contract import Job
from agentrewind.integrations.harnesses.smol import CodeAgent, ToolCallingAgent
from agentrewind.testing.harnesses import HarnessContract, RewindContract
from agentrewind.testing.scripted import Call, Turn
from tests.lanes import needs

pytestmark = needs("smolagents", "smolagents")

SYNCHRONOUS = {"async": "smolagents is synchronous"}


ALONE = {
    "record_call_and_result_have_one_id": "smolagents says calls and their results in words, without ids",
    "a_seed_is_gone_on_with_as_it_is": "smolagents says the calls and results of a seed in words of its own",
    "an_error_of_the_recorder_travels_through": (
        "smolagents makes texts of errors in tools; a run that can't be recorded ends at its next call of the model"
    ),
}


class Alone(HarnessContract):
    def job(self, **fields):
        return Job(**fields)


class TestToolCallingAgentAlone(Alone):
    not_applicable = ALONE

    def harness(self):
        return ToolCallingAgent()

    def submission(self, answer):
        return Turn("", (Call("final_answer", {"answer": answer}),))


class TestCodeAgentAlone(Alone):
    not_applicable = {  # noqa: RUF012
        **ALONE,
        "arguments_of_the_wrong_kind_do_not_end_the_run": "its calls are Python: there are no arguments in JSON",
    }

    def harness(self):
        return CodeAgent()

    def said(self, text, calls):
        return code(text, *map(written, calls))

    def unreadable(self):
        return code("", "shell(command='touch a")

    def submission(self, answer):
        return code("That is it.", f"final_answer({answer!r})")


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
