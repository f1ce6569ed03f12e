"""What every credit method must satisfy, on random rollouts."""

import dataclasses
import functools
import importlib
import pkgutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import cases
from tests.processes import printed
from tests.wrappers.credit.every_method import FUNCTIONS
from tests.wrappers.credit.naive import naive, naive_gigpo
from tests.wrappers.credit.small_tables import close, episodes, random_table, rebuild
from wrappers import credit
from wrappers.credit import dapo, gigpo, graphgpo, grpo, hgpo, rewardflow, rloo
from wrappers.credit.graphgpo import graphgpo_values
from wrappers.credit.group import TOLERANCE
from wrappers.credit.potential import PRESETS
from wrappers.credit.state_graph import StateGraph, Unit

FAMILY = {name: functools.partial(credit.potential, preset=name) for name in PRESETS}
#: Their means of returns can be so near each other that eps counts.
RECENT = [credit.salt, credit.milegpo, credit.tigpo, credit.frontier, *FAMILY.values()]
PUBLISHED = [grpo, rloo, dapo, gigpo, hgpo, rewardflow, graphgpo]
METHODS = [*PUBLISHED, *RECENT, credit.reinforce_plus_plus, credit.reinforce_plus_plus_baseline]
SEEDS = st.integers(0, 10**6)


@given(seed=SEEDS)
def test_gigpo_equals_its_naive_twin(seed):
    table = random_table(seed)
    close(gigpo(table), naive_gigpo(table, 0.95))


#: No deviation divides what the rewards scale; a gate adds eps to variances.
NOT_SCALED = [FAMILY["g2po_authors"], FAMILY["ecpo"]]


@pytest.mark.parametrize("method", [method for method in METHODS if method not in NOT_SCALED])
@given(seed=SEEDS, factor=st.sampled_from([0.125, 3.0]))
def test_scaled_rewards_change_only_what_has_no_deviation(method, seed, factor):
    table = random_table(seed)
    scaled = dataclasses.replace(table, reward=table.reward * factor)
    options = {"outcome": "return"} | ({"base_group": True} if method is hgpo else {})
    if method is rloo:
        close(rloo(scaled), factor * rloo(table))
        return
    if method not in RECENT:
        close(method(scaled, **options), method(table, **options), atol=1e-3)
    close(method(scaled, eps=0.0, **options), method(table, eps=0.0, **options))
    if method in (grpo, dapo, gigpo):
        close(method(scaled, std="none", **options), factor * method(table, std="none", **options))


def test_every_method_is_a_function_named_like_its_file() -> None:
    files = {module.name for module in pkgutil.iter_modules(credit.__path__)}
    beside = {"action_targets", "bi_level_gae", "graphgpo_filled", "importance", "reinforce_plus_plus_baseline"}
    assert FUNCTIONS.keys() - files == beside
    for name in FUNCTIONS.keys() & files:
        assert FUNCTIONS[name] is getattr(importlib.import_module(f"wrappers.credit.{name}"), name)


@cases(
    "first",
    "import wrappers.credit.rewardflow",
    "import wrappers.credit.rewardflow as module",
    "from wrappers.credit.rewardflow import PRESETS",
    "import wrappers",
    "import sys, pickle, wrappers.credit.grpo; pickle.loads(pickle.dumps(wrappers.credit.rewardflow))",
    "import importlib; importlib.reload(importlib.import_module('wrappers.credit.rewardflow'))",
)
def test_whatever_a_process_imports_first(first: str) -> None:
    code = (
        f"{first}\nfrom wrappers.credit import rewardflow\nimport wrappers.credit.rewardflow, wrappers.credit.grpo\n"
        "from wrappers.credit import rewardflow as again, grpo\nfrom wrappers import RewardFlow\n"
        "print(callable(rewardflow), rewardflow is again, callable(grpo), RewardFlow.method.__name__)"
    )
    assert printed(code).split() == ["True", "True", "True", "rewardflow"]


#: A step level alone.
STEPS = {rewardflow: {"alpha_trajectory": 0.0}, graphgpo: {"beta_episode": 0.0}}
UNITS = Unit.__args__


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize(("method", "factor"), [(rewardflow, 0.9), (graphgpo, 0.8)])
@given(seed=SEEDS)
def test_methods_of_graphs_equal_their_naive_twin(method, factor, unit, seed):
    table = random_table(seed)
    close(method(table, unit=unit), naive(table, method.__name__, unit=unit, factor=factor))


@pytest.mark.parametrize("method", [rewardflow, graphgpo])
@given(seed=SEEDS)
def test_visits_of_an_edge_may_differ_in_worth_and_their_order_does_not_matter(method, seed):
    rng = np.random.default_rng(seed)
    table = random_table(seed, clean=True)
    table = dataclasses.replace(table, valid=rng.random(len(table)) < 0.5)
    rows = rng.permutation(len(table))
    options = {"unit": "edge", "invalid": "keep", "invalid_penalty": 0.5}
    close(method(rebuild(table, rows), **options), method(table, **options)[rows])
    if method is graphgpo:
        cost = rng.uniform(0.5, 2.0, len(table))
        close(graphgpo(rebuild(table, rows), cost=cost[rows]), graphgpo(table, cost=cost)[rows])


def test_an_edge_counts_with_the_mean_of_its_visits():
    # From s, right to the goal (worth 1/8, and 1/8 - 1/4 where it was refused) and left to the pit (unreachable: 0).
    # The edges are worth 0 and 0, and the visits differ from their mean by 1/8, -1/8 and 0.
    table = episodes("s -right-> goal +", "s -right!-> goal +", "s -left-> pit")
    scores = graphgpo(
        table, success_value=0.125, unreachable="infinite", exponent="next", std="none", beta_episode=0.0,
        invalid_penalty=0.25,
    )  # fmt: skip
    assert scores == pytest.approx([0.125, -0.125, 0])


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("method", [rewardflow, graphgpo])
@given(seed=SEEDS)
def test_groups_that_all_fail_get_no_step_credit_whatever_their_rewards(method, unit, seed):
    table = random_table(seed, win=0.1)
    rich = dataclasses.replace(table, reward=np.random.default_rng(seed).normal(size=len(table)))
    failed = np.bincount(table.group, weights=table.won) == 0
    assert (method(rich, unit=unit, **STEPS[method])[failed[table.group]] == 0).all()


@pytest.mark.parametrize("unit", UNITS)
@given(seed=SEEDS)
def test_graphgpo_never_scores_the_nearer_of_two_edges_lower(unit, seed):
    # Prop. 4.1. Of two edges out of a state, the one with the smaller d(s') + c never scores lower, and it scores
    # strictly higher where the rewards of the edges out of the state differ by more than rounding.
    table = random_table(seed)
    cost = np.random.default_rng(seed).uniform(0.5, 2.0, len(table))
    # An edge that is taken several times has one cost: that of its first visit.
    edge, example = StateGraph.from_table(table).edges
    cost = cost[example][edge]
    credit = graphgpo_values(table, cost=cost)
    scores = graphgpo(table, cost=cost, beta_episode=0.0, unit=unit)
    way = credit.distance[credit.graph.target] + cost
    for node in np.unique(credit.graph.source):
        rows = np.flatnonzero(credit.graph.source == node)
        rows = rows[np.argsort(way[rows], kind="stable")]
        reward, score = credit.step_reward[rows], scores[rows]
        assert (np.diff(score) <= 1e-12).all()
        assert (np.diff(score)[np.diff(reward) < -TOLERANCE * np.abs(reward).max()] < 0).all()
