"""`[services]` in the settings of a project."""

from __future__ import annotations

import pytest

from agentrewind.compose.services import fits, services_of
from agentrewind.core.errors import UsageError
from agentrewind.engine.services import Service


def test_what_is_declared_is_read(tmp_path):
    (tmp_path / "agentrewind.toml").write_text(
        "[services.web]\nstart = 'serve'\nready = 'curl -s x'\nwithin = 5\n[services.db]\nstart = 'db'\n"
    )
    assert services_of(tmp_path) == (Service("web", "serve", "curl -s x", 5.0), Service("db", "db"))
    assert services_of(tmp_path / "nowhere") == ()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("services = 3", "services"),
        ("[services]\nweb = 'x'", "services.web"),
        ("[services.web]\nready = 'x'", "start"),
        ("[services.web]\nstart = 'x'\nstop = 'y'", "stop"),
        ("[services.web]\nstart = 3", "services.web.start"),
        ("[services.web]\nstart = 'x'\nwithin = true", "within"),
        ("[services.web]\nstart = 'x'\nwithin = 0", "within"),
        ("[services", "settings"),
    ],
)
def test_what_is_wrong_is_said_with_its_key(tmp_path, text, named):
    (tmp_path / "agentrewind.toml").write_text(text)
    with pytest.raises(UsageError, match=named):
        services_of(tmp_path)


def test_where_commands_run_is_never_read_from_the_workspace(tmp_path):
    (tmp_path / "agentrewind.toml").write_text("[sandbox]\nnetwork = 'on'\n")
    with pytest.raises(UsageError, match="the agent may write this file"):
        services_of(tmp_path)


def test_a_service_needs_a_sandbox_that_stays():
    web = (Service("web", "serve"),)
    fits(web, "session")
    fits(web, "none")
    fits((), "bwrap")
    with pytest.raises(UsageError, match="--sandbox session"):
        fits(web, "bwrap")
