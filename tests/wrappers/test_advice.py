"""Advice: asked for once per step in every sub-environment, with a new adviser per episode, in every autoreset mode."""

import gymnasium as gym
import numpy as np
import pytest

import agentgym  # noqa: F401
from agentgym.rollout import collect
from policies.scripted import ExpertPolicy
from tests.refusals import refuses
from wrappers import VectorReplyParser
from wrappers.advice import VectorAdvice


class Counting:
    """Answers the first admissible command, and counts how often it was asked."""

    made = 0

    def __init__(self):
        Counting.made += 1
        self.number, self.asked = Counting.made, 0

    def act(self, observation, admissible):
        self.asked += 1
        return f"{self.number}.{self.asked}.{len(admissible) > 0}.{'task' in observation}"


@pytest.fixture(autouse=True)
def counted():
    Counting.made = 0


def make(mode, **options):
    return gym.make_vec("AgentRL/ALFWorld-v0", num_envs=2, autoreset_mode=mode, data="generated", **options)


def advice(infos):
    return infos["expert_action"].tolist()


def test_advice_follows_episodes() -> None:
    envs = VectorAdvice(make("Disabled", max_episode_steps=2), Counting)
    assert advice(envs.reset(seed=0)[1]) == ["1.1.True.True", "2.1.True.True"]
    assert advice(envs.step(["look", "help"])[-1]) == ["1.2.True.False", "2.2.True.False"]
    assert advice(envs.step(["look", "help"])[-1]) == ["", ""]
    mask = np.array([False, True])
    assert advice(envs.reset(options={"reset_mask": mask})[1]) == ["", "3.1.True.True"]
    Counting.made = 0
    envs = VectorAdvice(make("SameStep", max_episode_steps=1), Counting)
    envs.reset(seed=0)
    infos = envs.step(["look", "look"])[-1]
    assert advice(infos) == ["3.1.True.True", "4.1.True.True"]
    assert infos["final_info"]["expert_action"].tolist() == ["", ""]
    refuses(TypeError, "must make an adviser", VectorAdvice, make("Disabled"), "explorer")


def test_an_explorer_that_advises_wins_without_the_environments_expert():
    from agentgym.alfworld.player import ALFWorldPlayer

    envs = VectorReplyParser(VectorAdvice(make("Disabled"), ALFWorldPlayer))
    table = collect(envs, ExpertPolicy(), tasks=[{"split": "valid_unseen", "index": i} for i in range(6)], seed=0)
    assert table.trajectory_won.mean() > 0.6
