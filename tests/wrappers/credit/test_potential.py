"""The potential family once more: one group at a time, with dictionaries and plain loops."""

import dataclasses
import math
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.trajectory import StepTable
from tests.playing import walks
from tests.refusals import refuses
from tests.wrappers.credit.naive import compared, distances, groups, standard
from tests.wrappers.credit.small_tables import close, episodes, random_table
from wrappers.credit import gigpo, graphgpo, grpo
from wrappers.credit.potential import PRESETS, potential, potential_values

# Out of s: right twice, then up wins once and down loses once; left loses at once.
TABLE = episodes("s -right-> u -up-> goal +", "s -right-> u -down-> pit", "s -left-> pit")
SEEDS = st.integers(0, 10**6)


def values(table=TABLE, **options):
    found = potential_values(table, **options)
    return found.graph.by_state(found.value)


def only(**options):
    """A step level without deviation and other levels."""
    return {"std": "none", "alpha_episode": 0.0, "alpha_return": 0.0, "gate": "none", **options}


def test_values_by_hand() -> None:
    # Returns at gamma 1/2: 1/2 and 1, 0 and 0, 0. s: mean of 1/2 0 0; u: mean of 1 0.
    assert values(preset="pgpo", gamma=0.5) == {"s": pytest.approx(1 / 6), "u": 0.5, "goal": 0, "pit": 0}
    # Bellman: u = (1 + 0) / 2; s = (2 * u / 2 + 0) / 3, the same here, as every visit of u came from s.
    assert values(preset="gated_bepo", gamma=0.5) == {"s": pytest.approx(1 / 6), "u": 0.5, "goal": 0, "pit": 0}
    # Distances 2 and 1, and the steps of G2PO's values are one more.
    assert values(preset="pgpo", gamma=0.5, value="distance") == {"s": 0.5, "u": 1, "goal": 0, "pit": 0}
    assert values(preset="g2po", gamma=0.5, value="distance") == {"s": 0.25, "u": 0.5, "goal": 0, "pit": 0}
    table = episodes("u -up-> goal +", "s -right-> u")
    cut = dataclasses.replace(table, terminated=np.array([True, False]), truncated=np.array([False, True]))
    assert values(cut, preset="gated_bepo", gamma=0.5)["s"] == pytest.approx(0.5)
    assert values(table, preset="gated_bepo", gamma=0.5)["s"] == 0  # it ended there, for good
    assert values(cut, preset="pgpo", gamma=0.5)["s"] == 0


def test_presets_by_hand() -> None:
    # gamma 1/2: V(s) = (1/4 + 0 + 0)/3 = 1/12, V(u) = 1/4, success 1, failure 0.
    # Out of s they lead to 1/4 1/4 0, mean 1/6; out of u to 1 and 0. Gains 1/6 3/4 1/6 -1/4 -1/12, mean 3/20.
    local = np.array([1 / 12, 1 / 2, 1 / 12, -1 / 2, -1 / 6])
    gains = np.array([1 / 6, 3 / 4, 1 / 6, -1 / 4, -1 / 12]) - 3 / 20
    assert potential(TABLE, preset="g2po", gamma=0.5, **only(contrast="state")) == pytest.approx(local)
    assert potential(TABLE, preset="g2po", gamma=0.5, **only(contrast="task")) == pytest.approx(gains)
    assert potential(TABLE, preset="g2po", gamma=0.5, **only()) == pytest.approx(local + gains)
    # Episodes 2/3 -1/3 -1/3 come on top.
    whole = potential(TABLE, preset="g2po", gamma=0.5, std="none")
    assert whole - local - gains == pytest.approx([2 / 3, 2 / 3, -1 / 3, -1 / 3, -1 / 3])
    # gamma 1/2: Phi(s) = 1/6, Phi(u) = 1/2; the differences, 1/3 1/2 1/3 -1/2 -1/6, in s less their mean 1/6, in u 0.
    phi = np.array([1 / 6, 1 / 2, 1 / 6, -1 / 2, -1 / 3])
    assert potential(TABLE, preset="pgpo", gamma=0.5, **only()) == pytest.approx(phi)
    # A third is won: (2/3)^2 of them. Returns 1/2 1 0 0 0: 1/3 and 1/2 above the means.
    returns = np.array([1 / 3, 1 / 2, -1 / 6, -1 / 2, -1 / 6])
    assert potential(TABLE, preset="pgpo", gamma=0.5, std="none") == pytest.approx(returns + 4 / 9 * phi)
    # Gains 1/4 - 1/6, 1 - 1/2, 1/12, 0 - 1/2, 0 - 1/6, and a quarter of the next; both states were left in two ways.
    gains = np.array([1 / 12, 1 / 2, 1 / 12, -1 / 2, -1 / 6]) + np.array([1 / 8, 0, -1 / 8, 0, 0])
    for preset in ("gated_bepo", "gagpo"):
        assert potential(TABLE, preset=preset, gamma=0.5, lam=0.5, std="none") == pytest.approx(gains)
    # gamma 1/2: right is worth (1/2 + 0)/2, s 1/6, with two more visits of that (1/2 + 1/3)/4 = 5/24; left (0 + 1/3)/3.
    # Their mean over visits is (5/24 + 5/24 + 1/9)/3 = 19/108.
    scores = potential(TABLE, preset="ecpo", gamma=0.5, **only())
    mean = 19 / 108
    right, left = 5 / 24 - mean, 1 / 9 - mean
    up, down = (1 + 2 / 2) / 3 - 0.5, (0 + 2 / 2) / 3 - 0.5
    assert scores == pytest.approx([right, up, right, down, left])
    # The gate of s: between actions (2 (1/12)^2 + (1/6)^2) / 3 = 1/72, within (1/16 + 1/16) / 3 = 1/24; three visits.
    # That of u: between 1/4, within 0; two visits.
    gated = potential(TABLE, preset="ecpo", gamma=0.5, std="none", alpha_episode=0.0, eps=0.0)
    s, u = math.tanh(3 / 4) * (1 / 72) / (1 / 72 + 1 / 24), math.tanh(2 / 4)
    assert gated == pytest.approx([s * right, u * up, s * right, u * down, s * left])
    # gamma 1/2: Q 1/4 for right, 0 left, 1 up, 0 down; prior 2 and a third of the episodes won: V'(s) is
    # (3 * 1/6 + 2/3) / 5 = 7/30, V'(u) (2 * 1/2 + 2/3) / 4 = 5/12.
    gains = np.array([1 / 4 - 7 / 30, 1 - 5 / 12, 1 / 4 - 7 / 30, -5 / 12, -7 / 30])
    assert potential(TABLE, preset="rtmc", gamma=0.5, std="none") == pytest.approx(gains)
    # The deviation over the task, of the population, divides; the mean stays.
    assert potential(TABLE, preset="rtmc", gamma=0.5, eps=0.0) == pytest.approx(gains / gains.std())


def test_further_options_by_hand() -> None:
    # Standardised at a state, gamma^d(s') is GraphGPO's reward where the way of no step is unknown.
    table = random_table(3, clean=True, win=1.0, states=4, steps=40)
    rewards = {"value": "distance", "reward_on": "state", "gamma": 0.8, **only(std="group")}
    mine = potential(table, preset="pgpo", **rewards)
    theirs = graphgpo(table, unit="visit", beta_episode=0.0, exponent="next", unreachable="infinite")
    known = graphgpo(table, unit="visit", beta_episode=0.0, exponent="next")
    alike = np.isclose(theirs, known)  # nowhere to go makes a difference to neither
    close(mine[alike], theirs[alike])
    # Rewards 1 and 2 on the way of the first episode: V(s) = (1 + 2/2)/1 at gamma 1/2, gain of the first 1 + 2/2 - 2.
    table = walks({"a": "s a u a end"}, reward=[1.0, 2.0])
    for value in ("mc", "bellman"):
        found = potential_values(table, preset="gagpo", value=value, gamma=0.5, rewards="steps")
        assert found.graph.by_state(found.value) == {"s": 2, "u": 2, "end": 0}
        assert found.after - found.before == pytest.approx([0, 0])
    # At the end it is the episode's return, 3: V(s) = 3/2; by distance nothing was won.
    assert values(table, preset="gagpo", outcome="return", gamma=0.5) == {"s": 1.5, "u": 3, "end": 0}
    assert values(table, preset="gagpo", value="distance", rewards="steps", gamma=0.5) == {"s": 0, "u": 0, "end": 0}


def g2po_release(table):
    """What g2po/core_g2po.py computes, in its own order, for returns of 0 and 10: mode "mean_norm"."""
    total = np.zeros(len(table))
    invalid = np.where(table.valid, 0.0, 0.1)
    score = table.trajectory_return[table.trajectory]
    for group in range(table.n_groups):
        rows = [row for row in table.order.tolist() if table.group[row] == group]
        last = set(table.last.tolist())
        ahead = {row: rows[i + 1] for i, row in enumerate(rows) if row not in last}
        value, visits = {}, {}
        for row in rows:
            left = int(np.sum((table.trajectory == table.trajectory[row]) & (table.t >= table.t[row])))
            value.setdefault(table.state[row], []).append(0.95**left * score[row])
            visits.setdefault(table.state[row], []).append(row)
        value = {state: np.mean(found) for state, found in value.items()}
        to = {r: value[table.state[ahead[r]]] if r in ahead else (10.0 if score[r] == 10 else 0.0) for r in rows}
        for here in visits.values():
            local = np.array([to[row] - invalid[row] for row in here])
            if len(here) > 1:
                total[here] += local - local.mean()
        gain = np.array([to[row] - value[table.state[row]] for row in rows])
        total[rows] += gain - gain.mean()
        episode = score[rows] - invalid[rows]
        total[rows] += episode - episode.mean() if len(rows) > 1 else episode
    return total


@pytest.mark.parametrize("seed", range(5))
def test_the_authors_preset_is_their_code(seed):
    table = random_table(seed, win=0.6)
    table = dataclasses.replace(table, reward=10 * table.reward)
    close(potential(table, preset="g2po_authors"), g2po_release(table))


@pytest.mark.parametrize("preset", [name for name in PRESETS if name != "g2po_authors"])
@given(seed=SEEDS)
def test_every_preset_equals_its_naive_twin(preset, seed):
    table = random_table(seed, states=5, win=0.5)
    table.truncated[:] = False
    table.truncated[table.last] = ~table.trajectory_won
    table.terminated[:] = False
    table.terminated[table.last] = table.trajectory_won
    close(potential(table, preset=preset), naive_potential(table, PRESETS[preset]), 1e-8)


@pytest.mark.parametrize("value", ["mc", "bellman", "distance"])
@pytest.mark.parametrize("gate", ["none", "success", "variance", "successors"])
@pytest.mark.parametrize("contrast", ["state", "task", "both", "none"])
@pytest.mark.parametrize("measure", ["gain", "action"])
def test_every_combination_equals_its_naive_twin(value, gate, contrast, measure):
    options = {"value": value, "gate": gate, "contrast": contrast, "measure": measure, "gamma": 0.8}
    for seed in range(3):
        table = random_table(seed, states=5, win=0.5)
        twin = naive_potential(table, {**PRESETS["ecpo"], **options, "episode": "elsewhere"})
        close(potential(table, preset="ecpo", episode="elsewhere", **options), twin, 1e-8)


def test_levels_wrong_options_and_the_wrapper() -> None:
    table = random_table(1)
    close(potential(table, preset="pgpo", alpha_step=0.0, outcome="return"), gigpo(table) - grpo(table))
    close(potential(table, preset="ecpo", alpha_step=0.0), grpo(table, outcome="won"))
    for gamma, value in ((0.0, "mc"), (1.0, "bellman"), (0.9995, "bellman")):
        with pytest.raises(ValueError, match=rf"gamma must be above 0.* at most 0\.999 .*got {gamma}"):
            potential(TABLE, gamma=gamma, value=value)
    assert np.isfinite(potential(TABLE, gamma=1.0)).all()
    refuses(ValueError, "reward_on='state' needs rewards='end'", potential, TABLE, preset="g2po", rewards="steps")
    refuses(ValueError, "tau must be at least 1e-06, got 0", potential, TABLE, tau=0)


def _deviation(values, ddof):
    mean = sum(values) / len(values)
    return math.sqrt(sum((v - mean) ** 2 for v in values) / max(len(values) - ddof, 1))


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
        value = {state: fmean([worth[row] for row in rows]) for state, rows in visits.items()}
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
            value[state] = (n * value[state] + o["prior"] * fmean(ends)) / (n + o["prior"])
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
            around = fmean([worth[r] for r in visits[step.state]])
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
        share = fmean([float(t.won) for t, _ in group])
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
            mean = fmean([worth[r] for r in here])
            own = {r: fmean([worth[q] for q in here if steps[q].action == steps[r].action]) for r in here}
            between = fmean([(own[r] - mean) ** 2 if abs(own[r] - mean) > 1e-12 else 0.0 for r in here])
            within = fmean([(worth[r] - own[r]) ** 2 for r in here])
            gate[row] = math.tanh(len(here) / o["tau"]) * between / (between + within + 1e-6)
        return gate
    return dict.fromkeys(steps, 1.0)
