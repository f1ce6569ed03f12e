"""The oracle: exact gains of steps, noted while the trainer's environments are played."""

import gymnasium as gym
import numpy as np
import pytest

import agentgym  # noqa: F401
from agentgym.rollout import collect
from agentgym.trajectory import StepTable
from baselines.config import TrainerConfig
from baselines.experience import adapted
from baselines.learner import Learner
from baselines.recipes import recipe
from baselines.scorers.exact_gain import ExactGain, ExactGainConfig
from policies.scripted import RandomPolicy
from tests.baselines.corridor_learning import babbling_policy
from tests.refusals import refuses
from wrappers.distance import Distances
from wrappers.reply import VectorReplyParser


def corridors(num_envs, **options):
    return VectorReplyParser(
        gym.make_vec("AgentRL/Corridor-v0", num_envs, autoreset_mode="Disabled", length=3, **options)
    )


def played(wrong, **options):
    envs = Distances(corridors(8, wrong=wrong, **options))
    return envs, collect(envs, RandomPolicy(), tasks=[{"split": "train", "index": 0}], group_size=8, seed=0)


def test_gains_and_dead_ends_by_hand() -> None:
    envs, table = played("back")
    scores = ExactGain(envs.found).scores(table)
    room = np.array([3 if str(s).startswith("end") else int(s) for s in table.states])
    np.testing.assert_array_equal(scores, room[table.next_state] - room[table.state])
    assert {-1.0, 0.0, 1.0} == set(scores)  # 0: back in the first room
    envs, table = played("end")
    scores = ExactGain(envs.found, ExactGainConfig(dead_end=-2.0)).scores(table)
    lost = np.array(["[failure]" in str(table.states[state]) for state in table.next_state])
    assert lost.any()
    np.testing.assert_array_equal(scores, np.where(lost, -2.0, 1.0))
    table = StepTable.from_arrays(
        group=["g"] * 2, trajectory=["a"] * 2, t=[0, 1], state=["s", "pit"], action=["x", "y"],
        next_state=["pit", "pit"], reward=[0, 0], won=[0, 0], truncated=[0, 1],
    )  # fmt: skip
    found = {("g", "s"): (2.0, 2.0), ("g", "pit"): (np.inf, np.inf)}
    np.testing.assert_array_equal(ExactGain(found).scores(table), [-3.0, np.nan])
    table = StepTable.from_arrays(
        group=["g, round 2"], trajectory=["a"], t=[0], state=["s"], action=["x"], next_state=["u"], reward=[0], won=[0]
    )
    assert ExactGain({("g", "s"): (2.0, 2.0), ("g", "u"): (1.0, 1.0)}).scores(table) == [1.0]


def test_a_trainer_wraps_its_environments_for_the_oracle():
    envs = corridors(4)
    oracle, config = recipe("oracle"), TrainerConfig(groups=1, group_size=4)
    wrapped, first = adapted(envs, None, oracle, config)
    assert isinstance(wrapped, Distances)
    learner = Learner(babbling_policy(), oracle, config, None, first)
    table = collect(wrapped, RandomPolicy(), tasks=[{"split": "train", "index": 1}], group_size=4, seed=0)
    scores, estimate = learner.estimate(table)
    right = scores == 1.0
    assert right.any()
    assert estimate.advantages[right].min() > estimate.advantages[~right].max()
    assert estimate.advantages.mean() == pytest.approx(0.0, abs=1e-9)  # all of the actions were valid
    refuses(ValueError, "expected one lane, got 2", adapted, [envs, envs], None, oracle, config)


def test_environments_without_a_distance_and_recipes() -> None:
    with pytest.raises(ValueError, match=r"WebShopEnv has no distance\(\)"):
        ExactGainConfig().check_envs(lambda: gym.make_vec("AgentRL/WebShop-v0", 1, autoreset_mode="Disabled"))
    refuses(ValueError, "come from environments", lambda: ExactGainConfig().make(None))
    found = recipe("grpo:resample_rounds=4:std=none")
    assert found.name == "grpo:std=none:resample_rounds=4"
    assert found.configure(TrainerConfig()).rollout.resample_rounds == 4
    refuses(ValueError, "resample_rounds must be a number, got 'x'", recipe, "grpo:resample_rounds=x")
