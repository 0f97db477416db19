"""An agent with a shell and the tools of an MCP server, which it starts itself.

    python mcp_agent.py stdio|http

It reads all resources before it ends, and prints them with the last answer as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from contextlib import asynccontextmanager

import httpx
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

try:
    from mcp.client.streamable_http import streamable_http_client
except ImportError:
    from mcp.client.streamable_http import streamablehttp_client as streamable_http_client

SERVER = [sys.executable, "-m", "agentrewind", "mcp"]
SHELL = {
    "type": "function",
    "function": {"name": "shell", "description": "Run a command.", "parameters": {"type": "object"}},
}


@asynccontextmanager
async def connected(transport: str):
    """The two streams to a server of our own."""
    if transport == "stdio":
        parameters = StdioServerParameters(command=SERVER[0], args=SERVER[1:], env=dict(os.environ))
        async with stdio_client(parameters) as (read, write):
            yield read, write
        return
    serving = subprocess.Popen([*SERVER, "--http"], stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220 (nobody waits)
    try:
        async with streamable_http_client(serving.stdout.readline().strip()) as (read, write, *_):
            yield read, write
    finally:
        serving.terminate()
        serving.communicate()


def declared(tool) -> dict:
    schema = getattr(tool, "input_schema", None) or tool.inputSchema
    function = {"name": f"mcp__agentrewind__{tool.name}", "description": tool.description, "parameters": schema}
    return {"type": "function", "function": function}


async def carried_out(session: ClientSession, name: str, arguments: dict) -> str:
    if name == "shell":
        done = await asyncio.to_thread(
            subprocess.run, ["bash", "-c", arguments["command"]], capture_output=True, text=True, check=False
        )
        return done.stdout + done.stderr or "(nothing)"
    result = await session.call_tool(name.removeprefix("mcp__agentrewind__"), arguments)
    failed = result.is_error if hasattr(result, "is_error") else result.isError
    return ("error: " if failed else "") + result.content[0].text


async def answered(session: ClientSession, client: httpx.AsyncClient) -> str:
    tools = [SHELL, *map(declared, (await session.list_tools()).tools)]
    messages: list[dict] = [{"role": "user", "content": "Put the workspace in order."}]
    while True:
        answer = await client.post("/chat/completions", json={"model": "any", "messages": messages, "tools": tools})
        answer.raise_for_status()
        message = answer.json()["choices"][0]["message"]
        messages.append(message)
        for call in message.get("tool_calls", ()):
            text = await carried_out(session, call["function"]["name"], json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
        if not message.get("tool_calls"):
            return message["content"]


async def read(session: ClientSession, uri: str) -> str:
    try:
        return (await session.read_resource(uri)).contents[0].text
    except Exception as error:  # noqa: BLE001 (which one depends on the version of the package)
        return f"{type(error).__name__}: {error}"


async def main(transport: str) -> None:
    async with (
        connected(transport) as (reading, writing),
        ClientSession(reading, writing) as session,
        httpx.AsyncClient(base_url=os.environ["OPENAI_BASE_URL"], timeout=30) as client,
    ):
        await session.initialize()
        said = await answered(session, client)
        found = {str(item.uri) for item in (await session.list_resources()).resources}
        found |= {f"agentrewind://diff/{uid}" for uid in ("rec_000001", "rec_000099", "..%2F..%2Fetc%2Fpasswd")}
        print(json.dumps({"said": said, "resources": {uri: await read(session, uri) for uri in sorted(found)}}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
