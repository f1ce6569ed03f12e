"""How options become a configuration."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.config import Sizes
from benchmarks.environments.rows import settings_of
from benchmarks.environments.sokoban import SOKOBAN
from benchmarks.learning.results import Config
from benchmarks.learning.stack import TINY

#: Settings of `TrainerConfig` that a benchmark chooses itself, or that change nothing of what is learned.
_OWN = ("iterations", "groups", "group_size", "temperature", "validate_every", "checkpoint_every", "seed")


#: Sizes of Sokoban, in full and for CI.
FULL, QUICK = SOKOBAN.full, SOKOBAN.quick


def make_config(
    *, env: str, methods: Sequence[str], seeds: Sequence[int], model: str, history: int | None, sizes: Sizes
) -> Config:
    """Put a configuration together.

    Args:
        env: environment id, or a name in `benchmarks.environments.rows`.
        methods: names of recipes.
        seeds: training seeds.
        model: "tiny" or a model folder.
        history: pairs in the prompt; None: what the environment's settings say for the tiny model (0 in Sokoban, where
            it sees nothing but the board), 2 for others.
        sizes: everything that makes it long or short.
    """
    tiny = model == TINY
    row = settings_of(env)
    settings = row.tiny if tiny else row.pretrained
    training: dict[str, Any] = {name: value for name, value in dataclasses.asdict(settings).items() if name not in _OWN}
    return Config(
        env=row.id,
        methods=list(methods),
        seeds=list(seeds),
        model=model if tiny else str(Path(model)),
        history=(row.history if tiny else 2) if history is None else history,
        instructions=not tiny,
        temperature=settings.temperature,
        training=training,
        setup=copy.deepcopy(row.setup if tiny or row.pretrained_setup is None else row.pretrained_setup),
        **dataclasses.asdict(sizes),
    )
