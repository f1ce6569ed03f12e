"""Who learns: batches, losses, the trainer, its recipes, and behaviour cloning.

    from baselines import train
    run = train("AgentRL/Sokoban-v0")

Importing this package loads nothing heavy; `train` loads torch when it is asked for. Everything else is in the file
of its name, for example `from baselines.imitation.cloning import clone`.
"""

from typing import TYPE_CHECKING, Any

import agentgym  # noqa: F401  # which says what is not installed

if TYPE_CHECKING:
    from baselines.runs.run import train

__all__ = ["train"]


def __getattr__(name: str) -> Any:
    if name != "train":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from baselines.runs.run import train

    return train
