"""The study of scorers from end to end, small."""

import dataclasses
import io
import json

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("typer")
pytest.importorskip("rich")

from rich.console import Console
from typer.testing import CliRunner

from benchmarks.json_files import OtherConfigurationError, ResultsError
from benchmarks.ranking.measures import MEASURES
from benchmarks.run import app
from benchmarks.scorers.registry import SCORERS, Scored
from benchmarks.scorers.results import load
from benchmarks.scorers.study import QUICK, make_config, run_scorers
from benchmarks.scorers.table import print_study
from benchmarks.scorers.training import FixedPolicy, learn


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("scorers") / "study"
    result = CliRunner().invoke(app, ["scorers", "--quick", "--out", str(place)])
    assert result.exit_code == 0, result.output
    return place


@pytest.fixture
def study(folder):
    return load(folder / "scorers.json")


@pytest.fixture(scope="module")
def fixed(folder):
    return FixedPolicy(folder / "learning" / "clone-seed0", QUICK, 0)


@pytest.fixture(scope="module")
def held_out(fixed):
    return fixed.held_out(10)


def test_every_scorer_is_measured_before_and_after_learning(study):
    assert [result.name for result in study.results] == list(SCORERS)
    for result in study.results:
        learns = result.kind != "reference"
        assert [point.iterations for point in result.points] == ([0, 1, 2] if learns else [0])
        for point in result.points:
            assert set(point.measures) == set(MEASURES)
            assert (point.loss is None) == (point.iterations == 0)
        assert (result.cost is None) != learns
        if learns:
            before, *after = (point.measures["within"].mean for point in result.points)
            # Nothing is told apart yet; a change of value is credit where an episode is won, whatever the value.
            assert before == 0 or result.kind == "state value", result.name
            assert any(after), result.name
            assert min(result.score_seconds, result.update_seconds, result.policy_seconds) > 0


def test_the_same_command_continues_and_changes_nothing_but_times(folder):
    before = json.loads((folder / "scorers.json").read_text("utf-8"))
    kept = (folder / "fewer-steps.json").read_text("utf-8")
    (folder / "critic.json").unlink()
    result = CliRunner().invoke(app, ["scorers", "--quick", "--out", str(folder)])
    assert result.exit_code == 0, result.output
    assert "fewer steps: finished before" in result.output
    assert "critic: 2 of 2 iterations" in result.output
    assert "cloning" not in result.output
    assert (folder / "fewer-steps.json").read_text("utf-8") == kept
    after = json.loads((folder / "scorers.json").read_text("utf-8"))
    for document in (before, after):
        del document["created"]
        for found in document["results"]:
            for name in ("score_seconds", "update_seconds", "policy_seconds"):
                del found[name]
    assert before == after


class Recorder:
    """A scorer that notes what is asked of it and knows the truth of some table."""

    level = "turn"
    order = "after"

    def __init__(self, known):
        self.known, self.calls = known, []

    def scores(self, table):
        self.calls.append(("scores", table))
        return np.maximum(self.known.truth, -99.0) if table is self.known.table else np.zeros(len(table))

    def update(self, table, scores, targets, generator, learning_rate):
        self.calls.append(("update", table))
        assert scores.tolist() == [0.0] * len(table)
        assert targets.tolist() == [7.0] * len(table)
        self.rate = learning_rate
        return {"prm_loss": float(len(self.calls))}


def test_a_scorer_is_asked_then_taught_then_examined(fixed, held_out):
    made = []

    def make(policy):
        assert policy is fixed.policy
        made.append(Recorder(held_out))
        return made[0]

    scored = Scored("advantage", make, lambda table: np.full(len(table), 7.0))
    found = learn("recorder", scored, fixed, held_out, QUICK, 0)
    one, two, test = fixed.batch(0), fixed.batch(1), held_out.table
    asked = [("scores", test), ("scores", one), ("update", one), ("scores", test), ("scores", two), ("update", two),
             ("scores", test)]  # fmt: skip
    assert len(made[0].calls) == len(asked)
    for (name, table), (expected, of) in zip(made[0].calls, asked, strict=True):
        assert name == expected
        assert table is of
    assert made[0].rate == fixed.learned.training["learning_rate"]
    assert [point.loss for point in found.points] == [None, 3.0, 6.0]
    assert {point.measures["within"].mean for point in found.points} == {1.0}


def test_batches_are_levels_that_were_not_cloned(fixed):
    tables = [fixed.batch(i) for i in (0, 1)]
    cloned = fixed.learned.clone_tasks
    for i, table in enumerate(tables):
        assert list(table.groups) == [f"train/{cloned + 4 * i + k}" for k in range(4)]
        assert table.n_trajectories == 16
    again = FixedPolicy(fixed._folder.parent, QUICK, 0).batch(1)  # whatever was played before
    assert np.array_equal(again.action, tables[1].action)
    assert fixed.batch(1) is tables[1]


def test_the_policy_stands_still(fixed, held_out):
    before = {name: value.clone() for name, value in fixed.policy.model.state_dict().items()}
    learn("critic", SCORERS["critic"], fixed, held_out, dataclasses.replace(QUICK, iterations=[1]), 0)
    for name, value in fixed.policy.model.state_dict().items():
        assert bool((value == before[name]).all()), name


def test_another_configuration_needs_another_folder(folder):
    with pytest.raises(OtherConfigurationError, match="scorers: there"):
        run_scorers(make_config(scorers=["critic"], sizes=QUICK), folder)


def test_what_cannot_be_measured_is_named(tmp_path, folder):
    with pytest.raises(ResultsError, match=r"unknown scorer 'critics'; .*did you mean 'critic'"):
        make_config(scorers=["critics"])
    with pytest.raises(ResultsError, match="job folder of a learning benchmark"):
        make_config(tmp_path)
    job = folder / "learning" / "clone-seed0"
    assert make_config(job / "model").policy == make_config(job).policy == str(job)
    (tmp_path / "scorers.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ResultsError, match="version"):
        load(tmp_path / "scorers.json")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_terminal_shows_every_scorer_and_cuts_nothing(study, width):
    console = Console(file=io.StringIO(), width=width)
    print_study(study, console)
    text = console.file.getvalue()
    assert all(name in text for name in SCORERS)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
