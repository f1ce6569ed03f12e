"""Pictures of boards, drawn with numpy at any tile size."""

from functools import lru_cache
from typing import Any

import numpy as np

from agentgym.checks import whole
from agentgym.sokoban.text import DEFAULT

Image = np.ndarray[Any, np.dtype[np.uint8]]
Floats = np.ndarray[Any, np.dtype[np.float64]]
Color = tuple[int, int, int]

MIN_TILE = 4
_OVERSAMPLING = 6
_FLOOR, _JOINT = (226, 219, 202), (206, 197, 177)
_MORTAR, _BRICK, _BRICK_LIT = (82, 66, 64), (150, 82, 66), (176, 104, 84)
_TARGET = (201, 62, 72)
_BOX, _BOX_FRAME, _BOX_EDGE = (205, 150, 84), (166, 110, 52), (92, 58, 24)
_DONE, _DONE_FRAME, _DONE_EDGE = (132, 186, 98), (84, 140, 62), (36, 74, 28)
_BODY, _BODY_EDGE, _EYE, _PUPIL = (58, 110, 204), (24, 50, 108), (250, 250, 250), (20, 24, 40)

_TO_KIND = {ord(symbol): chr(kind) for kind, symbol in enumerate(DEFAULT)}


class Painter:
    """Draws boards given as text in the default symbols with `tile_size` pixels per cell, at least 4."""

    def __init__(self, tile_size: int = 16) -> None:
        self.tile_size = whole("tile_size", tile_size, MIN_TILE)
        self._tiles = tiles(self.tile_size)

    def __call__(self, text: str, height: int = 0, width: int = 0) -> Image:
        """Return a board as RGB, uint8 of shape (rows * tile_size, columns * tile_size, 3).

        `text` has rows of equal length; wall pads the picture to at least `height` rows and `width` columns.
        """
        columns = text.find("\n")
        columns = len(text) if columns < 0 else columns
        kinds = np.frombuffer(f"{text}\n".translate(_TO_KIND).encode("ascii"), np.uint8)
        kinds = kinds.reshape(-1, columns + 1)[:, :columns]
        down, right = max(height - kinds.shape[0], 0), max(width - columns, 0)
        if down or right:
            kinds = np.pad(kinds, ((down // 2, down - down // 2), (right // 2, right - right // 2)))
        rows, columns = kinds.shape
        size = self.tile_size
        picture: Image = self._tiles[kinds].transpose(0, 2, 1, 3, 4).reshape(rows * size, columns * size, 3)
        return picture


@lru_cache(maxsize=16)
def tiles(size: int) -> Image:
    """Return the seven tiles, shape (7, size, size, 3), in the order of `Symbols`; drawn large and averaged down."""
    fine = size * _OVERSAMPLING
    y, x = np.meshgrid(*[(np.arange(fine) + 0.5) / fine] * 2, indexing="ij")
    floor = _floor(x, y)
    target = _target(floor, x, y)
    box = _box(floor, x, y, (_BOX, _BOX_FRAME, _BOX_EDGE))
    done = _box(floor, x, y, (_DONE, _DONE_FRAME, _DONE_EDGE))
    large = np.stack([_wall(x, y), floor, target, box, done, _player(floor, x, y), _player(target, x, y)])
    averaged = large.reshape(7, size, _OVERSAMPLING, size, _OVERSAMPLING, 3).mean(axis=(2, 4))
    result: Image = np.round(averaged).astype(np.uint8)
    result.flags.writeable = False
    return result


def _floor(x: Floats, y: Floats) -> Floats:
    picture = np.full((*x.shape, 3), _FLOOR, np.float64)
    picture[(x > 0.96) | (y > 0.96)] = _JOINT
    return picture


def _wall(x: Floats, y: Floats) -> Floats:
    picture = np.full((*x.shape, 3), _MORTAR, np.float64)
    course, height = np.divmod(y * 4, 1.0)
    along = np.mod(x * 2 + 0.5 * (course % 2), 1.0)
    brick = (height > 0.1) & (height < 0.92) & (along > 0.06) & (along < 0.94)
    picture[brick] = _BRICK
    picture[brick & (height < 0.32)] = _BRICK_LIT
    return picture


def _target(floor: Floats, x: Floats, y: Floats) -> Floats:
    picture = floor.copy()
    radius = np.hypot(x - 0.5, y - 0.5)
    picture[((radius > 0.29) & (radius < 0.41)) | (radius < 0.12)] = _TARGET
    return picture


def _box(floor: Floats, x: Floats, y: Floats, colors: tuple[Color, Color, Color]) -> Floats:
    face, frame, edge = colors
    picture = floor.copy()
    reach = np.maximum(abs(x - 0.5), abs(y - 0.5))
    picture[reach < 0.43] = edge
    picture[reach < 0.385] = frame
    inner = reach < 0.27
    picture[inner] = edge
    picture[reach < 0.245] = face
    picture[(reach < 0.245) & (abs(x - y) < 0.1)] = frame
    return picture


def _player(ground: Floats, x: Floats, y: Floats) -> Floats:
    picture = ground.copy()
    radius = np.hypot(x - 0.5, y - 0.5)
    picture[radius < 0.34] = _BODY_EDGE
    picture[radius < 0.29] = _BODY
    for side in (-0.11, 0.11):
        eye = np.hypot(x - 0.5 - side, (y - 0.43) * 0.85)
        picture[eye < 0.085] = _EYE
        picture[eye < 0.042] = _PUPIL
    return picture
