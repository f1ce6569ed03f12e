"""The state of one episode: the changed cells of its scene, and the memory of the rules; a log undoes changes."""

import random
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from agentgym.checks import check_name
from agentgym.virtualhome.scene import (
    CLOSE,
    HOLDS_LH,
    HOLDS_RH,
    INSIDE,
    RELATION_NAMES,
    SOURCES,
    STATES,
    WIDTH,
    Edge,
    Scene,
    members,
    positions,
    states_of,
)  # fmt: skip
from agentgym.virtualhome.set_order import SetOrder

#: The log is a flat list: a cell, its old value, the next cell, ..., without the cells of SOURCES. In place of a cell,
#: `_BOOK` marks entries of `places`, `found` and `renewed`, `BOTH` the CLOSE relations of one node in both directions
#: with (its cell, old value), and -2 entries of `SetOrder`.
_BOOK: Final = -1
BOTH: Final = -3
#: The modulus of `State.fingerprint`, the largest prime below 2**128, and the factor of every cell; 0 for SOURCES,
#: which are redundant.
PRIME: Final = (1 << 128) - 159
WEIGHTS: list[int] = []
#: The cells of CLOSE among them.
_CLOSE_CELLS: Final[set[int]] = set()
#: From a node's CLOSE cell to the next node's first cell.
TO_CLOSE: Final = WIDTH - CLOSE


class Snapshot(NamedTuple):
    """An exact state, hashable and picklable; equal for equal states (with `set_order="cpython"`, for equal histories).

    `cells` are (cell, value) of the cells that differ from the scene, without those of SOURCES.
    """

    cells: tuple[tuple[int, int], ...]
    places: tuple[tuple[int, tuple[int, int]], ...]
    found: tuple[tuple[str, int], ...]
    renewed: tuple[int, ...]
    order: Any


class State:
    """The current state of an episode. Nodes are positions in the scene, sets of nodes are ints (see `scene`).

    `set_order`: which of several nodes comes first where the original takes any: "lowest id", or "cpython", the order
    of the original's Python sets (exact on CPython, slower).

    Attributes:
        cells: as `Scene.cells`. Read them; write through `add`, `remove` and `set_states`.
        places: node -> (place, relation) where it was grabbed.
        found: discoveries of rules with dialect "v1": (name as written, id) -> True.
        renewed: nodes whose states were written, in order of the first time -> True, see `nodes_in_order`.
        placed: a new object after every change of ON or INSIDE other than by `relate_to`; None before the first.
        touched: nodes whose states, or ON and INSIDE relations, may differ from the scene, as a set.
    """

    __slots__ = (
        "_fingered", "_fingerprint", "_log", "_me", "_order", "cells", "exact_order", "found", "placed", "places",
        "renewed", "scene", "touched",
    )  # fmt: skip

    def __init__(self, scene: Scene, *, set_order: str = "lowest id") -> None:
        self.scene = scene
        self.cells = list(scene.cells)
        self._me = scene.character * WIDTH
        self.places: dict[int, tuple[int, int]] = {}
        self.found: dict[tuple[str, int], bool] = {}
        self.renewed: dict[int, bool] = {}
        self.touched = 0
        self.placed: object | None = None
        self._log: list[Any] = []
        self.exact_order = check_name(set_order, ("lowest id", "cpython"), "set_order") == "cpython"
        self._order = SetOrder(scene) if self.exact_order else None
        self._fingerprint = self._fingered = 0
        if len(WEIGHTS) < len(self.cells):
            grow_weights(scene.size)

    # Queries.

    def related(self, node: int, relation: int) -> int:
        return self.cells[node * WIDTH + relation]

    def sources(self, node: int, relation: int) -> int:
        return self.cells[node * WIDTH + SOURCES + relation]

    def states(self, node: int) -> int:
        return self.cells[node * WIDTH + STATES]

    def in_hands(self) -> int:
        """Return the nodes that the character holds, as a set."""
        return self.cells[self._me + HOLDS_RH] | self.cells[self._me + HOLDS_LH]

    def in_order(self, node: int, relation: int) -> list[int]:
        """Return the nodes that one is related to, in the order of `set_order`, and record the lookup."""
        self.asked(node, relation)
        return self.listing(node, relation)

    def listing(self, node: int, relation: int) -> list[int]:
        if self._order is not None:
            index = self.scene.index
            return [index[each] for each in self._order.listed(node * WIDTH + relation)]
        nodes = self.cells[node * WIDTH + relation]
        if not nodes & (nodes - 1):
            return [nodes.bit_length() - 1] if nodes else []
        return sorted(members(nodes), key=self.scene.ids.__getitem__)

    def nodes_in_order(self) -> list[int]:
        """Return all nodes in the original's order: those whose states were written first, in that order."""
        return [*self.renewed, *(node for node in range(self.scene.size) if node not in self.renewed)]

    def nodes(self) -> Iterator[tuple[int, str, list[str]]]:
        for node, (number, name) in enumerate(zip(self.scene.ids, self.scene.names, strict=True)):
            yield number, name, states_of(self.states(node))

    def edges(self) -> Iterator[Edge]:
        ids = self.scene.ids
        for node, number in enumerate(ids):
            for relation, name in enumerate(RELATION_NAMES):
                for target in members(self.related(node, relation)):
                    yield number, name, ids[target]

    def fingerprint(self) -> int:
        """Return a number below 2**128 that identifies the graph of this scene, equal in every process, 0 at the start.

        It is a sum of all cells with pseudo-random factors modulo a prime, without `places` and `found`, updated
        incrementally.
        """
        log, start = self._log, self._fingered
        if start < len(log):
            added = sum_of_entries(log, start, self.cells)
            if added is None:
                cells, before = self.cells, self.changes_since(start)
                added = sum([(cells[slot] - old) * WEIGHTS[slot] for slot, old in before.items()])
            self._fingerprint, self._fingered = (self._fingerprint + added) % PRIME, len(log)
        return self._fingerprint

    # Changes.

    def add(self, a: int, relation: int, b: int) -> None:
        cells = self.cells
        slot, bit = a * WIDTH + relation, 1 << b
        old = cells[slot]
        if not old & bit:
            self._log += (slot, old)
            cells[slot] = old | bit
            mine = 1 << a
            cells[b * WIDTH + SOURCES + relation] |= mine
            if relation <= INSIDE:
                self.touched |= mine | bit
                self.placed = object()
            if self._order is not None:
                self._order.add(slot, b, self._log)

    def remove(self, a: int, relation: int, b: int) -> None:
        cells = self.cells
        slot, bit = a * WIDTH + relation, 1 << b
        old = cells[slot]
        if old & bit:
            self._log += (slot, old)
            cells[slot] = old ^ bit
            mine = 1 << a
            cells[b * WIDTH + SOURCES + relation] ^= mine
            if relation <= INSIDE:
                self.touched |= mine | bit
                self.placed = object()
            if self._order is not None:
                self._order.remove(slot, b, self._log)

    def remove_all(self, node: int, relation: int) -> None:
        cells, log, order, mine, slot = self.cells, self._log, self._order, 1 << node, node * WIDTH + relation
        nodes = gone = cells[slot]
        if nodes:
            log += (slot, nodes)
            cells[slot] = 0
            for each in positions(nodes):
                cells[each * WIDTH + SOURCES + relation] ^= mine
                if order is not None:
                    order.remove(slot, each, log)
        nodes = cells[slot + SOURCES]
        if nodes:
            gone |= nodes
            cells[slot + SOURCES] = 0
            for each in positions(nodes):
                back = each * WIDTH + relation
                old = cells[back]
                log += (back, old)
                cells[back] = old ^ mine
                if order is not None:
                    order.remove(back, node, log)
        if gone and relation <= INSIDE:
            self.touched |= mine | gone
            self.placed = object()

    def relate_to(self, node: int, relation: int, other: int) -> None:
        """Relate the node to this one only; relations to the node stay. Without `exact_order`."""
        cells, mine, slot, now = self.cells, 1 << node, node * WIDTH + relation, 1 << other
        old = cells[slot]
        if old != now:
            self._log += (slot, old)
            cells[slot] = now
            for each in positions(old ^ now):
                cells[each * WIDTH + SOURCES + relation] ^= mine
            if relation <= INSIDE:
                self.touched |= mine | old | now

    def come_close(self, node: int, others: int) -> None:
        """Make exactly these close to the node, both ways. Without `exact_order`."""
        mine, slot = 1 << node, node * WIDTH + CLOSE
        out = self.cells[slot]
        if out != self.cells[slot + SOURCES] or (out | others) & mine:
            self.remove_all(node, CLOSE)
            for each in positions(others):
                self.add(node, CLOSE, each)
                self.add(each, CLOSE, node)
            return
        if out != others:
            self._log += (BOTH, (slot, out))
            self._write_both(slot, others)

    def set_states(self, node: int, states: int) -> None:
        """Write the states of a node, which then counts as renewed even if they are equal."""
        slot = node * WIDTH + STATES
        old = self.cells[slot]
        if old != states:
            self._log += (slot, old)
            self.cells[slot] = states
            self.touched |= 1 << node
        if node not in self.renewed:
            self.note(self.renewed, node, True)

    def note(self, book: dict[Any, Any], key: Any, value: Any) -> None:
        old = book.get(key)
        if old != value:
            self._log += (_BOOK, (book, key, old))
            if value is None:
                del book[key]
            else:
                book[key] = value

    def asked(self, node: int, relation: int) -> None:
        """Record that the original looks up these relations here, which can change the order of its sets."""
        if self._order is not None:
            self._order.ask(node * WIDTH + relation, self._log)

    def asked_all(self, relation: int | None = None) -> None:
        if self._order is not None:
            self._order.ask_all(relation, self._log)

    def renew_sets(self) -> None:
        """Record that the original copies all its sets here, which can change their order."""
        if self._order is not None:
            self._order.renew(self._log)

    # Undo and snapshots.

    def mark(self) -> int:
        """Return the log's position for `undo`; valid until `set_state`."""
        return len(self._log)

    def undo(self, mark: int = 0) -> None:
        """Undo all changes since `mark`; 0 is the start of the episode."""
        log, cells = self._log, self.cells
        while len(log) > mark:
            old, slot = log.pop(), log.pop()
            if slot >= 0:
                if len(log) < self._fingered:
                    self._fingerprint += (old - cells[slot]) * WEIGHTS[slot]
                self._write(slot, old)
            elif slot == BOTH:
                if len(log) < self._fingered:
                    self._fingerprint -= both_ways(cells, *old)
                self._write_both(*old)
            elif slot == _BOOK:
                book, key, value = old
                if value is None:
                    del book[key]
                else:
                    book[key] = value
            elif self._order is not None:
                self._order.undo(old)
        if len(log) < self._fingered:
            self._fingered = len(log)
            self._fingerprint %= PRIME
        self.placed = object() if mark else None
        if not mark:
            self.touched = 0

    def changes_since(self, mark: int) -> dict[int, int]:
        """Return cell -> its value at `mark`, for the cells written since; without those of SOURCES."""
        changed: dict[int, int] = {}  # going back, the last value is that at the mark
        log, cells = self._log, self.cells
        for entry in range(len(log) - 2, mark - 2, -2):
            slot, old = log[entry], log[entry + 1]
            if slot >= 0:
                changed[slot] = old
            elif slot == BOTH:
                slot, old = old
                for each in positions(changed.get(slot, cells[slot]) ^ old):
                    back = each * WIDTH + CLOSE
                    changed[back] = changed.get(back, cells[back]) ^ 1 << slot // WIDTH
                changed[slot] = old
        return changed

    def get_state(self) -> Snapshot:
        cells, base = self.cells, self.scene.cells
        written = set(self._log[::2])
        if BOTH in written:
            for slot in {old[0] for kind, old in zip(self._log[::2], self._log[1::2], strict=True) if kind == BOTH}:
                other = cells[slot + SOURCES] ^ base[slot + SOURCES]
                written.update([slot, *(each * WIDTH + CLOSE for each in positions(other))])
        slots = sorted([slot for slot in written if slot >= 0 and cells[slot] != base[slot]])
        return Snapshot(
            tuple([(slot, cells[slot]) for slot in slots]),
            tuple(sorted(self.places.items())),
            tuple(sorted(self.found)),
            tuple(self.renewed),
            None if self._order is None else self._order.get_state(),
        )

    def set_state(self, snapshot: Snapshot) -> None:
        """Load a snapshot of the same scene and `set_order`; earlier marks become invalid."""
        self.undo(0)
        for slot, now in snapshot.cells:
            old = self.cells[slot]
            self._log += (slot, old)
            self._write(slot, now)
            node, relation = divmod(slot, WIDTH)
            if relation <= INSIDE:
                self.touched |= 1 << node | now ^ old
            elif relation == STATES:
                self.touched |= 1 << node
        self.placed = object()
        for node, place in snapshot.places:
            self.note(self.places, node, place)
        for key in snapshot.found:
            self.note(self.found, key, True)
        for node in snapshot.renewed:
            self.note(self.renewed, node, True)
        if self._order is not None:
            self._order.set_state(snapshot.order, self._log)

    def _write(self, slot: int, now: int) -> None:
        cells = self.cells
        changed = cells[slot] ^ now
        cells[slot] = now
        node, relation = divmod(slot, WIDTH)
        if relation != STATES:
            mine, back = 1 << node, SOURCES + relation
            for each in positions(changed):
                cells[each * WIDTH + back] ^= mine

    def _write_both(self, slot: int, now: int) -> None:
        cells = self.cells
        mine, changed = 1 << slot // WIDTH, cells[slot] ^ now
        cells[slot] = cells[slot + SOURCES] = now
        while changed:
            low = changed & -changed
            back = low.bit_length() * WIDTH - TO_CLOSE
            cells[back] ^= mine
            cells[back + SOURCES] ^= mine
            changed ^= low


def grow_weights(nodes: int) -> None:
    """Extend `WEIGHTS` for scenes of this size; the factors are independent of the calls."""
    for node in range(len(WEIGHTS) // WIDTH, nodes):
        draw = random.Random(node)
        _CLOSE_CELLS.add(node * WIDTH + CLOSE)
        WEIGHTS.extend(draw.getrandbits(127) + 1 if cell < SOURCES else 0 for cell in range(WIDTH))


def sum_of_entries(log: list[Any], start: int, cells: Sequence[int]) -> int | None:
    """Return the sum of the log's entries from `start` on; None if a cell was written twice among them."""
    slots = log[start::2]
    if len(slots) > len(set(slots)) or (BOTH in slots and not _CLOSE_CELLS.isdisjoint(slots)):
        return None
    added = 0
    for slot, old in zip(slots, log[start + 1 :: 2], strict=True):
        if slot >= 0:
            added += (cells[slot] - old) * WEIGHTS[slot]
        elif slot == BOTH:
            added += both_ways(cells, *old)
    return added


def both_ways(cells: Sequence[int], slot: int, old: int) -> int:
    """Return the fingerprint change when the CLOSE cell `slot` changes from `old` to its value now, both ways."""
    now, back = cells[slot], 0
    come, gone = now & ~old, old & ~now
    while come:
        low = come & -come
        back += WEIGHTS[low.bit_length() * WIDTH - TO_CLOSE]
        come ^= low
    while gone:
        low = gone & -gone
        back -= WEIGHTS[low.bit_length() * WIDTH - TO_CLOSE]
        gone ^= low
    return (now - old) * WEIGHTS[slot] + (back << slot // WIDTH)
