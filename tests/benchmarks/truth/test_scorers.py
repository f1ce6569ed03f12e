"""How scores become credit, what they are held against, and the study of scorers from end to end, small."""

import dataclasses
import io
import json
from types import SimpleNamespace

import numpy as np
import pytest

from tests.benchmarks.command import run

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("typer")
pytest.importorskip("rich")

from rich.console import Console

from agentgym.outside.files import OtherConfigurationError
from agentgym.trajectory import StepTable
from benchmarks.json_files import ResultsError
from benchmarks.report.page import print_page
from benchmarks.truth.measures import MEASURES
from benchmarks.truth.scorers import (
    QUICK,
    SCORERS,
    STUDY,
    FixedPolicy,
    HeldOut,
    Scored,
    fewer_steps,
    learn,
    make_config,
    outcome_targets,
    step_scores,
)
from tests.distances import distance_changes, state_distances
from tests.refusals import refuses

TABLE = StepTable.from_arrays(
    group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"], action=["right", "up", "left"],
    next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0],
)  # fmt: skip


def test_scores_by_hand() -> None:
    assert step_scores(np.array([1.0, np.nan])) == pytest.approx([1.0, np.nan], nan_ok=True)
    assert step_scores(np.array([[1.0, 2.0, 0.0], [4.0, -1.0, 1.0]])).tolist() == [3.0, 4.0]
    assert outcome_targets(TABLE) == pytest.approx([0.95, 1, 0])
    values = np.array([0.25, 0.75, 0.25])
    for name, scored in SCORERS.items():
        found = scored.credit(TABLE, values)
        # Into "u" .5, then the success, which is worth 1, or the end of the lost one, which is worth 0.
        expected = [0.5, 0.25, -0.25] if scored.kind == "state value" else values
        if name == "hindsight":  # scores are ratios
            expected = [-2 * np.log(2), np.log(0.75), -2 * np.log(2)]
        assert found == pytest.approx(expected), name
    assert fewer_steps(TABLE).tolist() == [-1, -1, -1]
    assert SCORERS["fewer steps"].settings is None
    # A corridor: right pushes the box nearer, left steps away from it; two episodes of two levels.
    start, nearer, away = (f"#######\n#{row}#\n#######" for row in ("_PX_O", "__PXO", "P_X_O"))
    solved = "#######\n#___P√#\n####### [success]"
    played = StepTable.from_arrays(
        group=[0, 0, 0, 1, 1, 1], trajectory=[0, 0, 1, 2, 2, 3], t=[0, 1, 0, 0, 1, 0],
        state=[start, nearer, start] * 2, action=["right", "right", "left"] * 2,
        next_state=[nearer, solved, away] * 2, reward=[0.0] * 6, won=[1, 1, 0] * 2,
    )  # fmt: skip
    held_out = HeldOut.of(played, distance_changes(played, state_distances(played)), 2, resamples=20, seed=0)
    assert held_out.truth.tolist() == [1, 1, -1] * 2
    assert held_out.measures(held_out.truth)["within"].mean == 1
    assert held_out.measures(-held_out.truth)["within"].mean == -1
    assert held_out.measures(-held_out.truth)["sign_all"].mean == 0


@pytest.mark.parametrize("name", [name for name, scored in SCORERS.items() if scored.settings])
def test_a_scorer_says_nothing_before_it_has_learned_and_something_after(name):
    from tests.baselines.scorers.test_critic import played, small_policy

    scored, table = SCORERS[name], played()
    scorer = scored.settings.make(small_policy())
    before = scorer.scores(table)
    silent = np.log(before) if name == "hindsight" else step_scores(before)
    assert np.abs(silent).max() < 1e-5
    targets = None if scored.targets is None else scored.targets(table)
    row = scorer.update(table, before, targets, np.random.default_rng(0), 1e-2)
    assert any(key.endswith("_loss") for key in row)
    assert np.abs(step_scores(scorer.scores(table)) - step_scores(before)).max() > 1e-4


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("scorers") / "study"
    run("study", "scorers", "--quick", "--out", place)
    return place


@pytest.fixture
def study(folder):
    return STUDY.load(folder / "scorers.json")


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
    result = run("study", "scorers", "--quick", "--out", folder)
    assert f"{len(SCORERS) - 1} of {len(SCORERS)} scorers are finished" in result
    assert "critic: 2 of 2 iterations" in result
    assert "cloning" not in result
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

    scored = Scored("advantage", SimpleNamespace(make=make), lambda table: np.full(len(table), 7.0))
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


def test_batches_are_levels_that_were_not_cloned_and_the_policy_stands_still(fixed, held_out):
    tables = [fixed.batch(i) for i in (0, 1)]
    cloned = fixed.learned.clone_tasks
    for i, table in enumerate(tables):
        assert (list(table.groups), table.n_trajectories) == ([f"train/{cloned + 4 * i + k}" for k in range(4)], 16)
    again = FixedPolicy(fixed._job, QUICK, 0).batch(1)  # whatever was played before
    assert np.array_equal(again.action, tables[1].action)
    assert fixed.batch(1) is tables[1]
    before = {name: value.clone() for name, value in fixed.policy.model.state_dict().items()}
    learn("critic", SCORERS["critic"], fixed, held_out, dataclasses.replace(QUICK, iterations=[1]), 0)
    for name, value in fixed.policy.model.state_dict().items():
        assert bool((value == before[name]).all()), name


def test_another_folder_and_what_can_be_measured_are_asked_for(folder, tmp_path):
    with pytest.raises(OtherConfigurationError, match="scorers: there"):
        STUDY.play(make_config(scorers=["critic"], sizes=QUICK), folder)
    refuses(ResultsError, r"unknown scorer 'critics'; .*did you mean 'critic'", make_config, scorers=["critics"])
    refuses(ResultsError, "job folder of a learning benchmark", make_config, tmp_path)
    job = folder / "learning" / "clone-seed0"
    assert make_config(job / "model").policy == make_config(job).policy == str(job)
    (tmp_path / "scorers.json").write_text("{}", encoding="utf-8")
    refuses(ResultsError, "config: Field required; delete it", lambda: STUDY.load(tmp_path / "scorers.json"))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_terminal_shows_every_scorer_and_cuts_nothing(study, width):
    console = Console(file=io.StringIO(), width=width)
    print_page(STUDY.shown(study), console)
    text = console.file.getvalue()
    assert all(name in text for name in SCORERS)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
