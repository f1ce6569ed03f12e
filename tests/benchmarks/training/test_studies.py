"""Studies of training: papers' questions, evidence, shaping; tables from records made by hand and published pages."""

import dataclasses
import functools
import io
import math
import re
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import typer
from rich.console import Console

from baselines.environments.registry import settings_of
from baselines.runs.dose import Dose, decisions
from baselines.sb3.shaping import Point as ShapingPoint
from baselines.sb3.shaping import SB3Config
from baselines.sb3.sokoban import Levels
from benchmarks.json_files import ResultsError
from benchmarks.machine import Machine, describe_machine
from benchmarks.report.assemble import write_picture
from benchmarks.report.markdown import replaced
from benchmarks.report.page import signed, write_page
from benchmarks.statistics import Interval, paired_t
from benchmarks.training import evidence
from benchmarks.training.head_to_head import plan_study, run_until_settled
from benchmarks.training.head_to_head_page import cost_cells
from benchmarks.training.records import Point, Record, Setting, Trainings, check, save
from benchmarks.training.shaping import COMPARED, STUDY, ShapingConfig, ShapingResults, ShapingRun, compared, curves
from benchmarks.training.studies import STUDIES, Arm, PaperStudy, load, plan_of, table
from policies.scripted import RandomPolicy
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


PLAN = plan_study(
    settings_of("corridor"), "tiny", ["grpo", "oracle"], [0], settings=1, tokens=100, options={"length": 12}
)


def record(method, seed, won, *sampled):
    """A run that wins so many of 128 test tasks, validated at equal distances."""
    won = "1" * won + "0" * (128 - won)
    curve = [Point(round(100 * i / (len(sampled) - 1)), 0.0, value, value) for i, value in enumerate(sampled)]
    stage = "clone" if method == "clone" else "final"
    setting = None if method == "clone" else Setting.stated(f"{method} learning_rate=0.0008")
    return Record(stage, method, seed, setting, 1, 100, 1.0, 3600.0, {}, curve, {"greedy": won, "sampled": won})


def evidence_of(seeds, gap=32):
    """GRPO wins half of the tasks, the oracle `gap` more, one more or less by seed."""
    records = []
    for seed in range(seeds):
        records += [
            record("clone", seed, 16, 0.1, 0.1), record("grpo", seed, 64 if seed else 7, 0.1, 0.5, 0.5),
            record("oracle", seed, 64 + gap + seed % 2, 0.1, 0.7, 0.7 + gap / 320 + seed % 3 / 1000),
        ]  # fmt: skip
    chosen = [dataclasses.replace(record(method, 100, 0, 0.1, 0.5), stage="search", test={}) for method in PLAN.methods]
    config = dataclasses.replace(PLAN.config, settings=1)
    return Trainings(config, [*chosen, *records], version=1, machine=describe_machine())


def one_sided(seeds):
    """A study in which the methods differ by chance alone."""
    made = evidence_of(seeds, gap=0)
    records = []
    for each in made.records:
        if each.method == "oracle" and each.stage == "final":
            records.append(record("oracle", each.seed, 64, 0.1, 0.5 + 0.1 * (-1) ** each.seed, 0.5))
        elif each.stage != "search":
            records.append(dataclasses.replace(each, test=record("grpo", 0, 64, 0, 0).test))
    searched = [each for each in made.records if each.stage == "search"]
    return dataclasses.replace(made, records=[*searched, *records])


def test_comparisons_areas_tokens_falls_and_the_report_by_hand():
    (oracle,) = evidence.compare(evidence_of(4))
    # Seed 0: 96 - 7; seeds 1 to 3: 97 - 64, 96 - 64, 97 - 64; of 128.
    expected, p = paired_t([89 / 128, 33 / 128, 32 / 128, 33 / 128])
    assert oracle.difference["end"] == expected
    # Holm: the smaller of two p values is doubled, the other one kept.
    assert oracle.difference["area"].mean == pytest.approx(0.175, abs=1e-3)  # (.2 / 2 + (.2 + .3) / 2) / 2
    assert oracle.p["end"] == pytest.approx(p)
    assert oracle.verdict == "settled"  # the area differs nearly alike in all seeds
    run = record("grpo", 0, 64, 0.0, 0.5, 1.0)
    assert evidence.area(run, 100) == 0.5
    assert (evidence.tokens_to(run), evidence.tokens_to(record("grpo", 0, 64, 0.0, 0.5))) == (90.0, math.inf)
    assert evidence.end(run) == 0.5
    cells = {row[0]: row for row in evidence.rows(evidence_of(4))}
    assert cells["grpo"][5] == "1"  # 7 of 128 after 16
    assert cells["grpo"][2] == "1"  # tried with two seeds
    assert (cells["oracle"][5], cells["oracle"][-1], cells["grpo"][4]) == ("0", "settled", "not reached (0)")
    lines = evidence.reported(evidence_of(4))
    assert len(lines) == 14
    assert all(lines.values())
    assert lines["seeds"] == "0, 1, 2, 3"
    assert "length" in lines["task set"]


def test_looks_go_on_until_settled_or_out_of_time():
    looked = []

    def run(plan):
        looked.append(len(plan.seeds))
        return evidence_of(len(plan.seeds), gap=0 if len(plan.seeds) < 16 else 32)

    console = Console(file=io.StringIO())
    run_until_settled(PLAN, run, 100.0, console)
    assert looked == [4]  # the area differs nearly alike in all seeds
    looked.clear()
    alike = dataclasses.replace(PLAN, seeds=[3])
    run_until_settled(alike, lambda plan: looked.append(plan.seeds) or one_sided(len(plan.seeds)), 30.0, console)
    assert [len(seeds) for seeds in looked] == [4, 8, 16]  # an hour each: 3 * 4 + 2, 3 * 8 + 2, 3 * 16 + 2
    assert looked[0] == [3, 4, 5, 6]
    with pytest.raises(typer.BadParameter, match="expected grpo among the methods"):
        run_until_settled(dataclasses.replace(PLAN, methods=["oracle"]), run, 1.0, console)


def test_the_dose_and_the_decisions_of_a_run(tmp_path):
    trainer = SimpleNamespace(advantages=np.array([1.0, -1.0, np.nan, 0.0]))
    counted = Dose(tmp_path)
    counted(trainer, None, {"iteration": 0})
    table = object()
    counted(trainer, table, {"iteration": 1, "updates": 2.0})
    counted(trainer, table, {"iteration": 2, "updates": 9.0})
    trainer.advantages = np.array([[3.0, 1.0, np.nan], [0.0, 0.0, 0.0]])  # of reply tokens: means 2 and 0
    counted(trainer, table, {"iteration": 2, "updates": 1.0})  # after Ctrl-C, played again
    counted(trainer, table, {"iteration": 3, "updates": 5.0})  # past the end
    assert counted.sums(2) == {"samples": 3.0, "updates": 3.0, "credit": 4.0, "silent": 0.5}
    before = record("grpo", 0, 64, 0.0, 0.5)
    doses = [{"samples": 1200.0, "silent": 0.5}, {"samples": 1000.0}]
    runs = [dataclasses.replace(before, dose=dose, shares={"update": 0.25}) for dose in doses]
    assert cost_cells(runs)[6:] == ["25", "-", "1,100", "-", "-", "-", "-"]
    assert cost_cells([before]) == ["1", "100", "3,600", *["-"] * 10]  # without shares and dose
    config = plan_study(settings_of("corridor"), "tiny", ["grpo"], [0], settings=1, options={"length": 2}).config
    assert decisions(config.learning, RandomPolicy(), 0) == 1.0
    config = plan_study(settings_of("sokoban"), "tiny", ["grpo"], [0], settings=1).config
    assert 0 < decisions(config.learning, RandomPolicy(), 0) < 1
    config = plan_study(settings_of("webshop"), "tiny", ["grpo"], [0], settings=1).config
    assert decisions(config.learning, RandomPolicy(), 0) is None


def test_the_horizon_has_a_picture_and_factors_references_of_their_own(tmp_path):
    longer = dataclasses.replace(
        PLAN.config, learning=dataclasses.replace(PLAN.config.learning, setup=dataclasses.replace(
            PLAN.config.learning.setup, options={"length": 24})))  # fmt: skip
    both = [evidence_of(4), dataclasses.replace(evidence_of(4), config=longer)]
    assert [evidence.length_of(each) for each in both] == [12, 24]
    other = dataclasses.replace(PLAN.config, learning=dataclasses.replace(PLAN.config.learning, model="smollm2"))
    pretrained = dataclasses.replace(both[0], config=other)
    assert (evidence.length_of(pretrained), evidence.length_of(pretrained, "smollm2")) == (0, 12)
    text = evidence.horizon(both)
    assert "| method | 12 rooms | 24 rooms |" in text
    assert "settled)" in text
    write_picture(evidence.draw_horizon(both), tmp_path / "horizon.png")
    assert (tmp_path / "horizon.png").stat().st_size > 10_000

    def at(factor, made):
        return [dataclasses.replace(each, factor=factor) for each in made.records]

    config = dataclasses.replace(PLAN.config, factors=True)
    records = [*at("wrong=back", evidence_of(4)), *at("slip=0.1", evidence_of(4, gap=0))]
    both = dataclasses.replace(evidence_of(4), config=config, records=records)
    assert evidence.length_of(both) == 0  # not a point of the horizon
    end, area = evidence.by_factor(both)
    assert (list(end.heads), end.caption) == (["factor", "grpo", "oracle"], "")
    back, slip = end.texts
    # Clones win 16 of 128. GRPO wins (7 + 3 x 64) / 512; the oracle 96 or 97, and 64 or 65.
    assert (back[:2], slip[:2]) == (["wrong=back (12.5)", "38.9"], ["slip=0.1 (12.5)", "38.9"])
    assert back[2].startswith("75.4 (+36.5 [")
    assert slip[2].startswith("50.4 (+11.5 [")
    assert (back[2][-10:], slip[2][-5:]) == ("indicated)", "open)")
    assert "settled" in area.texts[0][2]
    assert area.caption.startswith("Behind a factor: success of its clones, percent. Seeds: 4. Sampled play.")


def test_success_by_faults_counts_the_tasks_of_all_splits():
    row = settings_of("telecom")
    plan = plan_study(row, "tiny", ["grpo"], [0], settings=0, beside=["test_hard"], options={"faults": [1, 1]},
                      changes={"eval_tasks": 4})  # fmt: skip
    clone, grpo = record("clone", 0, 0, 0.1, 0.1), record("grpo", 0, 0, 0.1, 0.5)
    test, hard = (dict.fromkeys(("greedy", "sampled"), won) for won in ("1110", "0000"))
    clone = dataclasses.replace(clone, test=hard, beside={"test_hard": hard})
    grpo = dataclasses.replace(grpo, setting=Setting.stated("grpo"), test=test, beside={"test_hard": hard})
    made = Trainings(plan.config, [clone, grpo], version=1, machine=describe_machine())
    assert (made.config.name, evidence.most_faults(made), evidence.length_of(made)) == ("telecom-n1", 1, 0)
    (table,) = evidence.by_task(made)
    assert table.title == "telecom-n1, 1 seeds: success at the end by number of faults"
    assert table.heads[:2] == ["method", "1 (4 tasks)"]
    assert sum(int(head.split("(")[1].split()[0]) for head in table.heads[1:]) == 8
    assert [line[:2] for line in table.texts] == [["clone", "0.0"], ["grpo", "75.0"]]


def test_success_by_length_and_by_the_clones_success():
    """Eight tasks, two seeds, of which the clones solve the first in every mode and the second in one of four."""
    plan = plan_study(settings_of("sokoban"), "tiny", ["grpo"], [0], settings=0, changes={"eval_tasks": 8})
    played = {"clone": ("10000000", "11000000"), "grpo": ("11000000", "11000000"), "oracle": ("11111111", "11110000")}
    records = []
    for name, (first, second) in played.items():
        for seed, won in enumerate((first, second)):
            test = {"sampled": won, "greedy": "10000000" if name == "clone" else won}
            setting = None if name == "clone" else Setting.stated(name)
            records.append(dataclasses.replace(record(name, seed, 0, 0.1, 0.5), setting=setting, test=test))
    made = Trainings(plan.config, records, version=1, machine=describe_machine())
    envs = gym.make_vec("AgentRL/Sokoban-v0", 8, **plan.config.learning.setup.plenty)
    envs.reset(options=[{"split": "test", "index": index} for index in range(8)])
    lengths = np.array([env.distance() for env in envs.unwrapped.envs])
    steps, success = evidence.kinds_of_tasks(made).values()
    for label, mask in steps.items():
        low, high = (int(label.split(" to ")[at]) for at in (0, -1))
        assert mask.tolist() == ((lengths >= low) & (lengths <= high)).tolist()
    assert sum(mask.sum() for mask in steps.values()) == 8
    assert [mask.sum() for mask in success.values()] == [6, 1, 1]
    by_success = evidence.by_task(made)[1]
    # The oracle wins all and 2 of the 6 tasks that no clone solves: 66.7 %, 6 and 2 more than GRPO.
    assert by_success.texts[1] == ["grpo", "0.0", "100.0", "100.0"]
    assert by_success.texts[2][:2] == ["oracle", "66.7 (+66.7 [-356.9, +490.2])"]


TRAINING = SB3Config(levels=Levels(training=4, held_out=2), steps=2048, evaluate_every=1024)

#: Success on four training levels after 1024 and 2048 steps, by reward and seed.
SUCCESS = {
    "success": [("0000", "1000"), ("0000", "1100")],
    "shaped": [("1000", "1110"), ("1100", "1110")],
    "own": [("0000", "0000"), ("0000", "0001")],
}


def made_up() -> ShapingResults:
    runs = []
    for reward in COMPARED:
        for seed, rows in enumerate(SUCCESS[reward]):
            points = [ShapingPoint(0, 0.0, "0000", "00", 0, 0)]
            known = 3 if reward == "shaped" else 0
            points += [ShapingPoint(1024 * (i + 1), 2.0 * i, row, "01", known, 7 * known) for i, row in enumerate(rows)]
            runs.append(ShapingRun(reward, seed, points))
    config = ShapingConfig(list(COMPARED), [0, 1], TRAINING)
    return ShapingResults(config, runs, version=1, created="2030-01-01 00:00 UTC", machine=describe_machine())


def test_rows_curves_and_colours_by_hand() -> None:
    found = {reward: compared(made_up(), reward) for reward in COMPARED}
    # At the end: 3 of 8, 6 of 8, 1 of 8; held out one of two everywhere.
    assert {reward: (row[0].split(" ")[0], row[2].split(" ")[0]) for reward, row in found.items()} == {
        "success": ("37.5", "50.0"), "shaped": ("75.0", "50.0"), "own": ("12.5", "50.0"),
    }  # fmt: skip
    differences = {reward: [row[i][0].split(" ")[0] for i in (1, 3)] for reward, row in found.items()}
    assert differences == {"success": ["-", "-"], "shaped": ["+37.5", "+0.0"], "own": ["-25.0", "+0.0"]}
    assert {row[-1] for row in found.values()} == {"2"}
    training, held_out = (panel.lines for panel in curves(made_up()))
    shaped = training["1 for success, shaped"]
    assert {steps: band.mean for steps, band in shaped.items()} == {"0": 0.0, "1.024": 0.375, "2.048": 0.75}
    assert [band.mean for band in held_out["the environment's own"].values()] == [0.0, 0.5, 0.5]
    intervals = [Interval((low + high) / 2, low, high) for low, high in ((0.1, 0.6), (-0.1, 0.8), (-0.4, -0.2))]
    assert [signed(interval)[1] for interval in intervals] == ["up", "", "down"]
    assert signed(None) == ("-", "")


def test_results_survive_the_file_and_the_page_holds_table_and_picture(tmp_path) -> None:
    STUDY.save(made_up(), tmp_path / "shaping.json")
    found = STUDY.load(tmp_path / "shaping.json")
    assert found == made_up()
    picture, words, page = write_page(STUDY.shown(found), tmp_path)
    assert picture.read_bytes().startswith(b"\x89PNG")
    text = page.read_text("utf-8")
    assert text.count('<th scope="row">') == 3
    assert "data:image/png;base64," in text
    assert "+37.5" in text
    assert re.search(r"\| 1 for success, shaped \| 75.0 \[.*\] \| \+37.5 \[", words.read_text("utf-8"))
    assert "](shaping.png)" in words.read_text("utf-8")
    # Nothing is fetched from elsewhere.
    assert re.findall(r'(?:src|href)="(?!data:)', text) == []


@pytest.mark.long
def test_the_quick_study_runs_continues_and_repeats_itself(tmp_path) -> None:
    folder = tmp_path / "study"
    command.run("--quick", "--jobs", "2", "--out", str(folder))
    assert sorted(path.name for path in folder.iterdir()) == [
        ".lock", "config.json", "own-seed0.json", "own-seed1.json", "report.html", "report.md", "shaped-seed0.json",
        "shaped-seed1.json", "shaping.json", "shaping.png", "success-seed0.json", "success-seed1.json",
    ]  # fmt: skip
    found = STUDY.load(folder / "shaping.json")
    assert [one.points[-1].known > 0 for one in found.runs] == [one.reward == "shaped" for one in found.runs]
    # A training that is done again finds the same.
    (folder / "shaped-seed1.json").unlink()
    assert "5 of 6 trainings are finished" in command.run("--quick", "--out", str(folder))

    def outcomes(results: ShapingResults) -> list[list[tuple[str, str, int]]]:
        return [[(p.training, p.held_out, p.states) for p in one.points] for one in results.runs]

    assert outcomes(STUDY.load(folder / "shaping.json")) == outcomes(found)
