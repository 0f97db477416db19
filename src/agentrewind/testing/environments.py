"""The contract of an environment, to be run on any: subclass `EnvironmentContract` and name its factory.

A subclass may be given more sequences or longer ones: `sequences` and `length`; where a step is slow, `tried` says how
many of the legal actions of a state are looked at.
"""

from __future__ import annotations

import random
from typing import Any, ClassVar

import pytest

from agentrewind.core.environment import Branch, Environment, IllegalAction

Any_ = Environment[Any, Any]


class EnvironmentContract:
    """Every promise of `Environment`. A subclass writes `environment` and `nonsense`."""

    sequences: ClassVar[int] = 20
    length: ClassVar[int] = 12
    tried: ClassVar[int | None] = None

    def environment(self, number: int) -> Any_:
        """A new environment on instance `number`, each time the same."""
        raise NotImplementedError

    def nonsense(self) -> list[Any]:
        """Actions that mean nothing in any state."""
        raise NotImplementedError

    def walked(self, number: int) -> tuple[Any_, list[Any]]:
        """An environment after a random walk, and the actions of the walk."""
        environment, draws = self.environment(number), random.Random(number)
        actions: list[Any] = []
        for _ in range(draws.randrange(self.length + 1)):
            legal = list(environment.actions())
            if not legal:
                break
            actions.append(draws.choice(legal))
            environment.step(actions[-1])
        return environment, actions

    def seen(self, environment: Any_) -> tuple[Any, ...]:
        """All that can be known of the present state."""
        state = (environment.fingerprint(), environment.observe(), list(environment.actions()))
        return (*state, environment.outcome, environment.progress())

    def test_a_reset_goes_to_the_initial_state(self) -> None:
        for number in range(self.sequences):
            environment, _ = self.walked(number)
            observation = environment.reset()
            assert observation == environment.observe()
            assert self.seen(environment) == self.seen(self.environment(number))

    def test_equal_actions_give_equal_transitions(self) -> None:
        for number in range(self.sequences):
            environment, actions = self.walked(number)
            again = self.environment(number)
            last = [again.step(action) for action in actions][-1:]
            assert self.seen(again) == self.seen(environment)
            assert all(item.observation == environment.observe() for item in last)
            assert all(item.outcome == environment.outcome for item in last)

    def test_a_checkpoint_is_a_value_that_later_steps_do_not_change(self) -> None:
        for number in range(self.sequences):
            environment, _ = self.walked(number)
            checkpoint, before = environment.checkpoint(), self.seen(environment)
            assert hash(checkpoint) == hash(environment.checkpoint())
            for action in list(environment.actions())[:1]:
                environment.step(action)
            environment.restore(checkpoint)
            assert self.seen(environment) == before

    def test_random_steps_and_restores_equal_a_model_that_keeps_every_state(self) -> None:
        for number in range(self.sequences):
            environment, draws = self.environment(number), random.Random(number)
            kept = [(environment.checkpoint(), self.seen(environment))]
            for _ in range(self.length):
                legal = list(environment.actions())
                if legal and draws.random() < 0.7:
                    environment.step(draws.choice(legal))
                    kept.append((environment.checkpoint(), self.seen(environment)))
                else:
                    checkpoint, known = draws.choice(kept)
                    environment.restore(checkpoint)
                    assert self.seen(environment) == known

    def test_what_changed_nothing_says_so_and_legal_actions_change_something(self) -> None:
        for number in range(self.sequences):
            environment, _ = self.walked(number)
            checkpoint, before = environment.checkpoint(), environment.fingerprint()
            legal = list(environment.actions())
            count = len(legal) if self.tried is None else min(self.tried, len(legal))
            for action in random.Random(number).sample(legal, count):
                moved = environment.step(action).moved
                assert moved
                assert environment.fingerprint() != before
                environment.restore(checkpoint)

    def test_nonsense_is_refused_in_one_sentence_and_changes_nothing(self) -> None:
        for number in range(self.sequences):
            environment, _ = self.walked(number)
            before = self.seen(environment)
            for action in self.nonsense():
                with pytest.raises(IllegalAction) as refusal:
                    environment.step(action)
                assert str(refusal.value).endswith(".")
                assert self.seen(environment) == before

    def test_an_attempt_that_has_ended_takes_no_action_until_it_goes_back(self) -> None:
        ended = 0
        for number in range(self.sequences * 5):
            environment, actions = self.walked(number)
            if environment.outcome is None:
                continue
            ended += 1
            assert list(environment.actions()) == []
            with pytest.raises(IllegalAction):
                environment.step(actions[-1])
            environment.reset()
            assert self.seen(environment) == self.seen(self.environment(number))
        assert ended or not self.can_end_by_chance()

    def can_end_by_chance(self) -> bool:
        """Whether so many random walks are expected to end an attempt."""
        return True

    def test_progress_is_a_share_and_is_whole_where_it_is_solved(self) -> None:
        for number in range(self.sequences):
            environment, _ = self.walked(number)
            assert 0 <= environment.progress() <= 1
            assert (environment.progress() == 1) == (environment.outcome == "solved")

    def test_the_scores_of_a_branch_without_a_decision_do_not_differ_between_branches(self) -> None:
        for number in range(self.sequences):
            environment, _ = self.walked(number)
            anchor: Branch[Any] = Branch((environment.checkpoint(),), ())
            assert environment.branch_score(anchor) == environment.branch_score(anchor)
            assert isinstance(environment.endpoint_score(anchor), float | int)
