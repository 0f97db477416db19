"""Which agents and SDKs are here, whether their calls would be seen, and which would not."""

from __future__ import annotations

import importlib
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from agentrewind.compose.doctor.finding import Finding
from agentrewind.core.codec import Json
from agentrewind.core.wire import Send, WireReply
from agentrewind.integrations.clients import install

PACKAGES = "Agents and SDKs"
HOOKS = "Hooks in this Python"
UNSEEN = "What would not be seen"


@dataclass(frozen=True, slots=True)
class Known:
    """A package, the versions that it may have, the one that was tried, and how its calls are recorded.

    `gives`: what there isn't without it.
    """

    package: str
    since: str
    before: str
    tried: str
    how: str
    gives: str = ""


PACKAGES_KNOWN = (
    Known("mini-swe-agent", "2.4", "3", "2.4.6", "an agent of `agentrewind run`", "--agent mini-swe-agent"),
    Known("openai", "2.20", "4", "3.57.0", "in-process hook, or `agentrewind exec`"),
    Known("anthropic", "0.100", "3", "2.14.0", "in-process hook, or `agentrewind exec`"),
    Known("litellm", "1.75.5", "2", "1.110.2", "in-process hook, or `agentrewind exec`"),
    Known("httpx", "0.27", "1", "0.28.1", "hooked"),
    Known("httpx2", "2", "3", "2.16.2", "hooked"),
    Known("uvicorn", "0.30", "1", "0.54.0", "the server of the proxy", "`agentrewind exec` and `proxy`"),
)
"""The versions are those of design/integrations.md and of the tests that run."""
_ADDS = {
    "mini-swe-agent": "`pip install 'agentrewind[mini]'`",
    "uvicorn": "`pip install 'agentrewind[proxy]'`",
}
UNADAPTED = {
    "smolagents": "1.26.0",
    "qwen-agent": "0.0.34",
    "langgraph": "1.2.24",
    "openai-agents": "0.24.0",
    "pydantic-ai-slim": "2.68.0",
}
"""Harnesses whose HTTP calls pass through the hooks; the version is the one whose calls were looked at."""
PROGRAMS = ("claude", "codex", "gemini", "aider", "opencode")


def findings(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Packages, programs, hooks, and the ways around them."""
    for known in PACKAGES_KNOWN:
        if known.gives or installed(known.package):
            yield _package(known)
    for name, looked_at in UNADAPTED.items():
        have = installed(name)
        if have:
            what = f"{have}; looked at: {looked_at}; its calls are recorded in-process or by `agentrewind exec`"
            yield Finding(PACKAGES, name, "works", what)
    for name in PROGRAMS:
        path = shutil.which(name)
        if path:
            yield Finding(PACKAGES, name, "works", f"{path}: `agentrewind exec -- {name}`")
    for library in ("httpx", "httpx2"):
        if find_spec(library) is not None:
            yield _hook(library)
    yield from _unseen(environ)


def installed(package: str) -> str:
    """The version of a package; empty where it isn't installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _package(known: Known) -> Finding:
    have = installed(known.package)
    if not have:
        return Finding(PACKAGES, known.package, "less", "not installed", known.gives, _ADDS[known.package])
    what = f"{have}; tried: {known.tried}; {known.how}"
    if _number(known.since) <= _number(have) < _number(known.before):
        return Finding(PACKAGES, known.package, "works", what)
    remedy = f"`pip install '{known.package}>={known.since},<{known.before}'`"
    return Finding(PACKAGES, known.package, "less", what, "nobody has tried this version with agentrewind", remedy)


def _number(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


class _Answering:
    """Answers one request without a network, and remembers that it was asked."""

    def __init__(self) -> None:
        self.asked = False

    def wants(self, method: str, host: str, path: str) -> bool:
        del method
        return host == "agentrewind.invalid" and path == "/v1/chat/completions"

    def call(self, path: str, body: Json, send: Send) -> WireReply:
        del path, body, send
        self.asked = True
        return WireReply(200, (("content-type", "application/json"),), b"{}")

    def undelivered(self, reply: WireReply) -> None:
        del reply


def _hook(library: str) -> Finding:
    """Ask through the real client, and see whether the question comes by."""
    answering = _Answering()
    why = ""
    try:
        module = importlib.import_module(library)
        with install(answering), module.Client() as client:
            client.post("http://agentrewind.invalid/v1/chat/completions", json={})
    except Exception as error:  # noqa: BLE001 (whatever a foreign library raises is the finding)
        why = f"{type(error).__name__}: {error}"
    if answering.asked and not why:
        return Finding(HOOKS, library, "works", "a call through its client was seen, and answered")
    lost = "calls of SDKs that use it are not recorded in-process"
    return Finding(HOOKS, library, "wrong", why or "a call went past", lost, "Use `agentrewind exec`; report this.")


def _unseen(environ: Mapping[str, str]) -> Iterator[Finding]:
    if environ.get("LITELLM_RUST", "0") not in ("", "0", "false", "False"):
        yield Finding(
            UNSEEN,
            "LITELLM_RUST",
            "wrong",
            "set: LiteLLM then sends some calls by a Rust extension of its own",
            "these calls pass no hook",
            "Unset LITELLM_RUST, or run the program under `agentrewind exec`.",
        )
    ways = (
        ("boto3", "Bedrock through boto3", "its HTTP is neither httpx nor a dialect that we read"),
        ("dashscope", "DashScope's own SDK", "it uses requests"),
        ("websockets", "Responses over a websocket (Agents SDK: use_responses_websocket)", "it is no HTTP call"),
    )
    for package, what, why in ways:
        have = installed(package)
        if have:
            remedy = "Use an OpenAI- or Anthropic-compatible HTTP endpoint for runs that are to be recorded."
            yield Finding(UNSEEN, package, "less", f"{have} is installed", f"{what}: {why}", remedy)
