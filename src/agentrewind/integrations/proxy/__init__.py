"""HTTP mount: a proxy on loopback in front of a provider, for agent programs in any language."""

from __future__ import annotations

from agentrewind.integrations.proxy.callers import Callers
from agentrewind.integrations.proxy.server import Listening, Proxy
from agentrewind.integrations.proxy.upstream import ANTHROPIC, OPENAI, Upstream

__all__ = ["ANTHROPIC", "OPENAI", "Callers", "Listening", "Proxy", "Upstream"]
