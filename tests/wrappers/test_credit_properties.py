"""What every credit method must satisfy, on random rollouts, and the fast kernels against their naive twins."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.trajectory import StepTable
from tests.wrappers.naive_credit import naive, naive_gigpo
from tests.wrappers.random_tables import random_table, rebuild
from wrappers.gigpo import gigpo
from wrappers.graphgpo import graphgpo, graphgpo_values
from wrappers.grpo import grpo
from wrappers.rewardflow import rewardflow, rewardflow_values
from wrappers.rloo import rloo
from wrappers.state_graph import StateGraph

METHODS = [grpo, rloo, gigpo, rewardflow, graphgpo]
SEEDS = st.integers(0, 10**6)
quick = settings(max_examples=25, deadline=None)


def _close(a, b, atol=1e-9):
    np.testing.assert_allclose(a, b, rtol=0, atol=atol)


@pytest.mark.parametrize("unit", ["visit", "edge"])
@given(seed=SEEDS)
@quick
def test_rewardflow_equals_its_naive_twin(unit, seed):
    table = random_table(seed)
    _close(rewardflow(table, unit=unit), naive(table, "rewardflow", unit=unit, factor=0.9))


@pytest.mark.parametrize("unit", ["visit", "edge"])
@given(seed=SEEDS)
@quick
def test_graphgpo_equals_its_naive_twin(unit, seed):
    table = random_table(seed)
    _close(graphgpo(table, unit=unit), naive(table, "graphgpo", unit=unit, factor=0.8))


@given(seed=SEEDS)
@quick
def test_gigpo_equals_its_naive_twin(seed):
    table = random_table(seed)
    _close(gigpo(table), naive_gigpo(table, 0.95))


@pytest.mark.parametrize("preset", ["paper", "authors"])
@pytest.mark.parametrize("method", METHODS)
@given(seed=SEEDS)
@quick
def test_names_and_order_do_not_matter(method, preset, seed):
    table = random_table(seed)
    if preset == "authors" and method is rewardflow:
        # Its node rewards are those of the first sight, which is a matter of order once a win can be missed.
        table = random_table(seed, win=1.0)
    rows = np.random.default_rng(seed).permutation(len(table))
    shuffled = rebuild(table, rows, rename=lambda name: ("node", name[::-1]))
    _close(method(shuffled, preset=preset), method(table, preset=preset)[rows])


@pytest.mark.parametrize("method", METHODS)
@given(seed=SEEDS)
@quick
def test_groups_do_not_see_each_other(method, seed):
    table = random_table(seed)
    whole = method(table)
    for group in range(table.n_groups):
        rows = np.flatnonzero(table.group == group)
        _close(method(rebuild(table, rows)), whole[rows])


@given(seed=SEEDS)
@quick
def test_step_scores_have_zero_mean_where_steps_are_compared(seed):
    table = random_table(seed, clean=True)
    visits = rewardflow(table, unit="visit", alpha_trajectory=0.0)
    node = StateGraph.from_table(table).source
    _close(np.bincount(node, weights=visits), 0.0)
    edges = graphgpo(table, unit="edge", beta_episode=0.0)
    edge, example = StateGraph.from_table(table).edges
    _close(np.bincount(node[example], weights=edges[example]), 0.0)
    _close(edges, edges[example][edge])  # every visit of an edge scores the same
    _close(np.bincount(node, weights=gigpo(table) - grpo(table)), 0.0)


@pytest.mark.parametrize("method", METHODS)
@given(seed=SEEDS)
@quick
def test_episode_scores_have_zero_mean_over_trajectories(method, seed):
    table = random_table(seed)
    weights = {rewardflow: {"alpha_action": 0.0}, graphgpo: {"beta_graph": 0.0}, gigpo: {"omega": 0.0}}
    scores = method(table, **weights.get(method, {}))[table.last]
    _close(np.bincount(table.trajectory_group, weights=scores), 0.0)


@pytest.mark.parametrize("gamma", [0.5, 0.9, 1.0])
@given(seed=SEEDS)
@quick
def test_rewardflow_steps_telescope(gamma, seed):
    # Nothing is pruned in a clean table: the rewards of a trajectory sum to R(end) - R(start).
    table = random_table(seed, clean=True)
    credit = rewardflow_values(table, gamma=gamma)
    sums = np.bincount(table.trajectory, weights=credit.step_reward)
    first = table.order[table.offsets[:-1]]
    _close(sums, credit.value[credit.graph.target[table.last]] - credit.value[credit.graph.source[first]])


@pytest.mark.parametrize("preset", ["paper", "authors"])
@given(seed=SEEDS)
@quick
def test_groups_that_all_fail_get_no_step_credit(preset, seed):
    table = random_table(seed, win=0.0)
    assert not table.won.any()
    assert (rewardflow(table, preset=preset, invalid_penalty=0.0) == 0).all()
    assert (graphgpo(table, preset=preset, invalid_penalty=0.0) == 0).all()


@given(seed=SEEDS)
@quick
def test_groups_that_all_win_get_no_episode_credit(seed):
    table = random_table(seed, win=1.0, states=4, steps=40)
    rows = np.flatnonzero(table.won)
    if len(rows):
        won = rebuild(table, rows)
        assert (grpo(won) == 0).all()
        assert (rewardflow(won, alpha_action=0.0) == 0).all()


@given(seed=SEEDS)
@quick
def test_hops_are_paths_of_unit_cost(seed):
    table = random_table(seed)
    graph = StateGraph.from_table(table)
    _close(graph.hop_distance(), graph.cost_distance(np.ones(len(table))))
    _close(graphgpo(table, cost=1.0), graphgpo(table, cost=np.ones(len(table))))


@given(seed=SEEDS)
@quick
def test_graphgpo_pays_more_for_an_edge_that_leads_nearer(seed):
    # Prop. 4.1: among the edges out of a state, a smaller d(s') + c has the larger score.
    table = random_table(seed)
    cost = np.random.default_rng(seed).uniform(0.5, 2.0, len(table))
    credit = graphgpo_values(table, cost=cost)
    scores = graphgpo(table, cost=cost, beta_episode=0.0, unit="visit")
    way = credit.distance[credit.graph.target] + cost
    for node in np.unique(credit.graph.source):
        rows = np.flatnonzero(credit.graph.source == node)
        ranked = scores[rows][np.argsort(way[rows])]
        assert (np.diff(ranked) <= 1e-12).all()


@pytest.mark.parametrize("method", METHODS)
@given(seed=SEEDS, factor=st.sampled_from([0.125, 8.0]))
@quick
def test_scaled_rewards_change_only_what_has_no_std(method, seed, factor):
    table = random_table(seed)
    scaled = StepTable(**{**_columns(table), "reward": table.reward * factor})
    if method is rloo:
        _close(rloo(scaled), factor * rloo(table))
    else:
        _close(method(scaled), method(table), atol=1e-3)  # up to eps


@pytest.mark.parametrize("preset", ["paper", "authors"])
@pytest.mark.parametrize("method", METHODS)
def test_no_rows_and_one_row(method, preset):
    empty = dict.fromkeys(("group", "trajectory", "t", "state", "action", "next_state", "reward", "won"), ())
    assert method(StepTable.from_arrays(**empty), preset=preset).shape == (0,)
    one = StepTable.from_arrays(
        group=[0], trajectory=[0], t=[0], state=["s"], action=["a"], next_state=["goal"], reward=[3.0], won=[True]
    )
    # The papers compare; the authors' code gives a lone episode its raw score.
    expected = 0.0 if preset == "paper" else 3.0
    assert method(one, preset=preset) == pytest.approx([expected], abs=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_invalid_steps_lose_the_penalty_where_it_is_asked_for(method):
    table = random_table(3)
    plain = method(table)
    lost = plain - method(table, invalid_penalty=0.1, penalty="advantage")
    _close(lost, np.where(table.valid, 0.0, 0.1))
    options = {} if method is rloo else {"std": "none"}
    plain = method(table, **options)
    row = method(table, penalty="row", invalid_penalty=0.1, **options)
    spread = method(table, penalty="discounted", invalid_penalty=0.1, **options)
    for changed in (row, spread):
        assert np.isfinite(changed).all()
        assert not np.allclose(changed, plain)
    assert not np.allclose(row, spread)


def _columns(table):
    names = (
        "group trajectory t state next_state action valid reward terminated truncated won "
        "states actions groups trajectories"
    )
    return {name: getattr(table, name) for name in names.split()}
