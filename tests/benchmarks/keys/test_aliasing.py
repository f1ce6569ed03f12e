"""Aliasing of state keys: by hand, against a plain reading of the definition, and on random play."""

import itertools

import gymnasium as gym
import numpy as np
import pytest

from baselines.environments.registry import settings_of
from benchmarks.keys.aliasing import KEYS, AliasingConfig, aliased_share, drawn, measure_aliasing
from tests.benchmarks.command import run
from tests.cases import cases


def naive_share(groups, states):
    aliased = 0
    for i in range(len(groups)):
        aliased += any(groups[i] == groups[j] and states[i] != states[j] for j in range(len(groups)))
    return aliased / len(groups)


def test_shares_and_verbs_by_definition() -> None:
    for groups in itertools.product("ab", repeat=4):
        for states in itertools.product(range(2), repeat=4):
            assert aliased_share(groups, states) == naive_share(groups, states)
    rng, commands = np.random.default_rng(0), ["go to a", "go to b", "go to c", "look"]
    found = [drawn(commands, rng, "verbs") for _ in range(2000)]
    assert 0.45 < found.count("look") / 2000 < 0.55
    assert set(found) == set(commands)


def measure(player="verbs", env="alfworld", **keys):
    config = AliasingConfig(env, "generated", "valid_unseen", 2, 4, player, 0)
    envs = gym.make_vec(
        settings_of(env).id, 3, autoreset_mode="Disabled", data="generated", max_episode_steps=12
    )  # fmt: skip
    return measure_aliasing(envs, config, keys or KEYS)


@pytest.mark.parametrize("env", ["alfworld", "virtualhome"])
def test_the_exact_state_is_never_mixed_and_a_constant_always(env):
    found = measure(env=env, exact=lambda observation, info: info["state_key"], one=lambda observation, info: "")
    assert [row.aliased for row in found.keys] == [0.0, 1.0]
    assert (found.keys[0].groups, found.keys[1].groups) == (found.states, 2)
    assert 2 <= found.states <= found.visits <= 2 * 4 * 12


@cases(
    "options, words",
    (["--player", "dice"], "expected one of commands, verbs"),
    (["--env", "webshop", "--split", "test"], "infos of 'webshop' lack inventory, location"),
    (["--env", "chess"], "'chess': this study compares state keys of the project's households"),
    (["--data", "/nowhere"], "/nowhere"),
)
def test_wrong_use_of_aliasing_is_explained(options, words):
    assert words in run("study", "aliasing", *options, status=2)
