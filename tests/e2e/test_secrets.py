"""Twenty-eight kinds of secret, planted wherever an agent can come across them; none of them in anything we wrote."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentrewind.compose.members import reading
from agentrewind.testing.scripted import Request, ScriptedModel, Step, call, fail, say
from tests.planted import BARE, CUSTOM, IN_ENVIRONMENT, KINDS, LINES, found_below, found_in

PROGRAM = str(Path(sys.executable).with_name("agentrewind"))
PROGRAMS = Path(__file__).with_name("programs")
KEY = "key-of-the-model-Zq81kQmv0aLq7RtYw3uE5"
ENCODED = (
    "base64 -w0 notes.py; echo; base64 notes.py; python3 -c "
    "\"import json,os,urllib.parse as u,base64 as b; t=open('notes.py').read(); print(json.dumps(json.dumps(t)));"
    "print(json.dumps(dict(os.environ))); print([u.quote(v) for v in os.environ.values()]);"
    "print([b.b64encode(('user:'+v).encode()).decode() for v in os.environ.values()]);"
    'print([v.encode().hex() for v in os.environ.values()])"'
)


@dataclass(frozen=True)
class Place:
    base: Path
    environ: dict[str, str]

    @property
    def workspace(self) -> Path:
        return self.base / "site"

    @property
    def home(self) -> Path:
        return self.base / "home"

    def cli(self, *words: str, code: int | None = 0, **more: str) -> str:
        done = subprocess.run(
            [PROGRAM, *words],
            env={**self.environ, **more},
            cwd=self.workspace,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=100,
            check=False,
        )
        assert code is None or done.returncode == code, done.stderr
        return done.stdout + done.stderr


@pytest.fixture
def here(tmp_path: Path) -> Place:
    for name in ("site/.ssh", "user", "tmp", "out"):
        (tmp_path / name).mkdir(parents=True)
    site = tmp_path / "site"
    (site / "notes.py").write_text(f"# {CUSTOM}\n{LINES}\n" + "".join(f"{v}\n" for v in IN_ENVIRONMENT.values()))
    (site / ".env").write_text(f"DATABASE_URL={IN_ENVIRONMENT['BROKER_URL']}\n")
    (site / ".netrc").write_text(KINDS[".netrc"][0].format(KINDS[".netrc"][1]))
    (site / ".ssh" / "id_ed25519").write_text(KINDS["SSH key"][1])
    (site / "agentrewind.toml").write_text("[secrets]\npatterns = ['EMP-\\w{7,}']\n")
    (site / "link").symlink_to(BARE[0])
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AGENTREWIND", "OPENAI", "ANTHROPIC", "COLUMNS"))}
    return Place(
        tmp_path,
        {
            **kept,
            **IN_ENVIRONMENT,
            "HOME": str(tmp_path / "user"),
            "TMPDIR": str(tmp_path / "tmp"),
            "AGENTREWIND_HOME": str(tmp_path / "home"),
            "OPENAI_API_KEY": KEY,
            "AGENTREWIND_SANDBOX": "none",  # in one there would be no secrets to print
        },
    )


def script(request: Request) -> Step:
    """Shows all of them in every way, goes back with a note that holds them, and is rejected once."""
    assert request.header_names
    notes = "went back" in json.dumps(request.messages)
    match len(request.results), notes:
        case 0, False:
            return call("shell", {"command": "cat notes.py .env .netrc .ssh/*"}, text=f"I think of {LINES}")
        case 1, False:
            return call("shell", {"command": f"printf %s {shlex.quote(LINES)} > made.py; {ENCODED}"})
        case 2, False:
            target = "rec_000003"
            note = f"It went back and knows {LINES}"
            return call("backtrack_commit", {"record_uid": target, "memory_summary": note})
        case _:
            if "not right yet" in json.dumps(request.messages) and not request.says("touched"):
                return call("shell", {"command": "touch ok; echo touched; exit 3"})
            return say(f"Done: {LINES}", reasoning=f"because of {LINES}")


def search(here: Place, *printed: str) -> None:
    assert found_below(here.home) == {}
    assert found_below(here.base / "out") == {}
    assert [found_in(text.encode()) for text in printed] == [set()] * len(printed)
    everything = b"".join(path.read_bytes() for path in here.home.rglob("*") if path.is_file())
    assert KEY.encode() not in everything


def shown(here: Place) -> list[str]:
    """What the commands that read a run print."""
    words = [
        ["log", "last"], ["log", "last", "--json"], ["candidates", "last"], ["cost", "last"], ["runs"],
        ["diff", "last", "rec_000001", "now"], ["check", "last"], ["store", "stats", "."],
    ]  # fmt: skip
    words += [["show", "last", f"rec_00000{number}", "--all"] for number in (2, 5, 6)]
    return [here.cli(*item, code=None) for item in words]


def exported(here: Place) -> str:
    """Every kind of export; what the command printed. Of the files in bundles it depends on the words said."""
    out = here.base / "out"
    words = [f"--{kind}={out / kind}" for kind in ("records", "atif", "mini", "bundle")]
    told = here.cli("export", "last", *words) + here.cli("export", "last", "--redact", f"--bundle={out / 'redacted'}")
    for name in ("bundle", "redacted"):
        with reading(out / name) as members:
            (out / f"{name}.d").mkdir()
            for number, member in enumerate(members):
                (out / f"{name}.d" / str(number)).write_bytes(member.read(1 << 30))
    assert b"[redacted " in b"".join(path.read_bytes() for path in (out / "redacted.d").iterdir())
    return told


@pytest.mark.parametrize("mode", ["in place", "fresh"])
def test_no_planted_secret_is_found_after_a_run(here: Place, mode: str) -> None:
    options = [] if mode == "in place" else ["--mode", mode]
    check = "cat notes.py; echo not right yet; test -e ok"
    with ScriptedModel(script, api_key=KEY) as model:
        words = ["run", "--model", "m", "--base-url", model.base_url, *options, "--check", check]
        told = here.cli(*words, f"Do it. You may need {LINES} and {CUSTOM}", code=None)
        assert found_in(json.dumps(model.requests).encode()) >= {secret[:60] for _, secret in KINDS.values()}
    assert "[redacted" in here.cli("log", "last")
    search(here, told, *(shown(here) if mode == "in place" else (exported(here),)))


def test_no_planted_secret_is_found_after_a_program_was_recorded_through_the_proxy(here: Place) -> None:
    with ScriptedModel(script, api_key=KEY) as model:
        program = [sys.executable, str(PROGRAMS / "sdk_loop.py"), "streamed"]
        told = here.cli("exec", "--base-url", model.base_url, "--", *program, LINES.split("\n")[0], code=None)
    search(here)
    assert found_in(told.encode())  # the agent itself still sees and says them


def test_no_planted_secret_is_found_after_a_session_and_a_refusal(here: Place) -> None:
    agent = here.base / "agent.py"
    agent.write_text(
        "import agentrewind, json, openai, sys\n"
        "text = open('notes.py').read()\n"
        "with agentrewind.session('.', task='Use ' + text) as run:\n"
        "    client = openai.OpenAI(base_url=sys.argv[1], max_retries=0)\n"
        "    run.tool('read', {'password': text, 'what': [text]}, lambda: {'content': text})\n"
        "    ask = dict(model='m', messages=[{'role': 'user', 'content': text}])\n"
        "    for part in client.chat.completions.create(**ask, stream=True): pass\n"
        "    client.chat.completions.create(**ask)\n"
    )

    def refusing(request: Request) -> Step:
        return say(LINES) if request.number == 0 else fail(400, f"You sent {LINES}")

    with ScriptedModel(refusing, api_key=KEY) as model:
        done = subprocess.run(
            [sys.executable, str(agent), model.base_url],
            env=here.environ, cwd=here.workspace, capture_output=True, text=True, check=False, timeout=100,
        )  # fmt: skip
    assert "BadRequestError" in done.stderr
    search(here, here.cli("log", "last", "--json"))


def test_the_search_finds_what_is_there() -> None:
    """Without this, the tests above could be blind."""
    assert len(KINDS) >= 20
    assert found_in(LINES.encode()) == {secret[:60] for _, secret in KINDS.values()}


def test_the_search_finds_them_in_the_workspace_itself(here: Place) -> None:
    found = found_below(here.workspace)
    assert set().union(*found.values()) == {secret[:60] for secret in BARE}
