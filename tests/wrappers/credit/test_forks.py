"""Credit over tables with forks: a tree by hand, and every method against the table in which all episodes are whole."""

import dataclasses
import itertools
import math
import tracemalloc
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.trajectory import Reply, StepTable, forks
from tests.cases import cases
from tests.refusals import refuses
from tests.wrappers.credit.every_method import FUNCTIONS, beside, ladder
from tests.wrappers.credit.naive import standard
from tests.wrappers.credit.small_tables import close, episodes, random_table, random_trees, rebuild
from wrappers import credit
from wrappers.credit import bpo, grpo, rloo, tree_grpo, vine
from wrappers.credit.forks import Forest, over_forks, spread
from wrappers.credit.group import episode_advantages
from wrappers.credit.options import declaration
from wrappers.credit.potential import PRESETS as POTENTIALS
from wrappers.credit.returns import discounted_returns, episode_level, mean_returns
from wrappers.credit.segments import by_count, by_event, by_turn

# Three episodes, two of which begin alike: b was cut from a after its first step.
#
#   a:  s -x-> u -up-> goal      rows 0 1, won
#   b:         u -down-> pit     row 2
#   c:  s -left-> pit            row 3
TREE = episodes("s -x-> u -up-> goal +", "0.0: u -down-> pit", "s -left-> pit")


def test_grpo_and_graphgpo_by_hand() -> None:
    # Outcomes 1, 0, 0: mean 1/3, sample deviation sqrt(1/3); a: 2/3 of it, b and c: -1/3. Row 0 is a's and b's.
    a, b = 2 / 3 / np.sqrt(1 / 3), -1 / 3 / np.sqrt(1 / 3)
    close(credit.grpo(TREE, eps=0.0), [(a + b) / 2, a, b, b])
    # Distances: u 1, s 2, pit 3 (one more than the largest). Out of s, x is worth .8^2 and left .8^4; out of u, up is
    # worth .8 and down .8^4: two edges each, so +-1 / sqrt(2), beside GRPO's.
    step = np.sqrt(0.5)
    close(credit.graphgpo(TREE, eps=0.0), [step + (a + b) / 2, step + a, -step + b, -step + b])
    # A hundred continuations of the step from u, all to the pit: out of s there are still two steps, x and left.
    many = 100
    tree = episodes("s -x-> u -up-> goal +", "s -left-> pit", *["0.0: u -down-> pit"] * many)
    for method, of_steps in ((credit.graphgpo, {"beta_episode": 0.0}), (credit.rewardflow, {"alpha_trajectory": 0.0})):
        close(method(tree, unit="visit", eps=0.0, **of_steps)[[0, 2]], [np.sqrt(0.5), -np.sqrt(0.5)])
    assert credit.grpo(tree)[0] < credit.grpo(tree)[1]
    close(credit.grpo(tree)[0], (credit.grpo(tree)[1] + many * credit.grpo(tree)[3]) / (many + 1))


def forest(seed: int) -> StepTable:
    """Random rollouts with branches, in any order of rows, with replies."""
    rng = np.random.default_rng(seed)
    table = random_trees(seed, groups=3, size=4, steps=7, states=5, goals=2, branches=8)
    table = rebuild(table, rng.permutation(len(table)))
    replies = [Reply("x", (1,), (2, 3), tuple(-rng.random(2))) for _ in range(len(table))]
    return dataclasses.replace(table, replies=np.array(replies, object))


FORESTS = [forest(seed) for seed in range(12)]


def test_the_forests_and_methods_compared_here() -> None:
    assert sum((table.parent >= 0).sum() for table in FORESTS) > 40
    nested = [table.parent[table.trajectory[table.parent[table.parent >= 0]]] >= 0 for table in FORESTS]
    assert np.concatenate(nested).any()
    assert not np.concatenate([table.valid for table in FORESTS]).all()
    # Methods of forks have rules of their own; those of privileged contexts extend grpo and process_reward.
    own = {"bpo", "tree_grpo", "vine", "rlsd", "rlcsd", "sdpo", "turn_credit"}
    assert {*FUNCTIONS} - ARRAYS_ALONE - own == {*SAME} | STEPS_ONCE


def averaged(table: StepTable, of_whole: np.ndarray) -> np.ndarray:
    """Mean over the copies of each row, said plainly."""
    _, source = table.unfolded()
    return np.array([np.mean(of_whole[source == row], axis=0) for row in range(len(table))])


#: What all methods do, in forms in which it is what the episodes give one by one.
EDGES, AUTHORS = {"unit": "edge"}, {"preset": "authors"}
SAME = {
    "graphgpo": [EDGES], "rewardflow": [EDGES], "action_targets": [{}], "attribution": [{}], "frontier": [{}],
    "gae": [{}], "gigpo": [{}, AUTHORS], "grpo": [{}, AUTHORS], "hcapo": [{"smoothing": 0.5}], "hgpo": [{}, AUTHORS],
    "hisr": [{}], "igpo": [{}], "potential": [{"preset": preset} for preset in POTENTIALS], "prime": [{}],
    "rloo": [{}], "salt": [{}], "spa": [{"rescale": True}], "dapo": [{}], "ragen2": [{}],
}  # fmt: skip
#: Statistics over steps count each row once: compared elsewhere in this file.
STEPS_ONCE = {
    "aem", "empg", "graphgpo_filled", "istar", "milegpo", "process_reward", "reinforce_plus_plus",
    "reinforce_plus_plus_baseline", "tigpo",
}  # fmt: skip
ARRAYS_ALONE = {"bi_level_gae", "fill_silent", "importance", "token_gae", "vetta"}


@pytest.mark.parametrize("penalty", ["row", "discounted", "advantage"])
@pytest.mark.parametrize(("name", "form"), [(name, form) for name, forms in SAME.items() for form in forms])
def test_a_shared_row_gets_the_mean_of_what_the_whole_episodes_give_it(
    name: str, form: dict[str, Any], penalty: str
) -> None:
    method, options = FUNCTIONS[name], dict(form)
    if "penalty" in (method.__doc__ or "") and name not in ("action_targets", "attribution", "hisr", "spa"):
        options |= {"penalty": penalty, "invalid_penalty": 0.1}
    for table in FORESTS:
        whole, source = table.unfolded()
        found = method(table, **beside(name, table), **options)
        close(found, averaged(table, method(whole, **beside(name, whole, source, len(table)), **options)))


@pytest.mark.parametrize("name", sorted({*FUNCTIONS} - ARRAYS_ALONE))
def test_every_method_takes_forks_in_any_order_of_rows(name: str) -> None:
    method = FUNCTIONS[name]
    for table in FORESTS[:4]:
        arguments = beside(name, table)
        found = method(table, **arguments)
        assert found.shape[0] == len(table)
        assert not np.isinf(found).any()
        sorted_rows = StepTable.from_trajectories(table.to_trajectories())
        order = table.order  # the rows of the sorted table
        close(method(sorted_rows, **{key: value[order] for key, value in arguments.items()}), found[order])


def test_scores_of_steps_count_once_and_outcomes_by_episode() -> None:
    for table in FORESTS:
        scores = np.random.default_rng(len(table)).normal(size=len(table))
        flat = dataclasses.replace(table, parent=np.full(table.n_trajectories, -1))
        steps = credit.process_reward(table, scores=scores, alpha_trajectory=0.0)
        close(steps, credit.process_reward(flat, scores=scores, alpha_trajectory=0.0))
        close(credit.process_reward(table, scores=scores, alpha=0.0), credit.grpo(table))
        whole, source = table.unfolded()
        options = {"scores": scores[source], "alpha_trajectory": 0.0, "compare": "first"}
        first = {int(source[whole.order[whole.offsets[i]]]) for i in range(whole.n_trajectories)}
        members = [row for row in sorted(first) if table.group[row] == 0]
        found = credit.process_reward(table, **{**options, "scores": scores}, eps=0.0)[table.group == 0]
        if len(members) > 1:
            of_first = scores[members]
            expected = (scores[table.group == 0] - of_first.mean()) / of_first.std(ddof=1)
            close(found, expected)


def test_returns_values_and_segments_are_those_of_the_whole_episodes() -> None:
    for table in FORESTS:
        whole, source = table.unfolded()
        expected = averaged(table, discounted_returns(whole, 0.9))
        close(mean_returns(table, gamma=0.9), expected)
        if np.ptp(expected):
            whitened = (expected - expected.mean()) / np.sqrt(expected.var(ddof=1) + 1e-8)
            close(credit.reinforce_plus_plus(table, gamma=0.9), whitened)
        # Values behind the end are those of the episode.
        last, values = np.linspace(-1, 1, table.n_trajectories), np.random.default_rng(0).normal(size=len(table))
        found = credit.gae(table, values=values, last_values=last, lam=0.8)
        close(found, averaged(table, credit.gae(whole, values=values[source], last_values=last, lam=0.8)))
        assert by_turn(table)[source].tolist() == by_turn(whole).tolist()
        events = np.random.default_rng(1).random(len(table)) < 0.4
        assert by_event(table, events)[source].tolist() == by_event(whole, events[source]).tolist()


def test_without_forks_nothing_is_copied_and_of_forks_not_all_can_be_said() -> None:
    seen: list[StepTable] = []

    @over_forks("values")
    def method(table: StepTable, *, values: Any) -> np.ndarray:
        seen.append(table)
        return np.asarray(values, float)

    table = random_table(0)
    values = np.arange(len(table))
    assert method(table, values=values).tolist() == values.tolist()
    assert seen[0] is table
    assert method(TREE, values=[1.0, 2.0, np.nan, 4.0])[:2].tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match=r"values must hold one entry per row of the table \(4\), got shape \(3,\)"):
        method(TREE, values=[1.0, 2.0, 3.0])

    @over_forks()
    def of_won(table: StepTable) -> np.ndarray:
        return np.where(table.won, 3.0, np.nan)

    np.testing.assert_array_equal(of_won(TREE), [3.0, 3.0, np.nan, np.nan])
    words = r"cut from others \(StepTable.parent\): a shared step has no unique segment among"
    refuses(ValueError, words, by_count, TREE, 2)
    refuses(ValueError, "an episode level compares whole episodes", episode_advantages, TREE, np.zeros(4), {})
    assert episode_level.__name__ == "episode_level"


#: Methods that read shared prefixes as they are, where a table is too large to be unfolded.
SHARING = {
    "aem", "bpo", "dapo", "graphgpo", "grpo", "istar", "process_reward", "ragen2", "reinforce_plus_plus",
    "reinforce_plus_plus_baseline", "rewardflow", "rlcsd", "rloo", "rlsd", "sdpo", "tree_grpo", "vine",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted({*FUNCTIONS} - ARRAYS_ALONE))
def test_a_table_too_large_to_be_unfolded_is_read_as_it_is_or_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, method = FORESTS[0], FUNCTIONS[name]
    arguments = beside(name, table)
    expected = method(table, **arguments)
    monkeypatch.setattr(forks, "MOST_UNFOLDED", 0)
    if name in SHARING:
        close(method(table, **arguments), expected)
    else:
        refuses(ValueError, r"rows of the table are .* nest fewer cuts, keep.* reads forks", method, table, **arguments)


LEVELS = [{"over": over, "singleton": single} for over in ("trajectories", "steps") for single in ("zero", "raw")]


@pytest.mark.parametrize("penalty", ["row", "discounted", "advantage"])
@pytest.mark.parametrize("level", LEVELS)
def test_shared_prefixes_say_what_whole_episodes_say(
    level: dict[str, Any], penalty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [*FORESTS, *(random_trees(seed, groups=3, size=2) for seed in range(4))]
    common = {**level, "penalty": penalty, "invalid_penalty": 0.3, "outcome": "return"}
    calls = [
        lambda table, std=std, ddof=ddof: credit.grpo(table, std=std, ddof=ddof, **common)
        for std in ("group", "batch", "none")
        for ddof in (0, 1)
    ]
    calls += [
        lambda table: credit.rloo(table, **common),
        lambda table: credit.reinforce_plus_plus_baseline(table, **common),
    ]
    calls += [
        lambda table: credit.reinforce_plus_plus(table, gamma=0.9, penalty=penalty, invalid_penalty=0.3),
        lambda table: credit.reinforce_plus_plus(table, preset="authors", penalty=penalty, invalid_penalty=0.3),
        lambda table: credit.process_reward(table, scores=table.reward - table.t, horizon="to_go", gamma=0.5),
    ]
    for table in tables:
        expected = [call(table) for call in calls]
        with monkeypatch.context() as patched:
            patched.setattr(forks, "MOST_UNFOLDED", 0)
            for call, before in zip(calls, expected, strict=True):
                close(call(table), before)


def test_a_chain_of_thousands_of_forks_by_hand() -> None:
    # 8,000 episodes of two steps of their own, each cut from the one before after its first; those of even number
    # win. Outcomes 1 and 0 in equal parts have the sample deviation sqrt(8000 / 4 / 7999), so +-z below.
    n, many = 16_000, 8_000
    table = ladder(n)
    z = 0.5 / np.sqrt(many / 4 / (many - 1))
    # Through the first row of episode i go i, i + 1, .. to the last: as many wins as losses where i is even.
    left = many - np.arange(many)
    shared = np.where(np.arange(many) % 2 == 0, 0.0, -z / left)
    own = np.where(np.arange(many) % 2 == 0, z, -z)
    expected = np.stack((shared, own), axis=1).ravel()
    assert table.episode_length.sum() == many * (many + 3) // 2 > forks.MOST_UNFOLDED
    close(credit.grpo(table, eps=0.0), expected)
    # A loss costs the mean of the others, as a win gains it: 1/2 * 8000 / 7999.
    close(credit.rloo(table), expected / z * 0.5 * many / (many - 1))
    for method in (credit.rewardflow, credit.graphgpo, credit.reinforce_plus_plus, credit.reinforce_plus_plus_baseline):
        assert np.isfinite(method(table)).all()


def test_what_is_not_unfolded_takes_linear_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "MOST_UNFOLDED", 0)
    peaks = []
    for n in (1_000, 8_000):  # unfolded 126,000 and 8 million rows
        table = ladder(n)
        tracemalloc.start()
        credit.grpo(table)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 12 * peaks[0]
    assert peaks[1] < 2000 * 8_000  # bytes


# 0: s u v w, cut after u (1) and after v (2); 3 is cut from 1; 4 is another tree.
TABLE = episodes(
    "s -a-> u -b-> v -c-> w -d-> goal +", "0.0: u -e-> x -f-> y", "0.1: v -g-> z", "1.1: x -h-> goal +", "s -i-> q"
)


def test_trees_sums_and_marks_by_hand() -> None:
    forest = Forest(TABLE)
    # Rows 0-3 of 0, 4-5 of 1, 6 of 2, 7 of 3, 8 of 4.
    assert forest.tree.tolist() == [0, 0, 0, 0, 4]
    assert forest.leaves.tolist() == [4, 2, 1, 1, 2, 1, 1, 1, 1]
    # Ways begin at the roots' first rows, and behind every fork on both sides.
    assert forest.begins.tolist() == [0, 1, 2, 4, 5, 6, 7, 8]
    below = forest.below(np.array([1.0, 10, 100, 1000, 10000]))
    assert below.tolist() == [1111, 101, 1, 1, 1010, 10, 100, 1000, 10000]
    values = np.arange(9.0)
    np.testing.assert_array_equal(
        spread(TABLE, values, np.array([5, 1, 3])), [np.nan, 1, 1, 3, np.nan, 5, np.nan, np.nan, np.nan]
    )


@given(seed=st.integers(0, 10**6))
def test_a_forest_equals_its_naive_twin(seed):
    table = random_trees(seed)
    table = StepTable.from_trajectories(
        [table.to_trajectories()[i] for i in np.random.default_rng(seed).permutation(table.n_trajectories)]
    )
    forest = Forest(table)
    whole = [whole_rows(table, i) for i in range(table.n_trajectories)]
    values = np.random.default_rng(seed).random(table.n_trajectories)
    below = [sum(values[i] for i, rows in enumerate(whole) if row in rows) for row in range(len(table))]
    close(forest.below(values), below)
    for i, rows in enumerate(whole):
        assert forest.tree[i] == table.trajectory[rows[0]]


def own_rows(table: StepTable, i: int) -> list[int]:
    """A trajectory's own rows in order of t."""
    return sorted(np.flatnonzero(table.trajectory == i).tolist(), key=lambda row: table.t[row])


def whole_rows(table: StepTable, i: int) -> list[int]:
    """The rows of an episode from its beginning."""
    rows, cut = own_rows(table, i), int(table.parent[i])
    if cut < 0:
        return rows
    above = whole_rows(table, int(table.trajectory[cut]))
    return above[: above.index(cut) + 1] + rows


def _to_go(table, rows, gamma):
    return sum(gamma**k * table.reward[row] for k, row in enumerate(rows))


def naive_vine(table: StepTable, *, gamma: float = 1.0, pool: str = "fork", gaps: str = "segment") -> np.ndarray:
    """`vine` without whitening."""
    scores = np.full(len(table), np.nan)
    own = [own_rows(table, i) for i in range(table.n_trajectories)]
    for i, rows in enumerate(own):
        if table.parent[i] >= 0:
            continue
        values = []
        for k, row in enumerate(rows):
            returns = []
            for j, others in enumerate(own):
                if j == i or table.group[others[0]] != table.group[row]:
                    continue
                same = table.state[others[0]] == table.state[row]
                if pool == "state":
                    here = same
                elif k == 0:
                    here = table.parent[j] < 0 and same
                else:
                    here = table.parent[j] == rows[k - 1]
                if here:
                    returns.append(_to_go(table, others, gamma))
            values.append(sum(returns) / len(returns) if returns else None)
        values.append(0.0)
        if gaps == "backwards":
            for k in reversed(range(len(rows))):
                if values[k] is None:
                    values[k] = table.reward[rows[k]] + gamma * values[k + 1]
        known = [k for k, value in enumerate(values) if value is not None]
        for start, end in itertools.pairwise(known):
            gain = _to_go(table, rows[start:end], gamma) + gamma ** (end - start) * values[end] - values[start]
            for k in range(start, end):
                scores[rows[k]] = gain
    return scores


def _through(table):
    """For each row the episodes that go through it."""
    whole = [whole_rows(table, i) for i in range(table.n_trajectories)]
    return whole, [[i for i, rows in enumerate(whole) if row in rows] for row in range(len(table))]


def _roots(table, whole):
    return [int(table.trajectory[rows[0]]) for rows in whole]


def naive_bpo(table: StepTable, *, gamma: float = 1.0, lam: float = 0.95, alpha: float = 1.0) -> np.ndarray:
    """`bpo`."""
    own = [own_rows(table, i) for i in range(table.n_trajectories)]
    contrast = {}
    for cut in set(table.parent[table.parent >= 0].tolist()):
        mine = own[table.trajectory[cut]]
        ways = [mine[mine.index(cut) + 1 :]] + [own[i] for i in range(len(own)) if table.parent[i] == cut]
        returns = [_to_go(table, way, gamma) for way in ways]
        for way, value in zip(ways, returns, strict=True):
            contrast[way[0]] = value - (sum(returns) - value) / (len(returns) - 1)
    whole, through = _through(table)
    worth = [_to_go(table, rows, 1.0) for rows in whole]
    roots = _roots(table, whole)
    trees = {root: np.mean([worth[i] for i in range(len(own)) if roots[i] == root]) for root in set(roots)}
    scores = np.zeros(len(table))
    for rows in own:
        for k, row in enumerate(rows):
            behind = [contrast[each] for each in rows[: k + 1] if each in contrast]
            scores[row] = behind[-1] if behind else 0.0
            scores[row] += sum(lam ** (m - k) * contrast.get(rows[m], 0.0) for m in range(k + 1, len(rows)))
            others = [
                value
                for root, value in trees.items()
                if root != roots[table.trajectory[row]] and table.trajectory_group[root] == table.group[row]
            ]
            if others:
                scores[row] += alpha * (np.mean([worth[i] for i in through[row]]) - np.mean(others))
    return scores


def naive_tree_grpo(table: StepTable, *, compare: str = "sum", shared: str = "mean") -> np.ndarray:
    """`tree_grpo` with sample deviations, the only episode of a tree or group scoring 0."""
    whole, through = _through(table)
    worth = [float(_to_go(table, rows, 1.0)) for rows in whole]
    roots = _roots(table, whole)

    def inside(sets, values):
        result = [0.0] * len(values)
        for one in set(sets):
            members = [i for i, each in enumerate(sets) if each == one]
            if len(members) > 1:
                for i, score in zip(members, standard([values[i] for i in members]), strict=True):
                    result[i] = score
        return result

    group = inside(table.trajectory_group.tolist(), worth)
    if compare == "sum":
        leaf = [a + b for a, b in zip(group, inside(roots, worth), strict=True)]
    elif compare == "nested":
        leaf = inside(roots, group)
    scores = np.zeros(len(table))
    for row, takers in enumerate(through):
        if compare in ("sum", "nested"):
            scores[row] = np.mean([leaf[i] for i in takers])
        else:
            path = whole[takers[0]]
            above = [each for each in path[: path.index(row)] if through[each] != takers]
            everyone = [i for i in range(len(worth)) if table.trajectory_group[i] == table.group[row]]
            mean, all_of_group = np.mean([worth[i] for i in takers]), np.mean([worth[i] for i in everyone])
            parent = np.mean([worth[i] for i in through[above[-1]]]) if above else all_of_group
            scores[row] = mean - parent + (mean - all_of_group if compare == "treerl" else 0.0)
            scores[row] /= math.sqrt(len(takers))
        if shared == "sum":
            scores[row] *= len(takers)
    return scores


SEEDS = st.integers(0, 10**6)


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
