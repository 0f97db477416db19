"""Whether the hooks in this Python are live, and which calls would go past them and past the proxy."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from types import ModuleType

from agentrewind.compose.doctor.agents import installed
from agentrewind.compose.doctor.finding import Finding
from agentrewind.core.codec import Json
from agentrewind.core.wire import Send, WireReply
from agentrewind.integrations.clients import install

HOOKS = "Hooks in this Python"
UNSEEN = "What would not be seen"
_ADDRESS = "http://agentrewind.invalid/v1/chat/completions"
_OFF = ("", "0", "false", "False")
_HTTP = "Use an OpenAI- or Anthropic-compatible HTTP endpoint for runs that are to be recorded."

_SWITCHES = {
    "LITELLM_RUST": (
        "LiteLLM then sends some calls by a Rust extension of its own",
        "these calls pass no hook",
        "Unset it, or run the program under `agentrewind exec`.",
    ),
    "CLAUDE_CODE_USE_BEDROCK": (
        "Claude Code then talks to Bedrock",
        "its calls go past the proxy of `agentrewind exec`",
        "Unset it, and give ANTHROPIC_API_KEY, for runs that are to be recorded.",
    ),
    "CLAUDE_CODE_USE_VERTEX": (
        "Claude Code then talks to Vertex AI",
        "its calls go past the proxy of `agentrewind exec`",
        "Unset it, and give ANTHROPIC_API_KEY, for runs that are to be recorded.",
    ),
}
"""Variables that lead calls around us: what they do, what is lost, what to do."""
_WAYS = (
    ("boto3", "Bedrock through boto3", "its HTTP is neither httpx nor a dialect that we read"),
    ("google-genai", "Gemini through Google's own SDK", "it is no dialect that we read"),
    ("dashscope", "DashScope's own SDK", "it uses requests"),
    ("websockets", "Responses over a websocket (Agents SDK: use_responses_websocket)", "it is no HTTP call"),
)
"""Packages that send calls by another way than the one that we watch."""


def findings(environ: Mapping[str, str]) -> Iterator[Finding]:
    for library in ("httpx", "httpx2"):
        if find_spec(library) is not None:
            yield _hook(library)
    for name, (what, lost, remedy) in _SWITCHES.items():
        if environ.get(name, "") not in _OFF:
            yield Finding(UNSEEN, name, "wrong", f"set: {what}", lost, remedy)
    for package, what, why in _WAYS:
        have = installed(package)
        if have:
            yield Finding(UNSEEN, package, "less", f"{have} is installed", f"{what}: {why}", _HTTP)


class _Answering:
    """Answers requests without a network, and counts them."""

    def __init__(self) -> None:
        self.asked = 0

    def wants(self, method: str, host: str, path: str) -> bool:
        del method
        return host == "agentrewind.invalid" and path == "/v1/chat/completions"

    def call(self, path: str, body: Json, send: Send) -> WireReply:
        del path, body, send
        self.asked += 1
        return WireReply(200, (("content-type", "application/json"),), b"{}")

    def undelivered(self, reply: WireReply) -> None:
        del reply


def _hook(library: str) -> Finding:
    """Ask through both of the real clients, and see whether the questions come by."""
    answering = _Answering()
    why = ""
    try:
        module = importlib.import_module(library)
        with install(answering):
            with module.Client() as client:
                client.post(_ADDRESS, json={})
            asyncio.run(_asked_async(module))
    except Exception as error:  # noqa: BLE001 (whatever a foreign library raises is the finding)
        why = f"{type(error).__name__}: {error}"
    if answering.asked == len(("sync", "async")) and not why:
        return Finding(HOOKS, library, "works", "a call through either client, sync and async, was seen and answered")
    lost = "calls of SDKs that use it are not recorded in-process"
    return Finding(HOOKS, library, "wrong", why or "a call went past", lost, "Use `agentrewind exec`; report this.")


async def _asked_async(module: ModuleType) -> None:
    async with module.AsyncClient() as client:
        await client.post(_ADDRESS, json={})
