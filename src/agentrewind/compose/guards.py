"""The guard of a run by name."""

from __future__ import annotations

from collections.abc import Mapping

from agentrewind.core.errors import UsageError
from agentrewind.core.review import Guard
from agentrewind.integrations.endpoints import checked_url
from agentrewind.integrations.guards.model import ModelGuard
from agentrewind.integrations.guards.rules import RuleGuard

KEYS = ("AGENTREWIND_GUARD_API_KEY", "OPENAI_API_KEY")
"""Where the key of a guard's endpoint is looked for."""


def guard_named(text: str, environ: Mapping[str, str]) -> Guard:
    """The guard that `rules`, or `MODEL@URL` (an OpenAI-compatible endpoint), names.

    Raises:
        UsageError: it names none.
    """
    if text == "rules":
        return RuleGuard()
    model, at, url = text.rpartition("@")
    if not at or not model:
        raise UsageError(f"There is no guard {text!r}. Say rules, or MODEL@URL for a model behind an endpoint.")
    checked_url(url)
    return ModelGuard(url, model, next((environ[key] for key in KEYS if environ.get(key)), None))
