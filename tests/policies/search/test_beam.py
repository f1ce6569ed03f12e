import pytest

from policies.search.beam import Beam
from policies.search.budget import Budget
from policies.search.proposals import Listed
from policies.search.value import Value
from tests.policies.search.searching import Priors, commands, search
from tests.policies.search.test_mcts import Sequence


def test_two_levels_worked_by_hand() -> None:
    # From cell 2: cells 1 and 3, scores 1/4 and 3/4; a beam of one keeps 3. From there 2 was met before, and 4 wins.
    (tree,) = search(Beam(width=1, samples=2), value=Value(rollout=0), listed=Listed())
    assert commands(tree.plan()) == ["right", "right"]
    assert tree.cost.steps == 4
    assert sorted(child.key for child in tree.root.children) == ["1", "3"]
    kept = next(child for child in tree.root.children if child.key == "3")
    assert sorted((child.key, child.visits) for child in kept.children) == [("2", 0), ("4", 1)]
    assert next(child for child in tree.root.children if child.key == "1").children == []


def test_a_wider_beam_plays_on_from_both() -> None:
    # Level 1: two steps. Level 2: from 3 and from 1, four steps; 0 and 4 end, 2 was met before: nothing is left.
    (tree,) = search(Beam(width=2, samples=2), value=Value(rollout=0), listed=Listed(), budget=Budget(steps=100))
    assert tree.cost.steps == 6
    assert sorted(child.t for child in tree.root.walk()) == [0, 1, 1, 2, 2, 2, 2]


def test_what_was_gained_on_the_way_counts_too() -> None:
    # By return, after a refused command (-.5) a state is behind one without; both are worth 0 themselves.
    policy = Sequence("jump", "left", "left", "left")
    value = Value("return", gamma=1.0, rollout=0)
    (tree,) = search(Beam(width=1, samples=2, merge=False), start=3, value=value, budget=Budget(steps=3), policy=policy)
    assert [child.action for child in tree.root.children] == ["jump", "left"]
    assert [len(child.children) for child in tree.root.children] == [0, 1]


def test_the_most_probable_of_the_listed_replies_are_taken() -> None:
    (tree,) = search(Beam(width=1, samples=1), value=Value(rollout=0), listed=Priors(0.2))
    assert commands(tree.plan()) == ["right", "right"]
    assert tree.cost.steps == 2


def test_the_budget_ends_it_within_a_level() -> None:
    (tree,) = search(Beam(width=2, samples=2), value=Value(rollout=0), listed=Listed(), budget=Budget(steps=3))
    assert tree.cost.steps == 3


def test_a_beam_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="width=0"):
        Beam(width=0)
