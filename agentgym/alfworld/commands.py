"""The commands that can be done now, sorted as strings."""

from __future__ import annotations

from sys import intern
from typing import TYPE_CHECKING

from agentgym.alfworld.game import Game, bits
from agentgym.alfworld.views import view

if TYPE_CHECKING:
    from agentgym.alfworld.world import World

_ALWAYS = {"move": ("help", "inventory", "look"), "put": ("inventory", "look")}


def admissible(world: World) -> tuple[str, ...]:
    """Return every command that can be done in this state.

    The verbs come in alphabetical order ("put", of the older wording, stands where it sorts), so that only the
    commands of one verb need sorting.
    """
    game, held, is_open = world.game, world.held, world.open
    names = game.receptacles
    here = game.local[world.loc]
    closes: list[str] = []
    opens: list[str] = []
    takes: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    accessible: list[int] = []
    for receptacle in here:
        shown = view(game, receptacle, world.contents[receptacle])
        if game.openable >> receptacle & 1:
            if is_open >> receptacle & 1:
                closes.append("close " + names[receptacle])
                accessible.append(receptacle)
                takes += shown.takes
            else:
                opens.append("open " + names[receptacle])
        else:
            accessible.append(receptacle)
            takes += shown.takes
        uses += shown.uses
    examines = ["examine " + names[receptacle] for receptacle in here]
    if world.examine_visible:
        visible = 0
        for receptacle in accessible:
            visible |= world.contents[receptacle]
        examines += ["examine " + game.objects[item] for item in bits(visible) if item != held]
    shared = len(here) > 1
    if shared:
        closes.sort()
        opens.sort()
        uses = tuple(sorted(set(uses)))
    always = _ALWAYS[game.dialect]
    routes = roads(game, world.loc, shared and world.arrive_at_shared)
    if held < 0:
        if len(examines) > 1:
            examines.sort()
        if shared:
            takes = tuple(sorted(takes))
        return (*closes, *examines, *routes, *always, *opens, *takes, *uses)
    item = game.objects[held]
    bit = 1 << held
    examines.append("examine " + item)
    examines.sort()
    cleans = [f"clean {item} with {names[i]}" for i in here if game.sinks >> i & 1] if game.cleanable & bit else []
    heats = [f"heat {item} with {names[i]}" for i in here if game.microwaves >> i & 1] if game.heatable & bit else []
    cools = [f"cool {item} with {names[i]}" for i in here if game.fridges >> i & 1] if game.coolable & bit else []
    slices: list[str] = []
    if game.knives & bit:
        food = game.sliceable & world.seen_from[world.loc]
        slices = [f"slice {game.objects[other]} with {item}" for other in bits(food)]
    fitting = [names[i] for i in accessible if game.fits[i] & bit]
    if shared:
        fitting.sort()
        cleans.sort()
        heats.sort()
        cools.sort()
    if len(slices) > 1:
        slices.sort()
    if game.dialect == "move":
        moves = [f"move {item} to {name}" for name in fitting]
        return (*cleans, *closes, *cools, *examines, *routes, *heats, *always, *moves, *opens, *slices, *uses)
    puts = [f"put {item} in/on {name}" for name in fitting]
    return (*cleans, *closes, *cools, *examines, *routes, *heats, *always, *opens, *puts, *slices, *uses)


def roads(game: Game, loc: int, with_local: bool) -> tuple[str, ...]:
    """Return the sorted `go to` commands at a location, kept by the game.

    Args:
        game: the game.
        loc: location of the agent.
        with_local: go to the receptacles of this location too (a repair).
    """
    key = -1 - loc if with_local else loc
    found = game.roads.get(key)
    if found is None:
        reached = [
            name for name, place in zip(game.receptacles, game.places, strict=True) if with_local or place != loc
        ]
        found = game.roads[key] = tuple(sorted([intern("go to " + name) for name in reached]))
    return found
