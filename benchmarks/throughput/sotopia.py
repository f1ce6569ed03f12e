"""SOTOPIA dialogues of twenty turns per second, offline: rules as partner and as judge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

import agentgym  # noqa: F401  # registers the environments
from agentgym.sotopia.acts import NONE, Act, write
from agentgym.sotopia.dialogue import View
from agentgym.sotopia.games.game import DealSide
from agentgym.sotopia.generated import generate
from agentgym.sotopia.players import Temperament, play_deal
from benchmarks.throughput.sotopia_package import package_rate
from benchmarks.throughput.timing import Measurement, Speed, Stopwatch, median

ENV = "AgentRL/SOTOPIA-v0"
SECTION = "dialogues"
TURNS = 20
_NUM_ENVS = 128
_WORDS = 10
#: Games in which two can talk on without end.
_FAMILIES = ("bargain", "divide", "schedule")


class Tireless:
    """A partner by rules that makes one offer after the other, and neither accepts nor leaves."""

    _TEMPER = Temperament(start=0.0, floor=99.0, give=0.0, patience=TURNS)

    def act(self, views: Sequence[View]) -> list[Act]:
        """Return one act per view."""
        return [play_deal(view, _side(view), self._TEMPER) if len(view.kinds) > 1 else NONE for view in views]


def _side(view: View) -> DealSide:
    assert isinstance(view.private, DealSide)
    return view.private


def measure_dialogues(quick: bool) -> list[Measurement]:
    """Whole dialogues of twenty turns per second, with restart, partner and judge."""
    waves = 3 if quick else 9
    envs = gym.make_vec(
        ENV, _NUM_ENVS, autoreset_mode="Disabled", partner=Tireless(), families=_FAMILIES, max_turns=TURNS
    )
    speeds: dict[str, list[Speed]] = {"new": [], "random": [], "known": []}
    for wave in range(waves + 1):  # one more, which reads the code in
        first = wave * _NUM_ENVS
        plan = record_commands(envs, first)
        generate.cache_clear()  # what a task's game remembers of its dialogues goes with the task
        speeds["new"].append(play(envs, plan, first))
        speeds["known"].append(play(envs, plan, first))
        generate.cache_clear()
        speeds["random"].append(play(envs, random_commands(first), first))
    words = f"whole dialogues of {TURNS} turns, {_NUM_ENVS} envs, partner and judge by rules"
    rows = {
        "new": "tasks new, offers in sentences not said in them before",
        "random": "tasks new, the agent says ten words that nobody ever said",
        "known": "the first ones said again",
    }
    found = [
        Measurement.of_speed(
            f"dialogues_{key}", SECTION, f"{words}, {more}", True, median(speeds[key][1:]), "episodes/s"
        )
        for key, more in rows.items()
    ]
    package = package_rate(quick)
    if package is not None:
        words = "the sotopia package, scripted people, without a judge"
        found.append(Measurement("dialogues_package", SECTION, words, False, package, "episodes/s"))
    return found


def record_commands(envs: gym.vector.VectorEnv[Any, Any, Any], first: int) -> list[list[str]]:
    """Return the commands of a tireless player in the tasks from an index on, one list per step."""
    player = Tireless()
    singles = envs.unwrapped.envs  # type: ignore[attr-defined]
    envs.reset(options=_tasks(first))  # type: ignore[arg-type]  # per sub-environment
    plan = []
    for _ in range(TURNS // 2):
        acts = player.act([env.world.view(0) for env in singles])
        plan.append([write(act) for act in acts])
        envs.step(plan[-1])
    return plan


def random_commands(first: int) -> list[list[str]]:
    """Return utterances of ten words, each of which is said once only, for the tasks from an index on."""
    rng = np.random.default_rng(first)
    letters = list("abcdefghijklmnopqrstuvwxyz")

    def sentence(number: int) -> str:
        words = ["".join(word) for word in rng.choice(letters, (_WORDS - 1, 7))]
        return f"{' '.join(words)} x{first}y{number}."

    return [
        [write(Act("speak", sentence(step * _NUM_ENVS + i))) for i in range(_NUM_ENVS)] for step in range(TURNS // 2)
    ]


def play(envs: gym.vector.VectorEnv[Any, Any, Any], plan: Sequence[list[str]], first: int) -> Speed:
    """Return dialogues per processor second, in the tasks from an index on.

    Raises:
        RuntimeError: when a dialogue did not take all its turns, so that something else was measured.
    """
    infos: dict[str, Any] = {}
    watch = Stopwatch()
    watch.time(envs.reset, options=_tasks(first))
    for commands in plan:
        *_, infos = watch.time(envs.step, commands)
    if not ((infos["turn"] == TURNS) & ~infos["unscored"]).all():
        raise RuntimeError(f"dialogues of {sorted(set(infos['turn']))} turns were measured, not of {TURNS}")
    return watch.speed(envs.num_envs)


def _tasks(first: int) -> list[dict[str, int]]:
    return [{"index": first + i} for i in range(_NUM_ENVS)]
