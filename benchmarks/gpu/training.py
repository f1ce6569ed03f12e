"""Iterations of the trainer with a model of random weights: seconds, memory and tokens of every stage."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
import torch

import agentgym  # noqa: F401  # registers the environments
from agentgym.trajectory import StepTable
from baselines.batch import make_batch
from baselines.config import Checkpoints, Loss, Memory, TrainerConfig, Validation
from baselines.environments.settings import tasks
from baselines.evaluation import evaluate
from baselines.metrics import Row
from baselines.recipes import recipe
from baselines.trainer import Trainer
from baselines.utilisation import PeakMemory
from benchmarks.gpu.results import Sizes, Success
from benchmarks.gpu.shapes import Shape
from benchmarks.statistics import wilson_interval
from policies.huggingface import HuggingFacePolicy
from policies.scoring import TokenScores
from policies.scoring.packed import merge_chains
from wrappers.reply import VectorReplyParser
from wrappers.transcript import VectorTranscript

#: Weights of a correction are clipped here.
_TIS = 2.0
_SEED = 0


@dataclass
class Watch:
    """What one iteration does besides what its row says.

    Attributes:
        scoring: seconds of passes without gradients (old and reference log-probabilities).
        memory: figures of `baselines.utilisation.PeakMemory` for them.
        passes: forward passes with gradients.
        tokens: of those, padding included.
    """

    scoring: float = 0.0
    memory: dict[str, float] = field(default_factory=dict)
    passes: int = 0
    tokens: int = 0


class WatchedPolicy(HuggingFacePolicy):
    """A policy that notes its scoring passes in `watch`; copies of it note theirs in the same place."""

    watch = Watch()

    @classmethod
    def over(cls, policy: HuggingFacePolicy) -> WatchedPolicy:
        """Return a watched policy over the same model, tokenizer and settings."""
        watched = cls(policy.model, policy.tokenizer, autocast=policy.precision, **vars(policy.settings))
        watched.watch = Watch()
        return watched

    def score(
        self, prompts: Sequence[Sequence[int]], replies: Sequence[Sequence[int]], *arguments: Any, **options: Any
    ) -> TokenScores:
        """Score as a policy does."""
        if torch.is_grad_enabled():
            return super().score(prompts, replies, *arguments, **options)
        begin = time.perf_counter()
        memory = PeakMemory(self.device)
        found = super().score(prompts, replies, *arguments, **options)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        memory.end("scoring")
        for name, value in memory.figures.items():
            self.watch.memory[name] = max(value, self.watch.memory.get(name, 0.0))
        self.watch.scoring += time.perf_counter() - begin
        return found


@dataclass(frozen=True)
class Measured:
    """One measured iteration: the trainer's row, what was watched, and what it was trained on.

    Attributes:
        row: of the trainer.
        watch: of the policy.
        prompt_tokens, reply_tokens: of all steps.
        rows: distinct rows of the batch.
        lengths: tokens of each chain that went through the update.
    """

    row: Row
    watch: Watch
    prompt_tokens: int
    reply_tokens: int
    rows: int
    lengths: list[int]


def make_envs(shape: Shape, sizes: Sizes, places: int) -> Any:
    """Return Sokoban in conversations, `places` side by side."""
    envs = gym.make_vec(
        "AgentRL/Sokoban-v0", places, autoreset_mode="Disabled", max_episode_steps=sizes.turns
    )  # fmt: skip
    return VectorTranscript(VectorReplyParser(envs), instructions=shape.instructions)


def trainer_config(shape: Shape, sizes: Sizes) -> TrainerConfig:
    """Return the trainer's settings: everything that costs time or memory is on."""
    return TrainerConfig(
        iterations=sizes.warmup + sizes.iterations,
        groups=sizes.groups,
        group_size=sizes.group_size,
        learning_rate=1e-5 if shape.rank else 1e-6,
        seed=_SEED,
        memory=Memory(microbatch_tokens=sizes.tokens, activation_checkpointing=True),
        loss=Loss(reference="bfloat16", old_logprobs="recompute", tis=_TIS),
        validation=Validation(every=0),
        checkpoint=Checkpoints(every=0),
    )


def run_training(
    policy: WatchedPolicy, shape: Shape, sizes: Sizes, report: Callable[[int, int], None]
) -> tuple[list[Measured], Success]:
    """Train, and return the measured iterations and the success on held-out tasks.

    Args:
        policy: changed in place.
        shape: of its model.
        sizes: what is measured.
        report: called with finished iterations and their number.
    """
    config = trainer_config(shape, sizes)
    found: list[Measured] = []

    def note(trainer: Trainer, table: StepTable | None, row: Row) -> None:
        if table is not None and trainer.advantages is not None:
            scored = make_batch(
                table, trainer.advantages, weighting=config.loss.weighting, keep_zero=config.loss.keep_zero
            )
            batch = scored.kept()
            replies = [] if table.replies is None else list(table.replies)
            chains = merge_chains(batch.prompts, batch.replies)
            found.append(
                Measured(
                    row, policy.watch, sum(len(one.prompt_ids) for one in replies),
                    sum(len(one.token_ids) for one in replies), len(batch), [len(chain.tokens) for chain in chains],
                )
            )  # fmt: skip
            report(len(found), config.iterations)
        policy.watch = Watch()
        # The reference is a copy of the policy: it has to note where the policy does.
        reference = trainer.learner.reference
        if isinstance(reference, WatchedPolicy):
            reference.watch = policy.watch

    def count(_: torch.nn.Module, __: tuple[Any, ...], given: Mapping[str, Any]) -> None:
        if torch.is_grad_enabled():
            policy.watch.passes += 1
            policy.watch.tokens += given["input_ids"].numel()

    places = sizes.groups * sizes.group_size
    hook = policy.model.register_forward_pre_hook(count, with_kwargs=True)
    try:
        with warnings.catch_warnings():
            # Random weights write no commands: every action is refused, and the places wait out their turns.
            warnings.filterwarnings("ignore", message=".*refused every action.*")
            envs = make_envs(shape, sizes, places)
            trainer = Trainer(policy, envs, recipe("rewardflow"), tasks("train", 4 * sizes.groups), config)
            trainer.run(note)
            envs = make_envs(shape, sizes, min(places, sizes.held_out))
            played = evaluate(envs, policy, tasks("test", sizes.held_out), seed=_SEED, temperature=0.0)
    finally:
        hook.remove()
    won = float(np.sum(played.success))
    interval = wilson_interval(won, sizes.held_out)
    return found[sizes.warmup :], Success(interval.mean, interval.low, interval.high, sizes.held_out)
