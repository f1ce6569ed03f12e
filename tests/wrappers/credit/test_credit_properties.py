"""What every credit method must satisfy, on random rollouts."""

import dataclasses
import functools
import importlib
import pkgutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wrappers.credit
from tests.cases import cases
from tests.processes import printed
from tests.wrappers.credit.every_method import FUNCTIONS
from tests.wrappers.credit.naive import naive, naive_gigpo
from tests.wrappers.credit.random_tables import random_table, rebuild, repeated
from tests.wrappers.credit.small_tables import close, episodes
from wrappers.credit import (
    frontier,
    gigpo,
    grpo,
    hgpo,
    milegpo,
    potential,
    reinforce_plus_plus,
    reinforce_plus_plus_baseline,
    rloo,
    salt,
    tigpo,
)
from wrappers.credit.dapo import dapo
from wrappers.credit.graphgpo import graphgpo, graphgpo_values
from wrappers.credit.group import TOLERANCE
from wrappers.credit.potential import PRESETS as POTENTIAL_PRESETS
from wrappers.credit.rewardflow import rewardflow, rewardflow_values
from wrappers.credit.state_graph import StateGraph, Unit

#: Methods that have the presets "paper" and "authors".
PUBLISHED = [grpo, rloo, dapo, gigpo, hgpo, rewardflow, graphgpo]
FAMILY = {name: functools.partial(potential, preset=name) for name in POTENTIAL_PRESETS}
RECENT = [salt, milegpo, tigpo, frontier, *FAMILY.values()]
OVER_THE_BATCH = [reinforce_plus_plus, reinforce_plus_plus_baseline]
METHODS = PUBLISHED + RECENT + OVER_THE_BATCH
#: The episode level alone.
EPISODES = {
    rewardflow: {"alpha_action": 0.0}, graphgpo: {"beta_graph": 0.0}, gigpo: {"omega": 0.0},
    milegpo: {"alpha_step": 0.0}, frontier: {"alpha_step": 0.0}, tigpo: {"alpha_step": 0.0},
    FAMILY["g2po"]: {"alpha_step": 0.0}, FAMILY["ecpo"]: {"alpha_step": 0.0},
}  # fmt: skip
SEEDS = st.integers(0, 10**6)


@given(seed=SEEDS)
def test_gigpo_equals_its_naive_twin(seed):
    table = random_table(seed)
    close(gigpo(table), naive_gigpo(table, 0.95))


#: No deviation divides what the rewards scale; a gate adds eps to variances.
NOT_SCALED = [FAMILY["g2po_authors"], FAMILY["ecpo"]]
#: Methods in which a number of visits plays a part beside their mean.
COUNTS_VISITS = [FAMILY["ecpo"], FAMILY["rtmc"], FAMILY["g2po_authors"], milegpo, salt, frontier]


def is_(method, function):
    """Whether it is this function, with or without a preset."""
    return getattr(method, "func", method) is function


@pytest.mark.parametrize("method", [grpo, rloo, dapo, *EPISODES])
@given(seed=SEEDS)
def test_episode_scores_have_zero_mean_over_trajectories_or_steps(method, seed):
    table = random_table(seed)
    scores = np.nan_to_num(method(table, **EPISODES.get(method, {})))
    close(np.bincount(table.trajectory_group, weights=scores[table.last]), 0.0)
    scores = np.nan_to_num(method(table, over="steps", **EPISODES.get(method, {})))
    close(np.bincount(table.group, weights=scores), 0.0)


@pytest.mark.parametrize("method", OVER_THE_BATCH)
@given(seed=SEEDS)
def test_whitened_scores_have_mean_0_and_variance_1_over_the_batch(method, seed):
    table = random_table(seed, win=0.5)
    weights = np.random.default_rng(seed).integers(1, 5, len(table))
    for options, times in (({}, 1), ({"weights": weights}, weights)):
        scores = np.repeat(method(table, **options), times)
        assert scores.mean() == pytest.approx(0, abs=1e-9)
        assert scores.var(ddof=1) == pytest.approx(1 if scores.any() else 0, abs=1e-5)


@given(seed=SEEDS)
def test_the_baseline_form_keeps_the_zero_mean_of_groups_over_steps(seed):
    table = random_table(seed)
    close(np.bincount(table.group, weights=reinforce_plus_plus_baseline(table, over="steps")), 0.0)


@pytest.mark.parametrize("method", [method for method in METHODS if method not in NOT_SCALED])
@given(seed=SEEDS, factor=st.sampled_from([0.125, 3.0]))
def test_scaled_rewards_change_only_what_has_no_deviation(method, seed, factor):
    table = random_table(seed)
    scaled = dataclasses.replace(table, reward=table.reward * factor)
    options = {"outcome": "return"} | ({"base_group": True} if method is hgpo else {})
    if method is rloo:
        close(rloo(scaled), factor * rloo(table))
        return
    if method not in RECENT:  # their means of returns can be so near each other that eps counts
        close(method(scaled, **options), method(table, **options), atol=1e-3)
    close(method(scaled, eps=0.0, **options), method(table, eps=0.0, **options))
    if method in (grpo, dapo, gigpo):
        close(method(scaled, std="none", **options), factor * method(table, std="none", **options))


@pytest.mark.parametrize("times", [2, 3])
@pytest.mark.parametrize("method", [method for method in METHODS if method not in COUNTS_VISITS])
@given(seed=SEEDS)
def test_playing_every_episode_several_times_changes_only_sample_deviations(method, times, seed):
    table = random_table(seed, size=5)
    more = repeated(table, times)
    if method is rloo:
        # 5 episodes: (R - mean) * 5/4; 5 times as many: the mean of the others holds the episode's own copies.
        close(rloo(more), np.tile(rloo(table) * (5 * times / (5 * times - 1)) / (5 / 4), times))
        return
    population = {"step_ddof": 0} if method is hgpo else {"ddof": 0}
    close(method(more, **population), np.tile(method(table, **population), times))
    if method in (grpo, dapo):
        # Sums of squares grow with the copies, and what they are divided by from 4 to 5 * times - 1.
        factor = np.sqrt((5 * times - 1) / (4 * times))
        close(method(more, eps=0.0), np.tile(method(table, eps=0.0) * factor, times))
    if method in (rewardflow, graphgpo):
        # Every distinct edge counts once, however often it is taken.
        weight = {rewardflow: {"alpha_trajectory": 0.0}, graphgpo: {"beta_episode": 0.0}}[method]
        close(method(more, unit="edge", **weight), np.tile(method(table, unit="edge", **weight), times))


@pytest.mark.parametrize("method", METHODS)
def test_a_penalty_of_rows_or_rewards_is_felt_elsewhere(method):
    table = random_table(3)
    method = functools.partial(method, invalid_penalty=0.0)
    scored = ~np.isnan(method(table))
    options = {} if any(is_(method, other) for other in (rloo, *OVER_THE_BATCH)) else {"std": "none"}
    plain = method(table, **options)[scored]
    row = method(table, penalty="row", invalid_penalty=0.1, **options)[scored]
    spread = method(table, penalty="discounted", invalid_penalty=0.1, **options)[scored]
    for changed in (row, spread):
        assert np.isfinite(changed).all()
        assert not np.allclose(changed, plain)
    assert not np.allclose(row, spread)


def test_every_method_is_a_function_named_like_its_file() -> None:
    files = {module.name for module in pkgutil.iter_modules(wrappers.credit.__path__)}
    assert FUNCTIONS.keys() - files == {
        "action_targets", "bi_level_gae", "graphgpo_filled", "importance", "reinforce_plus_plus_baseline",
    }  # fmt: skip
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


@pytest.mark.parametrize("aggregate", ["min", "mean"])
@pytest.mark.parametrize("gamma", [0.5, 0.9, 1.0])
@given(seed=SEEDS)
def test_rewardflow_steps_telescope(gamma, aggregate, seed):
    # The next scored step begins where the last one led, whatever was shown in between: the rewards of a trajectory
    # sum to R(s_T) - R(s_0). Where nothing is pruned, discounted with gamma on R(s'), to gamma^T R(s_T) - R(s_0).
    for clean in (True, False):
        table = random_table(seed, clean=clean, goals=2)
        credit = rewardflow_values(table, gamma=gamma, aggregate=aggregate)
        first = table.order[table.offsets[:-1]]
        start, end = credit.value[credit.graph.source[first]], credit.value[credit.graph.target[table.last]]
        close(np.bincount(table.trajectory, weights=credit.step_reward), end - start)
        if clean:
            shaped = rewardflow_values(table, gamma=gamma, aggregate=aggregate, shaping_gamma=gamma).step_reward
            length = np.diff(table.offsets)
            close(np.bincount(table.trajectory, weights=gamma**table.t * shaped), gamma**length * end - start)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("method", [rewardflow, graphgpo])
@given(seed=SEEDS)
def test_groups_that_all_fail_get_no_step_credit_whatever_their_rewards(method, unit, seed):
    table = random_table(seed, win=0.1)
    rich = dataclasses.replace(table, reward=np.random.default_rng(seed).normal(size=len(table)))
    failed = np.bincount(table.group, weights=table.won) == 0
    assert (method(rich, unit=unit, **STEPS[method])[failed[table.group]] == 0).all()


@given(seed=SEEDS)
def test_hops_are_paths_of_unit_cost(seed):
    table = random_table(seed, goals=2)
    graph = StateGraph.from_table(table)
    close(graph.hop_distance(), graph.cost_distance(np.ones(len(table))))
    close(graphgpo(table, cost=1.0), graphgpo(table, cost=np.ones(len(table))))


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


@pytest.mark.parametrize("invalid", ["bypass", "self_loop"])
@pytest.mark.parametrize("method", [rewardflow, graphgpo])
@given(seed=SEEDS)
def test_naming_the_noise_state_does_what_marking_its_rows_does(method, invalid, seed):
    # In these tables exactly the refused steps show "Nothing happens.".
    table = random_table(seed)
    trusting = dataclasses.replace(table, valid=np.ones(len(table), np.bool_))
    expected = method(table, invalid=invalid)
    close(method(trusting, invalid=invalid, noise_states=("Nothing happens.",)), expected)
