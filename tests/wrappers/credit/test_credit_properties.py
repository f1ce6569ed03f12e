"""What every credit method must satisfy, on random rollouts."""

import dataclasses
import functools
import importlib
import inspect
import pkgutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wrappers.credit
from tests.processes import printed
from tests.wrappers.credit.naive import naive, naive_gigpo
from tests.wrappers.credit.random_tables import random_table
from tests.wrappers.credit.small_tables import episodes
from wrappers.credit.dapo import dapo
from wrappers.credit.frontier import frontier
from wrappers.credit.gigpo import gigpo
from wrappers.credit.graphgpo import graphgpo
from wrappers.credit.grpo import grpo
from wrappers.credit.hgpo import hgpo
from wrappers.credit.milegpo import milegpo
from wrappers.credit.potential import PRESETS as POTENTIAL_PRESETS
from wrappers.credit.potential import potential
from wrappers.credit.reinforce_plus_plus import reinforce_plus_plus, reinforce_plus_plus_baseline
from wrappers.credit.rewardflow import rewardflow
from wrappers.credit.rloo import rloo
from wrappers.credit.salt import salt
from wrappers.credit.state_graph import Unit
from wrappers.credit.tigpo import tigpo

#: Methods that have the presets "paper" and "authors".
PUBLISHED = [grpo, rloo, dapo, gigpo, hgpo, rewardflow, graphgpo]
FAMILY = {name: functools.partial(potential, preset=name) for name in POTENTIAL_PRESETS}
RECENT = [salt, milegpo, tigpo, frontier, *FAMILY.values()]
IN_GROUPS = PUBLISHED + RECENT
OVER_THE_BATCH = [reinforce_plus_plus, reinforce_plus_plus_baseline]
METHODS = IN_GROUPS + OVER_THE_BATCH
#: Every method with every preset.
WITH_PRESETS = [
    *(functools.partial(m, preset=p) for m in PUBLISHED + OVER_THE_BATCH for p in ("paper", "authors")),
    *RECENT,
    functools.partial(milegpo, preset="webshop"),
]
SEEDS = st.integers(0, 10**6)


def _close(a, b, atol=1e-9):
    np.testing.assert_allclose(a, b, rtol=0, atol=atol)


@given(seed=SEEDS)
def test_gigpo_equals_its_naive_twin(seed):
    table = random_table(seed)
    _close(gigpo(table), naive_gigpo(table, 0.95))


#: MileGPO alone has something to say of groups that fail throughout: where they came back to.
NO_TRAPS = {milegpo: {"w_trap": 0.0}}


def is_(method, function):
    """Whether it is this function, with or without a preset."""
    return getattr(method, "func", method) is function


@pytest.mark.parametrize("method", WITH_PRESETS)
@given(seed=SEEDS)
def test_batches_that_all_fail_score_exactly_0(method, seed):
    table = random_table(seed, win=0.0)
    scores = method(table, invalid_penalty=0.0, **NO_TRAPS.get(getattr(method, "func", method), {}))
    assert np.isnan(scores).all() if is_(method, dapo) else (scores == 0).all()


@pytest.mark.parametrize("method", METHODS)
def test_invalid_steps_lose_the_penalty_where_it_is_asked_for(method):
    table = random_table(3)
    method = functools.partial(method, invalid_penalty=0.0)
    plain = method(table)
    scored = ~np.isnan(plain)
    lost = plain - method(table, invalid_penalty=0.1, penalty="advantage")
    _close(lost[scored], np.where(table.valid, 0.0, 0.1)[scored])
    options = {} if any(is_(method, other) for other in (rloo, *OVER_THE_BATCH)) else {"std": "none"}
    plain = method(table, **options)[scored]
    row = method(table, penalty="row", invalid_penalty=0.1, **options)[scored]
    spread = method(table, penalty="discounted", invalid_penalty=0.1, **options)[scored]
    for changed in (row, spread):
        assert np.isfinite(changed).all()
        assert not np.allclose(changed, plain)
    assert not np.allclose(row, spread)


CREDIT_NAMES_METHODS = [
    "aem", "attribution", "bpo", "dapo", "empg", "fill_silent", "frontier", "gae", "gigpo", "graphgpo", "grpo", "hcapo",
    "hgpo", "hisr", "igpo", "istar", "milegpo", "potential", "prime", "process_reward", "ragen2",
    "reinforce_plus_plus", "rewardflow", "rlcsd", "rloo", "rlsd", "salt", "sdpo", "spa", "tigpo", "token_gae",
    "tree_grpo", "turn_credit", "vetta", "vine",
]  # fmt: skip


def test_every_method_is_a_function_named_like_its_file() -> None:
    files = {module.name for module in pkgutil.iter_modules(wrappers.credit.__path__)}
    functions = {name for name in wrappers.credit.__all__ if inspect.isfunction(getattr(wrappers.credit, name))}
    assert sorted(functions & files) == sorted(CREDIT_NAMES_METHODS)
    assert functions - files == {
        "action_targets", "bi_level_gae", "graphgpo_filled", "importance", "reinforce_plus_plus_baseline",
    }  # fmt: skip
    for name in CREDIT_NAMES_METHODS:
        module = importlib.import_module(f"wrappers.credit.{name}")
        assert inspect.ismodule(module)
        assert getattr(wrappers.credit, name) is getattr(module, name)


@pytest.mark.parametrize(
    "first",
    [
        "import wrappers.credit.rewardflow",
        "import wrappers.credit.rewardflow as module",
        "from wrappers.credit.rewardflow import PRESETS",
        "import wrappers",
        "import sys, pickle, wrappers.credit.grpo; pickle.loads(pickle.dumps(wrappers.credit.rewardflow))",
        "import importlib; importlib.reload(importlib.import_module('wrappers.credit.rewardflow'))",
    ],
)
def test_whatever_a_process_imports_first(first: str) -> None:
    code = (
        f"{first}\nfrom wrappers.credit import rewardflow\nimport wrappers.credit.rewardflow, wrappers.credit.grpo\n"
        "from wrappers.credit import rewardflow as again, grpo\nfrom wrappers import RewardFlow\n"
        "print(callable(rewardflow), rewardflow is again, callable(grpo), RewardFlow.method.__name__)"
    )
    assert printed(code).split() == ["True", "True", "True", "rewardflow"]


UNITS = Unit.__args__


@pytest.mark.parametrize("unit", UNITS)
@given(seed=SEEDS)
def test_rewardflow_equals_its_naive_twin(unit, seed):
    table = random_table(seed)
    _close(rewardflow(table, unit=unit), naive(table, "rewardflow", unit=unit, factor=0.9))


@pytest.mark.parametrize("unit", UNITS)
@given(seed=SEEDS)
def test_graphgpo_equals_its_naive_twin(unit, seed):
    table = random_table(seed)
    _close(graphgpo(table, unit=unit), naive(table, "graphgpo", unit=unit, factor=0.8))


def test_an_edge_counts_with_the_mean_of_its_visits():
    # From s, right to the goal (worth 1/8, and 1/8 - 1/4 where it was refused) and left to the pit (unreachable: 0).
    # The edges are worth 0 and 0, and the visits differ from their mean by 1/8, -1/8 and 0.
    table = episodes("s -right-> goal +", "s -right!-> goal +", "s -left-> pit")
    scores = graphgpo(
        table, success_value=0.125, unreachable="infinite", exponent="next", std="none", beta_episode=0.0,
        invalid_penalty=0.25,
    )  # fmt: skip
    assert scores == pytest.approx([0.125, -0.125, 0])


@pytest.mark.parametrize("invalid", ["bypass", "self_loop"])
@pytest.mark.parametrize("method", [rewardflow, graphgpo])
@given(seed=SEEDS)
def test_naming_the_noise_state_does_what_marking_its_rows_does(method, invalid, seed):
    # In these tables exactly the refused steps show "Nothing happens.".
    table = random_table(seed)
    trusting = dataclasses.replace(table, valid=np.ones(len(table), np.bool_))
    expected = method(table, invalid=invalid)
    _close(method(trusting, invalid=invalid, noise_states=("Nothing happens.",)), expected)
