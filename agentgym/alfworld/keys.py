"""The exact state as text, and the parts of it that observations hide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym.alfworld.game import bits

if TYPE_CHECKING:
    from agentgym.alfworld.rules import World


def carried(world: World) -> str:
    """Return what is in the hand, with a mark for each condition, or "nothing".

    The marks are those of the papers' keys: "apple 1 (cleaned) (heated)".
    """
    if world.held < 0:
        return "nothing"
    bit = 1 << world.held
    text = world.game.objects[world.held]
    if world.clean & bit:
        text += " (cleaned)"
    if world.hot & bit:
        text += " (heated)"
    if world.cool & bit:
        text += " (cooled)"
    return text


def condition(world: World) -> str:
    """Return everything about a state but the location, as text; two states have the same text only if they are equal.

    Written down is what differs from the beginning of the game: `+x` lies in the receptacle, `-x` was there at first
    and was taken, `=x` was there at first and vanished (only under the repair "ghosts"), `~x` was put there and taken
    again. Where the data places objects follows from these, except in rare cases, which are written out as `!x`.
    """
    game = world.game
    parts = ["carrying " + game.objects[world.held]] if world.held >= 0 else []
    if world.open:
        parts.append("open: " + ", ".join([game.receptacles[i] for i in bits(world.open)]))
    for word, objects in (
        ("clean", world.clean),
        ("hot", world.hot),
        ("cool", world.cool ^ game.cool),
        ("on", world.toggled),
        ("sliced", world.sliced),
    ):
        if objects:
            parts.append(f"{word}: " + ", ".join(game.names(objects)))
    if tuple(world.contents) != game.contents or tuple(world.seen_from) != game.seen_from or any(world.taken):
        parts += _placement(world)
    return "; ".join(parts)


def _placement(world: World) -> list[str]:
    """Say where objects are, for each receptacle and location that is not as at the beginning."""
    game = world.game
    parts = []
    expected = list(game.seen_from)
    for receptacle, (first, now, gone) in enumerate(zip(game.contents, world.contents, world.taken, strict=True)):
        if now == first and not gone:
            continue
        marks = ["+" + name for name in game.names(now & ~first)]
        marks += ["-" + name for name in game.names(first & gone)]
        marks += ["=" + name for name in game.names(first & ~now & ~gone)]
        marks += ["~" + name for name in game.names(gone & ~first)]
        parts.append(f"{game.receptacles[receptacle]}: {', '.join(marks)}")
        place = game.places[receptacle]
        expected[place] = expected[place] & ~(gone | first & ~now) | (now & ~first)
    if expected != world.seen_from:
        for place, seen in enumerate(world.seen_from):
            if seen != expected[place]:
                names = ["!" + name for name in game.names(seen ^ expected[place])]
                parts.append(f"seen from {game.room.facing[place]}: {', '.join(names)}")
    return parts
