"""What LiteLLM and its HTTP library import only at the first call, imported ahead: a fork then has nothing to import.

What a version doesn't have is left out. Besides, the templates of the agent are compiled, once: it asks for a new one
at each step, which takes longer than all that is ours in a step whose answer is recorded.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Iterator
from typing import Any

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


def compile_once() -> None:
    """Have each text compiled once for as long as this process and its forks live: the code of a text never changes.

    All templates of one kind share an environment of jinja's own; only that one remembers.
    """
    import jinja2

    environment: Any = jinja2.Template("", undefined=jinja2.StrictUndefined).environment
    environment.compile = functools.lru_cache(maxsize=256)(environment.compile)
    for text in _templates():
        with contextlib.suppress(jinja2.TemplateSyntaxError):
            jinja2.Template(text, undefined=jinja2.StrictUndefined)


def _templates() -> Iterator[str]:
    """Those of the default configuration."""
    from minisweagent.config import builtin_config_dir, get_config_from_spec

    config = get_config_from_spec(builtin_config_dir / "mini.yaml")
    for part in ("agent", "model"):
        yield from (value for name, value in config.get(part, {}).items() if name.endswith("_template"))


with contextlib.suppress(ImportError):
    compile_once()
