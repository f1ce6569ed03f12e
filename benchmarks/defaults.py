"""Sizes of the default run and of the quick one, and how options become a configuration."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from baselines.recipes import SOKOBAN_PRETRAINED, SOKOBAN_TINY
from benchmarks.results import Config
from benchmarks.stack import TINY

#: Settings of `TrainerConfig` that a benchmark chooses itself, or that change nothing of what is learned.
_OWN = ("iterations", "groups", "group_size", "temperature", "validate_every", "checkpoint_every", "seed")


@dataclass(frozen=True)
class Sizes:
    """The numbers of `Config` that make a benchmark long or short; see there."""

    steps: int
    groups: int
    group_size: int
    clone_levels: int
    clone_epochs: int
    training_levels: int
    eval_levels: int
    validation_levels: int
    validation_every: int


#: The default: about ten minutes on two cores for one seed and four methods.
FULL = Sizes(
    steps=SOKOBAN_TINY.iterations,
    groups=SOKOBAN_TINY.groups,
    group_size=SOKOBAN_TINY.group_size,
    clone_levels=300,
    clone_epochs=6,
    training_levels=8000,
    eval_levels=512,
    validation_levels=128,
    validation_every=25,
)
#: For CI: every part of the pipeline, none of the luck.
QUICK = Sizes(
    steps=6,
    groups=8,
    group_size=8,
    clone_levels=200,
    clone_epochs=8,
    training_levels=500,
    eval_levels=64,
    validation_levels=32,
    validation_every=2,
)


def make_config(
    *, env: str, methods: Sequence[str], seeds: Sequence[int], model: str, history: int | None, sizes: Sizes
) -> Config:
    """Put a configuration together.

    Args:
        env: environment id.
        methods: names of recipes.
        seeds: training seeds.
        model: "tiny" or a model folder.
        history: pairs in the prompt; None: 0 for the tiny model, which sees nothing but the board, 2 for others.
        sizes: everything that makes it long or short.
    """
    tiny = model == TINY
    settings = SOKOBAN_TINY if tiny else SOKOBAN_PRETRAINED
    training: dict[str, Any] = {name: value for name, value in dataclasses.asdict(settings).items() if name not in _OWN}
    return Config(
        env=env,
        methods=list(methods),
        seeds=list(seeds),
        model=model if tiny else str(Path(model)),
        history=(0 if tiny else 2) if history is None else history,
        instructions=not tiny,
        temperature=settings.temperature,
        training=training,
        **dataclasses.asdict(sizes),
    )
