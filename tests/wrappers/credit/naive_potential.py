"""The potential family once more: one group at a time, with dictionaries and plain loops."""

import math

import numpy as np

from agentgym.trajectory import StepTable
from tests.wrappers.credit.naive import compared, distances, groups, standard


def _deviation(values, ddof):
    mean = sum(values) / len(values)
    return math.sqrt(sum((v - mean) ** 2 for v in values) / max(len(values) - ddof, 1))


def _mean(values):
    return sum(values) / len(values)


def naive_potential(table: StepTable, o: dict) -> np.ndarray:
    """Advantages by options without penalties, rewards at the end, sample deviations over groups."""
    total = np.full(len(table), np.nan)
    for group in groups(table):
        for row, score in _of_group(group, o).items():
            total[row] = score
    return total


def _of_group(group, o):
    gamma = o["gamma"]
    steps, follower, earned, cut, seen = {}, {}, {}, set(), set()
    counted = []
    for trajectory, rows in group:
        worth = float(trajectory.won) if o["outcome"] == "won" else sum(step.reward for step in trajectory.steps)
        for row, step, after in zip(rows, trajectory.steps, [*rows[1:], None], strict=True):
            steps[row], follower[row] = step, after
            earned[row] = worth if after is None else 0.0
            key = (trajectory.trajectory, step.state, step.action)
            if o["visits"] == "every" or key not in seen:
                counted.append(row)
            seen.add(key)
        if trajectory.truncated:
            cut.add(rows[-1])
    won = {row: trajectory.won for trajectory, rows in group for row in rows}
    if o["value"] == "distance":
        earned = {row: float(won[row]) if follower[row] is None else 0.0 for row in steps}

    def leads(row):
        return follower[row] is not None or (row in cut and o["value"] != "mc")

    states = {step.state for step in steps.values()}
    worth = {}
    for row in reversed(list(steps)):  # of a trajectory the last row first
        worth[row] = earned[row] + (gamma * worth[follower[row]] if follower[row] is not None else 0.0)
    returns = dict(worth)
    visits = {state: [row for row in counted if steps[row].state == state] for state in states}
    if o["value"] == "mc":
        value = {state: _mean([worth[row] for row in rows]) for state, rows in visits.items()}
    elif o["value"] == "distance":
        goals = {trajectory.steps[-1].next_state for trajectory, _ in group if trajectory.won}
        hops = distances({(step.state, step.next_state) for step in steps.values()}, goals)
        value = {state: gamma ** (hops[state] - 1) if hops.get(state, 0) else 0.0 for state in states}
    else:
        names = sorted(states)
        matrix, right = np.eye(len(names)), np.zeros(len(names))
        for i, state in enumerate(names):
            for row in visits[state]:
                right[i] += earned[row] / len(visits[state])
                if leads(row) and steps[row].next_state in states:
                    matrix[i, names.index(steps[row].next_state)] -= gamma / len(visits[state])
        value = dict(zip(names, np.linalg.solve(matrix, right).tolist(), strict=True))
    if o["value"] != "mc":
        for row, step in steps.items():
            worth[row] = earned[row] + gamma * (value.get(step.next_state, 0.0) if leads(row) else 0.0)
    scale = gamma if o["reward_on"] == "state" else 1.0
    worth = {row: scale * w for row, w in worth.items()}
    if o["prior"]:
        ends = [float(t.won) if o["outcome"] == "won" else sum(s.reward for s in t.steps) for t, _ in group]
        for state in value:
            n = len(visits[state])
            value[state] = (n * value[state] + o["prior"] * _mean(ends)) / (n + o["prior"])
    value = {state: scale * v for state, v in value.items()}
    after = {}
    for row, step in steps.items():
        behind = value.get(step.next_state, 0.0) if leads(row) else 0.0
        reward = earned[row]
        if o["reward_on"] == "state":
            behind, reward = (behind if leads(row) else earned[row] if won[row] else 0.0), 0.0
        after[row] = reward + (gamma if o["discounted"] else 1.0) * behind
    state_of = {row: step.state for row, step in steps.items()}
    if o["measure"] == "action":
        here = {}
        for row, step in steps.items():
            same = [worth[r] for r in visits[step.state] if steps[r].action == step.action]
            around = _mean([worth[r] for r in visits[step.state]])
            here[row] = (sum(same) + o["kappa"] * around) / (len(same) + o["kappa"])
    else:
        here = after
    gain = {row: here[row] - value[state_of[row]] for row in steps}
    gain = {row: 0.0 if abs(g) < 1e-12 else g for row, g in gain.items()}
    if o["measure"] == "gain" and o["lam"]:
        for row in reversed(list(steps)):
            gain[row] += gamma * o["lam"] * gain[follower[row]] if follower[row] is not None else 0.0
        here = gain
    step_level = dict.fromkeys(steps, 0.0)
    if o["contrast"] in ("state", "both"):
        scores = compared(here, state_of)
        step_level = {row: step_level[row] + scores[row] for row in steps}
    if o["contrast"] in ("task", "both"):
        scores = compared(gain, dict.fromkeys(steps, 0))
        step_level = {row: step_level[row] + scores[row] for row in steps}
    if o["contrast"] == "none":
        by = _deviation(list(gain.values()), o["ddof"])
        none = by <= 1e-9 * max(abs(g) for g in gain.values())
        step_level = {row: 0.0 if none else g / (by + 1e-6) for row, g in gain.items()}
    gate = _gates(o, group, steps, worth, won)
    peers = compared(returns, state_of)
    outcomes = [float(t.won) if o["outcome"] == "won" else sum(s.reward for s in t.steps) for t, _ in group]
    result = {}
    for (_, rows), episode in zip(group, standard(outcomes), strict=True):
        for row in rows:
            rest = 1.0 - gate[row] if o["episode"] == "elsewhere" else 1.0
            result[row] = (
                o["alpha_step"] * gate[row] * step_level[row]
                + o["alpha_return"] * peers[row]
                + o["alpha_episode"] * rest * episode
            )
    return result


def _gates(o, group, steps, worth, won):
    if o["gate"] == "success":
        share = _mean([float(t.won) for t, _ in group])
        return dict.fromkeys(steps, (1 - share) ** o["gate_power"])
    if o["gate"] == "successors":
        ways = {}
        for step in steps.values():
            ways.setdefault(step.state, set()).add(step.next_state)
        return {row: float(len(ways[step.state]) > 1) for row, step in steps.items()}
    if o["gate"] == "variance":
        gate = {}
        for row, step in steps.items():
            here = [r for r in steps if steps[r].state == step.state]
            mean = _mean([worth[r] for r in here])
            own = {r: _mean([worth[q] for q in here if steps[q].action == steps[r].action]) for r in here}
            between = _mean([(own[r] - mean) ** 2 if abs(own[r] - mean) > 1e-12 else 0.0 for r in here])
            within = _mean([(worth[r] - own[r]) ** 2 for r in here])
            gate[row] = math.tanh(len(here) / o["tau"]) * between / (between + within + 1e-6)
        return gate
    return dict.fromkeys(steps, 1.0)
