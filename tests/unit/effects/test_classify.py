import gc
import json
import multiprocessing
import os
import signal
import sys
import time

import pytest

from agentrewind.core.effects import Annotations, Confinement, Effect, overall
from agentrewind.core.errors import UsageError
from agentrewind.effects.classify import Classifier
from agentrewind.effects.rules import Rules
from agentrewind.effects.table import programs
from agentrewind.effects.tools import tools

HOME = "/home/dev"


@pytest.fixture
def classifier(tmp_path):
    return Classifier.of(tmp_path, home=HOME)


def with_settings(root, text: str) -> Classifier:
    (root / "agentrewind.toml").write_text(text)
    return Classifier.of(root, Rules.load(root / "agentrewind.toml"), home=HOME)


# --- tools by name ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments", "kind"),
    [
        ("Bash", {"command": "git push", "description": "Push"}, "external"),
        ("Bash", {"command": "agentrewind tool commit rec_000003 'the note'"}, "read"),
        ("Bash", {"command": "echo note | agentrewind tool commit rec_000003 -"}, "read"),
        ("Bash", {"command": "agentrewind rewind last --to rec_000003 --note x --yes"}, "unknown"),
        ("mcp__agentrewind__backtrack_commit", {"record_uid": "rec_000003"}, "read"),
        ("agentrewind_backtrack_candidates", {"reason": "lost"}, "read"),
        ("backtrack_commit", {"record_uid": "rec_000003"}, "read"),
        ("mcp__other__backtrack_commit", {"record_uid": "rec_000003"}, "unknown"),
        ("shell", {"command": ["bash", "-lc", "git push"]}, "external"),
        ("exec_command", {"cmd": "ls", "workdir": "/srv"}, "read"),
        ("exec_command", {"cmd": "rm x", "workdir": "/srv"}, "outside"),
        ("local_shell_call", {"action": {"command": ["git", "push"]}}, "external"),
        ("Write", {"file_path": "{ws}/a.py", "content": "git push"}, "workspace"),
        ("Write", {"file_path": "/etc/motd", "content": "x"}, "outside"),
        ("Edit", {"old_string": "a", "new_string": "b"}, "unknown"),
        ("str_replace_based_edit_tool", {"command": "view", "path": "/etc/passwd"}, "read"),
        ("apply_patch", {"input": "*** Begin Patch\n*** Update File: a.py\n@@\n-a\n+b\n*** End Patch"}, "workspace"),
        ("apply_patch", {"input": "*** Begin Patch\n*** Add File: ../x.py\n+b\n*** End Patch"}, "outside"),
        ("Read", {"file_path": "/etc/passwd"}, "read"),
        ("WebFetch", {"url": "https://a.dev"}, "external"),
        ("python", {"code": "import requests; requests.post('https://a.dev')"}, "external"),
        ("python_interpreter", "open('a.txt', 'w').write('x')", "workspace"),
        ("mcp__github__create_issue", {"title": "x"}, "unknown"),
        ("frobnicate", {}, "unknown"),
        ("bash", {}, "unknown"),
        ("bash", {"command": 5}, "unknown"),
        ("bash", None, "unknown"),
    ],
)
def test_a_call_is_read_by_its_name_and_arguments(tmp_path, name, arguments, kind):
    if isinstance(arguments, dict) and "file_path" in arguments:
        arguments = {**arguments, "file_path": arguments["file_path"].replace("{ws}", str(tmp_path))}
    assert overall(Classifier.of(tmp_path, home=HOME).call(name, arguments)) == kind


def test_a_request_that_only_reads_leaves_nothing_standing(classifier):
    assert [(item.kind, item.reads, item.survives) for item in classifier.command("curl https://a.dev")] == [
        ("external", True, False)
    ]
    assert [item.survives for item in classifier.command("curl -d a=b https://a.dev")] == [True]


def test_all_that_a_list_of_commands_does_is_named(classifier):
    kinds = [item.kind for item in classifier.command("touch a && rm ~/b; ./run | tee c; git push")]
    assert kinds == ["workspace", "outside", "unknown", "workspace", "external"]


def test_a_link_out_of_the_workspace_leads_outside(tmp_path, classifier):
    (tmp_path / "out").symlink_to("/srv")
    assert overall(classifier.command("rm out/x")) == "outside"


# --- what the tool says, what the user says, what the sandbox knows ---------------------------------------------------


@pytest.mark.parametrize(
    ("hints", "expected"),
    [
        (Annotations(read_only=True, open_world=False), ("read", False)),
        (Annotations(read_only=True), ("external", True)),
        (Annotations(destructive=False), ("external", False)),
        (Annotations(read_only=False, open_world=True), ("external", False)),
    ],
)
def test_what_a_tool_says_of_itself_comes_before_its_name(classifier, hints, expected):
    (effect,) = classifier.call("bash", {"command": "rm -rf ~"}, hints)
    assert (effect.kind, effect.reads) == expected
    assert effect.source == "annotation"


def test_a_tool_of_a_closed_world_is_read_by_its_arguments(classifier):
    hints = Annotations(read_only=False, open_world=False)
    assert overall(classifier.call("write_file", {"path": "/etc/x"}, hints)) == "outside"


def test_a_rule_of_the_user_has_the_last_word(tmp_path):
    classifier = with_settings(
        tmp_path,
        '[[effects.rule]]\ntool = "mcp__shop__*"\nclass = "external"\nwhat = "orders goods"\n'
        '[[effects.rule]]\ncommand = "./deploy *"\nclass = "external"\nundo = "./deploy --rollback"\n'
        '[[effects.rule]]\ncommand = "git push"\nclass = "workspace"\n',
    )
    (order,) = classifier.call("mcp__shop__buy", {"item": 1}, Annotations(read_only=True, open_world=False))
    assert (order.kind, order.source) == ("external", "rule")
    assert "orders goods" in order.what
    (deploy,) = classifier.command("./deploy prod")
    assert (deploy.kind, deploy.undo) == ("external", "./deploy --rollback")
    assert overall(classifier.command("bash -c 'git push origin'")) == "workspace"


def test_an_undo_command_alone_leaves_the_class_to_the_parse(tmp_path):
    classifier = with_settings(
        tmp_path, '[[effects.rule]]\ncommand = "kubectl apply"\nundo = "kubectl rollout undo deployment/web"\n'
    )
    (effect,) = classifier.command("kubectl apply -f web.yml")
    assert (effect.kind, effect.undo) == ("external", "kubectl rollout undo deployment/web")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[effects]\nmood = 1", "no setting 'mood'"),
        ('[effects]\nmode = "ask"', "effects.mode must be one of record, annotate, confirm, block"),
        ('[[effects.rule]]\ntool = "a"', "says a class, an undo command, or both"),
        ('[[effects.rule]]\nclass = "read"', "names either a tool or a command"),
        ('[[effects.rule]]\ntool = "a"\nclass = "bad"', "class must be one of"),
        ('[[effects.rule]]\ntool = 1\nclass = "read"', "a rule's tool must be text"),
        ("effects = 1", "must be a table"),
        ("[effects\n", "can't be read as settings"),
    ],
)
def test_bad_settings_are_one_clear_sentence(tmp_path, text, said):
    with pytest.raises(UsageError, match=r"agentrewind\.toml") as refused:
        with_settings(tmp_path, text)
    assert said in str(refused.value)


def test_without_a_network_nothing_is_external(tmp_path):
    classifier = Classifier.of(tmp_path, confinement=Confinement(network=False, outside=False), home=HOME)
    effects = classifier.command("git push; rm ~/a")
    assert [(item.kind, item.source) for item in effects] == [("workspace", "sandbox")] * 2


# --- what is shown ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        'source conf.sh; curl -X POST -H "A: $TOKEN" https://a.dev',
        'curl -d "$(cat conf.sh)" https://a.dev',
        'read X < conf.sh; curl -d "$X" https://a.dev',
        "sh send.sh",
        "make send",
        "npm run send",
        "xargs -a conf.sh curl -X POST",
    ],
)
def test_what_only_a_file_holds_is_never_shown(tmp_path, classifier, command):
    secret = "hunter2-hunter2"
    (tmp_path / "conf.sh").write_text(f"TOKEN={secret}\n")
    (tmp_path / "send.sh").write_text(f"curl -X POST -H 'A: {secret}' https://a.dev\n")
    (tmp_path / "Makefile").write_text(f"T = {secret}\nsend:\n\tcurl -X POST -H $(T) https://a.dev\n")
    (tmp_path / "package.json").write_text(json.dumps({"scripts": {"send": f"curl -X POST -H {secret} https://a.dev"}}))
    effects = classifier.command(command)
    assert overall(effects) == "external"
    assert not any(secret in effect.what for effect in effects)


def test_an_effect_is_said_in_one_short_line(classifier):
    (effect,) = classifier.command("git push origin 'a\nb\x1b[31m' " + "x" * 500)
    assert effect.what.isprintable()
    assert len(effect.what) < 140


# --- bounds -----------------------------------------------------------------------------------------------------------


HARD = [
    "$(" * 3000 + "x" + ")" * 3000,
    "{([$`'" * 20000,
    "git push; " * 20000,
    "x=aaaaaaaaaaaaaaaa;" + "x=$x$x$x$x$x$x$x$x;" * 30 + "echo $x|sh",
    "".join(f"for {name} in 1 2 3 4 5 6 7 8 9; do " for name in "abcdefg") + "curl x" + "; done" * 7,
    "f() { f | f & }; f",
    "alias a=b; alias b=a; a",
    "sudo " * 300 + "git push",
    "\0" * 1000,
    "\ud800 git push",
    "echo x > a; " * 150,
]


@pytest.mark.parametrize("number", range(len(HARD)))
def test_no_text_takes_long_or_fails(classifier, number):
    begun = time.monotonic()
    assert classifier.command(HARD[number])
    assert time.monotonic() - begun < 60


def test_a_text_that_takes_too_long_is_unknown(classifier):
    (effect,) = classifier.command("a|" * 40000)
    assert effect.kind == "unknown"
    assert "too long" in effect.what


def test_a_parser_that_dies_makes_one_call_unknown_and_harms_nothing(classifier, monkeypatch):
    classifier.worker.start()
    os.kill(classifier.worker._process.pid, signal.SIGSEGV)
    classifier.worker._process.wait(10)
    assert overall(classifier.command("git push")) == "external"


def test_a_forked_process_reads_by_itself(classifier):
    assert overall(classifier.command("git push")) == "external"
    children = [multiprocessing.get_context("fork").Process(target=_pushes, args=(classifier,)) for _ in range(2)]
    for child in children:
        child.start()
    assert [overall(classifier.command("ls")) for _ in range(5)] == ["read"] * 5
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0, 0]


def _pushes(classifier):
    assert [overall(classifier.command("git push")) for _ in range(5)] == ["external"] * 5


def test_the_reading_process_ends_with_its_owner(tmp_path):
    classifier = Classifier.of(tmp_path, home=HOME)
    classifier.command("ls")
    process = classifier.worker._process
    assert process.poll() is None
    del classifier
    gc.collect()
    assert process.poll() is not None


def test_a_long_text_is_read_all_the_same(tmp_path, classifier):
    rules = Rules.load(tmp_path / "none.toml")
    long = "cat > notes.md <<'END'\n" + "git push\n" * 1000 + "END\n"
    assert overall(Classifier.of(tmp_path, rules, home=HOME).command(long)) == "workspace"
    assert overall(classifier.command(long + "git push")) == "external"


def test_where_no_process_can_be_started_a_call_is_unknown(classifier, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nonexistent")
    assert overall(classifier.command("echo x")) == "unknown"


# --- the tables -------------------------------------------------------------------------------------------------------


def test_every_entry_of_the_tables_says_something():
    for name, program in programs().items():
        acts = program.kind or program.writes or program.subs or program.other or program.interpreter or program.build
        runs = program.wraps or program.feeds or program.finds or program.runs_package or program.database
        assert acts or runs or program.bare or program.remote or program.in_place, name
    assert len(programs()) > 500
    assert all(name == name.lower() for name in tools())


def test_an_old_effect_without_the_newer_fields_is_still_one():
    assert Effect("external", "git push").survives
