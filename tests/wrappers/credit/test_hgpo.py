import numpy as np
import pytest

from tests.refusals import refuses
from tests.wrappers.credit.naive import groups, standard
from tests.wrappers.credit.small_tables import close, episodes, random_table, rebuild
from wrappers.credit import gigpo, grpo, hgpo
from wrappers.credit.group import contexts

# u is reached from s twice (returns 1 and 0) and from v once (return 0).
TABLE = episodes("s -a-> u -b-> goal +", "s -a-> u -c-> pit", "v -a-> u -d-> pit")


def _steps(**options):
    return hgpo(TABLE, std="none", gamma=1.0, **options)


def test_by_hand() -> None:
    (zero, n_zero), (one, n_one), (two, n_two) = contexts(TABLE, 2)
    # Rows: s u s u v u, numbered by group, then state in order of appearance.
    assert (zero.tolist(), n_zero) == ([0, 1, 0, 1, 2, 1], 3)
    assert (one.tolist(), n_one) == ([-1, 0, -1, 0, -1, 1], 2)
    assert (two.tolist(), n_two) == ([-1] * 6, 0)
    # k = 1, weights 1/3 and 2/3. s: returns 1 and 0, A_0 = +-1/2, no context before it. u: returns 1 0 0, mean 1/3;
    # after s: 1 and 0, mean 1/2; after v alone: 0. So 2/3 / 3 + 1/2 * 2/3 = 5/9; -1/9 - 1/3 = -4/9; -1/9.
    assert _steps(k=1) == pytest.approx([1 / 6, 5 / 9, -1 / 6, -4 / 9, 0, -1 / 9])
    # Divided by what a row has, the first rows are whole; the last row's context of one member still counts.
    assert _steps(k=2, divide_by="has") == pytest.approx([1 / 2, 5 / 9, -1 / 2, -4 / 9, 0, -1 / 9])
    # Divided by what has contrast, that one does not either.
    assert _steps(k=2, divide_by="contrast") == pytest.approx([1 / 2, 5 / 9, -1 / 2, -4 / 9, 0, -1 / 3])
    # Weights 2:3 instead of 1:2: 2/5 * 2/3 + 3/5 / 2 = 17/30; -2/15 - 3/10 = -13/30.
    scores = _steps(k=2, divide_by="contrast", first_weight=2)
    assert scores == pytest.approx([1 / 2, 17 / 30, -1 / 2, -13 / 30, 0, -1 / 3])
    # Episodes 2/3 -1/3 -1/3 with weight 1, in a sum of 1 + 2 for k = 0 and first_weight 2, A_0 as above.
    options = {"k": 0, "first_weight": 2, "base_group": True}
    scores = [(2 / 3 + 1) / 3, (2 / 3 + 4 / 3) / 3, (-1 / 3 - 1) / 3, (-1 / 3 - 2 / 3) / 3, -1 / 9, -1 / 3]
    assert _steps(**options) == pytest.approx(scores)
    # v was visited once: with the code's rule only the episode is left.
    assert _steps(**options, divide_by="contrast")[4] == pytest.approx(-1 / 3)
    # The deviation of the episodes is the option ddof, that of the steps step_ddof.
    alone = hgpo(TABLE, preset="authors", over="trajectories", base_group=True)[4]
    assert alone == pytest.approx(grpo(TABLE)[4])


def _naive(table, k, alpha, gamma):
    total = np.zeros(len(table))
    members = [{} for _ in range(k + 1)]
    returns = {}
    for trajectory, rows in (each for group in groups(table) for each in group):
        ahead = 0.0
        for row, step in zip(reversed(rows), reversed(trajectory.steps), strict=True):
            returns[row] = ahead = step.reward + gamma * ahead
        states = [step.state for step in trajectory.steps]
        for t, row in enumerate(rows):
            for j in range(min(k, t) + 1):
                members[j].setdefault((trajectory.group, *states[t - j : t + 1]), []).append(row)
    for j in range(k + 1):
        weight = (j + 1) ** alpha / sum((i + 1) ** alpha for i in range(k + 1))
        for rows in members[j].values():
            total[rows] += weight * np.array(standard([returns[row] for row in rows]))
    return total


@pytest.mark.parametrize(("k", "alpha"), [(0, 1.0), (1, 0.0), (2, 1.0), (4, 2.0)])
@pytest.mark.parametrize("seed", range(5))
def test_equals_its_naive_twin(k, alpha, seed):
    table = random_table(seed, states=4, steps=20)
    table = rebuild(table, np.random.default_rng(seed).permutation(len(table)))
    close(hgpo(table, k=k, alpha=alpha), _naive(table, k, alpha, 0.95))


def test_without_history_and_wrong_options() -> None:
    table = random_table(5)
    close(hgpo(table, k=0), gigpo(table) - grpo(table))
    close(hgpo(table, k=0, alpha=3.0), hgpo(table, k=0))
    assert hgpo(TABLE, k=50, alpha=0.0, std="none", gamma=1.0) == pytest.approx(_steps(k=1, alpha=0.0) * 2 / 51)
    refuses(ValueError, "k must be at least 0, got -1", hgpo, TABLE, k=-1)
    for alpha in (1000.0, -1000.0):  # 3^1000 is no float, and where all weights are 0 nothing can be divided
        refuses(ValueError, rf"alpha must be within \+-.* with k=2, .*, got {alpha}", hgpo, TABLE, alpha=alpha)
    assert np.isfinite(hgpo(TABLE, alpha=200.0, k=1)).all()
