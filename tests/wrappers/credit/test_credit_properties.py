"""What every credit method must satisfy, on random rollouts."""

import dataclasses
import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.trajectory import StepTable
from tests.wrappers.credit.naive import naive_gigpo
from tests.wrappers.credit.random_tables import random_table, rebuild, repeated
from wrappers.credit.dapo import contrasting_groups, dapo
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
from wrappers.credit.state_graph import StateGraph
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
#: The episode level alone.
EPISODES = {
    rewardflow: {"alpha_action": 0.0}, graphgpo: {"beta_graph": 0.0}, gigpo: {"omega": 0.0},
    milegpo: {"alpha_step": 0.0}, frontier: {"alpha_step": 0.0}, tigpo: {"alpha_step": 0.0},
    FAMILY["g2po"]: {"alpha_step": 0.0}, FAMILY["ecpo"]: {"alpha_step": 0.0},
}  # fmt: skip
SEEDS = st.integers(0, 10**6)
quick = settings(max_examples=25, deadline=None)


def _close(a, b, atol=1e-9):
    np.testing.assert_allclose(a, b, rtol=0, atol=atol)


@given(seed=SEEDS)
@quick
def test_gigpo_equals_its_naive_twin(seed):
    table = random_table(seed)
    _close(gigpo(table), naive_gigpo(table, 0.95))


#: No deviation divides what the rewards scale; a gate adds eps to variances.
NOT_SCALED = [FAMILY["g2po_authors"], FAMILY["ecpo"]]
#: Methods in which a number of visits plays a part beside their mean.
COUNTS_VISITS = [FAMILY["ecpo"], FAMILY["rtmc"], FAMILY["g2po_authors"], milegpo, salt, frontier]
#: MileGPO alone has something to say of groups that fail throughout: where they came back to.
NO_TRAPS = {milegpo: {"w_trap": 0.0}}


def is_(method, function):
    """Whether it is this function, with or without a preset."""
    return getattr(method, "func", method) is function


@pytest.mark.parametrize("method", WITH_PRESETS)
@given(seed=SEEDS)
@quick
def test_names_and_order_do_not_matter(method, seed):
    table = random_table(seed)
    if is_(method, rewardflow):
        # Its node rewards are those of the first sight, which is a matter of order once a win can be missed.
        table = random_table(seed, win=1.0)
    rows = np.random.default_rng(seed).permutation(len(table))
    shuffled = rebuild(table, rows, rename=lambda name: ("node", name[::-1]), relabel=lambda name: (len(name), name))
    _close(method(shuffled), method(table)[rows])


@pytest.mark.parametrize("method", IN_GROUPS)
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
def test_returns_compared_at_a_state_have_zero_mean_there(seed):
    table = random_table(seed)
    node = StateGraph.from_table(table).source
    _close(np.bincount(node, weights=gigpo(table) - grpo(table)), 0.0)
    # The longer contexts divide the visits of a state further, and their weights are the same for every row.
    _close(np.bincount(node, weights=hgpo(table, k=3)), 0.0)


@pytest.mark.parametrize("method", [grpo, rloo, dapo, *EPISODES])
@given(seed=SEEDS)
@quick
def test_episode_scores_have_zero_mean_over_trajectories_or_steps(method, seed):
    table = random_table(seed)
    scores = np.nan_to_num(method(table, **EPISODES.get(method, {})))
    _close(np.bincount(table.trajectory_group, weights=scores[table.last]), 0.0)
    scores = np.nan_to_num(method(table, over="steps", **EPISODES.get(method, {})))
    _close(np.bincount(table.group, weights=scores), 0.0)


@pytest.mark.parametrize("method", OVER_THE_BATCH)
@given(seed=SEEDS)
@quick
def test_whitened_scores_have_mean_0_and_variance_1_over_the_batch(method, seed):
    table = random_table(seed, win=0.5)
    weights = np.random.default_rng(seed).integers(1, 5, len(table))
    for options, times in (({}, 1), ({"weights": weights}, weights)):
        scores = np.repeat(method(table, **options), times)
        assert scores.mean() == pytest.approx(0, abs=1e-9)
        assert scores.var(ddof=1) == pytest.approx(1 if scores.any() else 0, abs=1e-5)


@given(seed=SEEDS)
@quick
def test_the_baseline_form_keeps_the_zero_mean_of_groups_over_steps(seed):
    table = random_table(seed)
    _close(np.bincount(table.group, weights=reinforce_plus_plus_baseline(table, over="steps")), 0.0)


@pytest.mark.parametrize("method", WITH_PRESETS)
@given(seed=SEEDS)
@quick
def test_batches_that_all_fail_score_exactly_0(method, seed):
    table = random_table(seed, win=0.0)
    scores = method(table, invalid_penalty=0.0, **NO_TRAPS.get(getattr(method, "func", method), {}))
    assert np.isnan(scores).all() if is_(method, dapo) else (scores == 0).all()


@pytest.mark.parametrize("method", IN_GROUPS)
@given(seed=SEEDS)
@quick
def test_groups_that_fail_among_others_score_exactly_0(method, seed):
    table = random_table(seed, win=0.15)
    failed = ~contrasting_groups(table) & (np.bincount(table.group, weights=table.won) == 0)
    scores = method(table, **NO_TRAPS.get(method, {"invalid_penalty": 0.0}))[failed[table.group]]
    assert np.isnan(scores).all() if method is dapo else (scores == 0).all()


@given(seed=SEEDS)
@quick
def test_groups_that_all_win_get_no_episode_credit(seed):
    table = random_table(seed, win=1.0, states=4, steps=40)
    rows = np.flatnonzero(table.won)
    if len(rows):
        won = rebuild(table, rows)
        assert (grpo(won) == 0).all()
        assert (rewardflow(won, alpha_action=0.0) == 0).all()
        assert np.isnan(dapo(won)).all()


@pytest.mark.parametrize("method", [method for method in METHODS if method not in NOT_SCALED])
@given(seed=SEEDS, factor=st.sampled_from([0.125, 3.0]))
@quick
def test_scaled_rewards_change_only_what_has_no_deviation(method, seed, factor):
    table = random_table(seed)
    scaled = dataclasses.replace(table, reward=table.reward * factor)
    options = {"outcome": "return"} | ({"base_group": True} if method is hgpo else {})
    if method is rloo:
        _close(rloo(scaled), factor * rloo(table))
        return
    if method not in RECENT:  # their means of returns can be so near each other that eps counts
        _close(method(scaled, **options), method(table, **options), atol=1e-3)
    _close(method(scaled, eps=0.0, **options), method(table, eps=0.0, **options))
    if method in (grpo, dapo, gigpo):
        _close(method(scaled, std="none", **options), factor * method(table, std="none", **options))


@pytest.mark.parametrize("times", [2, 3])
@pytest.mark.parametrize("method", [method for method in METHODS if method not in COUNTS_VISITS])
@given(seed=SEEDS)
@quick
def test_playing_every_episode_several_times_changes_only_sample_deviations(method, times, seed):
    table = random_table(seed, size=5)
    more = repeated(table, times)
    if method is rloo:
        # 5 episodes: (R - mean) * 5/4; 5 times as many: the mean of the others holds the episode's own copies.
        _close(rloo(more), np.tile(rloo(table) * (5 * times / (5 * times - 1)) / (5 / 4), times))
        return
    population = {"step_ddof": 0} if method is hgpo else {"ddof": 0}
    _close(method(more, **population), np.tile(method(table, **population), times))
    if method in (grpo, dapo):
        # Sums of squares grow with the copies, and what they are divided by from 4 to 5 * times - 1.
        factor = np.sqrt((5 * times - 1) / (4 * times))
        _close(method(more, eps=0.0), np.tile(method(table, eps=0.0) * factor, times))
    if method in (rewardflow, graphgpo):
        # Every distinct edge counts once, however often it is taken.
        weight = {rewardflow: {"alpha_trajectory": 0.0}, graphgpo: {"beta_episode": 0.0}}[method]
        _close(method(more, unit="edge", **weight), np.tile(method(table, unit="edge", **weight), times))


@pytest.mark.parametrize("method", WITH_PRESETS)
def test_no_rows_and_one_row(method):
    empty = dict.fromkeys(("group", "trajectory", "t", "state", "action", "next_state", "reward", "won"), ())
    assert method(StepTable.from_arrays(**empty)).shape == (0,)
    one = StepTable.from_arrays(
        group=[0], trajectory=[0], t=[0], state=["s"], action=["a"], next_state=["goal"], reward=[3.0], won=[True]
    )
    # The papers compare; the authors' code gives a lone episode its raw score, where it has an episode level.
    words = getattr(method, "keywords", {}).get("preset", "")
    raw = words.endswith("authors") and not any(is_(method, other) for other in (hgpo, *OVER_THE_BATCH))
    # A tenth of what it gained, in units of itself.
    gained = 0.1 if is_(method, frontier) else 0.0
    expected = np.nan if is_(method, dapo) else 3.0 if raw else gained
    assert method(one) == pytest.approx([expected], abs=1e-5, nan_ok=True)


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
