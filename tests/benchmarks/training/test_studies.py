"""The studies from end to end, tiny; tables from records made by hand; pages that hold what their records say."""

import dataclasses
import functools
from pathlib import Path

import pytest

from baselines.environments.registry import settings_of
from benchmarks.json_files import ResultsError
from benchmarks.machine import Machine
from benchmarks.report.markdown import replaced
from benchmarks.training.head_to_head import plan_study
from benchmarks.training.records import Point, Record, Setting, Trainings, check, save
from benchmarks.training.studies import STUDIES, Arm, PaperStudy, load, plan_of, table
from tests.benchmarks import command
from tests.cases import cases
from tests.refusals import refuses
from website.method_results import with_studies

DOCS = Path(__file__).parents[3] / "docs"
RECORDS = DOCS / "studies" / "records"


run = functools.partial(command.run, "study")


def _planned(name):
    """What a study trains with `--quick`, and runs by method as if they had been made."""
    plan = plan_of(STUDIES[name], "tiny", [0], quick=True)
    won = "1" * plan.config.learning.eval_tasks
    shares = {"environment": 0.25, "generation": 0.5, "credit": 0.05, "update": 0.2}
    return plan, {
        method: _record(method, won, won, shares=shares if method != "clone" else None)
        for method in ("clone", *plan.methods)
    }


def _hold(place, plan, records):
    place.mkdir(parents=True)
    machine = Machine("a processor", 1, 1.0, "a system", "3", {})
    save(Trainings(plan.config, records, version=1, machine=machine), place / f"{plan.config.name}.json")


@pytest.mark.slow
def test_a_study_trains_what_is_missing(tmp_path):
    plan, made = _planned("distance")
    first, second = plan.methods
    _hold(tmp_path / "trained", plan, [made["clone"], made[first]])
    result = run("distance", "--quick", "--out", tmp_path)
    # The clone's weights are not there: it is made again, and a run begins with it.
    assert "1 of 3 runs are finished" in result
    (trained,) = load(tmp_path / "distance.json").trained
    found = {record.method: record for record in trained.records}
    assert (set(found), found[first]) == ({"clone", first, second}, made[first])


def test_studies_share_their_runs(tmp_path):
    (plan, made), (other, others) = _planned("normalisation"), _planned("distance")
    assert plan.config == other.config
    _hold(tmp_path / "trained", plan, list({**made, **others}.values()))
    assert "3 of 3 runs are finished" in run("distance", "--quick", "--out", tmp_path)
    (trained,) = load(tmp_path / "distance.json").trained
    # Of the other study's runs those that this one asks for.
    assert [record.method for record in trained.records] == list(others)


def test_a_page_is_rebuilt_from_the_file_alone(tmp_path):
    page = tmp_path / "docs" / "studies.md"
    page.parent.mkdir(parents=True)
    page.write_text("# Title\n\n<!-- distance -->\n<!-- end of distance -->\n\nWords that stay.\n", encoding="utf-8")
    run("distance", "--from", RECORDS, "--page", page, "--out", tmp_path / "out")
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# Title\n")
    assert text.endswith("Words that stay.\n")
    assert "(images/study_distance.png)" in text
    assert (tmp_path / "docs" / "images" / "study_distance.png").stat().st_size > 1000
    assert "rewardflow" in (tmp_path / "out" / "distance" / "report.md").read_text(encoding="utf-8")


@cases(
    "options, words",
    (["distances"], "No such command 'distances'"),
    (["distance", "--from", "nowhere"], "no such file"),
    (["distance", "--from", "nowhere", "--quick"], "nothing is trained"),
    (["distance", "--model", "no/such/model"], "no Hugging Face model"),
)
def test_wrong_questions_are_answered_in_a_sentence(options, words, tmp_path):
    assert words in run(*options, *([] if "--from" in options else ["--out", tmp_path]), status=2)


ARMS = (Arm("grpo", "grpo", "group"), Arm("grpo:std=none", "grpo", "none", "grpo"))


def _trainings(records, *, beside=()):
    plan = plan_study(settings_of("sokoban"), "tiny", [], [0], settings=0, quick=True, beside=beside)
    config = dataclasses.replace(plan.config, learning=dataclasses.replace(plan.config.learning, eval_tasks=4))
    return Trainings(config, records, version=1, machine=Machine("a processor", 1, 1.0, "a system", "3", {}))


def _record(method, greedy, sampled="1100", beside=None, shares=None):
    clone = method == "clone"
    setting = None if clone else Setting.stated(method)
    curve = [] if clone else [Point(0, 0.0, 0.0, 0.0)]
    return Record("clone" if clone else "final", method, 0, setting, 10, 100, 20.0, 20.0, shares or {}, curve,
                  {"greedy": greedy, "sampled": sampled}, beside or {})  # fmt: skip


def test_outcomes_of_records_made_by_hand():
    trainings = _trainings([_record("clone", "0000"), _record("grpo", "1100"), _record("grpo:std=none", "1110")])
    check(trainings)
    clone, scaled, plain = table(PaperStudy("", "", ARMS, "deviation"), trainings).texts
    # Sampled and greedy success, then less the clone's, then less the base's; with one seed paired over four tasks.
    assert [cell.split(" ")[0] for cell in clone] == ["clone", "-", "1", "50.0", "0.0", "-", "-", "-", "-"]
    # Two of four tasks; none of the clone's; no base of its own.
    assert [cell.split(" ")[0] for cell in scaled[1:]] == ["group", "1", "50.0", "50.0", "+0.0", "+50.0", "-", "-"]
    # Three of four: one more than with the deviation.
    assert [cell.split(" ")[0] for cell in plain[1:]] == ["none", "1", "50.0", "75.0", "+0.0", "+75.0", "+0.0", "+25.0"]


def test_a_run_is_trained_as_its_name_says():
    records = [_record("clone", "0000"), dataclasses.replace(_record("grpo", "1100"), setting=Setting("rloo", {}))]
    refuses(ResultsError, "its name says", lambda: check(_trainings(records)))
    refuses(ValueError, "did you mean 'group_size'", Setting.stated, "grpo group_sise=4")
    refuses(ValueError, "name=number", Setting.stated, "grpo group_size=many")


@pytest.mark.parametrize("name", list(STUDIES))
def test_every_arm_is_a_setting_and_its_base_is_one_too(name):
    plan = plan_of(STUDIES[name], "tiny", [0])
    assert len(set(plan.methods)) == len(plan.methods)
    assert {arm.base for arm in STUDIES[name].arms} <= {"", *plan.methods}
    # What a group size changes is the size alone, not the number of episodes.
    for method in plan.methods:
        training = plan.settings(method)[0].training
        if "group_size" in training:
            assert training["groups"] * training["group_size"] == 128


@pytest.mark.parametrize("name", list(STUDIES))
def test_a_page_holds_what_its_records_say(name):
    found = load(RECORDS / f"{name}.json")
    text = (DOCS / "studies.md").read_text(encoding="utf-8")
    assert found.study == name
    picture = DOCS / "images" / f"study_{name.replace('-', '_')}.png"
    assert picture.stat().st_size > 1000
    assert replaced(text, name, f"![{STUDIES[name].question}](images/{picture.name})\n") == text
    texts = table(STUDIES[name], found.trained[0]).texts
    shown = with_studies(text, DOCS).split(f"<!-- {name} -->")[1].split(picture.name)[0]
    assert f"{texts[0][0]} | {texts[0][1]}" in shown


@pytest.mark.parametrize("name", list(STUDIES))
def test_further_seeds_join_what_is_published(name):
    published = [trained.config for trained in load(RECORDS / f"{name}.json").trained]
    assert published
    assert published == [plan_of(STUDIES[name], "tiny", [0]).config]
