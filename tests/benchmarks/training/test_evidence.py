"""What is settled: differences by hand, verdicts, looks that end, the list under a table, the horizon's picture."""

import dataclasses
import io
import math
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import typer
from rich.console import Console

from baselines.environments.registry import settings_of
from baselines.runs.dose import Dose, decisions
from benchmarks.machine import describe_machine
from benchmarks.report.assemble import write_picture
from benchmarks.statistics import paired_t
from benchmarks.training import evidence
from benchmarks.training.head_to_head import plan_study, run_until_settled
from benchmarks.training.head_to_head_page import cost_cells
from benchmarks.training.records import Point, Record, Setting, Trainings
from policies.scripted import RandomPolicy

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


def study(seeds, gap=32):
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
    made = study(seeds, gap=0)
    records = []
    for each in made.records:
        if each.method == "oracle" and each.stage == "final":
            records.append(record("oracle", each.seed, 64, 0.1, 0.5 + 0.1 * (-1) ** each.seed, 0.5))
        elif each.stage != "search":
            records.append(dataclasses.replace(each, test=record("grpo", 0, 64, 0, 0).test))
    searched = [each for each in made.records if each.stage == "search"]
    return dataclasses.replace(made, records=[*searched, *records])


def test_comparisons_areas_tokens_and_falls_by_hand():
    (oracle,) = evidence.compare(study(4))
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
    cells = {row[0]: row for row in evidence.rows(study(4))}
    assert cells["grpo"][5] == "1"  # 7 of 128 after 16
    assert cells["grpo"][2] == "1"  # tried with two seeds
    assert (cells["oracle"][5], cells["oracle"][-1], cells["grpo"][4]) == ("0", "settled", "not reached (0)")


def test_looks_go_on_until_settled_or_out_of_time():
    looked = []

    def run(plan):
        looked.append(len(plan.seeds))
        return study(len(plan.seeds), gap=0 if len(plan.seeds) < 16 else 32)

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


def test_every_line_of_the_report_is_filled():
    lines = evidence.reported(study(4))
    assert len(lines) == 14
    assert all(lines.values())
    assert lines["seeds"] == "0, 1, 2, 3"
    assert "length" in lines["task set"]


def test_the_dose_of_a_run_by_hand(tmp_path):
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


def test_every_step_of_a_corridor_is_a_decision_and_one_of_an_unknown_world_is_not_known():
    config = plan_study(settings_of("corridor"), "tiny", ["grpo"], [0], settings=1, options={"length": 2}).config
    assert decisions(config.learning, RandomPolicy(), 0) == 1.0
    config = plan_study(settings_of("sokoban"), "tiny", ["grpo"], [0], settings=1).config
    assert 0 < decisions(config.learning, RandomPolicy(), 0) < 1
    config = plan_study(settings_of("webshop"), "tiny", ["grpo"], [0], settings=1).config
    assert decisions(config.learning, RandomPolicy(), 0) is None


def test_the_horizon_has_a_picture(tmp_path):
    longer = dataclasses.replace(
        PLAN.config, learning=dataclasses.replace(PLAN.config.learning, setup=dataclasses.replace(
            PLAN.config.learning.setup, options={"length": 24})))  # fmt: skip
    both = [study(4), dataclasses.replace(study(4), config=longer)]
    assert [evidence.length_of(each) for each in both] == [12, 24]
    other = dataclasses.replace(PLAN.config, learning=dataclasses.replace(PLAN.config.learning, model="smollm2"))
    pretrained = dataclasses.replace(both[0], config=other)
    assert (evidence.length_of(pretrained), evidence.length_of(pretrained, "smollm2")) == (0, 12)
    text = evidence.horizon(both)
    assert "| method | 12 rooms | 24 rooms |" in text
    assert "settled)" in text
    write_picture(evidence.draw_horizon(both), tmp_path / "horizon.png")
    assert (tmp_path / "horizon.png").stat().st_size > 10_000


def test_factors_are_compared_each_with_its_own_reference():
    def at(factor, made):
        return [dataclasses.replace(each, factor=factor) for each in made.records]

    config = dataclasses.replace(PLAN.config, factors=True)
    records = [*at("wrong=back", study(4)), *at("slip=0.1", study(4, gap=0))]
    both = dataclasses.replace(study(4), config=config, records=records)
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
