"""Recipes and the training configuration: every name works, every wrong one is named."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from agentgym.rollout import collect
from baselines.environments.settings import SOKOBAN_TINY
from baselines.recipes import RECIPES, recipe
from baselines.recipes.methods import IMITATION, method
from tests.baselines.corridor_learning import TASKS, babbling_policy, corridor
from tests.cases import cases
from tests.playing import filled
from tests.refusals import refuses
from wrappers.credit.dapo import contrasting_groups
from wrappers.credit.ragen2 import spread_groups
from wrappers.credit.rewardflow import rewardflow


@pytest.mark.parametrize("name", list(RECIPES))
def test_a_recipe_gives_one_finite_advantage_per_step(name: str) -> None:
    table = collect(corridor(), babbling_policy(), tasks=TASKS, group_size=8, seed=0)
    advantages = recipe(name)(table)
    assert advantages.shape == ((len(table), 1) if RECIPES[name].score_level == "token" else (len(table),))
    # Two leave groups out: those without contrast, and those whose returns spread the least.
    left_out = {"dapo": contrasting_groups, "ragen2": spread_groups}
    scored = left_out[name](table)[table.group] if name in left_out else np.ones(len(table), bool)
    assert np.array_equal(np.isfinite(advantages.reshape(len(table))), scored)
    # HISR alone is nothing but its scores, which are 0 here.
    assert (advantages != 0).any() == (name != "hisr")
    assert recipe(name).notes.endswith(".")


def test_options_settings_levels_and_contrast() -> None:
    table = collect(corridor(), babbling_policy(), tasks=TASKS, group_size=8, seed=0)
    changed = recipe("rewardflow").with_options(gamma=0.5)
    options = recipe("rewardflow").options | {"gamma": 0.5}
    assert np.array_equal(changed(table), rewardflow(table, **options))
    assert not np.array_equal(changed(table), recipe("rewardflow")(table))
    refuses(TypeError, "unknown option 'gama'", lambda: recipe("rewardflow").with_options(gama=0.5)(table))
    common = dataclasses.replace(SOKOBAN_TINY, groups=5)
    assert recipe("grpo").configure(common) == common
    changed = recipe("dapo").configure(common)
    assert (changed.loss.clip_low, changed.loss.clip_high, changed.loss.kl) == (0.2, 0.28, 0.0)
    assert changed.rollout.resample_rounds == 10
    assert (changed.groups, changed.learning_rate) == (5, common.learning_rate)
    ppo = recipe("ppo")
    assert recipe("grpo").score_level is None
    assert ppo.score_level == "turn"
    levels = [ppo.with_options(level=level).score_level for level in ("turn", "token", "bi-level", "residual")]
    assert levels == ["turn", "token", "token", "token"]
    assert ppo.with_options(preset="authors").score_level == "token"  # the preset's level where none is given
    # Both episodes fail, one with a reward on the way.
    table = filled(trajectory=[0, 1], next_state=[1, 1], reward=[0.5, 0.0])
    assert recipe("dapo").contrasting(table).tolist() == [False]
    assert recipe("dapo").with_options(contrast="return").contrasting(table).tolist() == [True]
    assert recipe("grpo").contrasting(table).tolist() == [False]
    # RAGEN-2's filter would train on this group: it is not played again.
    assert recipe("ragen2").contrasting(table).tolist() == spread_groups(table).tolist() == [True]
    assert recipe("ragen2:outcome=won").contrasting(table).tolist() == [False]


@cases(
    "text, name, options",
    ("gigpo:gamma=.9", "gigpo:gamma=0.9", {"gamma": 0.9}),
    ("gigpo:gamma=1", "gigpo:gamma=1.0", {"gamma": 1.0}),
    ("grpo:std=none:ddof=0", "grpo:std=none:ddof=0", {"std": "none", "ddof": 0}),
    ("grpo:preset=authors", "grpo:preset=authors", {"preset": "authors"}),
    ("ppo:whiten=false:level=token", "ppo:whiten=False:level=token", {"whiten": False, "level": "token"}),
)
def test_options_follow_the_name(text: str, name: str, options: dict[str, Any]) -> None:
    found = recipe(text)
    assert found.name == name
    plain = RECIPES[text.split(":")[0]]
    assert found.options == {**plain.options, **options}
    assert (found.credit, found.training, found.scorer) == (plain.credit, plain.training, plain.scorer)
    assert recipe(found.name) == found


@cases(
    "text, words",
    ("gigpo:gama=.9", "unknown option 'gama'; known: .*did you mean 'gamma'"),
    ("gigop:gamma=.9", "unknown method 'gigop'; .*did you mean 'gigpo'"),
    ("gigpo:gamma=2", "gamma must be between 0 and 1, got 2.0"),
    ("gigpo:gamma=much", "gamma must be a number, got 'much'"),
    ("gigpo:std=nune", "unknown std 'nune'; .*did you mean 'none'"),
    ("gigpo:preset=papers", "unknown preset 'papers'; .*did you mean 'paper'"),
    ("ppo:whiten=1", "whiten must be True or False, got '1'"),
    ("gigpo:gamma", "expected gigpo:option=value, each option once, got 'gamma'"),
    ("gigpo:gamma=.9:gamma=.8", "each option once, got 'gamma=.8'"),
    ("no_such_module:credit", "no module of this name can be imported"),
    ("json:lods", "module 'json' has no function 'lods'; .*did you mean 'loads'"),
)
def test_wrong_options_and_functions_are_explained(text: str, words: str) -> None:
    refuses(ValueError, words, recipe, text)


def test_a_function_of_ones_own_is_a_method() -> None:
    found = recipe("tests.own_worlds:credit:scale=.5:sign=minus")
    assert found.name == "tests.own_worlds:credit:scale=0.5:sign=minus"
    assert found.options == {"scale": 0.5, "sign": "minus"}
    table = filled(trajectory=[0, 1], next_state=["goal", "pit"], won=[True, False])
    assert found(table).tolist() == [0.5, -0.05]
    assert recipe("tests.own_worlds:half").options["invalid_penalty"] == 0.5
    known = "unknown option 'scal'; known: 'scale', 'sign'; did you mean 'scale'"
    refuses(ValueError, known, recipe, "tests.own_worlds:credit:scal=.5")


def test_names_read_their_options():
    found = method("ipr:continuations=2:span=step:threshold=.25")
    assert (found.continuations, found.span, found.threshold) == (2, "step", 0.25)
    assert found.name == "ipr:continuations=2:span=step:threshold=0.25"
    assert method("gigpo:gamma=.9").name == "gigpo:gamma=0.9"
    assert set(IMITATION) == {"sft", "rft", "hindsight", "dpo", "eto", "ipr", "stepagent", "spear"}


@cases(
    "name, words",
    ("rft:sample=4", "sample"), ("rft:samples=0", "at least 1"), ("rft:samples=many", "an integer"),
    ("ipr:span=all", "'rest' and 'step'|rest"), ("rft:samples", "option=value"), ("rtf", "unknown method"),
)  # fmt: skip
def test_a_wrong_name_or_option_says_what_is_expected(name, words):
    refuses(ValueError, words, method, name)
