"""Command-line agents of others: how they are led to the proxy, and kept quiet.

Used by tests; docs/command-line-agents.md tells the same to people.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

KEY = "sk-very-secret-0123456789abcdef"


@dataclass(frozen=True)
class Agent:
    """`task` and `goes_on` are command lines of `sh`, to which the words of a task are given as `$1`."""

    program: str
    task: str
    goes_on: str
    shell: str
    """The name of its shell tool."""
    command: Callable[[str], dict]
    """The arguments of that tool for a command."""
    environ: dict[str, str] = field(default_factory=dict)
    mcp: Callable[[Path, list[str]], str] | None = None
    """Declares an MCP server, started by these words, in its own configuration (below this home), and says what to add
    to its command line.
    """
    finds: Callable[[str], tuple[str, dict]] | None = None
    """The call of a tool that brings in a tool of this name, where those of MCP servers wait behind one."""

    def words(self, line: str, task: str) -> list[str]:
        return ["sh", "-c", line, self.program, task]

    def installed(self) -> bool:
        return shutil.which(self.program) is not None


def _claude_mcp(home: Path, words: list[str]) -> str:
    path = home / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"agentrewind": {"command": words[0], "args": words[1:]}}}))
    return f"--strict-mcp-config --mcp-config '{path}'"


def _codex_mcp(home: Path, words: list[str]) -> str:
    """Its servers see few variables of its own environment: those of the run, and of our records, are named."""
    (home / ".codex").mkdir(exist_ok=True)
    named = ["AGENTREWIND_RUN", "AGENTREWIND_HOME", "PYTHONPATH"]
    lines = [
        "[mcp_servers.agentrewind]",
        f"command = {json.dumps(words[0])}",
        f"args = {json.dumps(words[1:])}",
        f"env_vars = {json.dumps(named)}",
        "startup_timeout_sec = 120",
    ]
    (home / ".codex/config.toml").write_text("\n".join(lines) + "\n")
    return ""


def _qwen_mcp(home: Path, words: list[str]) -> str:
    (home / ".qwen").mkdir(exist_ok=True)
    server = {"command": words[0], "args": words[1:], "trust": True}
    (home / ".qwen/settings.json").write_text(json.dumps({"mcpServers": {"agentrewind": server}}))
    return ""


def _opencode_mcp(home: Path, words: list[str]) -> str:
    (home / ".config/opencode").mkdir(parents=True, exist_ok=True)
    server = {"type": "local", "command": words, "enabled": True}
    (home / ".config/opencode/opencode.json").write_text(json.dumps({"mcp": {"agentrewind": server}}))
    return ""


_OPENCODE = {
    "autoupdate": False,
    "share": "disabled",
    "provider": {
        "any": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "{env:OPENAI_BASE_URL}", "apiKey": "{env:OPENAI_API_KEY}"},
            "models": {"gpt-5-mini": {}},
        }
    },
}
_CODEX = (
    "codex exec {more} --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox -m gpt-5-codex"
    ' -c openai_base_url="$OPENAI_BASE_URL" -c analytics.enabled=false -c check_for_update_on_startup=false'
)
_CLAUDE = 'exec claude -p "$1" --dangerously-skip-permissions --model claude-sonnet-4-5'
_QWEN = 'exec qwen --auth-type openai -m qwen3-coder -y -p "$1"'
_OPENCODE_RUN = 'exec opencode run -m any/gpt-5-mini "$1"'

CLAUDE = Agent(
    "claude",
    _CLAUDE,
    f"{_CLAUDE} --continue",
    "Bash",
    lambda command: {"command": command, "description": "a step"},
    {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "ENABLE_TOOL_SEARCH": "false", "IS_SANDBOX": "1"},
    _claude_mcp,
)
CODEX = Agent(
    "codex",
    _CODEX.format(more="") + ' "$1"',
    _CODEX.format(more="resume --last") + ' "$1"',
    "exec_command",
    lambda command: {"cmd": command},
    {"CODEX_API_KEY": KEY},
    _codex_mcp,
)
QWEN = Agent(
    "qwen",
    _QWEN,
    f"{_QWEN} --continue",
    "run_shell_command",
    lambda command: {"command": command, "is_background": False},
    {"QWEN_TELEMETRY_ENABLED": "false", "QWEN_CODE_DISABLE_USAGE_STATISTICS": "1"},
    _qwen_mcp,
    lambda name: ("tool_search", {"query": f"+{name}"}),
)
OPENCODE = Agent(
    "opencode",
    _OPENCODE_RUN,
    f"{_OPENCODE_RUN} --continue",
    "bash",
    lambda command: {"command": command, "description": "a step"},
    {
        "OPENCODE_CONFIG_CONTENT": json.dumps(_OPENCODE),
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    },
    _opencode_mcp,
)
AGENTS = (CLAUDE, CODEX, QWEN, OPENCODE)


def environ_of(agent: Agent, home: Path) -> dict[str, str]:
    """The environment of the tests without what would lead an agent elsewhere, with a home of its own."""
    ours = ("AGENTREWIND", "OPENAI", "ANTHROPIC", "CLAUDE", "CODEX", "QWEN", "OPENCODE", "XDG_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**kept, "HOME": str(home), "DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1", **agent.environ}
