"""How scores become credit, what they are held against, and the study of scorers from end to end, small."""

import dataclasses

import numpy as np
import pytest

from agentgym.outside.files import OtherConfigurationError
from benchmarks.json_files import ResultsError
from benchmarks.truth.measures import MEASURES
from benchmarks.truth.scorers import (
    QUICK,
    SCORERS,
    STUDY,
    FixedPolicy,
    HeldOut,
    fewer_steps,
    learn,
    make_config,
    outcome_targets,
    step_scores,
)
from tests.benchmarks.command import run
from tests.distances import distance_changes, state_distances
from tests.playing import filled
from tests.refusals import refuses
from tests.wrappers.credit.small_tables import episodes

TABLE = episodes("s -right-> u -up-> goal +", "s -left-> pit")


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
    played = filled(
        group=[0, 0, 0, 1, 1, 1], trajectory=[0, 0, 1, 2, 2, 3], state=[start, nearer, start] * 2,
        action=["right", "right", "left"] * 2, next_state=[nearer, solved, away] * 2, won=[1, 1, 0] * 2,
    )  # fmt: skip
    held_out = HeldOut.of(played, distance_changes(played, state_distances(played)), 2, resamples=20, seed=0)
    assert held_out.truth.tolist() == [1, 1, -1] * 2
    assert held_out.measures(held_out.truth)["within"].mean == 1
    assert held_out.measures(-held_out.truth)["within"].mean == -1
    assert held_out.measures(-held_out.truth)["sign_all"].mean == 0


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


def test_the_same_command_continues_and_changes_nothing_but_times(folder, study):
    kept = (folder / "fewer-steps.json").read_text("utf-8")
    (folder / "critic.json").unlink()
    result = run("study", "scorers", "--quick", "--out", folder)
    assert f"{len(SCORERS) - 1} of {len(SCORERS)} scorers are finished" in result
    assert "critic: 2 of 2 iterations" in result
    assert "cloning" not in result
    assert (folder / "fewer-steps.json").read_text("utf-8") == kept
    times = dict.fromkeys(("score_seconds", "update_seconds", "policy_seconds"), 0.0)
    before, after = (
        [dataclasses.replace(result, **times) for result in one.results]
        for one in (study, STUDY.load(folder / "scorers.json"))
    )
    assert before == after


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
