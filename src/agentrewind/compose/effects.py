"""The classifier of a workspace: with the rules of its settings, and what its sandbox keeps commands from."""

from __future__ import annotations

from pathlib import Path

from agentrewind.compose.places import user_home
from agentrewind.compose.secret import SETTINGS_FILE
from agentrewind.core.effects import Confinement
from agentrewind.effects.classify import Classifier
from agentrewind.effects.rules import Rules


def classifier(workspace: Path, confinement: Confinement = Confinement()) -> Classifier:  # noqa: B008 (frozen)
    """Raises: UsageError: the settings are wrong."""
    rules = Rules.load(workspace / SETTINGS_FILE)
    return Classifier.of(workspace, rules, confinement, str(user_home()))
