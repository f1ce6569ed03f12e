"""When a game is won: six kinds of goal, looking at the state only, not at who brought it about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym.alfworld.game import CLEAN, COOL, HEAT, LOOK, TWO

if TYPE_CHECKING:
    from agentgym.alfworld.rules import World


def reached(world: World) -> bool:
    """Say whether the goal of the world's game holds now."""
    game, contents = world.game, world.contents
    kind, wanted = game.task_type, game.goal_objects
    if kind == LOOK:
        if world.held < 0 or not wanted >> world.held & 1:
            return False
        lit = game.goal_lamps & world.toggled
        return bool(lit) and any(contents[receptacle] & lit for receptacle in game.local[world.loc])
    if kind == TWO:
        return any((contents[receptacle] & wanted).bit_count() > 1 for receptacle in game.goal_receptacles)
    if kind == CLEAN:
        wanted &= world.clean
    elif kind == HEAT:
        wanted &= world.hot
    elif kind == COOL:
        wanted &= world.cool
    return wanted != 0 and any(contents[receptacle] & wanted for receptacle in game.goal_receptacles)
