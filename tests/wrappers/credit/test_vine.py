import dataclasses

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.playing import filled
from tests.wrappers.credit.small_tables import TREE, close, episodes, random_table, rollouts
from wrappers.credit import gae, vine
from wrappers.credit.group import whitened

nan = np.nan


def test_by_hand() -> None:
    # V(s) = 0, of the other root; V(u) = (0 + 1) / 2; V(v) = 0. So 1/2 - 0, 0 - 1/2, 1 - 0. The other root: 0 - 1.
    close(vine(episodes(*TREE)), [0.5, -0.5, 1, nan, nan, nan, -1])
    # From u, worth 1/2, to the end with reward 1: both steps gain 1/2.
    table = episodes(*TREE[:3], *TREE[4:])
    close(vine(table), [0.5, 0.5, 0.5, nan, nan, -1])
    scored = np.array([0.5, 0.5, 0, -1])  # V(v) = 1 is filled from behind
    close(vine(table, preset="authors")[[0, 1, 2, 5]], whitened(scored))
    table = episodes(*TREE, reward=7.0)
    close(vine(table), 7 * vine(episodes(*TREE)))
    close(vine(table, outcome="won"), vine(episodes(*TREE)))
    table = episodes("s -a!-> u -b-> goal +", "0.0: u -c!-> pit", "s -d-> pit")
    close(vine(table), [0, 1, nan, -1])
    for penalty in ("row", "advantage"):
        close(vine(table, invalid_penalty=0.5, penalty=penalty), [-0.5, 1, nan, -1])
    # Off the rewards: r(a) = -.5, V(u) = -.5; s is worth -.5 + 1 for the other root.
    close(vine(table, invalid_penalty=0.5, penalty="discounted"), [-1, 1.5, nan, -0.5])


def test_continuations_in_a_table_of_their_own() -> None:
    table = episodes("s -a-> u -b-> v", "s -c-> pit")
    table.truncated[1], table.terminated[1] = True, False
    found = episodes("s -x-> goal +", "s -x-> pit", "u -x-> w -x-> goal +", "v -x-> goal +", "v -x-> pit")
    # V(s) = 1/2, V(u) = 1, V(v) = 1/2, where the time limit cut the first off; pit is an end.
    close(vine(table, continuations=found), [0.5, -0.5, -0.5])
    # Discounted: V(s) = 1/2, V(u) = 1/2, V(v) = 1/2.
    close(vine(table, continuations=found, gamma=0.5), [-0.25, -0.25, -0.5])
    # Of another group they say nothing.
    close(vine(table, continuations=dataclasses.replace(found, groups=("another",))), [nan, nan, nan])


@given(seed=st.integers(0, 10**6), gamma=st.sampled_from([1.0, 0.9]))
def test_with_a_value_for_every_state_it_is_gae_without_lambda(seed, gamma):
    table, rng = random_table(seed), np.random.default_rng(seed)
    places = sorted({(table.groups[g], table.states[s]) for g, s in zip(table.group, table.state, strict=True)})
    worth = rng.random(len(places))
    # One continuation of one step per state, which earns the state's value.
    group, state = zip(*places, strict=True)
    n = len(places)
    found = filled(group=group, trajectory=range(n), t=[0] * n, state=state, next_state=["end"] * n, reward=worth)
    value = dict(zip(places, worth, strict=True))
    values = [value[table.groups[g], table.states[s]] for g, s in zip(table.group, table.state, strict=True)]
    close(vine(table, continuations=found, gamma=gamma), gae(table, values=values, gamma=gamma, lam=0.0))


def test_the_gradient_is_exact_in_expectation():
    """Rewards 1 for (0, 1) and 3 for (1, 0)."""
    p, reward = np.array([0.3, 0.6]), {(0, 0): 0.0, (0, 1): 1.0, (1, 0): 3.0, (1, 1): 0.0}
    gradient, plain = np.zeros(2), np.zeros(2)
    for probability, (a0, a1, b1, c0, c1), table in rollouts(p):
        table.reward[:] = [0, reward[a0, a1], reward[a0, b1], 0, reward[c0, c1]]
        # d log-probability of an action by its logit: action - p.
        gradient += probability * ([a0, a1] - p) * vine(table)[:2]
        plain += probability * ([a0, a1] - p) * reward[a0, a1]
    close(gradient, plain, 1e-12)
