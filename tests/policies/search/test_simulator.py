"""Simulations side by side, and listed replies."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.trajectory import Reply
from policies.scripted import RandomPolicy, tagged
from policies.search.lessons import to_table
from policies.search.methods import MCTS, Beam, BestOfN
from policies.search.simulator import Listed, Simulator
from policies.search.tree import Budget, Value
from tests.policies.search.searching import Priors, make, search
from tests.refusals import refuses


class Writer:
    """Walks at random in replies of one to three tokens."""

    class settings:  # noqa: N801  # as of a language model
        max_new_tokens = 3

    def act(self, observations, infos, rng):
        sides = [("left", "right")[side] for side in rng.integers(2, size=len(observations))]
        lengths = rng.integers(1, 4, size=len(observations)).tolist()
        return [Reply(tagged(side), token_ids=(7,) * n) for side, n in zip(sides, lengths, strict=True)]


@given(
    method=st.sampled_from([MCTS(), Beam(2, 2), BestOfN(50)]),
    steps=st.one_of(st.none(), st.integers(0, 40)),
    tokens=st.integers(0, 60),
    num_envs=st.integers(1, 6),
    listed=st.sampled_from([None, Listed()]),
    seed=st.integers(0, 3),
)
def test_no_budget_of_steps_or_tokens_is_exceeded(method, steps, tokens, num_envs, listed, seed) -> None:
    budget = Budget(steps=steps, tokens=tokens)
    for tree in search(method, num_envs=num_envs, trees=2, budget=budget, policy=Writer(), listed=listed, seed=seed):
        assert tree.cost.tokens <= tokens
        assert steps is None or tree.cost.steps <= steps
        assert all(node.pending == 0 for node in tree.root.walk())
        if tree.cost.steps:
            assert len(to_table([tree])) == tree.cost.steps


def test_a_budget_is_used_up_where_the_search_could_go_on() -> None:
    (tree,) = search(BestOfN(1000), num_envs=4, budget=Budget(steps=57))
    assert tree.cost.steps == 57
    (tree,) = search(BestOfN(1000), num_envs=4, budget=Budget(tokens=57), policy=Writer())
    assert 57 - 3 < tree.cost.tokens <= 57


@pytest.mark.parametrize("listed", [None, Priors(0.6)])
@pytest.mark.parametrize("num_envs", [2, 5, 9])
def test_one_simulation_at_a_time_is_as_if_each_tree_were_alone(num_envs, listed) -> None:
    options = {"budget": Budget(steps=30), "listed": listed, "under_way": 1}
    (alone,) = search(MCTS(), **options)
    for tree in search(MCTS(), trees=5, num_envs=num_envs, **options):
        assert [(node.key, node.visits, node.total) for node in tree.root.walk()] == [
            (node.key, node.visits, node.total) for node in alone.root.walk()
        ]


def test_simulations_of_a_simulator_that_was_used_before_are_the_same() -> None:
    played = make(2)
    played.reset(seed=0, options={"index": 2})
    states = [played.snapshot(0), played.snapshot(1)]
    simulator = Simulator(make(3), RandomPolicy(), value=Value(), listed=Listed())

    def run():
        def plant(root, task):
            return MCTS().tree(root, task, Value(), Budget(steps=20), np.random.default_rng(1))

        return simulator.run(states, plant, until_won=False)

    first, second = run(), run()
    assert [[end.key for end in tree.ends] for tree in first] == [[end.key for end in tree.ends] for tree in second]


class Partly:
    """Lists commands in odd cells only; elsewhere the policy is asked."""

    def replies(self, observations, infos):
        both = [Reply(tagged("left")), Reply(tagged("right"))]
        odd = [text in ("cell 1", "cell 3") for text in observations]
        return (
            [list(both) if each else [] for each in odd],
            [[0.5, 0.5] if each else [] for each in odd],
            [0] * len(odd),
        )


@pytest.mark.parametrize("start", [1, 2, 3])
def test_where_some_states_list_their_replies_and_others_do_not_each_gets_its_own(start) -> None:
    for tree in search(MCTS(), start=start, trees=3, num_envs=7, budget=Budget(steps=60), listed=Partly()):
        for node in tree.root.walk():
            assert (node.untried is not None) == (node.key in "13" and not node.ended and not _merged(node))


def _merged(node):
    return node.closed and not node.visits


class TooLong:
    """Writes nothing in cell 3, where its prompt does not fit."""

    def act(self, observations, infos, rng):
        return [
            Reply("", finish="prompt-too-long") if text == "cell 3" else Reply(tagged("right")) for text in observations
        ]


def test_prompts_and_environments_that_cannot() -> None:
    (tree,) = search(BestOfN(1), start=1, policy=TooLong())
    assert [(end.key, end.t, end.ended) for end in tree.ends] == [("3", 2, False)]
    (tree,) = search(MCTS(draws=2), start=3, policy=TooLong())
    assert (tree.cost.steps, tree.root.closed) == (0, True)
    envs = gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1")])
    refuses(TypeError, "snapshot", lambda: Simulator(envs, RandomPolicy(), value=Value()))
    refuses(KeyError, "leave the list out", lambda: Listed().replies(["board"], {"won": np.array([False])}))
    replies, priors, tokens = Listed().replies(
        ["board"] * 2, {"admissible_actions": objects((), ("up", "down", "left"))}
    )
    assert (replies[0], priors[0]) == ([], [])
    assert (len(replies[1]), priors[1], tokens) == (3, [1 / 3] * 3, [0, 0])


def objects(*values):
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def test_a_policys_probabilities_are_shared_among_the_listed_commands() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from policies.tiny import tiny_policy

    policy = tiny_policy(["a b", "c"], seed=0, extra_words=["up", "down", "left"], width=16, layers=1, heads=2)
    boards, infos = ["a b", "c", "a"], {"admissible_actions": objects(("up", "down"), ("left",), ())}
    replies, priors, tokens = Listed(policy).replies(boards, infos)
    assert [[reply.text for reply in each] for each in replies] == [
        [tagged("up"), tagged("down")], [tagged("left")], [],
    ]  # fmt: skip
    assert priors[1:] == [[1.0], []]
    first, second = (policy.score([reply.prompt_ids], [reply.token_ids]).logprobs.sum() for reply in replies[0])
    odds = torch.exp(first - second).item()
    assert priors[0] == pytest.approx([odds / (1 + odds), 1 / (1 + odds)], rel=1e-5)
    assert tokens == [sum(len(reply.token_ids) for reply in each) for each in replies]
    assert all(reply.prompt_ids for each in replies for reply in each)
