"""Speed of SOTOPIA's dialogues: offline by rules, and (`speed endpoint`) with models behind a stub endpoint."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import gymnasium as gym
import numpy as np
import typer

import agentgym  # noqa: F401  # registers the environments
from agentgym.outside.dialogue import NONE, Act, View, write
from agentgym.sotopia.dialogue import DIMENSIONS
from agentgym.sotopia.games.game import DealSide
from agentgym.sotopia.generated import generate
from agentgym.sotopia.models import ModelJudge, ModelPlayer
from agentgym.sotopia.players import Temperament, play_deal
from benchmarks.speed.record import Comparison, Measurement, Part, SpeedConfig, speed_study
from benchmarks.speed.sotopia_package import package_rate
from benchmarks.speed.stub_endpoint import stub_endpoint
from benchmarks.speed.timing import Speed, Stopwatch, VectorEnv, median

NUM_ENVS = 128
#: Turns of SOTOPIA's dialogues; games in which two can talk on without end.
TURNS, FAMILIES = 20, ("bargain", "divide", "schedule")


class Tireless:
    """A partner by rules that makes one offer after the other, and neither accepts nor leaves."""

    _TEMPER = Temperament(start=0.0, floor=99.0, give=0.0, patience=TURNS)

    def act(self, views: Sequence[View]) -> list[Act]:
        return [
            play_deal(view, cast(DealSide, view.private), self._TEMPER) if len(view.kinds) > 1 else NONE
            for view in views
        ]


def make_dialogues() -> VectorEnv:
    """Return dialogues with a tireless partner."""
    options: dict[str, Any] = {"partner": Tireless(), "families": FAMILIES, "max_turns": TURNS}
    return gym.make_vec("AgentRL/SOTOPIA-v0", NUM_ENVS, autoreset_mode="Disabled", **options)


def measure_dialogues(key: str, title: str, waves: int) -> list[Measurement]:
    """Measure whole dialogues of twenty turns per second, with restart, partner and judge by rules."""
    envs, speeds = make_dialogues(), dict[str, list[Speed]]()
    for wave in range(waves + 1):  # the first one is not counted
        first = wave * NUM_ENVS
        plan = record_commands(envs, first)
        for row, commands in (("new", plan), ("known", plan), ("random", random_commands(first))):
            if row != "known":
                generate.cache_clear()  # a task's game remembers dialogues
            speeds.setdefault(row, []).append(play_dialogues(envs, commands, first))
    words = f"whole dialogues of {TURNS} turns, {NUM_ENVS} envs, partner and judge by rules"
    rows = {
        "new": "tasks new, offers in sentences not said in them before",
        "random": "tasks new, the agent says ten words that nobody ever said",
        "known": "the first ones said again",
    }
    found = [
        Measurement.of(f"{key}_{row}", title, f"{words}, {more}", median(speeds[row][1:]), "episodes/s")
        for row, more in rows.items()
    ]
    package = package_rate(waves < 9)
    if package is not None:
        words = "the sotopia package, scripted people, without a judge"
        found.append(Measurement.of(f"{key}_package", title, words, package, "episodes/s", ours=False))
    return found


def record_commands(envs: VectorEnv, first: int) -> list[list[str]]:
    """Return the commands of a tireless player in the tasks from an index on, one list per step."""
    player, plan = Tireless(), list[list[str]]()
    singles = envs.unwrapped.envs  # type: ignore[attr-defined]
    envs.reset(options=_indices(first))  # type: ignore[arg-type]  # per sub-environment
    for _ in range(TURNS // 2):
        plan.append([write(act) for act in player.act([env.world.view(0) for env in singles])])
        envs.step(plan[-1])
    return plan


def random_commands(first: int) -> list[list[str]]:
    """Return utterances of ten words, each of which is said only once, for the tasks from an index on."""
    rng, letters = np.random.default_rng(first), list("abcdefghijklmnopqrstuvwxyz")

    def sentence(number: int) -> str:
        words = ["".join(word) for word in rng.choice(letters, (9, 7))]
        return f"{' '.join(words)} x{first}y{number}."

    return [[write(Act("speak", sentence(step * NUM_ENVS + i))) for i in range(NUM_ENVS)] for step in range(TURNS // 2)]


def play_dialogues(envs: VectorEnv, plan: Sequence[list[str]], first: int) -> Speed:
    """Return dialogues per processor second, in the tasks from an index on; all must take all turns."""
    infos: dict[str, Any] = {}
    watch = Stopwatch()
    watch.time(envs.reset, options=_indices(first))
    for commands in plan:
        *_, infos = watch.time(envs.step, commands)
    if not ((infos["turn"] == TURNS) & ~infos["unscored"]).all():
        raise RuntimeError(f"dialogues of {sorted(set(infos['turn']))} turns were measured, not of {TURNS}")
    return watch.speed(envs.num_envs)


def _indices(first: int) -> list[dict[str, int]]:
    return [{"index": first + i} for i in range(NUM_ENVS)]


def measure_endpoint(config: SpeedConfig, part: str, folder: Path) -> Part:
    """Play dialogues against a stub endpoint on loopback; the first round, which opens connections, is not timed."""
    dialogues, delay, turns, repeats = (config.options[name] for name in ("dialogues", "delay", "turns", "repeats"))
    scores = {name: ["", highest] for name, (_, highest) in DIMENSIONS.items()}
    verdict = json.dumps({"evaluations": {"agent_1": scores, "agent_2": scores}})
    reply = write(Act("speak", "I see. Tell me more about it, and I will think it over."))
    title = f"{turns} turns and a verdict, {delay * 1000:g} ms an answer"
    found = []
    with stub_endpoint(delay, {"You play": reply, "You judge": verdict}) as url:
        for key, number in (("one", 1), ("many", dialogues)):
            options: dict[str, Any] = {
                "partner": ModelPlayer.at(f"stub@{url}", concurrency=dialogues),
                "judge": ModelJudge.at(f"stub@{url}", concurrency=dialogues), "max_turns": turns,
            }  # fmt: skip
            envs = gym.make_vec("AgentRL/SOTOPIA-v0", number, autoreset_mode="Disabled", **options)
            rounds = [_play(envs, seed) for seed in range(repeats + 1)][1:]
            clock, processor = (statistics.median(column) for column in zip(*rounds, strict=True))
            words = "one dialogue" if number == 1 else f"{number} at a time"
            found.append(Measurement(key, title, words, number > 1, clock, "s"))
    found.append(Measurement("processor", title, f"{words}, of the processor", True, processor, "s"))
    return Part(found)


def _play(envs: gym.vector.VectorEnv, seed: int) -> tuple[float, float]:
    command = write(Act("speak", "Let me think about what you said."))
    begin, worked = time.perf_counter(), time.process_time()
    envs.reset(seed=seed)
    over = False
    while not over:
        _, _, terminated, truncated, infos = envs.step([command] * envs.num_envs)
        over = bool((terminated | truncated).all())
    if infos["unscored"].any():
        raise RuntimeError(f"an episode was not scored: {next(filter(None, infos['failure']))}")
    return time.perf_counter() - begin, time.process_time() - worked


def configure(
    dialogues: Annotated[int, typer.Option(min=2, help="Dialogues at a time.")] = 128,
    delay: Annotated[float, typer.Option(min=0.0, help="Seconds of each answer of the endpoint.")] = 0.2,
    turns: Annotated[int, typer.Option(min=2, help="Turns of a dialogue, half of them the partner's.")] = 20,
    repeats: Annotated[int, typer.Option(min=1, help="Rounds whose median counts.")] = 3,
    quick: Annotated[bool, typer.Option("--quick", help="Four short dialogues; for CI.")] = False,
) -> SpeedConfig:
    """Time SOTOPIA with models as partner and judge, behind a stub endpoint: one dialogue, and many at a time."""
    sizes = (4, 0.01, 4, 1) if quick else (dialogues, delay, turns, repeats)
    return SpeedConfig(["dialogues"], dict(zip(("dialogues", "delay", "turns", "repeats"), sizes, strict=True)))


STUDY = speed_study(
    "endpoint", "Many dialogues at a time with models behind an endpoint", configure, measure_endpoint,
    [Comparison("many", "one", "one dialogue / many at a time, in seconds")],
)  # fmt: skip
