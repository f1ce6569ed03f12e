"""The rules of the household: state, effects of commands, admissible commands, and the goal test."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Collection
from functools import lru_cache, partial
from typing import NamedTuple

from agentgym.alfworld.game import CLEAN, COOL, DIALECTS, HEAT, LOOK, TWO, Game, Stand, put_command
from agentgym.alfworld.text import NOTHING_HAPPENS, TEXTS, carried, closer_look, condition, inside, surroundings, view

#: The effect of each repair. By default the household behaves exactly as the original.
REPAIRS: dict[str, str] = TEXTS["repairs"]


def reached(world: World) -> bool:
    """Return whether the goal of the world's game holds now."""
    game, contents = world.game, world.contents
    kind, wanted = game.task_type, game.goal_objects
    if kind == LOOK:
        if world.held < 0 or not wanted >> world.held & 1:
            return False
        lit = game.goal_lamps & world.toggled
        return bool(lit) and any(contents[receptacle] & lit for receptacle in game.room.local[world.loc])
    if kind == TWO:
        return any((contents[receptacle] & wanted).bit_count() > 1 for receptacle in game.goal_receptacles)
    if kind == CLEAN:
        wanted &= world.clean
    elif kind == HEAT:
        wanted &= world.hot
    elif kind == COOL:
        wanted &= world.cool
    return wanted != 0 and any(contents[receptacle] & wanted for receptacle in game.goal_receptacles)


class Outcome(NamedTuple):
    """The result of a command: its text, and whether it was possible."""

    observation: str
    valid: bool


#: A state as a hashable tuple of ints.
Snapshot = tuple[int, ...]


class Memory:
    """Results about receptacles in their initial state, shared by the episodes of a game.

    `texts`: the description of each receptacle (open, if it has a door), None until requested; `commands`: admissible
    commands by location, object in hand and open receptacles there.
    """

    __slots__ = ("commands", "texts")

    def __init__(self, game: Game, *repairs: bool) -> None:
        self.texts: list[str | None] = [None] * len(game.receptacles)
        self.commands: dict[int, tuple[str, ...]] = {}


#: The memory of a game with the repairs that change the admissible commands; the last 512 are kept, at most 20 MB.
memory_of = lru_cache(maxsize=512)(Memory)


class World:
    """One episode of a game: its state and the commands that change it.

    Objects, receptacles and locations are positions in the `Game`; sets are bit masks. `repairs` are names of
    `REPAIRS`; "status" concerns the environment and has no effect here.

    Attributes:
        held: object in hand, -1 for none.
        contents: per receptacle, the objects in it.
        seen_from: per location, the objects that the data places there.
        taken: per receptacle, the objects taken from it and not put back since.
        touched: receptacles whose contents may differ from the start.
        memory: the cache that the episodes of this game share.
    """

    __slots__ = (
        "_carried", "_commands", "_condition", "arrive_at_shared", "clean", "contents", "cool", "examine_visible",
        "game", "held", "hot", "loc", "look_at_start", "memory", "one_copy", "open", "seen_from", "sliced",
        "switch_off", "taken", "toggled", "touched", "won",
    )  # fmt: skip

    _commands: tuple[str, ...] | None
    _condition: str | None
    _carried: str | None

    def __init__(self, game: Game, repairs: Collection[str] = ()) -> None:
        self.game = game
        self.arrive_at_shared = "colocated" in repairs
        self.examine_visible = "examine" in repairs
        self.one_copy = "ghosts" in repairs
        self.look_at_start = "look" in repairs
        self.switch_off = "toggle" in repairs
        self.memory = memory_of(game, self.examine_visible, self.arrive_at_shared)
        self.loc = game.start
        self.held = -1
        self.open = self.clean = self.hot = self.toggled = self.sliced = self.touched = 0
        self.cool = game.cool
        self.contents = list(game.contents)
        self.seen_from = list(game.seen_from)
        self.taken = [0] * len(game.receptacles)
        self._changed()
        self._condition = ""
        self.won = reached(self)

    def get_state(self) -> Snapshot:
        return (
            self.loc, self.held, self.open, self.clean, self.hot, self.cool, self.toggled, self.sliced,
            *self.contents, *self.taken, *self.seen_from,
        )  # fmt: skip

    def step(self, command: str) -> Outcome:
        """Play one command; surrounding spaces are ignored, an impossible command changes nothing."""
        text = self.answer(command)
        return Outcome(NOTHING_HAPPENS, False) if text is None else Outcome(text, True)

    def answer(self, command: str) -> str | None:
        """Play one command and return its text, None when it is impossible."""
        receptacle = self.game.room.goes.get(command)
        if receptacle is not None:
            return self._go_to(receptacle)
        verb, _, rest = command.strip().partition(" ")
        action = _ACTIONS.get(verb)
        return None if action is None else action(self, rest)

    def admissible(self) -> tuple[str, ...]:
        return self.report()[0]

    def location(self) -> str:
        return self.game.room.facing[self.loc]

    def inventory(self) -> str:
        return self.report()[3]

    def changes(self) -> str:
        if self._condition is None:
            self._condition = condition(self)
        return self._condition

    def report(self) -> tuple[tuple[str, ...], str, str, str]:
        """Return the admissible commands, the exact state as text, location and inventory."""
        possible, changes, carries = self._commands, self._condition, self._carried
        if possible is None:
            possible = self._commands = admissible(self)
        if changes is None:
            changes = self._condition = condition(self)
        if carries is None:
            carries = self._carried = carried(self)
        where = self.game.room.facing[self.loc]
        return possible, f"at {where}; {changes}" if changes else f"at {where}", where, carries

    def set_state(self, state: Snapshot, changes: str | None = None) -> None:
        """Load a state of the same game; passing its `changes` avoids computing them again."""
        n = len(self.contents)
        self.loc, self.held, self.open, self.clean, self.hot, self.cool, self.toggled, self.sliced = state[:8]
        self.contents = list(state[8 : 8 + n])
        self.taken = list(state[8 + n : 8 + 2 * n])
        self.seen_from = list(state[8 + 2 * n :])
        self.touched = (1 << n) - 1
        self._changed()
        self._condition = changes
        self.won = reached(self)

    def _changed(self) -> None:
        self._commands = None
        self._condition = self._carried = None

    def _contents_text(self, receptacle: int) -> str:
        game = self.game
        if (game.openable & ~self.open) >> receptacle & 1:
            return game.room.closed[receptacle]
        return inside(self, receptacle)

    def here(self, name: str) -> int:
        """Return the position of the named receptacle, -1 when it is not at the agent's location."""
        receptacle = self.game.room.index.get(name, -1)
        return receptacle if receptacle >= 0 and self.game.places[receptacle] == self.loc else -1

    def in_hand(self, name: str) -> bool:
        return self.held >= 0 and self.game.objects[self.held] == name

    def accessible(self, receptacle: int) -> bool:
        return not (self.game.openable & ~self.open) >> receptacle & 1

    # One method per verb: it takes the rest of the command and returns the text, or None if impossible.

    def _go(self, rest: str) -> str | None:
        receptacle = self.game.room.index.get(rest[3:], -1) if rest[:3] == "to " else -1
        return None if receptacle < 0 else self._go_to(receptacle)

    def _go_to(self, receptacle: int) -> str | None:
        game = self.game
        place = game.places[receptacle]
        if place != self.loc:
            self.loc = place
            self._commands = None
            if game.task_type == LOOK:
                self.won = reached(self)
        elif not (self.arrive_at_shared and len(game.room.local[place]) > 1):
            return None
        where = game.receptacles[receptacle] if game.dialect == "move" else game.locations[place]
        closed = (game.openable & ~self.open) >> receptacle & 1
        return f"You arrive at {where}. {game.room.closed[receptacle] if closed else inside(self, receptacle)}"

    def _open(self, rest: str) -> str | None:
        receptacle = self.here(rest)
        if receptacle < 0 or not (self.game.openable & ~self.open) >> receptacle & 1:
            return None
        self.open |= 1 << receptacle
        self._changed()
        return f"You open the {rest}. {self._contents_text(receptacle)}"

    def _close(self, rest: str) -> str | None:
        receptacle = self.here(rest)
        if receptacle < 0 or not self.open >> receptacle & 1:
            return None
        self.open ^= 1 << receptacle
        self._changed()
        return f"You close the {rest}."

    def _take(self, rest: str) -> str | None:
        name, _, where = rest.partition(" from ")
        receptacle, item = self.here(where), self.game.object_index.get(name, -1)
        if self.held >= 0 or receptacle < 0 or item < 0 or not self.accessible(receptacle):
            return None
        bit = 1 << item
        if not self.contents[receptacle] & self.game.pickupable & bit:
            return None
        self.contents[receptacle] ^= bit
        self.taken[receptacle] |= bit
        self.touched |= 1 << receptacle
        self.seen_from[self.loc] &= ~bit
        self.held = item
        if self.one_copy:
            self.contents = [objects & ~bit for objects in self.contents]
            self.touched = (1 << len(self.contents)) - 1
            self.seen_from = [objects & ~bit for objects in self.seen_from]
        self._changed()
        self.won = reached(self)
        return f"You pick up the {name} from the {where}."

    def _put(self, rest: str, verb: str) -> str | None:
        name, between, where = rest.partition(DIALECTS[verb])
        receptacle = self.here(where)
        if verb != self.game.dialect or not self.in_hand(name) or receptacle < 0 or not self.accessible(receptacle):
            return None
        bit = 1 << self.held
        if not self.game.fits[receptacle] & bit:
            return None
        self.contents[receptacle] |= bit
        self.taken[receptacle] &= ~bit
        self.touched |= 1 << receptacle
        self.seen_from[self.loc] |= bit
        self.held = -1
        self._changed()
        self.won = reached(self)
        return f"You {verb} the {name}{between}the {where}."

    def _treat(self, rest: str, verb: str) -> str | None:
        machines, objects, state, ended = _TREATMENTS[verb]
        name, _, where = rest.partition(" with ")
        receptacle = self.here(where)
        if receptacle < 0 or not getattr(self.game.room, machines) >> receptacle & 1:
            return None
        if not self.in_hand(name) or not getattr(self.game, objects) >> self.held & 1:
            return None
        bit = 1 << self.held
        setattr(self, state, getattr(self, state) | bit)
        if ended:
            setattr(self, ended, getattr(self, ended) & ~bit)
        self._changed()
        self.won = reached(self)
        return f"You {verb} the {name} using the {where}."

    def _use(self, rest: str) -> str | None:
        item = self.game.object_index.get(rest, -1)
        if item < 0 or not self.game.toggleable >> item & 1:
            return None
        if not any(self.contents[receptacle] >> item & 1 for receptacle in self.game.room.local[self.loc]):
            return None
        off = self.switch_off and bool(self.toggled >> item & 1)
        self.toggled = self.toggled ^ 1 << item if off else self.toggled | 1 << item
        self._condition = None
        self.won = reached(self)
        return f"You turn {'off' if off else 'on'} the {rest}."

    def _slice(self, rest: str) -> str | None:
        name, _, knife = rest.partition(" with ")
        item = self.game.object_index.get(name, -1)
        if item < 0 or not self.in_hand(knife) or not self.game.knives >> self.held & 1:
            return None
        if not self.game.sliceable & self.seen_from[self.loc] & 1 << item:
            return None
        self.sliced |= 1 << item
        self._condition = None
        return f"You sliced the {name} with the {knife}."

    def _examine(self, rest: str) -> str | None:
        receptacle = self.here(rest)
        if receptacle >= 0:
            return self._contents_text(receptacle)
        item = self.game.object_index.get(rest, -1)
        if item < 0 or not (item == self.held or (self.examine_visible and self._in_sight(item))):
            return None
        return closer_look(self, item)

    def _in_sight(self, item: int) -> bool:
        here = self.game.room.local[self.loc]
        return any(self.accessible(receptacle) and self.contents[receptacle] >> item & 1 for receptacle in here)

    def _look(self, rest: str) -> str | None:
        if rest:
            return None
        if self.look_at_start and not self.game.room.local[self.loc]:
            return view(self.game.room)
        return surroundings(self)

    def _inventory(self, rest: str) -> str | None:
        if rest:
            return None
        return (
            "You are not carrying anything."
            if self.held < 0
            else f"You are carrying: a {self.game.objects[self.held]}."
        )

    def _help(self, rest: str) -> str | None:
        return TEXTS["help"] if self.game.dialect == "move" and not rest else None


#: The receptacles and objects of a treatment, the state that it gives, and the one that it ends.
_TREATMENTS = {
    "clean": ("sinks", "cleanable", "clean", ""),
    "heat": ("microwaves", "heatable", "hot", "cool"),
    "cool": ("fridges", "coolable", "cool", "hot"),
}
_ACTIONS: dict[str, Callable[[World, str], str | None]] = {
    "go": World._go,
    "open": World._open,
    "close": World._close,
    "take": World._take,
    **{verb: partial(World._put, verb=verb) for verb in DIALECTS},
    **{verb: partial(World._treat, verb=verb) for verb in _TREATMENTS},
    "use": World._use,
    "slice": World._slice,
    "examine": World._examine,
    "look": World._look,
    "inventory": World._inventory,
    "help": World._help,
}


#: Maximum number of lists in the memory of one game; then it is cleared.
_MOST_KNOWN = 128


def admissible(world: World) -> tuple[str, ...]:
    """Return every possible command in this state, sorted; results for contents as at the start are cached."""
    game, loc, held = world.game, world.loc, world.held
    if held >= 0 and game.knives >> held & 1:
        return work_out(world, game.sliceable & world.seen_from[loc])
    room = game.room
    if world.touched & room.reach[loc]:
        first, contents = game.contents, world.contents
        for i in room.local[loc]:
            if contents[i] != first[i]:
                return work_out(world, 0)
    known = world.memory.commands
    # one integer as the key; an empty hand is -1
    places = len(room.local)
    key = ((world.open & room.reach[loc]) * places + loc) * (len(game.objects) + 1) + held + 1
    found = known.get(key)
    if found is None:
        if len(known) >= _MOST_KNOWN:
            known.clear()
        found = known[key] = work_out(world, 0)
    return found


def work_out(world: World, food: int) -> tuple[str, ...]:
    """Compute `admissible` without the cache; `food` are the objects that the knife in hand can slice."""
    game, contents, loc, held = world.game, world.contents, world.loc, world.held
    stand = game.room.stand(loc, world.open, world.arrive_at_shared)
    lamps = 0
    if game.toggleable:
        for i in game.room.local[loc]:
            lamps |= contents[i] & game.toggleable
    uses = sorted(["use " + name for name in game.names(lamps)]) if lamps else ()
    if held < 0:
        if world.examine_visible:
            examines = sorted([*stand.examines, *["examine " + name for name in game.names(_visible(world, stand))]])
            return (*stand.closes, *examines, *stand.onward, *stand.opens, *_takes(world, stand), *uses)
        return stand.everything + tuple(_takes(world, stand)) + tuple(uses)
    item = game.objects[held]
    puts = _puts(world, stand, item)
    if food:
        uses = [*sorted([f"slice {name} with {item}" for name in game.names(food)]), *uses]
    first, last = (puts, stand.opens) if game.dialect == "move" else (stand.opens, puts)
    if stand.machines or world.examine_visible:
        return (*_at_machines(world, stand, item), *first, *last, *uses)
    examine = "examine " + item
    before, after = stand.around[bisect(stand.examines, examine)]
    return (*before, examine, *after, *first, *last, *uses)


def _takes(world: World, stand: Stand) -> list[str]:
    game = world.game
    commands: list[str] = []
    for i in stand.accessible:
        objects = world.contents[i] & game.pickupable
        if objects:
            where = " from " + game.receptacles[i]
            commands += ["take " + name + where for name in game.names(objects)]
    if len(commands) > 1:
        commands.sort()
    return commands


def _puts(world: World, stand: Stand, item: str) -> list[str]:
    game, held = world.game, world.held
    pattern = put_command(game.dialect, item, "")
    return [pattern + game.receptacles[i] for i in stand.accessible if game.fits[i] >> held & 1]


def _at_machines(world: World, stand: Stand, item: str) -> list[str]:
    game, bit = world.game, 1 << world.held
    examines = [*stand.examines, "examine " + item]
    if world.examine_visible:
        examines += ["examine " + name for name in game.names(_visible(world, stand))]
    examines.sort()
    # commands that end in a receptacle's name sort as the names
    commands = [f"clean {item} with {name}" for name in stand.sinks] if stand.sinks and game.cleanable & bit else []
    commands += stand.closes
    if stand.fridges and game.coolable & bit:
        commands += [f"cool {item} with {name}" for name in stand.fridges]
    commands += examines
    if stand.microwaves and game.heatable & bit:
        commands += stand.routes
        commands += [f"heat {item} with {name}" for name in stand.microwaves]
        commands += stand.always
    else:
        commands += stand.onward
    return commands


def _visible(world: World, stand: Stand) -> int:
    visible = 0
    for i in stand.accessible:
        visible |= world.contents[i]
    return visible & ~(1 << world.held) if world.held >= 0 else visible
