"""The commands that can be done now, sorted as strings."""

from __future__ import annotations

from bisect import bisect

from agentgym.alfworld.game import Stand
from agentgym.alfworld.state import State

#: Lists that the memory of one game holds at most; then it is emptied.
_MOST_KNOWN = 128


def admissible(state: State) -> tuple[str, ...]:
    """Return every command that can be done in this state, sorted as strings.

    Where the contents are as at the beginning it is looked up or remembered, unless a knife is in hand.
    """
    game, loc, held = state.game, state.loc, state.held
    if held >= 0 and game.knives >> held & 1:
        return work_out(state, game.sliceable & state.seen_from[loc])
    room = game.room
    if state.touched & room.reach[loc]:
        first, contents = game.contents, state.contents
        for i in room.local[loc]:
            if contents[i] != first[i]:
                return work_out(state, 0)
    known = state.memory.commands
    # one number for all that matters: nothing in hand is -1
    places = len(room.local)
    key = ((state.open & room.reach[loc]) * places + loc) * (len(game.objects) + 1) + held + 1
    found = known.get(key)
    if found is None:
        if len(known) >= _MOST_KNOWN:
            known.clear()
        found = known[key] = work_out(state, 0)
    return found


def work_out(state: State, food: int) -> tuple[str, ...]:
    """Return what `admissible` returns, without the memory of earlier episodes.

    The verbs come in alphabetical order ("put", of the older wording, stands where it sorts), so that only the
    commands of one verb need sorting.

    Args:
        state: the state.
        food: objects that the knife in hand can slice, 0 without a knife.
    """
    game, contents, loc, held = state.game, state.contents, state.loc, state.held
    stand = game.room.stand(loc, state.open, state.arrive_at_shared)
    lamps = 0
    if game.toggleable:
        for i in game.room.local[loc]:
            lamps |= contents[i] & game.toggleable
    uses = sorted(["use " + name for name in game.names(lamps)]) if lamps else ()
    if held < 0:
        if state.examine_visible:
            examines = sorted([*stand.examines, *["examine " + name for name in game.names(_visible(state, stand))]])
            return (*stand.closes, *examines, *stand.onward, *stand.opens, *_takes(state, stand), *uses)
        return stand.everything + tuple(_takes(state, stand)) + tuple(uses)
    item = game.objects[held]
    puts = _puts(state, stand, item)
    if food:
        uses = [*sorted([f"slice {name} with {item}" for name in game.names(food)]), *uses]
    first, last = (puts, stand.opens) if game.dialect == "move" else (stand.opens, puts)
    if stand.machines or state.examine_visible:
        return (*_at_machines(state, stand, item), *first, *last, *uses)
    examine = "examine " + item
    before, after = stand.around[bisect(stand.examines, examine)]
    return (*before, examine, *after, *first, *last, *uses)


def _takes(state: State, stand: Stand) -> list[str]:
    """The sorted `take` commands of an empty hand."""
    game = state.game
    commands: list[str] = []
    for i in stand.accessible:
        objects = state.contents[i] & game.pickupable
        if objects:
            where = " from " + game.receptacles[i]
            commands += ["take " + name + where for name in game.names(objects)]
    if len(commands) > 1:
        commands.sort()
    return commands


def _puts(state: State, stand: Stand, item: str) -> list[str]:
    """The sorted commands that put down what is in hand."""
    game, held = state.game, state.held
    pattern = f"move {item} to " if game.dialect == "move" else f"put {item} in/on "
    return [pattern + game.receptacles[i] for i in stand.accessible if game.fits[i] >> held & 1]


def _at_machines(state: State, stand: Stand, item: str) -> list[str]:
    """What comes before putting something down, where that can be treated, or objects in sight can be examined."""
    game, bit = state.game, 1 << state.held
    examines = [*stand.examines, "examine " + item]
    if state.examine_visible:
        examines += ["examine " + name for name in game.names(_visible(state, stand))]
    examines.sort()
    # what ends in a receptacle's name is sorted as the names are
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


def _visible(state: State, stand: Stand) -> int:
    """Objects in sight that are not in hand."""
    visible = 0
    for i in stand.accessible:
        visible |= state.contents[i]
    return visible & ~(1 << state.held) if state.held >= 0 else visible
