"""Shaped rewards by hand and as vectors; potentials leave the best policy as it is."""

import itertools
import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import TimeLimit
from hypothesis import given
from hypothesis import strategies as st

import agentgym  # noqa: F401  # registers the environments
from tests.corridor import CorridorEnv, CorridorVectorEnv
from wrappers.credit import TaskGraphs
from wrappers.process_reward import ProcessReward
from wrappers.shaping import GraphShaping, VectorGraphShaping


def cell(observation: Any, info: dict[str, Any]) -> int:
    return int(observation)


def over(reward: float, terminated: bool, info: dict[str, Any]) -> bool:
    return terminated


def shapings(env: gym.Env, commands: str, **options: Any) -> list[float]:
    """Shaping of each step of an episode in the corridor; l, r and j are its commands."""
    env.reset(options={"index": 2, **options})
    words = {"l": "left", "r": "right", "j": "jump"}
    return [env.step(words[letter])[4]["shaping"] for letter in commands]


def test_a_corridor_by_hand() -> None:
    # Potentials are 1/2 to the distance, the discount is 1/2 as well; from cell 2 on.
    env = GraphShaping(CorridorEnv(), gamma=0.5, decay=0.5)
    # Nothing is known of the way, and what ends has no potential.
    assert shapings(env, "rr") == [0.0, 0.0]
    # Now phi(2) = 1/4 and phi(3) = 1/2: 1/2 * 1/2 - 1/4, then 0 - 1/2.
    assert shapings(env, "rr") == [0.0, -0.5]
    # left:  cell 1 is new, 0 - 1/4.            right: 1/2 * 1/4 - 0: nothing had been paid for cell 1.
    # jump:  stays, 1/2 * 1/4 - 1/4.            left:  meanwhile phi(1) = 1/8: 1/2 * 1/8 - 1/4.
    # left:  the failure in cell 0, 0 - 1/8.
    assert shapings(env, "lrjll") == [-0.25, 0.125, -0.125, -0.1875, -0.125]
    assert env.graphs.distances("start-2") == {"2": 2, "3": 1, "4": 0, "1": 3, "0": np.inf}
    env = GraphShaping(CorridorEnv(), gamma=0.5, decay=1.0)
    assert shapings(env, "rr") == [0.0, 0.0]  # no way is known: no potential
    # phi(2) = phi(3) = 1: 1/2 - 1, then 0 - 1; cell 1 is new: 0 - 1.
    assert (shapings(env, "rr"), shapings(env, "l")) == ([-0.5, -1.0], [-1.0])
    env = GraphShaping(CorridorEnv(), gamma=0.5, decay=0.5, scale=2.0)
    shapings(env, "rr")
    _, info = env.reset(options={"index": 2})
    assert (info["shaping"], info["unshaped_reward"], env.potential) == (0.0, 0.0, 0.5)
    _, reward, _, _, info = env.step("jump")  # the corridor charges 0.5 for a jump
    assert (reward, info["shaping"], info["unshaped_reward"]) == (-0.75, -0.25, -0.5)
    env = GraphShaping(CorridorEnv(), gamma=0.9, scale=0.0)
    assert shapings(env, "rr") + shapings(env, "jrr") == [0.0] * 5
    assert env.graphs.distance("start-2", "2") == 2
    for truncation, last in (("keep", 0.5 * 0.5 - 0.25), ("zero", -0.25)):
        env = GraphShaping(TimeLimit(CorridorEnv(), 1), gamma=0.5, decay=0.5, truncation=truncation)
        for state, end, won in (("2", "3", False), ("3", "4", True)):
            env.graphs.add("start-2", state, end, won)
        assert shapings(env, "r") == [last]
    # An episode that is won in its last step ends for good.
    env = GraphShaping(TimeLimit(CorridorEnv(), 2), gamma=0.5, decay=0.5)
    shapings(env, "rr")
    assert shapings(env, "rr") == [0.0, -0.5]


CASES = {"AgentRL/Sokoban-v0": {}, "FrozenLake-v1": {"key": cell}, "CliffWalking-v1": {"key": cell, "success": over}}


def make(env_id: str, **options: Any) -> GraphShaping:
    limit = {"max_episode_steps": 150} if env_id.startswith("Cliff") else {}
    return GraphShaping(gym.make(env_id, **limit), **{"gamma": 0.97, **CASES[env_id], **options})


def act(env: gym.Env, info: dict[str, Any], rng: np.random.Generator) -> Any:
    if "admissible_actions" in info:
        return str(rng.choice(["nonsense", *info["admissible_actions"]]))
    return int(rng.choice(4, p=[0.25, 0.4, 0.2, 0.15]))


@pytest.mark.parametrize("env_id", CASES)
def test_sums_over_an_episode_depend_on_its_ends_alone(env_id: str) -> None:
    env, rng = make(env_id, decay=0.8, scale=3.0), np.random.default_rng(0)
    seen = set()
    for episode in range(150):
        options = {"index": int(rng.integers(2))} if "Sokoban" in env_id else None
        _, info = env.reset(seed=episode, options=options)
        first, total, discount, ended = env.potential, 0.0, 1.0, False
        while not ended:
            _, reward, terminated, truncated, info = env.step(act(env, info, rng))
            assert reward == pytest.approx(info["unshaped_reward"] + info["shaping"])
            total += discount * info["shaping"]
            discount *= env.vector.gamma
            ended = terminated or truncated
        assert not terminated or env.potential == 0.0
        assert total == pytest.approx(discount * env.potential - first, abs=1e-12)
        seen.add((terminated, first > 0, env.potential > 0))
    # With and without a known way at the start; FrozenLake is never cut off in a hundred steps.
    assert {(True, False, False), (True, True, False)} <= seen
    assert env_id == "FrozenLake-v1" or (False, True, True) in seen


@pytest.mark.parametrize("env_id", CASES)
def test_gymnasiums_check(env_id: str) -> None:
    check_env(make(env_id), skip_render_check=True)


def test_pickles_specifications_and_shared_graphs() -> None:
    env = GraphShaping(CorridorEnv(), gamma=0.5, decay=0.5)
    shapings(env, "rr")
    env.reset(options={"index": 2})
    again = pickle.loads(pickle.dumps(env))
    assert env.step("right")[1] == again.step("right")[1] == 0.0
    again.graphs.add("start-2", "3", "elsewhere")
    assert env.graphs.n_edges == again.graphs.n_edges - 1
    env = GraphShaping(gym.make("AgentRL/Sokoban-v0"), gamma=0.5, decay=0.25, scale=2.0, truncation="zero")
    env.graphs.add("t", 0, 1, True)
    again = gym.make(env.spec)
    assert isinstance(again, GraphShaping)
    assert again.graphs is not env.graphs
    for name in ("gamma", "decay", "scale", "key", "task", "success", "truncation"):
        assert getattr(again.vector, name) == getattr(env.vector, name)
    assert len(again.graphs) == 0
    graphs = TaskGraphs()
    one, other = (GraphShaping(CorridorEnv(), gamma=0.5, decay=0.5, graphs=graphs) for _ in range(2))
    shapings(one, "rr")
    assert shapings(other, "rr") == [0.0, -0.5]
    with pytest.raises(KeyError, match="key=lambda observation, info"):
        GraphShaping(gym.make("FrozenLake-v1"), gamma=0.9).reset()
    with pytest.raises(TypeError, match="tobytes"):
        GraphShaping(gym.make("CartPole-v1"), gamma=0.9, key=lambda observation, info: observation).reset()


def test_finished_sub_envs_are_left_alone_when_nothing_resets_them() -> None:
    envs = VectorGraphShaping(CorridorVectorEnv(2, autoreset_mode=AutoresetMode.DISABLED), gamma=0.5, decay=0.5)
    for _ in range(2):
        envs.reset(options={"index": 2})
        envs.step(["right", "left"])
        _, rewards, *_, infos = envs.step(["right", "right"])
    # Second round: 0 wins and gives back phi(3) = 1/2; 1 comes back to cell 2, for which 1/4 is paid at
    # half its value, from cell 1, for which phi = 1/8 was paid (its way back was seen in the first round).
    assert rewards.tolist() == [0.5, 0.0]
    _, rewards, *_, infos = envs.step(["", "left"])
    # 1/2 * 1/8 - 1/4
    assert (rewards.tolist(), infos["shaping"].tolist()) == ([0.0, -0.1875], [0.0, -0.1875])
    edges = envs.graphs.n_edges
    _, infos = envs.reset(options={"reset_mask": np.array([True, False]), "index": 2})
    assert (envs.potential.tolist(), envs.graphs.n_edges) == ([0.25, 0.125], edges)


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
