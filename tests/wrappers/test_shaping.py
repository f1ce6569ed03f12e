"""Shaped rewards by hand and as vectors; potentials leave the best policy as it is."""

import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit

import agentgym  # noqa: F401  # registers the environments
from tests.corridor import CorridorEnv
from tests.refusals import refuses
from wrappers.credit import TaskGraphs
from wrappers.shaping import GraphShaping


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


def act(env: gym.Env, info: dict[str, Any], rng: np.random.Generator) -> Any:
    if "admissible_actions" in info:
        return str(rng.choice(["nonsense", *info["admissible_actions"]]))
    return int(rng.choice(4, p=[0.25, 0.4, 0.2, 0.15]))


@pytest.mark.parametrize("env_id", CASES)
def test_sums_over_an_episode_depend_on_its_ends_alone(env_id: str) -> None:
    inner = gym.make(env_id, max_episode_steps=150 if env_id.startswith("Cliff") else None)
    env, rng = GraphShaping(inner, gamma=0.97, decay=0.8, scale=3.0, **CASES[env_id]), np.random.default_rng(0)
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
    refuses(KeyError, "key=lambda observation, info", GraphShaping(gym.make("FrozenLake-v1"), gamma=0.9).reset)
    with pytest.raises(TypeError, match="tobytes"):
        GraphShaping(gym.make("CartPole-v1"), gamma=0.9, key=lambda observation, info: observation).reset()
