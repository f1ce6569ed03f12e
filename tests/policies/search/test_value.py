import numpy as np
import pytest

from policies.search.best_of_n import BestOfN
from policies.search.budget import Budget
from policies.search.mcts import MCTS
from policies.search.value import Value
from tests.policies.search.searching import Priors, search
from tests.policies.search.test_mcts import Sequence


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
    with pytest.raises(ValueError, match="1 finite numbers"):
        search(MCTS(), value=value, budget=Budget(steps=1))


@pytest.mark.parametrize(
    ("options", "words"),
    [({"outcome": "luck"}, "unknown outcome"), ({"gamma": 1.1}, "gamma"), ({"rollout": -1}, "rollout")],
)
def test_wrong_options_say_what_was_expected(options, words) -> None:
    with pytest.raises(ValueError, match=words):
        Value(**options)
