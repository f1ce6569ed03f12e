"""Inputs of a vision-language model for prompts with pictures: placeholders, pixels, and positions on 3 axes.

A hook before the model's forward pass inserts them. Positions are computed for whole sequences, and
`policies.decode.cache` continues them: the models' own offset (`rope_deltas`) would be that of another batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from policies.pretrained import PICTURES, pictures_of
from policies.prompts import FIRST_PICTURE, Prompt
from policies.vision.store import PictureStore

Ints = NDArray[np.int64]


class PictureInputs:
    """Replaces the picture numbers in a model's prompts by placeholders and pixels."""

    def __init__(self, pictures: PictureStore, config: Any) -> None:
        self.pictures = pictures
        self._placeholder = config.image_token_id
        # A model or a text may contain these tokens without a picture; the model would then look for missing pixels.
        self._reserved = torch.tensor([config.image_token_id, config.video_token_id])
        self._instead = config.vision_end_token_id

    def __deepcopy__(self, memo: object) -> PictureInputs:
        return self

    def attach(self, model: nn.Module) -> None:
        """Let a model read prompts with pictures; its weights and files do not change.

        Raises:
            ValueError: the model already reads the pictures of another store.
        """
        there = pictures_of(model)
        if there is None:
            model.register_forward_pre_hook(_see, with_kwargs=True)
            setattr(model, PICTURES, self)
        elif there.pictures is not self.pictures:
            raise ValueError(
                "the model reads the pictures of another policy already, whose prompts it would not know any more: "
                "share them, pictures=policy.pictures, or copy the model"
            )

    def shifts(self, ids: Tensor) -> Tensor:
        """Return int64 (n,): the position of a token behind all pictures of its row, minus its index in the row.

        At most 0: a picture of 3 x 3 placeholders takes up only 3 positions.
        """
        rows = []
        for row in ids.cpu().numpy():
            found = [self.pictures.of(row[low:high].tolist()) for low, high in picture_runs(row)]
            rows.append(sum(max(one.height, one.width) - one.height * one.width for one in found))
        return torch.tensor(rows, device=ids.device)

    def read(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a forward pass, from `input_ids` and optional further ones."""
        ids, places, cache = (given.get(name) for name in ("input_ids", "position_ids", "past_key_values"))
        assert isinstance(ids, Tensor)
        types = (ids >= FIRST_PICTURE).long()
        words = ids.masked_fill(torch.isin(ids, self._reserved.to(ids.device)), self._instead)
        made: dict[str, Any] = {**given, "input_ids": words, "mm_token_type_ids": types}
        if cache is not None and cache.get_seq_length():  # a cached decode step: text only, at the given positions
            if places is not None:
                made["position_ids"] = places.expand(3, *places.shape)
            return made
        numbers = ids.cpu().numpy()
        depths = np.broadcast_to(np.arange(ids.shape[1]), ids.shape) if places is None else places.cpu().numpy()
        positions = torch.from_numpy(rotary_positions(numbers, depths, self._shape)).to(ids.device)
        # Packed sequences are distinguished by the places of their tokens, in a fourth axis in front.
        packed = places is not None and given.get("attention_mask") is None
        made["position_ids"] = torch.cat([places[None], positions]) if packed and places is not None else positions
        found = [self.pictures.of(row[low:high].tolist()) for row in numbers for low, high in picture_runs(row)]
        if found:
            made["input_ids"] = words.masked_fill(types.bool(), self._placeholder)
            made["pixel_values"] = torch.cat([self.pictures.patches(one) for one in found]).to(ids.device)
            made["image_grid_thw"] = torch.tensor([self.pictures.grid(one) for one in found], device=ids.device)
        return made

    def _shape(self, ids: Prompt) -> tuple[int, int]:
        found = self.pictures.of(ids)
        return found.height, found.width


def _see(model: nn.Module, arguments: tuple[Any, ...], given: dict[str, Any]) -> tuple[tuple[Any, ...], Any] | None:
    inputs = pictures_of(model)
    # If the types are given, this hook already ran on an adapter around this model.
    if inputs is None or "mm_token_type_ids" in given or "input_ids" not in given:
        return None
    return arguments, inputs.read(given)


def picture_runs(ids: Ints) -> list[tuple[int, int]]:
    """Return start and end of each picture in a row of ids, (S,).

    >>> picture_runs(np.array([5, FIRST_PICTURE, FIRST_PICTURE + 3, 6, FIRST_PICTURE]))
    [(1, 3), (4, 5)]
    """
    inside = np.concatenate([[False], ids >= FIRST_PICTURE, [False]])
    edges = np.flatnonzero(inside[1:] != inside[:-1])
    return [(int(low), int(high)) for low, high in edges.reshape(-1, 2)]


def rotary_positions(ids: Ints, depths: Ints, shape: Callable[[Prompt], tuple[int, int]]) -> Ints:
    """Return the positions of tokens in time, height and width.

    A word takes up one position, the same on all axes. A picture of h x w placeholders has one position in time, and
    those of its rows and columns on the two other axes; the next token is max(h, w) positions behind its first (M-RoPE,
    "Qwen2-VL: Enhancing Vision-Language Model's Perception of the World at Any Resolution", 2024, section 2.1).

    Args:
        ids: (n, S), with the pictures' numbers.
        depths: (n, S), the number of tokens before each one in its own sequence: rows may hold several sequences, one
            behind the other, or trees of them in depth-first order (`policies.scoring.prefix_tree`).
        shape: returns the picture's shape in placeholders for a run of numbers.

    Returns:
        int64 (3, n, S).

    A word, a picture of 2 x 2, two words; and a branch from behind the picture:

    >>> p = FIRST_PICTURE
    >>> rotary_positions(np.array([[7, p, p, p, p, 8, 9, 8]]), np.array([[0, 1, 2, 3, 4, 5, 6, 5]]), lambda _: (2, 2))
    array([[[0, 1, 1, 1, 1, 3, 4, 3]],
    <BLANKLINE>
           [[0, 1, 1, 2, 2, 3, 4, 3]],
    <BLANKLINE>
           [[0, 1, 2, 1, 2, 3, 4, 3]]])
    """
    positions = np.zeros((3, *ids.shape), np.int64)
    for number, (row, places) in enumerate(zip(ids, depths, strict=True)):
        seen = row >= FIRST_PICTURE
        begins = np.flatnonzero((np.diff(places) != 1) | np.diff(seen)) + 1
        following = np.zeros(int(places.max(initial=0)) + 2, np.int64)  # by depth, on the path of the latest token
        for low, high in zip([0, *begins.tolist()], [*begins.tolist(), len(row)], strict=True):
            depth, size = int(places[low]), high - low
            first = following[depth]
            if seen[low]:
                height, width = shape(tuple(row[low:high].tolist()))
                positions[0, number, low:high] = first
                positions[1, number, low:high] = first + np.repeat(np.arange(height), width)
                positions[2, number, low:high] = first + np.tile(np.arange(width), height)
                following[depth + size] = first + max(height, width)
            else:
                positions[:, number, low:high] = first + np.arange(size)
                following[depth + 1 : depth + 1 + size] = first + 1 + np.arange(size)
    return positions
