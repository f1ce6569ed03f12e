"""`endpoint`: what many dialogues at a time cost over one, when partner and judge are models behind an endpoint."""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import gymnasium as gym
import typer
from rich.console import Console

import agentgym  # noqa: F401  # registers the environments
from agentgym.sotopia.acts import Act, write
from agentgym.sotopia.dialogue import DIMENSIONS
from agentgym.sotopia.models import ModelJudge, ModelPlayer
from benchmarks.console import save_figures, say
from benchmarks.json_files import encode
from benchmarks.studies.stub_endpoint import stub_endpoint


@dataclass(frozen=True)
class EndpointSpeed:
    """Seconds of whole dialogues, judged; medians.

    Attributes:
        delay: seconds of the endpoint's answer.
        turns: of a dialogue, half of them the partner's.
        dialogues: how many at a time.
        one: seconds of a dialogue alone.
        many: seconds of all dialogues at a time.
        processor: seconds of this process's processor time for all of them.
    """

    delay: float
    turns: int
    dialogues: int
    one: float
    many: float
    processor: float

    @property
    def ratio(self) -> float:
        """How much longer many take than one."""
        return self.many / self.one


def measure_endpoint(dialogues: int, delay: float, turns: int, repeats: int) -> EndpointSpeed:
    """Play dialogues against a stub endpoint on loopback; the first round, which opens connections, is not timed.

    Raises:
        RuntimeError: when an episode was not scored.
    """
    scores = {name: ["", highest] for name, (_, highest) in DIMENSIONS.items()}
    verdict = json.dumps({"evaluations": {"agent_1": scores, "agent_2": scores}})
    reply = write(Act("speak", "I see. Tell me more about it, and I will think it over."))
    with stub_endpoint(delay, {"You play": reply, "You judge": verdict}) as url:
        name = f"stub@{url}"
        timed = []
        for number in (1, dialogues):
            envs = gym.make_vec(
                "AgentRL/SOTOPIA-v0",
                num_envs=number,
                partner=ModelPlayer.at(name, concurrency=dialogues),
                judge=ModelJudge.at(name, concurrency=dialogues),
                max_turns=turns,
                autoreset_mode="Disabled",
            )
            rounds = [_play(envs, seed) for seed in range(repeats + 1)][1:]
            timed.append([statistics.median(column) for column in zip(*rounds, strict=True)])
    (one, _), (many, processor) = timed
    return EndpointSpeed(delay, turns, dialogues, one, many, processor)


def _play(envs: gym.vector.VectorEnv, seed: int) -> tuple[float, float]:
    """Play one dialogue in every sub-environment; return seconds on the clock and of the processor."""
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


def endpoint(
    dialogues: Annotated[int, typer.Option(min=2, help="Dialogues at a time.")] = 128,
    delay: Annotated[float, typer.Option(min=0.0, help="Seconds of each answer of the endpoint.")] = 0.2,
    turns: Annotated[int, typer.Option(min=2, help="Turns of a dialogue, half of them the partner's.")] = 20,
    repeats: Annotated[int, typer.Option(min=1, help="Rounds whose median counts.")] = 3,
    out: Annotated[Path | None, typer.Option(help="Also write the figures to this JSON file.")] = None,
) -> None:
    """Time SOTOPIA against a stub of a model's endpoint: how well do many dialogues wait at the same time?"""
    try:
        found = measure_endpoint(dialogues, delay, turns, repeats)
    except ImportError as error:
        raise typer.BadParameter(str(error)) from None
    say(
        Console(),
        f"{turns} turns and a verdict, {delay * 1000:g} ms an answer: one dialogue {found.one:.2f} s, "
        f"{dialogues} at a time {found.many:.2f} s, {found.ratio:.2f} times as long "
        f"({found.processor:.2f} s of the processor)",
    )
    save_figures({**encode(found), "ratio": found.ratio}, out)
