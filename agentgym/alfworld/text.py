"""The texts of the household, equal to the original engine's to the character, and the exact state in words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from agentgym.alfworld.game import Game, Room, bits
from agentgym.outside.text import tables_beside

if TYPE_CHECKING:
    from agentgym.alfworld.rules import World

#: Instructions, task sentences, repairs and the answer to `help`.
TEXTS = tables_beside(__file__, "texts.toml")
NOTHING_HAPPENS = "Nothing happens."
LOOK_AT_START = "You are in the middle of a room. Looking quickly around you, you see nothing."


def with_articles(names: Sequence[str]) -> str:
    """List names with the article, which is always "a"."""
    if len(names) > 1:
        return f"a {', a '.join(names[:-1])}, and a {names[-1]}"
    return "a " + names[0] if names else "nothing"


def introduction(game: Game) -> str:
    """Return the observation of a reset."""
    return (
        "-= Welcome to TextWorld, ALFRED! =-\n\n"
        f"{view(game.room)}\n\n"
        f"Your task is to: {game.task}."
    )  # fmt: skip


@lru_cache(maxsize=1024)
def view(room: Room) -> str:
    """Return the sentence that lists all receptacles."""
    seen = with_articles(room.receptacles)
    return f"You are in the middle of a room. Looking quickly around you, you see {seen}."


def inside(state: World, receptacle: int) -> str:
    """Describe a receptacle that is open, or has no door."""
    game, contents = state.game, state.contents[receptacle]
    if contents != game.contents[receptacle]:
        return _inside(game, receptacle, contents)
    texts = state.memory.texts
    text = texts[receptacle]
    if text is None:
        text = texts[receptacle] = _inside(game, receptacle, contents)
    return text


def _inside(game: Game, receptacle: int, contents: int) -> str:
    name, objects = game.receptacles[receptacle], with_articles(game.names(contents))
    is_open = game.openable >> receptacle & 1
    return f"The {name} is open. In it, you see {objects}." if is_open else f"On the {name}, you see {objects}."


def surroundings(state: World) -> str:
    """Return the text of `look`; the floor lists an object once per receptacle here from which it was taken."""
    game = state.game
    here = game.room.local[state.loc]
    if not here:
        return LOOK_AT_START
    floor = []
    for i in bits(state.seen_from[state.loc]):
        floor += [game.objects[i] for receptacle in here if state.taken[receptacle] >> i & 1]
    return f"You are facing the {game.room.facing[state.loc]}. Next to it, you see {with_articles(floor)}."


def closer_look(state: World, item: int) -> str:
    """Return the text of `examine` for an object."""
    game = state.game
    name = game.objects[item]
    if game.vessels >> item & 1:
        held = dict(game.inner).get(item, 0)
        return f"This is a normal {name}. In it, you see {with_articles(game.names(held))}."
    clean, hot, cool = state.clean >> item & 1, state.hot >> item & 1, state.cool >> item & 1
    # as in the original's order of tests: "hot" hides "cool" unless the object is clean and cool
    words = "hot" if hot else "cool" if cool else ""
    if clean:
        words = f"{words} and clean" if words else "clean"
    if state.sliced >> item & 1 and words:
        return f"This is a {words} sliced {name}."
    if words:
        return f"This is a {'cold' if words == 'cool' else words} {name}."
    if game.toggleable >> item & 1:
        return f"This {name} is {'on' if state.toggled >> item & 1 else 'off'}."
    if state.sliced >> item & 1 and game.sliceable >> item & 1:
        return f"This is a sliced {name}."
    return f"There's nothing special about {name}."


def carried(state: World) -> str:
    """Return the object in hand with the papers' marks, "apple 1 (cleaned) (heated)"; "nothing" for empty hands."""
    if state.held < 0:
        return "nothing"
    bit = 1 << state.held
    marks = (("cleaned", state.clean), ("heated", state.hot), ("cooled", state.cool))
    return state.game.objects[state.held] + "".join([f" ({mark})" for mark, objects in marks if objects & bit])


def condition(state: World) -> str:
    """Return the exact state without the location as text.

    It lists the differences from the start: `+x` is in the receptacle, `-x` was there at the start and was taken, `=x`
    was there and vanished (only with the repair "ghosts"), `~x` was put there and taken again, `!x`: the data places it
    there and that does not follow from the rest.
    """
    game = state.game
    parts = ["carrying " + game.objects[state.held]] if state.held >= 0 else []
    if state.open:
        parts.append("open: " + ", ".join([game.receptacles[i] for i in bits(state.open)]))
    for word, objects in (
        ("clean", state.clean),
        ("hot", state.hot),
        ("cool", state.cool ^ game.cool),
        ("on", state.toggled),
        ("sliced", state.sliced),
    ):
        if objects:
            parts.append(f"{word}: " + ", ".join(game.names(objects)))
    if state.touched:
        parts += _placement(state)
    return "; ".join(parts)


def _placement(state: World) -> list[str]:
    game = state.game
    parts = []
    expected = list(game.seen_from)
    for receptacle in bits(state.touched):
        first, now, gone = game.contents[receptacle], state.contents[receptacle], state.taken[receptacle]
        if now == first and not gone:
            continue
        marks = ["+" + name for name in game.names(now & ~first)]
        marks += ["-" + name for name in game.names(first & gone)]
        marks += ["=" + name for name in game.names(first & ~now & ~gone)]
        marks += ["~" + name for name in game.names(gone & ~first)]
        parts.append(f"{game.receptacles[receptacle]}: {', '.join(marks)}")
        place = game.places[receptacle]
        expected[place] = expected[place] & ~(gone | first & ~now) | (now & ~first)
    if expected != state.seen_from:
        for place, seen in enumerate(state.seen_from):
            if seen != expected[place]:
                names = ["!" + name for name in game.names(seen ^ expected[place])]
                parts.append(f"seen from {game.room.facing[place]}: {', '.join(names)}")
    return parts
