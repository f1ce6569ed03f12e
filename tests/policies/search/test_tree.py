"""Budgets and values of searches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.search.methods import MCTS, BestOfN
from policies.search.tree import Budget, Cost, Value
from tests.policies.search.searching import Priors, search
from tests.policies.search.test_methods import Sequence
from tests.refusals import refuses


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.floats(0.001, 1.0))
def test_a_share_is_never_more_than_what_is_left_nor_nothing_of_something(steps, spent, share) -> None:
    left = Budget(steps=steps).left(Cost(steps=spent), share).steps
    assert left is not None
    assert min(1, max(0, steps - spent)) <= left <= max(0, steps - spent)


def test_costs_and_limits() -> None:
    budget = Budget(steps=10, tokens=20)
    assert budget.allows(Cost(steps=9, tokens=15), 1, 5)
    assert not budget.allows(Cost(steps=10), 1)
    assert not budget.allows(Cost(tokens=18), 1, 3)
    assert Budget(tokens=5).allows(Cost(steps=10**9))
    cost = Cost(1, 2, 3, 4)
    cost.add(Cost(10, 20, 30, 40))
    assert cost == Cost(11, 22, 33, 44)


@given(steps=st.integers(0, 50), tokens=st.integers(0, 50), count=st.integers(1, 9))
def test_parts_are_as_equal_as_can_be_and_together_the_whole(steps, tokens, count) -> None:
    parts = Budget(steps=steps, tokens=tokens).parts(count)
    for name, whole in (("steps", steps), ("tokens", tokens)):
        given = [getattr(part, name) for part in parts]
        assert len(given) == count
        assert sum(given) == whole
        assert max(given) - min(given) <= 1


@pytest.mark.parametrize("limits", [{}, {"steps": -1}, {"tokens": -5}])
def test_a_budget_limits_something(limits) -> None:
    refuses(ValueError, "budget of steps or tokens", Budget, **limits)


@pytest.mark.parametrize(("outcome", "worth"), [("score", 0.75), ("won", 0.0), ("return", 0.0)])
def test_a_state_in_which_the_episode_goes_on_counts_as_it_stands(outcome, worth) -> None:
    (tree,) = search(MCTS(), value=Value(outcome, rollout=0), budget=Budget(steps=1), listed=Priors(0.1))
    assert tree.root.children[0].value == worth  # cell 3 of 4


def test_rewards_on_the_way_are_returned_discounted() -> None:
    # From cell 3: a refused command (-.5), then won (1): -.5 + .5 * 1 = 0.
    (tree,) = search(BestOfN(1), start=3, value=Value("return", gamma=0.5), policy=Sequence("jump", "right"))
    assert tree.root.value == 0.0


def test_a_rollout_of_two_steps_is_judged_where_it_ends() -> None:
    # From cell 1: right (the tree's step), right, left: cell 2 of 4, two steps later.
    policy = Sequence("right", "right", "left")
    value = Value(gamma=0.5, rollout=2)
    (tree,) = search(MCTS(), start=1, value=value, budget=Budget(steps=3), policy=policy)
    assert tree.root.children[0].value == 0.5**2 * 0.5
    assert tree.root.value == 0.5**3 * 0.5


def test_a_critic_judges_states_in_which_the_episode_goes_on_and_no_others() -> None:
    asked = []

    def critic(observations, infos):
        asked.extend(zip(observations, infos["state_key"], strict=True))
        return [0.9] * len(observations)

    value = Value("won", gamma=1.0, rollout=0, critic=critic)
    (tree,) = search(MCTS(), start=3, value=value, budget=Budget(steps=2), listed=Priors(0.6))
    assert asked == [("cell 2", "2")]
    # .9 for cell 2; then, with Q = .9 + .6 * 1.5 / 2 against .9 + .4 * 1.5, right: won, 1.
    assert {child.key: child.value for child in tree.root.children} == {"2": 0.9, "4": 1.0}


@pytest.mark.parametrize("answer", [[0.5, 0.5], [np.nan]])
def test_a_critic_that_answers_something_else_is_an_error(answer) -> None:
    value = Value(rollout=0, critic=lambda observations, infos: answer)
    refuses(ValueError, "1 finite numbers", lambda: search(MCTS(), value=value, budget=Budget(steps=1)))


@pytest.mark.parametrize(
    ("options", "words"),
    [({"outcome": "luck"}, "unknown outcome"), ({"gamma": 1.1}, "gamma"), ({"rollout": -1}, "rollout")],
)
def test_wrong_options_say_what_was_expected(options, words) -> None:
    refuses(ValueError, words, Value, **options)
