"""Sokoban in the learning benchmark."""

import dataclasses

from agentgym.sokoban.rules import DIRECTIONS
from agentgym.sokoban.text import DEFAULT
from baselines.environments.settings import (
    SOKOBAN_PRETRAINED,
    SOKOBAN_TINY,
    EnvSettings,
    Scripted,
    Setup,
    Sizes,
    limit_of_steps,
)

#: Sokoban: about ten minutes on two cores for one seed and four methods.
SOKOBAN = EnvSettings(
    name="sokoban",
    id="AgentRL/Sokoban-v0",
    papers_play="boards of gym-sokoban's generator",
    papers_options={"steps": limit_of_steps, "board": lambda board: {"size": [int(side) for side in board.split("x")]}},
    tiny=SOKOBAN_TINY,
    pretrained=SOKOBAN_PRETRAINED,
    full=Sizes.trained(
        SOKOBAN_TINY, clone_tasks=300, clone_epochs=6, training_tasks=8000, eval_tasks=512, validation_tasks=128
    ),
    # For CI: every part of the pipeline, none of the luck.
    quick=Sizes(
        steps=6, groups=8, group_size=8, clone_tasks=200, clone_epochs=8, training_tasks=500, eval_tasks=64,
        validation_tasks=32, validation_every=2,
    ),
    setup=Setup(plenty={"num_levels": 100_000}),
    tiles={symbol: name for name, symbol in DEFAULT._asdict().items()},
    data={"levels": ""},
    # Moves into walls are played too; rewards of single pushes say little of success.
    scripted=Scripted(128, (0.16, 0.33, 0.52), DIRECTIONS, "won"),
)  # fmt: skip

#: The same boards as pictures: 48 x 48 pixels for the tiny model, which reads a cell at a time, 96 x 96 for any other.
VISUAL_SOKOBAN = dataclasses.replace(
    SOKOBAN,
    name="visualsokoban",
    id="AgentRL/VisualSokoban-v0",
    # A clone of few passes plays hardly better than chance here (docs/environments/sokoban.md).
    full=dataclasses.replace(SOKOBAN.full, clone_tasks=1200, clone_epochs=14),
    quick=dataclasses.replace(
        SOKOBAN.quick, steps=2, groups=4, group_size=4, clone_tasks=16, clone_epochs=2, eval_tasks=16,
        validation_tasks=8, validation_every=1,
    ),
    setup=Setup(options={"tile_size": 8}, plenty=SOKOBAN.setup.plenty),
    pretrained_setup=SOKOBAN.setup,
    tiles=None,
    scripted=None,
)  # fmt: skip
