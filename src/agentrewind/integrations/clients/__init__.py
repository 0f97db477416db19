"""In-process mount: every HTTP path of the OpenAI, LiteLLM and Anthropic SDKs passes through an interposer."""

from __future__ import annotations

from agentrewind.integrations.clients.hooks import Installation, install, unseen
from agentrewind.integrations.clients.interposer import Interposer

__all__ = ["Installation", "Interposer", "install", "unseen"]
