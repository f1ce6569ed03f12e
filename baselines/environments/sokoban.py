"""Sokoban in the learning benchmark."""

import dataclasses

from agentgym.sokoban.text import DEFAULT
from baselines.environments.settings import Setup, limit_of_steps, read

SOKOBAN = read(
    __file__,
    papers_options={"steps": limit_of_steps, "board": lambda board: {"size": [int(side) for side in board.split("x")]}},
    tiles={symbol: name for name, symbol in DEFAULT._asdict().items()},
)

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
