"""What an episode is about: a house, what is to be done in it, and a program that does it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from agentgym.virtualhome.admissible import Offers
from agentgym.virtualhome.commands import Words
from agentgym.virtualhome.goals import Goal, Tests
from agentgym.virtualhome.rules import World
from agentgym.virtualhome.scene import Scene
from agentgym.virtualhome.text import View

#: Repairs without which texts would depend on the order of sets, and rules might not answer.
ALWAYS: Final = frozenset(("cycles", "grab_place"))


class Lexicon:
    """The words of one scene, shared by all episodes in it.

    Args:
        scene: the scene.

    Attributes:
        scene: the scene.
        names: what things are called.
        words: the commands.
        offers: which of them can be done.
        view: what is shown.
    """

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.words = Words(scene)
        self.names = self.words.names
        self.offers = Offers(self.words)
        self.view = View(self.names, scene)


@dataclass(frozen=True, eq=False)
class Activity:
    """A task in a house.

    Attributes:
        task_id: its name in its collection.
        task_type: family of a generated activity, title of a published one.
        title: what it is about, in a few words.
        description: what is to be done, in words.
        lexicon: the house at the start, and what is said about it.
        goal: what is to be achieved.
        program: commands that achieve it from the start; () when none is known.
    """

    task_id: str
    task_type: str
    title: str
    description: str
    lexicon: Lexicon
    goal: Goal
    program: tuple[str, ...]

    @property
    def scene(self) -> Scene:
        """The house at the start."""
        return self.lexicon.scene

    @property
    def content(self) -> list[Any]:
        """House at the start, words and goal, as plain values; see `agentgym.core.TextEnv.content`."""
        nodes = [self.scene.node(position) for position in range(self.scene.size)]
        house = [[*node[:3], sorted(node.properties), sorted(node.states)] for node in nodes]
        return [self.title, self.description, house, sorted(self.scene.edges()), self.goal.content]

    @cached_property
    def tests(self) -> Tests:
        """The goal as tests on cells."""
        return self.goal.tests(self.scene)

    def world(self, repairs: Collection[str] = ()) -> World:
        """Return the house at the start, with dialect "v1", some repairs and those of `ALWAYS`."""
        return World(self.scene, "v1", ALWAYS.union(repairs))
