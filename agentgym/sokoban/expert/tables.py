"""Exact distances of all states of a room, by breadth-first search backward from the solved states, in two forms.

Small rooms (`BitTable`): a state (player, box 1, .., box k) of a room with S cells is one bit of an integer of S**(k+1)
bits, so the set of all states at one distance is one Python integer. A move in one direction, or a push of box i,
shifts that integer by a constant: a few shifts and masks advance the search for all states at once.

Larger rooms (`RankTable`): the box sets of a room with n floor cells are numbered 0 .. C(n, k) - 1 (combinatorial
number system), a state is box set * n + player, and one flat array holds its distance. One numpy call handles a whole
layer; a complete table keeps only the states that can be solved.

A solved state has every box on a target and distance 0; a state that the search does not reach is a dead end.
"""

from functools import lru_cache
from math import comb, inf
from typing import Any

import numpy as np

from agentgym.sokoban.text import Level, box_of_floor, cells_of

Ints = np.ndarray[Any, np.dtype[np.int64]]

#: Largest number of states of a table: 64 MiB of 16-bit distances during the search.
MAX_STATES = 1 << 25
_UNSEEN = np.iinfo(np.int16).max


class _Geometry:
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


class BitTable:
    """Exact distances of a room, layer by layer, at first `depth` moves deep; `distance` continues as far as needed."""

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
            solved &= sum(geometry.on[axis][place] for place in targets)
        #: Element d holds all states that are d moves from the solution.
        self.layers: list[int] = [solved]
        self._unseen = legal & ~solved
        self.search(depth)

    @staticmethod
    def bits(level: Level) -> int:
        """Return the size of a set of states of this room, in bits."""
        _, _, height, width = box_of_floor(level)
        return int((height * width) ** (level.targets.bit_count() + 1))

    @property
    def complete(self) -> bool:
        """Whether every reachable state was reached."""
        return not self.layers[-1]

    def search(self, depth: int | None = None) -> None:
        """Continue until the states `depth` moves away are known; None: to the end."""
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
        """Return the exact number of moves to the solution, `inf` for a dead end."""
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
        """Return the codes, for `decode`, of all states at a distance in shortest..longest, in a fixed order."""
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
    cells = [first + r * stride + c for r in range(height) for c in range(width)]
    return cells, {cell: i for i, cell in enumerate(cells)}


class RankTable:
    """Exact distances of a room, one array entry per state; the methods are those of `BitTable`."""

    def __init__(self, level: Level, depth: int | None = None) -> None:
        self._cells = list(cells_of(level.floor))
        self._index = {cell: i for i, cell in enumerate(self._cells)}
        self._floor = n = len(self._cells)
        self._count = k = level.targets.bit_count()
        # column i holds C(cell, i + 1): the rank of a sorted box set is the sum of its entries
        self._binomial = np.array([[comb(c, i + 1) for i in range(k)] for c in range(n)], np.int64)
        self._ahead = np.array([[self._index.get(c + d, -1) for c in self._cells] for d in level.deltas], np.int64)
        self._behind = np.array([[self._index.get(c - d, -1) for c in self._cells] for d in level.deltas], np.int64)
        self._distance = np.full(comb(n, k) * n, _UNSEEN, np.int16)
        self._alive: Ints | None = None  # codes of the states that can be solved, once all are known
        self.depth = 0
        targets = np.array([self._index[cell] for cell in cells_of(level.targets)], np.int64)
        players = np.setdiff1d(np.arange(n), targets)
        self._players, self._boxes = players, np.repeat(targets[None], len(players), axis=0)
        self._distance[self._codes(self._players, self._boxes)] = 0
        self.search(depth)

    @staticmethod
    def size(level: Level) -> int:
        n = level.floor.bit_count()
        return comb(n, level.targets.bit_count()) * n

    @property
    def complete(self) -> bool:
        return len(self._players) == 0

    def search(self, depth: int | None = None) -> None:
        while not self.complete and (depth is None or self.depth < depth):
            self._layer()
        if self.complete and self._alive is None:
            self._alive = np.flatnonzero(self._distance < _UNSEEN)
            self._distance = self._distance[self._alive]

    def _layer(self) -> None:
        players, boxes = self._players, self._boxes
        self.depth += 1
        found: list[tuple[Ints, Ints]] = []
        for ahead, behind in zip(self._ahead, self._behind, strict=True):
            before = behind[players]
            rows = np.flatnonzero((before >= 0) & ~(boxes == before[:, None]).any(axis=1))
            before, walked = before[rows], boxes[rows]
            self._claim(before, walked, found)
            pulled = walked == ahead[players[rows]][:, None]
            rows_of_box, column = np.nonzero(pulled)
            dragged = walked[rows_of_box]
            dragged[np.arange(len(column)), column] = players[rows][rows_of_box]
            dragged.sort(axis=1)
            self._claim(before[rows_of_box], dragged, found)
        self._players = np.concatenate([part[0] for part in found])
        self._boxes = np.concatenate([part[1] for part in found])

    def _claim(self, players: Ints, boxes: Ints, found: list[tuple[Ints, Ints]]) -> None:
        code = self._codes(players, boxes)
        new = np.flatnonzero(self._distance[code] == _UNSEEN)
        # within one direction two states of a layer never share a predecessor by the same kind of move: no repeats
        self._distance[code[new]] = self.depth
        found.append((players[new], boxes[new]))

    def _codes(self, players: Ints, boxes: Ints) -> Ints:
        rank = self._binomial[boxes, np.arange(self._count)].sum(axis=1)
        return np.asarray(rank * self._floor + players, np.int64)

    def distance(self, player: int, boxes: int) -> float:
        row = np.array([[self._index[cell] for cell in cells_of(boxes)]], np.int64)
        code = int(self._codes(np.array([self._index[player]]), row)[0])
        while self._alive is None:
            if self._distance[code] < _UNSEEN:
                return int(self._distance[code])
            self.search(self.depth + 16)
        place = int(np.searchsorted(self._alive, code))
        found = place < len(self._alive) and self._alive[place] == code
        return int(self._distance[place]) if found else inf

    def states(self, shortest: int, longest: int) -> Ints:
        """Return the codes of all states at a distance in shortest..longest, in increasing order."""
        self.search(longest)
        wanted = np.flatnonzero((self._distance >= shortest) & (self._distance <= min(longest, _UNSEEN - 1)))
        return wanted if self._alive is None else self._alive[wanted]

    def decode(self, code: int) -> tuple[int, int]:
        rank, player = divmod(int(code), self._floor)
        boxes = 0
        for i in reversed(range(self._count)):
            cell = int(np.searchsorted(self._binomial[:, i], rank, side="right")) - 1
            rank -= int(self._binomial[cell, i])
            boxes |= 1 << self._cells[cell]
        return self._cells[player], boxes
