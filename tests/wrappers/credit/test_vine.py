import dataclasses

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agentgym.trajectory import StepTable
from tests.wrappers.credit.naive_branches import naive_vine
from tests.wrappers.credit.random_tables import random_table
from tests.wrappers.credit.random_trees import random_trees
from tests.wrappers.credit.small_tables import episodes
from wrappers.credit import gae, rloo, vine
from wrappers.credit.group import whitened

nan = np.nan
TREE = (
    "s -a-> u -b-> v -c-> goal +", "0.0: u -d-> pit", "0.0: u -e-> goal +", "0.1: v -f-> pit", "s -g-> pit",
)  # fmt: skip


def _equal(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_by_hand() -> None:
    # V(s) = 0, of the other root; V(u) = (0 + 1) / 2; V(v) = 0. So 1/2 - 0, 0 - 1/2, 1 - 0. The other root: 0 - 1.
    _equal(vine(episodes(*TREE)), [0.5, -0.5, 1, nan, nan, nan, -1])
    # V(u) = (0 + 1) / 2 and V(v) = 0 stay; 1/2 * 1/2, 1/2 * 0 - 1/2, 1. The root that won is worth 1/4.
    _equal(vine(episodes(*TREE), gamma=0.5), [0.25, -0.5, 1, nan, nan, nan, -0.25])
    table = episodes(*TREE[:3], *TREE[4:])
    # From u, worth 1/2, to the end with reward 1: both steps gain 1/2.
    _equal(vine(table), [0.5, 0.5, 0.5, nan, nan, -1])
    # Filled backwards V(v) = 1: the step into v gains all of it.
    _equal(vine(table, gaps="backwards"), [0.5, 0.5, 0, nan, nan, -1])
    _equal(vine(table, gaps="backwards", gamma=0.5), [0.25, 0, 0, nan, nan, -0.25])
    _equal(vine(episodes("s -a-> u -b-> goal +", "0.0: u -c-> pit")), [nan, 1, nan])
    _equal(vine(episodes("s -a-> u -b-> goal +")), [nan, nan])
    _equal(vine(episodes("s -a-> u -b-> goal +"), gaps="backwards"), [0, 0])
    # u is reached again by 2, which has no branches; 1 begins there.
    table = episodes("s -a-> u -b-> goal +", "0.0: u -c-> pit", "s -d-> u -e-> goal +", "2.0: u -f-> goal +")
    # Forks: V(u) is 0 for the first root and 1 for the second; V(s) is 1, of each other.
    _equal(vine(table), [-1, 1, nan, 0, 0, nan])
    # Pooled it is 1/2 for both.
    _equal(vine(table, pool="state"), [-0.5, 0.5, nan, -0.5, 0.5, nan])
    # Back in s the first root's value is that of the second, 0, not its own 1.
    table = episodes("s -a-> s -b-> goal +", "s -c-> pit")
    _equal(vine(table, pool="state"), [0, 1, -1])
    _equal(vine(table), [1, 1, -1])
    table = episodes(*TREE[:3], *TREE[4:])
    scored = np.array([0.5, 0.5, 0, -1])
    expected = np.full(6, nan)
    expected[[0, 1, 2, 5]] = whitened(scored)
    _equal(vine(table, preset="authors"), expected)
    table = episodes(*TREE, reward=7.0)
    _equal(vine(table), 7 * vine(episodes(*TREE)))
    _equal(vine(table, outcome="won"), vine(episodes(*TREE)))
    table = episodes("s -a!-> u -b-> goal +", "0.0: u -c!-> pit", "s -d-> pit")
    _equal(vine(table), [0, 1, nan, -1])
    for penalty in ("row", "advantage"):
        _equal(vine(table, invalid_penalty=0.5, penalty=penalty), [-0.5, 1, nan, -1])
    # Off the rewards: r(a) = -.5, V(u) = -.5; s is worth -.5 + 1 for the other root.
    _equal(vine(table, invalid_penalty=0.5, penalty="discounted"), [-1, 1.5, nan, -0.5])


def test_continuations_in_a_table_of_their_own():
    table = episodes("s -a-> u -b-> v", "s -c-> pit")
    table.truncated[1], table.terminated[1] = True, False
    found = episodes("s -x-> goal +", "s -x-> pit", "u -x-> w -x-> goal +", "v -x-> goal +", "v -x-> pit")
    # V(s) = 1/2, V(u) = 1, V(v) = 1/2, where the time limit cut the first off; pit is an end.
    _equal(vine(table, continuations=found), [0.5, -0.5, -0.5])
    # Discounted: V(s) = 1/2, V(u) = 1/2, V(v) = 1/2.
    _equal(vine(table, continuations=found, gamma=0.5), [-0.25, -0.25, -0.5])
    # Of another group they say nothing.
    other = dataclasses.replace(found, groups=("another",))
    _equal(vine(table, continuations=other), [nan, nan, nan])


@given(seed=st.integers(0, 10**6), gamma=st.sampled_from([1.0, 0.9]))
def test_with_a_value_for_every_state_it_is_gae_without_lambda(seed, gamma):
    table, rng = random_table(seed), np.random.default_rng(seed)
    places = sorted({(table.groups[g], table.states[s]) for g, s in zip(table.group, table.state, strict=True)})
    worth = rng.random(len(places))
    # One continuation of one step per state, which earns the state's value.
    group, state = zip(*places, strict=True)
    n = len(places)
    found = StepTable.from_arrays(
        group=group, trajectory=np.arange(n), t=np.zeros(n, int), state=state, action=["x"] * n, next_state=["end"] * n,
        reward=worth, won=np.zeros(n, bool),
    )  # fmt: skip
    value = dict(zip(places, worth, strict=True))
    values = [value[table.groups[g], table.states[s]] for g, s in zip(table.group, table.state, strict=True)]
    expected = gae(table, values=values, gamma=gamma, lam=0.0)
    np.testing.assert_allclose(vine(table, continuations=found, gamma=gamma), expected, rtol=0, atol=1e-9)


@given(
    seed=st.integers(0, 10**6), gamma=st.sampled_from([1.0, 0.9]), pool=st.sampled_from(["fork", "state"]),
    gaps=st.sampled_from(["segment", "backwards"]),
)  # fmt: skip
def test_it_equals_its_naive_twin(seed, gamma, pool, gaps):
    table = random_trees(seed)
    found = vine(table, gamma=gamma, pool=pool, gaps=gaps)
    np.testing.assert_allclose(found, naive_vine(table, gamma=gamma, pool=pool, gaps=gaps), rtol=0, atol=1e-9)


@given(seed=st.integers(0, 10**6))
def test_without_branches_it_is_rloo(seed):
    table = random_table(seed, size=3)  # all episodes begin in one state
    np.testing.assert_allclose(vine(table), rloo(table), rtol=0, atol=1e-9)


def test_the_gradient_is_exact_in_expectation():
    """Two steps of two actions, rewards 1 for (0, 1) and 3 for (1, 0): all rollouts with their probabilities."""
    p, reward = (0.3, 0.6), {(0, 0): 0.0, (0, 1): 1.0, (1, 0): 3.0, (1, 1): 0.0}

    def chance(i, action):
        return p[i] if action else 1 - p[i]

    gradient, plain = np.zeros(2), np.zeros(2)
    for bits in np.ndindex(2, 2, 2, 2, 2):  # a root, a branch at its second step, another root
        a0, a1, b1, c0, c1 = bits
        probability = chance(0, a0) * chance(1, a1) * chance(1, b1) * chance(0, c0) * chance(1, c1)
        table = episodes(f"s -{a0}-> {a0} -{a1}-> end", f"0.0: {a0} -{b1}-> end", f"s -{c0}-> {c0} -{c1}-> end")
        table.reward[:] = [0, reward[a0, a1], reward[a0, b1], 0, reward[c0, c1]]
        # d log-probability of an action by its logit: action - p.
        gradient += probability * np.array([a0 - p[0], a1 - p[1]]) * vine(table)[:2]
        plain += probability * np.array([a0 - p[0], a1 - p[1]]) * reward[a0, a1]
    np.testing.assert_allclose(gradient, plain, rtol=0, atol=1e-12)
