"""Methods of branches: by hand, against naive twins, without branches, and their gradients in expectation."""

import dataclasses
import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import cases
from tests.playing import filled
from tests.refusals import refuses
from tests.wrappers.credit.naive_branches import naive_bpo, naive_tree_grpo, naive_vine
from tests.wrappers.credit.random_tables import random_table
from tests.wrappers.credit.random_trees import random_trees
from tests.wrappers.credit.small_tables import close, episodes
from wrappers.credit import bpo, gae, grpo, rloo, tree_grpo, vine
from wrappers.credit.group import whitened
from wrappers.credit.options import declaration

nan = np.nan
SEEDS = st.integers(0, 10**6)
TREE = (
    "s -a-> u -b-> v -c-> goal +", "0.0: u -d-> pit", "0.0: u -e-> goal +", "0.1: v -f-> pit", "s -g-> pit",
)  # fmt: skip
# Episodes of the tree: 1 0 1 0, deviation sqrt(4/4 / 3); of the group: 1 0 1 0 0, mean 2/5, deviation sqrt(1.2 / 4).
INSIDE, WON, LOST = 0.5 / math.sqrt(1 / 3), 0.6 / math.sqrt(0.3), -0.4 / math.sqrt(0.3)


def test_vine_by_hand() -> None:
    # V(s) = 0, of the other root; V(u) = (0 + 1) / 2; V(v) = 0. So 1/2 - 0, 0 - 1/2, 1 - 0. The other root: 0 - 1.
    close(vine(episodes(*TREE)), [0.5, -0.5, 1, nan, nan, nan, -1])
    # V(u) = (0 + 1) / 2 and V(v) = 0 stay; 1/2 * 1/2, 1/2 * 0 - 1/2, 1. The root that won is worth 1/4.
    close(vine(episodes(*TREE), gamma=0.5), [0.25, -0.5, 1, nan, nan, nan, -0.25])
    table = episodes(*TREE[:3], *TREE[4:])
    # From u, worth 1/2, to the end with reward 1: both steps gain 1/2.
    close(vine(table), [0.5, 0.5, 0.5, nan, nan, -1])
    # Filled backwards V(v) = 1: the step into v gains all of it.
    close(vine(table, gaps="backwards"), [0.5, 0.5, 0, nan, nan, -1])
    close(vine(table, gaps="backwards", gamma=0.5), [0.25, 0, 0, nan, nan, -0.25])
    close(vine(episodes("s -a-> u -b-> goal +", "0.0: u -c-> pit")), [nan, 1, nan])
    close(vine(episodes("s -a-> u -b-> goal +")), [nan, nan])
    close(vine(episodes("s -a-> u -b-> goal +"), gaps="backwards"), [0, 0])
    # u is reached again by 2, which has no branches; 1 begins there.
    table = episodes("s -a-> u -b-> goal +", "0.0: u -c-> pit", "s -d-> u -e-> goal +", "2.0: u -f-> goal +")
    # Forks: V(u) is 0 for the first root and 1 for the second; V(s) is 1, of each other.
    close(vine(table), [-1, 1, nan, 0, 0, nan])
    # Pooled it is 1/2 for both.
    close(vine(table, pool="state"), [-0.5, 0.5, nan, -0.5, 0.5, nan])
    # Back in s the first root's value is that of the second, 0, not its own 1.
    table = episodes("s -a-> s -b-> goal +", "s -c-> pit")
    close(vine(table, pool="state"), [0, 1, -1])
    close(vine(table), [1, 1, -1])
    table = episodes(*TREE[:3], *TREE[4:])
    scored = np.array([0.5, 0.5, 0, -1])
    expected = np.full(6, nan)
    expected[[0, 1, 2, 5]] = whitened(scored)
    close(vine(table, preset="authors"), expected)
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


def test_bpo_by_hand() -> None:
    # At u: 1, 0 and 1 against the mean of the others: 1/2, -1, 1/2. At v: 1 and 0: 1, -1.
    # Before: .5 * 1/2 + .25 * 1; between the forks 1/2 + .5 * 1.
    close(bpo(episodes(*TREE), preset="paper", lam=0.5), [0.5, 1, 1, -1, 0.5, -1, 0])
    # Episodes of the first tree: 1 0 1 0, mean 1/2; of the other: 0. Through the first step go all four, through the
    # second the first and the last.
    episode = bpo(episodes(*TREE)) - bpo(episodes(*TREE), preset="paper")
    close(episode, [0.5, 0.5, 1, 0, 1, 0, -0.5])
    half = bpo(episodes(*TREE), alpha_episode=0.5) - bpo(episodes(*TREE), preset="paper")
    close(half, episode / 2)
    alone = episodes(*TREE[:4])
    close(bpo(alone), bpo(alone, preset="paper"))
    table = episodes("s -a-> u -b-> v -c-> goal +", "0.0: u -d-> pit")
    close(bpo(table, gamma=0.5, lam=0.0), [0, 0.5, 0.5, -0.5])
    table = episodes("s -a!-> u -b!-> goal +", "0.0: u -c-> pit")
    close(bpo(table, lam=0.0), [0, 1, -1])
    close(bpo(table, lam=0.0, invalid_penalty=0.25, penalty="advantage"), [-0.25, 0.75, -1])
    # Off the continuation's return: 3/4 against 0.
    close(bpo(table, lam=0.0, invalid_penalty=0.25, penalty="row"), [0, 0.75, -0.75])
    close(bpo(table, lam=0.0, invalid_penalty=0.25, penalty="discounted"), [0, 0.75, -0.75])


def test_tree_grpo_by_hand() -> None:
    won, lost = INSIDE + WON, -INSIDE + LOST
    # All four episodes go through the first step, the first and the last through the second.
    expected = [(won + lost) / 2, (won + lost) / 2, won, lost, won, lost, LOST]
    assert tree_grpo(episodes(*TREE), eps=0.0) == pytest.approx(expected)
    # Standardised again the group is gone; the lone episode of the other tree keeps its score.
    expected = [0, 0, INSIDE, -INSIDE, INSIDE, -INSIDE, LOST]
    assert tree_grpo(episodes(*TREE), preset="authors") == pytest.approx(expected, abs=1e-5)
    more = episodes("s -a-> u -b-> goal +", "0.0: u -c-> goal +", "0.0: u -d-> pit")
    # 1 1 0: 1 / sqrt(3) twice and -2 / sqrt(3) over one tree that is the group; they sum to 0.
    expected = [0, 1 / math.sqrt(3), 1 / math.sqrt(3), -2 / math.sqrt(3)]
    assert tree_grpo(more, preset="authors") == pytest.approx(expected, abs=1e-5)
    # First tree 2/4, group 2/5; behind u: through b go 1 and 0, mean 1/2; then 1; branches 0, 1, 0.
    expected = [0.1 / 2, 0, 0.5, -0.5, 0.5, -0.5, -0.4]
    assert tree_grpo(episodes(*TREE), compare="parent") == pytest.approx(expected)
    above_group = [0.1 / 2, 0.1 / math.sqrt(2), 0.6, -0.4, 0.6, -0.4, -0.4]
    assert tree_grpo(episodes(*TREE), compare="treerl") == pytest.approx(np.add(expected, above_group))
    table = episodes("s -a-> u -b-> goal +", "0.0: u -c-> goal +", "s -d-> pit")
    mean, total = tree_grpo(table), tree_grpo(table, shared="sum")
    assert total == pytest.approx(mean * [2, 1, 1, 1])
    assert mean[0] == pytest.approx(1 / math.sqrt(3), abs=1e-5)
    table = episodes("s -a!-> u -b-> goal +", "0.0: u -c!-> pit", "s -d-> pit")
    plain = tree_grpo(table, eps=0.0)
    late = tree_grpo(table, eps=0.0, invalid_penalty=0.5, penalty="advantage")
    assert plain - late == pytest.approx([0.5, 0, 0.5, 0])
    # Off every episode that goes through the step: 1/2, -1 and 0 as in a table with these rewards.
    other = episodes("s -a-> u -b-> x", "0.0: u -c-> pit", "s -d-> pit")
    other.reward[:] = [-0.5, 1, -0.5, 0]
    assert tree_grpo(table, invalid_penalty=0.5, penalty="discounted") == pytest.approx(tree_grpo(other))
    row = tree_grpo(table, invalid_penalty=0.5, penalty="row")
    assert np.isfinite(row).all()
    assert row[0] < tree_grpo(table)[0]


@cases(
    "method, twin, choices",
    (bpo, naive_bpo, {"gamma": [1.0, 0.9], "lam": [0.0, 0.95, 1.0]}),
    (tree_grpo, naive_tree_grpo, {"compare": ["sum", "nested", "parent", "treerl"], "shared": ["mean", "sum"]}),
    (vine, naive_vine, {"gamma": [1.0, 0.9], "pool": ["fork", "state"], "gaps": ["segment", "backwards"]}),
)
@given(seed=SEEDS, factor=st.sampled_from([0.125, 1.0, 3.0]), data=st.data())
def test_they_equal_their_naive_twins(method, twin, choices, seed, factor, data):
    options = {name: data.draw(st.sampled_from(values), name) for name, values in choices.items()}
    table = random_trees(seed)
    scaled = dataclasses.replace(table, reward=table.reward * factor)
    close(method(scaled, **options), twin(scaled, **options))
    close(method(scaled, outcome="won"), method(table, outcome="won"))


@given(seed=SEEDS)
def test_without_branches_they_are_what_they_extend(seed):
    table = random_table(seed, size=3)  # all episodes begin in one state
    assert not bpo(table, preset="paper").any()
    for method, plain in ((bpo, rloo), (tree_grpo, grpo), (vine, rloo)):
        close(method(table), plain(table))


@given(seed=SEEDS, gamma=st.sampled_from([1.0, 0.9]))
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


def rollouts(p):
    """Every root of two steps, a branch at its second one and another root; action 1 of step i has the chance p[i].

    Yields the probability, the actions, and the table.
    """
    for actions in np.ndindex(2, 2, 2, 2, 2):
        a0, a1, b1, c0, c1 = actions
        chances = [p[i] if action else 1 - p[i] for i, action in zip((0, 1, 1, 0, 1), actions, strict=True)]
        table = episodes(f"s -{a0}-> {a0} -{a1}-> end", f"0.0: {a0} -{b1}-> end", f"s -{c0}-> {c0} -{c1}-> end")
        yield math.prod(chances), actions, table


def test_the_gradient_of_vine_is_exact_in_expectation():
    """Rewards 1 for (0, 1) and 3 for (1, 0)."""
    p, reward = np.array([0.3, 0.6]), {(0, 0): 0.0, (0, 1): 1.0, (1, 0): 3.0, (1, 1): 0.0}
    gradient, plain = np.zeros(2), np.zeros(2)
    for probability, (a0, a1, b1, c0, c1), table in rollouts(p):
        table.reward[:] = [0, reward[a0, a1], reward[a0, b1], 0, reward[c0, c1]]
        # d log-probability of an action by its logit: action - p.
        gradient += probability * ([a0, a1] - p) * vine(table)[:2]
        plain += probability * ([a0, a1] - p) * reward[a0, a1]
    close(gradient, plain, 1e-12)


def test_without_the_episode_level_of_bpo_the_steps_before_a_fork_learn_nothing():
    """Only the first action counts, and the fork is behind it."""
    gradient = {"paper": 0.0, "default": 0.0}
    for probability, (a0, _, _, c0, _), table in rollouts((0.25, 0.25)):
        table.reward[:] = [0, a0, a0, 0, c0]
        for preset in gradient:
            gradient[preset] += probability * (a0 - 0.25) * bpo(table, preset=preset)[0]
    # The derivative of p by its logit is p (1 - p) = 3/16.
    assert gradient == pytest.approx({"paper": 0.0, "default": 3 / 16})


@pytest.mark.parametrize("method", [bpo, tree_grpo, vine])
def test_large_rewards_of_branches_overflow_nowhere_and_huge_ones_are_refused(method):
    for preset in declaration(method)[1]:
        table = random_trees(1)
        table.reward[table.parent[table.parent >= 0][0]] = 1e101
        refuses(ValueError, "rewards must be within", method, table, preset=preset)
        table.reward[table.reward > 1] = -1e100
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            scores = method(table, preset=preset)
        assert np.isfinite(scores[table.parent[table.trajectory] < 0]).all()
