import numpy as np
import pytest

from agentgym.trajectory import StepTable
from tests.wrappers.credit.small_tables import episodes, random_table
from wrappers.credit import graphgpo
from wrappers.credit.evidence import agreement, pair_accuracy
from wrappers.credit.group import number_pairs


def naive_accuracy(table: StepTable, scores: np.ndarray) -> float:
    total = [np.nansum(scores[table.trajectory == i]) for i in range(table.n_trajectories)]
    won, group, right = table.trajectory_won, table.trajectory_group, []
    for i in np.flatnonzero(won):
        lost = np.flatnonzero(~won & (group == group[i]))
        right += [0.5 if abs(total[i] - total[j]) < 1e-12 else float(total[i] > total[j]) for j in lost]
    return float(np.mean(right)) if right else 0.5


@pytest.mark.parametrize("seed", range(6))
def test_accuracy_equals_a_loop_over_pairs(seed: int) -> None:
    table, rng = random_table(seed), np.random.default_rng(seed)
    scores = rng.integers(-2, 3, len(table)).astype(float)  # many ties
    scores[rng.random(len(table)) < 0.1] = np.nan
    assert pair_accuracy(table, scores) == pytest.approx(naive_accuracy(table, scores))
    centred = scores.copy()
    for group in range(table.n_groups):
        rows = table.group == group
        centred[rows] -= np.nanmean(scores[rows]) if (~np.isnan(scores[rows])).any() else 0
    assert pair_accuracy(table, scores, centred=True) == pytest.approx(naive_accuracy(table, centred))


def test_by_hand() -> None:
    table = episodes("s -up-> goal +", "s -left-> u -left-> pit", "s -left-> u -up-> u -left-> pit")
    assert pair_accuracy(table, np.full(len(table), -0.1)) == 1.0
    assert pair_accuracy(table, np.full(len(table), 0.1)) == 0.0
    assert pair_accuracy(table, np.full(len(table), 0.1), centred=True) == 0.5
    assert pair_accuracy(table, np.full(len(table), np.nan)) == 0.5
    assert pair_accuracy(episodes("s -up-> goal +", "s -left-> goal +"), [5.0, 0.0]) == 0.5
    assert agreement(episodes("s -up-> u", "s -left-> v"), [5.0, 0.0]) == 0.0
    # Left costs a step more than right; of the two visits of "u" one is not scored, so that "u" has no ranks.
    table = episodes("s -right-> u -up-> goal +", "s -left-> v -up-> u -up-> goal +", "s -right-> u -down-> pit")
    scores = np.array([2.0, np.nan, 2.0, 0.0, np.nan, 1.0, np.nan])
    graph = graphgpo(table, beta_episode=0.0)
    assert graph[0] == graph[5] > 0 > graph[2]
    # In "s" the graph ranks rows 0, 2, 5 as 1.5, 0, 1.5, less the mean .5, -1, .5; the scores 1.5, 1.5, 0: .5, .5, -1.
    assert agreement(table, scores) == pytest.approx((0.25 - 0.5 - 0.5) / 1.5)


@pytest.mark.parametrize("seed", range(4))
def test_the_graph_agrees_with_itself_and_ranks_are_inside_states(seed: int) -> None:
    table = random_table(seed)
    graph = graphgpo(table, beta_episode=0.0)
    sets, example = number_pairs(table.group, table.n_groups, table.state, len(table.states))
    shift = np.random.default_rng(seed).normal(size=len(example))[sets] * 100  # levels of states play no part
    assert agreement(table, graph + shift) == pytest.approx(1.0)
    assert agreement(table, shift - graph) == pytest.approx(-1.0)
    assert agreement(table, shift) == 0.0
