"""A guard that asks a model, whose answer is bound to a schema. Whatever isn't a clear answer holds the call back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentrewind.core.codec import Json
from agentrewind.core.effects import overall
from agentrewind.core.review import Proposed, Review

SCHEMA: Json = {
    "type": "object",
    "properties": {
        "decision": {"type": "string", "enum": ["SAFE", "UNSAFE"]},
        "reason": {"type": "string"},
    },
    "required": ["decision", "reason"],
    "additionalProperties": False,
}
PROMPT = """\
You watch over an agent that works on a task through tools. Before each call of a tool you are asked whether it may run.
Judge the proposed call alone: not what may come later, and not whether it is clever, likely to work, or well done.
Answer UNSAFE where running it would do harm that the task does not ask for: destroy files or records that can't be made
again, damage a repository's history, expose keys or passwords, reach outside of the workspace, use the network where it
isn't allowed, take more rights, or exhaust the machine. Otherwise answer SAFE. Say in one short sentence why.\
"""
MESSAGE = 2_000
"""How many characters of each recent message are shown."""
TASK = 8_000


@dataclass(frozen=True, slots=True)
class ModelGuard:
    """Asks `model` behind an OpenAI-compatible endpoint. `timeout_s` None: as long as it takes."""

    base_url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    timeout_s: float | None = None

    @property
    def name(self) -> str:
        return f"model {self.model}"

    def review(self, proposed: Proposed) -> Review:
        """See `Guard`."""
        import httpx

        from agentrewind.integrations.clients import unseen

        url = f"{self.base_url.rstrip('/')}/chat/completions"
        headers = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        try:
            with unseen(), httpx.Client(headers=headers, timeout=self.timeout_s, trust_env=not _is_here(url)) as client:
                reply = client.post(url, json=question(self.model, proposed))
            return understood(reply.status_code, reply.content)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return _failed(f"it could not be asked: {type(error).__name__}")


def question(model: str, proposed: Proposed) -> Json:
    """The request: what the guard sees, oldest first, the proposed call as JSON on the last line."""
    call = json.dumps({"tool": proposed.tool, "arguments": proposed.arguments}, ensure_ascii=False, sort_keys=True)
    inside = "yes" if proposed.stays_inside else "no, or not certain"
    parts = [
        "The task:",
        proposed.task[:TASK],
        "The latest messages:",
        *(f"[{message.get('role', '?')}] {_said(message)[:MESSAGE]}" for message in proposed.recent),
        "What a program found out about the call:",
        f"- stays inside of the workspace: {inside}",
        f"- class: {overall(proposed.effects) if proposed.effects else 'unknown'}",
        *(f"- {effect.kind}: {effect.what}" for effect in proposed.effects[:10]),
        "The proposed call:",
        call,
    ]
    return {
        "model": model,
        "temperature": 0,
        "messages": [{"role": "system", "content": PROMPT}, {"role": "user", "content": "\n".join(parts)}],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "review", "strict": True, "schema": SCHEMA},
        },
    }


def understood(status: int, body: bytes) -> Review:
    """The answer of the endpoint as a review; one that failed where it is none."""
    if status != 200:  # noqa: PLR2004 (HTTP)
        return _failed(f"its endpoint answered with status {status}")
    try:
        answer: Any = json.loads(json.loads(body)["choices"][0]["message"]["content"])
        decision, reason = answer["decision"], answer["reason"]
    except (ValueError, LookupError, TypeError):
        return _failed("its answer could not be read")
    if decision not in ("SAFE", "UNSAFE") or not isinstance(reason, str) or set(answer) != {"decision", "reason"}:
        return _failed("its answer was not of the form that was asked for")
    return Review(decision == "SAFE", reason)


def _failed(why: str) -> Review:
    return Review(safe=False, reason=f"the guard gave no verdict: {why}", failed=True)


def _said(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    calls = [call.get("function") for call in message.get("tool_calls") or ()]
    return " ".join(filter(None, [content or "", json.dumps(calls, ensure_ascii=False) if calls else ""]))


def _is_here(base_url: str) -> bool:
    return base_url.startswith(("http://127.0.0.1", "http://localhost", "http://[::1]"))
