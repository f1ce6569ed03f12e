"""Learner: the trained parts of a run, and their update from one table of rollouts.

StepTable -> costs of replies -> credit -> advantages -> make_batch -> update
                                   |                                     |
                            scorer's scores                       scorer's update
"""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from agentgym.trajectory import Floats, StepTable
from baselines.batch import Batch, make_batch
from baselines.config import TrainerConfig
from baselines.play.reply_costs import cut_off, less_divergence, less_overlong, without_cut_off, written
from baselines.records.metrics import Row
from baselines.scorers.scorer import SHARED_LIMITS, Estimate, StepScorer
from baselines.update import Limits, make_optimizer, sequences, update
from policies.scoring.head import check_finite
from policies.training import frozen, is_exact, memory_explained
from wrappers.credit.forks import refuse_forks

Credit = Callable[[StepTable], NDArray[np.float64]]
#: Number of replies of a probe, largest mean differences by rounding, in nats, and the weight limit after a failure.
_PROBED, _PROBE, _PROBE_IN_16_BITS, _TIS = 8, 1e-3, 0.25, 2.0


@dataclasses.dataclass(frozen=True, eq=False)
class Lesson:
    """Result of an update from one table.

    Attributes:
        table: the table that was trained on, with the costs of replies subtracted from its rewards.
        advantages: float64 (N,) or (N, K); nan = not scored, or masked because the reply was cut off.
        figures: entries of the log row, see `baselines.trainer.Trainer`.
        lengths: tokens of each sequence of the update.
    """

    table: StepTable
    advantages: Floats
    figures: Row
    lengths: list[int]
    seconds_credit: float


class Learner:
    """A policy with its optimiser, the frozen start policy if the loss needs it, and a scorer if the credit needs one.

    Raises:
        ValueError: the credit needs scores and makes no scorer, or the given scorer scores another level.
        FloatingPointError: a weight of the policy is not finite; the message names it.
    """

    def __init__(
        self, policy: Any, credit: Credit, config: TrainerConfig, scorer: StepScorer | None = None, envs: Any = None
    ) -> None:
        self.policy = policy
        self.credit = credit
        self.config = config
        self.optimizer = make_optimizer(policy.model, config)
        self.reference: Any = None
        if config.loss.kl > 0:
            self.reference = frozen(policy, None if config.loss.reference == "exact" else torch.bfloat16)
        level = getattr(credit, "score_level", None)
        self.scorer: StepScorer | None = None
        if level is not None:
            self.scorer = scorer or _make_scorer(policy, credit, config, envs)
            if self.scorer.level != level:
                raise ValueError(
                    f"the credit method needs scores of a {level}, {type(self.scorer).__name__} gives those of a "
                    f"{self.scorer.level}: make it with level={level!r}"
                )
        check_finite(policy.model, "the policy's")

    def estimate(self, table: StepTable, iteration: int = 0) -> tuple[Floats, Estimate]:
        """Return the scorer's current scores of a table (None without a scorer), and the credit computed from them."""
        credit: Any = self.credit
        credit = getattr(credit, "at", lambda update: credit)(iteration)
        if self.scorer is None:
            return np.zeros(0), Estimate(credit(table))
        if not getattr(self.scorer, "takes_forks", False):
            refuse_forks(table, f"{type(self.scorer).__name__} reads whole trajectories, give it table.unfolded()[0]")
        scores = self.scorer.scores(table)
        return scores, credit.estimate(table, scores)

    def rate(self, iteration: int, tokens: int = 0) -> float:
        """Return the learning rate of an iteration, counted from 0, after so many reply tokens in those before it."""
        config = self.config
        rate = config.learning_rate
        if config.schedule.shape == "linear":
            spent = 0.0 if config.token_budget is None else tokens / config.token_budget
            rate *= 1.0 - max(iteration / config.iterations, spent)
        warmup = config.schedule.warmup
        return rate * min(1.0, (iteration + 1) / warmup) if warmup else rate

    @torch.no_grad()
    def probe(self, table: StepTable) -> Row:
        """Compare the log-probabilities that came with some replies with the trainer's own, at the same temperature.

        Returns:
            "probe_mean" and "probe_max", differences in nats over the tokens; nothing where replies have none. After a
            failure that `rollout.on_mismatch` answers with weights, "probe_weights" is 1.

        Raises:
            FloatingPointError: the mean is above 0.001, in 16 bits above 0.25, and the run is to stop then.
        """
        config = self.config
        replies: Any = [] if table.replies is None else table.replies
        some = [one for one in replies if one is not None and one.logprobs and one.prompt_ids][:_PROBED]
        if not some:
            return {}
        allowed = {"allowed": [one.allowed for one in some]} if any(one.allowed for one in some) else {}
        prompts, written_tokens = [one.prompt_ids for one in some], [one.token_ids for one in some]
        scores = self.policy.score(prompts, written_tokens, config.temperature, entropy=None, **allowed)
        mine = scores.logprobs[scores.mask].double().cpu().numpy()
        apart = np.abs(mine - np.concatenate([np.asarray(one.logprobs) for one in some]))
        found = {"probe_mean": float(apart.mean()), "probe_max": float(apart.max())}
        limit = _PROBE if is_exact(self.policy) else _PROBE_IN_16_BITS
        if found["probe_mean"] <= limit:
            return found
        if config.rollout.on_mismatch == "stop":
            raise FloatingPointError(
                f"replies were not drawn from the trainer's policy: log-probabilities differ by "
                f"{found['probe_mean']:.2g} nats in the mean over {len(mine)} tokens (largest "
                f"{found['probe_max']:.2g}), at most {limit:g} is rounding. Usual causes: a sampler with older weights,"
                " another temperature or template. rollout.on_mismatch='weights' trains on with importance weights"
            )
        self.weigh()
        return found | {"probe_weights": 1.0}

    def weigh(self) -> None:
        """Recompute log-probabilities from now on, and correct for the sampler's by importance weights."""
        tis = self.config.loss.tis or _TIS
        self.config = self.config.changed(**{"loss.old_logprobs": "recompute", "loss.tis": tis})

    def learn(self, table: StepTable, iteration: int, rng: np.random.Generator, tokens: int = 0) -> Lesson:
        """Train on a table.

        Raises:
            torch.OutOfMemoryError: a pass did not fit; the message names the setting to lower.
        """
        replies = [reply for reply in (() if table.replies is None else table.replies) if reply is not None]
        longest = max((len(reply.prompt_ids) + len(reply.token_ids) for reply in replies), default=0)
        limits = Limits.of(self.policy, self.config.memory)
        with memory_explained(lambda: limits.advice(f"learning from {len(table)} steps", longest)):
            return self._learn(table, iteration, rng, tokens)

    def _learn(self, table: StepTable, iteration: int, rng: np.random.Generator, tokens: int) -> Lesson:
        config, begin = self.config, time.perf_counter()
        table, figures = self._costed(table)
        rate = self.rate(iteration, tokens)
        begun = time.perf_counter()
        if self.scorer is not None and self.scorer.order == "before":
            figures |= self.scorer.update(table, self.scorer.scores(table), None, rng, rate)
        scores, estimate = self.estimate(table, iteration)
        scoring = time.perf_counter() - begun
        advantages = estimate.advantages
        if config.rollout.overlong == "mask":
            advantages = np.where(
                cut_off(table) if advantages.ndim == 1 else cut_off(table)[:, None], np.nan, advantages
            )
        credited = time.perf_counter()
        informed: Any = getattr(self.scorer, "informed", None) if config.loss.distillation.weight else None
        batch = make_batch(
            table, advantages, weighting=config.loss.weighting, keep_zero=config.loss.keep_zero,
            informed=() if informed is None else informed(table),
        )  # fmt: skip
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        learned = update(
            self.policy, self.optimizer, batch, config, rng, self.reference if config.loss.needs_start else None,
            getattr(self.scorer, "teacher", None),
        )  # fmt: skip
        begun = time.perf_counter()
        if self.scorer is not None and self.scorer.order == "after":
            learned |= self.scorer.update(table, scores, estimate.targets, rng, rate)
        if self.scorer is not None:
            figures["seconds_scorer"] = scoring + time.perf_counter() - begun
        kept = batch.kept()
        figures |= _sizes(table, advantages, batch, kept) | dict(estimate.figures) | {"learning_rate": rate}
        limits = Limits.of(self.policy, config.memory, batch.prompts, batch.replies)
        lengths = [length for length, _ in sequences(kept, limits)]
        return Lesson(table, advantages, learned | figures, lengths, credited - begin)

    def _costed(self, table: StepTable) -> tuple[StepTable, Row]:
        config, figures, rollout = self.config, Row(), self.config.rollout
        played, table = table, written(table)
        if getattr(getattr(self.policy, "settings", None), "truncate", "") == "end-episode":
            figures["prompt_too_long"] = (len(played) - len(table)) / max(played.n_trajectories, 1)
        if rollout.overlong != "keep":
            figures["cut_off"] = float(cut_off(table).mean())
        if rollout.overlong == "drop":
            table = without_cut_off(table)
        if rollout.overlong_buffer:
            limit = self.policy.settings.max_new_tokens
            table = less_overlong(table, limit, rollout.overlong_buffer, rollout.overlong_penalty)
        if config.loss.kl > 0 and config.loss.kl_in == "reward":
            table, figures["kl"] = less_divergence(table, self.policy, self.reference, config)
        return table, figures


def _make_scorer(policy: Any, credit: Any, config: TrainerConfig, envs: Any) -> StepScorer:
    settings = getattr(credit, "scorer", None)
    if settings is None:
        name = getattr(credit, "name", type(credit).__name__)
        raise ValueError(f"{name} needs scores and makes no scorer: pass one, Trainer(..., scorer=...)")
    shared = {name: getattr(config.memory, name) for name in SHARED_LIMITS} | {"temperature": config.temperature}
    shared["microbatch_tokens"] = Limits.of(policy, config.memory).tokens
    filled = dataclasses.replace(settings.filled(**shared), level=credit.score_level)
    return filled.make_in(policy, envs)


def _sizes(table: StepTable, advantages: NDArray[np.float64], batch: Batch, kept: Batch) -> Row:
    scored = np.nan_to_num(advantages) != 0
    return {
        "steps": float(len(table)),
        "rows": float(len(kept)),
        "steps_per_row": batch.raw_rows / max(len(batch), 1),
        "distinct_prompts": float(len(set(kept.prompts))),
        "signal": float(np.mean(scored if scored.ndim == 1 else scored.any(1))) if len(scored) else 0.0,
    }
