"""TrainerConfig: every number of a training run, each written once."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_type_hints

from agentgym.checks import fields_checked
from baselines.batch import Weighting
from baselines.losses import Aggregation, Divergence, Objective, RatioLevel, WeightLevel

Overlong = Literal["keep", "mask", "drop"]

#: The number of what an iteration computes from a configuration: runs are comparable where it is the same. Logs (in
#: their first row, and where it changes) and checkpoints hold it as "training_rules"; those without are of the first.
#:   1  mini-batches of the rows that are trained, and the mean over those; a step for every mini-batch
#:   2  mini-batches and mean over all scored rows; no step for a mini-batch without a signal
TRAINING_RULES = 2


@fields_checked
@dataclass(frozen=True)
class TrainerConfig:
    """Numbers of a run; two runs with the same config, policy, tasks and method are the same run.

    Attributes:
        iterations: how many times to collect and update.
        token_budget: reply tokens after which a run ends, with the iteration at hand, if `iterations` did not end it
            before; tokens of continuations and of groups that were replaced count. None: no such limit.
        groups: tasks drawn per iteration (all distinct where there are enough).
        group_size: episodes per task.
        branches: how often each chosen step is played anew, to the end of the episode, on top of the group's episodes,
            see `agentgym.rollout.collect_tree`; 0: no step is.
        branch_at: which steps are chosen, see `baselines.rollouts.steps_to_branch_at`.
        common_numbers: whether the k-th continuations of a group's steps meet the same luck.
        resample_rounds: how many times tasks whose group has no contrast may be replaced by newly drawn ones, see
            `baselines.dynamic_sampling`; 0: train on what was drawn first.
        staleness: 0 learns from what the weights of the moment have played; 1 plays the next iteration's episodes while
            this one's update runs, with the weights from before it, see `baselines.experience`. Needs `tis`, which
            makes up for the difference.
        temperature: sampling temperature of rollouts, and the one log-probabilities are taken at; above 0.
        learning_rate: of AdamW.
        schedule: "constant", or "linear" down to 0 at the end of the last iteration, or with the last token of the
            budget, whichever is nearer.
        warmup: iterations in which the rate rises linearly to its own; 0: none.
        weight_decay: of AdamW.
        max_grad_norm: gradients are scaled down to this Euclidean norm.
        minibatch_rows: distinct scored rows per update, those that `keep_zero` leaves out included.
        microbatch_rows: distinct rows per forward and backward pass; None: a mini-batch at once. Gradients are
            accumulated, so this changes memory only.
        microbatch_tokens: tokens (prompts and replies) per pass, with and without gradients; a row that is longer
            alone has a pass to itself. Rows that continue each other share their tokens and go into the same
            mini-batch, see `policies.scoring.packed`. None: no such limit.
        share_prefixes: rows that begin alike read their common beginning once, see `policies.scoring.prefix_tree`: for
            CPUs, where arithmetic is what an update costs. Needs `microbatch_tokens`.
        activation_checkpointing: keep only what each layer begins with and compute the rest again in the backward
            pass: a thirtieth of the memory per token for a third more arithmetic.
        epochs: passes over the batch per iteration.
        objective: "ppo", see `baselines.losses.clipped_surrogate`, or "cispo", see `baselines.losses.cispo`.
        ratio: of a token or of a step, see `baselines.losses.importance_ratio`; the clip ranges belong to it.
        clip_low, clip_high, dual_clip: see `baselines.losses.clipped_surrogate`.
        tis: limit of the weight that makes up for a sampler with other probabilities than the trainer's, see
            `baselines.losses.correction`; needs old_logprobs="recompute". None: no correction.
        tis_level: one weight per "token", or per reply ("step").
        kl: weight of the divergence to the frozen start policy; 0 drops the reference model altogether.
        reference: how the start policy is kept: an "exact" copy, or one in "bfloat16", which takes half the memory
            and is a reference of its own precision. With an adapter it is the base, and takes none.
        kl_form: see `baselines.losses.divergence`.
        kl_in: "loss", or "reward": taken off every step's reward before credit is given, see
            `baselines.reply_costs.less_divergence`.
        kl_limit: see `baselines.losses.divergence`.
        entropy: weight of the entropy bonus; the entropy is reported in any case.
        aggregation: see `baselines.losses.aggregate`.
        constant_length: tokens that the aggregation "constant" divides by, the longest reply that may be written.
        overlong: what becomes of replies that the length limit cut off: "keep" trains on them; "mask" leaves them out
            of the loss, after credit; "drop" leaves the whole episode out, before credit.
        overlong_buffer: tokens before the length limit within which a reply costs reward, see
            `baselines.reply_costs.less_overlong`; 0: none does.
        overlong_penalty: what a reply costs at the limit.
        weighting: see `baselines.batch.make_batch`.
        keep_zero: whether rows with advantage 0 are trained on (for KL and entropy). Leaving them out makes an update
            cheaper and changes neither its mean nor its mini-batches, see `baselines.update.update`.
        old_logprobs: "sampler" trusts the log-probabilities that came with the replies (same weights, same code),
            "recompute" scores them again before the update, for samplers with other kernels or precision.
        validate_every: iterations between validations; 0: never. The start and the end are validated as well.
        validate_tokens: reply tokens between further validations, counted as `token_budget` counts; 0: none.
        checkpoint_every: iterations between checkpoints; 0: only at the end and when interrupted.
        keep_checkpoints: how many of the newest stay.
        seed: of task choice, episodes, sampling and mini-batches.
    """

    iterations: int = 50
    token_budget: int | None = None
    groups: int = 16
    group_size: int = 8
    branches: int = 0
    branch_at: str = "all"
    common_numbers: bool = True
    resample_rounds: int = 0
    staleness: int = 0
    temperature: float = 1.0
    learning_rate: float = 1e-6
    schedule: Literal["constant", "linear"] = "constant"
    warmup: int = 0
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    minibatch_rows: int = 64
    microbatch_rows: int | None = None
    microbatch_tokens: int | None = None
    share_prefixes: bool = False
    activation_checkpointing: bool = False
    epochs: int = 1
    objective: Objective = "ppo"
    ratio: RatioLevel = "token"
    clip_low: float = 0.2
    clip_high: float = 0.2
    dual_clip: float | None = None
    tis: float | None = None
    tis_level: WeightLevel = "token"
    kl: float = 0.01
    reference: Literal["exact", "bfloat16"] = "exact"
    kl_form: Divergence = "k3"
    kl_in: Literal["loss", "reward"] = "loss"
    kl_limit: float | None = 10.0
    entropy: float = 0.0
    aggregation: Aggregation = "token-mean"
    constant_length: int | None = None
    overlong: Overlong = "keep"
    overlong_buffer: int = 0
    overlong_penalty: float = 1.0
    weighting: Weighting = "step"
    keep_zero: bool = True
    old_logprobs: Literal["sampler", "recompute"] = "sampler"
    validate_every: int = 10
    validate_tokens: int = 0
    checkpoint_every: int = 10
    keep_checkpoints: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        check_types(self)
        rules = (
            ("iterations", self.iterations >= 0, "at least 0"),
            ("token_budget", self.token_budget is None or self.token_budget >= 1, "None or at least 1"),
            ("groups", self.groups >= 1, "at least 1"),
            ("group_size", self.group_size >= 1, "at least 1"),
            ("branches", self.branches >= 0, "at least 0"),
            ("resample_rounds", self.resample_rounds >= 0, "at least 0"),
            ("staleness", self.staleness in (0, 1), "0 or 1"),
            (
                "staleness",
                not self.staleness or self.tis is not None,
                "0 unless a correction makes up for older weights (old_logprobs='recompute', tis=2.0)",
            ),
            ("temperature", self.temperature > 0, "above 0 (a greedy policy explores nothing)"),
            ("learning_rate", self.learning_rate >= 0, "at least 0"),
            ("weight_decay", self.weight_decay >= 0, "at least 0"),
            ("schedule", self.schedule in ("constant", "linear"), "'constant' or 'linear'"),
            ("warmup", self.warmup >= 0, "at least 0"),
            ("max_grad_norm", self.max_grad_norm > 0, "above 0"),
            ("minibatch_rows", self.minibatch_rows >= 1, "at least 1"),
            ("microbatch_rows", self.microbatch_rows is None or self.microbatch_rows >= 1, "None or at least 1"),
            ("microbatch_tokens", self.microbatch_tokens is None or self.microbatch_tokens >= 1, "None or at least 1"),
            (
                "share_prefixes",
                not self.share_prefixes or self.microbatch_tokens is not None,
                "False unless microbatch_tokens says how many tokens a pass has",
            ),
            ("reference", self.reference in ("exact", "bfloat16"), "'exact' or 'bfloat16'"),
            ("epochs", self.epochs >= 1, "at least 1"),
            ("objective", self.objective in get_args(Objective), "'ppo' or 'cispo'"),
            ("ratio", self.ratio in get_args(RatioLevel), "'token', 'step' or 'step-token'"),
            ("clip_low", 0 < self.clip_low <= 1, "in (0, 1]"),
            ("clip_high", self.clip_high > 0, "above 0"),
            ("dual_clip", self.dual_clip is None or self.dual_clip > 1, "None or above 1"),
            ("tis", self.tis is None or self.tis > 0, "None or above 0"),
            (
                "tis",
                self.tis is None or self.old_logprobs == "recompute",
                "None unless old_logprobs='recompute': the sampler's own log-probabilities differ in nothing",
            ),
            ("tis_level", self.tis_level in get_args(WeightLevel), "'token' or 'step'"),
            ("kl", self.kl >= 0, "at least 0"),
            ("kl_form", self.kl_form in get_args(Divergence), "'k1', 'k2' or 'k3'"),
            ("kl_in", self.kl_in in ("loss", "reward"), "'loss' or 'reward'"),
            ("kl_limit", self.kl_limit is None or self.kl_limit > 0, "None or above 0"),
            ("aggregation", self.aggregation in get_args(Aggregation), f"one of {get_args(Aggregation)}"),
            (
                "constant_length",
                self.constant_length is None if self.aggregation != "constant" else (self.constant_length or 0) >= 1,
                "at least 1 with the aggregation 'constant', None with any other",
            ),
            ("overlong", self.overlong in get_args(Overlong), "'keep', 'mask' or 'drop'"),
            ("overlong_buffer", self.overlong_buffer >= 0, "at least 0"),
            ("overlong_penalty", self.overlong_penalty >= 0, "at least 0"),
            ("weighting", self.weighting in ("step", "trajectory"), "'step' or 'trajectory'"),
            ("old_logprobs", self.old_logprobs in ("sampler", "recompute"), "'sampler' or 'recompute'"),
            ("validate_every", self.validate_every >= 0, "at least 0"),
            ("validate_tokens", self.validate_tokens >= 0, "at least 0"),
            ("checkpoint_every", self.checkpoint_every >= 0, "at least 0"),
            ("keep_checkpoints", self.keep_checkpoints >= 1, "at least 1"),
            ("seed", self.seed >= 0, "at least 0"),
        )
        check_numbers(self, rules)


def check_types(config: Any) -> None:
    """Raise a TypeError where a dataclass's field for a number or a flag holds something else.

    >>> TrainerConfig(groups="3")
    Traceback (most recent call last):
    TypeError: TrainerConfig.groups must be an integer, got '3'
    """
    kinds = {int: (numbers.Integral, "an integer"), float: (numbers.Real, "a number"), bool: (bool, "True or False")}
    for name, hint in get_type_hints(type(config)).items():
        value, hints = getattr(config, name), get_args(hint) or (hint,)
        kind, expected = next((kinds[each] for each in hints if each in kinds), (object, ""))
        if type(None) in hints:
            if value is None:
                continue
            expected += " or None"
        if not isinstance(value, kind) or (isinstance(value, bool) and kind not in (bool, object)):
            raise TypeError(f"{type(config).__name__}.{name} must be {expected}, got {value!r}")


def check_numbers(config: Any, rules: Iterable[tuple[str, bool, str]]) -> None:
    """Check the fields of a configuration.

    Args:
        config: a dataclass.
        rules: name of a field, whether its value can be, and what is expected.

    Raises:
        ValueError: a rule does not hold, or a number is not finite.
    """
    for name, holds, expected in rules:
        if not holds:
            raise ValueError(f"{type(config).__name__}.{name} must be {expected}, got {getattr(config, name)!r}")
    for name, value in vars(config).items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{type(config).__name__}.{name} must be finite, got {value!r}")
