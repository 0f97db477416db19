"""What LiteLLM and its HTTP library import only at the first call, imported ahead: a fork then has nothing to import.

Nothing is called, and what a version doesn't have is left out.
"""

from __future__ import annotations

import contextlib
import importlib

LATE = (
    "h11",
    "h2.connection",
    "httpcore",
    "httpcore2",
    "litellm._service_logger",
    "litellm.integrations.generic_api.generic_api_callback",
    "litellm.integrations.prometheus_services",
    "litellm.litellm_core_utils.duration_parser",
    "litellm.litellm_core_utils.logging_callback_manager",
    "litellm.llms.github_copilot.authenticator",
    "litellm.llms.litellm_proxy.chat.transformation",
    "litellm.llms.openai.chat.gpt_audio_transformation",
    "litellm.llms.openai_like.dynamic_config",
    "litellm.proxy._types",
    "litellm.proxy.mcp_server.stdio_gate",
    "litellm.proxy.openai_files_endpoints.common_utils",
    "litellm.proxy.spend_tracking.savings",
    "litellm.types.integrations.compression_interception",
    "truststore",
)

for name in LATE:
    with contextlib.suppress(ImportError):
        importlib.import_module(name)
