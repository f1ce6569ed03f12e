"""Stable-Baselines3's PPO on symbolic Sokoban: the effect of graph shaping on an unmodified learner.

The environments are plain Gymnasium, so this file is short: it builds them, calls the library, and asks now and then
how many levels greedy play solves. Needs the extra `sb3`.
"""

import contextlib
import io
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agentgym.checks import fields_checked
from agentgym.outside.packages import install
from baselines.sb3.sokoban import Levels, Reward, solved, training_env
from wrappers.credit.task_graph import TaskGraphs

#: Called with (steps done, steps in all, a few words).
Progress = Callable[[int, int, str], None]


@fields_checked
@dataclass(frozen=True)
class SB3Config:
    """Numbers of a training; two trainings with the same config, reward and seed are the same (on one machine).

    Attributes:
        steps: environment steps, a multiple of `evaluate_every`.
        evaluate_every: environment steps between evaluations, a multiple of `num_envs * rollout_steps`.
        gamma: discount, of the learner and of the shaping.
        gae_lambda: of generalised advantage estimation.
        layers: widths of the hidden layers, of policy and value function.
        decay: of the shaping, see `GraphShaping`.
    """

    levels: Levels = field(default_factory=Levels)
    steps: int = 122_880
    evaluate_every: int = 8_192
    num_envs: int = 32
    rollout_steps: int = 32
    batch_size: int = 256
    epochs: int = 4
    learning_rate: float = 1e-3
    gamma: float = 0.97
    gae_lambda: float = 0.8
    entropy: float = 0.03
    layers: list[int] = field(default_factory=lambda: [128, 128])
    decay: float = 0.9
    scale: float = 1.0

    def __post_init__(self) -> None:
        rollout = self.num_envs * self.rollout_steps
        if self.evaluate_every % rollout or self.steps % self.evaluate_every:
            raise ValueError(
                f"steps ({self.steps}) must be a multiple of evaluate_every ({self.evaluate_every}), and that of "
                f"num_envs * rollout_steps ({rollout}): the library trains on whole rollouts"
            )


@dataclass(frozen=True)
class Point:
    """One evaluation.

    Attributes:
        steps: environment steps trained before it.
        seconds: wall seconds of training before it, evaluations not counted.
        training: greedy success on the training levels, one character "0" or "1" per level.
        held_out: the same on the held-out levels.
        known: number of training levels for which the graph contains a path to success; 0 without shaping.
        states: states in the graph; 0 without shaping.
    """

    steps: int
    seconds: float
    training: str
    held_out: str
    known: int
    states: int


@dataclass(frozen=True)
class Training:
    """What `train` returns: the evaluations, the library's model, and the graph of the shaping."""

    points: list[Point]
    model: Any
    graphs: TaskGraphs


def train(
    config: SB3Config, reward: Reward, seed: int, progress: Progress = lambda done, total, words: None
) -> Training:
    """Train PPO, evaluating before the first step and every `evaluate_every` steps.

    Greedy evaluation draws no random numbers, so how often it happens does not change what is learned.

    Args:
        reward: "own", "success" or "shaped", see `baselines.sb3.sokoban`.
        seed: of weights, tasks, actions and mini-batches. The library seeds the global generators of Python, numpy
            and torch with it.

    Raises:
        ImportError: Stable-Baselines3 is not installed.
    """
    ppo, vector = _library()
    graphs = TaskGraphs()

    def make() -> Any:
        return training_env(
            config.levels, reward, gamma=config.gamma, decay=config.decay, scale=config.scale, graphs=graphs
        )

    model = ppo(
        "MlpPolicy", vector([make] * config.num_envs), seed=seed, device="cpu", n_steps=config.rollout_steps,
        batch_size=config.batch_size, n_epochs=config.epochs, learning_rate=config.learning_rate, gamma=config.gamma,
        gae_lambda=config.gae_lambda, ent_coef=config.entropy, policy_kwargs={"net_arch": list(config.layers)},
    )  # fmt: skip

    def greedy(observations: Any) -> Any:
        return model.predict(observations, deterministic=True)[0]

    points: list[Point] = []
    seconds = 0.0
    while True:
        levels = config.levels
        point = Point(
            int(model.num_timesteps), seconds, solved(levels, "train", levels.training, greedy),
            solved(levels, "test", levels.held_out, greedy), graphs.n_solved, graphs.n_nodes,
        )  # fmt: skip
        points.append(point)
        progress(point.steps, config.steps, f"solves {point.training.count('1')} of {levels.training} levels")
        if point.steps >= config.steps:
            return Training(points, model, graphs)
        started = time.perf_counter()
        model.learn(config.evaluate_every, reset_num_timesteps=False)
        seconds += time.perf_counter() - started


def _library() -> tuple[Any, Any]:
    try:
        # It also imports the old gym where that is installed, which prints an advertisement of its successor.
        with contextlib.redirect_stderr(io.StringIO()):
            from stable_baselines3 import PPO
            from stable_baselines3.common.vec_env import DummyVecEnv
    except ImportError as error:
        raise ImportError(f"Stable-Baselines3 is not installed: {install('sb3')}") from error
    return PPO, DummyVecEnv
