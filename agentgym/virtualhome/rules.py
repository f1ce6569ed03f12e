"""The rules of the household: 42 actions in the dialects of both published simulators, and repairs."""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from agentgym.checks import check_name, check_repairs
from agentgym.virtualhome.actions import RULES, Unchanged
from agentgym.virtualhome.commands import TEXTS, Line, LineError, parse_line
from agentgym.virtualhome.household import Household, OriginalError, Refused
from agentgym.virtualhome.scene import RELATION_NAMES, STATES, WIDTH, Edge, Scene, members, states_of

DIALECTS: Final = ("v1", "head")

#: The effect of each repair. Without repairs the household behaves exactly as the original.
REPAIRS: Final[dict[str, str]] = TEXTS["repairs"]

#: Actions that discover their thing; in dialect "v1" all others require a discovered one.
DISCOVERING: Final = frozenset({"WALK", "RUN", "FIND"})


class Result(NamedTuple):
    """The result of a line; messages have no tail ` when executing ...`.

    `exception` is the name of the exception that the original raises, with the text of the original's own exceptions.
    """

    ok: bool
    messages: tuple[str, ...] = ()
    exception: str | None = None


_DONE: Final = Result(True)


class Changes(NamedTuple):
    """Edges that the last line added and removed, and (id, sorted states) of nodes with changed states."""

    added: list[Edge]
    removed: list[Edge]
    states: list[tuple[int, list[str]]]


class World(Household):
    """One episode: a state with the actions that change it; `repairs` are names of `REPAIRS`.

    `dialect`: "v1", the simulator that made the published programs, or "head", the one that the papers use.

    >>> from agentgym.virtualhome.scene import Node, Scene
    >>> nodes = [Node(1, "kitchen", "Rooms"), Node(2, "character", ""), Node(3, "cup", "", ("GRABBABLE",))]
    >>> nodes += [Node(4, "door", ""), Node(5, "hall", "Rooms")]
    >>> edges = [(2, "INSIDE", 1), (3, "INSIDE", 1), (4, "BETWEEN", 1), (4, "BETWEEN", 5)]
    >>> world = World(Scene(nodes, edges))
    >>> world.step("[WALK] <cup> (3)").ok, world.changes().added
    (True, [(3, 'CLOSE', 2), (2, 'CLOSE', 3)])
    """

    __slots__ = ("_last",)

    def __init__(self, scene: Scene, dialect: str = "v1", repairs: Collection[str] = ()) -> None:
        super().__init__(scene, check_name(dialect, DIALECTS, "dialect"), check_repairs(repairs, REPAIRS))
        self._last = 0

    def step(self, line: str) -> Result:
        """Execute a script line; an impossible one changes nothing."""
        try:
            said = parse_line(line)
        except LineError as error:
            self._last = self.mark()
            return Result(False, (), str(error))
        return self.act(said)

    def act(self, line: Line) -> Result:
        """Execute a parsed line with the action's number of things."""
        self._last = self.mark()
        self.messages.clear()
        action, things = line
        if action not in RULES:  # the original reads these, and then does not know them
            unknown = f"ExecutionException: Execution of Action.{action} is not supported"
            return Result(False, (), unknown if self.v1 else "TypeError")
        nodes = []
        for name, number in things:
            node = self.scene.index.get(number)
            if action in DISCOVERING:
                if node is None:
                    return Result(False, (), "AttributeError")
            elif node is None or (self.v1 and (name, number) not in self.found):
                return Result(False, (f"<{name}> ({number}) cannot be found",))
            nodes.append(node)
        return self._do(action, nodes, things)

    def perform(self, action: str, nodes: Sequence[int]) -> Result:
        self._last = len(self._log)
        if self.messages:
            self.messages.clear()
        called = self.scene.things
        things = [called[node] for node in nodes]
        if self.v1 and action not in DISCOVERING:
            for thing in things:
                if thing not in self.found:
                    return Result(False, (f"<{thing[0]}> ({thing[1]}) cannot be found",))
        return self._do(action, nodes, things)

    def _do(self, action: str, nodes: Sequence[int], things: Sequence[tuple[str, int]]) -> Result:
        rule = RULES[action]
        try:
            how = rule.check(self, *nodes)
        except Refused as refused:
            return Result(False, (*self.messages, *refused.args))
        except OriginalError as error:
            return Result(False, tuple(self.messages), str(error))
        if how is not Unchanged:
            if not self.v1:
                self.renew_sets()
            if rule.effect is not None:
                rule.effect(self, how, *nodes)
            if self.v1 and action in DISCOVERING and things[0] not in self.found:
                self.note(self.found, things[0], True)
        return Result(True, tuple(self.messages)) if self.messages else _DONE

    def changes(self) -> Changes:
        """Return what the last line changed."""
        ids = self.scene.ids
        changes = Changes([], [], [])
        for slot, old in self.changes_since(self._last).items():
            node, cell = divmod(slot, WIDTH)
            now = self.cells[slot]
            if cell == STATES and now != old:
                changes.states.append((ids[node], states_of(now)))
            elif cell < STATES:
                for nodes, edges in ((now & ~old, changes.added), (old & ~now, changes.removed)):
                    edges += ((ids[node], RELATION_NAMES[cell], ids[other]) for other in members(nodes))
        return changes
