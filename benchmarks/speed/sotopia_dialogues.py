"""Speed of whole dialogues of SOTOPIA, offline: partner and judge by rules."""

from collections.abc import Sequence
from typing import Any, cast

import gymnasium as gym
import numpy as np

import agentgym  # noqa: F401  # registers the environments
from agentgym.outside.dialogue import NONE, Act, View, write
from agentgym.sotopia.games.game import DealSide
from agentgym.sotopia.generated import generate
from agentgym.sotopia.players import Temperament, play_deal
from benchmarks.speed.record import Measurement
from benchmarks.speed.timing import Speed, Stopwatch, VectorEnv, median

NUM_ENVS = 128
#: Turns of SOTOPIA's dialogues; games in which two can talk on without end.
TURNS, FAMILIES = 20, ("bargain", "divide", "schedule")


class Tireless:
    """A rule-based partner that makes offers, and neither accepts nor leaves."""

    _TEMPER = Temperament(start=0.0, floor=99.0, give=0.0, patience=TURNS)

    def act(self, views: Sequence[View]) -> list[Act]:
        return [
            play_deal(view, cast(DealSide, view.private), self._TEMPER) if len(view.kinds) > 1 else NONE
            for view in views
        ]


def make_dialogues() -> VectorEnv:
    """Return dialogues with such a partner."""
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
        "new": "new tasks, offers in new sentences",
        "random": "new tasks, new utterances of ten words",
        "known": "the first ones repeated",
    }
    return [
        Measurement.of(f"{key}_{row}", title, f"{words}, {more}", median(speeds[row][1:]), "episodes/s")
        for row, more in rows.items()
    ]


def record_commands(envs: VectorEnv, first: int) -> list[list[str]]:
    """Return the commands of such a player in the tasks from an index on, one list per step."""
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
