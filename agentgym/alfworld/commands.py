"""The commands that can be done now, sorted as strings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym.alfworld.game import bits
from agentgym.alfworld.room import Stand

if TYPE_CHECKING:
    from agentgym.alfworld.rules import World


#: Lists worked out before, of all games of the process; emptied when full (some 12 MB).
_KNOWN: dict[tuple[int, ...], tuple[str, ...]] = {}
_MAX_KNOWN = 1 << 14


def admissible(world: World) -> tuple[str, ...]:
    """Return every command that can be done in this state, sorted as strings.

    It depends on the location, on what is open and what lies there, and on the object in hand: states that agree in
    these share one list.
    """
    game, loc, held, contents = world.game, world.loc, world.held, world.contents
    room = game.room
    food = game.sliceable & world.seen_from[loc] if held >= 0 and game.knives >> held & 1 else 0
    here = room.local[loc]
    inside = (contents[here[0]],) if len(here) == 1 else tuple([contents[i] for i in here])
    key = (game.serial, loc, held, world.open & room.reach[loc], food, world.variant, *inside)
    found = _KNOWN.get(key)
    if found is None:
        if len(_KNOWN) >= _MAX_KNOWN:
            _KNOWN.clear()
        found = _KNOWN[key] = work_out(world, food)
    return found


def work_out(world: World, food: int) -> tuple[str, ...]:
    """Return what `admissible` returns, without looking at earlier lists.

    The verbs come in alphabetical order ("put", of the older wording, stands where it sorts), so that only the
    commands of one verb need sorting.

    Args:
        world: the state.
        food: objects that the knife in hand can slice, 0 without a knife.
    """
    game, contents, loc = world.game, world.contents, world.loc
    stand = game.room.stand(loc, world.open, world.arrive_at_shared)
    lamps = 0
    if game.toggleable:
        for i in game.room.local[loc]:
            lamps |= contents[i] & game.toggleable
    uses = tuple(sorted(["use " + name for name in game.names(lamps)])) if lamps else ()
    if world.held >= 0 or world.examine_visible:
        return _with_objects(world, stand, uses, food)
    return stand.everything + _takes(world, stand) + uses


def _takes(world: World, stand: Stand) -> tuple[str, ...]:
    """The sorted `take` commands of an empty hand."""
    game, commands = world.game, []
    for i in stand.accessible:
        objects = world.contents[i] & game.pickupable
        if objects:
            tail = " from " + game.receptacles[i]
            commands += ["take " + name + tail for name in game.names(objects)]
    commands.sort()
    return tuple(commands)


def _with_objects(world: World, stand: Stand, uses: tuple[str, ...], food: int) -> tuple[str, ...]:
    """Something is in hand, or objects in sight can be examined."""
    game, held, contents, names = world.game, world.held, world.contents, world.game.receptacles
    examines = [*stand.examines]
    if world.examine_visible:
        visible = 0
        for i in stand.accessible:
            visible |= contents[i]
        if held >= 0:
            visible &= ~(1 << held)
        examines += ["examine " + name for name in game.names(visible)]
    if held < 0:
        takes = _takes(world, stand)
        examines.sort()
        return (*stand.closes, *examines, *stand.routes, *stand.always, *stand.opens, *takes, *uses)
    item, bit = game.objects[held], 1 << held
    examines.append("examine " + item)
    examines.sort()
    reach = game.room.reach[world.loc]
    cleans = [f"clean {item} with {names[i]}" for i in bits(game.sinks & reach)] if game.cleanable & bit else []
    heats = [f"heat {item} with {names[i]}" for i in bits(game.microwaves & reach)] if game.heatable & bit else []
    cools = [f"cool {item} with {names[i]}" for i in bits(game.fridges & reach)] if game.coolable & bit else []
    slices = [f"slice {name} with {item}" for name in game.names(food)]
    pattern = f"move {item} to " if game.dialect == "move" else f"put {item} in/on "
    puts = [pattern + names[i] for i in stand.accessible if game.fits[i] & bit]
    for commands in (cleans, heats, cools, slices, puts):
        if len(commands) > 1:
            commands.sort()
    first, second = (puts, stand.opens) if game.dialect == "move" else (stand.opens, puts)
    return (
        *cleans, *stand.closes, *cools, *examines, *stand.routes, *heats, *stand.always, *first, *second, *slices,
        *uses,
    )  # fmt: skip
