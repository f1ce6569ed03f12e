"""The measuring code, by a clock of the test; first visits and replays: what is played and counted."""

import gymnasium as gym
import numpy as np
import pytest

import agentgym  # noqa: F401
from agentgym.alfworld.generated.generator import generate
from benchmarks.speed import timing
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


def test_stopwatches_loops_and_medians() -> None:
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
    assert speed.value == pytest.approx(1000)
    assert speed.loop_seconds == pytest.approx(1.8)
    assert speed.scaled == pytest.approx(2000)
    refuses(ValueError, "nothing was timed", lambda: Stopwatch().speed(1))
    watch = Stopwatch()
    watch.time(sum, range(1000))
    assert watch.speed(1000).loop_seconds > 0
    # Scaled: 2, 3, 1 and 4; of the two in the middle the slower one.
    speeds = [Speed(2.0, 0.9), Speed(1.0, 2.7), Speed(9.0, 0.1), Speed(4.0, 0.9)]
    assert median(speeds[:3]) == speeds[0]
    assert median(speeds) == speeds[0]
    clock = FakeClock(piece=0.009)
    counts, slow = [], iter([1, 1, 1, 2, 1])

    def work(n):
        counts.append(n)
        return clock.work(n * 0.001 * next(slow), units=n)

    # 1 ms a unit: 1 and 10 units are too short for half of 100 ms, 100 are enough; the second of three is slow.
    speed = best_rate(work, start=1, seconds=0.1, repeats=3, clock=clock)
    assert counts == [1, 10, 100, 100, 100]
    assert speed.value == pytest.approx(1000)
    assert speed.loop_seconds == pytest.approx(0.9)


def test_best_milliseconds_leaves_the_first_call_out(monkeypatch):
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


def test_each_wave_has_tasks_of_its_own_and_the_first_is_not_timed(monkeypatch):
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


def test_resets_may_be_left_out(monkeypatch):
    monkeypatch.setattr(timing, "_LOOP", "")
    ticks = iter(range(10_000))
    envs = gym.make_vec(SOKOBAN, 2)
    visits = measure_visits(envs, steps=3, waves=1, resets=False, clock=lambda: float(next(ticks)))
    assert visits.first.value == visits.replayed.value == pytest.approx(2)
