"""TrainerConfig: every number of a training run, with its range, in groups by topic.

    TrainerConfig(groups=8, learning_rate=1e-6, loss=Loss(kl=0.02), memory=Memory(microbatch_tokens=4096))
    config.changed(groups=4, **{"loss.kl": 0.0})

A setting's name is "groups" or "loss.kl", in options, logs, records and recipes. Flat names of version 0.2 are taken.
"""

from __future__ import annotations

import dataclasses
import functools
import numbers
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from agentgym.checks import Checked, Count, Positive, Range, Share, Size, Weight, fields_checked, nearest, suggest

ClassT = TypeVar("ClassT", bound=type)

Aggregation = Literal["token-mean", "row-mean", "row-sum", "constant"]
Divergence = Literal["k1", "k2", "k3"]
RatioLevel = Literal["token", "step", "step-token"]
WeightLevel = Literal["token", "step"]
Weighting = Literal["step", "trajectory"]

#: The number of what an iteration computes from a configuration: runs are comparable where it is the same. Logs (in
#: their first row, and where it changes) and checkpoints hold it as "training_rules"; those without are of the first.
#:   1  mini-batches of the rows that are trained, and the mean over those; a step for every mini-batch
#:   2  mini-batches and mean over all scored rows; no step for a mini-batch without a signal
TRAINING_RULES = 2


def refuse(config: Any, name: str, holds: bool, expected: str) -> None:
    """Raise a ValueError about a field unless a rule that it shares with other fields holds."""
    if not holds:
        raise ValueError(f"{type(config).__name__}.{name} must be {expected}, got {getattr(config, name)!r}")


@fields_checked
@dataclass(frozen=True)
class Rollout(Checked):
    """Which episodes are played, and which replies are trained on.

    Attributes:
        branches: number of continuations of each chosen step, to the end of the episode, in addition to the group's
            episodes, see `agentgym.rollout.collect_tree`; 0: none.
        branch_at: which steps are chosen, see `baselines.play.rollouts.steps_to_branch_at`.
        common_numbers: whether the k-th continuations of a group's steps use the same random numbers.
        resample_rounds: how many times tasks whose group has no contrast may be replaced by newly drawn ones, see
            `baselines.play.dynamic_sampling`; 0: train on the first draw.
        staleness: age, in updates, of the weights that play an iteration's episodes, 0 to 4: above 0, the episodes of a
            later iteration are played while an update runs, see `baselines.experience`. Needs `loss.tis`.
        overlong: replies that the length limit cut off: "keep" trains on them; "mask" leaves them out of the loss,
            after credit; "drop" leaves the whole episode out, before credit.
        overlong_buffer: tokens before the length limit within which a reply is penalised, see
            `baselines.play.reply_costs.less_overlong`; 0: no penalty.
        overlong_penalty: penalty of a reply at the limit.
        probe_every: iterations between probes, the first included. A probe scores some replies and compares the
            sampler's log-probabilities with the trainer's, see `baselines.learner.Learner.probe`; 0: none. With a
            staleness the first iteration alone: later replies are those of older weights.
        on_mismatch: "stop" ends a run whose probe fails; "weights" continues with loss.old_logprobs="recompute" and
            importance weights up to `loss.tis` (default: 2).
    """

    branches: Count = 0
    branch_at: str = "all"
    common_numbers: bool = True
    resample_rounds: Count = 0
    staleness: Literal[0, 1, 2, 3, 4] = 0
    overlong: Literal["keep", "mask", "drop"] = "keep"
    overlong_buffer: Count = 0
    overlong_penalty: Weight = 1.0
    probe_every: Count = 0
    on_mismatch: Literal["stop", "weights"] = "stop"


@fields_checked
@dataclass(frozen=True)
class Optimiser(Checked):
    """AdamW, and how a batch is divided into its steps.

    Attributes:
        weight_decay: of AdamW.
        max_grad_norm: gradients are scaled down to this Euclidean norm.
        minibatch_rows: distinct scored rows per update, those that `loss.keep_zero` leaves out included.
        epochs: passes over the batch per iteration.
    """

    weight_decay: Weight = 0.0
    max_grad_norm: Positive = 1.0
    minibatch_rows: Size = 64
    epochs: Size = 1


@fields_checked
@dataclass(frozen=True)
class Distillation(Checked):
    """The divergence from an informed teacher, added to the policy's loss, see `baselines.distillation`.

    Attributes:
        weight: of the divergence, a mean over the tokens of steps that have a context; 0: none.
        alpha: 0 for KL(teacher || policy), 1 for KL(policy || teacher), or a mixture between.
        top: number of the policy's likeliest tokens that are compared; None: the whole vocabulary.
        tail: whether all other tokens together count as one more; else both distributions are normalised over the
            likeliest tokens.
        ratio_cap: limit of the importance weight pi / pi_old of the sampled token; None: no weight.
        entry_cap: limit of a single vocabulary entry's term; None: none.
        sampled: use only the sampled tokens, without distributions: an unbiased gradient for alpha 1.
    """

    weight: Weight = 0.0
    alpha: Share = 0.5
    top: Size | None = 100
    tail: bool = True
    ratio_cap: Positive | None = 2.0
    entry_cap: Positive | None = None
    sampled: bool = False


@fields_checked
@dataclass(frozen=True)
class Loss(Checked):
    """The loss function, see `baselines.losses`.

    Attributes:
        objective: "ppo", see `clipped_surrogate`, or "cispo", see `cispo`.
        ratio: of a token or of a step, see `importance_ratio`; the clip ranges belong to it.
        clip_low, clip_high, dual_clip: see `clipped_surrogate`.
        tis: limit of the weight that corrects for the difference between the sampler's and the trainer's probabilities,
            see `correction`; needs old_logprobs="recompute". None: no correction.
        tis_level: one weight per "token", or per reply ("step").
        kl: weight of the divergence to the frozen start policy; 0 needs no reference model.
        reference: how the start policy is kept: an "exact" copy, or one in "bfloat16", which needs half the memory and
            computes in 16 bits. With an adapter the reference is the base model and needs no memory.
        kl_form, kl_limit: see `divergence`.
        kl_in: "loss", or "reward": subtracted from every step's reward before credit is computed, see
            `baselines.play.reply_costs.less_divergence`.
        entropy: weight of the entropy bonus; the entropy is always reported.
        aggregation: see `aggregate`.
        constant_length: divisor of the aggregation "constant": the maximum length of a reply, in tokens.
        weighting: see `baselines.batch.make_batch`.
        keep_zero: whether rows with advantage 0 are trained on (for KL and entropy). Leaving them out makes an update
            cheaper and changes neither its mean nor its mini-batches, see `baselines.update.update`.
        old_logprobs: "sampler" uses the log-probabilities stored with the replies, unless the policy computes in 16
            bits, in which sampling and scoring round differently; "recompute" scores the replies again before the
            update, for samplers with other kernels; "stored" always uses the stored ones, for replies of policies that
            no longer exist.
        distillation: a further term, see `Distillation`; its settings are named "distillation.weight" and so on.
    """

    objective: Literal["ppo", "cispo"] = "ppo"
    ratio: RatioLevel = "token"
    clip_low: Annotated[float, Range(above=0, high=1)] = 0.2
    clip_high: Positive = 0.2
    dual_clip: Annotated[float, Range(above=1)] | None = None
    tis: Positive | None = None
    tis_level: WeightLevel = "token"
    kl: Weight = 0.01
    reference: Literal["exact", "bfloat16"] = "exact"
    kl_form: Divergence = "k3"
    kl_in: Literal["loss", "reward"] = "loss"
    kl_limit: Positive | None = 10.0
    entropy: float = 0.0
    aggregation: Aggregation = "token-mean"
    constant_length: Size | None = None
    weighting: Weighting = "step"
    keep_zero: bool = True
    old_logprobs: Literal["sampler", "recompute", "stored"] = "sampler"
    distillation: Distillation = Distillation()

    def __post_init__(self) -> None:
        super().__post_init__()
        expected = "None unless old_logprobs='recompute': the sampler's own log-probabilities need no correction"
        refuse(self, "tis", self.tis is None or self.old_logprobs == "recompute", expected)
        expected = "at least 1 with the aggregation 'constant', None with any other"
        refuse(self, "constant_length", (self.constant_length is None) == (self.aggregation != "constant"), expected)

    @property
    def needs_start(self) -> bool:
        """Whether the loss needs the frozen start policy."""
        return self.kl > 0 and self.kl_in == "loss"


@fields_checked
@dataclass(frozen=True)
class Memory(Checked):
    """How a batch is divided into passes; this changes memory and speed, but not the update.

    Attributes:
        microbatch_rows: distinct rows per forward and backward pass; None: a mini-batch at once.
        microbatch_tokens: tokens (prompts and replies) per pass, with and without gradients; a row that is longer
            has a pass of its own. Rows that continue each other share their tokens and go into the same mini-batch,
            see `policies.scoring.packed`. "auto": by device, model and batch, see `baselines.update.Limits`. None: a
            mini-batch at once, each row by itself. `memory.pass_tokens` is the same setting.
        share_prefixes: rows that begin alike read their common beginning once, see `policies.scoring.prefix_tree`.
            "auto" of `microbatch_tokens` decides by the batch; else it needs a number there.
        activation_checkpointing: keep the inputs of each layer and compute the rest again in the backward pass: a
            thirtieth of the memory per token for a third more arithmetic. None: on a GPU, where the model can.
    """

    microbatch_rows: Size | None = None
    microbatch_tokens: int | Literal["auto"] | None = "auto"
    share_prefixes: bool = False
    activation_checkpointing: bool | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        tokens = self.microbatch_tokens
        if isinstance(tokens, bool) or not (tokens in ("auto", None) or isinstance(tokens, numbers.Integral)):
            raise TypeError(f"Memory.microbatch_tokens must be 'auto', an integer or None, got {tokens!r}")
        refuse(self, "microbatch_tokens", tokens in ("auto", None) or int(tokens) >= 1, "'auto', None or at least 1")
        expected = "False unless microbatch_tokens is set"
        refuse(self, "share_prefixes", not self.share_prefixes or self.microbatch_tokens is not None, expected)


@fields_checked
@dataclass(frozen=True)
class Schedule(Checked):
    """The learning rate over a run.

    Attributes:
        shape: "constant", or "linear" down to 0 at the end of the last iteration, or with the last token of the
            budget, whichever is nearer.
        warmup: iterations in which the rate rises linearly to its full value; 0: none.
    """

    shape: Literal["constant", "linear"] = "constant"
    warmup: Count = 0


@fields_checked
@dataclass(frozen=True)
class Validation(Checked):
    """When the policy is validated, besides the start and the end.

    Attributes:
        every: iterations between validations; 0: none.
        tokens: reply tokens between further validations, counted as `token_budget` counts; 0: none.
    """

    every: Count = 10
    tokens: Count = 0


@fields_checked
@dataclass(frozen=True)
class Checkpoints(Checked):
    """When checkpoints are written.

    Attributes:
        every: iterations between checkpoints; 0: only at the end and when interrupted.
        keep: how many of the newest stay.
    """

    every: Count = 10
    keep: Size = 2


_GROUPS: dict[str, type] = {
    "rollout": Rollout, "optimiser": Optimiser, "loss": Loss, "distillation": Distillation, "memory": Memory,
    "schedule": Schedule, "validation": Validation, "checkpoint": Checkpoints,
}  # fmt: skip
_RENAMED = {
    "schedule": "schedule.shape", "validate_every": "validation.every", "validate_tokens": "validation.tokens",
    "checkpoint_every": "checkpoint.every", "keep_checkpoints": "checkpoint.keep",
}  # fmt: skip
_GROUPED = [
    f"{group}.{field.name}"
    for group, cls in _GROUPS.items()
    for field in dataclasses.fields(cls)
    if field.name not in _GROUPS
]
_SYNONYMS = {"memory.pass_tokens": "memory.microbatch_tokens"}
_SYNONYMS |= {f"loss.{name}": name for name in _GROUPED if name.startswith("distillation.")}
#: The flat names of version 0.2.
_LATER = ("distillation.", "rollout.probe_every", "rollout.on_mismatch")
_FLAT = {
    name.partition(".")[2]: name for name in _GROUPED if name not in _RENAMED.values() and not name.startswith(_LATER)
} | _RENAMED


def by_name(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by their names: groups taken apart, the flat names of version 0.2 as they are called today.

    Groups are dataclasses or mappings; a single setting wins over its group.

    >>> by_name({"groups": 4, "loss": {"kl": 0.1}, "microbatch_rows": 8, "schedule": "linear"})
    {'groups': 4, 'loss.kl': 0.1, 'memory.microbatch_rows': 8, 'schedule.shape': 'linear'}
    """
    found: dict[str, Any] = {}
    for name, value in sorted(given.items(), key=lambda item: not dataclasses.is_dataclass(item[1])):
        within = vars(value) if dataclasses.is_dataclass(value) else value
        if name in _GROUPS and isinstance(within, Mapping):
            inner = {field: each for field, each in within.items() if field in _GROUPS}  # a term of the loss
            found |= {f"{name}.{field}": each for field, each in within.items() if field not in inner} | by_name(inner)
        else:
            found[_FLAT.get(name, name)] = value
    return {_SYNONYMS.get(name, name): value for name, value in found.items()}


def _takes_names(cls: ClassT) -> ClassT:
    made = cls.__init__  # type: ignore[misc]

    @functools.wraps(made)
    def init(self: Any, **given: Any) -> None:
        old = {
            name: _FLAT[name]
            for name, value in given.items()
            if name in _FLAT and not isinstance(value, (Mapping, _GROUPS.get(name, Mapping)))
        }
        if old:
            shown = ", ".join(f"{name} is {now}" for name, now in old.items())
            example = next(iter(old.values())).partition(".")
            warnings.warn(
                f"TrainerConfig has groups of settings since version 0.3: {shown}. Write TrainerConfig({example[0]}="
                f"{_GROUPS[example[0]].__name__}({example[2]}=...)), or --set {''.join(example)}=... on a command line",
                FutureWarning,
                stacklevel=2,
            )
        flat: dict[str, Any] = {}
        groups: dict[str, dict[str, Any]] = {}
        for name, value in by_name(given).items():
            group, dot, field = name.partition(".")
            if name in _GROUPED:
                groups.setdefault(group, {})[field] = value
            elif not dot and name in NAMES:
                flat[name] = value
            elif name in _GROUPS:
                raise TypeError(f"TrainerConfig.{name} must be a {_GROUPS[name].__name__}, got {value!r}")
            else:
                close = nearest(field or group, [each.rpartition(".")[2] for each in NAMES])
                meant = next((each for each in NAMES if each.rpartition(".")[2] == close), None)
                hint = f"did you mean {meant!r}?" if meant else f"known: {', '.join(NAMES)}"
                raise TypeError(f"TrainerConfig: unknown setting {name!r}; {hint}")
        if "distillation" in groups:
            groups.setdefault("loss", {})["distillation"] = Distillation(**groups.pop("distillation"))
        made(self, **flat, **{group: _GROUPS[group](**fields) for group, fields in groups.items()})

    cls.__init__ = init  # type: ignore[misc]
    return cls


@_takes_names
@dataclass(frozen=True, kw_only=True)
class TrainerConfig(Checked):
    """Numbers of a run; two runs with the same config, policy, tasks and method are the same run.

    Attributes:
        iterations: how many times to collect and update.
        token_budget: reply tokens after which a run ends, with the iteration at hand, if `iterations` did not end it
            before; tokens of continuations and of groups that were replaced count. None: no such limit.
        groups: tasks drawn per iteration (all distinct where there are enough).
        group_size: episodes per task.
        learning_rate: of AdamW.
        temperature: sampling temperature of rollouts, and the one log-probabilities are taken at; above 0, since a
            greedy policy explores nothing.
        seed: of task choice, episodes, sampling and mini-batches.
        rollout, optimiser, loss, memory, schedule, validation, checkpoint: groups, see their classes.
    """

    iterations: Count = 50
    token_budget: Size | None = None
    groups: Size = 16
    group_size: Size = 8
    learning_rate: Weight = 1e-6
    temperature: Positive = 1.0
    seed: Count = 0
    rollout: Rollout = Rollout()
    optimiser: Optimiser = Optimiser()
    loss: Loss = Loss()
    memory: Memory = Memory()
    schedule: Schedule = Schedule()
    validation: Validation = Validation()
    checkpoint: Checkpoints = Checkpoints()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rollout.staleness and self.loss.tis is None:
            raise ValueError(
                "TrainerConfig.rollout.staleness must be 0 unless a correction makes up for older weights: set "
                "loss=Loss(old_logprobs='recompute', tis=2.0)"
            )

    def settings(self) -> dict[str, Any]:
        """Return every setting by its name, such as "groups" and "loss.kl"."""
        found = by_name(vars(self))
        return {name: found[name] for name in sorted(found, key=lambda name: "." in name)}

    def changed(self, **changes: Any) -> TrainerConfig:
        """Return the configuration with some settings replaced; a mapping replaces a part of a group.

        >>> TrainerConfig().changed(groups=2, loss={"kl": 0.0}, **{"memory.microbatch_rows": 4}).groups
        2
        """
        whole = {name for name, value in changes.items() if dataclasses.is_dataclass(value)}
        whole |= {"distillation"} if "loss" in whole else set()
        kept = {name: value for name, value in self.settings().items() if name.partition(".")[0] not in whole}
        return TrainerConfig(**{**kept, **changes})


#: The name of every setting.
NAMES = tuple(TrainerConfig().settings())


def explained(group: str | None = None) -> list[tuple[str, str, str]]:
    """Return name, default and meaning of settings, in order.

    Args:
        group: "loss", for instance; "" for those without a group; None: all.

    Raises:
        ValueError: there is no such group.

    >>> explained("schedule")[1]
    ('schedule.warmup', '0', 'iterations in which the rate rises linearly to its full value; 0: none.')
    """
    groups: dict[str, type] = {"": TrainerConfig, **_GROUPS}
    if group is not None and group not in groups:
        raise ValueError(f"unknown group {group!r}; {suggest(group, list(_GROUPS))}")
    meanings: dict[str, str] = {}
    for name, cls in groups.items():
        part = (cls.__doc__ or "").partition("Attributes:\n")[2]
        for names, words in re.findall(r"^ {8}(\w[\w, ]*): (.*(?:\n {12}.*)*)", part, re.MULTILINE):
            meanings |= {f"{name}.{each}".lstrip("."): " ".join(words.split()) for each in names.split(", ")}
    values = TrainerConfig().settings()
    chosen = [name for name in NAMES if group is None or name.rpartition(".")[0] == group]
    return [(name, str(values[name]), meanings.get(name, "")) for name in chosen]
