"""`speed lanes`: what lanes of sub-environments gain over lock-step where replies differ in length.

Episodes have 5 to 30 turns. Decoding is on a computed clock, on which a step of a batch takes the time to read weights
and key-value cache once, as in a memory-bound engine; or it is a stub endpoint's, in seconds of the wall clock.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from agentgym.core import TextEnv, TextSpace
from agentgym.outside.chat.endpoint import ChatEndpoint
from agentgym.rollout import Policy
from agentgym.rollout.lanes import collect_lanes
from agentgym.trajectory import Reply
from agentgym.vector import TextVectorEnv
from benchmarks.speed.record import Measurement, Part, SpeedConfig, speed_study
from benchmarks.speed.stub_endpoint import stub_endpoint
from policies.engines.chat_api import ChatPolicy

#: Bytes of weights and of a token's keys and values in 16 bits: Qwen2.5, 28 layers, 2 and 4 key-value heads of 128.
MODELS: Mapping[str, tuple[float, float]] = {"1.5B": (3.1e9, 28672.0), "7B": (15.2e9, 57344.0)}
#: Bytes per second of an H100's memory, and tokens of a prompt.
BANDWIDTH, PROMPT = 3.35e12, 1000
#: Mean, standard deviation and limit of a reply, in tokens.
REPLY = 150.0, 120.0, 512
TURNS = 5, 30
SECONDS, RATIOS = "seconds of the same episodes", "times as fast as lock-step"


class CountdownEnv(TextEnv[str]):
    """Ends after a number of turns that its seed draws."""

    instructions = "Say anything."
    OPTIONS = ("index",)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.observation_space = self.action_space = TextSpace()
        self.task = self.left = 0

    def begin(self, options: dict[str, Any]) -> None:
        self.task = int(options["index"])
        low, high = TURNS
        self.left = low + int(np.random.default_rng(self.task).integers(high - low + 1))

    def act(self, command: str) -> tuple[float, bool, bool]:
        self.left -= 1
        return 0.0, self.left == 0, True

    def observe(self) -> str:
        return f"{self.left} turns are left"

    def describe(self, valid: bool) -> dict[str, Any]:
        return {"task_id": str(self.task), "state_key": str(self.left), "won": False, "is_action_valid": valid}


class CountdownVectorEnv(TextVectorEnv):
    """Its vector form."""

    env_class = CountdownEnv


class Decoding:
    """A policy whose engine writes a token of every reply at hand in the time that its memory takes.

    Each step reads the bytes of the weights, and `per_token` of each token before. `seconds` are on its clock.
    """

    def __init__(self, weights: float, per_token: float) -> None:
        self._weights, self._per_token = weights, per_token
        self.seconds = 0.0
        self._going: dict[int, list[int]] = {}  # tokens to go and tokens before, by name

    def act(
        self, observations: Sequence[Any], infos: Mapping[str, NDArray[Any]], rng: np.random.Generator
    ) -> list[Reply]:
        self.put(range(len(observations)), observations, infos, [rng] * len(observations))
        while self._going:
            self.get()
        return [Reply("on")] * len(observations)

    def reply_queue(self) -> Decoding:
        """Return what writes replies one by one: the engine itself."""
        return self

    def put(
        self,
        names: Sequence[int],
        observations: Sequence[Any],
        infos: Mapping[str, NDArray[Any]],
        rngs: Sequence[np.random.Generator],
    ) -> None:
        mean, deviation, limit = REPLY
        for name, rng in zip(names, rngs, strict=True):
            self._going[name] = [int(np.clip(round(rng.normal(mean, deviation)), 1, limit)), PROMPT]

    def get(self) -> list[tuple[int, Reply | Exception]]:
        """Write up to where the shortest reply is done."""
        steps, rows = min(left for left, _ in self._going.values()), len(self._going)
        before = sum(tokens for _, tokens in self._going.values())
        # Step k reads k more tokens of every row than the first one did.
        read = steps * self._weights + self._per_token * (steps * before + rows * steps * (steps - 1) / 2)
        self.seconds += read / BANDWIDTH
        for each in self._going.values():
            each[0] -= steps
            each[1] += steps
        done = [name for name, (left, _) in self._going.items() if not left]
        for name in done:
            del self._going[name]
        return [(name, Reply("on")) for name in done]

    def close(self) -> None:
        self._going.clear()


def play(policy: Policy, episodes: int, places: int, seed: int) -> None:
    """Play the episodes, all side by side, in lanes of so many places."""
    lanes = [CountdownVectorEnv(places, autoreset_mode="Disabled") for _ in range(episodes // places)]
    collect_lanes(lanes, policy, tasks=[{"index": i} for i in range(episodes)], seed=seed)


def measure(config: SpeedConfig, part: str, folder: Path) -> Part:
    """Measure the same episodes by places of a lane."""
    episodes, delay, repeats = (config.options[name] for name in ("episodes", "delay", "repeats"))
    places = sorted({episodes, episodes // 4, 8, 4, 1} - {0}, reverse=True)
    places = [each for each in places if episodes % each == 0]
    if part == "endpoint":
        what, seconds = f"endpoint, {delay * 1000:g} ms", measure_endpoint(episodes, places, delay)
    else:
        what, seconds = f"decoding, {part}", [measure_decoding(part, episodes, each, repeats) for each in places]
    found = []
    for each, spent in zip(places, seconds, strict=True):
        column = f"lock-step, {each}" if each == episodes else f"lanes of {each}"
        found.append(Measurement(f"{part}_{each}", SECONDS, what, each != episodes, spent, "s", column=column))
        found.append(Measurement(f"{part}_{each}_ratio", RATIOS, what, True, seconds[0] / spent, "", column=column))
    return Part(found)


def measure_decoding(model: str, episodes: int, places: int, repeats: int) -> float:
    """Return the mean seconds of an engine's clock."""
    policy = Decoding(*MODELS[model])
    for seed in range(repeats):
        play(policy, episodes, places, seed)
    return policy.seconds / repeats


def measure_endpoint(episodes: int, places: Sequence[int], delay: float) -> list[float]:
    """Return seconds of the wall clock with an endpoint of this mean delay, its deviation in proportion."""
    seconds = []
    with stub_endpoint(delay, {"": "on"}, deviation=delay * REPLY[1] / REPLY[0]) as url:
        policy = ChatPolicy(ChatEndpoint("stub", url, concurrency=episodes))
        policy.act(["warm up"] * episodes, {}, np.random.default_rng(0))  # opens the connections
        for each in places:
            begin = time.perf_counter()
            play(policy, episodes, each, 0)
            seconds.append(time.perf_counter() - begin)
    return seconds


def configure(
    episodes: Annotated[int, typer.Option(min=8, help="Side by side; a multiple of 8.")] = 128,
    delay: Annotated[float, typer.Option(min=0.0, help="Mean seconds of the stub's answers; 0: no stub.")] = 0.1,
    repeats: Annotated[int, typer.Option(min=1, help="Rounds of the computed clock.")] = 5,
    quick: Annotated[bool, typer.Option("--quick", help="Eight episodes; for CI.")] = False,
) -> SpeedConfig:
    """Compare lanes with lock-step at replies of 150 +- 120 tokens: a computed engine, and a stub endpoint."""
    episodes, repeats = (8, 1) if quick else (episodes, repeats)
    options = {"episodes": episodes, "delay": delay, "repeats": repeats}
    return SpeedConfig([*MODELS, *(["endpoint"] if delay else [])], options)


STUDY = speed_study("lanes", "Lanes and lock-step", configure, measure)
