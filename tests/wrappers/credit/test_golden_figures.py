"""The figures of the RewardFlow and GraphGPO papers, distances, values, rewards and advantages, digit by digit."""

import itertools

import numpy as np
import pytest

from agentgym.trajectory import StepTable
from tests.wrappers.credit.oracles import load
from wrappers.credit.graphgpo import graphgpo, graphgpo_values
from wrappers.credit.rewardflow import rewardflow, rewardflow_values

# The episodes of Figs. 8 to 10, from the notes of the file; Figs. 17 and 22 show only edges, each of which becomes an
# episode of one step here.
FIRST = "0-1-2-3-4-5-6-7-8-4-9-10-6-9-11-12-WIN"
SECOND = "0-1-14-15-16-17-2-18-WIN"
THIRD = "0-19-1"


def _from_paths(figure, paths):
    """Steps along node paths; nodes 8 and 10 of Fig. 8 are refused moves, which stay where they are."""
    action = {(edge["src"], edge["dst"]): edge["action"] for edge in figure["edges"]}
    rows = []
    for number, path in enumerate(paths):
        nodes = path.split("-")
        for t, (a, b) in enumerate(itertools.pairwise(nodes)):
            rows.append((number, t, a, action.get((a, b), f"{a} to {b}"), b, nodes[-1] == figure["goal"]))
    return rows


def _table(rows, valid=None):
    number, t, state, action, next_state, won = zip(*rows, strict=True)
    return StepTable.from_arrays(
        group=[0] * len(rows), trajectory=number, t=t, state=state, action=action, next_state=next_state,
        reward=np.zeros(len(rows)), won=won, valid=valid,
    )  # fmt: skip


def _check(figure, table):
    credit = rewardflow_values(table, gamma=figure["gamma"])
    distance, value = credit.graph.by_state(credit.distance), credit.graph.by_state(credit.value)
    expected = {state: np.inf if d is None else d for state, d in figure["distance"].items()}
    assert distance == expected
    assert value == pytest.approx(figure["value"], abs=1e-12)
    scores = rewardflow(table, gamma=figure["gamma"], unit="edge", alpha_trajectory=0.0)
    found = {}
    for row in np.flatnonzero(credit.graph.is_edge):
        source, target = (
            table.states[credit.graph.node_state[node[row]]] for node in (credit.graph.source, credit.graph.target)
        )
        key = (source, table.actions[table.action[row]], target)
        found.setdefault(key, []).append((credit.step_reward[row], scores[row]))
    edges = {(edge["src"], edge["action"], edge["dst"]): edge for edge in figure["edges"]}
    assert set(found) == set(edges)
    for key, pairs in found.items():
        assert len(set(pairs)) == 1, "an edge scores the same on every visit"
        reward, score = pairs[0]
        assert reward == pytest.approx(edges[key]["reward"], abs=1e-12), key
        assert score == pytest.approx(edges[key]["adv_distinct_edges_sample_std"], abs=1e-6), key


@pytest.mark.parametrize(
    ("name", "paths"),
    [
        ("rewardflow_alfworld_fig8_1rollout", [FIRST]),
        ("rewardflow_alfworld_fig9_2rollouts", [FIRST, SECOND]),
        ("rewardflow_alfworld_fig10_3rollouts", [FIRST, SECOND, THIRD]),
    ],
)
def test_alfworld_figures(name, paths):
    figure = load("golden")[name]
    rows = _from_paths(figure, paths)
    # 7 -> 8 and 9 -> 10 are steps whose answer changed nothing: the figures bypass the nodes 8 and 10.
    valid = [row[4] not in ("8", "10") for row in rows]
    # Bypassed, 8 -> 4 is the edge 7 -> 4 and 10 -> 6 the edge 9 -> 6, with the figures' actions.
    action = {(edge["src"], edge["dst"]): edge["action"] for edge in figure["edges"]}
    renamed = {"8 to 4": action["7", "4"], "10 to 6": action["9", "6"]}
    rows = [(n, t, a, renamed.get(act, act), b, won) for n, t, a, act, b, won in rows]
    _check(figure, _table(rows, valid))


@pytest.mark.parametrize("name", ["rewardflow_webshop_fig17", "rewardflow_sokoban_fig22"])
def test_webshop_and_sokoban_figures(name):
    figure = load("golden")[name]
    rows = [
        (i, 0, edge["src"], edge["action"], edge["dst"], edge["dst"] == figure["goal"])
        for i, edge in enumerate(figure["edges"])
    ]
    _check(figure, _table(rows))


@pytest.mark.parametrize("unit", ["edge", "visit"])  # no edge of the figure is taken twice
@pytest.mark.parametrize("omega", [0.1, 0.2, 0.8])
def test_graphgpo_figure_3(omega, unit):
    figure = load("golden")["graphgpo_fig3"]
    answers = figure["by_omega"][str(omega)]
    count = {"t1": 0, "t2": 0}
    rows = []
    for row in answers:
        rows.append((row["traj"], count[row["traj"]], row["state"], row["action"], row["next"], row["traj"] == "t1"))
        count[row["traj"]] += 1
    table = _table(rows)
    credit = graphgpo_values(table, omega=omega)
    assert credit.graph.by_state(credit.distance) == figure["distance"]

    def column(name):
        return pytest.approx(np.array([row[name] for row in answers]), abs=1e-6)

    assert credit.step_reward == column("reward_rsucc1")
    authors = graphgpo_values(table, omega=omega, preset="authors")
    assert authors.step_reward == column("reward_authors_code_10_pow_d")

    # The figure's advantages are without eps; the default 1e-6 moves the smallest rewards' by 1.1e-4 at omega .1:
    # std(1e-3, 1e-2) = 6.36e-3, so -0.707107 becomes -0.706996.
    def scores(**options):
        return graphgpo(table, omega=omega, unit=unit, eps=0.0, **options)

    assert scores(beta_episode=0.0) == column("adv_graph_sample_std")
    assert scores(beta_graph=0.0) == column("adv_episode_sample_std")
    assert scores() == column("adv_total_sample_std")
    assert scores(ddof=0, beta_episode=0.0) == column("adv_graph_population_std")
    np.testing.assert_allclose(graphgpo(table, omega=omega, unit=unit), scores(), atol=1.2e-4)
