"""Exact distances for rooms too large for wide integers: breadth-first search on numbered states.

The box sets of a room with n floor cells are numbered 0 .. C(n, k) - 1 (combinatorial number system), a state is
box set * n + player, and one flat array holds its distance. The search runs backward from all solved states and
handles a whole layer of states per numpy call; it can stop at a depth and continue later, so that a 10x10 room with
four boxes (millions of states) costs only as much as the levels that are wanted from it. Most states of a large
room are dead ends: once the search is complete the table keeps the others only.
"""

from __future__ import annotations

from math import comb, inf
from typing import Any

import numpy as np

from agentgym.sokoban.rules import Level, cells_of

Ints = np.ndarray[Any, np.dtype[np.int64]]

#: Largest number of states for which a table is made: 64 MiB of 16-bit distances while the search runs.
MAX_STATES = 1 << 25
_UNSEEN = np.iinfo(np.int16).max


class RankTable:
    """Exact distances of a room, one array entry per state.

    Same public methods as `agentgym.sokoban.expert.tables.BitTable`.

    Args:
        level: the room (walls and targets); the start state plays no part.
        depth: search only this many moves deep now; `distance` continues as far as it needs to.
    """

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
        """Number of states of this room."""
        n = level.floor.bit_count()
        return comb(n, level.targets.bit_count()) * n

    @property
    def complete(self) -> bool:
        """Whether the search has reached every state it can reach."""
        return len(self._players) == 0

    def search(self, depth: int | None = None) -> None:
        """Continue until the states `depth` moves away are known, or to the end when None."""
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
        """Give the states not seen before the current depth, and add them to the layer."""
        code = self._codes(players, boxes)
        new = np.flatnonzero(self._distance[code] == _UNSEEN)
        # within one direction two states of a layer never share a predecessor by the same kind of move: no repeats
        self._distance[code[new]] = self.depth
        found.append((players[new], boxes[new]))

    def _codes(self, players: Ints, boxes: Ints) -> Ints:
        rank = self._binomial[boxes, np.arange(self._count)].sum(axis=1)
        return np.asarray(rank * self._floor + players, np.int64)

    def distance(self, player: int, boxes: int) -> float:
        """Exact number of moves to the solution, `inf` for a dead end."""
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
        """Codes, for `decode`, of all states at a distance in shortest..longest, in increasing order."""
        self.search(longest)
        wanted = np.flatnonzero((self._distance >= shortest) & (self._distance <= min(longest, _UNSEEN - 1)))
        return wanted if self._alive is None else self._alive[wanted]

    def decode(self, code: int) -> tuple[int, int]:
        """Return (player, boxes) of a state code."""
        rank, player = divmod(int(code), self._floor)
        boxes = 0
        for i in reversed(range(self._count)):
            cell = int(np.searchsorted(self._binomial[:, i], rank, side="right")) - 1
            rank -= int(self._binomial[cell, i])
            boxes |= 1 << self._cells[cell]
        return self._cells[player], boxes
