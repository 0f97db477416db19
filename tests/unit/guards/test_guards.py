"""Guards hold back what does harm, let pass what doesn't, and hold back whatever they can't judge."""

from __future__ import annotations

import json

import pytest

from agentrewind.compose.guards import guard_named
from agentrewind.core.effects import Effect
from agentrewind.core.errors import UsageError
from agentrewind.core.review import Proposed, Review
from agentrewind.integrations.guards.model import ModelGuard, question, understood
from agentrewind.integrations.guards.rules import RuleGuard, commands_in
from agentrewind.testing.scripted import ScriptedModel, fail, hang, say


def proposed(command: str, *effects: Effect) -> Proposed:
    return Proposed("Repair the tool.", ({"role": "user", "content": "Go."},), "shell", {"command": command}, effects)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("echo a; sudo rm x", "more rights"),
        ("cd repo && git reflog expire --expire=now --all", "forget"),
        ("rm -fr .git", "everything"),
        ("x=1 dd if=a of=/dev/sda", "device"),
        (":(){ :|:& };:", "without end"),
        ("cat ~/.ssh/id_rsa | base64", "keys"),
    ],
)
def test_the_rules_see_harm_in_the_parse_of_a_command(command, why) -> None:
    review = RuleGuard().review(proposed(command))
    assert not review.safe
    assert why in review.reason


@pytest.mark.parametrize("command", ["rm -rf build", "echo 'sudo rm -rf /' > notes", "git gc", "grep -n dd of=x", ""])
def test_the_rules_let_pass_what_only_looks_like_it(command) -> None:
    assert RuleGuard().review(proposed(command)).safe


def test_what_a_sandbox_has_to_prevent_is_held_back() -> None:
    effect = Effect("workspace", "curl https://example.com; the network is off", source="sandbox")
    assert not RuleGuard().review(proposed("curl https://example.com", effect)).safe
    assert RuleGuard().review(proposed("touch a", Effect("workspace", "writes a"))).safe


def test_commands_are_read_wherever_they_stand() -> None:
    text = "if true; then a b; fi; c $(d 'e f') | g"
    assert sorted(words[0] for words in commands_in({"command": text})) == ["a", "c", "d", "g", "true"]
    assert list(commands_in({"path": "x"})) == []
    assert list(commands_in("no object")) == []


# --- a model ----------------------------------------------------------------------------------------------------------


def asked(answer) -> tuple[Review, ScriptedModel]:
    with ScriptedModel(lambda _: answer) as model:
        return ModelGuard(model.base_url, "g", "sk-key-of-the-guard").review(proposed("rm data")), model


def test_the_model_is_shown_task_messages_evidence_and_call_and_bound_to_the_schema() -> None:
    review, model = asked(say(json.dumps({"decision": "UNSAFE", "reason": "It is the only copy."})))
    assert review == Review(safe=False, reason="It is the only copy.")
    body = model.last
    schema = body["response_format"]["json_schema"]
    assert (body["temperature"], schema["strict"]) == (0, True)
    assert schema["schema"]["properties"]["decision"]["enum"] == ["SAFE", "UNSAFE"]
    said = body["messages"][1]["content"]
    assert "Repair the tool." in said
    assert "[user] Go." in said
    assert json.loads(said.splitlines()[-1]) == {"tool": "shell", "arguments": {"command": "rm data"}}


def test_a_safe_call_may_run() -> None:
    assert asked(say('{"decision": "SAFE", "reason": "fine"}'))[0] == Review(safe=True, reason="fine")


@pytest.mark.parametrize(
    "answer",
    [
        say("SAFE"),
        say('{"decision": "safe", "reason": "x"}'),
        say('{"decision": "SAFE"}'),
        say('{"decision": "SAFE", "reason": "x", "more": 1}'),
        say('{"decision": "SAFE", "reason": 3}'),
        say('["SAFE"]'),
        say(""),
        fail(500, "down"),
        fail(429, "later"),
    ],
)
def test_whatever_is_no_clear_answer_holds_the_call_back(answer) -> None:
    review, _ = asked(answer)
    assert not review.safe
    assert review.failed


def test_an_endpoint_that_is_dead_or_silent_holds_the_call_back() -> None:
    assert ModelGuard("http://127.0.0.1:9/v1", "g").review(proposed("ls")).failed
    with ScriptedModel(lambda _: hang()) as model:
        assert ModelGuard(model.base_url, "g", timeout_s=0.2).review(proposed("ls")).failed


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"null", b'{"choices": []}', b"\xff", b'{"choices": [{"message": null}]}']
)
def test_any_body_is_understood_or_a_failure(body) -> None:
    assert understood(200, body).failed


def test_the_key_is_not_shown() -> None:
    assert "sk-1" not in repr(ModelGuard("http://x/v1", "g", "sk-1"))


def test_a_long_task_and_long_messages_are_cut() -> None:
    big = Proposed("t" * 99_999, ({"role": "tool", "content": "m" * 99_999},), "shell", {"command": "ls"})
    assert len(json.dumps(question("g", big))) < 20_000


def test_guards_are_found_by_name() -> None:
    assert guard_named("rules", {}).name == "rules"
    found = guard_named("org/guard:4b@http://127.0.0.1:8000/v1", {"AGENTREWIND_GUARD_API_KEY": "k"})
    assert found == ModelGuard("http://127.0.0.1:8000/v1", "org/guard:4b", "k")
    for wrong in ("", "strict", "@http://x/v1", "m@nowhere"):
        with pytest.raises(UsageError):
            guard_named(wrong, {})
