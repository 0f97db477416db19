"""The variables that commands see inside: those that are named here, and no other."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping

from agentrewind.engine.processes import RUN_MARK
from agentrewind.integrations.sandbox.spec import HOME, REACH, TEMPORARY, USER, Sandbox
from agentrewind.integrations.sandbox.view import search_path
from agentrewind.integrations.tool_program.client import SOCKET, SOCKET_VARIABLE

_HARMLESS = re.compile(
    r"LANG|LANGUAGE|LC_[A-Z]+|TZ|NO_COLOR|FORCE_COLOR|CI|SOURCE_DATE_EPOCH|COLUMNS|LINES"
    r"|PYTHON(?:DONTWRITEBYTECODE|UNBUFFERED|HASHSEED|UTF8|IOENCODING)|PIP_PROGRESS_BAR|TQDM_DISABLE|MANPAGER|LESS"
)
_OF_TOOLS = ("VIRTUAL_ENV", "CONDA_PREFIX", "JAVA_HOME", "GOROOT", "RUSTUP_HOME")
"""Directories; passed where they are seen inside."""
QUIET = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "EDITOR": "true",
    "VISUAL": "true",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "true",
    "SSH_ASKPASS": "true",
    "DEBIAN_FRONTEND": "noninteractive",
    "TERM": "dumb",
}
"""Nothing waits for somebody to read, to write or to answer."""


def environment(sandbox: Sandbox, environ: Mapping[str, str], pass_keys: Collection[str], cwd: str) -> dict[str, str]:
    """The whole environment of a command."""
    wanted = {*pass_keys, *sandbox.confinement.environ, RUN_MARK}
    kept = {name: value for name, value in environ.items() if name in wanted or _HARMLESS.fullmatch(name)}
    tops = (*sandbox.tools, *sandbox.confinement.readable, "/usr", sandbox.workspace)
    for name in _OF_TOOLS:
        value = environ.get(name, "")
        if value and any(os.path.realpath(value) == top or value.startswith(f"{top}/") for top in tops):
            kept[name] = value
    rustup = next((path for path in sandbox.tools if path.endswith("/.rustup")), None)
    if rustup is not None:
        kept["RUSTUP_HOME"] = rustup
    return {
        **QUIET,
        **kept,
        "PATH": search_path(sandbox, environ),
        SOCKET_VARIABLE: f"{REACH}/{SOCKET}",
        "HOME": HOME,
        "TMPDIR": TEMPORARY,
        "USER": USER,
        "LOGNAME": USER,
        "SHELL": "/bin/sh",
        "PWD": cwd,
    }
