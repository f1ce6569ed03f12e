"""What a branch costs behind all wrappers, beside what it takes without snapshots: to play its beginning once more.

The stack is the one that language models are trained in: reply parser, penalty, state keys, shaping and prompts (or a
transcript) around 128 sub-environments with a time limit. A branch is `fork`: snapshot and restore. The same state is
reached by a reset and the replies so far in a stack of one sub-environment, which is quicker than a step of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np

import agentgym  # noqa: F401  # registers the environments
from benchmarks.throughput.timing import Measurement, best_milliseconds
from wrappers import (
    CanonicalStates,
    VectorGraphShaping,
    VectorInvalidActionPenalty,
    VectorPromptWindow,
    VectorReplyParser,
    VectorTranscript,
    observation_key,
)

NUM_ENVS = 128
SECTION = "branches"
#: Environments, their options, and the steps before the branch.
WORLDS: dict[str, tuple[str, dict[str, Any], int]] = {
    "sokoban": ("AgentRL/Sokoban-v0", {}, 10),
    "alfworld": ("AgentRL/ALFWorld-v0", {"data": "generated"}, 10),
    "virtualhome": ("AgentRL/VirtualHome-v0", {}, 10),
    "webshop": ("AgentRL/WebShop-v0", {}, 6),
    "searchqa": ("AgentRL/SearchQA-v0", {}, 3),
    "sotopia": ("AgentRL/SOTOPIA-v0", {}, 4),
}


#: What is measured: a world, and what a policy is shown of it.
FORMS = (*((world, "prompts") for world in WORLDS), ("alfworld", "transcript"))


def make_stack(world: str, form: str, num_envs: int) -> Any:
    """Return the stack around so many sub-environments of a world."""
    name, options, _ = WORLDS[world]
    envs: Any = gym.make_vec(name, num_envs, autoreset_mode="Disabled", max_episode_steps=50, **options)
    envs = VectorInvalidActionPenalty(VectorReplyParser(envs))
    envs = VectorGraphShaping(CanonicalStates(envs, key=observation_key), gamma=0.99)
    return VectorTranscript(envs) if form == "transcript" else VectorPromptWindow(envs)


def beginning(envs: Any, steps: int) -> tuple[int, list[str]]:
    """Return a seed and the replies of an episode of sub-environment 0 that still runs after so many steps."""
    for seed in range(1000):
        rng, over = np.random.default_rng(seed), np.zeros(envs.num_envs, np.bool_)
        _, infos = envs.reset(seed=[seed] * envs.num_envs)
        replies: list[str] = []
        while len(replies) < steps and not over[0]:
            commands = infos["admissible_actions"][0]
            command = commands[rng.integers(len(commands))]
            replies.append(command if command.startswith("<") else f"<action>{command}</action>")
            _, _, terminated, truncated, infos = envs.step(["" if done else replies[-1] for done in over])
            over |= terminated | truncated
        if not over[0]:
            return seed, replies
    raise RuntimeError(f"no episode of {envs} takes {steps} steps of random commands")


def replay(envs: Any, seed: int, replies: Sequence[str]) -> Any:
    """Reach a state by playing its episode from the beginning, in a stack of one; return what is shown."""
    observations = envs.reset(seed=[seed])[0]
    for reply in replies:
        observations = envs.step([reply])[0]
    return observations


def measure_branches(quick: bool) -> list[Measurement]:
    """Milliseconds of a branch, of many at once, and of the beginning played again."""
    repeats = 200 if quick else 1000
    found = []
    for world, form in FORMS:
        envs, alone = (make_stack(world, form, count) for count in (NUM_ENVS, 1))
        steps, others = WORLDS[world][2], range(1, NUM_ENVS)
        seed, replies = beginning(envs, steps)
        one = best_milliseconds(partial(envs.fork, 0, 1), repeats)
        every = best_milliseconds(partial(envs.fork, 0, others), repeats // 10) / len(others)
        again = best_milliseconds(partial(replay, alone, seed, replies), repeats // 10)
        words, key = f"{world}, {form}", f"branches_{world}_{form}"
        for name, what, ours, spent in (
            ("one", f"{words}: a branch, {NUM_ENVS} envs", True, one),
            ("each", f"{words}: each of {len(others)} at once", True, every),
            ("again", f"{words}: reset and {steps} steps, 1 env", False, again),
        ):
            found.append(Measurement(f"{key}_{name}", SECTION, what, ours, spent, "ms"))
    return found
