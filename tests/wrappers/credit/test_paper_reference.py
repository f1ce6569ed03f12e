"""Every `paper` preset against a float64 reference of the papers' formulas, on 120 groups in one table."""

import numpy as np
import pytest

from tests.wrappers.credit.oracles import answers, load, table
from wrappers.credit.gigpo import gigpo
from wrappers.credit.graphgpo import graphgpo, graphgpo_values
from wrappers.credit.grpo import grpo
from wrappers.credit.rewardflow import rewardflow, rewardflow_values
from wrappers.credit.rloo import rloo

FILE = "paper_reference"


def _same(ours, *keys):
    # The file holds nine decimals.
    np.testing.assert_allclose(ours, answers(FILE, *keys), rtol=0, atol=1e-9)


def _same_nodes(graph, per_node, key, *inner):
    for group, result in enumerate(load(FILE)["results"]):
        expected = {k: np.inf if v is None else v for k, v in result[key][inner[0]].items()}
        assert graph.by_state(per_node, group) == pytest.approx(expected, abs=1e-9), result["case_id"]


def test_grpo():
    _same(grpo(table()), "gigpo", "episode_adv|std")
    _same(grpo(table(), std="none"), "gigpo", "episode_adv|no_std")
    _same(grpo(table(), outcome="won"), "rewardflow", "traj_adv")


def test_rloo_is_the_centred_outcome_times_8_over_7():
    np.testing.assert_allclose(rloo(table()), answers(FILE, "gigpo", "episode_adv|no_std") * 8 / 7, atol=2e-9)


def test_gigpo():
    _same(gigpo(table()), "gigpo", "adv|std")
    _same(gigpo(table(), std="none"), "gigpo", "adv|no_std")
    _same(gigpo(table(), omega=0.0), "gigpo", "episode_adv|std")


def test_rewardflow():
    _same(rewardflow(table()), "rewardflow", "adv_visits")
    _same(rewardflow(table(), alpha_trajectory=0.0), "rewardflow", "action_adv_visits")
    _same(rewardflow(table(), alpha_action=0.0), "rewardflow", "traj_adv")
    _same(rewardflow(table(), alpha_trajectory=0.0, unit="edge"), "rewardflow", "action_adv_edges")


def test_rewardflow_values():
    credit = rewardflow_values(table())
    _same(credit.step_reward, "rewardflow", "step_reward")
    _same_nodes(credit.graph, credit.distance, "rewardflow", "distance")
    _same_nodes(credit.graph, credit.value, "rewardflow", "value")


@pytest.mark.parametrize("omega", [0.1, 0.2, 0.8])
def test_graphgpo(omega):
    key = f"graphgpo|omega={omega}"
    _same(graphgpo(table(), omega=omega, beta_episode=0.0), key, "adv_edges")
    _same(graphgpo(table(), omega=omega, beta_episode=0.0, unit="visit"), key, "adv_visits")
    _same(graphgpo(table(), omega=omega, beta_graph=0.0), key, "traj_adv")
    total = answers(FILE, key, "adv_edges") + answers(FILE, key, "traj_adv")
    np.testing.assert_allclose(graphgpo(table(), omega=omega), total, rtol=0, atol=2e-9)
    credit = graphgpo_values(table(), omega=omega)
    _same(credit.step_reward, key, "step_reward")
    _same_nodes(credit.graph, credit.distance, key, "distance")
