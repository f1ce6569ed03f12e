"""What of a benchmark's configuration is particular to an environment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from baselines.config import TrainerConfig


@dataclass(frozen=True)
class Setup:
    """Environment, splits, prompt and policy; the defaults are those of Sokoban.

    Attributes:
        options: keyword arguments of `gymnasium.make_vec`.
        train: split of cloning and reinforcement learning.
        validation: split of the learning curve. Where it is the test split, its levels begin after those of the test.
        test: split of the table.
        beside: further splits that the finished policies play, reported beside the test split.
        kinds: info entry by which episodes are sorted into kinds, such as "task_type"; "": they are all of one kind.
        adviser: who is cloned: "" for the environment's own expert, else one of the environment's advisers.
        prompt: options of `wrappers.prompt.PromptStyle` besides history and instructions.
        policy: keyword arguments of `policies.tiny.tiny_policy`.
    """

    options: dict[str, Any] = field(default_factory=dict)
    train: str = "train"
    validation: str = "validation"
    test: str = "test"
    beside: list[str] = field(default_factory=list)
    kinds: str = ""
    adviser: str = ""
    prompt: dict[str, Any] = field(default_factory=dict)
    policy: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Sizes:
    """The numbers of `benchmarks.learning.results.Config` that make a benchmark long or short; see there."""

    steps: int
    groups: int
    group_size: int
    clone_levels: int
    clone_epochs: int
    training_levels: int
    eval_levels: int
    validation_levels: int
    validation_every: int

    @classmethod
    def trained(cls, training: TrainerConfig, **others: int) -> Sizes:
        """Return sizes with the iterations, groups and validations of a training configuration."""
        return cls(
            steps=training.iterations,
            groups=training.groups,
            group_size=training.group_size,
            validation_every=training.validate_every,
            **others,
        )


#: Every part of a benchmark, small, for CI.
QUICK = Sizes(
    steps=2,
    groups=4,
    group_size=4,
    clone_levels=40,
    clone_epochs=2,
    training_levels=100,
    eval_levels=24,
    validation_levels=12,
    validation_every=1,
)
