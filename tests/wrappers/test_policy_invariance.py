"""Shaping leaves the best policy as it is: small problems solved exactly, with and without.

Rewards are asked of the wrapper itself, for every step that a problem allows.
"""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wrappers.credit.task_graph import TaskGraphs
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
        self.state = 0

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        self.state = options["state"]
        return self.state, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        action, end = action
        reward, self.state = float(self.reward[self.state, action, end]), end
        return end, reward, bool(self.ends[end]), False, {}


def rewards_of(env: gym.Env, problem: Problem) -> np.ndarray:
    """Reward of every (state, action, next state) as the environment pays it."""
    found = np.zeros_like(problem.reward)
    for state, action, end in np.argwhere(problem.chance > 0).tolist():
        if not problem.ends[state]:
            env.reset(options={"state": state})
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
