"""Recipes and the training configuration: every name works, every wrong one is named."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from agentgym.rollout import collect
from baselines.config import TrainerConfig
from baselines.recipes import RECIPES, SOKOBAN_TINY, recipe
from tests.baselines.corridor_learning import TASKS, babbling_policy, corridor
from wrappers.rewardflow import rewardflow


@pytest.mark.parametrize("name", list(RECIPES))
def test_a_recipe_gives_one_finite_advantage_per_step(name: str) -> None:
    table = collect(corridor(), babbling_policy(), tasks=TASKS, group_size=8, seed=0)
    advantages = recipe(name)(table)
    assert advantages.shape == (len(table),)
    assert np.isfinite(advantages).all()
    assert (advantages != 0).any()
    assert recipe(name).notes.endswith(".")


def test_options_reach_the_function() -> None:
    table = collect(corridor(), babbling_policy(), tasks=TASKS, group_size=8, seed=0)
    changed = recipe("rewardflow").with_options(gamma=0.5)
    options = recipe("rewardflow").options | {"gamma": 0.5}
    assert np.array_equal(changed(table), rewardflow(table, **options))
    assert not np.array_equal(changed(table), recipe("rewardflow")(table))
    with pytest.raises(TypeError, match="unknown option 'gama'"):
        recipe("rewardflow").with_options(gama=0.5)(table)


def test_unknown_method_is_named_with_a_suggestion() -> None:
    with pytest.raises(ValueError, match="unknown method 'reward-flow'; did you mean 'rewardflow'"):
        recipe("reward-flow")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"temperature": 0.0}, "temperature must be above 0"),
        ({"groups": 0}, "groups must be at least 1, got 0"),
        ({"schedule": "cosine"}, "schedule must be 'constant' or 'linear', got 'cosine'"),
        ({"aggregation": "mean"}, "aggregation must be one of"),
        ({"dual_clip": 1.0}, "dual_clip must be None or above 1"),
        ({"kl": -1.0}, "kl must be at least 0"),
        ({"learning_rate": float("nan")}, "learning_rate must be at least 0, got nan"),
    ],
)
def test_a_wrong_number_is_named(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        dataclasses.replace(SOKOBAN_TINY, **changes)


def test_the_default_configuration_is_valid_and_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        TrainerConfig().seed = 1  # type: ignore[misc]
