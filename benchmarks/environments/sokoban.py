"""Sokoban in the learning benchmark."""

from __future__ import annotations

import dataclasses

from baselines.recipes import SOKOBAN_PRETRAINED, SOKOBAN_TINY
from benchmarks.config import Sizes
from benchmarks.environments.settings import EnvSettings


def _board_tiles() -> dict[str, str]:
    from agentgym.sokoban.text import DEFAULT

    return {symbol: name for name, symbol in dataclasses.asdict(DEFAULT).items()}


#: Sokoban: about ten minutes on two cores for one seed and four methods.
SOKOBAN = EnvSettings(
    name="sokoban",
    id="AgentRL/Sokoban-v0",
    tiny=SOKOBAN_TINY,
    pretrained=SOKOBAN_PRETRAINED,
    full=Sizes.trained(
        SOKOBAN_TINY,
        clone_levels=300,
        clone_epochs=6,
        training_levels=8000,
        eval_levels=512,
        validation_levels=128,
    ),
    # For CI: every part of the pipeline, none of the luck.
    quick=Sizes(
        steps=6,
        groups=8,
        group_size=8,
        clone_levels=200,
        clone_epochs=8,
        training_levels=500,
        eval_levels=64,
        validation_levels=32,
        validation_every=2,
    ),
    tiles=_board_tiles,
)
