"""The commands that can be done now, sorted as strings."""

from __future__ import annotations

from agentgym.alfworld.game import Stand, bits
from agentgym.alfworld.state import State

#: Lists worked out before, of all games of the process; emptied when full (some 12 MB).
_KNOWN: dict[tuple[int, ...], tuple[str, ...]] = {}
_MAX_KNOWN = 1 << 14


def admissible(state: State) -> tuple[str, ...]:
    """Return every command that can be done in this state, sorted as strings.

    It depends on the location, on what is open and what lies there, and on the object in hand: states that agree in
    these share one list.
    """
    game, loc, held, contents = state.game, state.loc, state.held, state.contents
    room = game.room
    food = game.sliceable & state.seen_from[loc] if held >= 0 and game.knives >> held & 1 else 0
    here = room.local[loc]
    inside = (contents[here[0]],) if len(here) == 1 else tuple([contents[i] for i in here])
    key = (game.serial, loc, held, state.open & room.reach[loc], food, state.variant, *inside)
    found = _KNOWN.get(key)
    if found is None:
        if len(_KNOWN) >= _MAX_KNOWN:
            _KNOWN.clear()
        found = _KNOWN[key] = work_out(state, food)
    return found


def work_out(state: State, food: int) -> tuple[str, ...]:
    """Return what `admissible` returns, without looking at earlier lists.

    The verbs come in alphabetical order ("put", of the older wording, stands where it sorts), so that only the
    commands of one verb need sorting.

    Args:
        state: the state.
        food: objects that the knife in hand can slice, 0 without a knife.
    """
    game, contents, loc = state.game, state.contents, state.loc
    stand = game.room.stand(loc, state.open, state.arrive_at_shared)
    lamps = 0
    if game.toggleable:
        for i in game.room.local[loc]:
            lamps |= contents[i] & game.toggleable
    uses = tuple(sorted(["use " + name for name in game.names(lamps)])) if lamps else ()
    if state.held >= 0 or state.examine_visible:
        return _with_objects(state, stand, uses, food)
    return stand.everything + _takes(state, stand) + uses


def _takes(state: State, stand: Stand) -> tuple[str, ...]:
    """The sorted `take` commands of an empty hand."""
    game, commands = state.game, []
    for i in stand.accessible:
        objects = state.contents[i] & game.pickupable
        if objects:
            tail = " from " + game.receptacles[i]
            commands += ["take " + name + tail for name in game.names(objects)]
    commands.sort()
    return tuple(commands)


def _with_objects(state: State, stand: Stand, uses: tuple[str, ...], food: int) -> tuple[str, ...]:
    """Something is in hand, or objects in sight can be examined."""
    game, held, contents, names = state.game, state.held, state.contents, state.game.receptacles
    examines = [*stand.examines]
    if state.examine_visible:
        visible = 0
        for i in stand.accessible:
            visible |= contents[i]
        if held >= 0:
            visible &= ~(1 << held)
        examines += ["examine " + name for name in game.names(visible)]
    if held < 0:
        takes = _takes(state, stand)
        examines.sort()
        return (*stand.closes, *examines, *stand.routes, *stand.always, *stand.opens, *takes, *uses)
    item, bit = game.objects[held], 1 << held
    examines.append("examine " + item)
    examines.sort()
    reach = game.room.reach[state.loc]
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
