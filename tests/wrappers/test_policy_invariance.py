"""Potentials leave the best policy as it is, of graphs or of scorers: small problems solved exactly, with and without.

Rewards are asked of the wrapper itself, for every step that a problem allows.
"""

import itertools
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit
from hypothesis import given
from hypothesis import strategies as st

from tests.corridor import CorridorEnv
from wrappers.credit.task_graph import TaskGraphs
from wrappers.process_reward import ProcessReward
from wrappers.shaping import GraphShaping

ACTIONS = 3


class Frozen(TaskGraphs):
    """Graphs that do not grow: a potential that is fixed while a problem is solved."""

    def add(self, task: Any, state: Any, next_state: Any, success: bool = False) -> None:
        pass


class Problem(gym.Env[int, Any]):
    """States 0..n-1, of which the last is a success and the one before a failure; both end the episode.

    An action of `step` is a pair (action, next state): who asks for rewards chooses what chance does.
    """

    def __init__(self, n: int, rng: np.random.Generator, sparse: bool) -> None:
        self.n = n
        # Few successors per action; some actions stay.
        chance = rng.random((n, ACTIONS, n)) * (rng.random((n, ACTIONS, n)) < 0.4)
        chance[chance.sum(2) == 0, 0] = 1.0
        self.chance = chance / chance.sum(2, keepdims=True)
        self.reward = np.zeros((n, ACTIONS, n)) if sparse else rng.normal(size=(n, ACTIONS, n))
        self.reward[:, :, n - 1] += 1.0
        self.ends = np.arange(n) >= n - 2
        self.observation_space = gym.spaces.Discrete(n)
        self.state = 0

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        self.state = options["state"]
        return self.state, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        action, end = action
        reward, self.state = float(self.reward[self.state, action, end]), end
        return end, reward, bool(self.ends[end]), False, {}


def rewards_of(env: gym.Env, problem: Problem, by_a_step: bool = False) -> np.ndarray:
    """Reward of every (state, action, next state) as the environment pays it, after a reset or a step to the state."""
    found = np.zeros_like(problem.reward)
    for state, action, end in np.argwhere(problem.chance > 0).tolist():
        if not problem.ends[state]:
            env.reset(options={"state": state})
            if by_a_step:
                env.step((0, state))
            found[state, action, end] = env.step((action, end))[1]
    return found


def solve(problem: Problem, reward: np.ndarray, gamma: float) -> np.ndarray:
    """Q values (n, ACTIONS) by iteration to the fixed point; ends are worth 0."""
    value = np.zeros(problem.n)
    for _ in range(4000):
        q = (problem.chance * (reward + gamma * value)).sum(2)
        before, value = value, np.where(problem.ends, 0.0, q.max(1))
        if np.abs(value - before).max() < 1e-14:
            return q
    raise AssertionError("no fixed point")


def best(q: np.ndarray) -> np.ndarray:
    """Which actions are the best of their state, ties included."""
    return q > q.max(1, keepdims=True) - 1e-9


def random_graphs(n: int, rng: np.random.Generator) -> Frozen:
    """Distances that need have nothing to do with the problem: its ends may be near or far as well."""
    graphs = TaskGraphs()
    for state, end in rng.integers(0, n, (2 * n, 2)).tolist():
        graphs.add("", state, end, bool(rng.random() < 0.2))
    frozen = Frozen()
    frozen.load_state_dict(graphs.state_dict())
    return frozen


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(3, 9),
    sparse=st.booleans(),
    gamma=st.sampled_from([0.5, 0.9, 0.97]),
    decay=st.sampled_from([0.3, 0.9, 1.0]),
    scale=st.sampled_from([0.1, 1, 20]),
)
def test_values_move_by_the_potential_and_the_best_actions_stay(seed, n, sparse, gamma, decay, scale) -> None:
    rng = np.random.default_rng(seed)
    problem = Problem(n, rng, sparse)
    graphs = random_graphs(n, rng)
    env = GraphShaping(
        problem, gamma, decay=decay, scale=scale, graphs=graphs, key=lambda observation, info: observation
    )
    distance = np.array([graphs.distance("", state) for state in range(n)])
    potential = np.where(np.isfinite(distance), scale * decay**distance, 0.0)
    plain = solve(problem, rewards_of(problem, problem), gamma)
    shaped = solve(problem, rewards_of(env, problem), gamma)
    inside = ~problem.ends
    np.testing.assert_allclose(shaped[inside], (plain - potential[:, None])[inside], rtol=0, atol=1e-10 * max(1, scale))
    assert (best(shaped)[inside] == best(plain)[inside]).all()


def test_another_discount_than_the_learners_can_change_the_best_action() -> None:
    # The guarantee is not empty: from state 0, action 0 goes to state 1 (near success, yet it never gets there) and
    # comes back; action 1 goes to success at once, for 1. A discount of 1 in the shaping pays 0.9 for the way to 1
    # today and takes it back tomorrow, when the learner counts half of it.
    problem = Problem(4, np.random.default_rng(0), sparse=True)
    problem.chance = np.zeros((4, ACTIONS, 4))
    problem.chance[0, 0, 1] = problem.chance[0, 1:, 3] = problem.chance[1, :, 0] = 1.0
    problem.chance[2:, :, 0] = 1.0
    graphs = TaskGraphs()
    graphs.add("", 1, 3, True)
    frozen = Frozen()
    frozen.load_state_dict(graphs.state_dict())
    chosen = {}
    for gamma in (0.5, 1.0):
        env = GraphShaping(problem, gamma, scale=4.0, graphs=frozen, key=lambda observation, info: observation)
        chosen[gamma] = solve(problem, rewards_of(env, problem), 0.5)[0].argmax()
    # Plain: 1 at once against 0.5 * 0.5 * 1. Shaped with 1: 3.6 + 0.5 * (-3.6) = 1.8 for a round of action 0.
    assert chosen == {0.5: 1, 1.0: 0}


def test_ends_must_be_worth_nothing() -> None:
    # A failure that looks close to success (it leads there in the graph of other episodes): its potential must not be
    # paid, or failing would be better than the way round. The wrapper pays 0 for every end.
    problem = Problem(4, np.random.default_rng(0), sparse=True)
    graphs = TaskGraphs()
    graphs.add("", 2, 3, True)
    env = GraphShaping(problem, 0.9, scale=10.0, graphs=graphs, key=lambda observation, info: observation)
    env.reset(options={"state": 0})
    assert env.step((0, 2))[1] == 0.0
    assert graphs.distance("", 2) == 1
    with pytest.raises(KeyError):
        GraphShaping(problem, 0.9).reset(options={"state": 0})


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(3, 7),
    gamma=st.sampled_from([0.5, 0.97]),
    weight=st.sampled_from([0.1, -1.0, 20.0]),
)
def test_scores_as_levels_move_values_by_the_level_and_the_best_actions_stay(seed, n, gamma, weight) -> None:
    rng = np.random.default_rng(seed)
    problem, level = Problem(n, rng, sparse=False), rng.normal(size=n)
    env = ProcessReward(problem, lambda steps: [level[step.observation] for step in steps], weight, "value", gamma)
    plain = solve(problem, rewards_of(problem, problem), gamma)
    inside = ~problem.ends
    # A state that a step led to is worth less by its level; one that an episode begins in is worth what it was.
    later = solve(problem, rewards_of(env, problem, by_a_step=True), gamma)
    expected = plain - weight * level[:, None]
    np.testing.assert_allclose(later[inside], expected[inside], rtol=0, atol=1e-10 * max(1, weight))
    first = (problem.chance * (rewards_of(env, problem) + gamma * later.max(1) * inside)).sum(2)
    np.testing.assert_allclose(first[inside], plain[inside], rtol=0, atol=1e-10 * max(1, weight))
    assert (best(later)[inside] == best(plain)[inside]).all()
    assert (best(first)[inside] == best(plain)[inside]).all()


@pytest.mark.parametrize(("kind", "gamma"), [("contribution", 0.5), ("value", 1.0)])
def test_scores_of_another_kind_or_discount_can_change_the_best_action(kind: Any, gamma: float) -> None:
    # State 0: action 0 goes to state 1, which the scorer praises with 4, and comes back; the others end, for 1 at once.
    # Levels with the learner's discount, 1/2: 2 + 1/2 (-4) for a round. With discount 1: 4 + 1/2 (-4). As it is: 4.
    problem = Problem(4, np.random.default_rng(0), sparse=True)
    problem.chance = np.zeros((4, ACTIONS, 4))
    problem.chance[0, 0, 1] = problem.chance[0, 1:, 3] = problem.chance[1:, :, 0] = 1.0
    level = [0.0, 4.0, 0.0, 0.0]
    chosen = []
    for asked in ((kind, gamma), ("value", 0.5)):
        env = ProcessReward(problem, lambda steps: [level[step.observation] for step in steps], 1.0, *asked)
        chosen.append(int(solve(problem, rewards_of(env, problem, by_a_step=True), 0.5)[0].argmax()))
    assert chosen == [0, 1]


@pytest.mark.parametrize("limit", [3, 5])
def test_over_an_episode_only_the_last_level_is_left_whatever_was_said_and_not_said(limit: int) -> None:
    # Every way through the corridor, each with a scorer of its own, often silent.
    weight, gamma, seen = 2.0, 0.7, set()
    for number, commands in enumerate(itertools.product(["left", "right", "jump"], repeat=limit)):
        rng = np.random.default_rng(number)
        said = [None if rng.random() < 0.6 else float(rng.normal()) for _ in range(limit)]
        scores = iter(said)
        env = ProcessReward(
            TimeLimit(CorridorEnv(), limit), lambda steps, scores=scores: [next(scores)], weight, "value", gamma
        )
        env.reset(options={"index": 2})
        added, steps, ended = 0.0, 0, False
        while not ended:
            _, reward, terminated, truncated, info = env.step(commands[steps])
            added += gamma**steps * (reward - info["env_reward"])
            steps += 1
            ended = terminated or truncated
        spoken = [score for score in said[:steps] if score is not None]
        last = spoken[-1] if spoken and not terminated else 0.0
        assert added == pytest.approx(weight * gamma**steps * last, abs=1e-12)
        seen.add((terminated, bool(last)))
    assert seen == {(True, False), (False, True), (False, False)}
