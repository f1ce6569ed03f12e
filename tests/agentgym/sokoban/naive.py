"""Slow twins of the Sokoban code, on plain sets of (row, column): nothing here uses the package's bit sets."""

from collections import deque

#: Files of 1,000 Boxoban levels each.
BOXOBAN = ("unfiltered_train_000.txt.xz", "hard_000.txt.xz")
STEPS = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
Cell = tuple[int, int]
State = tuple[Cell, frozenset[Cell]]


def read(text: str) -> tuple[set[Cell], set[Cell], State]:
    """Walls, targets and start state of a board in default symbols."""
    walls, targets, boxes, player = set(), set(), set(), None
    for r, row in enumerate(text.split("\n")):
        for c, symbol in enumerate(row):
            if symbol == "#":
                walls.add((r, c))
            if symbol in "O√S":
                targets.add((r, c))
            if symbol in "X√":
                boxes.add((r, c))
            if symbol in "PS":
                player = (r, c)
    assert player is not None
    return walls, targets, (player, frozenset(boxes))


def move(walls: set[Cell], state: State, name: str) -> State | None:
    """State after a move, None when it changes nothing."""
    (r, c), boxes = state
    dr, dc = STEPS[name]
    ahead, beyond = (r + dr, c + dc), (r + 2 * dr, c + 2 * dc)
    if ahead in walls:
        return None
    if ahead in boxes:
        if beyond in walls or beyond in boxes:
            return None
        boxes = boxes - {ahead} | {beyond}
    return ahead, boxes


def forward_distance(text: str) -> float:
    """Fewest moves from a board to its solution by forward breadth-first search; inf when there is none."""
    walls, targets, start = read(text)
    queue, seen = deque([(start, 0)]), {start}
    while queue:
        state, depth = queue.popleft()
        if state[1] == targets:
            return depth
        for name in STEPS:
            after = move(walls, state, name)
            if after is not None and after not in seen:
                seen.add(after)
                queue.append((after, depth + 1))
    return float("inf")
