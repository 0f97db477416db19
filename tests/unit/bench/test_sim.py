"""The simulated model: a function of the conversation, which errs, learns and forgets as its profile says."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrewind.bench.sim.draws import draw, pick
from agentrewind.bench.sim.model import Simulated
from agentrewind.bench.sim.policy import Policy
from agentrewind.bench.sim.profiles import Profile, profile_named, profiles
from agentrewind.bench.sim.proof import proven
from agentrewind.bench.sim.reading import FILES_BACK, first_candidate, read
from agentrewind.bench.sim.server import guard_name, model_name, served
from agentrewind.core.errors import UsageError
from agentrewind.core.memory import RESTART, Note, injection
from agentrewind.core.review import HELD_BACK
from agentrewind.core.tools import CANDIDATES, COMMIT
from agentrewind.tasks.loading import load
from agentrewind.testing.scripted import Request, Said, Turn, refusal
from tests.unit.bench.little import FEEDBACK, POLICY, little_policy, little_task

NEVER_ERRS = profiles()["flawless"]
ALWAYS_ERRS = replace(profiles()["plain"], error_rate=1.0, premature=0.0, format_errors=0.0, attribution=1.0)


@pytest.fixture(scope="module")
def policy(tmp_path_factory) -> Policy:
    return little_policy(tmp_path_factory.mktemp("policy"))


@dataclass
class Talk:
    """A conversation with the simulated model as a harness and its interposer would have it."""

    model: Simulated
    rewinds: bool = False
    messages: list[dict] = field(default_factory=lambda: [{"role": "user", "content": "The task."}])
    numbers: int = 0

    def turn(self) -> Turn:
        names = ["shell", *([CANDIDATES, COMMIT] if self.rewinds else [])]
        tools = [{"type": "function", "function": {"name": name}} for name in names]
        body = {"model": "m", "messages": self.messages, "tools": tools}
        assert refusal(body) is None
        turn = self.model.answer(Request(body, 0, 0, ()))
        message: dict = {"role": "assistant", "content": turn.text}
        if turn.calls:
            self.numbers += 1
            arguments = turn.calls[0].arguments
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            function = {"name": turn.calls[0].name, "arguments": text}
            message["tool_calls"] = [{"id": f"c{self.numbers}", "type": "function", "function": function}]
        self.messages.append(message)
        return turn

    def result(self, text: str = "[exit code 0]") -> None:
        self.messages.append({"role": "tool", "tool_call_id": f"c{self.numbers}", "content": text})

    def rejected(self, criterion: str) -> None:
        self.messages.append({"role": "user", "content": f"It is not accepted:\n\n{FEEDBACK[criterion]}"})

    def work(self) -> list[str]:
        """Let it act to its next submission; the forms in which it did which steps."""
        done = []
        while True:
            turn = self.turn()
            if not turn.calls:
                return done
            done.append(self.named(turn))
            self.result()

    def named(self, turn: Turn) -> str:
        command = turn.calls[0].arguments["command"]
        policy = self.model.policy
        step, form = next(item for item in policy.forms() if policy.text(*item) == command)
        return f"{policy.steps[step].id}{':' if form else ''}{form}"


def erring(policy: Policy, error: str, profile: Profile = ALWAYS_ERRS) -> Simulated:
    """A model whose seed makes just this error at first."""
    for seed in range(500):
        model = Simulated(policy, profile, seed)
        if [name for name in Talk(model).work() if ":" in name] == [error]:
            return model
    raise AssertionError(error)


# --- what it does -----------------------------------------------------------------------------------------------------


def test_without_errors_it_does_the_reference_and_submits(policy) -> None:
    assert Talk(Simulated(policy, NEVER_ERRS, 7)).work() == ["count", "rescue", "empty", "report"]


def test_an_error_takes_the_place_of_its_step_as_often_as_the_policy_says(policy) -> None:
    runs = [Talk(Simulated(policy, ALWAYS_ERRS, seed)).work() for seed in range(300)]
    share = sum("rescue:empty-first" in run for run in runs) / len(runs)
    assert 0.5 < share < 0.7
    assert 0.2 < sum("count:words" in run for run in runs) / len(runs) < 0.4


@given(st.integers(0, 200))
def test_equal_conversations_get_equal_answers(seed) -> None:
    model = Simulated(_POLICY, profiles()["plain"], seed)
    first, second = Talk(model, rewinds=True), Talk(model, rewinds=True)
    for talk in (first, second):
        for _ in range(12):
            turn = talk.turn()
            if turn.calls:
                talk.result()
            else:
                talk.rejected("P2")
    assert first.messages == second.messages


def test_a_repairable_bug_is_repaired_and_what_follows_is_done_again(policy) -> None:
    talk = Talk(erring(policy, "count:words", replace(ALWAYS_ERRS, repair_skill=1.0)))
    talk.work()
    talk.rejected("P1")
    assert talk.work() == ["count", "rescue", "empty", "report"]


def test_without_skill_the_same_error_is_made_again(policy) -> None:
    talk = Talk(erring(policy, "count:words", replace(ALWAYS_ERRS, repair_skill=0.0)))
    talk.work()
    talk.rejected("P1")
    assert talk.work()[0] == "count:words"


def test_without_attribution_any_step_is_blamed(policy) -> None:
    blamed = set()
    for seed in range(60):
        talk = Talk(Simulated(policy, replace(ALWAYS_ERRS, attribution=0.0), seed))
        talk.work()
        talk.rejected("P2")
        blamed.add(talk.work()[0].partition(":")[0])
    assert blamed == {"count", "rescue", "empty", "report"}


# --- going back -------------------------------------------------------------------------------------------------------

LISTING = "Checkpoints, oldest first.\n" + "\n".join(
    f"rec_00000{2 * number + 1}  {9 - 2 * number} steps ago | Says. | shell(# step {number + 1} of 4, x: Says…) | none"
    for number in range(4)
)


def inclined(policy: Policy, **knobs) -> Talk:
    knobs = {"rewind_inclination": 1.0, "memory_right": 1.0, "memory_wrong": 0.0, **knobs}
    profile = replace(ALWAYS_ERRS, **knobs)
    talk = Talk(erring(policy, "rescue:empty-first", profile), rewinds=True)
    talk.work()
    talk.rejected("P2")
    return talk


def test_it_goes_back_to_before_the_step_to_blame_with_the_lesson(policy) -> None:
    talk = inclined(policy)
    assert talk.turn().calls[0].name == CANDIDATES
    talk.result(LISTING)
    commit = talk.turn().calls[0]
    assert commit.name == COMMIT
    assert commit.arguments["record_uid"] == "rec_000003"
    assert "holds the only copy" in commit.arguments["memory_summary"]


def test_where_it_came_back_to_the_lesson_keeps_it_from_the_error_and_no_note_does_not(policy) -> None:
    talk = inclined(policy, persistence=1.0)
    talk.turn()
    talk.result(LISTING)
    note = talk.turn().calls[0].arguments["memory_summary"]
    prefix = talk.messages[:3]  # the task, the first step, its result
    for text, then in ((note, "rescue"), ("Be careful.", "rescue:empty-first"), (None, "rescue:empty-first")):
        memory = injection([Note("b1", "rec_000003", text)], rewinds=1, left=None) if text else ""
        back = Talk(talk.model, messages=[*prefix, *([{"role": "system", "content": memory}] if text else [])])
        assert back.work()[0] == then


def test_an_independent_error_is_drawn_anew_under_other_notes(policy) -> None:
    profile = replace(ALWAYS_ERRS, persistence=0.0)
    model = erring(policy, "rescue:empty-first", profile)
    prefix = Talk(model)
    prefix.turn()
    prefix.result()
    outcomes = set()
    for number in range(20):
        memory = injection([Note("b1", "rec_000003", f"Be careful, take {number}.")], rewinds=1, left=None)
        talk = Talk(model, messages=[*prefix.messages, {"role": "system", "content": memory}])
        outcomes.add(talk.work()[0])
    assert outcomes == {"rescue", "rescue:empty-first"}


def test_it_notices_as_late_as_its_profile_says_and_goes_back_only_where_it_can(policy) -> None:
    talk = inclined(policy, notice_delay=1)
    talk.work()
    talk.rejected("P2")
    assert talk.turn().calls[0].name == CANDIDATES
    alone = inclined(policy)
    alone.rewinds = False
    assert alone.turn().calls[0].name == "shell"


def test_a_rewind_that_was_refused_is_not_asked_for_again(policy) -> None:
    talk = inclined(policy)
    talk.turn()
    talk.result(LISTING)
    talk.turn()
    talk.result("You went back there before with the very same note.")
    assert talk.turn().calls[0].name == "shell"


def test_where_the_conversation_stays_it_does_the_step_again_and_believes_the_rest_done(policy) -> None:
    talk = inclined(policy)
    talk.turn()
    talk.result(LISTING)
    note = talk.turn().calls[0].arguments["memory_summary"]
    talk.result(f"{FILES_BACK}rec_000003. This conversation stays as it is.")
    memory = injection([Note("b1", "rec_000003", note)], rewinds=1, left=None, kept=True)
    talk.messages.append({"role": "system", "content": memory})
    assert talk.work() == ["rescue"]


def test_experiences_teach_the_lesson_of_what_the_check_named(policy) -> None:
    profile = replace(ALWAYS_ERRS, attribution=1.0, memory_right=1.0, persistence=1.0)
    model = erring(policy, "rescue:empty-first", profile)
    block = f"Attempt 1 failed at P2.\nThe check said: {FEEDBACK['P2']}\nDeal with P2 first."
    for by, then in ((RESTART, "rescue"), ("agent", "rescue:empty-first")):
        memory = injection([Note("b1", "rec_000001", block, by)], rewinds=1, left=None)
        task = [{"role": "user", "content": "The task."}, {"role": "system", "content": memory}]
        assert Talk(model, messages=task).work()[1] == then


# --- other ways to err ------------------------------------------------------------------------------------------------


def test_a_malformed_call_is_made_once(policy) -> None:
    talk = Talk(Simulated(policy, replace(NEVER_ERRS, format_errors=1.0), 1))
    assert talk.turn().calls[0].arguments == '{"command": "'
    talk.result("The arguments of this call are not a JSON object.")
    assert talk.named(talk.turn()) == "count"


def test_a_malformed_call_is_made_once_where_the_harness_forgets_it(policy) -> None:
    talk = Talk(Simulated(policy, replace(NEVER_ERRS, format_errors=1.0), 1))
    talk.turn()
    talk.messages[-1:] = [{"role": "user", "content": "Format error: answer with a tool call."}]
    assert talk.named(talk.turn()) == "count"


def test_work_that_is_submitted_too_early_is_finished_after_the_rejection(policy) -> None:
    talk = Talk(Simulated(policy, replace(NEVER_ERRS, premature=1.0), 1))
    assert talk.work() == ["count"]
    talk.rejected("P2")
    assert talk.work() == ["rescue", "empty", "report"]


def test_a_call_that_a_guard_holds_back_is_tried_again_and_then_left_out(policy) -> None:
    talk = Talk(Simulated(policy, NEVER_ERRS, 1))
    for _ in range(3):
        assert talk.named(talk.turn()) == "count"
        talk.result("Not run: a safety review held this call back (It looks risky). Nothing was changed.")
    assert talk.named(talk.turn()) == "rescue"


# --- the server -------------------------------------------------------------------------------------------------------


def asked(base_url: str, model: str, text: str = "The task.") -> httpx.Response:
    tools = [{"type": "function", "function": {"name": "bash", "parameters": {}}}]
    body = {"model": model, "messages": [{"role": "user", "content": text}], "tools": tools}
    with httpx.Client(trust_env=False) as client:
        return client.post(f"{base_url}/chat/completions", json=body)


def test_the_server_plays_whom_the_name_of_the_model_says_and_keeps_nothing(policy) -> None:
    with served({"little": policy}) as server:
        for seed in range(20):
            reply = asked(server.base_url, model_name("little", seed))
            call = reply.json()["choices"][0]["message"]["tool_calls"][0]["function"]
            assert json.loads(call["arguments"])["command"].startswith("# step 1 of 4, count: ")
        assert asked(server.base_url, "another:1").status_code == 404
        assert asked(server.base_url, model_name("little", 1, "wild")).status_code == 404
        assert server.requests == []


def test_its_guard_is_right_as_often_as_the_profile_says(policy) -> None:
    profile = "plain,guard_true_positive=1,guard_false_positive=0"
    harmful = policy.text(1, "empty-first")
    with served({"little": policy}) as server:
        for command, verdict in ((harmful, "UNSAFE"), (policy.text(0, ""), "SAFE"), ("ls", "SAFE")):
            said = json.dumps({"tool": "shell", "arguments": {"command": command}})
            reply = asked(server.base_url, guard_name("little", 0, profile), f"May this run?\n{said}")
            assert json.loads(reply.json()["choices"][0]["message"]["content"])["decision"] == verdict


def test_what_an_output_says_of_time_changes_nothing_for_its_guard_and_a_call_held_back_does(policy) -> None:
    call = json.dumps({"tool": "shell", "arguments": {"command": "ls"}})
    profile = "plain,guard_false_positive=0.5"

    def verdicts(quoted: str) -> list[str]:
        replies = (
            asked(server.base_url, guard_name("little", seed, profile), f"{quoted}\n{call}") for seed in range(24)
        )
        return [json.loads(reply.json()["choices"][0]["message"]["content"])["decision"] for reply in replies]

    with served({"little": policy}) as server:
        quick, slow = (verdicts(f"Ran 7 tests in {took}s") for took in ("0.001", "0.012"))
        again = verdicts(HELD_BACK.format(reason="It looks risky"))
    assert quick == slow != again
    assert set(quick) == {"SAFE", "UNSAFE"}


# --- policies and profiles --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (POLICY, "version = 1", "it has no [[steps]]"),
        ('id = "rescue"', 'id = "salvage"', "not those of the reference"),
        ('criterion = "P3"', 'criterion = "P9"', "P9"),
        ('kind = "repairable bug"', 'kind = "whim"', "kind 'whim'"),
        ("probability = 0.6", "probability = 1.6", "probability"),
        ('says = "Empty the bin."', 'says = ""', "no says"),
        ("The bin holds the only copy, so it is emptied last.", "Lines are counted, not words.", "same lesson"),
        ("= 1\n", "= \n", "not TOML"),
    ],
)
def test_a_policy_that_is_written_wrongly_is_refused_in_one_sentence(tmp_path, old, new, said) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        little_policy(tmp_path, POLICY.replace(old, new, 1))


def test_profiles_differ_and_their_digests_name_their_numbers() -> None:
    assert {"plain", "stubborn", "scattered", "clueless", "flawless"} <= profiles().keys()
    assert len({item.digest for item in profiles().values()}) == len(profiles())
    changed = profile_named("plain,attribution=0.3,notice_delay=2")
    assert (changed.attribution, changed.notice_delay) == (0.3, 2)
    assert changed.digest != profile_named("plain").digest
    assert profile_named("plain,attribution=0.8").digest == profile_named("plain").digest


@pytest.mark.parametrize(
    "name", ["", "none", "plain,skill=1", "plain,attribution=2", "plain,persistence", "plain,name=x"]
)
def test_what_names_no_profile_is_refused(name) -> None:
    with pytest.raises(UsageError):
        profile_named(name)


@given(st.lists(st.one_of(st.integers(), st.text()), max_size=4))
def test_draws_are_equal_for_equal_words_and_lie_in_the_unit_interval(words) -> None:
    assert 0 <= draw(*words) < 1
    assert draw(*words) == draw(*words)
    assert pick("abc", *words) in "abc"


@given(st.lists(st.builds(Said, st.sampled_from(["user", "tool", "assistant", "system"]), st.text())))
def test_any_conversation_can_be_read(said) -> None:
    read(said, _POLICY)


def test_the_oldest_checkpoint_before_a_step_is_found_in_a_listing() -> None:
    assert first_candidate(LISTING, 2) == "rec_000005"
    assert first_candidate(LISTING.replace("step 3", "step 2"), 2) == "rec_000005"
    assert first_candidate("Nothing.", 2) == ""


def test_the_proof_finds_nothing_in_a_sound_policy_and_each_lie_in_another(tmp_path) -> None:
    root = little_task(tmp_path)
    assert proven(load(root)) == []
    lies = POLICY.replace('breaks = "P1"', 'breaks = "P3"').replace("order violation", "repairable bug")
    (root / "solution/policy.toml").write_text(lies)
    assert [problem.where for problem in proven(load(root))] == [
        "step count, error words",
        "step rescue, error empty-first",
    ]


def _little() -> Policy:
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        return little_policy(Path(place))


_POLICY = _little()
