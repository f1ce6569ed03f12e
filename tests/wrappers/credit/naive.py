"""The credit methods once more, group by group with dictionaries and queues: slow, and short enough to check."""

import math
from collections import deque

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
