"""One place's observation and info out of those of a vector environment, as a single environment would show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np


def observation_of(space: gym.Space[Any], observations: Any, place: int) -> Any:
    """Return one place's observation from a batch.

    Args:
        space: the single observation space. Batches of `Dict` and `Tuple` spaces hold one batch per part.
        observations: the batch.
        place: which.

    >>> observation_of(gym.spaces.Discrete(4), np.array([3, 1]), 1).item()
    1
    """
    if isinstance(space, gym.spaces.Dict):
        return {name: observation_of(part, observations[name], place) for name, part in space.items()}
    if isinstance(space, gym.spaces.Tuple):
        return tuple(observation_of(part, batch, place) for part, batch in zip(space, observations, strict=True))
    return observations[place]


def info_of(infos: Mapping[str, Any], place: int) -> dict[str, Any]:
    """Return one place's info: the entries that have one value per place, where the place has a value.

    Args:
        infos: of a vector environment; `_key` masks the places that `key` holds for. Entries that hold no array
            concern no single place and are left out, as are the last observation and info of a finished episode.
        place: which.

    >>> info_of({"won": np.array([True, False]), "hint": np.array([0, 7]), "_hint": np.array([False, True])}, 0)
    {'won': True}
    """
    found: dict[str, Any] = {}
    for name, column in infos.items():
        if name.startswith("_") or name in ("final_obs", "final_info"):
            continue
        mask = infos.get(f"_{name}")
        if mask is not None and not mask[place]:
            continue
        if isinstance(column, Mapping):
            found[name] = info_of(column, place)
        elif isinstance(column, np.ndarray):
            value = column[place]
            found[name] = value.item() if isinstance(value, np.generic) else value
    return found
