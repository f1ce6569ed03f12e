"""Continuations of every state, and how well values of them rank actions."""

import json

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")

import typer
from typer.testing import CliRunner

from benchmarks.ranking.branching import COUNTS, PLAYERS, branching, continuations, measure_player, measure_trees
from benchmarks.ranking.rollouts import play
from benchmarks.ranking.study import make_config

CONFIG = make_config(2)
APP = typer.Typer()
APP.command()(branching)


def test_every_state_that_is_not_solved_is_gone_on_from_in_its_group():
    episodes = play(CONFIG, "expert 50")
    table = continuations(episodes, CONFIG.optimal["expert 50"], CONFIG.env, 2, False, 0)
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
    again = continuations(episodes, CONFIG.optimal["expert 50"], CONFIG.env, 2, False, 0)
    np.testing.assert_array_equal(again.action, table.action)


@pytest.mark.parametrize("common", [True, False])
def test_common_numbers_are_those_of_the_level_and_of_the_continuation(common):
    # A uniform player's moves are its numbers.
    table = continuations(play(CONFIG, "uniform"), 0.0, CONFIG.env, 2, common, 0)
    moves = [tuple(table.actions[a] for a in table.action[table.chain(i)[:3]]) for i in range(table.n_trajectories)]
    kinds: dict[tuple[int, int], set[tuple[str, ...]]] = {}
    for i, begin in enumerate(moves):
        if len(begin) == 3:
            kinds.setdefault((int(table.trajectory_group[i]), i % 2), set()).add(begin)
    assert len(kinds) == 4
    assert all((len(begins) == 1) == common for begins in kinds.values())


def test_more_continuations_rank_better_and_cost_more():
    scores = {(each.credit, each.size): each for each in measure_player(CONFIG, "expert 50")}
    for credit in ("vine, independent", "vine, common"):
        ranks = [scores[credit, count].rank.mean for count in COUNTS]
        assert ranks == sorted(ranks)
        assert scores[credit, 16].cost == pytest.approx(16 * scores[credit, 1].cost)
    assert scores["graphgpo", 16].rank.mean > 0.9
    assert scores["graphgpo", 16].cost == 0


def test_methods_for_branches_are_measured_on_trees_with_others_beside_them():
    scores = {each.credit: each for each in measure_trees(CONFIG, "expert 50")}
    assert list(scores) == [
        f"tree: {method}{other}" for method in ("vine", "bpo", "tree_grpo") for other in ("", ", grpo", ", graphgpo")
    ]
    assert scores["tree: vine"].rank.mean > scores["tree: vine, grpo"].rank.mean
    # One continuation of one step of each episode, against four of each state.
    assert 0 < scores["tree: bpo"].cost < 1 < scores["tree: vine"].cost
    assert all(0 < each.success < 1 for each in scores.values())


@pytest.mark.slow
def test_the_command_prints_and_writes_every_row(tmp_path):
    path = tmp_path / "branching.json"
    result = CliRunner().invoke(APP, ["--quick", "--out", str(path)])
    assert result.exit_code == 0, result.output
    rows = json.loads(path.read_text())
    assert [row["player"] for row in rows[::17]] == list(PLAYERS)
    assert "vine, common, 16" in result.output
