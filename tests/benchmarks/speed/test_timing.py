"""Measurements of speed: timing, a row per environment and method, rollouts and updates of the tiny model."""

import contextlib
import gc
import itertools
import json
import re
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from agentgym.alfworld.generated.generator import generate
from agentgym.outside.dialogue import parse
from agentgym.trajectory import StepTable
from agentgym.virtualhome.generated.activities import GeneratedActivities
from benchmarks.machine import describe_machine
from benchmarks.report.page import markdown
from benchmarks.speed import environments, first_hour, peers, rollouts, throughput, timing, updates
from benchmarks.speed.credit import CHARACTERS, FreshTexts, measure_sizes, random_walk_table
from benchmarks.speed.environments import WORLDS, forget, play_programs, wander
from benchmarks.speed.gpu_measures import SHAPES, make_policy
from benchmarks.speed.record import Comparison, Measurement, SpeedConfig, Speeds, ratios
from benchmarks.speed.searchqa_index import SyntheticPassages, batches, sqlite, sqlite_search
from benchmarks.speed.sotopia_dialogues import (
    NUM_ENVS,
    TURNS,
    make_dialogues,
    play_dialogues,
    random_commands,
    record_commands,
)
from benchmarks.speed.throughput import STUDY
from benchmarks.speed.timing import (
    MANY_TASKS,
    Speed,
    Stopwatch,
    admissible,
    best_milliseconds,
    best_rate,
    first_visit,
    measure_visits,
    median,
    open_tasks,
    replay,
)
from tests.benchmarks.command import run
from tests.refusals import refuses

SOKOBAN, ALFWORLD = "AgentRL/Sokoban-v0", "AgentRL/ALFWorld-v0"


class FakeClock:
    """Stands still but for `work`, and for the loop: every reading after the first of a pair is the loop's unless told.

    Args:
        piece: seconds of a piece of the loop.
    """

    def __init__(self, piece=0.0):
        self.now = 0.0
        self.piece = piece
        self.working = False
        self.readings = 0

    def __call__(self):
        # A pair of readings surrounds each timed call and each piece; the second of a pair without work is a piece's.
        self.readings += 1
        if self.readings % 2 == 0 and not self.working:
            self.now += self.piece
        self.working = False
        return self.now

    def work(self, seconds, units=0):
        self.now += seconds
        self.working = True
        return units


def test_stopwatches_loops_and_medians(monkeypatch) -> None:
    clock = FakeClock()
    watch = Stopwatch(clock)
    assert watch.time(clock.work, 0.25, units=7) == 7
    clock.now += 100.0
    watch.time(clock.work, seconds=0.5)
    assert watch.seconds == 0.75
    assert watch.speed(3).value == 4.0
    clock = FakeClock(piece=0.018)
    watch = Stopwatch(clock)
    # One piece at once, the next when 10 ms more were measured; at most twenty at a time.
    readings = []
    for seconds in (0.004, 0.004, 0.004, 0.004, 0.033, 60.0):
        before = clock.readings
        watch.time(clock.work, seconds)
        readings.append((clock.readings - before) // 2 - 1)
    assert readings == [1, 0, 0, 1, 3, 20]
    # 100,000 additions in 18 ms: ten million in 1.8 s, half as fast as the machine speeds are scaled to.
    speed = watch.speed(watch.seconds * 1000)
    assert (speed.value, speed.loop_seconds) == (pytest.approx(1000), pytest.approx(1.8))
    assert speed.scaled == pytest.approx(2000)
    refuses(ValueError, "nothing was timed", lambda: Stopwatch().speed(1))
    watch = Stopwatch()
    watch.time(sum, range(1000))
    assert watch.speed(1000).loop_seconds > 0
    # Scaled: 2, 3, 1 and 4; of the two in the middle the slower one.
    speeds = [Speed(2.0, 0.9), Speed(1.0, 2.7), Speed(9.0, 0.1), Speed(4.0, 0.9)]
    assert (median(speeds[:3]), median(speeds)) == (speeds[0], speeds[0])
    clock = FakeClock(piece=0.009)
    counts, slow = [], iter([1, 1, 1, 2, 1])

    def work(n):
        counts.append(n)
        return clock.work(n * 0.001 * next(slow), units=n)

    # 1 ms a unit: 1 and 10 units are too short for half of 100 ms, 100 are enough; the second of three is slow.
    speed = best_rate(work, start=1, seconds=0.1, repeats=3, clock=clock)
    assert counts == [1, 10, 100, 100, 100]
    assert (speed.value, speed.loop_seconds) == (pytest.approx(1000), pytest.approx(0.9))
    clock = FakeClock()
    monkeypatch.setattr("benchmarks.speed.timing.time.process_time", clock)
    spent = iter([0.001, 0.25, 0.5])
    assert best_milliseconds(lambda: clock.work(next(spent)), 2) == 250


class Recorder(gym.vector.VectorWrapper):
    """Notes the calls of a vector environment."""

    def __init__(self, envs):
        super().__init__(envs)
        self.seeds, self.keys, self.actions = [], [], []

    def reset(self, *, seed=None, options=None):
        self.seeds.append(seed)
        observations, infos = self.env.reset(seed=seed)
        self.keys.append(infos["state_key"].tolist())
        return observations, infos

    def step(self, actions):
        self.actions.append(list(actions))
        result = self.env.step(actions)
        self.keys.append(result[-1]["state_key"].tolist())
        return result


def test_actions_were_offered_and_tasks_are_those_of_the_resets() -> None:
    envs = Recorder(gym.make_vec(SOKOBAN, 4))
    visit = first_visit(envs, 3, 30, admissible, Stopwatch())
    assert (len(visit.plan), visit.steps) == (30, 120)
    first = envs.keys[:]
    replay(envs, visit, Stopwatch())
    assert envs.keys[31:] == first
    # Boards after the limit of 20 steps are those of other levels: walls and targets differ.
    assert all(a != b for a, b in zip(first[0], first[21], strict=True))
    envs = gym.make_vec(SOKOBAN, 8, autoreset_mode="Disabled", max_episode_steps=5)
    visit = first_visit(envs, 0, 7, lambda infos, rng: ["up"] * 8, Stopwatch())
    # Nothing is solved by going up all the time, so the limit ends all episodes.
    assert visit.steps == 8 * 5
    infos = {"admissible_actions": np.array([("a", "b", "c"), ("d",), ()], object)}
    drawn = [admissible(infos, np.random.default_rng(seed)) for seed in range(30)]
    assert {tuple(actions[1:]) for actions in drawn} == {("d", "")}
    assert {actions[0] for actions in drawn} == {"a", "b", "c"}
    envs = gym.make_vec(ALFWORLD, 3, data="generated", num_games=MANY_TASKS, max_episode_steps=2)
    generate.cache_clear()
    open_tasks(3)(envs, 500)
    assert generate.cache_info().misses == 9
    # Two restarts in five steps; the six games more that an episode without end would need are not made.
    first_visit(envs, 500, 5, admissible, Stopwatch())
    assert generate.cache_info().misses == 9


def test_each_wave_has_tasks_of_its_own_and_the_first_and_resets_may_be_left_out(monkeypatch):
    monkeypatch.setattr(timing, "_LOOP", "")  # a tick a call: no loop is needed
    envs = Recorder(gym.make_vec(SOKOBAN, 2, num_levels=MANY_TASKS))
    prepared = []
    ticks = iter(range(10_000))
    visits = measure_visits(
        envs, steps=3, waves=2, prepare=lambda envs, seed: prepared.append(seed), seed=4,
        clock=lambda: float(next(ticks)),
    )  # fmt: skip
    assert prepared == [400_000_000, 400_100_000, 400_200_000]
    assert envs.seeds == [seed for seed in prepared for _ in range(2)]
    assert envs.actions[:3] == envs.actions[3:6] != envs.actions[6:9]
    # One second each for a reset and three steps of two: 6 steps in 4 seconds.
    assert visits.first.value == visits.replayed.value == pytest.approx(1.5)
    monkeypatch.setattr(timing, "_LOOP", "")
    ticks = iter(range(10_000))
    visits = measure_visits(gym.make_vec(SOKOBAN, 2), steps=3, waves=1, resets=False, clock=lambda: float(next(ticks)))
    assert visits.first.value == visits.replayed.value == pytest.approx(2)


def test_texts_are_new_objects_of_full_length() -> None:
    texts = FreshTexts(2, 3, 4)
    one, other = texts.columns(), texts.columns()
    for name in ("state", "next_state"):
        assert one[name] == other[name]
        assert not any(a is b for a, b in zip(one[name], other[name], strict=True))
        assert {len(text) for text in one[name]} == {CHARACTERS}
    texts = FreshTexts(2, 3, 4)
    assert len(texts) == 24
    shared, apart = texts.columns(), texts.columns(shared=False)
    assert shared == apart
    for row in range(24):
        last = row % 4 == 3
        assert last or shared["next_state"][row] is shared["state"][row + 1]
        assert last or apart["next_state"][row] is not apart["state"][row + 1]
    everything = [*apart["state"], *apart["next_state"]]
    assert len(set(map(id, everything))) == 48
    texts = FreshTexts(3, 4, 10)
    table = StepTable.from_arrays(**texts.columns())
    for name in ("group", "trajectory", "t", "reward", "won", "valid", "terminated"):
        np.testing.assert_array_equal(getattr(table, name), getattr(texts.table, name))
    pairs = set(zip(table.group.tolist(), texts.table.state.tolist(), table.state.tolist(), strict=True))
    # One text for one state of one group: neither the state nor the text occurs in two pairs.
    assert len(pairs) == len({(group, state) for group, state, _ in pairs}) == len({text for *_, text in pairs})
    table = random_walk_table(0, groups=3, size=4, length=10)
    assert (len(table), table.n_groups, table.trajectory_won.tolist()) == (120, 3, [True, False] * 6)
    # A walk goes on where the last step led.
    rows = table.order
    inside = np.diff(table.trajectory[rows]) == 0
    assert (table.next_state[rows][:-1][inside] == table.state[rows][1:][inside]).all()


def test_every_method_is_measured_at_every_size(monkeypatch):
    monkeypatch.setattr(gc, "collect", lambda: 0)  # among the objects of a test session it takes most of the time
    found = measure_sizes(True, [(2, 3, 4), (4, 3, 4)])
    assert {each.column for each in found} == {"2 x 3 x 4", "4 x 3 x 4"}
    assert {each.what for each in found} >= {"only the table", "grpo", "gigpo", "rewardflow", "graphgpo"}
    value = {each.key: each.value for each in found}
    assert all(0 < each < float("inf") for each in value.values())
    # 24 steps
    assert value["texts_2 x 3 x 4_gigpo_step"] == pytest.approx(value["texts_2 x 3 x 4_gigpo"] * 1e3 / 24)


needs_gym_sokoban = pytest.mark.skipif(
    peers.gym_sokoban() is None, reason="gym-sokoban is not installed (pip install gym gym-sokoban==0.0.6)"
)


def test_visitors_and_programs() -> None:
    envs = gym.make_vec(WORLDS["webshop"].id, 8, num_products=100)
    actions = {action for step in first_visit(envs, 0, 40, wander, Stopwatch()).plan for action in step}
    assert {action.partition("[")[0] for action in actions} == {"search", "click"}
    assert "click[buy now]" in actions
    shop = envs.unwrapped.envs[0].tasks.shop
    query = next(action for action in sorted(actions) if action.startswith("search["))[7:-1]
    known, pages = shop.search.top(query, 50), shop.pages.item.cache_info().currsize
    assert pages > 10
    forget(envs)
    assert shop.pages.item.cache_info().currsize == shop.pages.results.cache_info().currsize == 0
    assert shop.search.top(query, 50) is not known
    activities = GeneratedActivities()
    speed, steps = play_programs(activities, "train", first=0, count=3)
    # the first three activities, each with all of its commands
    assert steps == sum(len(activities.by_index("train", index).program) for index in range(3))
    assert speed.value > 0


@needs_gym_sokoban
@pytest.mark.parametrize("render", ["rgb_array", "none"])
def test_gym_sokoban_steps_leave_the_global_generators_as_they_were(render):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    assert peers.sokoban_stepper(peers.gym_sokoban(), render, 6, 2)(10) == 10
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


def test_parts_are_measured_alone_and_say_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(environments, "measure_world", lambda world, quick: [world.figure("x", f"{quick}", 1.0, "ms")])
    monkeypatch.setattr(peers, "gym_sokoban", lambda: None)
    found = throughput.STUDY.play(throughput.configure(quick=True, only="sokoban,sotopia"), tmp_path)
    assert [(each.key, each.what) for each in found.measurements] == [("steps_x", "True"), ("dialogues_x", "True")]
    assert [words.partition(":")[0] for words in found.skipped] == ["gym-sokoban is not installed"]


def test_a_token_is_a_word_of_its_own() -> None:
    policy = make_policy(SHAPES["tiny"], torch.device("cpu"))
    assert len(policy.tokenizer) == SHAPES["tiny"].vocabulary
    texts = [policy.tokenizer.decode([token]) for token in range(len(policy.tokenizer))]
    assert len(set(texts)) == len(texts)


def test_the_first_hour_ends_green_here_and_says_what_failed(tmp_path, monkeypatch):
    given = "speed", "gpu", "--first-hour", "--out"
    run(*given, tmp_path / "a")
    found = json.loads((tmp_path / "a" / "first-hour.json").read_text())
    parts = {part["name"]: part for part in found["parts"]}
    assert list(parts) == ["probes", "attention", "agreement", "speed", "memory", "learning", "resume"]
    assert all(part["passed"] for part in found["parts"])
    assert parts["attention"]["figures"]["sdpa"] < 1e-5
    assert 0.9 < parts["memory"]["figures"]["measured / planned"] < 1.1
    assert parts["learning"]["figures"]["iterations"] == 10
    assert (parts["resume"]["figures"]["iterations before"], parts["resume"]["figures"]["iterations played"]) == (10, 1)
    assert "memory is within the plan" in (tmp_path / "a" / "report.md").read_text()

    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory")

    for name in ("_probes", "_attention", "_agreement"):
        monkeypatch.setattr(first_hour, name, lambda *_: None)
    monkeypatch.setattr(first_hour, "_speed", full)
    for name in ("weigh", "learn"):
        monkeypatch.setattr(first_hour._Learning, name, lambda *_: None)
    assert "failed: speed, resume" in run(*given, tmp_path / "b", status=1)
    assert "OutOfMemoryError: CUDA out of memory" in (tmp_path / "b" / "report.md").read_text()
    assert "CUDA out of memory" in (tmp_path / "b" / "speed.txt").read_text()


def measured(key: str, value: float, unit: str = "steps/s") -> Measurement:
    return Measurement(key, key.split("_")[0], key, True, value, unit)


def test_ratios_and_pages() -> None:
    assert Measurement.of("k", "steps", "words", Speed(1000.0, 0.45)).scaled == pytest.approx(500)
    assert measured("memory", 5.0, "MB").scaled is None
    found = [
        measured("steps_vector_128", 200.0), measured("steps_stock_128", 50.0),
        measured("telecom_reset_1", 0.5, "ms"), measured("telecom_package_reset", 5.0, "ms"),
        measured("telecom_calls", 30.0),
    ]  # fmt: skip
    assert {ratio.what: ratio.value for ratio in ratios(found, throughput.environments.COMPARISONS)} == {
        "make_vec, 128 envs, first visits / gymnasium SyncVectorEnv": 4.0, "a reset / tau2-bench's": 10.0,
    }  # fmt: skip
    # 1,234.5 steps/s where ten million additions take 1.8 s are 2,469 steps/s where they take 0.9 s.
    figures = [
        Measurement("k", "steps", "our steps", True, 1234.5, "steps/s", 1.8),
        Measurement("m", "steps", "our memory", True, 5.5, "MB"),
        Measurement("a", "sizes", "gigpo", True, 8.0, "ms", column="8 x 4 x 50"),
        Measurement("b", "sizes", "gigpo", True, 1625.0, "ms", column="16 x 8 x 50"),
        Measurement("c", "sizes", "grpo", True, 2.5, "µs", column="16 x 8 x 50"),
    ]
    found = Speeds(
        SpeedConfig(["sokoban"], {"quick": True}), figures, ratios(figures, [Comparison("k", "k", "itself")]),
        ["left out"], version=2, created="2026-01-01 00:00 UTC", machine=describe_machine(),
    )  # fmt: skip
    text = markdown(STUDY.shown(found))
    for words in (
        found.machine.cpu, found.machine.python, "| our steps | 1,230 steps/s | 1.80 s | 2,470 |",
        "| our memory | 5.5 MB |", "| gigpo | 8 ms | 1,620 ms |", "| grpo | - | 2.5 µs |", "itself: x 1", "left out",
    ):  # fmt: skip
        assert words in text


@pytest.fixture(scope="module")
def made() -> SyntheticPassages:
    return SyntheticPassages()


def test_synthetic_passages_are_the_same_however_many_are_asked_for(made: SyntheticPassages, monkeypatch: Any) -> None:
    passages = list(made.passages(2_100))
    assert list(made.passages(1_001)) == passages[:1_001]
    monkeypatch.setattr("benchmarks.speed.searchqa_index._WORDS", 5_000)
    first, again, other = ([*itertools.islice(SyntheticPassages(seed).passages(10), 3)] for seed in (0, 0, 1))
    assert first == again != other
    assert [passage.id for passage in passages] == [str(i) for i in range(2_100)]
    assert {(len(passage.title.split()), len(passage.text.split())) for passage in passages} == {(2, 98)}
    stop = sum(word in ("the", "of", "and") for passage in passages for word in passage.text.split())
    # 3 of 15 stop words, which are 0.4 of 98 words in each of 2,100 passages: 16,464 expected, standard deviation 123.
    assert abs(stop - 16_464) < 600


def test_questions_are_made_of_their_source_and_as_many_answered_as_counted(made: SyntheticPassages) -> None:
    passages = list(made.passages(1_500))
    questions = made.questions(50, 1_500)
    assert made.questions(50, 1_500) == questions
    for question, source in questions:
        words = question.removeprefix("what is ").split(" the ")
        assert len(words) == 5
        assert set(words) <= set(passages[int(source)].contents.replace('"', "").split())
    with contextlib.closing(sqlite(tuple(made.passages(500)))) as base:
        for question, source in made.questions(20, 500):
            assert int(source) + 1 in [row for (row,) in sqlite_search(base, question)]
    seen: list[str] = []
    assert batches("abcdefg", seen.extend, 3)(10) == 12
    assert "".join(seen) == "abcdefbcdefg"


def test_dialogues_are_measured() -> None:
    envs = make_dialogues()
    plan = record_commands(envs, 0)
    assert [len(commands) for commands in plan] == [NUM_ENVS] * (TURNS // 2)
    assert all(parse(command)[0].kind == "speak" for commands in plan for command in commands)
    assert play_dialogues(envs, plan, 0).value > 0
    singles = envs.unwrapped.envs
    assert {len(env.world.dialogue.turns) for env in singles} == {TURNS}
    assert all(None not in env.world.standing.offers for env in singles)
    refuses(RuntimeError, "not of 20", lambda: play_dialogues(envs, plan[:3], 0))
    said = [parse(command)[0].text for first in (0, NUM_ENVS) for step in random_commands(first) for command in step]
    assert len(said) == len(set(said)) == TURNS * NUM_ENVS
    assert all(len(text.split()) == 10 for text in said)
    words = [word for text in said for word in text.split()]
    assert len(set(words)) > 0.999 * len(words)


@pytest.fixture
def no_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("trl", "vllm"):
        monkeypatch.setitem(sys.modules, name, None)


def speed(name: str, folder: Path, *options: str) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Measurements by key, and the words on what could not be measured."""
    run("speed", name, "--quick", "--out", folder, *options)
    found = json.loads((folder / f"{name}.json").read_text())
    return {each["key"]: each for each in found["measurements"]}, found["skipped"]


def test_rollouts_read_what_is_new_once_and_whole_prompts_at_every_turn(tmp_path: Path, no_peers: None) -> None:
    found, skipped = speed("rollouts", tmp_path)
    assert {key.removesuffix("_seconds") for key in found if key.endswith("_seconds")} == rollouts.PARTS.keys() - {
        "vllm"
    }
    assert [words.partition(":")[0] for words in skipped] == ["vLLM"]
    assert all(each["value"] > 0 for each in found.values())
    for part in ("kept", "adapter", "whole"):
        prompts, distinct, read, written = (
            found[f"{part}_{name}"]["value"] for name in ("of_all_prompts", "distinct", "read", "written")
        )
        assert distinct < prompts / 3  # two episodes of three turns
        if part == "whole":
            assert read >= prompts
        else:
            assert read + written <= distinct  # the last token of a reply is written, and read by nobody


def test_updates_are_measured_with_the_default_settings_and_row_by_row(tmp_path: Path, no_peers: None) -> None:
    found, skipped = speed("updates", tmp_path)
    assert found.keys() == {f"{part}_{way}" for part in updates.PARTS for way in ("auto", "rows")}
    assert [words.partition(" (")[0] for words in skipped] == [
        f"{updates.PARTS[name]}: TRL" for name in ("transcripts", "replies")
    ]
    assert all(each["value"] > 0 for each in found.values())
    for part, rows in (("transcripts", 2 * 3), ("replies", 3), ("cloning", 2 * 3)):
        words = re.fullmatch(r".*: (\d+) rows, ([\d,]+) tokens, ([\d,]+) distinct", found[f"{part}_auto"]["section"])
        assert words is not None
        count, tokens, distinct = (int(each.replace(",", "")) for each in words.groups())
        assert count == rows
        assert distinct < tokens / 2
    few, skipped = speed("updates", tmp_path / "few", "--parts", "replies", "--ways", "rows")
    assert (few.keys(), skipped) == ({"replies_rows"}, [])


@pytest.mark.parametrize(("name", "option"), [("rollouts", "--parts"), ("updates", "--parts"), ("updates", "--ways")])
def test_an_unknown_part_is_refused_with_the_known_ones(name: str, option: str) -> None:
    words = run("speed", name, "--quick", option, "rows,nothing", status=2)
    assert "expected names out of" in words
    assert ("got nothing" if option == "--ways" else "got nothing, rows") in words
