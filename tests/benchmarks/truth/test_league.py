"""The league, the ranking, the study of scorers, and informed teachers."""

import dataclasses
import os
import re
from pathlib import Path

import numpy as np
import pytest

from agentgym.outside.files import OtherConfigurationError
from agentgym.trajectory import Reply
from baselines.environments.registry import settings_of
from baselines.runs.config import Config
from baselines.scorers.privileged import belief_gains, beliefs, turn_gaps
from benchmarks.json_files import ResultsError
from benchmarks.report.markdown import replaced
from benchmarks.run import STUDIES
from benchmarks.study import Study
from benchmarks.training import informed
from benchmarks.training.head_to_head_page import section as section_of
from benchmarks.training.learning import cloned_for
from benchmarks.training.records import Point, Record, Setting, load_folders
from benchmarks.truth.credits import names_of
from benchmarks.truth.episodes import ENVIRONMENTS, QUICK, make_config
from benchmarks.truth.league import LEAGUE, configure_ranking, measure
from benchmarks.truth.measures import MEASURES
from benchmarks.truth.privileged import STUDY as PRIVILEGED
from benchmarks.truth.privileged import configure, section
from benchmarks.truth.scorers import QUICK as QUICK_SCORERS
from benchmarks.truth.scorers import SCORERS, FixedPolicy, HeldOut, fewer_steps, learn, outcome_targets, step_scores
from benchmarks.truth.scorers import STUDY as SCORING
from benchmarks.truth.scorers import make_config as scorers_config
from tests.benchmarks.command import run
from tests.cases import cases
from tests.distances import distance_changes, state_distances
from tests.playing import filled
from tests.refusals import refuses
from tests.wrappers.credit.small_tables import episodes


@pytest.fixture(scope="module")
def league(tmp_path_factory):
    place = tmp_path_factory.mktemp("league") / "study"
    run("study", "league", "--quick", "--out", place)
    return place


def test_a_player_that_never_wins_has_no_mean(league):
    """What the credits of the quick league come to is in the golden studies/league."""
    measured = LEAGUE.load(league / "league.json")
    assert [standing.env for standing in measured.standings] == list(ENVIRONMENTS)
    lost = dataclasses.replace(measured.standings[0], success=0.0)
    assert (measured.standings[0].counts, lost.counts) == (True, False)
    assert dataclasses.replace(measured, standings=[lost]).mean("sokoban", "graphgpo step", "within", 4) is None


def test_both_truths_of_an_exact_environment(tmp_path):
    config = make_config(QUICK, envs=["sokoban"], groups=[4], check=True, seed=3, credits=names_of("methods"))
    standing = LEAGUE.play(config, tmp_path / "check").standings[0]
    assert [held.truth for held in standing.held] == ["distance", "value", "undiscounted value"]
    for held in standing.held:
        assert held.measure("graphgpo step", "within", 4).mean > 0.2
        assert (held.ceilings[0] is None) is (held.truth == "distance")
    assert standing.truth_cost > 1


def test_a_cloned_policy_plays_in_its_environment(finished_run):
    job = finished_run / "clone-seed0"
    tiny = dataclasses.replace(QUICK, tasks=2, continuations=2)
    config = make_config(
        tiny, envs=["sokoban", "webshop"], models=[job / "model"], check=True, credits=["gigpo step", "empg", "aem"]
    )
    assert config.models == {"sokoban": {"clone-seed0": str(job)}, "webshop": {}}
    standing = measure(config, "sokoban", "clone-seed0")
    assert [held.truth for held in standing.held] == ["distance", "value", "undiscounted value"]
    assert standing.steps > 0
    assert {"empg", "aem"} <= {score.credit for score in standing.main.scores}
    assert standing.main.measure("empg", "coverage", 4).mean > 0
    assert measure(config, "sokoban", "expert 50").main.score("empg", 4) is None


@cases(
    "options, words",
    (["--env", "sokobann"], "unknown environment 'sokobann'.*sokoban"),
    (["--env", "my_module:Env-v0"], "this study plays environments with an expert"),
    (["--credits", "my_module:credit"], "a function of your own is compared"),
    (["--player", "expert 60"], "unknown player 'expert 60'.*did you mean 'expert"),
    (["--groups", "4", "--groups", "6"], "each a multiple of the smaller ones"),
    (["--policy", "/nowhere/clone-seed0"], "expected a job folder"),
    (["--split", "tests"], "unknown split 'tests'"),
    (["--credits", "new"], "unknown set of credits 'new'"),
    (["--seed", "1"], "another configuration"),
)
def test_what_is_asked_wrongly_is_said(league, options, words):
    assert re.search(words, run("study", "league", "--quick", "--out", league, *options, status=2), re.DOTALL)


def test_the_seed_decides_and_the_methods_of_2026_rank_as_their_values_do():
    one, again, other = (measure(configure_ranking(groups=2, seed=seed), "sokoban", "expert 50") for seed in (0, 0, 1))
    assert one.held == again.held
    assert one.held != other.held
    config = configure_ranking(groups=24, player=["expert 50"], credits="2026")
    assert "hgpo step" not in config.credits
    held = measure(config, "sokoban", "expert 50").main
    rank = {name: held.measure(name, "within", 8).mean for name in config.credits}
    # Distances, then Bellman's values, then means of returns; and gains summed along the trajectory lose most of it.
    assert rank["graphgpo step"] > rank["bellman step"] > rank["g2po step"] > rank["gated_bepo step"]
    # One method up to what it is standardised over.
    assert rank["g2po step"] == pytest.approx(rank["pgpo step"], abs=1e-9)
    assert rank["gagpo step, lambda 0"] == pytest.approx(rank["g2po step"], abs=0.02)
    assert rank["oracle"] == pytest.approx(1)


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
    return SCORING.load(folder / "scorers.json")


@pytest.fixture(scope="module")
def fixed(folder):
    return FixedPolicy(folder / "learning" / "clone-seed0", QUICK_SCORERS, 0)


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


def test_the_same_command_measures_what_is_missing_with_the_same_clone(folder, study):
    kept = (folder / "fewer-steps.json").read_text("utf-8")
    (folder / "critic.json").unlink()
    result = run("study", "scorers", "--quick", "--out", folder)
    assert f"{len(SCORERS) - 1} of {len(SCORERS)} scorers are finished" in result
    assert "critic: 2 of 2 iterations" in result
    assert "cloning" not in result
    assert (folder / "fewer-steps.json").read_text("utf-8") == kept


def test_batches_are_levels_that_were_not_cloned_and_the_policy_stands_still(fixed, held_out):
    tables = [fixed.batch(i) for i in (0, 1)]
    cloned = fixed.learned.clone_tasks
    for i, table in enumerate(tables):
        assert (list(table.groups), table.n_trajectories) == ([f"train/{cloned + 4 * i + k}" for k in range(4)], 16)
    again = FixedPolicy(fixed._job, QUICK_SCORERS, 0).batch(1)  # whatever was played before
    assert np.array_equal(again.action, tables[1].action)
    assert fixed.batch(1) is tables[1]
    before = {name: value.clone() for name, value in fixed.policy.model.state_dict().items()}
    learn("critic", SCORERS["critic"], fixed, held_out, dataclasses.replace(QUICK_SCORERS, iterations=[1]), 0)
    for name, value in fixed.policy.model.state_dict().items():
        assert bool((value == before[name]).all()), name


def test_another_folder_and_what_can_be_measured_are_asked_for(folder, tmp_path):
    with pytest.raises(OtherConfigurationError, match="scorers: there"):
        SCORING.play(scorers_config(scorers=["critic"], sizes=QUICK_SCORERS), folder)
    refuses(ResultsError, r"unknown scorer 'critics'; .*did you mean 'critic'", scorers_config, scorers=["critics"])
    refuses(ResultsError, "job folder of a learning benchmark", scorers_config, tmp_path)
    job = folder / "learning" / "clone-seed0"
    assert scorers_config(job / "model").policy == scorers_config(job).policy == str(job)
    (tmp_path / "scorers.json").write_text("{}", encoding="utf-8")
    refuses(ResultsError, "config: Field required; delete it", lambda: SCORING.load(tmp_path / "scorers.json"))


RESULTS = Path(__file__).parents[3] / "docs" / "results"
#: Published rankings before training, in the order of the table.
RANKED = ["corridor-n12", "sokoban", "alfworld", "corridor-n6-smollm2", "sokoban-smollm2", "alfworld-smollm2"]

REPLIES = filled(replies=[Reply("x", (1,), ids, (0.0,) * len(ids)) for ids in ((1,), (1, 2), (1,))])


def test_gaps_and_beliefs_by_hand() -> None:
    scores = np.array([[1.0, 0.0], [-1.0, 2.0], [np.nan, 0.0]])
    np.testing.assert_array_equal(turn_gaps(REPLIES, scores), [1.0, 0.5, np.nan])
    assert beliefs(np.array([np.log(3.0)])) == pytest.approx([0.5, 0.75])
    drift = belief_gains(REPLIES, np.array([-5.0, -5.0, -5.0]))  # the gaps' own mean says nothing
    np.testing.assert_allclose(drift, 0.0, atol=1e-12)
    gains = belief_gains(REPLIES, np.array([1.0, -1.0, np.nan]))
    assert gains[0] > 0 > gains[1]
    assert np.isnan(gains[2])
    assert STUDIES["privileged"] == "benchmarks.truth.privileged:STUDY"
    config = configure(quick=True, context=["expert", "sibling"], option=["length=3"], read=["expert=0.5"], seeds=2)
    assert config.clone_contexts == {"expert": 0.5}
    assert PRIVILEGED.parts(config) == [f"{name}, clone {seed}" for seed in (0, 1) for name in ("expert", "sibling")]


def test_a_short_clone_has_the_tiny_policys_tasks_and_prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[Config]()
    monkeypatch.setattr(Study, "do", lambda study, config, *others: seen.append(config))
    for name, short in (("long", 0), ("short", 30)):
        how = {"quick": False, "model": "smollm2", "contexts": {"expert": 0.5}, "short": short}
        cloned_for(settings_of("alfworld"), tmp_path / name, 1, **how)
    for config, tiny in zip(seen, (False, True), strict=True):
        assert config.setup.clone_contexts == {"expert": 0.5}
        assert (config.model, config.instructions) == ("smollm2", not tiny)
        assert config.history == (8 if tiny else 2)
        assert ("max_episode_steps" in config.setup.options) == tiny
        assert config.setup.policy == {}
        assert (config.clone_tasks, config.clone_epochs, config.eval_tasks) == ((30, 1, 8) if tiny else (6000, 2, 256))


def test_the_pages_have_what_the_records_say() -> None:
    ranks = [PRIVILEGED.load(RESULTS / "privileged-ranks" / f"{name}.json") for name in RANKED]
    assert [each.config.name for each in ranks] == RANKED
    sections = {"privileged-ranks": section(ranks)}
    for place, trained in enumerate(load_folders(RESULTS / "privileged")):
        sections[trained.config.name] = section_of(trained, whole=not place)  # said once
    shown = set()
    for page in (RESULTS / "horizon.md", RESULTS / "head-to-head-tables.md"):
        right = page.read_text(encoding="utf-8")
        for name, text in sections.items():
            if f"<!-- {name} -->" in right:
                right = replaced(right, name, text)
                shown.add(name)
        if os.environ.get("WRITE_DOCS"):
            page.write_text(right, encoding="utf-8")
        assert page.read_text(encoding="utf-8") == right
    assert shown == {*sections}


def test_a_context_is_held_against_its_wrong_twin_seed_by_seed() -> None:
    study = next(each for each in load_folders(RESULTS / "privileged") if each.config.name.startswith("corridor"))
    labels = [informed.setting("sdpo", "expert", control) for control in ("right", "wrong")]

    def run(label: str, seed: int, success: float) -> Record:
        curve = [Point(0, 0.0, 0.0, 0.0), Point(study.config.token_budget, 1.0, success, success)]
        test = dict.fromkeys(("greedy", "sampled"), "1" * 128)
        return Record("final", label, seed, Setting.stated(label), 1, 10, 1.0, 1.0, {}, curve, test, teacher_replies=20)

    ends = {0: (0.8, 0.2), 1: (1.0, 0.2), 2: (0.9, 0.1), 3: (0.9, 0.3)}
    records = [run(label, seed, pair[at]) for at, label in enumerate(labels) for seed, pair in ends.items()]
    study = dataclasses.replace(study, records=records)
    found = informed.difference(study, *(label.split(" ")[0] for label in labels))
    assert found[0].mean == pytest.approx((0.6 + 0.8 + 0.8 + 0.6) / 4 / 2)  # a straight line from 0: half of its end
    assert informed.verdicts(study) == {("sdpo", "expert"): "settled"}
    assert informed.verdicts(dataclasses.replace(study, records=records[:3] + records[4:7])) == {
        ("sdpo", "expert"): "open"
    }
    assert "| sdpo | expert | 4 | 45.0 | 100.0 | - | - | +35.0 [" in section_of(study)
