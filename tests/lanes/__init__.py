"""Tests that need a heavy package: a directory for each extra, run by its lane (`make test-NAME`, `.ci/lane.sh`)."""

from __future__ import annotations

import importlib.util

import pytest


def needs(package: str, extra: str) -> list[pytest.MarkDecorator]:
    """The marks of a module whose tests need this package: skipped, with the reason, where it isn't installed."""
    return [
        pytest.mark.timeout(300),
        pytest.mark.skipif(
            importlib.util.find_spec(package) is None,
            reason=f"{package} isn't installed: pip install 'agentrewind[{extra}]'",
        ),
        pytest.mark.filterwarnings("default"),  # what their packages warn about is theirs
    ]
