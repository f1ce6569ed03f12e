"""Shaping beside Stable-Baselines3, and its page."""

import dataclasses
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check

from baselines.sb3.shaping import SB3Config, train
from baselines.sb3.sokoban import (
    REWARDS,
    Levels,
    SuccessReward,
    TaskChoice,
    solved,
    symbolic_sokoban,
    tasks_of,
    training_env,
)
from tests.corridor import CorridorEnv
from tests.refusals import refuses
from wrappers.credit.task_graph import TaskGraphs

LEVELS = Levels(min_length=3, max_length=5, max_episode_steps=12, training=3, held_out=4)
SHORT = SB3Config(
    levels=LEVELS, steps=512, evaluate_every=256, num_envs=4, rollout_steps=16, batch_size=32, epochs=2, layers=[16]
)


def env_of(reward: str, graphs: TaskGraphs | None = None) -> Any:
    graphs = TaskGraphs() if graphs is None else graphs
    return training_env(LEVELS, reward, gamma=0.9, decay=0.9, scale=1.0, graphs=graphs)


@pytest.mark.parametrize("reward", REWARDS)
def test_training_environments_are_plain_gymnasium(reward: str) -> None:
    env = env_of(reward)
    check_env(env, skip_render_check=True)
    assert (env.observation_space.shape, env.action_space.n) == ((7, 6, 6), 4)


def test_tasks_rewards_rollouts_and_a_missing_library(monkeypatch: pytest.MonkeyPatch) -> None:
    env = TaskChoice(CorridorEnv(), [{"index": 1}, {"index": 3}])
    drawn = [env.reset(seed=7 if i == 0 else None)[1]["task_id"] for i in range(20)]
    assert set(drawn) == {"start-1", "start-3"}
    assert drawn == [env.reset(seed=7 if i == 0 else None)[1]["task_id"] for i in range(20)]
    refuses(ValueError, "no tasks", lambda: TaskChoice(CorridorEnv(), []))
    env = SuccessReward(CorridorEnv())
    env.reset(options={"index": 2})
    assert [env.step(command)[1] for command in ("jump", "right", "right")] == [0.0, 0.0, 1.0]
    refuses(ValueError, "unknown reward 'sparse'; known: own, success, shaped", env_of, "sparse")
    refuses(ValueError, "multiple of evaluate_every", SB3Config, steps=1000)
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    refuses(ImportError, r"pip install .*\[sb3\]", train, SHORT, "shaped", 0)


def test_levels_are_counted_in_order() -> None:
    # An expert that may look inside solves all; whoever stands still, none; one that plays the odd levels, those.
    envs = {}
    for task in tasks_of("test", 4):
        env = symbolic_sokoban(LEVELS)
        observation, _ = env.reset(options=task)
        for _ in range(LEVELS.max_length):
            envs[observation.tobytes()] = (task["index"], env.unwrapped.optimal_actions())
            if not env.unwrapped.optimal_actions():
                break
            observation, *_ = env.step(env.get_wrapper_attr("commands").index(env.unwrapped.optimal_actions()[0]))
    commands = symbolic_sokoban(LEVELS).commands
    blocked = {"up": "down", "down": "up", "left": "right", "right": "left"}

    def expert(observations: np.ndarray, which: tuple[int, ...] = (0, 1, 2, 3)) -> list[int]:
        actions = []
        for observation in observations:
            index, best = envs.get(observation.tobytes(), (-1, ()))
            actions.append(commands.index(best[0] if index in which else blocked[best[0]] if best else "up"))
        return actions

    assert solved(LEVELS, "test", 4, expert) == "1111"
    assert solved(LEVELS, "test", 4, lambda observations: expert(observations, (1, 3))) == "0101"


@pytest.mark.filterwarnings("ignore:.*image:UserWarning", "ignore:.*minimal resolution:UserWarning")
def test_the_librarys_own_check() -> None:
    check(env_of("shaped"), skip_render_check=True)


@pytest.mark.parametrize("reward", REWARDS)
def test_a_seed_gives_one_training(reward: str) -> None:
    def plain(training: Any) -> list[dict[str, Any]]:
        return [{**dataclasses.asdict(point), "seconds": 0.0} for point in training.points]

    one, again = train(SHORT, reward, 3), train(SHORT, reward, 3)
    assert plain(one) == plain(again)
    parameters = [
        np.concatenate([value.detach().numpy().ravel() for value in training.model.policy.parameters()])
        for training in (one, again, train(SHORT, reward, 4))
    ]
    assert (parameters[0] == parameters[1]).all()
    assert (parameters[0] != parameters[2]).any()
    assert [point.steps for point in one.points] == [0, 256, 512]
    assert [len(point.training) for point in one.points] == [3, 3, 3]
    assert (one.points[-1].known > 0) == (reward == "shaped")
    assert one.graphs.n_solved == one.points[-1].known


def test_shaping_reaches_the_learner_however_often_is_evaluated() -> None:
    often, once = train(SHORT, "shaped", 0), train(dataclasses.replace(SHORT, evaluate_every=512), "shaped", 0)
    assert often.points[-1].training == once.points[-1].training
    assert often.graphs.state_dict() == once.graphs.state_dict()
    # Rewards in the rollout buffer: without shaping only successes and what the library adds where an episode is
    # cut off (the value of its last state); with shaping most steps of a level that was solved before.
    buffers = {reward: train(SHORT, reward, 0).model.rollout_buffer.rewards for reward in ("success", "shaped")}
    paid = {reward: float((buffer != 0).mean()) for reward, buffer in buffers.items()}
    assert paid["success"] < 0.25 < paid["shaped"]


PAGE = Path(__file__).parents[3] / "docs" / "credit" / "shaping.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_frozen_lake(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(BLOCKS[0], "first block", "exec"), {})
    said = re.findall(r"^# (\[.*?\])", BLOCKS[0], re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == said
    assert len(said) == 2
