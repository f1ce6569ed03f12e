"""Every numeric option of every credit method: finite credit, or an error that names option, range and what came."""

import dataclasses
import inspect
import math
import warnings
from typing import Any

import numpy as np
import pytest

import wrappers.credit
from agentgym.trajectory import StepTable
from tests.wrappers.credit.random_tables import random_table
from tests.wrappers.credit.random_trees import random_trees
from wrappers.credit import importance, vetta
from wrappers.credit.dapo import overlong_penalty
from wrappers.credit.options import declared
from wrappers.credit.segments import by_count, by_turn

FUNCTIONS = {name: getattr(wrappers.credit, name) for name in wrappers.credit.__all__}
METHODS = {name: each for name, each in FUNCTIONS.items() if inspect.isfunction(each) and declared(each)}
#: Method, preset, option, and the type of its numbers.
OPTIONS = [
    (name, preset, option, kind)
    for name, method in METHODS.items()
    for option, kind in declared(method)[0].items()
    if kind in (int, float)
    for preset in declared(method)[1]
]
#: Ends of ranges, and what is near them, beyond them, or no number at all.
NUMBERS = (
    0, 0.0, 1, -1, 0.5, 1.5, 2, 5e-324, -5e-324, 1e-300, 1e-100, 1e-17, 1 - 2**-53, 1e100, -1e100, 1e101, 2**70,
    10**400, math.nan, math.inf, -math.inf, np.float32(0.5), np.int64(3),
)  # fmt: skip


def tables() -> dict[str, StepTable]:
    walks = random_table(1, groups=2, size=4, steps=6, win=0.5)
    return {
        "walks": walks,
        "trees": random_trees(3, groups=2, size=3, steps=6, win=0.5, branches=4),
        "tiny rewards": dataclasses.replace(walks, reward=walks.reward * 1e-200),
        "huge rewards": dataclasses.replace(walks, reward=walks.reward * 1e100),
    }


TABLES = tables()


def needed(name: str, table: StepTable) -> dict[str, Any]:
    """What a method takes beside the table."""
    n, rng = len(table), np.random.default_rng(0)
    scores, shares = rng.normal(size=n), rng.random(n)
    return {
        "gae": {"values": scores}, "action_targets": {"values": scores}, "istar": {"scores": scores},
        "hcapo": {"hindsight": -shares, "plain": -shares[::-1]}, "igpo": {"beliefs": shares},
        "hisr": {"contributions": scores, "importance": shares, "segments": by_turn(table) // 2},
        "process_reward": {"scores": scores}, "spa": {"contributions": scores}, "aem": {"entropies": shares},
        "empg": {"entropies": shares}, "prime": {"scores": rng.normal(size=(n, 2)), "mask": np.ones((n, 2), bool)},
    }.get(name, {})  # fmt: skip


def test_all_methods_with_options_are_there() -> None:
    assert {"grpo", "graphgpo", "graphgpo_filled", "reinforce_plus_plus", "prime", "hisr"} <= {*METHODS}
    assert len(METHODS) > 25
    assert len(OPTIONS) > 150


@pytest.mark.parametrize(("name", "preset", "option", "kind"), OPTIONS)
def test_a_number_gives_finite_credit_or_an_error_that_names_it(
    name: str, preset: str, option: str, kind: type
) -> None:
    method = METHODS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for table in TABLES.values():
            given: dict[str, Any] = needed(name, table) | {"preset": preset}
            scored = ~np.isnan(method(table, **given))
            for number in NUMBERS:
                try:
                    found = method(table, **given, **{option: number})
                except ValueError as error:
                    assert option in str(error)  # noqa: PT017
                    assert "must be" in str(error)  # noqa: PT017
                    assert "got" in str(error)  # noqa: PT017
                except TypeError as error:
                    assert kind is int
                    assert not isinstance(number, (int, np.integer))
                    assert f"{option} must be an integer, got {number!r}" == str(error)  # noqa: PT017
                else:
                    assert not np.isinf(found).any(), (number, table)
                    # Which groups it leaves out is what RAGEN-2's options are about.
                    assert name == "ragen2" or not np.isnan(found[scored]).any(), (number, table)


@pytest.mark.parametrize(
    ("name", "preset", "option", "kind"), [row for row in OPTIONS if row[1] in ("paper", "default")]
)
def test_what_is_no_finite_number_is_refused(name: str, preset: str, option: str, kind: type) -> None:
    table = TABLES["walks"]
    given: dict[str, Any] = needed(name, table) | {"preset": preset}
    for number in (math.nan, math.inf, -math.inf, 1e101, 10**400, "1", None, True, [1.0]):
        with pytest.raises((ValueError, TypeError), match=f"^{option} must be .*, got "):
            METHODS[name](table, **given, **{option: number})


@pytest.mark.parametrize("name", ["reinforce_plus_plus", "reinforce_plus_plus_baseline"])
def test_without_eps_numbers_whose_squares_vanish_stay_finite(name: str) -> None:
    # Rewards of 1e-200 differ, and their variance is 1e-400, which is 0 in floating point.
    found = METHODS[name](TABLES["tiny rewards"], eps=0.0)
    assert 0 < np.abs(found).max() < 1e-199
    # As above the other way round: 4, 4, 0 without eps are 1/sqrt(3), 1/sqrt(3), -2/sqrt(3).
    same = [0, 0, 0]
    table = StepTable.from_arrays(
        group=same, trajectory=[0, 1, 2], t=same, state=same, action=same, next_state=same, reward=[4, 4, 0], won=same
    )
    np.testing.assert_allclose(METHODS[name](table, eps=0.0), np.array([1, 1, -2]) / np.sqrt(3))


#: Numbers that only hurt beside another option, or extreme rewards.
TOGETHER: list[tuple[str, str, dict[str, Any]]] = [
    ("grpo", "tiny rewards", {"preset": "authors", "over": "trajectories", "eps": 5e-324}),
    ("frontier", "tiny rewards", {"eps": 5e-324}),
    ("igpo", "tiny rewards", {"compare": "separate", "eps": 5e-324}),
    ("igpo", "huge rewards", {"std": "none", "invalid_penalty": 1e100}),
    ("prime", "huge rewards", {"preset": "authors", "outcome": "return", "alpha_trajectory": 1e100}),
    ("rewardflow", "huge rewards", {"values": "propagated", "shaping_gamma": 1.0}),
    ("graphgpo_filled", "walks", {"beta_graph": 1e100}),
]


@pytest.mark.parametrize(("name", "rewards", "options"), TOGETHER)
def test_numbers_that_hurt_together_stay_finite(name: str, rewards: str, options: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(METHODS[name](TABLES[rewards], **needed(name, TABLES[rewards]), **options)).all()


def test_numbers_of_functions_without_presets_are_checked_too() -> None:
    ones, ends = np.ones((1, 2)), [[False, True]]
    for alpha in (math.nan, math.inf, -1.0, 1e101):
        with pytest.raises(ValueError, match="alpha must be finite and at least 0, got"):
            vetta([[0.0, 1.0]], ones, [[True, True]], ends, alpha=alpha)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(importance(-ones, -2 * ones, [[True, True]], beta=5e-324)).all()
    for floor in (math.nan, math.inf):
        with pytest.raises(ValueError, match="floor must be a finite number, or None, got"):
            overlong_penalty([3], max_length=2, buffer=1, floor=floor)
    for k in (0, 1.5, math.nan, True):
        with pytest.raises(ValueError, match="k must be an integer of at least 1, got"):
            by_count(TABLES["walks"], k)
