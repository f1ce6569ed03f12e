"""The order of the original's Python sets of related ids.

The original takes "any" of several nodes by iterating over a set of ids. That order is reproducible but depends on the
set's history: the events of every changed cell are recorded and replayed on CPython sets when the order is needed.
Three sets make up a cell: `new` ids, `removed` ids, and the scene's ids in order; a lookup is `new.update(scene)`,
`new.difference_update(removed)`, and changes an existing `new` (xavierpuigf/virtualhome 58970fd,
`EnvironmentState.get_nodes_from`, `add_edge`, `delete_edge`, and `copy.deepcopy` between steps).
"""

from typing import Any, Final

from agentgym.virtualhome.scene import WIDTH, Scene

#: The event of a lookup; -1 is a copy; an id with one of these events is encoded as 1 to 4, plus 4 for each id.
_ASK: Final = 0
_ADD, _DISCARD, _HIDE, _SHOW = 1, 2, 3, 4
#: The mark of these entries in the log of `State`, a flat list.
LOGGED: Final = -2


class _Row:
    __slots__ = ("added", "copies", "done", "events", "hidden", "new", "removed")

    def __init__(self) -> None:
        self.events: list[int] = []
        self.added = 0  # events that put ids into `new`: with none there is no such set
        self.hidden = 0  # ids of the scene that are removed
        self.copies = 0  # copies of all sets that are among the events
        self.done = 0
        self.new: set[int] | None = None
        self.removed: set[int] = set()


class SetOrder:
    """The sets of one episode; methods record events, `Scene.order` is the order of the edges."""

    __slots__ = ("_copies", "_rows", "_scene")

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._rows: dict[int, _Row] = {}
        self._copies = 0

    def add(self, slot: int, node: int, log: list[Any]) -> None:
        self._change(slot, node, _SHOW if self._scene.cells[slot] >> node & 1 else _ADD, log)

    def remove(self, slot: int, node: int, log: list[Any]) -> None:
        self._change(slot, node, _HIDE if self._scene.cells[slot] >> node & 1 else _DISCARD, log)

    def ask(self, slot: int, log: list[Any]) -> None:
        row = self._rows.get(slot)
        if row is not None and row.added:
            self._copied(row, log)
            if row.hidden or row.events[-1] != _ASK:  # otherwise a second lookup finds the set as the first left it
                self._write(row, _ASK, log)

    def ask_all(self, relation: int | None, log: list[Any]) -> None:
        for slot in [slot for slot in self._rows if relation is None or slot % WIDTH == relation]:
            self.ask(slot, log)

    def listed(self, slot: int) -> list[int]:
        """Return the ids of a cell in the order of the last lookup in the original's set."""
        row = self._rows.get(slot)
        base = self._scene.order(slot // WIDTH, slot % WIDTH)
        if row is None:
            return list(set(base))
        self._go_through(row, base)
        if row.new is not None:
            return list(row.new)
        fresh = set(base)
        fresh.difference_update(row.removed)
        return list(fresh)

    def renew(self, log: list[Any]) -> None:
        self._copies += 1
        log += (LOGGED, None)

    def undo(self, entry: _Row | None) -> None:
        if entry is None:
            self._copies -= 1
            return
        event = entry.events.pop()
        self._count(entry, event, -1)
        if entry.done > len(entry.events):
            entry.done, entry.new, entry.removed = 0, None, set()

    def get_state(self) -> Any:
        rows = [(slot, tuple(row.events)) for slot, row in self._rows.items() if row.events]
        return self._copies, tuple(sorted(rows))

    def set_state(self, state: Any, log: list[Any]) -> None:
        copies, rows = state
        for slot, events in rows:
            row = self._rows.setdefault(slot, _Row())
            for event in events:
                self._write(row, event, log)
        for _ in range(copies):
            self.renew(log)

    def _change(self, slot: int, node: int, kind: int, log: list[Any]) -> None:
        row = self._rows.get(slot)
        if row is None:
            row = self._rows[slot] = _Row()
        self._copied(row, log)
        self._write(row, (self._scene.ids[node] << 2) + kind, log)

    def _copied(self, row: _Row, log: list[Any]) -> None:
        if row.copies < self._copies:
            self._write(row, row.copies - self._copies, log)

    def _write(self, row: _Row, event: int, log: list[Any]) -> None:
        row.events.append(event)
        self._count(row, event, 1)
        log += (LOGGED, row)

    def _count(self, row: _Row, event: int, sign: int) -> None:
        if event < 0:
            row.copies -= sign * event
        elif event:
            kind = ((event - 1) & 3) + 1
            if kind == _ADD:
                row.added += sign
            elif kind == _HIDE:
                row.hidden += sign
            elif kind == _SHOW:
                row.hidden -= sign

    def _go_through(self, row: _Row, base: tuple[int, ...]) -> None:
        for event in row.events[row.done :]:
            if event < 0:
                for copy in range(-event if row.new is not None else 0):
                    before = list(row.new or ())
                    row.new = set(before)
                    if copy and list(row.new) == before:
                        break  # further copies are the same
            elif event == _ASK:
                if row.new is not None:
                    row.new.update(base)
                    row.new.difference_update(row.removed)
            else:
                kind, number = ((event - 1) & 3) + 1, (event - 1) >> 2
                if kind == _ADD:
                    if row.new is None:
                        row.new = set()
                    row.new.add(number)
                elif kind == _DISCARD:
                    if row.new is not None:
                        row.new.discard(number)
                elif kind == _HIDE:
                    row.removed.add(number)
                else:
                    row.removed.discard(number)
        row.done = len(row.events)
