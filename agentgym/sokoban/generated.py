"""Level generator: random rooms whose start state is drawn by its exact distance to the solution.

A random walk carves floor patterns (as gym-sokoban does), targets are drawn, a backward search gives all distances, and
the start is uniform over the wanted range. A level is a function of (`LevelSpec`, split, index).
"""

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence

from agentgym.checks import check_name, whole
from agentgym.sokoban.expert.solver import room_table
from agentgym.sokoban.text import BUCKETS, Level, cells_of, full_board, split_of
from agentgym.tasks import NumberedTasks

_TURN = 90  # of 256: chance that the walker changes direction before a step
_ROOMS = 2000  # rooms tried for one level before giving up
_STARTS = 24  # start states tried per room for the wanted split
#: Floor patterns as (row, column) offsets from the walker.
_PATTERNS = (
    ((0, 0), (0, 1), (0, -1)),
    ((0, 0), (1, 0), (-1, 0)),
    ((0, 0), (0, 1), (1, 0), (1, 1)),
    ((0, 0), (0, -1), (1, 0)),
    ((0, 0), (0, 1), (-1, 0)),
)


@dataclass(frozen=True)
class LevelSpec:
    """Which levels to generate, see `SokobanEnv`; a value out of range is a ValueError."""

    height: int = 6
    width: int = 6
    boxes: tuple[int, ...] = (1, 2)
    min_length: int = 3
    max_length: int = 12
    level_seed: int = 0

    def __post_init__(self) -> None:
        if self.height < 4 or self.width < 4:
            raise ValueError(f"size must be at least 4x4, walls included, got {self.height}x{self.width}")
        most = (self.height - 2) * (self.width - 2) // 2 - 1
        if not self.boxes or not all(1 <= count <= most for count in self.boxes):
            raise ValueError(
                f"boxes must be between 1 and {most} on a {self.height}x{self.width} board (walls included), "
                f"got {self.boxes}; use fewer boxes or a larger size"
            )
        if not 1 <= self.min_length <= self.max_length:
            raise ValueError(
                f"expected 1 <= min_length <= max_length, got min_length={self.min_length} "
                f"and max_length={self.max_length}"
            )
        if self.level_seed < 0:
            raise ValueError(f"level_seed must not be negative, got {self.level_seed}")

    def address(self, split: str, index: int) -> str:
        """Return the text that names one level; its hash seeds the level's generator, so it must never change."""
        boxes = ",".join(map(str, self.boxes))
        return (
            f"sokoban {self.height}x{self.width} boxes {boxes} moves {self.min_length}-{self.max_length} "
            f"seed {self.level_seed} {split} {index}"
        )


class _HashSeed(ISeedSequence):
    def __init__(self, address: str) -> None:
        self._digest = hashlib.sha256(address.encode()).digest()

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> np.ndarray[Any, Any]:
        return np.frombuffer(self._digest, "<u8")[:n_words].astype(dtype)


@lru_cache(maxsize=16_384)
def generate_level(spec: LevelSpec, split: str, index: int) -> Level:
    """Return a level of a split, cached; a ValueError after 2,000 rooms without a suitable start."""
    check_name(split, BUCKETS, "split")
    if index < 0:
        raise ValueError(f"index must not be negative, got {index}")
    rng = np.random.Generator(np.random.PCG64(_HashSeed(spec.address(split, index))))  # type: ignore[arg-type]  # numpy's stub knows SeedSequence only
    count = spec.boxes[int(rng.random() * len(spec.boxes))]
    for _ in range(_ROOMS):
        room = _carve(spec, count, rng)
        level = None if room is None else _start(room, spec, split, rng)
        if level is not None:
            return level
    raise ValueError(
        f"found no {spec.height}x{spec.width} level with {count} boxes and an optimal length of {spec.min_length} to "
        f"{spec.max_length} moves in {_ROOMS} rooms: lower min_length, raise max_length, or choose a larger size"
    )


def generate(count: int, spec: LevelSpec | None = None, split: str = "train", first: int = 0) -> list[Level]:
    """Return `count` levels of a split, from index `first` on.

    >>> [level.height for level in generate(2, LevelSpec(boxes=(1,)))]
    [6, 6]
    """
    spec = LevelSpec() if spec is None else spec
    return [generate_level(spec, split, first + i) for i in range(count)]


class GeneratedLevels(NumberedTasks[tuple[str, Level]]):
    """Generated levels; arguments are those of `SokobanEnv`, task_ids beyond `num_levels` are valid too."""

    splits = tuple(BUCKETS)
    kind = "level"
    most_digits = 100
    first = "train"

    def __init__(
        self, *, size: Any, boxes: Any, min_length: Any, max_length: Any, level_seed: Any, num_levels: Any
    ) -> None:
        self.num_tasks = whole("num_levels", num_levels, 1)
        self.spec = _spec(size, boxes, min_length, max_length, level_seed)
        #: Largest board, in rows and columns.
        self.size = (self.spec.height, self.spec.width)
        self.name = f"the generated levels (num_levels={num_levels})"

    def make(self, split: str, index: int) -> tuple[str, Level]:
        return f"{split}/{index}", generate_level(self.spec, split, index)


def _carve(spec: LevelSpec, count: int, rng: np.random.Generator) -> Level | None:
    neighbours, stamps = _walks(spec.height, spec.width)
    steps = int(1.7 * (spec.height + spec.width))
    cell = list(stamps)[int(rng.random() * len(stamps))]
    # two random bytes per step: whether to turn, and where to and what to stamp
    draws = rng.bytes(2 * steps)
    direction = draws[0] & 3
    floor = 0
    for turn, choice in zip(draws[:steps], draws[steps:], strict=True):
        if turn < _TURN:
            direction = choice & 3
        cell = neighbours[direction][cell]
        floor |= stamps[cell][choice >> 2]
    free = list(cells_of(floor))
    if len(free) < count + 3:
        return None
    targets = 0
    for draw in rng.random(count).tolist():
        targets |= 1 << free.pop(int(draw * len(free)))
    walls = full_board(spec.height, spec.width) & ~floor
    return Level(spec.height, spec.width, walls, targets, targets, next(cells_of(floor)))


def _start(room: Level, spec: LevelSpec, split: str, rng: np.random.Generator) -> Level | None:
    table = room_table(room, spec.max_length)
    codes = table.states(spec.min_length, spec.max_length)
    if not len(codes):
        return None
    for pick in rng.random(_STARTS).tolist():
        player, boxes = table.decode(codes[int(pick * len(codes))])
        level = Level(room.height, room.width, room.walls, room.targets, boxes, player)
        if split_of(level) == split:
            return level
    return None


@lru_cache(maxsize=32)
def _walks(height: int, width: int) -> tuple[list[dict[int, int]], dict[int, list[int]]]:
    stride = width + 1
    inside = {row * stride + column for row in range(1, height - 1) for column in range(1, width - 1)}
    neighbours = [
        {cell: cell + delta if cell + delta in inside else cell for cell in sorted(inside)}
        for delta in (-stride, stride, -1, 1)
    ]
    stamps = {}
    for cell in sorted(inside):
        cut = [sum(1 << at for r, c in p if (at := cell + r * stride + c) in inside) for p in _PATTERNS]
        stamps[cell] = [cut[choice % len(cut)] for choice in range(64)]
    return neighbours, stamps


def _spec(size: Any, boxes: Any, min_length: Any, max_length: Any, level_seed: Any) -> LevelSpec:
    sides = (size, size) if _is_integer(size) else size
    if not (isinstance(sides, (tuple, list)) and len(sides) == 2 and all(map(_is_integer, sides))):
        raise ValueError(f"size must be an integer or (height, width), walls included, got {size!r}")
    counts = (boxes,) if _is_integer(boxes) else boxes
    if not (isinstance(counts, (tuple, list, range)) and counts and all(map(_is_integer, counts))):
        raise ValueError(f"boxes must be an integer or a sequence of integers to draw from, got {boxes!r}")
    lengths = whole("min_length", min_length, 1), whole("max_length", max_length, 1)
    return LevelSpec(
        int(sides[0]), int(sides[1]), tuple(map(int, counts)), *lengths, whole("level_seed", level_seed, 0)
    )


def _is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
