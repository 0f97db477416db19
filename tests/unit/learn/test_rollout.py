"""Algorithm 1 and its invariants, with policies of every kind."""

import itertools
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrewind.core.errors import UsageError
from agentrewind.environments.alfworld.files import game
from agentrewind.environments.alfworld.game import AlfWorld
from agentrewind.environments.minesweeper import instances as boards
from agentrewind.environments.minesweeper.game import MineSweeper
from agentrewind.environments.scienceworld.game import ScienceWorld
from agentrewind.environments.scienceworld.simulator import Task
from agentrewind.environments.sokoban import instances as rooms
from agentrewind.environments.sokoban.game import Sokoban
from agentrewind.journal import JournalWriter, read_run
from agentrewind.learn.methods import METHODS
from agentrewind.learn.play import Policy, play
from agentrewind.learn.record import record, replayed, started
from agentrewind.learn.rollout import Request, trial
from agentrewind.learn.rules import Rules, protocol
from agentrewind.learn.solvers.minesweeper import Safest
from agentrewind.learn.solvers.policies import noisy, perfect, random_moves
from agentrewind.learn.solvers.sokoban import Shortest
from agentrewind.learn.trial import Output, Trial
from agentrewind.learn.worlds import Style, World, alfworld, minesweeper, scienceworld, sokoban
from tests.households import household
from tests.laboratory import Bench, Laboratory

BOARDS = list(itertools.islice(boards.instances(5, 5), 12))
ROOMS = list(itertools.islice(rooms.instances(6, 2), 12))


def world_of(number: int, rules: Rules, style: Style = "compact") -> World:
    if number % 2:
        return minesweeper(str(number), MineSweeper(BOARDS[number // 2 % 12].board), rules, style)
    room = ROOMS[number // 2 % 12]
    return sokoban(str(number), Sokoban(room.room, room.start), rules, style)


def always(text: str) -> Policy:
    return lambda request: Output(text)


def asks_back(target: str) -> Policy:
    """Acts once, then asks for a way back, for ever."""

    def policy(request: Request) -> Output:
        if request.view is not None and request.view.checkpoint == 0:
            return Output(f"<action>{request.view.actions[0]}</action>")
        return Output(f"<remark>again</remark><action>rewind to {target}</action>")

    return policy


def endless_reflection(request: Request) -> Output:
    """Fails as soon as it can and then writes much."""
    if request.view is not None:
        return Output(f"<action>{request.view.actions[-1]}</action>")
    return Output("<remark>" + "word " * 5000 + "the end</remark><target>C_0</target>")


def wanders_into_nowhere(request: Request) -> Output:
    """Names checkpoints that aren't there."""
    return Output("<remark>x</remark><target>C_99</target><action>rewind to C_99</action>")


def by_number(number: int) -> Policy:
    """Nonsense, rewinds and actions in turn."""

    def policy(request: Request) -> Output:
        if request.view is None:
            return Output(
                ("<remark>a</remark>", "", "<target>C_0</target>", "<target>C_7</target>")[request.number % 4]
            )
        kinds = (f"<action>{request.view.actions[number % len(request.view.actions)]}</action>", "hm", "<action>", "")
        asked = f"<action>rewind to C_{request.view.checkpoint - 1 - number % 2}</action>"
        return Output((*kinds, asked, asked)[(request.number * 7 + number) % 6])

    return policy


POLICIES: dict[str, Any] = {
    "invalid": always("no tag"),
    "empty": always(""),
    "to itself": asks_back("C_1"),
    "to the start": asks_back("0"),
    "reflects for ever": endless_reflection,
    "nowhere": wanders_into_nowhere,
}

rules = st.builds(
    Rules,
    calls=st.integers(1, 30),
    proactive=st.integers(0, 4),
    attempts=st.integers(1, 4),
    allowance=st.integers(1, 8),
    restores_allowance=st.booleans(),
    segments=st.none() | st.integers(1, 3),
)


def check(found: Trial, limits: Rules) -> None:
    """Every invariant of section 1 that an archive shows."""
    assert 1 <= len(found.calls) <= limits.calls
    assert [call.number for call in found.calls] == list(range(1, len(found.calls) + 1))
    executions = [call for call in found.calls if call.kind == "execution"]
    assert [call for segment in found.segments for call in segment.calls] == executions
    assert [segment.index for segment in found.segments] == list(range(len(found.segments)))
    assert found.attempts <= limits.attempts
    assert found.proactive <= limits.proactive
    assert found.attempts + found.proactive == len(found.recoveries) + 1
    assert len(found.segments) <= len(found.recoveries) + 1
    assert limits.segments is None or len(found.segments) <= limits.segments
    assert all(call.reward == 0 for call in found.calls if call.did != "acted")
    path: list[Any] = []
    back = {item.reflection.number: item for item in found.recoveries}
    for call in found.calls:
        assert len(call.history) == call.checkpoint == len(path)
        path += [call.action] if call.did == "acted" else []
        if call.number in back:
            assert 0 <= back[call.number].target < back[call.number].source == len(path)
            assert len(back[call.number].note) <= limits.reflection + len("[cut] ")
            del path[back[call.number].target :]
        assert len(path) <= limits.allowance or not limits.restores_allowance


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("number", [0, 1])
def test_no_policy_breaks_the_budgets_or_loses_a_call(name: str, number: int) -> None:
    for limits in (protocol("P@1"), protocol("T@1"), protocol("T@3"), Rules(calls=7, restores_allowance=False)):
        check(play(trial(world_of(number, limits), limits), POLICIES[name]), limits)


def household_world(rules: Rules) -> World:
    parts = household("both cups belong on the shelf")
    read = game(*(parts[name] for name in ("pddl_domain", "grammar", "pddl_problem", "walkthrough")))
    return alfworld("home", AlfWorld(read), rules, "compact")


def laboratory_world(rules: Rules) -> World:
    return scienceworld("boil/0", ScienceWorld(Task("boil", 0), Bench(Laboratory())), rules, "compact")


@pytest.mark.parametrize("name", [*POLICIES, "in turn"])
@pytest.mark.parametrize("make", [household_world, laboratory_world])
def test_neither_in_the_worlds_of_text_and_their_archives_replay(name: str, make: Any, tmp_path: Any) -> None:
    policy = POLICIES.get(name, by_number(1))
    for number, limits in enumerate((protocol("P@1"), protocol("T@3"), Rules(calls=9, restores_allowance=False))):
        world = make(limits)
        found = play(trial(world, limits), policy)
        check(found, limits)
        last, state = world.environment.observe(), world.environment.checkpoint()
        with JournalWriter.create(tmp_path / str(number), started(f"trial-{number}", found, "x")) as log:
            record(found, world, log)
        again = make(limits).environment
        assert replayed(read_run(tmp_path / str(number)), again) == found.final
        assert (again.observe(), again.fingerprint()) == (last, found.final)
        world.environment.restore(state)
        assert world.environment.observe() == last


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 40), rules, st.integers(0, 50), st.sampled_from([0.2, 0.7, 1.0]))
def test_no_mixture_of_policies_breaks_the_budgets_or_loses_a_call(
    number: int, limits: Rules, choice: int, error: float
) -> None:
    solver = Safest(5) if number % 2 else Shortest()
    for policy, method in itertools.product((by_number(choice), noisy(solver, error, str(choice))), METHODS.values()):
        check(play(trial(world_of(number, limits), limits, method), policy), limits)


def test_reflexion_begins_again_and_never_asks() -> None:
    limits, back = Rules(), 0
    for number in range(1, 24, 2):
        found = play(trial(world_of(number, limits), limits, METHODS["reflexion"]), noisy(Safest(5), 0.6, "0"))
        back += len(found.recoveries)
        assert all(item.target == 0 and item.forced for item in found.recoveries)
    assert back


def test_an_assistant_finds_the_step_that_made_it_worse_and_its_calls_count() -> None:
    limits, back = Rules(calls=20), 0
    for number in range(0, 24, 2):
        found = play(trial(world_of(number, limits), limits, METHODS["ga-rollback"]), noisy(Shortest(), 0.8, "0"))
        reviews = [item for item in found.recoveries if item.trigger == "review"]
        back += len(reviews)
        assert all(item.target == item.source - 1 for item in reviews)
        assert sum(call.kind == "reflection" for call in found.calls) >= len(reviews)
        assert len(found.calls) <= 20
    assert back


def test_a_context_is_never_changed_after_its_call_was_made() -> None:
    limits = Rules()
    for number in range(6):
        kept: list[tuple[Any, str]] = []
        policy = noisy(Safest(5) if number % 2 else Shortest(), 0.7, "0")

        def noting(request: Request, policy: Policy = policy, kept: list[Any] = kept) -> Output:
            kept.append((request.context, repr(request.context)))
            return policy(request)

        found = play(trial(world_of(number, limits), limits), noting)
        assert [call.context for call in found.calls] == [context for context, _ in kept]
        assert all(repr(context) == before for context, before in kept)


def test_a_note_is_in_the_contexts_after_it_and_in_none_before() -> None:
    limits, seen = Rules(), 0
    for number in range(1, 24, 2):
        found = play(trial(world_of(number, limits), limits), noisy(Safest(5), 0.7, "0"))
        for recovery in found.recoveries:
            seen += 1
            for call in found.calls:
                told = recovery.note in " ".join(message["content"] for message in call.context)
                if call.number <= recovery.reflection.number:
                    assert not told or any(
                        recovery.note in other.note for other in found.recoveries[: found.recoveries.index(recovery)]
                    )
                elif call.number == recovery.reflection.number + 1:
                    assert told
    assert seen


def test_going_back_twice_to_one_checkpoint_leaves_one_note_there() -> None:
    limits = Rules(attempts=4)
    for number in range(1, 24, 2):
        found = play(trial(world_of(number, limits), limits), noisy(Safest(5), 1.0, "0"))
        for call in found.calls:
            notes = [m["content"] for m in call.context if m["content"].startswith("note ")]
            assert call.kind == "reflection" or max(Counter(notes).values(), default=0) <= 1
            assert call.kind == "reflection" or len(notes) <= call.checkpoint + 1


def test_the_compact_style_shows_the_present_and_the_notes_on_the_path_alone() -> None:
    limits, told = Rules(calls=20), 0
    for number in range(12):
        found = play(trial(world_of(number, limits), limits), by_number(number))
        for call in found.calls:
            if call.kind == "execution":
                roles = [message["role"] for message in call.context]
                notes = sum(message["content"].startswith("note ") for message in call.context)
                told += notes
                assert roles[: 2 + notes] == ["system", *["user"] * (1 + notes)]
                assert roles[2 + notes :] in ([], ["assistant", "user"])
                assert f"C_{call.checkpoint} " in call.context[1 + notes]["content"]
    assert told


def test_the_prefix_comes_back_word_for_word() -> None:
    limits = Rules()
    for number in range(24):
        world = world_of(number, limits, "full")
        found = play(trial(world, limits), noisy(Safest(5) if number % 2 else Shortest(), 0.8, "3"))
        for recovery in found.recoveries:
            at = recovery.reflection.number
            before = next(
                c for c in found.calls if c.kind == "execution" and c.checkpoint == recovery.target and c.number < at
            )
            after = found.calls[at] if at < len(found.calls) else None
            if after is not None and not recovery.target:
                assert after.context[0] == before.context[0]
            if after is not None:
                prefix = before.context[: 1 + 2 * recovery.target]
                assert [message for message in after.context if message in prefix][: len(prefix)] == list(prefix)
                assert after.state == before.state
                assert after.history == before.history


def test_an_archive_written_as_a_run_replays_to_its_final_state(tmp_path: Any) -> None:
    limits = Rules()
    for number in range(24):
        world = world_of(number, limits)
        found = play(trial(world, limits), noisy(Safest(5) if number % 2 else Shortest(), 0.8, "3"))
        with JournalWriter.create(tmp_path / str(number), started(f"trial-{number}", found, "noisy")) as log:
            record(found, world, log)
        run = read_run(tmp_path / str(number))
        assert len([node for node in run.tree.nodes.values() if node.is_llm]) == len(found.calls)
        assert run.tree.rewinds == len(found.recoveries)
        assert replayed(run, world_of(number, limits).environment) == found.final


def said(*words: str) -> int:
    """The exit code of a command."""
    done = subprocess.run([sys.executable, "-m", "agentrewind", *words], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode


def test_commands_that_read_runs_read_trials_and_those_that_change_files_refuse_them(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, limits, name = tmp_path / "home", Rules(), "20261201-000000-trial-0001"
    world = world_of(3, limits)
    found = play(trial(world, limits), noisy(Safest(5), 0.8, "3"))
    with JournalWriter.create(home / "runs" / name, started(name, found, "noisy")) as log:
        record(found, world, log)
    monkeypatch.setenv("AGENTREWIND_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    for command in ("log", "candidates", "check", "cost", "show rec_000001"):
        verb, *rest = command.split()
        assert said(verb, "last", *rest) == 0
    for command in ("rewind last --to rec_000001 --note x --yes", "restore last rec_000001 --yes", "undo last --yes"):
        assert said(*command.split()) == 2
    assert sorted(item.name for item in tmp_path.iterdir()) == ["home"]


def test_a_perfect_solver_needs_no_way_back() -> None:
    limits = protocol("P@1")
    for number in range(24):
        solver = Safest(5) if number % 2 else Shortest()
        assert play(trial(world_of(number, limits), limits), perfect(solver)).solved


def test_ways_back_help_a_noisy_solver_and_random_play_is_worse() -> None:
    solved = Counter[str]()
    for number in range(1, 24, 2):
        for name in ("P@1", "T@3"):
            limits = protocol(name)
            solved[name] += play(trial(world_of(number, limits), limits), noisy(Safest(5), 0.4, str(number))).solved
        solved["random"] += play(trial(world_of(number, limits), limits), random_moves(str(number))).solved
    assert solved["T@3"] > solved["P@1"]
    assert solved["T@3"] > solved["random"]


def test_the_scores_around_a_recovery_are_those_of_the_two_branches() -> None:
    limits, compared = Rules(), 0
    for number in range(0, 24, 2):
        found = play(trial(world_of(number, limits), limits), noisy(Shortest(), 0.9, "1"))
        play_again = Sokoban(ROOMS[number // 2 % 12].room, ROOMS[number // 2 % 12].start)

        def nearer(actions: list[Any], game: Sokoban = play_again) -> float:
            game.reset()
            for action in actions:
                game.step(action)
            return game.reference_length - game.table.get(game.checkpoint(), game.reference_length)

        for recovery, after in zip(found.recoveries, found.segments[1:], strict=False):
            compared += 1
            assert recovery.resumed == after.branch
            assert recovery.abandoned == nearer(list(map(tuple, recovery.reflection.history)))
            last = after.calls[-1]
            done = [*map(tuple, last.history), *([last.action] if last.did == "acted" else [])]
            assert after.endpoint == after.branch == nearer(done)
    assert compared


def test_names_of_protocols() -> None:
    assert (protocol("p@1").proactive, protocol("P@1").attempts) == (0, 1)
    assert (protocol("T@3").proactive, protocol("t@3").attempts) == (3, 3)
    for name in ("P@2", "T@0", "T@", "3", ""):
        with pytest.raises(UsageError, match="no protocol"):
            protocol(name)
    with pytest.raises(UsageError, match="at least one call"):
        Rules(calls=0)
