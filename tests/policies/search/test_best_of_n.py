import pytest

from policies.search.best_of_n import BestOfN
from policies.search.budget import Budget
from policies.search.value import Value
from tests.policies.search.searching import commands, search
from tests.policies.search.test_mcts import Sequence


def test_the_shortest_of_the_won_attempts_is_kept() -> None:
    # From cell 3: lost in three steps, won in three, won in one, won in three: gamma^3 < gamma^1.
    policy = Sequence(*["left"] * 3, *["left", "right", "right"], "right", *["left", "right", "right"])
    (tree,) = search(BestOfN(4), start=3, budget=Budget(steps=50), policy=policy)
    assert [(end.t, end.won) for end in tree.ends] == [(3, False), (3, True), (1, True), (3, True)]
    assert commands(tree.plan()) == ["right"]
    assert (tree.cost.steps, tree.cost.simulations) == (10, 4)
    assert tree.root.visits == 4
    assert tree.root.value == pytest.approx((0 + 0.99**3 + 0.99 + 0.99**3) / 4)


def test_without_success_the_best_score_is_kept_and_the_last_attempt_is_cut_by_the_budget() -> None:
    # A limit of two steps: cells 0 (score 0), 2 (score 1/2), then a budget of five steps ends the third in cell 3.
    policy = Sequence("left", "left", "right", "left", "right", "right")
    (tree,) = search(BestOfN(9), start=2, budget=Budget(steps=5), policy=policy, limit=2)
    assert [(end.key, end.ended) for end in tree.ends] == [("0", True), ("2", True), ("3", False)]
    assert tree.cost.steps == 5
    assert tree.best.key == "3"  # .99 * 3/4 against .99^2 * 1/2


def test_it_ends_with_the_first_success_if_that_is_enough() -> None:
    policy = Sequence("left", "left", "right", "right")
    (tree,) = search(BestOfN(9), policy=policy, until_won=True)
    assert (tree.cost.simulations, tree.cost.steps) == (2, 4)


def test_attempts_are_whole_whatever_rollouts_are_asked_for() -> None:
    (tree,) = search(BestOfN(3), value=Value(rollout=0))
    assert all(end.ended for end in tree.ends)


def test_no_attempt_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least 1, got 0"):
        BestOfN(0)
