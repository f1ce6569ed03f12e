"""The head to head from end to end, tiny: search, final runs, records, table, picture, page, and going on."""

import dataclasses
import functools
import itertools
import json
import pickle
import re
from pathlib import Path

import pytest
import typer

from baselines.environments.registry import settings_of
from baselines.recipes import RECIPES
from benchmarks.json_files import ResultsError
from benchmarks.options import check_names, named_methods
from benchmarks.report.markdown import replaced
from benchmarks.study import part_name
from benchmarks.training.head_to_head import METHODS, Run, _unpack, head_to_head, plan_study, run_one
from benchmarks.training.head_to_head_page import section
from benchmarks.training.records import (
    RATES,
    SPACE,
    Point,
    Record,
    Setting,
    check,
    choose,
    draw,
    load,
    load_folders,
    merge,
    save,
    with_factor,
)
from tests.benchmarks import command
from tests.refusals import refuses

RESULTS = Path(__file__).parents[3] / "docs" / "results"
APP = typer.Typer()
APP.command()(head_to_head)


run = functools.partial(command.run, of=APP)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("head") / "to-head"
    assert "gigpo" in run("--quick", "--out", place)
    return place


@pytest.fixture
def study(folder):
    return load(folder / "sokoban.json")


def test_searches_and_final_runs(study) -> None:
    found = [(record.stage, record.method, record.seed) for record in study.records]
    assert found == [
        ("clone", "clone", 100), *[("search", "grpo", 100)] * 2, *[("search", "gigpo", 100)] * 2,
        ("clone", "clone", 0), ("final", "grpo", 0), ("final", "gigpo", 0),
    ]  # fmt: skip
    trained = [record for record in study.records if record.stage != "clone"]
    for record in trained:
        assert record.tokens >= study.config.token_budget
        assert (record.curve[0].tokens, record.curve[-1].tokens) == (0, record.tokens)
        # Two points of equal shares, each with the iteration that passes it.
        assert len(record.curve) <= 3
        assert [point.tokens for point in record.curve] == sorted(point.tokens for point in record.curve)
        assert 0 < record.processor_seconds == record.curve[-1].seconds
    searched = [record.curve[0] for record in study.records if record.stage == "search"]
    assert len({(point.sampled, point.greedy) for point in searched}) == 1
    for method in study.methods:
        searched = study.of(method, "search")
        (final,) = study.of(method, "final")
        best = next(record for record in searched if record.setting == final.setting)
        assert best.validated() == max(record.validated() for record in searched)
        assert {len(success) for success in final.test.values()} == {study.config.learning.eval_tasks}
    first = dataclasses.replace(study, records=study.records[:7])
    second = dataclasses.replace(study, records=[*study.records[3:6], study.records[7]])
    assert sorted(map(repr, merge(first, second).records)) == sorted(map(repr, study.records))


def test_a_study_goes_on_from_its_file_alone_and_trains_nothing_again(folder, study, tmp_path):
    before = {path.name: path.stat().st_mtime_ns for path in (folder / "sokoban" / "records").iterdir()}
    result = run("--quick", "--out", folder)
    assert "8 of 8 runs are finished" in result
    assert {path.name: path.stat().st_mtime_ns for path in (folder / "sokoban" / "records").iterdir()} == before
    # A record that is there is not trained again; the one that is taken out would be.
    place = tmp_path / "elsewhere"
    place.mkdir()
    (place / "sokoban.json").write_bytes((folder / "sokoban.json").read_bytes())
    assert "8 of 8 runs are finished" in run("--quick", "--out", place)
    assert load(place / "sokoban.json").records == study.records


def test_an_interrupted_study_writes_what_is_finished_and_keeps_the_run_that_was_stopped(study, tmp_path, monkeypatch):
    clone, trained, begun = study.records[0], study.records[1], []

    def train(config, run, setting, folder, progress):
        (folder / part_name(run.name)).mkdir()
        begun.append(run)
        if len(begun) == 2:
            raise KeyboardInterrupt
        return dataclasses.replace(trained, setting=setting)

    monkeypatch.setattr("benchmarks.training.head_to_head._clone", lambda *given: clone)
    monkeypatch.setattr("benchmarks.training.head_to_head._train", train)
    assert "the same command continues" in run("--quick", "--jobs", 1, "--out", tmp_path, status=130)
    first, second = begun
    assert load(tmp_path / "sokoban.json").records == [clone, dataclasses.replace(trained, setting=first.setting)]
    folders = {path.name for path in (tmp_path / "sokoban").iterdir() if path.is_dir()}
    assert folders == {"records", part_name(second.name)}


def test_a_stop_while_a_clone_is_made_again_loses_nothing(study, tmp_path, monkeypatch):
    # A final run is missing, so that its clone is needed; until it is there, another final run has no clone.
    path = tmp_path / "sokoban.json"
    save(dataclasses.replace(study, records=study.records[:-1]), path)
    content = path.read_bytes()

    def stopped(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr("benchmarks.training.head_to_head._clone", stopped)
    assert "the same command continues" in run("--quick", "--jobs", 1, "--out", tmp_path, status=130)
    assert path.read_bytes() == content


def test_a_page_is_rebuilt_from_the_records_alone_between_its_marks(folder, tmp_path):
    records, page = tmp_path / "records", tmp_path / "docs" / "results" / "head-to-head-sokoban.md"
    records.mkdir()
    page.parent.mkdir(parents=True)
    (records / "sokoban.json").write_bytes((folder / "sokoban.json").read_bytes())
    page.write_text("# Title\n\n<!-- sokoban -->\n<!-- end of sokoban -->\n\nWords that stay.\n", encoding="utf-8")
    run("--from", records, "--pages", page.parent, "--out", tmp_path / "out")
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# Title\n")
    assert text.endswith("Words that stay.\n")
    assert re.search(r"^\| gigpo \| 1 \|", text, re.MULTILINE)
    assert (tmp_path / "docs" / "images" / "head_to_head_sokoban.png").stat().st_size > 1000
    run("--from", records, "--pages", page.parent, "--out", tmp_path / "out")
    assert page.read_text(encoding="utf-8") == text
    page = tmp_path / "head-to-head-sokoban.md"
    assert "has no page for sokoban" in run("--from", folder, "--pages", tmp_path, "--out", tmp_path, status=2)
    page.write_text("nothing", encoding="utf-8")
    assert "<!-- sokoban -->" in run("--from", folder, "--pages", tmp_path, "--out", tmp_path, status=2)


def test_damaged_studies_are_refused(study, folder, tmp_path):
    final = study.records[-1]
    assert isinstance(final, Record)
    others = study.records[:-1]
    for wrong, said in (
        ([*study.records, final], "twice"),
        ([*others, dataclasses.replace(final, test={"greedy": "1" * 8})], "test outcomes"),
        ([*others, dataclasses.replace(final, test={"greedy": "1" * 8, "sampled": "1"})], "8 characters"),
        ([*others, dataclasses.replace(final, seed=7)], "no record of the clone"),
    ):
        refuses(ResultsError, said, check, dataclasses.replace(study, records=wrong))
    refuses(ResultsError, "no run of the search", choose, [])
    other = dataclasses.replace(study, config=dataclasses.replace(study.config, token_budget=1))
    refuses(ResultsError, "different configurations", merge, study, other)
    written = json.loads((folder / "sokoban.json").read_text(encoding="utf-8"))
    written["records"][-1]["tokens"] = "many"
    (tmp_path / "sokoban.json").write_text(json.dumps(written), encoding="utf-8")
    run("--from", tmp_path, "--out", tmp_path / "out", status=2)


@pytest.fixture
def of_another_setting(study):
    """GiGPO's final run, with the setting that was not chosen."""
    final = study.records[-1]
    other = next(record.setting for record in study.of("gigpo", "search") if record.setting != final.setting)
    return dataclasses.replace(final, setting=other)


def test_final_runs_with_another_setting_are_left_out_and_named(study, of_another_setting, tmp_path):
    final, other = study.records[-1], of_another_setting.setting
    mixed = dataclasses.replace(study, records=[*study.records, of_another_setting])
    check(mixed)
    assert mixed.of("gigpo", "final") == [final]
    (said,) = mixed.left_out()
    assert said == (
        f"left out: gigpo with seed 0, trained with {other.label!r}, while {final.setting.label!r} was chosen"
    )
    alone = dataclasses.replace(study, records=[*study.records[:-1], of_another_setting])
    assert alone.methods == ["grpo"]
    records = tmp_path / "records"
    records.mkdir()
    save(alone, records / "sokoban.json")
    assert said in run("--from", records, "--out", tmp_path / "out")
    page = (tmp_path / "out" / "sokoban" / "report.md").read_text(encoding="utf-8")
    assert " ".join(said.split()) in " ".join(page.split())
    assert "| grpo | 1 |" in page
    assert load(records / "sokoban.json").records == alone.records  # nothing is lost


def test_a_tie_falls_alike_whatever_the_order_of_the_records():
    def chosen(*labels):
        curve = [Point(i, 0.0, 0.5, 0.5) for i in range(3)]
        tied = [Record("search", "hgpo", 0, Setting.stated(each), 1, 1, 1.0, 1.0, {}, curve, {}) for each in labels]
        return {choose(order).label for order in itertools.permutations(tied)}

    lower = "hgpo:gamma=0.95 learning_rate=0.0004"
    assert chosen("hgpo:gamma=0.9 learning_rate=0.0008", lower, "hgpo learning_rate=0.0016") == {lower}
    assert chosen("hgpo:gamma=0.95", "hgpo:gamma=0.9") == {"hgpo:gamma=0.9"}


def test_settings_that_end_alike_are_told_apart_by_their_whole_curves(study):
    slow, fast = (
        dataclasses.replace(record, curve=[Point(100 * i, 0.0, won, won) for i, won in enumerate(curve)])
        for record, curve in zip(study.of("gigpo", "search"), ([0.2, 0.5, 1.0], [0.2, 0.9, 1.0]), strict=True)
    )
    assert choose([slow, fast]) == choose([fast, slow]) == fast.setting


def test_further_seeds_go_on_with_published_records(tmp_path):
    # A run for some of the methods puts the records of the others behind its own.
    path = RESULTS / "head-to-head" / "sokoban.json"
    plan = plan_study(settings_of("sokoban"), "tiny", ["grpo"], [0, 1], settings=24, search_runs=2, options={})
    _unpack(load(path), plan.study, tmp_path)
    found = plan.study.found(plan.config, [], tmp_path)
    assert found.left_out() == []
    assert sorted(map(repr, found.records)) == sorted(map(repr, load(path).records))


def test_a_run_with_another_setting_is_kept_beside_the_one_that_is_asked_for(study, of_another_setting, tmp_path):
    alone = dataclasses.replace(study, records=[*study.records[:-1], of_another_setting])
    plan = plan_study(settings_of("sokoban"), "tiny", ["grpo", "gigpo"], [0], quick=True, options={})
    assert plan.config == study.config
    _unpack(alone, plan.study, tmp_path)
    (left,) = [run for name, run in plan.runs.items() if not plan.study.path(tmp_path, name).is_file()]
    assert left == Run("final", "gigpo", 0)
    assert sorted(map(repr, plan.gather(tmp_path))) == sorted(map(repr, alone.records))


def test_a_file_of_another_study_is_not_replaced(study, tmp_path):
    path = tmp_path / "sokoban.json"
    save(study, path)
    content = path.read_bytes()
    assert "holds a benchmark with another configuration: token_budget: there 600, here 700" in run(
        "--quick", "--tokens", 700, "--out", tmp_path, status=2
    )
    assert path.read_bytes() == content


@pytest.mark.parametrize("method", [name.strip() for name in METHODS.split(",")])
def test_every_method_has_as_many_distinct_settings_as_are_drawn(method):
    rate = 4e-4
    settings = draw(method, 3, rate, 0)
    assert len({setting.label for setting in settings}) == 3
    # Three settings and three learning rates: each once.
    assert [setting.training["learning_rate"] for setting in settings] == [rate * factor for factor in RATES]
    assert all(setting.made().name == setting.recipe for setting in settings)
    assert draw(method, 3, rate, 0) == settings
    assert {setting.label for seed in range(9) for setting in draw(method, 3, rate, seed)} > {settings[0].label}


def test_runs_can_be_sent_to_other_processes_each_after_what_it_needs(tmp_path):
    plan = plan_study(settings_of("sokoban"), "tiny", ["grpo", "vine"], [0, 1], quick=True)
    assert pickle.loads(pickle.dumps(functools.partial(run_one, plan))).args == (plan,)
    names = list(plan.runs)
    assert len({plan.study.path(tmp_path, name) for name in names}) == len(names) == 3 + 2 * 2 + 2 * 2
    for place, name in enumerate(names):
        assert set(plan.needs(name)) <= set(names[:place])


def test_settings_are_drawn_from_the_space_and_read_by_their_names() -> None:
    # The whole space: three rates, two clip ranges, with and without dynamic sampling and standard deviation.
    assert len({setting.label for setting in draw("grpo", 24, 1.0, 0)}) == 3 * 2 * 2 * 2
    # Two clip ranges in four settings: each twice; three rates: one of them a second time.
    settings = draw("grpo", 4, 1.0, 3)
    assert sorted(setting.training["loss.clip_high"] for setting in settings) == [0.2, 0.2, 0.28, 0.28]
    assert len({setting.training["learning_rate"] for setting in settings}) == 3
    assert set(SPACE) <= set(RECIPES)
    assert "grpo" in named_methods(METHODS)
    plan = plan_study(settings_of("sokoban"), "tiny", ["gigpo", "gigpo:gamma=0.9"], [0], settings=3)
    assert len({plan.study.path(Path(), name) for name in plan.runs}) == 2 + 2 * 3 + 2
    # GiGPO's gammas are .9 and .95, so that its search may come to a setting of the other one.
    shared = draw("gigpo:gamma=0.9", 3, 1.0, 0)[0]
    assert shared.label in {setting.label for setting in draw("gigpo", 6, 1.0, 0)}
    assert Run("search", "gigpo", 100, shared).name != Run("search", "gigpo:gamma=0.9", 100, shared).name
    refuses(ValueError, "there are only 3", draw, "rloo", 4, 1.0, 0)
    plan = plan_study(settings_of("sokoban"), "tiny", ["grpo", "rloo"], [0], settings=50)
    assert [len(plan.settings(method)) for method in plan.methods] == [24, 3]
    check_names(["--methods", "grpo learning_rate=0.0008,sdpo:context=expert learning_rate=0.0008"])
    refuses(typer.BadParameter, "unknown method 'grop'", check_names, ["--methods", "grop learning_rate=0.0008"])


def test_the_pages_hold_what_their_records_say():
    studies = [study for study in load_folders(RESULTS / "head-to-head") if study.methods]  # others are still running
    assert studies
    for study in studies:
        text = (RESULTS / "head-to-head-tables.md").read_text(encoding="utf-8")
        picture = f"../images/head_to_head_{study.config.name}.png"
        assert (f"({picture})" in text) == (RESULTS / picture).is_file()
        shown = section(study, picture if picture in text else "", whole=False)
        assert replaced(text, study.config.name, shown) == text
        assert ("processor s" in section(study, picture)) != study.config.factors


@pytest.mark.parametrize("path", sorted((RESULTS / "head-to-head").rglob("*.json")), ids=lambda path: path.stem)
def test_further_methods_join_what_is_published(path):
    env, _, model = path.stem.partition("-")
    how = {"sokoban": {"settings": 24, "search_runs": 2}, "alfworld": {"settings": 6}, "searchqa": {"settings": 6}}
    how = how.get(env, {})
    if path.parent.name == "less-limited":
        how = {"settings": 6} | ({"factors": ["clone_tasks=1"]} if model else {"tokens": 200_000})
        model = ""
    elif env == "corridor":
        factors = ["wrong=back"] * (model == "factors")
        rooms, _, model = model.partition("-")
        length = 12 if factors else int(rooms[1:])
        how = {"settings": 6, "search_runs": 2, "options": {"length": length}, "factors": factors}
        how |= {"search_runs": 4 if length == 6 else 2, "tokens": 1000 * length} if model else {}
    elif env == "telecom":
        faults, _, model = model.partition("-")
        beside = [] if model else ["test_hard"]
        how = {"settings": 0, "beside": beside, "options": {"faults": [1, int(faults[1:])]}}
    study = load(path)
    assert study.left_out() == []  # final runs have the setting that is chosen
    assert all(study.of(method, "final") for method in study.methods)
    assert study.config == plan_study(settings_of(env), model or "tiny", ["grpo"], [0], **how).config


def test_a_setting_is_chosen_by_the_mean_of_its_seeds_over_the_last_third():
    # Two settings with two seeds each, three validations; the last one alone counts: .9 + .1 against .6 + .6.
    def run(label, seed, *success):
        curve = [Point(i, 0.0, value, value) for i, value in enumerate(success)]
        return Record("search", "rloo", seed, Setting.stated(label), 1, 1, 1.0, 1.0, {}, curve, {})

    records = [
        run("rloo learning_rate=0.1", 100, 0.0, 1.0, 0.9), run("rloo learning_rate=0.1", 101, 0.0, 1.0, 0.1),
        run("rloo learning_rate=0.2", 100, 0.0, 0.0, 0.6), run("rloo learning_rate=0.2", 101, 0.0, 0.0, 0.6),
    ]  # fmt: skip
    assert choose(records).label == "rloo learning_rate=0.2"
    assert choose(records, 2).label == "rloo learning_rate=0.1"  # .75 against .3


def test_a_corridor_has_a_study_of_its_own_for_each_length():
    plan = plan_study(settings_of("corridor"), "tiny", ["grpo", "oracle"], [0], settings=6, search_runs=2,
                      options={"length": 24})  # fmt: skip
    assert (plan.config.name, plan.config.token_budget) == ("corridor-n24", 6000)
    assert plan.config.learning.setup.options == {"length": 24}
    assert len(plan.settings("grpo")) == 6  # three learning rates, with and without dynamic sampling
    assert (len(plan.settings("oracle")), len(plan.searched("oracle"))) == (3, 6)
    assert plan.needs(plan.searched("oracle")[1]) == ["clone-seed101"]


def test_one_factor_at_a_time_has_clones_a_search_and_final_runs_of_its_own(tmp_path):
    factors = "wrong=back", "adviser=guide-0.9"
    asked = [word for each in factors for word in ("--factor", each)]
    command = ["--quick", "--env", "corridor", "--option", "length=3", "--methods", "grpo", *asked, "--jobs", 1]
    said = run(*command, "--out", tmp_path)
    study = load(tmp_path / "corridor-factors.json")
    alike = [
        ("clone", "clone", 100), *[("search", "grpo", 100)] * 2, ("clone", "clone", 0), ("final", "grpo", 0)
    ]  # fmt: skip
    found = [(each.factor, each.stage, each.method, each.seed) for each in study.records]
    assert found == [(factor, *each) for factor in factors for each in alike]
    for factor, part in study.by_factor().items():
        assert {record.factor for record in part.records} == {factor}
        (final,) = part.of("grpo", "final")
        assert final.setting == choose(part.of("grpo", "search")) == study.chosen("grpo", factor)
    # Every clone learns in the world without the change, and is tested in the world with it.
    place, learning = tmp_path / "corridor-factors", study.config.learning
    assert [with_factor(learning, each).setup.options.get("wrong") for each in factors] == ["back", None]
    assert with_factor(learning, factors[0], cloning=True) == learning
    assert with_factor(learning, factors[1], cloning=True).setup.adviser == "guide-0.9"
    assert with_factor(learning, "group_size=3", cloning=True).group_size == 3
    weights = {
        part_name(each): (place / part_name(each) / "clone-seed0" / "model" / "model.safetensors").read_bytes()
        for each in factors
    }
    assert len(set(weights.values())) == 2
    assert "10 of 10 runs are finished" in run(*command, "--out", tmp_path)
    assert all(f"{factor} (" in said for factor in factors)
    text = section(study, "no picture")
    assert all(re.search(rf"^\| {factor} \([0-9.]+\) \| [0-9.]+ \|$", text, re.MULTILINE) for factor in factors)


def test_what_cannot_be_is_refused_before_anything_is_trained(tmp_path):
    for wrong, said in (
        ("wrong=sideways", "known: 'stay'"), ("adviser=gide", "did you mean 'guide'"),
        ("speed=3", "unknown argument"), ("back", "expected name=value"),
    ):  # fmt: skip
        words = ["--quick", "--env", "corridor", "--methods", "grpo", "--factor", wrong, "--out", tmp_path]
        found = run(*words, status=2)
        assert (said in found, "--factor" in found) == (True, True), found
    assert not any(tmp_path.iterdir())
    assert "nothing is trained" in run("--from", RESULTS / "head-to-head", "--tokens", 5, "--out", tmp_path, status=2)
