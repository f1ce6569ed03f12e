"""Trainers of others, for more than one GPU: each file takes finished per-token advantages to one engine."""

import importlib.metadata
from typing import Any

import gymnasium as gym

from agentgym.outside.packages import install
from baselines.recipes.definition import Recipe
from wrappers import VectorPromptWindow, VectorReplyParser, VectorTranscript
from wrappers.tools import reading

#: The method of a run that names none.
METHOD = "rewardflow"


def check_release(package: str, tested: str) -> None:
    """Raise RuntimeError unless the installed release of an engine is the tested one: their hooks change."""
    found = importlib.metadata.version(package)
    if not f"{found}.".startswith(f"{tested}."):
        raise RuntimeError(f"tested with {package} {tested}, found {found}: {install(package)}")


def check_credit(credit: Recipe) -> None:
    """Raise ValueError where a method needs what an engine's batches do not have: a scorer, groups played again."""
    if credit.score_level is not None or "rollout.resample_rounds" in credit.training:
        raise ValueError(f"{credit.name} needs a scorer or plays groups again: use baselines.trainer.Trainer")


def prompting(env: str, places: int, *, transcript: bool = True, **options: Any) -> gym.vector.VectorEnv[Any, Any, Any]:
    """Make a registered environment that shows transcripts, or windows, and reads replies, or calls of its tools."""
    made = gym.make_vec(env, num_envs=places, autoreset_mode="Disabled", **options)
    envs = VectorReplyParser(made, **reading(made))
    return VectorTranscript(envs) if transcript else VectorPromptWindow(envs)
