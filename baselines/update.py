"""One PPO-style update: several optimiser steps on a batch."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from baselines.batch import Batch
from baselines.config import Memory, TrainerConfig
from baselines.distillation import per_token
from baselines.losses import (
    aggregate,
    cispo,
    clipped_surrogate,
    clipped_weight,
    correction,
    divergence,
    importance_ratio,
    normaliser,
)
from policies.scoring.attention import may_take_runs
from policies.scoring.head import Rows, check_finite, not_finite, rectangles
from policies.scoring.packed import can_pack, has_varlen, merge_chains, rows_per_pass
from policies.scoring.prefix_tree import merge_trees, tree_rows_per_pass
from policies.training import can_recompute, is_exact, memory_explained, on_gpu, recomputed_activations


class Scores(Protocol):
    """Log-probabilities and entropies (n, L) of reply tokens, see `policies.scoring.TokenScores`."""

    @property
    def logprobs(self) -> Tensor: ...
    @property
    def entropy(self) -> Tensor: ...


class Scorer(Protocol):
    """What an update needs of a policy: its weights, and a differentiable score of given replies."""

    @property
    def model(self) -> nn.Module: ...

    def score(
        self,
        prompts: Rows,
        replies: Rows,
        temperature: float | None = None,
        *,
        tokens_per_pass: int | None = None,
        entropy: bool | None = True,
        **given: Any,
    ) -> Scores: ...


# Rows per pass without gradients.
_SCORING_ROWS = 256
# Tokens per pass on a GPU: with attention that reads packed sequences by their positions, and with any other.
GPU_TOKENS, GPU_TOKENS_SQUARED = 8192, 4096
# The same on a CPU, and the number of parameters above which a pass costs more there than its preparation.
CPU_TOKENS, LARGE = 2048, 10_000_000
# Rows share prefixes if this leaves at most this share of the tokens of packed rows.
_WORTH_SHARING = 0.9


def auto_tokens(model: nn.Module, gpu: bool) -> int | None:
    """Return the tokens per pass for "auto", see `Limits`; None: no limit."""
    if gpu:
        return GPU_TOKENS if has_varlen(model) else GPU_TOKENS_SQUARED
    return CPU_TOKENS if sum(weight.numel() for weight in model.parameters()) >= LARGE else None


@dataclasses.dataclass(frozen=True)
class Limits:
    """The limits of `Memory`, with "auto" resolved for a policy and some rows.

        device  model                                    a pass
        GPU     accepts packed sequences                 packed, 8,192 tokens (4,096 if attention grows with the square)
        GPU     any other                                rectangles of as many tokens
        CPU     of 10 million parameters                 packed, 2,048 tokens; prefixes are shared where 10 % are saved
        CPU     of 10 million, with recurrent layers     rectangles of 2,048 tokens
        CPU     smaller                                  a mini-batch at once, in rectangles

    Attributes:
        rows: per pass; None: no limit.
        tokens: per pass; None: no limit.
        packed: rows share sequences; else they are rectangles, whose padding counts as tokens.
        recompute: activations are computed again in the backward pass.
    """

    rows: int | None = None
    tokens: int | None = None
    share_prefixes: bool = False
    packed: bool = False
    recompute: bool = False

    @classmethod
    def of(cls, policy: Any, memory: Memory, prompts: Rows = (), replies: Rows = ()) -> Limits:
        """Return the limits of a policy's passes over these rows."""
        model, gpu = policy.model, on_gpu(policy.model)
        recompute = memory.activation_checkpointing
        if recompute is None:
            recompute = gpu and can_recompute(model)
        tokens, share, packed = memory.microbatch_tokens, memory.share_prefixes, memory.microbatch_tokens is not None
        if tokens == "auto":
            tokens = auto_tokens(model, gpu)
            packed = tokens is not None and can_pack(model, getattr(policy, "precision", None))
            if packed and not gpu and not share and may_take_runs(model) and prompts:
                shared = sum(map(len, merge_trees(prompts, replies, CPU_TOKENS)))
                chained = sum(len(chain.tokens) for chain in merge_chains(prompts, replies))
                share = shared <= _WORTH_SHARING * chained
        return cls(memory.microbatch_rows, tokens, share and packed, packed, recompute)

    @property
    def scoring(self) -> dict[str, Any]:
        """Arguments of `Scorer.score`."""
        return {"tokens_per_pass": self.tokens if self.packed else None} | (
            {"share_prefixes": True} if self.share_prefixes else {}
        )

    def passes(self, prompts: Rows, replies: Rows, rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Divide some rows, int64 (n,), into those of each pass."""
        size = self.rows or max(len(rows), 1)
        parts = [rows[low : low + size] for low in range(0, len(rows), size)]
        if self.tokens is None:
            return parts
        found = []
        for part in parts:
            some = [prompts[row] for row in part], [replies[row] for row in part]
            if self.packed:
                divided = (tree_rows_per_pass if self.share_prefixes else rows_per_pass)(*some, self.tokens)
            else:
                divided = rectangles(
                    [len(prompt) + len(reply) for prompt, reply in zip(*some, strict=True)], self.tokens
                )
            found += [part[chosen] for chosen in divided]
        return found

    def advice(self, what: str, longest: int) -> str:
        """Return what to change where a pass does not fit the device's memory."""
        if self.tokens is None:
            tokens = f"None, all at once: set it, to {4 * longest} for a start"
        elif self.tokens > longest:
            tokens = f"{self.tokens}: lower it to {max(self.tokens // 2, longest)}"
        else:
            tokens = f"{self.tokens}, and the longest row has {longest}: shorten prompts and replies"
        more = "" if self.recompute else ", or set memory.activation_checkpointing=True"
        return (
            f"{what} does not fit the device's memory: memory.microbatch_tokens is the number of tokens of a pass "
            f"({tokens}{more}). Checkpoints are intact: a run that is resumed with another microbatch_tokens "
            "continues from the last one"
        )


def make_optimizer(model: nn.Module, config: TrainerConfig) -> torch.optim.AdamW:
    """Return AdamW over a model's trainable weights, with the learning rate and the decay of a configuration."""
    weights = [value for value in model.parameters() if value.requires_grad]
    # The fused step takes a sixth of the time of the plain one on small weights; both keep the same state.
    return torch.optim.AdamW(
        weights, lr=config.learning_rate, weight_decay=config.optimiser.weight_decay, betas=(0.9, 0.999), eps=1e-8,
        fused=weights[0].device.type in ("cpu", "cuda"),
    )  # fmt: skip


@torch.no_grad()
def score_batch(policy: Scorer, batch: Batch, temperature: float, memory: Memory | None = None) -> Tensor:
    """Return log-probabilities of all reply tokens, float32 (n, L) on the CPU, 0 where masked.

    Args:
        batch: whose prompts and replies are scored.
        memory: limits of a pass; without `microbatch_rows` a pass has at most 256 rows. None: `Memory()`.
    """
    limits = Limits.of(policy, memory or Memory(), batch.prompts, batch.replies)
    device = next(policy.model.parameters()).device
    result = torch.zeros(batch.mask.shape, device=device)  # the host waits once for all passes
    # Rows of one prompt side by side, prompts of like length together: shared passes and little padding.
    order = np.array(sorted(range(len(batch)), key=lambda row: (len(batch.prompts[row]), batch.prompts[row])), np.int64)
    if limits.tokens is None:
        limits = dataclasses.replace(limits, rows=limits.rows or _SCORING_ROWS)
    else:
        limits, order = dataclasses.replace(limits, rows=None), np.arange(len(batch))
    for part in limits.passes(batch.prompts, batch.replies, order):
        prompts, replies = [batch.prompts[r] for r in part], [batch.replies[r] for r in part]
        given = limits.scoring | ({"allowed": [batch.allowed[r] for r in part]} if batch.allowed else {})
        scores = policy.score(prompts, replies, temperature, entropy=None, **given)
        rows = torch.from_numpy(part).to(device, non_blocking=True)
        result[rows, : scores.logprobs.shape[1]] = scores.logprobs
    return result.cpu().masked_fill(~batch.mask, 0.0)


def recomputes(policy: Scorer, config: TrainerConfig) -> bool:
    """Return whether the log-probabilities of an update's replies are computed again before it."""
    source = config.loss.old_logprobs
    return source == "recompute" or (source == "sampler" and not is_exact(policy))


def update(
    policy: Scorer, optimizer: torch.optim.Optimizer, batch: Batch, config: TrainerConfig,
    generator: np.random.Generator, reference: Scorer | None = None, teacher: Scorer | None = None,
) -> dict[str, float]:  # fmt: skip
    """Train the policy on a batch and return what happened.

    Each mini-batch's loss is divided by its share of all weight, so the mean of the mini-batch gradients is the
    gradient of the batch. Rows that are not trained (`Batch.trained`) take their place in a mini-batch and its divisor.
    A mini-batch whose advantages are all 0, without KL or entropy in the loss, makes no step of the optimiser.

    Args:
        policy: changed in place through the optimiser.
        reference: the frozen start policy; needed when `config.loss.kl` is above 0 and in the loss.
        teacher: policy that reads `Batch.informed`; needed if the batch has any. It gets no gradient.

    Returns:
        "updates", the number of steps, and "silent_updates", the share of mini-batches without a step (1 without any).
        Means over all mini-batches: "policy_loss" and "grad_norm" (before clipping, 0 without a step). Means over the
        tokens of trained rows, weighted as the raw rows, left out without trained rows: "kl" (to the start policy, in
        the form of the loss), "approx_kl" (k3, between the policy before the update and now), "clip_fraction",
        "entropy" (nats per token). "mismatch_mean" and "mismatch_max": the difference of the sampler's and the
        trainer's log-probabilities, over all tokens if those are recomputed (`recomputes`), else over the first
        mini-batch, before any step; with a correction "tis_weight" (mean) and "tis_clipped" (share of tokens at the
        limit). No gradient is kept.

    Raises:
        ValueError: `config.loss.kl` is above 0 and there is no reference.
        FloatingPointError: a loss or a gradient is not finite (the message names it); the weights are those of the
            last good step. Or the step itself has made a weight that is not finite.
        torch.OutOfMemoryError: a pass did not fit; the message names the setting to lower. The weights are those of
            the last good step, and no gradient is kept.
    """
    if config.loss.needs_start and reference is None:
        raise ValueError(f"loss.kl={config.loss.kl} needs the frozen start policy as reference")
    if batch.informed and teacher is None:
        raise ValueError("rows with an informed prompt need the teacher that reads it")
    limits = Limits.of(policy, config.memory, batch.prompts, batch.replies)
    if batch.informed and not config.loss.distillation.sampled:  # distributions are those of rectangles
        limits = dataclasses.replace(limits, packed=False, share_prefixes=False)
    longest = max((len(p) + len(r) for p, r in zip(batch.prompts, batch.replies, strict=True)), default=0)
    try:
        with memory_explained(lambda: limits.advice(f"an update of {len(batch)} rows", longest)):
            return _update(policy, optimizer, batch, config, generator, reference, teacher, limits)
    finally:  # frees the memory of the gradients for the next rollout
        optimizer.zero_grad(set_to_none=True)


def _update(
    policy: Scorer, optimizer: torch.optim.Optimizer, batch: Batch, config: TrainerConfig,
    generator: np.random.Generator, reference: Scorer | None, teacher: Scorer | None, limits: Limits,
) -> dict[str, float]:  # fmt: skip
    terms = config.loss
    figures: dict[str, float] = {}
    trust: Tensor | None = None
    kept, place = batch.kept(), np.cumsum(batch.trained) - 1
    if recomputes(policy, config) and len(kept):
        sampler, old = kept.old_logprobs, score_batch(policy, kept, config.temperature, config.memory)
        kept = dataclasses.replace(kept, old_logprobs=old)
        if terms.tis is not None:
            trust = correction(old, sampler, kept.mask, terms.tis_level, terms.tis)
        figures = _mismatch(kept, sampler, trust, terms.tis)
    start = None
    if reference is not None and terms.needs_start:
        start = score_batch(reference, kept, config.temperature, config.memory)
    # Rows with a gradient: all of them if the loss has a KL or entropy term.
    moving = kept.signal | kept.distilled | (start is not None or terms.entropy > 0)
    taught = float((kept.mask * kept.weight[:, None])[torch.from_numpy(kept.distilled)].sum())
    weights = [value for value in policy.model.parameters() if value.requires_grad]
    device = weights[0].device
    # Summed on the device, in double precision: one transfer per update instead of one per figure and pass.
    sums = torch.zeros(6, dtype=torch.float64, device=device)
    norms: list[float] = []
    unmoved, compared = torch.zeros(2, dtype=torch.float64, device=device), 0.0
    tokens = config.optimiser.epochs * float((kept.mask * kept.weight[:, None]).sum())
    together = _sequence_of_row(batch, limits)
    whole = float(normaliser(batch.mask, batch.weight, terms.aggregation, terms.constant_length or 1))
    count = 0
    with recomputed_activations(policy.model) if limits.recompute else contextlib.nullcontext():
        for _ in range(config.optimiser.epochs):
            minibatches = batch.minibatches(config.optimiser.minibatch_rows, generator, together)
            count += len(minibatches)
            for scored in minibatches:
                rows = place[scored[batch.trained[scored]]]
                moves = bool(moving[rows].any())
                first = not compared and not norms  # in which the weights are those of the rollout
                compared += float((kept.mask * kept.weight[:, None])[torch.from_numpy(rows)].sum()) if first else 0.0
                optimizer.zero_grad(set_to_none=True)
                for chosen in limits.passes(kept.prompts, kept.replies, rows):
                    part = kept.take(chosen).to(device)
                    frozen, trusted = (_rows(column, chosen, part) for column in (start, trust))
                    with torch.set_grad_enabled(moves):
                        lesson = (teacher, taught / len(minibatches)) if teacher is not None and taught else None
                        divisor = whole / len(minibatches)
                        found, apart = _backward(policy, part, frozen, trusted, divisor, config, limits, lesson)
                    sums += found
                    if first:
                        unmoved = torch.stack([unmoved[0] + apart[0], torch.maximum(unmoved[1], apart[1])])
                if not moves:
                    continue
                norm = float(nn.utils.clip_grad_norm_(weights, config.optimiser.max_grad_norm))
                if not math.isfinite(norm):
                    raise FloatingPointError(
                        f"the gradient norm is {norm} at update {len(norms) + 1} of the iteration "
                        f"({_blame(policy.model, sums)}); a smaller learning_rate or a smaller max_grad_norm may help"
                    )
                optimizer.step()
                norms.append(norm)
    if norms:
        check_finite(policy.model, "the update was too large: the policy's")
    policy_loss, *per_token, lesson_loss, differing, most = torch.cat([sums, unmoved]).tolist()
    if tokens:
        names = ("kl", "approx_kl", "clip_fraction", "entropy")
        figures |= {name: value / tokens for name, value in zip(names, per_token, strict=True)}
    if compared and not recomputes(policy, config):
        figures |= {"mismatch_mean": differing / compared, "mismatch_max": most}
    if taught:
        figures["distillation_loss"] = lesson_loss / max(count, 1)
    return {
        "policy_loss": policy_loss / max(count, 1), "grad_norm": sum(norms) / max(count, 1),
        "updates": float(len(norms)), "silent_updates": 1.0 - len(norms) / max(count, 1), **figures,
    }  # fmt: skip


def _rows(column: Tensor | None, chosen: NDArray[np.int64], part: Batch) -> Tensor | None:
    """Return the rows of a tensor (n, L) that belong to a part of the batch, on its device."""
    if column is None:
        return None
    return column[torch.from_numpy(chosen), : part.mask.shape[1]].to(part.mask.device, non_blocking=True)


def _mismatch(batch: Batch, sampler: Tensor, trust: Tensor | None, limit: float | None) -> dict[str, float]:
    weight = (batch.mask * batch.weight[:, None]).double()
    difference = (batch.old_logprobs - sampler).abs()
    found = {
        "mismatch_mean": float((weight * difference).sum() / weight.sum()),
        "mismatch_max": float(difference[batch.mask].max()),
    }
    if trust is not None and limit is not None:
        found["tis_weight"] = float((weight * trust).sum() / weight.sum())
        found["tis_clipped"] = float((weight * (trust >= limit)).sum() / weight.sum())
    return found


def _sequence_of_row(batch: Batch, limits: Limits) -> NDArray[np.int64] | None:
    """Return int64 (n,), the chain or tree of each row: rows that share tokens go into the same mini-batch."""
    if not limits.packed:
        return None
    numbers = np.zeros(len(batch), np.int64)
    for number, (_, rows) in enumerate(sequences(batch, limits)):
        numbers[rows] = number
    return numbers


def sequences(batch: Batch, limits: Limits) -> list[tuple[int, list[int]]]:
    """Return the length of every sequence that is read, and the rows in it."""
    if not limits.packed or limits.tokens is None:
        pairs = zip(batch.prompts, batch.replies, strict=True)
        return [(len(prompt) + len(reply), [row]) for row, (prompt, reply) in enumerate(pairs)]
    if limits.share_prefixes:
        trees = merge_trees(batch.prompts, batch.replies, limits.tokens)
        return [(len(tree), list(tree.columns)) for tree in trees]
    chains = merge_chains(batch.prompts, batch.replies)
    return [(len(chain.tokens), [row for row, _ in chain.spans]) for chain in chains]


def _blame(model: nn.Module, sums: Tensor) -> str:
    names = ("policy loss", "kl", "approx_kl", "clip fraction", "entropy", "distillation loss")
    wrong = [f"{name} is {value}" for name, value in zip(names, sums.tolist(), strict=True) if not math.isfinite(value)]
    return ", ".join(filter(None, [*wrong, not_finite(model, gradients=True)])) or "each number alone is finite"


def _backward(
    policy: Scorer, part: Batch, reference: Tensor | None, trust: Tensor | None, divisor: float, config: TrainerConfig,
    limits: Limits, lesson: tuple[Scorer, float] | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Add the gradient of some rows, if gradients are enabled.

    Args:
        reference: log-probabilities of the start policy, float (n, L).
        trust: weights of truncated importance sampling, float (n, L).
        lesson: the informed teacher, and the divisor of the sum over the tokens with an informed prompt.

    Returns:
        float64 (6,): their policy loss, sums over tokens of kl, approx_kl, clipped weight and entropy, and the
        distillation loss. float64 (2,): the weighted sum and the largest of the differences to `old_logprobs`.
    """
    terms = config.loss
    taught = np.flatnonzero(part.distilled) if lesson is not None else np.zeros(0, np.int64)
    whole = {"distributions": True} if len(taught) and not config.loss.distillation.sampled else {}
    given = limits.scoring | ({"allowed": part.allowed} if part.allowed else {}) | whole
    scores = policy.score(part.prompts, part.replies, config.temperature, entropy=terms.entropy > 0, **given)
    logprobs, weight = scores.logprobs, part.weight[:, None]
    clip = {"clip_low": terms.clip_low, "clip_high": terms.clip_high}
    ratio = importance_ratio(logprobs, part.old_logprobs, part.mask, terms.ratio)
    if terms.objective == "ppo":
        surrogate = clipped_surrogate(ratio, part.positive, part.negative, **clip, dual_clip=terms.dual_clip)
    else:
        surrogate = cispo(ratio, logprobs, part.positive, part.negative, **clip)
    if trust is not None:
        surrogate = trust * surrogate
    policy_loss = aggregate(surrogate, part.mask, terms.aggregation, divisor)
    loss = policy_loss
    kl = torch.zeros_like(logprobs)
    if reference is not None:
        kl = divergence(logprobs, reference, terms.kl_form, limit=terms.kl_limit)
        loss = loss + terms.kl * aggregate(weight * kl, part.mask, terms.aggregation, divisor)
    if terms.entropy > 0:
        loss = loss - terms.entropy * aggregate(weight * scores.entropy, part.mask, terms.aggregation, divisor)
    apart = torch.zeros_like(policy_loss)
    if lesson is not None and len(taught):
        apart = _distillation(lesson[0], part, taught, scores, config, limits) / lesson[1]
        loss = loss + config.loss.distillation.weight * apart
    if torch.is_grad_enabled():
        loss.backward()
    with torch.no_grad():
        moved = divergence(part.old_logprobs, logprobs.detach(), limit=None)
        clipped = clipped_weight(ratio.detach(), part.positive_weight, part.negative_weight, **clip)
        figures = (weight * kl, weight * moved, clipped, weight * scores.entropy)
        # figure[mask] would make the host wait for the device, because its size depends on the values.
        summed = [figure.masked_fill(~part.mask, 0.0).sum() for figure in figures]
        differing = (logprobs - part.old_logprobs).abs().masked_fill(~part.mask, 0.0)
        differences = torch.stack([(weight * differing).sum(), differing.max()]).double()
        return torch.stack([policy_loss.detach(), *summed, apart.detach()]).double(), differences


def _distillation(
    teacher: Scorer, part: Batch, taught: NDArray[np.int64], scores: Scores, config: TrainerConfig, limits: Limits
) -> Tensor:
    prompts, replies, allowed = (
        [column[row] for row in taught] if column else [] for column in (part.informed, part.replies, part.allowed)
    )
    given: dict[str, Any] = limits.scoring | ({"allowed": allowed} if allowed else {})
    given |= {} if config.loss.distillation.sampled else {"distributions": True}
    with torch.no_grad():
        informed = teacher.score(prompts, replies, config.temperature, entropy=None, **given)
    # The places of the tokens are worked out on the host: after tensor[mask] it would wait for their number.
    lengths = np.array([len(reply) for reply in part.replies])
    columns = np.concatenate([np.arange(length) for length in lengths[taught]])
    lines, first = np.repeat(taught, lengths[taught]), np.cumsum(lengths) - lengths
    places = np.stack([lines, columns, first[lines] + columns, np.repeat(np.arange(len(taught)), lengths[taught])])
    row, column, token, line = torch.from_numpy(places).to(part.mask.device, non_blocking=True)
    student: Any = getattr(scores, "distribution", None)
    least = torch.finfo(torch.float32).min
    losses = per_token(
        None if student is None else student[token].clamp(min=least),
        None if student is None else informed.distribution.clamp(min=least),  # type: ignore[attr-defined]
        scores.logprobs[row, column],
        informed.logprobs[line, column],
        part.old_logprobs[row, column],
        config.loss.distillation,
    )
    return (part.weight[row] * losses).sum()
