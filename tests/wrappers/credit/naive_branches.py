"""The credit methods for branches once more, with loops and lists: slow, and short enough to check."""

import itertools
import math

import numpy as np

from agentgym.trajectory import StepTable
from tests.wrappers.credit.naive import standard


def own_rows(table: StepTable, i: int) -> list[int]:
    """A trajectory's own rows in order of t."""
    return sorted(np.flatnonzero(table.trajectory == i).tolist(), key=lambda row: table.t[row])


def whole_rows(table: StepTable, i: int) -> list[int]:
    """The rows of an episode from its beginning."""
    rows, cut = own_rows(table, i), int(table.parent[i])
    if cut < 0:
        return rows
    above = whole_rows(table, int(table.trajectory[cut]))
    return above[: above.index(cut) + 1] + rows


def _to_go(table, rows, gamma):
    return sum(gamma**k * table.reward[row] for k, row in enumerate(rows))


def naive_vine(table: StepTable, *, gamma: float = 1.0, pool: str = "fork", gaps: str = "segment") -> np.ndarray:
    """`vine` without whitening."""
    scores = np.full(len(table), np.nan)
    own = [own_rows(table, i) for i in range(table.n_trajectories)]
    for i, rows in enumerate(own):
        if table.parent[i] >= 0:
            continue
        values = []
        for k, row in enumerate(rows):
            returns = []
            for j, others in enumerate(own):
                if j == i or table.group[others[0]] != table.group[row]:
                    continue
                same = table.state[others[0]] == table.state[row]
                if pool == "state":
                    here = same
                elif k == 0:
                    here = table.parent[j] < 0 and same
                else:
                    here = table.parent[j] == rows[k - 1]
                if here:
                    returns.append(_to_go(table, others, gamma))
            values.append(sum(returns) / len(returns) if returns else None)
        values.append(0.0)
        if gaps == "backwards":
            for k in reversed(range(len(rows))):
                if values[k] is None:
                    values[k] = table.reward[rows[k]] + gamma * values[k + 1]
        known = [k for k, value in enumerate(values) if value is not None]
        for start, end in itertools.pairwise(known):
            gain = _to_go(table, rows[start:end], gamma) + gamma ** (end - start) * values[end] - values[start]
            for k in range(start, end):
                scores[rows[k]] = gain
    return scores


def _through(table):
    """For each row the episodes that go through it."""
    whole = [whole_rows(table, i) for i in range(table.n_trajectories)]
    return whole, [[i for i, rows in enumerate(whole) if row in rows] for row in range(len(table))]


def _roots(table, whole):
    return [int(table.trajectory[rows[0]]) for rows in whole]


def naive_bpo(table: StepTable, *, gamma: float = 1.0, lam: float = 0.95, alpha: float = 1.0) -> np.ndarray:
    """`bpo`."""
    own = [own_rows(table, i) for i in range(table.n_trajectories)]
    contrast = {}
    for cut in set(table.parent[table.parent >= 0].tolist()):
        mine = own[table.trajectory[cut]]
        ways = [mine[mine.index(cut) + 1 :]] + [own[i] for i in range(len(own)) if table.parent[i] == cut]
        returns = [_to_go(table, way, gamma) for way in ways]
        for way, value in zip(ways, returns, strict=True):
            contrast[way[0]] = value - (sum(returns) - value) / (len(returns) - 1)
    whole, through = _through(table)
    worth = [_to_go(table, rows, 1.0) for rows in whole]
    roots = _roots(table, whole)
    trees = {root: np.mean([worth[i] for i in range(len(own)) if roots[i] == root]) for root in set(roots)}
    scores = np.zeros(len(table))
    for rows in own:
        for k, row in enumerate(rows):
            behind = [contrast[each] for each in rows[: k + 1] if each in contrast]
            scores[row] = behind[-1] if behind else 0.0
            scores[row] += sum(lam ** (m - k) * contrast.get(rows[m], 0.0) for m in range(k + 1, len(rows)))
            others = [
                value
                for root, value in trees.items()
                if root != roots[table.trajectory[row]] and table.trajectory_group[root] == table.group[row]
            ]
            if others:
                scores[row] += alpha * (np.mean([worth[i] for i in through[row]]) - np.mean(others))
    return scores


def naive_tree_grpo(table: StepTable, *, compare: str = "sum", shared: str = "mean") -> np.ndarray:
    """`tree_grpo` with sample deviations, the only episode of a tree or group scoring 0."""
    whole, through = _through(table)
    worth = [float(_to_go(table, rows, 1.0)) for rows in whole]
    roots = _roots(table, whole)

    def inside(sets, values):
        result = [0.0] * len(values)
        for one in set(sets):
            members = [i for i, each in enumerate(sets) if each == one]
            if len(members) > 1:
                for i, score in zip(members, standard([values[i] for i in members]), strict=True):
                    result[i] = score
        return result

    group = inside(table.trajectory_group.tolist(), worth)
    if compare == "sum":
        leaf = [a + b for a, b in zip(group, inside(roots, worth), strict=True)]
    elif compare == "nested":
        leaf = inside(roots, group)
    scores = np.zeros(len(table))
    for row, episodes in enumerate(through):
        if compare in ("sum", "nested"):
            scores[row] = np.mean([leaf[i] for i in episodes])
        else:
            path = whole[episodes[0]]
            above = [each for each in path[: path.index(row)] if through[each] != episodes]
            everyone = [i for i in range(len(worth)) if table.trajectory_group[i] == table.group[row]]
            mean, all_of_group = np.mean([worth[i] for i in episodes]), np.mean([worth[i] for i in everyone])
            parent = np.mean([worth[i] for i in through[above[-1]]]) if above else all_of_group
            scores[row] = mean - parent + (mean - all_of_group if compare == "treerl" else 0.0)
            scores[row] /= math.sqrt(len(episodes))
        if shared == "sum":
            scores[row] *= len(episodes)
    return scores
