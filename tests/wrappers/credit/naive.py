"""The credit methods once more, group by group with dictionaries and queues: slow, and short enough to check."""

import math
from collections import deque

import numpy as np

from agentgym.trajectory import StepTable


def standard(values, eps=1e-6):
    """Scores of a list against itself; without contrast all 0."""
    if max(values) - min(values) <= 1e-9 * max(abs(v) for v in values):
        return [0.0] * len(values)
    mean = sum(values) / len(values)
    deviation = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))
    return [(v - mean) / (deviation + eps) for v in values]


def groups(table: StepTable):
    """Per group its trajectories, each with its rows in order of t."""
    result = {}
    for i, trajectory in enumerate(table.to_trajectories()):
        rows = table.order[table.offsets[i] : table.offsets[i + 1]].tolist()
        result.setdefault(trajectory.group, []).append((trajectory, rows))
    return result.values()


def centred(values):
    """Values of a list less their mean."""
    return [v - sum(values) / len(values) for v in values]


def compared(values, source, scores=standard):
    """Score values (row -> value) among rows of the same source."""
    result, states = {}, {}
    for row in values:
        states.setdefault(source[row], []).append(row)
    for rows in states.values():
        result.update(zip(rows, scores([values[row] for row in rows]), strict=True))
    return result


def distances(edges, goals):
    """Hops to the nearest goal by a queue."""
    found, queue = dict.fromkeys(goals, 0), deque(goals)
    while queue:
        node = queue.popleft()
        for source, target in edges:
            if target == node and source not in found:
                found[source] = found[node] + 1
                queue.append(source)
    return found


def _per_edge(values, edge):
    """As `compared`, each distinct edge (source, action, target) once."""
    unique = {edge[row]: value for row, value in values.items()}
    scores = compared(unique, {key: key[0] for key in unique})
    return {row: scores[edge[row]] for row in values}


def naive(table: StepTable, method: str, *, unit: str, factor: float) -> np.ndarray:
    """Advantages of the `paper` presets of rewardflow (factor gamma) and graphgpo (factor omega)."""
    total = np.full(len(table), np.nan)
    for group in groups(table):
        edge = {}
        for trajectory, rows in group:
            at = trajectory.steps[0].state
            for row, step in zip(rows, trajectory.steps, strict=True):
                if method == "graphgpo":
                    edge[row] = (step.state, step.action, step.next_state)
                    continue
                looks = step.action.split()[0] in ("look", "inventory", "examine")
                if step.valid and not looks and step.next_state != at:
                    edge[row] = (at, step.action, step.next_state)
                    at = step.next_state
        pairs = {(source, target) for source, _, target in edge.values()}
        d = distances(pairs, {trajectory.steps[-1].next_state for trajectory, _ in group if trajectory.won})
        if method == "graphgpo":
            far = max(d.values(), default=0) + 1
            reward = {row: factor ** (d.get(target, far) + 1) for row, (_, _, target) in edge.items()}
        else:
            value = {node: factor**hops for node, hops in d.items()}
            reward = {row: value.get(target, 0.0) - value.get(source, 0.0) for row, (source, _, target) in edge.items()}
        if unit == "edge":
            scores = _per_edge(reward, edge)
        else:
            scores = compared(reward, {row: key[0] for row, key in edge.items()})
        outcomes = standard([float(trajectory.won) for trajectory, _ in group])
        for (_, rows), outcome in zip(group, outcomes, strict=True):
            for row in rows:
                total[row] = outcome + scores.get(row, 0.0)
    return total


def naive_gigpo(table: StepTable, gamma: float) -> np.ndarray:
    """Advantages of the `paper` preset of gigpo."""
    total = np.full(len(table), np.nan)
    for group in groups(table):
        returns, source = {}, {}
        for trajectory, rows in group:
            ahead = 0.0
            for row, step in zip(reversed(rows), reversed(trajectory.steps), strict=True):
                ahead = step.reward + gamma * ahead
                returns[row], source[row] = ahead, step.state
        scores = compared(returns, source)
        outcomes = standard([sum(step.reward for step in trajectory.steps) for trajectory, _ in group])
        for (_, rows), outcome in zip(group, outcomes, strict=True):
            for row in rows:
                total[row] = outcome + scores[row]
    return total
