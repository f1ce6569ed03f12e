"""Goals: states, edges and deeds, and the share of them that is achieved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from agentgym.checks import check_name
from agentgym.virtualhome.scene import RELATION_NAMES, STATE_NAMES, STATES, WIDTH, Edge, Scene


class Deed(NamedTuple):
    """A required action: any of some actions, in capitals, with `node` as its first parameter (None: any).

    `given` is a goal without deeds that must hold right after it.
    """

    actions: tuple[str, ...]
    node: int | None = None
    given: Goal | None = None


@dataclass(frozen=True)
class Goal:
    """A conjunction: the deeds in this order; everything else must hold when the last one is done, or later.

    `states`: (id, state), with any others; `exact`: (id, all states of the node); `edges`, `without`: existing and
    absent ones.
    """

    states: tuple[tuple[int, str], ...] = ()
    exact: tuple[tuple[int, frozenset[str]], ...] = ()
    edges: tuple[Edge, ...] = ()
    without: tuple[Edge, ...] = ()
    deeds: tuple[Deed, ...] = ()

    @property
    def size(self) -> int:
        return len(self.states) + len(self.exact) + len(self.edges) + len(self.without) + len(self.deeds)

    @property
    def content(self) -> list[Any]:
        exact = sorted([[node, sorted(states)] for node, states in self.exact])
        deeds = [[deed.actions, deed.node, deed.given and deed.given.content] for deed in self.deeds]
        return [sorted(self.states), exact, sorted(self.edges), sorted(self.without), deeds]

    def tests(self, scene: Scene) -> Tests:
        """Return the goal as tests on a scene's cells; a ValueError for a node that the scene lacks."""
        return Tests(self, scene)


#: A cell, a mask of its bits, and their required value.
Test = tuple[int, int, int]


class Tests:
    """A goal of one scene as tests on cells; `at_start` is the number of conjuncts that hold at the start."""

    __slots__ = ("at_start", "cells", "deeds", "size")

    def __init__(self, goal: Goal, scene: Scene) -> None:
        self.cells: tuple[Test, ...] = _tests(goal, scene)
        self.deeds: tuple[tuple[frozenset[str], int, tuple[Test, ...]], ...] = tuple(
            [(frozenset(actions), -1 if node is None else _position(scene, node), _tests(given or Goal(), scene))
             for actions, node, given in goal.deeds]
        )  # fmt: skip
        self.size = len(self.cells) + len(self.deeds)
        self.at_start = self.size - self.missing(scene.cells, 0)

    def missing(self, cells: Sequence[int], done: int) -> int:
        """Return the number of conjuncts that do not hold when `done` of the deeds have been done."""
        left = len(self.deeds) - done
        for slot, bits, wanted in self.cells:
            left += cells[slot] & bits != wanted
        return left

    def share(self, left: int) -> float:
        return max(0.0, 1 - left / (self.size - self.at_start)) if left else 1.0

    def advance(self, cells: Sequence[int], done: int, action: str, position: int) -> int:
        """Return the number of deeds done after an action on a position (-1 for none) has succeeded."""
        if done == len(self.deeds):
            return done
        actions, node, given = self.deeds[done]
        if action not in actions or (node >= 0 and node != position):
            return done
        return done + all(cells[slot] & bits == wanted for slot, bits, wanted in given)


_ALL_STATES = (1 << len(STATE_NAMES)) - 1


def _tests(goal: Goal, scene: Scene) -> tuple[Test, ...]:
    tests = [_state(scene, node, [state]) for node, state in goal.states]
    tests += [_state(scene, node, states, exact=True) for node, states in goal.exact]
    tests += [_edge(scene, edge) for edge in goal.edges]
    tests += [(slot, bit, 0) for slot, bit, _ in (_edge(scene, edge) for edge in goal.without)]
    return tuple(tests)


def _state(scene: Scene, node: int, names: Sequence[str] | frozenset[str], exact: bool = False) -> Test:
    bits = sum(1 << STATE_NAMES.index(check_name(name, STATE_NAMES, "state of a goal")) for name in names)
    return _position(scene, node) * WIDTH + STATES, _ALL_STATES if exact else bits, bits


def _edge(scene: Scene, edge: Edge) -> Test:
    source, relation, target = edge
    bit = 1 << _position(scene, target)
    number = RELATION_NAMES.index(check_name(relation, RELATION_NAMES, "relation of a goal"))
    return _position(scene, source) * WIDTH + number, bit, bit


def _position(scene: Scene, node: int) -> int:
    if node not in scene.index:
        raise ValueError(f"the goal names the id {node}, which is not in the scene")
    return scene.index[node]
