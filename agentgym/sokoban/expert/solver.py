"""Optimal moves from the distance tables of a room; A* over pushes for rooms too large for a table.

A node of A* (Hart, Nilsson and Raphael 1968) is a state right after a push; an edge costs the moves to it. The
heuristic, the cheapest assignment of boxes to targets by pushes, is admissible and consistent: the first solution found
is optimal.
"""

from dataclasses import dataclass
from functools import lru_cache
from heapq import heappop, heappush
from itertools import pairwise
from math import inf, nan

import numpy as np

from agentgym.sokoban.expert.tables import MAX_STATES, BitTable, RankTable
from agentgym.sokoban.rules import DIRECTIONS, successor
from agentgym.sokoban.text import Level, cells_of

State = tuple[int, int]
_FAR = 1_000_000  # more pushes than any real assignment
#: Budget of a search, in steps of about 30 microseconds for boards of any size.
BUDGET = 400_000


@dataclass(frozen=True, slots=True)
class Solution:
    """The moves of a shortest solution (`inf` and () when there is none), and the number of nodes expanded."""

    distance: float
    moves: tuple[str, ...]
    expanded: int


def solve(level: Level, player: int, boxes: int, budget: int = BUDGET) -> Solution | None:
    r"""Find a shortest solution from a state of the level's room; None when the budget did not suffice.

    >>> from agentgym.sokoban.text import parse_level
    >>> level = parse_level("#######\n#@ $ .#\n#######")
    >>> solve(level, level.player, level.boxes)
    Solution(distance=3, moves=('right', 'right', 'right'), expanded=2)
    """
    budget -= level.targets.bit_count() * level.floor.bit_count() // 25  # the table of pushes
    return _Search(level, budget).run((player, boxes)) if budget > 0 else None


class _Search:
    def __init__(self, level: Level, budget: int) -> None:
        self._level = level
        self._left = budget
        self._floor = level.floor
        self._targets = level.targets
        self._deltas = level.deltas
        self._count = level.targets.bit_count()
        self._pushes = self._push_counts()
        #: cells from which a box can be brought to some target
        self._alive = sum(1 << cell for cell in self._pushes)
        self._estimates: dict[int, int] = {}

    def run(self, start: State) -> Solution | None:
        cost: dict[State, int] = {start: 0}
        parent: dict[State, State] = {}
        estimate = self._estimate(start[1])
        queue = [(estimate, estimate, start)] if estimate < _FAR else []
        expanded = 0
        closed: set[State] = set()
        while queue:
            _, _, state = heappop(queue)
            if state in closed:
                continue
            if state[1] == self._targets:
                moves = self._moves(state, parent)
                return Solution(len(moves), moves, expanded)
            self._left -= 1
            expanded += 1
            closed.add(state)
            for steps, after in self._successors(*state):
                if self._left <= 0:
                    return None
                total = cost[state] + steps
                if total < cost.get(after, _FAR) and (estimate := self._estimate(after[1])) < _FAR:
                    cost[after] = total
                    parent[after] = state
                    # among equal sums the one nearer to the solution first
                    heappush(queue, (total + estimate, estimate, after))
        return Solution(inf, (), expanded)

    def _successors(self, player: int, boxes: int) -> list[tuple[int, State]]:
        free = self._floor & ~boxes
        room = free & self._alive
        ready = [_shift(boxes & _shift(room, -delta), -delta) for delta in self._deltas]
        found: list[tuple[int, State]] = []
        for steps, ring in enumerate(self._rings(player, free), start=1):
            for delta, places in zip(self._deltas, ready, strict=True):
                for cell in cells_of(ring & places):
                    box = cell + delta
                    after = boxes ^ (1 << box | 1 << (box + delta))
                    if not self._stuck(box + delta, after):
                        found.append((steps, (box, after)))
        return found

    def _rings(self, player: int, free: int) -> list[int]:
        stride = self._level.width + 1
        ring = 1 << player
        rings = []
        left = free & ~ring
        while ring:
            rings.append(ring)
            ring = (ring << 1 | ring >> 1 | ring << stride | ring >> stride) & left
            left ^= ring
        self._left -= len(rings) * self._floor.bit_length() >> 16
        return rings

    def _stuck(self, cell: int, boxes: int) -> bool:
        solid = boxes | ~self._floor
        up, down, left, right = self._deltas
        for vertical in (up, down):
            if solid >> (cell + vertical) & 1:
                for side in (left, right):
                    corner = cell + vertical + side
                    if solid >> (cell + side) & 1 and solid >> corner & 1:
                        block = 1 << cell | 1 << (cell + vertical) | 1 << (cell + side) | 1 << corner
                        if block & boxes & ~self._targets:
                            return True
        return False

    def _push_counts(self) -> dict[int, list[int]]:
        counts: dict[int, list[int]] = {}
        targets = list(cells_of(self._targets))
        for i, target in enumerate(targets):
            layer, seen, pushes = [target], {target}, 0
            while layer:
                following = []
                for cell in layer:
                    counts.setdefault(cell, [_FAR] * len(targets))[i] = pushes
                    for delta in self._deltas:
                        origin, behind = cell - delta, cell - 2 * delta
                        if behind < 0 or origin in seen:
                            continue
                        if self._floor >> origin & 1 and self._floor >> behind & 1:
                            seen.add(origin)
                            following.append(origin)
                layer, pushes = following, pushes + 1
        return counts

    def _estimate(self, boxes: int) -> int:
        estimate = self._estimates.get(boxes)
        if estimate is None:
            from scipy.optimize import linear_sum_assignment  # heavy: only where a search runs

            if boxes & ~self._alive:
                estimate = _FAR
            else:
                pushes = np.array([self._pushes[cell] for cell in cells_of(boxes)])
                estimate = int(pushes[linear_sum_assignment(pushes)].sum())
            self._left -= 1 + (self._count * self._count >> 8)
            self._estimates[boxes] = estimate
        return estimate

    def _moves(self, state: State, parent: dict[State, State]) -> tuple[str, ...]:
        nodes = [state]
        while nodes[-1] in parent:
            nodes.append(parent[nodes[-1]])
        nodes.reverse()
        moves: list[str] = []
        for (player, boxes), (box, after) in pairwise(nodes):
            direction = self._deltas.index(next(cells_of(after & ~boxes)) - box)
            moves += self._walk(player, box - self._deltas[direction], self._floor & ~boxes)
            moves.append(DIRECTIONS[direction])
        return tuple(moves)

    def _walk(self, player: int, goal: int, free: int) -> list[str]:
        rings = self._rings(player, free)
        steps = next(i for i, ring in enumerate(rings) if ring >> goal & 1)
        walk = []
        for ring in reversed(rings[:steps]):
            direction = next(i for i, delta in enumerate(self._deltas) if ring >> (goal - delta) & 1)
            goal -= self._deltas[direction]
            walk.append(DIRECTIONS[direction])
        return walk[::-1]


def _shift(cells: int, delta: int) -> int:
    return cells << delta if delta > 0 else cells >> -delta


_WIDE_INTEGER_BITS = 1 << 18  # up to here BitTable is the faster one
_SMALL_BITS = 1 << 13
Table = BitTable | RankTable


def room_table(level: Level, depth: int | None = None) -> Table:
    """Return a new table of exact distances for the level's room, searched `depth` moves deep (None: completely)."""
    if BitTable.bits(level) <= _WIDE_INTEGER_BITS:
        return BitTable(level, depth)
    states = RankTable.size(level)
    if states > MAX_STATES:
        raise ValueError(
            f"a room with {level.floor.bit_count()} floor cells and {level.targets.bit_count()} boxes has {states} "
            f"states, and a distance table at most {MAX_STATES}: use fewer boxes or a smaller room"
        )
    return RankTable(level, depth)


def shared_table(level: Level) -> Table:
    """Return the complete table of the level's room; tables of recent rooms are cached."""
    room = Level(level.height, level.width, level.walls, level.targets, 0, 0)  # the same for all starts of a room
    return _small_table(room) if BitTable.bits(room) <= _SMALL_BITS else _large_table(room)


_small_table, _large_table = lru_cache(maxsize=1024)(room_table), lru_cache(maxsize=16)(room_table)


class Solver:
    """Exact distances and optimal moves for any state of one room.

    Rooms of up to 33 million states (every Boxoban level) get a table. Larger rooms are searched from each new state
    within the budget, and the solutions are remembered.
    """

    def __init__(self, level: Level, budget: int = BUDGET) -> None:
        self._level = level
        self._budget = budget
        self._table = None
        if BitTable.bits(level) <= _WIDE_INTEGER_BITS or RankTable.size(level) <= MAX_STATES:
            self._table = shared_table(level)
        # large rooms only: distance and best move along the solutions found; nan where the search gave up
        self._known: dict[tuple[int, int], tuple[float, str]] = {}

    def distance(self, player: int, boxes: int) -> float:
        """Return the number of moves to the solution; `inf` in a dead end, `nan` when the search gave up."""
        if self._table is not None:
            return self._table.distance(player, boxes)
        return self._search(player, boxes)[0]

    def optimal_moves(self, player: int, boxes: int) -> tuple[str, ...]:
        """Return the moves that start a shortest solution, in the order up, down, left, right (one in a large room)."""
        if self._table is None:
            move = self._search(player, boxes)[1]
            return (move,) if move else ()
        now = self._table.distance(player, boxes)
        if now in (0, inf):
            return ()
        best = []
        for i, name in enumerate(DIRECTIONS):
            after = successor(self._level, player, boxes, i)
            if after is not None and self._table.distance(*after) == now - 1:
                best.append(name)
        return tuple(best)

    def _search(self, player: int, boxes: int) -> tuple[float, str]:
        known = self._known.get((player, boxes))
        if known is not None:
            return known
        solution = solve(self._level, player, boxes, self._budget)
        start = player, boxes
        if solution is None or solution.distance == inf:
            self._known[start] = (nan if solution is None else inf), ""
            return self._known[start]
        state: tuple[int, int] | None = start
        for left, move in zip(range(len(solution.moves), 0, -1), solution.moves, strict=True):
            assert state is not None
            self._known[state] = left, move
            state = successor(self._level, *state, DIRECTIONS.index(move))
        assert state is not None
        self._known[state] = 0, ""
        return self._known[start]
