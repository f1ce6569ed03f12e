"""What the state-graph methods must satisfy, on random rollouts, and the fast kernels against their naive twins."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wrappers.credit.naive import naive
from tests.wrappers.credit.random_tables import random_table, rebuild
from tests.wrappers.credit.small_tables import episodes
from wrappers.credit.graphgpo import graphgpo, graphgpo_values
from wrappers.credit.group import TOLERANCE
from wrappers.credit.rewardflow import rewardflow, rewardflow_values
from wrappers.credit.state_graph import StateGraph, Unit

#: A step level alone.
STEPS = {rewardflow: {"alpha_trajectory": 0.0}, graphgpo: {"beta_episode": 0.0}}
UNITS = Unit.__args__
SEEDS = st.integers(0, 10**6)
quick = settings(max_examples=25, deadline=None)


def _close(a, b, atol=1e-9):
    np.testing.assert_allclose(a, b, rtol=0, atol=atol)


@pytest.mark.parametrize("unit", UNITS)
@given(seed=SEEDS)
@quick
def test_rewardflow_equals_its_naive_twin(unit, seed):
    table = random_table(seed)
    _close(rewardflow(table, unit=unit), naive(table, "rewardflow", unit=unit, factor=0.9))


@pytest.mark.parametrize("unit", UNITS)
@given(seed=SEEDS)
@quick
def test_graphgpo_equals_its_naive_twin(unit, seed):
    table = random_table(seed)
    _close(graphgpo(table, unit=unit), naive(table, "graphgpo", unit=unit, factor=0.8))


@pytest.mark.parametrize("method", [rewardflow, graphgpo])
@given(seed=SEEDS)
@quick
def test_step_scores_have_zero_mean_where_steps_are_compared(method, seed):
    table = random_table(seed, clean=True)
    node = StateGraph.from_table(table).source
    visits = method(table, unit="visit", **STEPS[method])
    _close(np.bincount(node, weights=visits), 0.0)
    edges = method(table, unit="edge", **STEPS[method])
    edge, example = StateGraph.from_table(table).edges
    _close(np.bincount(node[example], weights=edges[example]), 0.0)
    _close(edges, edges[example][edge])  # every visit of an edge scores the same


@pytest.mark.parametrize("method", [rewardflow, graphgpo])
@given(seed=SEEDS)
@quick
def test_visits_of_an_edge_may_differ_in_worth_and_their_order_does_not_matter(method, seed):
    rng = np.random.default_rng(seed)
    table = random_table(seed, clean=True)
    table = dataclasses.replace(table, valid=rng.random(len(table)) < 0.5)
    rows = rng.permutation(len(table))
    options = {"unit": "edge", "invalid": "keep", "invalid_penalty": 0.5}
    _close(method(rebuild(table, rows), **options), method(table, **options)[rows])
    if method is graphgpo:
        cost = rng.uniform(0.5, 2.0, len(table))
        _close(graphgpo(rebuild(table, rows), cost=cost[rows]), graphgpo(table, cost=cost)[rows])


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
@quick
def test_rewardflow_steps_telescope(gamma, aggregate, seed):
    # Nothing is pruned in a clean table: the rewards of a trajectory sum to R(s_T) - R(s_0).
    table = random_table(seed, clean=True, goals=2)
    credit = rewardflow_values(table, gamma=gamma, aggregate=aggregate)
    first = table.order[table.offsets[:-1]]
    start, end = credit.value[credit.graph.source[first]], credit.value[credit.graph.target[table.last]]
    _close(np.bincount(table.trajectory, weights=credit.step_reward), end - start)
    # With the factor gamma on R(s'), the discounted rewards do: gamma^T R(s_T) - R(s_0).
    shaped = rewardflow_values(table, gamma=gamma, aggregate=aggregate, shaping_gamma=gamma).step_reward
    length = np.diff(table.offsets)
    _close(np.bincount(table.trajectory, weights=gamma**table.t * shaped), gamma**length * end - start)


@given(seed=SEEDS)
@quick
def test_rewardflow_steps_telescope_over_what_was_bypassed(seed):
    # The next scored step begins where the last one led, whatever was shown in between.
    table = random_table(seed)
    credit = rewardflow_values(table)
    first = table.order[table.offsets[:-1]]
    start, end = credit.value[credit.graph.source[first]], credit.value[credit.graph.target[table.last]]
    _close(np.bincount(table.trajectory, weights=credit.step_reward), end - start)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("method", [rewardflow, graphgpo])
@given(seed=SEEDS)
@quick
def test_groups_that_all_fail_get_no_step_credit_whatever_their_rewards(method, unit, seed):
    table = random_table(seed, win=0.1)
    rich = dataclasses.replace(table, reward=np.random.default_rng(seed).normal(size=len(table)))
    failed = np.bincount(table.group, weights=table.won) == 0
    assert (method(rich, unit=unit, **STEPS[method])[failed[table.group]] == 0).all()


@given(seed=SEEDS)
@quick
def test_hops_are_paths_of_unit_cost(seed):
    table = random_table(seed, goals=2)
    graph = StateGraph.from_table(table)
    _close(graph.hop_distance(), graph.cost_distance(np.ones(len(table))))
    _close(graphgpo(table, cost=1.0), graphgpo(table, cost=np.ones(len(table))))


@given(seed=SEEDS)
@quick
def test_the_nearest_success_is_never_farther_than_the_mean(seed):
    table = random_table(seed, win=0.6, goals=3)
    graph = StateGraph.from_table(table)
    nearest, mean = graph.hop_distance(), graph.hop_distance("mean")
    assert (np.isfinite(nearest) == np.isfinite(mean)).all()
    assert (mean >= nearest).all()
    single = np.bincount(graph.node_group, weights=graph.success) <= 1
    np.testing.assert_array_equal(mean[single[graph.node_group]], nearest[single[graph.node_group]])


@pytest.mark.parametrize("unit", UNITS)
@given(seed=SEEDS)
@quick
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


@given(seed=SEEDS)
@quick
def test_graphgpo_scores_no_edge_above_one_on_a_shortest_way(seed):
    table = random_table(seed, goals=2)
    credit = graphgpo_values(table)
    scores = graphgpo(table, beta_episode=0.0)
    source, target = credit.graph.source, credit.graph.target
    reachable = np.isfinite(credit.graph.hop_distance())
    best = np.full(credit.graph.n_nodes, -np.inf)
    np.maximum.at(best, source, scores)
    shortest = reachable[source] & reachable[target] & (credit.distance[source] == credit.distance[target] + 1)
    np.testing.assert_array_equal(scores[shortest], best[source[shortest]])


@pytest.mark.parametrize("invalid", ["bypass", "self_loop"])
@pytest.mark.parametrize("method", [rewardflow, graphgpo])
@given(seed=SEEDS)
@quick
def test_naming_the_noise_state_does_what_marking_its_rows_does(method, invalid, seed):
    # In these tables exactly the refused steps show "Nothing happens.".
    table = random_table(seed)
    trusting = dataclasses.replace(table, valid=np.ones(len(table), np.bool_))
    expected = method(table, invalid=invalid)
    _close(method(trusting, invalid=invalid, noise_states=("Nothing happens.",)), expected)
