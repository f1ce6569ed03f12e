"""Exact distances for every state of a small room: breadth-first search on very wide integers.

A state (player, box 1, .., box k) of a room with S cells is one bit of an integer of S**(k+1) bits, so that the set
of all states at one distance is a single Python integer. Walking in a direction shifts that integer by a constant,
and so does pushing box i: one step of the search from *all* states at once is a handful of shifts and masks. The
search runs backward from all solved states (every box on a target, the player anywhere), hence one run gives the
exact number of moves to the solution of every state; what it never reaches is a dead end. Boxes are alike, their
orders are kept apart only because that makes a push a shift.
"""

from __future__ import annotations

from functools import lru_cache
from math import inf

import numpy as np

from agentgym.sokoban.rules import Level, cells_of


class _Geometry:
    """What a rectangle of height x width cells with `boxes` boxes contributes, whatever its walls.

    Axis 0 of a state is the player, axis i box i. `without[c]` holds the states with nothing on cell c, `on[i][c]`
    those with axis i on cell c, `distinct` those without two things on one cell. `steps` lists, for the four
    directions, the shift of walking and of pushing each box, with the mask of the states (after the move) whose
    predecessor lies in the rectangle.
    """

    def __init__(self, height: int, width: int, boxes: int) -> None:
        size = height * width
        axes = range(boxes + 1)
        self.size = size
        self.bits = size ** (boxes + 1)
        self.everything = (1 << self.bits) - 1
        self.on: list[list[int]] = []
        for axis in axes:
            unit = size**axis
            repeat = self.everything // ((1 << (unit * size)) - 1)
            self.on.append([(((1 << unit) - 1) << (c * unit)) * repeat for c in range(size)])
        self.without: list[int] = []
        self.distinct = self.everything
        for c in range(size):
            seen = 0
            for axis in axes:
                self.distinct &= ~(seen & self.on[axis][c])
                seen |= self.on[axis][c]
            self.without.append(self.everything & ~seen)
        self.steps: list[tuple[int, int]] = []
        for dr, dc in ((-1, 0), (1, 0), (0, -1), (0, 1)):
            delta = dr * width + dc
            walk = 0
            push = [0] * (boxes + 1)
            for c in range(size):
                row, column = divmod(c, width)
                if not (0 <= row - dr < height and 0 <= column - dc < width):
                    continue
                walk |= self.on[0][c]
                if 0 <= row + dr < height and 0 <= column + dc < width:
                    for axis in axes[1:]:
                        push[axis] |= self.on[0][c] & self.on[axis][c + delta]
            self.steps.append((delta, walk))
            self.steps.extend((delta * (1 + size**axis), push[axis]) for axis in axes[1:])


_geometry = lru_cache(maxsize=64)(_Geometry)


def box_of_floor(level: Level) -> tuple[int, int, int, int]:
    """Smallest rectangle around the floor: first row, first column, height, width."""
    stride = level.width + 1
    floor = level.floor
    first = ((floor & -floor).bit_length() - 1) // stride
    last = (floor.bit_length() - 1) // stride
    columns = 0
    for row in range(first, last + 1):
        columns |= floor >> row * stride
    columns &= (1 << level.width) - 1
    left = (columns & -columns).bit_length() - 1
    return first, left, last - first + 1, columns.bit_length() - left


class BitTable:
    r"""Exact distances of a room, layer by layer.

    Args:
        level: the room (walls and targets); the start state plays no part.
        depth: search only this many moves deep now; `distance` continues as far as it needs to.

    >>> from agentgym.sokoban.text import parse_level
    >>> level = parse_level("######\n#@ $.#\n######")
    >>> BitTable(level).distance(level.player, level.boxes)
    2
    """

    def __init__(self, level: Level, depth: int | None = None) -> None:
        row, column, height, width = box_of_floor(level)
        stride = level.width + 1
        self._cells, self._index = _numbering(row * stride + column, height, width, stride)
        self._count = level.targets.bit_count()
        geometry = _geometry(height, width, self._count)
        self._size = geometry.size
        legal = geometry.distinct
        for i, cell in enumerate(self._cells):
            if level.walls >> cell & 1:
                legal &= geometry.without[i]
        self._steps = geometry.steps
        solved = legal
        targets = [self._index[cell] for cell in cells_of(level.targets)]
        for axis in range(1, self._count + 1):
            solved &= _union(geometry.on[axis], targets)
        #: Element d holds all states that are d moves from the solution.
        self.layers: list[int] = [solved]
        self._unseen = legal & ~solved
        self.search(depth)

    @staticmethod
    def bits(level: Level) -> int:
        """Size of a set of states of this room, in bits."""
        _, _, height, width = box_of_floor(level)
        return int((height * width) ** (level.targets.bit_count() + 1))

    @property
    def complete(self) -> bool:
        """Whether the search has reached every state it can reach."""
        return not self.layers[-1]

    def search(self, depth: int | None = None) -> None:
        """Continue until the states `depth` moves away are known, or to the end when None."""
        layers, unseen = self.layers, self._unseen
        while layers[-1] and (depth is None or len(layers) <= depth):
            frontier = layers[-1]
            found = 0
            for shift, mask in self._steps:
                part = frontier & mask
                if part:
                    found |= part >> shift if shift > 0 else part << -shift
            found &= unseen  # takes out illegal predecessors too: what is unseen is legal
            unseen ^= found
            layers.append(found)
        self._unseen = unseen

    def distance(self, player: int, boxes: int) -> float:
        """Exact number of moves to the solution, `inf` for a dead end."""
        bit = self._index[player]
        unit = self._size
        for cell in cells_of(boxes):
            bit += unit * self._index[cell]
            unit *= self._size
        if not self.complete and self._unseen >> bit & 1:
            self.search()
        if self._unseen >> bit & 1:
            return inf
        return next(d for d, layer in enumerate(self.layers) if layer >> bit & 1)

    def states(self, shortest: int, longest: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Codes, for `decode`, of all states at a distance in shortest..longest, in a fixed order."""
        self.search(longest)
        chosen = 0
        for layer in self.layers[shortest : longest + 1]:
            chosen |= layer
        if not chosen:
            return np.empty(0, np.int64)
        data = np.frombuffer(chosen.to_bytes((chosen.bit_length() + 7) // 8, "little"), np.uint8)
        return np.flatnonzero(np.unpackbits(data, bitorder="little"))

    def decode(self, code: int) -> tuple[int, int]:
        """Return (player, boxes) of a state code."""
        code, player = divmod(int(code), self._size)
        boxes = 0
        for _ in range(self._count):
            code, cell = divmod(code, self._size)
            boxes |= 1 << self._cells[cell]
        return self._cells[player], boxes


@lru_cache(maxsize=1024)
def _numbering(first: int, height: int, width: int, stride: int) -> tuple[list[int], dict[int, int]]:
    """Cells of a rectangle of the board in order, and the place of each in that order."""
    cells = [first + r * stride + c for r in range(height) for c in range(width)]
    return cells, {cell: i for i, cell in enumerate(cells)}


def _union(masks: list[int], cells: list[int]) -> int:
    union = 0
    for cell in cells:
        union |= masks[cell]
    return union
