"""A task in a house, and an episode of doing it: numbered things, commands, observations, and the state in full."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any, Final

from agentgym.virtualhome.admissible import Offers
from agentgym.virtualhome.commands import Words
from agentgym.virtualhome.expert import least, plan
from agentgym.virtualhome.goals import Goal, Tests
from agentgym.virtualhome.keys import known_nodes, state_key
from agentgym.virtualhome.rules import DISCOVERING, World
from agentgym.virtualhome.scene import Scene
from agentgym.virtualhome.text import NOT_UNDERSTOOD, View, failure, introduction

#: Repairs without which texts would depend on the order of sets, and rules might not answer.
ALWAYS: Final = frozenset(("cycles", "grab_place"))


class Lexicon:
    """Names, commands, offers and observations of one scene, shared by all episodes in it."""

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


class Episode:
    """An episode of an activity, by the rules of dialect "v1" with some repairs beside `ALWAYS`.

    Attributes:
        done: deeds of the goal that have been done.
        won: the goal is achieved.
        score: share of the goal that is achieved, beyond what is at the start.
    """

    def __init__(self, activity: Activity, repairs: Collection[str] = ()) -> None:
        self.activity = activity
        self.world = activity.world(repairs)
        self.done = 0
        lexicon = activity.lexicon
        self._tests, self._words, self._view, self._offers = activity.tests, lexicon.words, lexicon.view, lexicon.offers
        self._known = 0
        self._look_around()
        self._note = introduction(activity.title, activity.description) + "\n\n"
        self._plan: tuple[str, ...] | None = activity.program

    def act(self, command: str) -> bool:
        """Play a command, and return whether it was done."""
        world = self.world
        read = self._words.read(command)
        if read is None:
            self._note = f"{NOT_UNDERSTOOD}\n"
            return False
        action, nodes = read
        result = world.perform(action, nodes)
        if not result.ok:
            self._note = f"{failure(result.messages, self._words.names, world.scene)}\n"
            return False
        self._note = ""
        if action in DISCOVERING:
            self._known |= 1 << nodes[0]
        tests = self._tests
        if tests.deeds:
            self.done = tests.advance(world.cells, self.done, action, nodes[0] if nodes else -1)
        self._look_around()
        if self._plan is not None:
            self._plan = self._plan[1:] if self._plan[:1] == (command.strip(),) else None
        return True

    def _look_around(self) -> None:
        """Note where the character is, and how much is left to do."""
        left = self._tests.missing(self.world.cells, self.done)
        self.won, self.score = not left, self._tests.share(left)
        self._location = self._view.location(self.world)

    def observe(self) -> str:
        """Return what is shown: why the last command failed, or the task at first, and then the surroundings."""
        return self._note + self._view.surroundings(self.world, self._location)

    def admissible(self) -> tuple[str, ...]:
        """Return the commands that are offered."""
        return self._offers.admissible(self.world, self._known)

    def report(self) -> tuple[str, str, str]:
        """Return where the character is, what it holds, and the exact state as text."""
        location, inventory = self._location, self._view.inventory(self.world)
        return location, inventory, state_key(self.world, f"{location}; {inventory}", self._known, self.done)

    def expert_action(self) -> str:
        """Return the next command of the program while it is followed, else of a plan; "" where there is none."""
        if self.won:
            return ""
        if not self._plan:
            self._plan = plan(self.activity, self.world, self.done) or ()
        return self._plan[0] if self._plan else ""

    def distance_bounds(self) -> tuple[float, float]:
        """Return bounds of the number of commands that are still needed; above inf where no plan is found."""
        commands = () if self.won else plan(self.activity, self.world, self.done)
        most = inf if commands is None else float(len(commands))
        return float(least(self.activity, self.world, self._known, self.done)), most

    def get_state(self) -> Any:
        """Return the state as a picklable value."""
        return self.world.get_state(), self.done, self._note, self._plan

    def set_state(self, state: Any) -> None:
        """Load what `get_state` returned, of an episode of the same activity."""
        snapshot, self.done, self._note, self._plan = state
        self.world.set_state(snapshot)
        self._known = known_nodes(self.world)
        self._look_around()
