"""An adapter for a harness that agentrewind doesn't know: here a small one, which stands in for yours.

    agentrewind run --agent own_adapter:Adapter --model MODEL "Make the failing test pass"

`tests/conformance/test_harness_kit.py` runs the contract of adapters on it.
"""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any, ClassVar

from agentrewind.integrations.harnesses import sdk, shell
from agentrewind.integrations.harnesses.contract import Job, Outcome


class Harness:
    """Somebody's agent: a loop over the OpenAI SDK with tools that are Python functions."""

    def __init__(self, client: Any, model: str, tools: dict[str, Any], messages: list[Any], **request: Any) -> None:
        self.client, self.model, self.tools, self.messages, self.request = client, model, tools, messages, request

    async def run(self, text: str | None) -> str:
        if text is not None:
            self.messages.append({"role": "user", "content": text})
        while True:
            message = await self.ask()
            self.messages.append(message)
            if not message.get("tool_calls"):
                return message["content"]
            for call in message["tool_calls"]:
                arguments = json.loads(call["function"]["arguments"])
                result = await asyncio.to_thread(self.tools[call["function"]["name"]].run, arguments, call["id"])
                self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})

    async def ask(self) -> dict[str, Any]:
        tools = [{"type": "function", "function": tool.declaration} for tool in self.tools.values()]
        fields = {"model": self.model, "messages": self.messages, "tools": tools, **self.request}
        if not fields.get("stream"):
            answer = await self.client.chat.completions.create(**fields)
        else:
            del fields["stream"]
            async with self.client.chat.completions.stream(**fields) as stream:
                answer = await stream.get_final_completion()
        return answer.choices[0].message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"})


class Shell:
    """The shell tool in the form in which this harness wants its tools."""

    declaration: ClassVar = {"name": shell.NAME, "description": shell.DESCRIPTION, "parameters": shell.PARAMETERS}

    def __init__(self, job: Job) -> None:
        self.run = shell.Shell(job).call


@dataclass(frozen=True)
class Adapter:
    """What `agentrewind run --agent own_adapter:Adapter` starts."""

    name: str = field(default="own", init=False)
    preload: ClassVar = ("own_adapter", "openai")  # what a new process of the agent would import anyway
    seeds: ClassVar = True  # it can begin with a conversation that there is already
    options: ClassVar = ("temperature", "request", "stream")  # what --set may give

    def run(self, job: Job) -> Outcome:
        with sdk.told_as_ours("The example", job):
            return asyncio.run(self._run(job))

    async def _run(self, job: Job) -> Outcome:
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        opening = [{"role": "system", "content": shell.instructions(job)}]
        messages = [dict(message) for message in job.seed] or opening
        plain = DefaultAsyncHttpxClient(trust_env=not sdk.is_loopback(job.base_url))
        async with AsyncOpenAI(**sdk.client_options(job), http_client=plain) as client:
            fields = {**sdk.request_fields(job), "stream": job.settings.get("stream", False)}
            agent = Harness(client, job.model, {shell.NAME: Shell(job)}, messages, **fields)
            return await sdk.until_accepted_async(job, agent.run)
