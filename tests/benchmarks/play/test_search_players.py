"""The search study from end to end, on a few levels."""

import functools
import json
import re

import pytest
import typer

from benchmarks.play.search_players import METHODS, STUDY, drawn
from benchmarks.report.page import html
from tests.benchmarks import command
from tests.cases import cases

APP = typer.Typer()
APP.command()(STUDY.command)


run = functools.partial(command.run, of=APP)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("search") / "study"
    assert "mcts" in run("--quick", "--tasks", 12, "--show", 3, "--out", place)
    return place


@pytest.fixture
def study(folder):
    return STUDY.load(folder / "search.json")


def test_every_method_stays_within_its_budget_and_search_solves_what_random_moves_do_not(study):
    assert [(score.player, score.budget) for score in study.scores] == [
        ("alone", 0), *((method, budget) for method in METHODS for budget in (50, 200)),
    ]  # fmt: skip
    for score in study.scores:
        assert len(score.success) == 12
        assert score.steps <= score.budget
        assert score.tokens == score.scored == 0  # the random policy writes none
    solved = {(score.player, score.budget): score.success.count("1") for score in study.scores}
    assert solved["mcts", 200] > solved["alone", 0]
    assert solved["mcts", 200] >= solved["best_of_n", 200]


def test_the_graph_of_a_search_holds_what_was_simulated(study):
    graphs = {(graph.method, graph.stage): graph for graph in drawn(study)}
    assert {method for method, _ in graphs} == set(METHODS)
    for (method, stage), graph in graphs.items():
        assert graph.nodes[0].start
        assert graph.nodes[0].depth == 0
        assert sum(edge.count for edge in graph.edges) >= len(graph.edges)
        assert graph.episodes <= int(stage.split()[0]), method
        won = [i for i, node in enumerate(graph.nodes) if node.success]
        assert bool(won) == bool(graph.won)
        assert all(graph.nodes[i].distance == 0 for i in won)
        for edge in graph.edges:
            source, target = graph.nodes[edge.source], graph.nodes[edge.target]
            assert target.depth <= source.depth + 1
            if target.distance is not None:
                assert source.distance is not None
                assert source.distance <= target.distance + 1


def test_a_tree_of_the_root_counts_its_simulations(study):
    score = next(score for score in study.scores if (score.player, score.budget) == ("mcts", 50))
    graph = score.graph
    # Without rollouts a simulation is a step; those that lead to states met before are judged by nobody.
    assert graph.nodes[0].visits <= graph.episodes <= 50


def test_the_page_holds_the_table_and_the_graphs(study, folder):
    page = (folder / "report.html").read_text("utf-8")
    assert page == html(STUDY.shown(study), {})
    for row in STUDY.shown(study).tables[0].texts:
        assert row[2] in page
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    assert {graph["method"] for graph in data["graphs"]} == set(METHODS)
    assert data["graphs"][0]["stage"] == "200 steps"
    assert data["tiles"]


@cases(
    "options, words",
    (["--methods", "mtcs"], "did you mean 'mcts'?"),
    (["--outcome", "scores"], "did you mean 'score'?"),
    (["--env", "sokobann"], "did you mean 'sokoban'?"),
    (["--quick", "--show", "32"], "there is no task 32 among 32"),
    (["--budgets", "10,x"], "distinct numbers"),
    (["--policy", "/nowhere"], "expected a job folder"),
)
def test_wrong_options_say_what_was_expected(options, words, tmp_path):
    assert words in run(*options, "--out", tmp_path / "out", status=2)


def test_a_cloned_policy_searches_with_its_own_probabilities(finished_run, tmp_path):
    run(
        "--policy", finished_run / "clone-seed0", "--listed", "--rollout", 0, "--tasks", 6, "--budgets", 20,
        "--methods", "mcts", "--out", tmp_path / "out",
    )  # fmt: skip
    study = STUDY.load(tmp_path / "out" / "search.json")
    assert [score.player for score in study.scores] == ["alone", "greedy", "mcts"]
    assert study.scores[-1].scored > 0
    assert study.scores[-1].tokens == 0
