"""Which split a level belongs to: decided by a hash of the level itself, so that no copy of it is in two splits."""

from __future__ import annotations

import hashlib

from agentgym.core import suggest
from agentgym.sokoban.expert.tables import box_of_floor
from agentgym.sokoban.rules import Level
from agentgym.sokoban.text import board_text

#: Hash buckets, out of eight, of each split.
BUCKETS: dict[str, frozenset[int]] = {
    "train": frozenset(range(6)),
    "validation": frozenset({6}),
    "test": frozenset({7}),
}


def check_split(split: object, *, also: tuple[str, ...] = ()) -> str:
    """Return `split` when it is a known name (or one of `also`).

    Raises:
        ValueError: otherwise.
    """
    known = (*BUCKETS, *also)
    if split not in known:
        raise ValueError(f"unknown split {split!r}; {suggest(split, known)}")
    return str(split)


def canonical_form(level: Level) -> str:
    r"""Return one text for all copies of a level that differ by rotation, reflection or walls around the room.

    The room is cut to the smallest rectangle that holds its floor; of its eight symmetries the smallest text counts.

    >>> from agentgym.sokoban.text import parse_level
    >>> a = parse_level("######\n#PX_O#\n######")
    >>> b = parse_level("###\n#O#\n#_#\n#X#\n#P#\n###\n###")
    >>> canonical_form(a) == canonical_form(b)
    True
    """
    row, column, height, width = box_of_floor(level)
    lines = board_text(level).split("\n")
    rows = [line[column : column + width] for line in lines[row : row + height]]
    columns = ["".join(cells) for cells in zip(*rows, strict=True)]
    # a text read backward is the board turned by half; so two texts per orientation give all four
    one, other = "\n".join(rows), "\n".join([line[::-1] for line in rows])
    turned, mirrored = "\n".join(columns), "\n".join([line[::-1] for line in columns])
    return min(one, one[::-1], other, other[::-1], turned, turned[::-1], mirrored, mirrored[::-1])


def split_of(level: Level) -> str:
    """Return the split a level belongs to: "train" (6 of 8 levels), "validation" or "test" (1 of 8 each)."""
    bucket = hashlib.sha256(canonical_form(level).encode()).digest()[0] % 8
    return next(name for name, buckets in BUCKETS.items() if bucket in buckets)
