"""Episodes in the protocol of SPA, STeCa and their successors, and their form for the environment."""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from math import inf
from typing import Any, Final, NamedTuple

from agentgym.virtualhome import rules
from agentgym.virtualhome.actions import RULES
from agentgym.virtualhome.activity import ALWAYS, Activity
from agentgym.virtualhome.commands import PARAMETERS, TEXTS, parse_line
from agentgym.virtualhome.household import Household, OriginalError, Refused
from agentgym.virtualhome.keys import known_nodes, state_key
from agentgym.virtualhome.rules import World
from agentgym.virtualhome.scene import BETWEEN, CLOSE, INSIDE, IS, ON, RELATION_NAMES, Edge, Scene, members, states_of
from agentgym.virtualhome.spa.names import TEMPLATES, Choose, Objects, action_of, open_line


class Sight(NamedTuple):
    """The visible close things (`<class> is <STATE>`), their relations (`<class> ON <class>`), and held classes."""

    things: tuple[str, ...]
    relations: tuple[str, ...]
    held: tuple[str, ...]

    def __str__(self) -> str:
        """Return the papers' text, sorted; the original's order is arbitrary."""
        seen = ", ".join((*self.things, *self.relations))
        return (f"{seen}. " if seen else "") + (f"You have {', '.join(self.held)}. " if self.held else "")


def look(home: Household) -> Sight | None:
    """Return what is shown, None if the character is inside nothing (the original raises)."""
    scene, me = home.scene, home.scene.character
    close = home.related(me, CLOSE)
    seen = visible(home, close)
    if seen is None:
        return None
    classes = {scene.names[node] for node in members(seen)}
    alike = 0
    for name in classes:
        alike |= scene.classes[name]
    things = set()
    for node in members(alike):
        states = states_of(home.states(node))
        things.add(f"{scene.names[node]} is {' and '.join(states)}" if states else scene.names[node])
    near = close & alike
    relations = {
        f"{scene.names[node]} {RELATION_NAMES[relation]} {scene.names[other]}"
        for node in members(near)
        for relation in (ON, BETWEEN)
        for other in members(home.related(node, relation) & near)
    }
    held = tuple(scene.names[node] for node in home.listed(home.in_hands()))
    return Sight(tuple(sorted(things)), tuple(sorted(relations)), held)


def visible(home: Household, among: int) -> int | None:
    """Return the visible nodes of a set; None if the character is inside nothing.

    Visible are all rooms, held things, and everything inside the character's room at any depth, except inside a closed
    thing that is no room (the original never terminates for a thing inside itself).
    """
    scene, me = home.scene, home.scene.character
    room = _lies_in(home, me)
    if room is None:
        return None
    inside, new = 0, home.sources(room, INSIDE)
    while new:
        inside |= new
        deeper = 0
        for node in members(new):
            deeper |= home.sources(node, INSIDE)
        new = deeper & ~inside
    seen = among & (scene.rooms | home.in_hands())
    for node in members(among & inside & ~seen):
        box = _lies_in(home, node)
        if box is not None and (scene.rooms >> box & 1 or home.states(box) & IS.OPEN):
            seen |= 1 << node
    return seen


def _lies_in(home: Household, node: int) -> int | None:
    boxes = home.related(node, INSIDE)
    if boxes & (boxes - 1):
        return home.listing(node, INSIDE)[-1]
    return boxes.bit_length() - 1 if boxes else None


OK, NOTHING, ERROR = "ok", "nothing", "error"
_SAID: Final = {NOTHING: "Nothing happens.", ERROR: "Error Input. Your input must contains 'Action: '"}
_BRACKETS = re.compile(r"\[(.*?)\]")


def introduction(title: str, description: str) -> str:
    """Return the first turn of an episode, after the instruction and an example."""
    return f"The task is {title}({description})."


class Turn(NamedTuple):
    """The result of a reply.

    Attributes:
        kind: `OK`, `NOTHING` (the action was impossible) or `ERROR` (no action, or the original raises).
        line: the script line, or why there is none; None if the reply was not understood.
        sight: what is shown after a successful action.
        reached: whether the goal holds now; not tested after an `ERROR`.
    """

    kind: str
    line: str | None = None
    sight: Sight | None = None
    reached: bool = False

    @property
    def observation(self) -> str:
        return f"Observation: {_SAID[self.kind] if self.sight is None else self.sight}"


class SpaEpisode:
    """An episode in the papers' protocol.

    Args:
        world: the simulator; in the papers dialect "head" with the repair "find".
        reached: tests the goal on the cells of a state.
        objects: class name -> id of the named thing. The original passes one dictionary from episode to episode of a
            task, filled from the published program: a leak. A copy, or an empty one, prevents it.
        choose: draws an id when a name is ambiguous.
    """

    def __init__(
        self, world: World, reached: Callable[[Sequence[int]], bool], objects: dict[str, int], choose: Choose
    ) -> None:
        self.world = world
        self.won = False
        self._reached = reached
        self._objects = Objects(world, objects, choose)

    def reply(self, text: str) -> Turn:
        action = action_of(text)
        return self._count(Turn(ERROR) if action is None else self._turn(action))

    def play(self, action: str) -> Turn:
        return self._count(self._turn(action))

    def get_state(self) -> Any:
        objects = self._objects
        return self.world.get_state(), self.won, tuple(objects.known.items()), objects.last

    def set_state(self, state: Any) -> None:
        """Load what `get_state` returned; the resolved names are written into the given dictionary."""
        snapshot, self.won, known, self._objects.last = state
        self.world.set_state(snapshot)
        self._objects.known.clear()
        self._objects.known.update(known)

    def _count(self, turn: Turn) -> Turn:
        if turn.kind == ERROR:
            return turn
        reached = self._reached(self.world.cells)
        self.won = self.won or reached
        return turn._replace(reached=reached)

    def _turn(self, action: str) -> Turn:
        line = open_line(action)
        if line is None:
            return Turn(ERROR)
        try:  # the original lists its whole graph here, after an action, and for the goal
            line = self._objects.fill(line)
        except OriginalError:
            return Turn(ERROR)
        if "[" not in line:
            return self._refused(line)
        named = _BRACKETS.search(line)
        if named is None:
            return Turn(ERROR, line)
        if named[1] not in TEMPLATES or PARAMETERS[named[1]] != line.count("<"):
            return self._refused(line)
        result = self.world.step(line)
        if result.exception is not None:
            return Turn(ERROR, line)
        if not result.ok:
            return self._refused(line)
        self.world.asked_all()
        sight = look(self.world)
        if sight is None:
            return Turn(ERROR, line)
        self.world.asked_all()
        return Turn(OK, line, sight)

    def _refused(self, line: str) -> Turn:
        self.world.asked_all()
        return Turn(NOTHING, line)


#: The effect of each repair, in addition to those of the rules.
REPAIRS: Final[dict[str, str]] = rules.REPAIRS | TEXTS["spa_repairs"]
#: Actions that are offered for close or held things.
_NEAR: Final = tuple(
    action
    for action, template in TEMPLATES.items()
    if template.count("{}") == 1 and action not in ("WALK", "RUN", "FIND")
)


class SpaActivity(SpaEpisode):
    """An activity in the papers' protocol, on dialect "head" with the repairs "find" and `ALWAYS`.

    The dictionary of names starts anew in every episode; the original passes it on, so one episode affects the next.
    """

    def __init__(self, activity: Activity, repairs: Collection[str], choose: Choose) -> None:
        self.activity = activity
        self.done = 0
        scene = _prepared(activity.scene, containment="containment" in repairs)
        self._tests = activity.goal.tests(scene)
        self._lines = [str(activity.lexicon.words.line(command) or "") for command in activity.program]
        objects: dict[str, int] = {}
        if "no_leak" not in repairs:
            for line in filter(None, self._lines):
                for name, number in parse_line(line).things:
                    objects.setdefault(name, number)
        world = World(scene, "head", ALWAYS | {"find"} | (set(repairs) & set(rules.REPAIRS)))
        super().__init__(world, self._achieved, objects, choose)
        self._shown = introduction(activity.title, activity.description)
        self._followed: int | None = 0

    def _achieved(self, cells: Sequence[int]) -> bool:
        return not self._tests.missing(cells, self.done)

    def act(self, command: str) -> bool:
        turn = self.play(command) if action_of(command) is None else self.reply(command)
        self._shown = turn.observation
        if self._followed is not None:
            follows = turn.kind == OK and self._lines[self._followed : self._followed + 1] == [turn.line]
            self._followed = self._followed + 1 if follows else None
        return turn.kind == OK

    @property
    def score(self) -> float:
        return self._tests.share(self._tests.missing(self.world.cells, self.done))

    def observe(self) -> str:
        return self._shown

    def admissible(self) -> tuple[str, ...]:
        """Return possible action strings: walks, finds, actions on close or held things with unambiguous names."""
        world, known = self.world, self._objects.known
        scene, me = world.scene, world.scene.character
        offered = [_say(action) for action in ("STANDUP", "SLEEP", "WAKEUP") if self._possible(action)]
        housed = scene.rooms
        for room in members(scene.rooms):
            housed |= world.sources(room, INSIDE)
        # The original does not walk to find these, hands for example, and refuses them until the character is close.
        carried = scene.having["BODY_PART"] | world.sources(me, ON)
        if self._possible("WALK", me):  # if one thing in a room can be reached, all of them can
            for name, nodes in scene.classes.items():
                meant = 1 << scene.index[known[name]] if name in known else nodes
                if all(self._possible("WALK", node) for node in members(meant & ~housed)):
                    offered += [_say(action, name) for action in ("WALK", "RUN")]
                    if all(self._possible("FIND", node) for node in members(meant & carried)):
                        offered.append(_say("FIND", name))
        hands = world.in_hands()
        close = {scene.names[node] for node in members(hands | world.related(me, CLOSE))}
        near = {name: node for name in close if (node := self._objects.meant(name)) is not None}
        for name, node in near.items():
            offered += [_say(action, name) for action in _NEAR if self._possible(action, node)]
        for node in members(hands):
            name = scene.names[node]
            if scene.classes[name] & hands == 1 << node:  # of two held ones either would be drawn
                for other, target in near.items():
                    offered += [
                        _say(action, name, other)
                        for action in ("PUTBACK", "PUTIN", "POUR")
                        if target != node and self._possible(action, node, target)
                    ]
        return tuple(sorted(filter(None, offered)))

    def report(self) -> tuple[str, str, str]:
        view = self.activity.lexicon.view
        location, inventory = view.location(self.world), view.inventory(self.world)
        key = state_key(self.world, f"{location}; {inventory}", known_nodes(self.world), self.done)
        names = ",".join(f"{name}:{number}" for name, number in sorted(self._objects.known.items()))
        return location, inventory, f"{key}; {names}; {self._objects.last}"

    def expert_action(self) -> str:
        """Return the next action of the published program while it is followed and unambiguous, else ""."""
        if self.won or self._followed is None or self._followed >= len(self._lines) or not self._lines[self._followed]:
            return ""
        action, things = parse_line(self._lines[self._followed])
        return _say(action, *[name for name, _ in things])

    def distance_bounds(self) -> tuple[float, float]:
        return (0.0, 0.0) if self.won else (1.0, inf)

    def get_state(self) -> Any:
        return super().get_state(), self.done, self._shown, self._followed

    def set_state(self, state: Any) -> None:
        episode, self.done, self._shown, self._followed = state
        super().set_state(episode)

    def _count(self, turn: Turn) -> Turn:
        if turn.kind == OK and turn.line is not None and self._tests.deeds:
            line = parse_line(turn.line)
            node = self.world.scene.index[line.things[0][1]] if line.things else -1
            self.done = self._tests.advance(self.world.cells, self.done, line.action, node)
        return super()._count(turn)

    def _possible(self, action: str, *nodes: int) -> bool:
        try:
            RULES[action].check(self.world, *nodes)
        except (Refused, OriginalError):
            return False
        return True


@lru_cache(maxsize=1 << 14)
def _say(action: str, *names: str) -> str:
    said = TEMPLATES[action].format(*[name.replace("_", " ") for name in names])
    meant = " ".join([f"[{action}]", *(f"<{name}> (1)" for name in names)])
    return said if open_line(said) == meant and not any(map(str.isdecimal, "".join(names))) else ""


def prepared(scene: Scene, *, removed: Iterable[Edge] | None = None, containment: bool = False) -> Scene:
    """Return the scene of a published task as an episode of the papers starts.

    `removed`: the edges that the wrapper removed from its file, if known; None: `taken_out` computes them.
    `containment`: the repair, to remove only pairs of things inside each other (the original also takes the food out of
    the freezer).
    """
    if containment:
        edges = set(scene.edges())
        removed = [edge for edge in scene.edges() if edge[1] == "INSIDE" and (edge[2], "INSIDE", edge[0]) in edges]
    elif removed is None:
        removed = taken_out(scene.edges())
    return scene.changed(remove=removed)


#: Prepared scenes of activities.
_prepared = lru_cache(maxsize=512)(prepared)


def taken_out(edges: Iterable[Edge]) -> list[Edge]:
    """Return the edges that the wrapper removes from a list of different edges.

    It iterates over the list, removes (a, R, b) and (b, INSIDE, a) where both exist, and thereby skips entries: the
    result depends on the order of the list, in the original that of the raw file.

    >>> taken_out([(1, "CLOSE", 2), (3, "CLOSE", 4), (2, "INSIDE", 1), (4, "INSIDE", 3), (3, "FACING", 4)])
    [(1, 'CLOSE', 2), (2, 'INSIDE', 1), (3, 'FACING', 4), (4, 'INSIDE', 3)]
    """
    listed = list(edges)
    place = {edge: number for number, edge in enumerate(listed)}
    gone: dict[Edge, None] = {}
    steps_over = 0
    for number, edge in enumerate(listed):
        if edge in gone:
            continue
        if steps_over:
            steps_over -= 1
            continue
        inside = (edge[2], "INSIDE", edge[0])
        if inside in place and inside not in gone:
            steps_over = 1 + (place[inside] < number)
            gone |= {edge: None, inside: None}
    return list(gone)
