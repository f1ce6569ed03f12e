"""The immutable start of an episode: nodes and relations, shared by all its episodes.

Nodes are *positions*, 0 to `Scene.size` - 1 in the order of the graph; the `id` of the data is only a name. A set of
nodes is an int with bit p for position p. A `Scene` stores one int per *cell*, `WIDTH` cells per node:

    cells[p * WIDTH + relation]            nodes that p is related to            (relation: ON ... HOLDS_LH)
    cells[p * WIDTH + SOURCES + relation]  nodes that are so related to p
    cells[p * WIDTH + STATES]              states of p, bit s for `STATE_NAMES[s]`
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from agentgym.checks import suggest

RELATION_NAMES: Final = ("ON", "INSIDE", "BETWEEN", "CLOSE", "FACING", "HOLDS_RH", "HOLDS_LH")
ON, INSIDE, BETWEEN, CLOSE, FACING, HOLDS_RH, HOLDS_LH = range(7)
STATE_NAMES: Final = ("CLOSED", "OPEN", "ON", "OFF", "SITTING", "DIRTY", "CLEAN", "LYING", "PLUGGED_IN", "PLUGGED_OUT")
PROPERTY_NAMES: Final = (
    "SURFACES", "GRABBABLE", "SITTABLE", "LIEABLE", "HANGABLE", "DRINKABLE", "EATABLE", "RECIPIENT", "CUTTABLE",
    "POURABLE", "CAN_OPEN", "HAS_SWITCH", "READABLE", "LOOKABLE", "CONTAINERS", "CLOTHES", "PERSON", "BODY_PART",
    "COVER_OBJECT", "HAS_PLUG", "HAS_PAPER", "MOVABLE", "CREAM",
)  # fmt: skip

WIDTH: Final = 15
STATES: Final = 7
SOURCES: Final = 8
#: Maximum number of nodes, so that a set of nodes stays small.
MOST_NODES: Final = 5000


class IS:
    """The states as bits of a states cell: `bits & IS.OPEN`."""

    CLOSED, OPEN, ON, OFF, SITTING, DIRTY, CLEAN, LYING, PLUGGED_IN, PLUGGED_OUT = (1 << s for s in range(10))


Edge = tuple[int, str, int]
_RELATION = {name: number for number, name in enumerate(RELATION_NAMES)}
_STATE = {name: 1 << number for number, name in enumerate(STATE_NAMES)}


class Node(NamedTuple):
    """A thing, room or person: its number in the data, and its class in lower case with underscores.

    `category` is "Rooms" for rooms, otherwise unused; `properties` are constant; `states` are the initial ones.
    """

    id: int
    class_name: str
    category: str
    properties: tuple[str, ...] = ()
    states: tuple[str, ...] = ()


def members(nodes: int) -> Iterator[int]:
    """Yield the positions in a set of nodes, lowest first."""
    while nodes:
        low = nodes & -nodes
        yield low.bit_length() - 1
        nodes ^= low


def positions(nodes: int) -> list[int]:
    """Return `members` as a list, faster when all are used."""
    found = []
    while nodes:
        low = nodes & -nodes
        found.append(low.bit_length() - 1)
        nodes ^= low
    return found


def states_of(bits: int) -> list[str]:
    """Return the names of the states in a states cell, sorted."""
    return sorted(name for name, bit in _STATE.items() if bits & bit)


class Scene:
    """The start of an episode as a graph; a ValueError names the node or edge that makes it unplayable.

    Args:
        nodes: in the order of the graph; ids differ; exactly one has the class "character".
        edges: (id, name of a relation, id); a repeated edge counts once; order matters only with `set_order="cpython"`.

    Attributes:
        ids: id of every node; `index` is the inverse.
        shown: every node as messages name it, `<class_name> (id)`.
        things: (class name, id) of every node, as in script lines.
        classes: class name -> set of its nodes.
        having: property -> set of its nodes; every name of `PROPERTY_NAMES` is present.
    """

    __slots__ = (
        "_base", "_orders", "categories", "cells", "character", "classes", "doors", "having", "ids", "index", "names",
        "properties", "rooms", "shown", "size", "things",
    )  # fmt: skip

    def __init__(self, nodes: Sequence[Node], edges: Iterable[Edge]) -> None:
        self._base: Scene | None = None
        self.size = 0
        self.ids: tuple[int, ...] = ()
        self.index: dict[int, int] = {}
        self.names: tuple[str, ...] = ()
        self.shown: tuple[str, ...] = ()
        self.things: tuple[tuple[str, int], ...] = ()
        self.categories: tuple[str, ...] = ()
        self.properties: tuple[tuple[str, ...], ...] = ()
        self.classes: dict[str, int] = {}
        self.having = dict.fromkeys(PROPERTY_NAMES, 0)
        self._orders: dict[int, tuple[int, ...]] = {}
        self._fill([], nodes, {}, edges, ())
        characters = positions(self.classes.get("character", 0))
        if len(characters) != 1:
            found = len(characters)
            raise ValueError(f"Scene: expected exactly one node of the class 'character', got {found}")
        self.character = characters[0]

    def changed(
        self,
        nodes: Sequence[Node] = (),
        states: Mapping[int, Iterable[str]] | None = None,
        add: Iterable[Edge] = (),
        remove: Iterable[Edge] = (),
    ) -> Scene:
        """Return this scene with further nodes, new states by id, added and removed edges; the rest is shared."""
        scene = copy.copy(self)
        scene._base = self
        scene.index, scene.classes, scene.having = dict(self.index), dict(self.classes), dict(self.having)
        scene._orders = {}
        scene._fill(list(self.cells), nodes, states or {}, add, remove)
        if scene.classes["character"].bit_count() != 1:
            raise ValueError("Scene.changed: a second node of the class 'character'; a graph has exactly one")
        return scene

    @classmethod
    def from_graph(cls, graph: Mapping[str, Any]) -> Scene:
        """Return the scene of a VirtualHome graph; any other form is a ValueError that names the place.

        Args:
            graph: {"nodes": [{"id", "class_name", "category", "properties", "states"}, ...], "edges": [{"from_id",
                "relation_type", "to_id"}, ...]}; other keys are ignored.
        """
        nodes: list[Node] = []
        edges: list[Edge] = []
        if not isinstance(graph, Mapping):
            raise ValueError(f"Scene: expected a graph {{'nodes': [...], 'edges': [...]}}, got {graph!r:.80}")
        for kind in ("nodes", "edges"):
            if not isinstance(graph.get(kind), list):
                raise ValueError(f"Scene: expected a list of {kind!r}, got {graph.get(kind)!r:.80}")
        for number, row in enumerate(graph["nodes"]):
            try:
                lists = [[str(name).upper() for name in row[key]] for key in ("properties", "states")]
                node = Node(row["id"], row["class_name"], row.get("category") or "", *map(tuple, lists))
            except (AttributeError, KeyError, TypeError) as error:
                raise ValueError(f"Scene: node {number} is not a node ({_said(error)}): {row!r:.120}") from None
            nodes.append(node)
        for number, row in enumerate(graph["edges"]):
            try:
                edges.append((row["from_id"], str(row["relation_type"]).upper(), row["to_id"]))
            except (KeyError, TypeError) as error:
                raise ValueError(f"Scene: edge {number} is not an edge ({_said(error)}): {row!r:.120}") from None
        return cls(nodes, edges)

    def node(self, position: int) -> Node:
        states = tuple(states_of(self.cells[position * WIDTH + STATES]))
        return Node(
            self.ids[position], self.names[position], self.categories[position], self.properties[position], states
        )

    def edges(self) -> Iterator[Edge]:
        """Yield the edges: node by node, for each relation in the order of the graph."""
        for position in range(self.size):
            for relation, name in enumerate(RELATION_NAMES):
                for target in self.order(position, relation):
                    yield self.ids[position], name, target

    def order(self, position: int, relation: int) -> tuple[int, ...]:
        """Return the ids that one node is related to, in the order of the graph's edges."""
        slot = position * WIDTH + relation
        scene: Scene | None = self
        while scene is not None:
            found = scene._orders.get(slot)
            if found is not None:
                return found
            scene = scene._base
        return ()

    def _fill(
        self,
        cells: list[int],
        nodes: Sequence[Node],
        states: Mapping[int, Iterable[str]],
        add: Iterable[Edge],
        remove: Iterable[Edge],
    ) -> None:
        first, index = self.size, self.index
        for position, node in enumerate(nodes, first):
            _check_node(node)
            if node.id in index:
                raise ValueError(f"Scene: two nodes have the id {node.id}; ids must differ")
            index[node.id] = position
            bit = 1 << position
            self.classes[node.class_name] = self.classes.get(node.class_name, 0) | bit
            for each in node.properties:
                self.having[each] |= bit
            cells += [0] * WIDTH
            cells[-WIDTH + STATES] = _state_bits(node.states, node.id)
        self.size = len(index)
        if self.size > MOST_NODES:
            raise ValueError(f"Scene: expected at most {MOST_NODES} nodes, got {self.size}")
        self.ids += tuple(node.id for node in nodes)
        self.names += tuple(node.class_name for node in nodes)
        self.shown += tuple(f"<{node.class_name}> ({node.id})" for node in nodes)
        self.things += tuple((node.class_name, node.id) for node in nodes)
        self.doors = self.classes.get("door", 0) | self.classes.get("doorjamb", 0)
        self.categories += tuple(node.category for node in nodes)
        self.properties += tuple(node.properties for node in nodes)
        self.rooms = sum(1 << p for p, category in enumerate(self.categories) if category == "Rooms")
        for node_id, names in states.items():
            if node_id not in index:
                raise ValueError(f"Scene.changed: states for an unknown id {node_id}")
            cells[index[node_id] * WIDTH + STATES] = _state_bits(names, node_id)
        orders: dict[int, list[int]] = {}
        for edge in remove:
            slot, a, b = self._slot(edge)
            if not cells[slot] >> b & 1:
                raise ValueError(f"Scene.changed: there is no edge {edge} to remove")
            self._toggle(cells, slot, a, b)
            self._listed(orders, slot, a).remove(self.ids[b])
        for edge in add:
            slot, a, b = self._slot(edge)
            if not cells[slot] >> b & 1:
                self._toggle(cells, slot, a, b)
                self._listed(orders, slot, a).append(self.ids[b])
        self._orders = {slot: tuple(ids) for slot, ids in orders.items()}
        self.cells = tuple(cells)

    def _listed(self, orders: dict[int, list[int]], slot: int, position: int) -> list[int]:
        if slot not in orders:
            orders[slot] = list(self.order(position, slot - position * WIDTH))
        return orders[slot]

    def _toggle(self, cells: list[int], slot: int, a: int, b: int) -> None:
        cells[slot] ^= 1 << b
        cells[slot + SOURCES + (b - a) * WIDTH] ^= 1 << a

    def _slot(self, edge: Edge) -> tuple[int, int, int]:
        source, relation, target = edge
        if relation not in _RELATION:
            raise ValueError(f"Scene: unknown relation in the edge {edge}; {suggest(relation, RELATION_NAMES)}")
        try:
            a, b = self.index[source], self.index[target]
        except (KeyError, TypeError):
            raise ValueError(f"Scene: the edge {edge} has an id that no node has") from None
        return a * WIDTH + _RELATION[relation], a, b


def _check_node(node: Node) -> None:
    if type(node.id) is not int or not 0 <= node.id < 1 << 31:
        raise ValueError(f"Scene: expected an int from 0 to 2**31 - 1 as the id of a node, got {node.id!r:.40}")
    for what, text in (("class_name", node.class_name), ("category", node.category)):
        if not isinstance(text, str) or (what == "class_name" and not text):
            raise ValueError(f"Scene: the {what} of node {node.id} is a text, got {text!r:.40}")
    for name in node.properties:
        if name not in PROPERTY_NAMES:
            raise ValueError(f"Scene: unknown property {name!r:.40} of node {node.id}; {suggest(name, PROPERTY_NAMES)}")


def _state_bits(names: Iterable[str], node_id: int) -> int:
    bits = 0
    for name in names:
        if name not in _STATE:
            raise ValueError(f"Scene: unknown state {name!r:.40} of node {node_id}; {suggest(name, STATE_NAMES)}")
        bits |= _STATE[name]
    return bits


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
