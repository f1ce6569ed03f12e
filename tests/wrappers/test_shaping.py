"""Scores and potentials added to rewards: by hand, for all kinds and autoreset modes, and what must not change."""

import functools
import math
import pickle
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv
from gymnasium.wrappers import TimeLimit, TransformAction

from tests.cases import cases
from tests.corridor import CorridorEnv
from tests.playing import SAME_STEP, begun, corridor
from tests.refusals import refuses
from wrappers.credit import TaskGraphs
from wrappers.process_reward import ProcessReward, ScoredStep, VectorProcessReward
from wrappers.prompt import PromptWindow, VectorPromptWindow
from wrappers.reply import ReplyParser, VectorReplyParser
from wrappers.shaping import GraphShaping

NAN = float("nan")


def cells(steps: Sequence[ScoredStep]) -> list[float]:
    """The level of a corridor's cell is its number in quarters."""
    return [int(str(step.observation).removeprefix("cell ")) / 4 for step in steps]


class Says:
    """Answers what it was given, call by call, and keeps what it was asked; an exception is raised."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[list[ScoredStep]] = []

    def __call__(self, steps: Sequence[ScoredStep]) -> Any:
        self.asked.append(list(steps))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_contributions_and_values_by_hand() -> None:
    says = Says([0.5], [None], [-2.0])
    env = ProcessReward(CorridorEnv(), says, weight=2.0)
    _, info = env.reset(options={"index": 2})
    assert (math.isnan(info["process_reward"]), info["env_reward"]) == (True, 0.0)
    _, reward, _, _, info = env.step("jump")  # the corridor charges 0.5
    assert (reward, info["env_reward"], info["process_reward"]) == (0.5, -0.5, 0.5)
    _, reward, _, _, info = env.step("right")
    assert (reward, info["env_reward"], math.isnan(info["process_reward"])) == (0.0, 0.0, True)
    _, reward, terminated, _, info = env.step("right")
    assert (reward, terminated, info["env_reward"], info["process_reward"]) == (-3.0, True, 1.0, -2.0)
    assert env.potential == 0.0
    env = ProcessReward(CorridorEnv(), Says([0.25]), weight=2.0, kind="advantage", gamma=0.5)
    env.reset(options={"index": 2})
    assert env.step("left")[1] == 0.5
    # What is said: 2, nothing, 4, 1, and 8 of the end, which counts as 0. gamma 1/2, weight 3.
    says = Says([2.0], [NAN], [4.0], [1.0], [8.0])
    env = begun(ProcessReward(CorridorEnv(), says, weight=3.0, kind="value", gamma=0.5), options={"index": 1})
    rewards, potentials = [], []
    for command in ("right", "right", "left", "left", "left"):
        _, reward, terminated, _, info = env.step(command)
        rewards.append(reward)
        potentials.append(env.potential)
    # 3 (1 - 0), 3 (1 - 2), 3 (2 - 2), 3 (1/2 - 4), 3 (0 - 1)
    assert (rewards, potentials) == ([3.0, -3.0, 0.0, -10.5, -3.0], [2.0, 2.0, 4.0, 1.0, 0.0])
    assert terminated
    assert info["process_reward"] == 8.0
    # Where the episode is over the level is paid back, though nothing is said.
    env = begun(ProcessReward(CorridorEnv(), Says([1.0], [None]), kind="value", gamma=0.5), options={"index": 2})
    env.step("right")
    _, reward, terminated, _, info = env.step("right")
    assert (reward, terminated, env.potential, math.isnan(info["process_reward"])) == (0.0, True, 0.0, True)
    env = ProcessReward(TimeLimit(CorridorEnv(), 2), Says([1.0], [8.0]), kind="value", gamma=0.5)
    env.reset(options={"index": 2})
    env.step("left")
    _, reward, terminated, truncated, _ = env.step("right")
    assert (reward, terminated, truncated, env.potential) == (3.0, False, True, 8.0)
    env.reset()
    assert env.potential == 0.0


def test_the_scorer_sees_prompts_replies_and_commands() -> None:
    says = Says([0.0], [0.0], [0.0])
    inner = PromptWindow(ReplyParser(CorridorEnv()), instructions=False, history=1)
    env = ProcessReward(inner, says)
    first, _ = env.reset(options={"index": 2})
    second = env.step("<think>on</think><action>right</action>")[0]
    third = env.step("no tags")[0]
    fourth = env.step("<action>right</action>")[0]
    assert [step for [step] in says.asked] == [
        ScoredStep("start-2", first, "<think>on</think><action>right</action>", "right", second, False),
        ScoredStep("start-2", second, "no tags", "", third, False),
        ScoredStep("start-2", third, "<action>right</action>", "right", fourth, True),
    ]
    assert first[0]["content"] == "cell 2"
    assert fourth[0]["content"].endswith("cell 4")
    says = Says([0.0])
    env = begun(ProcessReward(CorridorEnv(), says), options={"index": 1})
    env.step("left")
    assert says.asked == [[ScoredStep("start-1", "cell 1", "left", "left", "cell 0", True)]]
    with pytest.raises(AttributeError):
        says.asked[0][0].reply = "right"  # type: ignore[misc]
    says = Says([0.0, 0.0])
    inner = VectorPromptWindow(VectorReplyParser(corridor(2, SAME_STEP)), instructions=False, history=1)
    envs = VectorProcessReward(inner, says)
    shown, _ = envs.reset(options={"index": 3})
    after, *_, infos = envs.step(["<action>right</action>", "right"])
    last, stays = says.asked[0]
    assert last == ScoredStep("start-3", shown[0], "<action>right</action>", "right", infos["final_obs"][0], True)
    assert stays == ScoredStep("start-3", shown[1], "right", "", after[1], False)


@pytest.mark.parametrize("kind", ["contribution", "value"])
def test_weight_0_only_watches(kind: Any) -> None:
    rng, weight = np.random.default_rng(0), -0.0
    makers = [functools.partial(gym.make, "CartPole-v1", max_episode_steps=20)] * 2
    plain: Any = SyncVectorEnv(makers)
    watched = VectorProcessReward(SyncVectorEnv(makers), lambda steps: [0.3] * len(steps), weight, kind, 0.9)
    singles = [gym.make("CartPole-v1"), ProcessReward(gym.make("CartPole-v1"), lambda steps: [0.3], weight, kind, 0.9)]
    for envs in (plain, watched, *singles):
        envs.reset(seed=3)
    for _ in range(60):
        actions = rng.integers(0, 2, 2)
        (_, expected, *_), (_, rewards, *_, infos) = plain.step(actions), watched.step(actions)
        assert (rewards.dtype, rewards.tobytes()) == (expected.dtype, expected.tobytes())
    assert 0.3 in infos["process_reward"]
    rewards = [env.step(1)[1] for env in singles]
    assert rewards[0] == rewards[1]
    assert type(rewards[0]) is type(rewards[1])


def test_weight_0_keeps_the_sign_of_a_zero() -> None:
    class Signed(CorridorEnv):
        def act(self, command: str) -> tuple[float, bool, bool]:
            return -0.0, False, True

    env = ProcessReward(Signed(), lambda steps: [1.0], weight=0.0)
    env.reset()
    assert math.copysign(1.0, env.step("left")[1]) == -1.0
    envs = VectorProcessReward(SyncVectorEnv([Signed] * 2), lambda steps: [1.0] * 2, weight=0.0)
    envs.reset()
    assert np.signbit(envs.step(["left"] * 2)[1]).all()


def test_observations_that_are_written_over_are_kept() -> None:
    says = Says([0.0], [0.0])
    envs = VectorProcessReward(SyncVectorEnv([functools.partial(gym.make, "CartPole-v1")], copy=False), says)
    first = envs.reset(seed=0)[0].copy()
    second = envs.step(np.array([1]))[0].copy()
    envs.step(np.array([1]))
    assert says.asked[0][0].task_id == ""
    np.testing.assert_array_equal(says.asked[0][0].messages, first[0])
    np.testing.assert_array_equal(says.asked[1][0].messages, second[0])
    assert (says.asked[1][0].messages != says.asked[1][0].observation).any()


def test_specifications_and_pickles_go_on() -> None:
    scorer = Says([3.0])
    inner = TransformAction(gym.make("FrozenLake-v1"), int, gym.spaces.Discrete(4))
    again = gym.make(ProcessReward(inner, scorer, 0.5, "value", 0.9).spec)
    assert isinstance(again, ProcessReward)
    assert again.vector.scorer is scorer
    assert (again.vector.weight, again.vector.kind, again.vector.gamma) == (0.5, "value", 0.9)
    env = begun(ProcessReward(CorridorEnv(), cells, kind="value"), options={"index": 2})
    env.step("right")
    again = pickle.loads(pickle.dumps(env))
    assert env.step("left")[1] == again.step("left")[1] == -0.25


def test_errors_of_scorers_name_places_and_steps() -> None:
    cause = ConnectionError("no answer")
    envs = begun(VectorProcessReward(corridor(3), Says([0.0] * 3, [0.0] * 3, cause)), options={"index": 2})
    envs.step(["left", "jump", "jump"])
    envs.step(["left", "jump", "jump"])  # 0 has lost
    envs.reset(options={"reset_mask": np.array([False, True, False]), "index": 2})
    with pytest.raises(RuntimeError) as caught:
        envs.step(["", "jump", "jump"])
    assert str(caught.value) == (
        "the scorer failed on sub-environment 1 (step 1 of its episode), sub-environment 2 (step 3 of its episode): "
        "ConnectionError: no answer"
    )
    assert caught.value.__cause__ is cause
    env = begun(ProcessReward(CorridorEnv(), Says([1.0], KeyError("x"))), options={"index": 2})
    env.step("jump")
    refuses(RuntimeError, "failed on step 2 of the episode: KeyError: 'x'", env.step, "jump")
    envs = VectorProcessReward(corridor(20), Says(ValueError("no")))
    envs.reset()
    with pytest.raises(RuntimeError, match=r"sub-environment 7 \(step 1 of its episode\) and 12 more: ValueError: no"):
        envs.step(["jump"] * 20)


@cases(
    "answer, error, words",
    ([1.0], ValueError, r"one score per step, 2 \(None where it has no opinion\), got 1: \[1.0\]"),
    (np.zeros((2, 1)), TypeError, r"numbers.*got list \(\[0.0\]\) for sub-environment 0 \(step 1 of its episode\)"),
    (None, TypeError, "a sequence of 2 scores, one per step, got NoneType"),
    (0.5, TypeError, "a sequence of 2 scores.*got float"),
    ("12", TypeError, "a sequence of 2 scores.*got str"),
    ({0: 1.0, 1: 2.0}, TypeError, "a sequence of 2 scores.*got dict"),
    ([1.0, "good"], TypeError, r"numbers.*got str \('good'\) for sub-environment 1 \(step 1"),
    ([1.0, math.inf], ValueError, "finite numbers.*got inf for sub-environment 1"),
    (np.array([-np.inf, 0.0]), ValueError, "finite numbers.*got -inf for sub-environment 0"),
)
def test_a_wrong_answer_says_what_was_expected_and_what_came(answer: Any, error: type[Exception], words: str) -> None:
    envs = begun(VectorProcessReward(corridor(2), Says(answer)), options={"index": 2})
    refuses(error, words, envs.step, ["jump", "jump"])


def test_scores_may_be_any_numbers() -> None:
    torch = pytest.importorskip("torch")
    answers = [
        [1, None], (1.0, NAN), np.array([1.0, NAN], np.float32), [np.float32(1), np.array(np.nan)], [True, None],
        torch.tensor([1.0, NAN], dtype=torch.bfloat16, requires_grad=True),
    ]  # fmt: skip
    envs = begun(VectorProcessReward(corridor(2), Says(*answers)), options={"index": 2})
    for _ in answers:
        _, rewards, *_, infos = envs.step(["jump", "jump"])
        assert rewards.tolist() == [0.5, -0.5]
        np.testing.assert_array_equal(infos["process_reward"], [1.0, NAN])


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
