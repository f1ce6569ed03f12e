"""The league from end to end, in all environments, on a few tasks."""

import dataclasses
import re

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")

import typer
from typer.testing import CliRunner

from agentgym.trajectory import StepTable
from benchmarks.json_files import ResultsError
from benchmarks.league.command import league
from benchmarks.league.players import ENVIRONMENTS
from benchmarks.league.registry import LEAGUE
from benchmarks.league.results import credits_of, load, mean_measure, save
from benchmarks.league.study import QUICK, Truth, agreement, ceiling, make_config, measure, run_league
from benchmarks.ranking.measures import MEASURES, bootstrap_weights
from benchmarks.ranking.results import score_of
from benchmarks.ranking.rollouts import comparisons
from benchmarks.ranking.study import make_config as make_ranking_config
from benchmarks.ranking.study import measure_player as measure_ranking
from wrappers.credit.method import STEP, Credit

APP = typer.Typer()
APP.command()(league)


def run(*options):
    return CliRunner().invoke(APP, [str(option) for option in options])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("league") / "study"
    result = run("--quick", "--out", place)
    assert result.exit_code == 0, result.output
    return place


@pytest.fixture(scope="module")
def found(folder):
    return load(folder / "league.json")


def test_every_credit_is_measured_in_every_environment(found):
    assert [standing.env for standing in found.standings] == list(ENVIRONMENTS)
    assert list(credits_of(found)) == [*(credit.name for credit in LEAGUE), "vine", "random"]
    for standing in found.standings:
        assert standing.main.truth == ("distance" if ENVIRONMENTS[standing.env].exact else "value")
        assert (standing.main.error == 0) is ENVIRONMENTS[standing.env].exact
        assert 0 < standing.main.known <= 1
        assert len(standing.main.scores) == len(found.config.sizes) * len(credits_of(found))
        assert set(standing.main.scores[0].measures) == set(MEASURES)


def test_what_knows_more_ranks_better(found):
    assert mean_measure(found, "sokoban", "graphgpo step", "within", 4) > 0.4
    assert abs(mean_measure(found, "sokoban", "random", "within", 4)) < 0.25
    assert mean_measure(found, "searchqa", "vine", "within", 4) > 0.2


def test_the_same_command_continues(folder, found):
    (folder / "sotopia-expert-50.json").unlink()
    result = run("--quick", "--out", folder)
    assert result.exit_code == 0
    assert "sokoban, expert 50: finished before" in result.output
    again = load(folder / "league.json")
    timeless = [[dataclasses.replace(each, seconds=0.0) for each in one.standings] for one in (found, again)]
    assert timeless[0] == timeless[1]
    assert re.search(r"graphgpo_filled +\.?\d", result.output)


def test_a_method_joins_with_one_entry(monkeypatch):
    mine = Credit("steps left", STEP, "", lambda table: -table.t.astype(float))
    monkeypatch.setattr("benchmarks.league.study.LEAGUE", (*LEAGUE, mine))
    monkeypatch.setattr("benchmarks.league.study._KNOWN", {credit.name: credit for credit in (*LEAGUE, mine)})
    config = make_config(QUICK, envs=["sokoban"])
    assert measure(config, "sokoban", "expert 50").main.measure("steps left step", "coverage", 4).mean > 0.5


def test_sokoban_is_the_ranking_study():
    """The same players, tasks, episodes and truth: the same figures."""
    mine = make_config(QUICK, envs=["sokoban"], players=["expert 75"], groups=[2, 4, 8, 16], tasks=2)
    theirs = make_ranking_config(2, players=["expert 75"], methods="all")
    expected = measure_ranking(theirs, "expert 75", lambda player, words: None)
    found = measure(mine, "sokoban", "expert 75")
    assert (found.success, found.steps) == (expected.success, expected.steps)
    assert found.main.comparable == expected.comparable
    for credit in ("gigpo step", "graphgpo step", "bellman step", "salt step", "attribution", "random"):
        for size in mine.sizes:
            assert found.main.score(credit, size) == score_of(expected, credit, size)


def test_both_truths_of_an_exact_environment(tmp_path):
    config = make_config(QUICK, envs=["sokoban"], groups=[4], check=True, seed=3)
    standing = run_league(config, tmp_path / "check").standings[0]
    assert [held.truth for held in standing.held] == ["distance", "value", "undiscounted value"]
    for held in standing.held:
        assert held.measure("graphgpo step", "within", 4).mean > 0.2
        assert (held.ceilings[0] is None) is (held.truth == "distance")
    assert standing.truth_cost > 1


def test_a_cloned_policy_plays_in_its_environment(finished_run, tmp_path):
    job = finished_run / "clone-seed0"
    tiny = dataclasses.replace(QUICK, tasks=2, continuations=2)
    config = make_config(tiny, envs=["sokoban", "webshop"], models=[job / "model"], check=True)
    assert config.models == {"sokoban": {"clone-seed0": str(job)}, "webshop": {}}
    standing = measure(config, "sokoban", "clone-seed0")
    assert [held.truth for held in standing.held] == ["distance", "value", "undiscounted value"]
    assert standing.steps > 0
    assert {"empg", "aem"} <= {score.credit for score in standing.main.scores}
    assert standing.main.measure("empg", "coverage", 4).mean > 0
    assert measure(config, "sokoban", "expert 50").main.score("empg", 4) is None
    with pytest.raises(ResultsError, match="the name 'clone-seed0' is taken"):
        make_config(QUICK, models=[job, job])
    with pytest.raises(ResultsError, match="a policy for sokoban; this league plays webshop"):
        make_config(QUICK, envs=["webshop"], models=[job])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--env", "sokobann"], "unknown environment 'sokobann'.*sokoban"),
        (["--player", "expert 60"], "unknown player 'expert 60'"),
        (["--groups", "4", "--groups", "6"], "each a multiple of the smaller ones"),
        (["--policy", "/nowhere/clone-seed0"], "expected a job folder"),
        (["--seed", "1"], "another configuration"),
    ],
)
def test_what_is_asked_wrongly_is_said(folder, options, words):
    result = run("--quick", "--out", folder, *options)
    assert result.exit_code == 2
    assert re.search(words, result.output, re.DOTALL)


def test_results_of_another_version_are_refused(found, tmp_path):
    path = tmp_path / "league.json"
    save(dataclasses.replace(found, version=0), path)
    with pytest.raises(ResultsError, match="reads version"):
        load(path)


def test_the_ceiling_of_noise():
    """Many states of 4 actions; values, and noise in either half, have variance 1."""
    rng = np.random.default_rng(0)
    n, per = 4000, 4
    values = rng.standard_normal((n, per)).ravel()
    halves = [values + rng.standard_normal(n * per) for _ in range(2)]
    table = StepTable.from_arrays(
        group=np.repeat(np.arange(n) // 100, per), trajectory=np.arange(n * per), t=np.zeros(n * per, int),
        state=np.repeat(np.arange(n), per), action=np.tile(np.arange(per), n), next_state=np.full(n * per, n),
        reward=np.zeros(n * per), won=np.zeros(n * per, bool),
    )  # fmt: skip
    weights = bootstrap_weights(table.n_groups, 100, 0)
    truth = Truth("value", np.mean(halves, axis=0), tuple(halves), np.ones(n * per))
    found = ceiling(agreement(truth, table, table, weights)["within"])
    same = agreement(dataclasses.replace(truth, halves=(values, values)), table, table, weights)
    # What is estimated: how well the values themselves rank what is known of them; generous for few steps.
    compared = comparisons(table, table.group, truth.values)
    direct = compared.sums(values).sum(0)
    assert direct[0] / direct[1] == pytest.approx(0.69, abs=0.01)
    assert 0 < found.mean - direct[0] / direct[1] < 0.07
    assert found.mean < np.sqrt(2 / 3)  # Pearson's correlation, over all states at once
    assert found.low < found.mean < found.high
    assert ceiling(same["within"]).mean == same["sign_all"].mean == pytest.approx(1.0)
    assert agreement(dataclasses.replace(truth, halves=None), table, table, weights) == {}
    assert ceiling(None) is None
