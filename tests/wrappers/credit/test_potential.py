import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.trajectory import StepTable
from tests.corridor import CorridorVectorEnv
from tests.refusals import refuses
from tests.wrappers.credit.naive_potential import naive_potential
from tests.wrappers.credit.random_tables import random_table
from tests.wrappers.credit.small_tables import episodes
from wrappers.credit.gigpo import gigpo
from wrappers.credit.graphgpo import graphgpo
from wrappers.credit.grpo import grpo
from wrappers.credit.potential import PRESETS, Potential, potential, potential_values

# Out of s: right twice, then up wins once and down loses once; left loses at once.
TABLE = episodes("s -right-> u -up-> goal +", "s -right-> u -down-> pit", "s -left-> pit")
SEEDS = st.integers(0, 10**6)


def values(table=TABLE, **options):
    found = potential_values(table, **options)
    return found.graph.by_state(found.value)


def only(**options):
    """A step level without deviation and other levels."""
    return {"std": "none", "alpha_episode": 0.0, "alpha_return": 0.0, "gate": "none", **options}


def test_further_options_by_hand() -> None:
    # At gamma 1/2 the returns are 1/4 and 1/2 for stay, 1 for win, and 0; the second stay is not counted.
    table = episodes("s -stay-> s -stay-> s -win-> goal +", "s -stay-> pit")
    found = potential_values(table, preset="rtmc", gamma=0.5, prior=0.0)
    assert found.counted.tolist() == [True, False, True, True]
    assert found.value[found.graph.source[0]] == pytest.approx((1 / 4 + 1 + 0) / 3)
    every = potential_values(table, preset="rtmc", gamma=0.5, prior=0.0, visits="every")
    assert every.value[every.graph.source[0]] == pytest.approx((1 / 4 + 1 / 2 + 1 + 0) / 4)
    # Standardised at a state, gamma^d(s') is GraphGPO's reward where the way of no step is unknown.
    table = random_table(3, clean=True, win=1.0, states=4, steps=40)
    rewards = {"value": "distance", "reward_on": "state", "gamma": 0.8, **only(std="group")}
    mine = potential(table, preset="pgpo", **rewards)
    theirs = graphgpo(table, unit="visit", beta_episode=0.0, exponent="next", unreachable="infinite")
    known = graphgpo(table, unit="visit", beta_episode=0.0, exponent="next")
    alike = np.isclose(theirs, known)  # nowhere to go makes a difference to neither
    np.testing.assert_allclose(mine[alike], theirs[alike], atol=1e-9)
    # Rewards 1 and 2 on the way of the first episode: V(s) = (1 + 2/2)/1 at gamma 1/2, gain of the first 1 + 2/2 - 2.
    table = StepTable.from_arrays(
        group=[0] * 2, trajectory=[0] * 2, t=[0, 1], state=["s", "u"], action=["a"] * 2, next_state=["u", "end"],
        reward=[1.0, 2.0], won=[False] * 2,
    )  # fmt: skip
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
    np.testing.assert_allclose(potential(table, preset="g2po_authors"), g2po_release(table), atol=1e-9)


@pytest.mark.parametrize("preset", [name for name in PRESETS if name != "g2po_authors"])
@given(seed=SEEDS)
def test_every_preset_equals_its_naive_twin(preset, seed):
    table = random_table(seed, states=5, win=0.5)
    table.truncated[:] = False
    table.truncated[table.last] = ~table.trajectory_won
    table.terminated[:] = False
    table.terminated[table.last] = table.trajectory_won
    np.testing.assert_allclose(potential(table, preset=preset), naive_potential(table, PRESETS[preset]), atol=1e-8)


@pytest.mark.parametrize("value", ["mc", "bellman", "distance"])
@pytest.mark.parametrize("gate", ["none", "success", "variance", "successors"])
@pytest.mark.parametrize("contrast", ["state", "task", "both", "none"])
@pytest.mark.parametrize("measure", ["gain", "action"])
def test_every_combination_equals_its_naive_twin(value, gate, contrast, measure):
    options = {"value": value, "gate": gate, "contrast": contrast, "measure": measure, "gamma": 0.8}
    for seed in range(3):
        table = random_table(seed, states=5, win=0.5)
        twin = naive_potential(table, {**PRESETS["ecpo"], **options, "episode": "elsewhere"})
        np.testing.assert_allclose(potential(table, preset="ecpo", episode="elsewhere", **options), twin, atol=1e-8)


def test_levels_wrong_options_and_the_wrapper() -> None:
    table = random_table(1)
    returns = potential(table, preset="pgpo", alpha_step=0.0, outcome="return")
    np.testing.assert_allclose(returns, gigpo(table) - grpo(table), atol=1e-12)
    whole = potential(table, preset="ecpo", alpha_step=0.0)
    np.testing.assert_allclose(whole, grpo(table, outcome="won"), atol=1e-12)
    with pytest.raises(ValueError, match=r"unknown preset 'g2pu'; known: 'g2po', .*; did you mean 'g2po'\?"):
        potential(TABLE, preset="g2pu")
    for gamma, value in ((0.0, "mc"), (1.0, "bellman"), (0.9995, "bellman")):
        with pytest.raises(ValueError, match=rf"gamma must be above 0, and at most 0\.999 for .*, got {gamma}"):
            potential(TABLE, gamma=gamma, value=value)
    assert np.isfinite(potential(TABLE, gamma=1.0)).all()
    refuses(ValueError, "reward_on='state' goes with rewards='end'", potential, TABLE, preset="g2po", rewards="steps")
    refuses(ValueError, "tau must be at least 1e-06, got 0", potential, TABLE, tau=0)
    assert Potential.method is potential
    assert Potential(CorridorVectorEnv(2))._options == {}  # the method's own preset, g2po, counts
    assert Potential(CorridorVectorEnv(2), preset="rtmc", gamma=0.9)._options == {"preset": "rtmc", "gamma": 0.9}
