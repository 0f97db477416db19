"""The adapter of mini-SWE-agent where the package isn't installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agentrewind.core.errors import UsageError
from agentrewind.core.strategy import Stop
from agentrewind.integrations.harnesses.contract import Job
from agentrewind.integrations.harnesses.mini import MiniSweAgent


def test_without_the_package_the_error_says_how_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "minisweagent", None)
    monkeypatch.setitem(sys.modules, "litellm", None)
    monkeypatch.delitem(sys.modules, "agentrewind.integrations.harnesses.mini_classes", raising=False)
    job = Job("t", Path(tmp_path), "m", None, lambda _: Stop(ok=True, reason=""))
    with pytest.raises(UsageError, match=r"pip install 'agentrewind\[mini\]'"):
        MiniSweAgent().run(job)
