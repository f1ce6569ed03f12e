"""Every `authors` preset against what the authors' own code answered for 120 groups.

The originals compute in single precision: where a group's values are equal but for rounding, they divide the
rounding by about 1e-6. Such groups (values span at most 1e-5) are left out when a standard deviation is involved.
"""

from functools import cache

import numpy as np
import pytest

from tests.wrappers.credit.oracles import answers, assert_agree, build, cases, load, spans, step_groups, table
from wrappers.credit.gigpo import gigpo
from wrappers.credit.graphgpo import graphgpo, graphgpo_values
from wrappers.credit.group import contexts
from wrappers.credit.grpo import grpo
from wrappers.credit.hgpo import hgpo
from wrappers.credit.published.rewardflow import label_early_ends
from wrappers.credit.reinforce_plus_plus import reinforce_plus_plus, reinforce_plus_plus_baseline
from wrappers.credit.returns import discounted_returns
from wrappers.credit.rewardflow import rewardflow, rewardflow_values
from wrappers.credit.rloo import rloo

MODES = [("mean_norm", "none"), ("mean_std_norm", "group")]
PENALTIES = [("", 0.1), ("_nopenalty", 0.0)]
EPISODES = "verl_agent_grpo_rloo_rfpp"


def _penalty(size=0.1):
    return size * ~table().valid


def _episode_spans(size=0.1):
    of = table()
    return spans(of.trajectory_return[of.trajectory] - _penalty(size), of.group)


@pytest.mark.parametrize(("with_std", "std"), [(True, "group"), (False, "none")])
def test_grpo(with_std, std):
    theirs = answers(EPISODES, f"grpo|std={with_std}|cross_steps=True")
    assert_agree(grpo(table(), preset="authors", std=std), theirs, *([_episode_spans()] if with_std else []))


def test_grpo_over_trajectories_without_std():
    theirs = answers(EPISODES, "grpo|std=False|cross_steps=False")
    assert_agree(grpo(table(), preset="authors", std="none", over="trajectories"), theirs)


@pytest.mark.parametrize(("cross_steps", "over"), [(True, "steps"), (False, "trajectories")])
def test_rloo(cross_steps, over):
    theirs = answers(EPISODES, f"rloo|cross_steps={cross_steps}")
    assert_agree(rloo(table(), preset="authors", over=over), theirs)


def _per_case(method, **options):
    """Answers of a method that looks at the whole batch: the originals were given one case at a time."""
    return np.concatenate([method(of, preset="authors", **options) for of in _batches()])


@cache
def _batches():
    return [build([case]) for case in cases()]


def test_reinforce_plus_plus():
    # A batch whose scores are all equal is a case without contrast here.
    assert_agree(_per_case(reinforce_plus_plus), answers(EPISODES, "rfpp|gamma=1"), _episode_spans())


@pytest.mark.parametrize(("cross_steps", "over"), [(True, "steps"), (False, "trajectories")])
def test_reinforce_plus_plus_baseline(cross_steps, over):
    theirs = answers(EPISODES, f"rfpp_baseline|cross_steps={cross_steps}")
    assert_agree(_per_case(reinforce_plus_plus_baseline, over=over), theirs)


def test_shipped_modes_are_the_presets():
    # GRPO, HGPO and GraphGPO are shipped with the deviation, GiGPO's configuration and RewardFlow's call without.
    of = table()
    for method, std in (
        (grpo, "group"), (hgpo, "group"), (graphgpo, "group"), (gigpo, "none"), (rewardflow, "none")
    ):  # fmt: skip
        assert (method(of, preset="authors") == method(of, preset="authors", std=std, invalid_penalty=0.1)).all()


@pytest.mark.parametrize(("suffix", "penalty"), PENALTIES)
@pytest.mark.parametrize(("mode", "std"), MODES)
def test_gigpo(mode, std, suffix, penalty):
    returns = discounted_returns(table(), 0.95)
    name = "verl_agent_gigpo" + suffix
    np.testing.assert_allclose(returns, answers(name, "step_returns_raw"), atol=1e-5)
    contrast = [_episode_spans(penalty), spans(returns - _penalty(penalty), step_groups(table()))]
    ours = gigpo(table(), preset="authors", std=std, invalid_penalty=penalty)
    assert_agree(ours, answers(name, f"adv|{mode}|w=1"), *(contrast if std == "group" else []))


@pytest.mark.parametrize("base_group", [False, True])
@pytest.mark.parametrize(("mode", "std"), MODES)
@pytest.mark.parametrize("alpha", [0, 1])
@pytest.mark.parametrize("k", [2, 4])
def test_hgpo(k, alpha, mode, std, base_group):
    of = table()
    values = discounted_returns(of, 0.95) - _penalty()
    levels = [(values, groups) for groups, _ in contexts(of, k)]
    if base_group:
        levels.append((of.trajectory_return[of.trajectory] - _penalty(), of.group))
    theirs = answers("hgpo_authors", f"K={k}|alpha={alpha}|base_group={base_group}|{mode}")
    ours = hgpo(of, preset="authors", k=k, alpha=float(alpha), std=std, base_group=base_group)
    # Whether an advantage is exactly 0 or rounding decides about its weight, also where nothing is divided.
    assert_agree(ours, theirs, *(_rounded(*level) for level in levels))
    assert (hgpo(of, preset="authors", k=k) == hgpo(of, preset="authors", k=k, alpha=1.0, base_group=False)).all()


def _rounded(values, groups):
    """Spans of the groups, but infinite where rounding cannot occur: rows without group, groups of one or of zeros."""
    result = np.full(len(values), np.inf)
    rows = np.flatnonzero(groups >= 0)
    inside = groups[rows]
    exact = (np.bincount(inside)[inside] == 1) | (np.bincount(inside, weights=np.abs(values[rows]))[inside] == 0)
    result[rows[~exact]] = spans(values[rows], inside)[~exact]
    return result


@pytest.mark.parametrize(("suffix", "penalty"), PENALTIES)
@pytest.mark.parametrize(("mode", "std"), MODES)
@pytest.mark.parametrize("omega", [0.1, 0.2, 0.8])
def test_graphgpo(omega, mode, std, suffix, penalty):
    name = "graphgpo_authors" + suffix
    credit = graphgpo_values(table(), preset="authors", omega=omega)
    raw = credit.step_reward
    np.testing.assert_allclose(raw, answers(name, f"omega={omega}|step_return"), atol=1e-5)
    contrast = [_episode_spans(penalty), spans(raw - _penalty(penalty), step_groups(table()))]
    ours = graphgpo(table(), preset="authors", omega=omega, std=std, invalid_penalty=penalty)
    assert_agree(ours, answers(name, f"omega={omega}|adv|{mode}|episode_w=1"), *(contrast if std == "group" else []))
    steps = graphgpo(table(), preset="authors", omega=omega, std=std, invalid_penalty=penalty, beta_episode=0.0)
    contrast = contrast[1:] if std == "group" else []
    assert_agree(steps, answers(name, f"omega={omega}|adv|{mode}|episode_w=0"), *contrast)


def test_graphgpo_distances():
    credit = graphgpo_values(table(), preset="authors")
    for group, result in enumerate(load("graphgpo_authors")["results"]):
        ours = credit.graph.by_state(credit.distance, group)
        # The original adds its success node to groups without a success as well.
        assert {"You Won!": 0.0, **ours} == result["distance"]


@pytest.mark.parametrize(("suffix", "penalty"), PENALTIES)
@pytest.mark.parametrize(("mode", "std"), MODES)
def test_rewardflow_as_meant(mode, std, suffix, penalty):
    name = "rewardflow_generic_padded" + suffix
    credit = rewardflow_values(table(), preset="authors")
    np.testing.assert_allclose(credit.step_reward, answers(name, "step_reward"), atol=1e-6)
    contrast = [_episode_spans(penalty), spans(credit.step_reward - _penalty(penalty), step_groups(table()))]
    ours = rewardflow(table(), preset="authors", std=std, invalid_penalty=penalty)
    assert_agree(ours, answers(name, f"adv|{mode}"), *(contrast if std == "group" else []))


def test_rewardflow_node_values_also_with_a_reward_on_every_step():
    credit = rewardflow_values(table(), preset="authors")
    dense = 0
    for group, (case, result) in enumerate(zip(cases(), load("rewardflow_generic_padded")["results"], strict=True)):
        ours = credit.graph.by_state(credit.value, group)
        assert {state: ours[state] for state in result["value"]} == pytest.approx(result["value"], abs=1e-6)
        dense += case["params"]["dense"]
    assert dense == 20


@pytest.mark.parametrize(("mode", "std"), MODES)
def test_rewardflow_as_published_loses_last_transitions(mode, std):
    # The original was run on one group at a time, and what it loses depends on the longest trajectory of the batch.
    steps = [rewardflow_values(of, preset="authors", lose_last=True).step_reward for of in _batches()]
    np.testing.assert_allclose(np.concatenate(steps), answers("rewardflow_generic_published", "step_reward"), atol=1e-6)
    ours = _per_case(rewardflow, std=std, lose_last=True)
    contrast = [_episode_spans(), spans(np.concatenate(steps) - _penalty(), step_groups(table()))]
    theirs = answers("rewardflow_generic_published", f"adv|{mode}")
    assert_agree(ours, theirs, *(contrast if std == "group" else []))


@pytest.mark.parametrize(("mode", "std"), MODES)
def test_rewardflow_as_published_for_alfworld(mode, std):
    results = load("rewardflow_alfworld_published")["results"]
    chosen = {case["case_id"]: case for case in cases()}
    compared = 0
    for result in results:
        seen = label_early_ends(build([chosen[result["case_id"]]]))
        options = {"preset": "authors", "invalid": "bypass", "lookup": "shown", "lose_last": True, "std": std}
        credit = rewardflow_values(seen, **options)
        np.testing.assert_allclose(credit.step_reward, result["step_reward"], atol=1e-6)
        values = credit.graph.by_state(credit.value)
        assert {s: v for s, v in result["value"].items() if v} == pytest.approx({s: v for s, v in values.items() if v})
        penalty = 0.1 * ~seen.valid
        scores = seen.trajectory_return[seen.trajectory] - penalty
        contrast = (spans(credit.step_reward - penalty, step_groups(seen)) > 1e-5) & (spans(scores, seen.group) > 1e-5)
        rows = contrast if std == "group" else np.ones(len(seen), bool)
        ours, theirs = rewardflow(seen, **options)[rows], np.array(result[f"adv|{mode}"])[rows]
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-3)
        compared += rows.sum()
    assert len(results) == 66
    assert compared > 5000
