"""A game as a few hundred bytes and back, for the import cache."""

from __future__ import annotations

import json
import zlib
from sys import intern
from typing import Any

from agentgym.alfworld.game import DIALECTS, TASK_TYPES, Game

#: Names of the `Game` fields that are written down as they are.
_PLAIN = (
    "task_id", "task", "places", "start", "openable", "pickupable", "cleanable", "heatable", "coolable", "toggleable",
    "sliceable", "vessels", "cool", "contents", "seen_from", "inner", "goal_objects", "goal_receptacles", "goal_lamps",
    "walkthrough",
)  # fmt: skip
_TUPLES = ("places", "contents", "seen_from", "goal_receptacles")


def pack(game: Game) -> bytes:
    """Return a game as compressed bytes; `unpack` gives it back."""
    record: list[Any] = [getattr(game, name) for name in _PLAIN]
    record += [TASK_TYPES.index(game.task_type), DIALECTS.index(game.dialect)]
    for names in (game.receptacles, game.objects, game.locations):
        record.append("\n".join(names))
    for names, kinds in ((game.receptacles, game.receptacle_types), (game.objects, game.object_types)):
        record.append("" if kinds == _bases(names) else "\n".join(kinds))
    record.append(dict(zip(game.receptacle_types, game.fits, strict=True)))
    return zlib.compress(json.dumps(record, separators=(",", ":")).encode(), 9)


def unpack(data: bytes) -> Game:
    """Return the game that `pack` wrote.

    Raises:
        ValueError: when the bytes are not a packed game.
    """
    try:
        record = json.loads(zlib.decompress(data))
    except (zlib.error, ValueError) as error:
        raise ValueError(f"not a packed game: {error}") from error
    plain = dict(zip(_PLAIN, record, strict=False))
    for name in _TUPLES:
        plain[name] = tuple(plain[name])
    plain["inner"] = tuple([(vessel, objects) for vessel, objects in plain["inner"]])
    plain["walkthrough"] = tuple(map(intern, plain["walkthrough"]))
    task_type, dialect, receptacles, objects, locations, receptacle_types, object_types, fit = record[len(_PLAIN) :]
    names, things = _split(receptacles), _split(objects)
    kinds = _split(receptacle_types) or _bases(names)
    types = _split(object_types) or _bases(things)
    return Game(
        **plain,
        receptacles=names,
        objects=things,
        locations=_split(locations),
        task_type=TASK_TYPES[task_type],
        dialect=DIALECTS[dialect],
        receptacle_types=kinds,
        object_types=types,
        fits=tuple([fit[kind] for kind in kinds]),
    )


def _split(names: str) -> tuple[str, ...]:
    return tuple(map(intern, names.split("\n"))) if names else ()


class _Types(dict[str, str]):
    """Name without its number, worked out once for each name."""

    def __missing__(self, name: str) -> str:
        kind = self[name] = intern(name.partition(" ")[0])
        return kind


_TYPES = _Types()


def _bases(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names without their numbers; types of official games are just that."""
    return tuple([_TYPES[name] for name in names])
