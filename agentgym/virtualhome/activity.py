"""A task in a house and its episodes: numbered things, commands, observations, and the exact state."""

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

#: Repairs that are always on: without them texts depend on the order of sets, and rules may not terminate.
ALWAYS: Final = frozenset(("cycles", "grab_place"))


class Lexicon:
    """Names, commands, offers and observations of one scene, shared by its episodes."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.words = Words(scene)
        self.names = self.words.names
        self.offers = Offers(self.words)
        self.view = View(self.names, scene)


@dataclass(frozen=True, eq=False)
class Activity:
    """A task in a house; `task_type` is the family of a generated activity, or the title of a published one.

    `lexicon`: the house at the start with its names and texts; `program`: commands that achieve the goal, () if
    unknown.
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
        return self.lexicon.scene

    @property
    def content(self) -> list[Any]:
        """Return the house at the start, texts and goal as plain values, see `TextEnv.content`."""
        nodes = [self.scene.node(position) for position in range(self.scene.size)]
        house = [[*node[:3], sorted(node.properties), sorted(node.states)] for node in nodes]
        return [self.title, self.description, house, sorted(self.scene.edges()), self.goal.content]

    @cached_property
    def tests(self) -> Tests:
        return self.goal.tests(self.scene)

    def world(self, repairs: Collection[str] = ()) -> World:
        """Return the house at the start, with dialect "v1", some repairs and those of `ALWAYS`."""
        return World(self.scene, "v1", ALWAYS.union(repairs))


class Episode:
    """An episode of an activity with dialect "v1", some repairs and those of `ALWAYS`; `done` counts the deeds done."""

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
        left = self._tests.missing(self.world.cells, self.done)
        self.won, self.score = not left, self._tests.share(left)
        self._location = self._view.location(self.world)

    def observe(self) -> str:
        return self._note + self._view.surroundings(self.world, self._location)

    def admissible(self) -> tuple[str, ...]:
        return self._offers.admissible(self.world, self._known)

    def report(self) -> tuple[str, str, str]:
        """Return location, inventory, and the exact state as text."""
        location, inventory = self._location, self._view.inventory(self.world)
        return location, inventory, state_key(self.world, f"{location}; {inventory}", self._known, self.done)

    def expert_action(self) -> str:
        if self.won:
            return ""
        if not self._plan:
            self._plan = plan(self.activity, self.world, self.done) or ()
        return self._plan[0] if self._plan else ""

    def distance_bounds(self) -> tuple[float, float]:
        """Return bounds of the number of commands to the goal; the upper one is inf when no plan is found."""
        commands = () if self.won else plan(self.activity, self.world, self.done)
        most = inf if commands is None else float(len(commands))
        return float(least(self.activity, self.world, self._known, self.done)), most

    def get_state(self) -> Any:
        return self.world.get_state(), self.done, self._note, self._plan

    def set_state(self, state: Any) -> None:
        snapshot, self.done, self._note, self._plan = state
        self.world.set_state(snapshot)
        self._known = known_nodes(self.world)
        self._look_around()
