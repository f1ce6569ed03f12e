import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.refusals import refuses
from tests.wrappers.credit.naive import groups, standard
from tests.wrappers.credit.small_tables import close, episodes, random_table
from wrappers.credit import attribution, grpo
from wrappers.credit.frontier import frontier, frontier_values

# One short and one long way to the goal, one way into the pit, and one that only waits.
TABLE = episodes("s -a-> u -in-> goal +", "s -b-> v -on-> u -in-> goal +", "s -c-> pit", "s -wait-> s -c-> pit")
STEPS = {"gamma": 0.5, "std": "none", "alpha_episode": 0.0}


def cut_off(table, *trajectories):
    """The table with some episodes cut off by a time limit in place of ended."""
    truncated = np.zeros(len(table), np.bool_)
    truncated[table.last[list(trajectories)]] = True
    ends = np.zeros(len(table), np.bool_)
    ends[table.last] = True
    return dataclasses.replace(table, truncated=truncated, terminated=ends & ~truncated)


def values(table, **options):
    found = frontier_values(table, **{**STEPS, **options})
    return found.graph.by_state(found.value)


def test_by_hand() -> None:
    # u: 1. v: 1/2. s: the best of a 1/2, b 1/4, c 0 and wait 1/2 V(s).
    assert values(TABLE) == pytest.approx({"s": 1 / 2, "u": 1, "v": 1 / 2, "goal": 0, "pit": 0})
    found = frontier_values(TABLE, **STEPS)
    assert found.worth.tolist() == pytest.approx([1 / 2, 1, 1 / 4, 1 / 2, 1, 0, 1 / 4, 0])
    scores = frontier(TABLE, **STEPS)
    # Out of s: a 1/2, b 1/4, c 0, wait 1/4, c 0: mean 1/5.
    assert scores[[0, 2, 5, 6, 7]] == pytest.approx([3 / 10, 1 / 20, -1 / 5, 1 / 20, -1 / 5])
    # Out of u and v nothing else was tried. They gain 1 / .5 - 1, and 1/2 / .5 - 1/2; a share of .1 of it counts.
    assert scores[[1, 4]] == pytest.approx([0.1, 0.1])
    assert scores[3] == pytest.approx(0.05)
    table = episodes("s -a-> goal +", "s -a-> pit", "s -b-> u -in-> goal +", "s -b-> u -in-> goal +")
    # a 1 or 0, b always 1/2: of equal worth, so that their gain of 1/2 / .5 - 1/2 is all there is, and 1 that of "in".
    assert frontier(table, **STEPS) == pytest.approx([0.05, 0.05, 0.05, 0.1, 0.05, 0.1])
    assert frontier_values(table, **STEPS).worth.tolist() == pytest.approx([1 / 2, 1 / 2, 1 / 2, 1, 1 / 2, 1])
    assert frontier(TABLE) - frontier(TABLE, alpha_episode=0.0) == pytest.approx(grpo(TABLE))
    assert frontier(TABLE, alpha_step=0.0) == pytest.approx(grpo(TABLE))
    for gamma in (0.0, 1.0, -0.5):
        refuses(ValueError, "gamma must be", frontier, TABLE, gamma=gamma)


def test_optimism_by_hand() -> None:
    # Both were cut off: one in w, which nobody had left, and one in s, where it had only waited.
    table = cut_off(episodes("s -a-> v -on-> w", "s -wait-> s -wait-> s"), 0, 1)
    assert values(table, optimism=1.0) == pytest.approx({"s": 1 / 4, "v": 1 / 2, "w": 1})
    # Out of s: a 1/4, wait 1/8 twice, mean 1/6. A tenth of it counts; there is nothing to gain or to explain.
    expected = np.array([1 / 12, 0, -1 / 24, -1 / 24]) / 10
    assert frontier(table, **STEPS, optimism=1.0) == pytest.approx(expected)
    assert (frontier(table, **STEPS, optimism=0.0) == 0).all()
    # What ended is known: nothing followed.
    assert (frontier(cut_off(table), **STEPS, optimism=1.0) == 0).all()
    table = cut_off(episodes("s -a-> goal +", "s -b-> v", "s -c-> pit"), 1)
    # A hundredth of the largest reward, 1; a step before it half of that: a 1, b .005, c 0.
    assert values(table) == pytest.approx({"s": 1, "v": 0.01, "goal": 0, "pit": 0})
    assert frontier(table, **STEPS) == pytest.approx(np.array([1, 0.005, 0]) - 1.005 / 3)
    # In units of the largest reward: ten times the reward, ten times the optimism.
    assert frontier(dataclasses.replace(table, reward=10 * table.reward), **STEPS) == pytest.approx(
        10 * frontier(table, **STEPS)
    )
    table = cut_off(episodes("s -a-> goal +", "s -b-> pit"), 0)
    assert values(table, optimism=1.0) == pytest.approx({"s": 1, "goal": 0, "pit": 0})
    table = episodes("s -a-> u -x-> pit", "s -b-> v -x-> pit")
    table.reward[:] = [0, 0.5, -0.5, 0]
    assert values(table) == pytest.approx({"s": 1 / 4, "u": 1 / 2, "v": 0, "pit": 0})
    assert values(table, rewards="end") == pytest.approx({"s": 1 / 4, "u": 1 / 2, "v": -1 / 2, "pit": 0})
    assert values(table, rewards="end", outcome="won") == pytest.approx({"s": 0, "u": 0, "v": 0, "pit": 0})


def naive_values(steps, gamma, optimism):
    """V and Q of one group's steps (state, action, next state, reward, goes on, row) by sweeps: .8^200 is 4e-20."""
    largest = max(abs(step[3]) for step in steps) or 1.0
    acted = {step[0] for step in steps}
    value = {target: optimism * largest for _, _, target, _, on, _ in steps if on and target not in acted}
    for _ in range(200):
        found = {}
        for state, action, target, reward, on, _ in steps:
            found.setdefault((state, action), []).append(reward + gamma * (value.get(target, 0.0) if on else 0.0))
        worth = {pair: sum(each) / len(each) for pair, each in found.items()}
        value |= {state: max(q for (s, _), q in worth.items() if s == state) for state in acted}
    return value, worth


def naive(table, gamma, optimism, share):
    """The step level in loops over groups and dictionaries."""
    result = np.zeros(len(table))
    contributed = attribution(table, outcome="return", centred=True)
    for group in groups(table):
        rows = [row for _, mine in group for row in mine]
        steps = []
        for t, mine in group:
            for s, row in zip(t.steps, mine, strict=True):
                on = row != mine[-1] or bool(table.truncated[row] and not t.won)
                steps.append((s.state, s.action, s.next_state, s.reward, on, row))
        _, hoped = naive_values(steps, gamma, optimism)
        value, seen = naive_values(steps, gamma, 0.0)
        gain = {row: seen[s, a] / gamma - value[s] for s, a, _, _, _, row in steps}
        size = math.sqrt(sum(each**2 for each in gain.values()) / len(gain))
        blame = dict(zip(rows, standard([float(contributed[row]) for row in rows]), strict=True))
        for state in {step[0] for step in steps}:
            here = [(row, a) for s, a, _, _, _, row in steps if s == state]
            compared = standard([hoped[state, a] for _, a in here]) if len(here) > 1 else [0.0]
            rewarded = len(here) > 1 and any(standard([seen[state, a] for _, a in here]))
            for (row, _), score in zip(here, compared, strict=True):
                if score:
                    result[row] = score if rewarded else share * score
                elif abs(gain[row]) > 1e-9 * abs(value[state]):
                    result[row] = share * gain[row] / (size + 1e-6)
                else:
                    result[row] = share * blame[row]
    return result


@given(seed=st.integers(0, 10**6), optimism=st.sampled_from([0.0, 0.01, 1.0]))
def test_it_equals_its_naive_twin(seed, optimism):
    table = random_table(seed, groups=2, size=4, steps=8, states=5)
    table = cut_off(table, *np.flatnonzero(np.random.default_rng(seed).random(table.n_trajectories) < 0.5))
    found = frontier(table, gamma=0.8, optimism=optimism, share=0.2, alpha_episode=0.0)
    close(found, naive(table, 0.8, optimism, 0.2), 1e-6)
