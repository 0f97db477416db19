"""A real model provider on loopback that plays a script instead of a model.

::

    def script(request: Request) -> Step:
        if request.turn == 0:
            return call("bash", {"command": "ls"})
        return say(f"The files are {request.results[-1]}")

    with ScriptedModel(script) as model:
        client = OpenAI(base_url=model.base_url, api_key="any")
        ...
        assert model.last["messages"][-1]["role"] == "tool"

The same script is played to whoever asks in whatever way: OpenAI's Chat Completions (`/v1/chat/completions`) and
Responses (`/v1/responses`, with responses that are kept and gone on from), Anthropic's Messages (`/v1/messages`); plain
and streamed.

A script is a function of the request, which keeps it free of state (`request.turn` counts the assistant's turns in it)
and is called for one request at a time; or a list of steps, played in the order in which requests come. The server
refuses, with status 400, what a strict provider refuses: broken pairs of calls and results, empty messages, tools
declared twice, reasoning without what followed it, thinking that was changed, roles that don't alternate.
"""

from __future__ import annotations

from agentrewind.testing.scripted.api import Said
from agentrewind.testing.scripted.chat import chunks, refusal, response_to
from agentrewind.testing.scripted.request import Request, Script
from agentrewind.testing.scripted.server import ScriptedModel
from agentrewind.testing.scripted.steps import (
    Broken,
    Call,
    Error,
    Hang,
    Step,
    Turn,
    break_off,
    call,
    calls,
    drop,
    fail,
    hang,
    say,
)

__all__ = [
    "Broken",
    "Call",
    "Error",
    "Hang",
    "Request",
    "Said",
    "Script",
    "ScriptedModel",
    "Step",
    "Turn",
    "break_off",
    "call",
    "calls",
    "chunks",
    "drop",
    "fail",
    "hang",
    "refusal",
    "response_to",
    "say",
]
