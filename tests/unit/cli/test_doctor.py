"""`agentrewind doctor` says what works, what is lost, and what to do."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentrewind.cli.doctor import command
from agentrewind.compose.doctor import agents, hooks, storage
from agentrewind.compose.doctor import sandbox as sandboxes
from agentrewind.compose.doctor.tested import rows
from agentrewind.compose.home import Home
from agentrewind.integrations.sandbox import probe
from agentrewind.integrations.sandbox.probe import Found


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTREWIND_HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    cached = (probe.bubblewrap, probe.engine)
    for item in cached:
        item.cache_clear()
    yield tmp_path
    for item in cached:
        item.cache_clear()


def doctor(*arguments: str):
    return CliRunner().invoke(command, arguments, catch_exceptions=False)


def by_name(output: str) -> dict[str, dict[str, str]]:
    return {item["name"]: item for item in json.loads(output)["findings"]}


def test_everything_is_looked_at_in_order_and_said_as_one_object():
    done = doctor("--json")
    found = json.loads(done.stdout)
    groups = list(dict.fromkeys(item["group"] for item in found["findings"]))
    assert groups[:4] == ["Sandbox", "Storage", "Agents and SDKs", "Hooks in this Python"]
    assert {"bubblewrap", "control groups", "docker", "podman"} <= by_name(done.stdout).keys()
    assert {"home", "room", "watching", "leases on files", "openat2"} <= by_name(done.stdout).keys()
    assert done.exit_code == (0 if found["ok"] else 1)


def test_without_bubblewrap_it_says_what_is_lost_and_how_to_get_it(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    done = doctor()
    assert done.exit_code == 1
    assert "bubblewrap isn't installed" in done.output
    assert "lost: `agentrewind run` runs an agent's commands as you" in done.output
    assert "apt install bubblewrap" in done.output


def test_where_apparmor_forbids_namespaces_the_remedy_is_printed(tmp_path, monkeypatch):
    said = tmp_path / "restrict"
    said.write_text("1\n")
    fake = tmp_path / "bin" / "bwrap"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2; exit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(probe, "_APPARMOR", said)
    done = doctor("--json")
    found = by_name(done.stdout)["bubblewrap"]
    assert done.exit_code == 1
    assert found["state"] == "wrong"
    assert "setting up uid map" in found["what"]
    assert "apparmor_parser -r /etc/apparmor.d/bwrap" in found["remedy"]
    assert "userns" in found["remedy"]


@pytest.mark.parametrize("file", ["_DEBIAN", "_MOST"])
def test_where_namespaces_are_switched_off_the_remedy_is_printed(tmp_path, monkeypatch, file):
    said = tmp_path / "said"
    said.write_text("0\n")
    monkeypatch.setattr(probe, file, said)
    assert "sysctl" in probe._remedy("no")


def test_a_home_that_others_may_read_is_wrong_with_its_remedy(tmp_path):
    home = Home(tmp_path / "open").made()
    home.root.chmod(0o755)
    found = next(item for item in storage.findings(home, tmp_path) if item.name == "home")
    assert found.state == "wrong"
    assert f"chmod 700 {home.root}" in found.remedy


def test_no_room_is_wrong(tmp_path, monkeypatch):
    class Full:
        free = 10_000_000

    monkeypatch.setattr(storage.shutil, "disk_usage", lambda _: Full)
    found = next(item for item in storage.findings(Home(tmp_path / "h"), tmp_path) if item.name == "room")
    assert found.state == "wrong"
    assert "agentrewind store" in found.remedy


def test_the_hooks_are_tried_on_the_real_clients():
    found = {item.name: item for item in hooks.findings({}) if item.group == hooks.HOOKS}
    assert found["httpx"].state == "works"


def test_hooks_that_see_nothing_are_wrong(monkeypatch):
    import contextlib

    monkeypatch.setattr(hooks, "install", lambda _: contextlib.nullcontext())
    found = hooks._hook("httpx")
    assert found.state == "wrong"


def test_a_version_that_nobody_tried_is_said(monkeypatch):
    monkeypatch.setattr(agents, "installed", lambda _: "99.1")
    found = next(item for item in agents.findings() if item.name == "openai")
    assert found.state == "less"
    assert "<4" in found.remedy


def test_what_an_extra_brings_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setattr(agents, "installed", lambda _: "")
    found = {item.name: item for item in agents.findings()}
    assert "openai" not in found, "whoever hasn't got an SDK doesn't miss it"
    assert found["uvicorn"].lost == "`agentrewind exec` and `proxy`"
    assert "agentrewind[proxy]" in found["uvicorn"].remedy


def test_what_would_go_past_the_hooks_is_said(monkeypatch):
    monkeypatch.setattr(hooks, "installed", lambda name: "1.0" if name == "boto3" else "")
    environ = {"LITELLM_RUST": "1", "CLAUDE_CODE_USE_BEDROCK": "1", "CLAUDE_CODE_USE_VERTEX": "0"}
    found = {item.name: item for item in hooks.findings(environ) if item.group == hooks.UNSEEN}
    assert found.keys() == {"LITELLM_RUST", "CLAUDE_CODE_USE_BEDROCK", "boto3"}
    assert found["LITELLM_RUST"].state == found["CLAUDE_CODE_USE_BEDROCK"].state == "wrong"
    assert "Bedrock" in found["boto3"].lost


def program(place, version: str, name: str = "codex"):
    """An npm package with a program, linked into a directory of PATH as npm does it; it must never be started."""
    package = place / "lib/node_modules/@openai/codex"
    (package / "bin").mkdir(parents=True)
    (package / "package.json").write_text(json.dumps({"name": "@openai/codex", "version": version}))
    script = package / "bin/codex.js"
    script.write_text(f"#!/bin/sh\ntouch {place}/started\n")
    script.chmod(0o755)
    (place / "bin").mkdir()
    (place / "bin" / name).symlink_to(script)
    return place / "bin"


@pytest.mark.parametrize(("version", "state"), [("0.171.0", "works"), ("99.0.0", "less")])
def test_programs_are_found_with_their_version_and_are_not_started(tmp_path, monkeypatch, version, state):
    monkeypatch.setenv("PATH", str(program(tmp_path / "npm", version)))
    found = next(item for item in agents.findings() if item.name == "codex")
    assert (found.state, version in found.what) == (state, True)
    assert not (tmp_path / "npm/started").exists()


def test_a_program_that_says_nothing_of_its_version_is_named_all_the_same(tmp_path, monkeypatch):
    (tmp_path / "codex").write_text("#!/bin/sh\n")
    (tmp_path / "codex").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = next(item for item in agents.findings() if item.name == "codex")
    assert (found.state, "version unknown" in found.what) == ("works", True)


def test_every_row_of_the_table_says_what_was_tried_and_when():
    for row in (*rows("package"), *rows("program")):
        assert bool(row.tried) == (row.on is not None), row.name
        assert not row.tried or row.covers(row.tried), row.name
        assert row.how, row.name
        assert bool(row.gives) == bool(row.extra), row.name


def test_the_programs_that_were_tried_are_those_of_their_lane():
    lane = json.loads((Path(__file__).parents[3] / ".ci/cli-agents/package.json").read_text())
    assert sorted(row.tried for row in rows("program")) == sorted(lane["dependencies"].values())


def test_an_engine_that_works_is_named(monkeypatch):
    monkeypatch.setattr(probe, "engine", lambda name: Found(works=True, what=f"{name} 1"))
    found = {item.name: item for item in sandboxes.findings()}
    assert found["docker"].state == "works"


def test_java_is_looked_for_and_a_java_that_does_not_start_is_no_java(tmp_path, monkeypatch):
    for text, state, what in (
        ("echo 'openjdk version \"17\"' >&2", "works", "openjdk version"),
        ("exit 1", "less", "doesn't start"),
    ):
        java = tmp_path / "jre" / "java"
        java.parent.mkdir(exist_ok=True)
        java.write_text(f"#!/bin/sh\n{text}\n")
        java.chmod(0o755)
        monkeypatch.setenv("PATH", f"{java.parent}:/usr/bin:/bin")
        found = by_name(doctor("--json").stdout)["java"]
        assert (found["state"], what in found["what"]) == (state, True)
        assert (found["remedy"] == "") == (state == "works")
