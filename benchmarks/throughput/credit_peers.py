"""Credit and clusters the way published code finds them, in our own words, to measure beside ours.

Each does one thing whose cost we wanted to know: the rows of an episode are looked for among all rows again for every
step; steps of equal text are collected in a dict of lists and compared in Python; texts are compared character by
character; the reward of a success is spread by repeated sweeps over a dict graph.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agentgym.trajectory import Floats, StepTable


def scanned_returns(columns: Mapping[str, Sequence[Any]], gamma: float) -> Floats:
    """Discounted returns of rows in order of t: for every row all rows are scanned for those of its episode."""
    names = np.array(columns["trajectory"], np.object_)
    rewards = np.asarray(columns["reward"], np.float64)
    returns = np.zeros(len(names))
    for row in range(len(names)):
        mine = np.where(names == names[row])[0]
        total = 0.0
        for other in reversed(mine[mine >= row].tolist()):
            total = rewards[other] + gamma * total
        returns[row] = total
    return returns


def dict_gigpo(columns: Mapping[str, Sequence[Any]], gamma: float = 0.95, eps: float = 1e-6) -> Floats:
    """GiGPO (omega 1, sample standard deviation) with scanned returns and dicts of lists, group by group."""
    returns = scanned_returns(columns, gamma)
    outcome: dict[Any, float] = {}
    for trajectory, reward in zip(columns["trajectory"], columns["reward"], strict=True):
        outcome[trajectory] = outcome.get(trajectory, 0.0) + reward
    episodes: dict[Any, list[Any]] = {}
    visits: dict[Any, list[int]] = {}
    for row, (group, trajectory, state) in enumerate(
        zip(columns["group"], columns["trajectory"], columns["state"], strict=True)
    ):
        members = episodes.setdefault(group, [])
        if trajectory not in members:
            members.append(trajectory)
        visits.setdefault((group, state), []).append(row)
    of_episode: dict[Any, float] = {}
    for members in episodes.values():
        scores = np.array([outcome[trajectory] for trajectory in members])
        of_episode.update(zip(members, _scored(scores, eps).tolist(), strict=True))
    result = np.array([of_episode[trajectory] for trajectory in columns["trajectory"]])
    for rows in visits.values():
        result[rows] += _scored(returns[rows], eps)
    return result


def _scored(values: Floats, eps: float) -> Floats:
    if len(values) == 1:
        return np.zeros(1)
    scored: Floats = (values - values.mean()) / (values.std(ddof=1) + eps)
    return scored


def matched_texts(texts: Sequence[str], threshold: float) -> list[int]:
    """Greedy leader clusters by `difflib` similarity: the number of each text's leader."""
    leaders: list[int] = []
    found = []
    for i, text in enumerate(texts):
        matcher = difflib.SequenceMatcher(None, "", text)
        for leader in leaders:
            matcher.set_seq1(texts[leader])
            if matcher.ratio() >= threshold:
                found.append(leader)
                break
        else:
            leaders.append(i)
            found.append(i)
    return found


def pairwise_leaders(vectors: Any, groups: Sequence[int], threshold: float) -> list[int]:
    """Greedy leader clusters inside each group, one cosine at a time: the row of each vector's leader."""
    leaders: dict[int, list[int]] = {}
    found = []
    for i, group in enumerate(groups):
        mine = leaders.setdefault(group, [])
        for leader in mine:
            u, v = vectors[leader], vectors[i]
            if u @ v / np.sqrt((u @ u) * (v @ v)) >= threshold:
                found.append(leader)
                break
        else:
            mine.append(i)
            found.append(i)
    return found


def sweeping_propagation(table: StepTable, gamma: float = 0.9, sweeps: int = 1000) -> list[dict[int, float]]:
    """Values gamma^d of every group by a fixed number of sweeps over all nodes, without a test of convergence.

    Returns:
        Per group, a dict state id -> value.
    """
    result = []
    for group in range(table.n_groups):
        rows = np.flatnonzero(table.group == group).tolist()
        successors: dict[int, set[int]] = {}
        for row in rows:
            source, target = int(table.state[row]), int(table.next_state[row])
            successors.setdefault(target, set())
            successors.setdefault(source, set())
            if source != target:
                successors[source].add(target)
        value = dict.fromkeys(successors, 0.0)
        for i in _won_in(table, group):
            value[int(table.next_state[table.last[i]])] = 1.0
        for _ in range(sweeps):
            value = {
                node: max(value[node], gamma * max((value[s] for s in after), default=0.0))
                for node, after in successors.items()
            }
        result.append(value)
    return result


def _won_in(table: StepTable, group: int) -> Sequence[int]:
    return [i for i in range(table.n_trajectories) if table.trajectory_group[i] == group and table.trajectory_won[i]]
