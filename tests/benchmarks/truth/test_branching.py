"""Continuations of every state, and how well values of them rank actions."""

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")

from benchmarks.machine import Machine
from benchmarks.truth.branching import COUNTS, STUDY, Branching, configure, continuations, page
from benchmarks.truth.episodes import play

CONFIG = configure(groups=2)


@pytest.fixture(scope="module")
def played():
    return play(CONFIG, "sokoban", "expert 50")


def test_every_state_that_is_not_solved_is_gone_on_from_in_its_group(played):
    episodes = played.table
    table = continuations(episodes, played.policy, 2, False, 0)
    reached = {
        (episodes.groups[g], episodes.states[s])
        for column in (episodes.state, episodes.next_state)
        for g, s in zip(episodes.group, column, strict=True)
        if not str(episodes.states[s]).endswith("[success]")
    }
    begins = table.order[table.offsets[:-1]]
    begun = [(table.groups[table.group[row]], table.states[table.state[row]]) for row in begins]
    assert set(begun) == reached
    assert begun[::2] == begun[1::2]
    assert len(begun) == 2 * len(reached)
    again = continuations(episodes, played.policy, 2, False, 0)
    np.testing.assert_array_equal(again.action, table.action)


@pytest.mark.parametrize("common", [True, False])
def test_common_numbers_are_those_of_the_level_and_of_the_continuation(common):
    # A uniform player's moves are its numbers.
    uniform = play(CONFIG, "sokoban", "random")
    table = continuations(uniform.table, uniform.policy, 2, common, 0)
    moves = [tuple(table.actions[a] for a in table.action[table.chain(i)[:3]]) for i in range(table.n_trajectories)]
    kinds: dict[tuple[int, int], set[tuple[str, ...]]] = {}
    for i, begin in enumerate(moves):
        if len(begin) == 3:
            kinds.setdefault((int(table.trajectory_group[i]), i % 2), set()).add(begin)
    assert len(kinds) == 4
    assert all((len(begins) == 1) == common for begins in kinds.values())


@pytest.fixture(scope="module")
def scores():
    return STUDY.run(CONFIG, "expert 50", None, lambda done, total, words: None)


def test_scores_of_continuations_and_branches(scores) -> None:
    found = {(each.credit, each.size): each for each in scores}
    for credit in ("vine, independent", "vine, common"):
        ranks = [found[credit, count].rank.mean for count in COUNTS]
        assert ranks == sorted(ranks)
        assert found[credit, 16].cost == pytest.approx(16 * found[credit, 1].cost)
    assert found["graphgpo", 16].rank.mean > 0.9
    assert found["graphgpo", 16].cost == 0
    found = {each.credit: each for each in scores if each.credit.startswith("tree")}
    assert list(found) == [
        f"tree: {method}{other}" for method in ("vine", "bpo", "tree_grpo") for other in ("", ", grpo", ", graphgpo")
    ]
    assert found["tree: vine"].rank.mean > found["tree: vine, grpo"].rank.mean
    # One continuation of one step of each episode, against four of each state.
    assert 0 < found["tree: bpo"].cost < 1 < found["tree: vine"].cost
    assert all(0 < each.success < 1 for each in found.values())
    (table,) = page(Branching(1, "", Machine("", 1, 1.0, "", "", {}), CONFIG, scores)).tables
    assert ["vine, common, 16" in row for row in table.texts].count(True) == 1
    assert len(table.texts) == len(scores) == 17
    assert list(CONFIG.players["sokoban"]) == ["random", "expert 25", "expert 50"]
