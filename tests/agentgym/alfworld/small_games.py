"""Games small enough to search completely, and that search."""

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from agentgym.alfworld import things
from agentgym.alfworld.game import CLEAN, COOL, HEAT, LOOK, PICK, TASK_TYPES, TWO, Game, mask, numbered
from agentgym.alfworld.rules import World

#: Commands that change nothing a goal looks at.
IDLE = ("look", "inventory", "help", "examine", "slice")
_TREATS = {CLEAN: ("sinkbasin", "mug"), HEAT: ("microwave", "mug"), COOL: ("fridge", "mug")}


def flag(kinds: Sequence[str], names: frozenset[str]) -> int:
    lower = {name.lower() for name in names}
    return mask(i for i, kind in enumerate(kinds) if kind in lower)


def fits(receptacle_types: Sequence[str], object_types: Sequence[str]) -> tuple[int, ...]:
    """Per receptacle, the objects that it accepts by the table of the official games."""
    accepted = [things.ACCEPTED.get(kind, frozenset()) for kind in receptacle_types]
    return tuple(mask(i for i, kind in enumerate(object_types) if kind in some) for some in accepted)


def small_game(
    task_type: str,
    goal: tuple[str, str],
    receptacles: Sequence[tuple[str, int, bool]],
    objects: Sequence[tuple[str, Sequence[int]]],
    cool: int = 0,
    **changes: Any,
) -> Game:
    """A game from little.

    Args:
        task_type: one of the six.
        goal: type of the object, type of the receptacle (or lamp).
        receptacles: (type, location, can be opened), sorted by type.
        objects: (type, receptacles that list it), sorted by type.
        cool: objects that are cool at the start.
        **changes: fields of `Game` to set otherwise.
    """
    rooms = [kind for kind, _, _ in receptacles]
    kinds = [kind for kind, _ in objects]
    locations = 1 + max(place for _, place, _ in receptacles)
    contents = [mask(i for i, (_, where) in enumerate(objects) if r in where) for r in range(len(rooms))]
    seen = [0] * (locations + 1)
    for content, (_, place, _) in zip(contents, receptacles, strict=True):
        seen[place] |= content
    flags = {
        "cleanable": flag(kinds, things.CLEANABLE),
        "heatable": flag(kinds, things.HEATABLE),
        "coolable": flag(kinds, things.COOLABLE),
    }
    needed = {CLEAN: "cleanable", HEAT: "heatable", COOL: "coolable"}.get(task_type)
    wanted = mask(i for i, kind in enumerate(kinds) if kind == goal[0]) & (flags[needed] if needed else -1)
    fields: dict[str, Any] = {
        "task_id": "small/trial",
        "task_type": task_type,
        "task": f"{task_type} {goal[0]} {goal[1]}",
        "dialect": "move",
        "receptacles": numbered(rooms),
        "receptacle_types": tuple(rooms),
        "places": tuple(place for _, place, _ in receptacles),
        "locations": numbered(["loc"] * (locations + 1)),
        "start": locations,
        "openable": mask(i for i, (_, _, opens) in enumerate(receptacles) if opens),
        "objects": numbered(kinds),
        "object_types": tuple(kinds),
        "pickupable": flag(kinds, things.PICKUPABLE),
        "toggleable": flag(kinds, things.TOGGLEABLE),
        "sliceable": flag(kinds, things.SLICEABLE),
        "vessels": flag(kinds, things.VESSELS),
        "cool": cool,
        "contents": tuple(contents),
        "seen_from": tuple(seen),
        "inner": (),
        "goal_objects": wanted,
        "goal_receptacles": () if task_type == LOOK else tuple(i for i, kind in enumerate(rooms) if kind == goal[1]),
        "goal_lamps": mask(i for i, kind in enumerate(kinds) if kind == goal[1]) if task_type == LOOK else 0,
        "walkthrough": (),
        "fits": fits(rooms, kinds),
        **flags,
    }
    return Game(**fields | changes)


def random_game(rng: np.random.Generator, task_type: str | None = None, size: int = 3) -> Game:
    """A random game: shared locations, objects in two places, objects that fit nowhere, lamps, all mixed."""
    task_type = task_type or TASK_TYPES[rng.integers(6)]
    machine, kind = _TREATS.get(task_type, ("", "mug"))
    target = str(rng.choice(["cabinet", "countertop", "coffeemachine", "sidetable"]))
    rooms = [target, *([machine] if machine else [])]
    rooms += [
        str(x) for x in rng.choice(["cabinet", "countertop", "microwave", "shelf", target], max(0, size - len(rooms)))
    ]
    rooms = sorted(rooms)
    places = rng.permutation(rng.integers(0, max(2, size), len(rooms)))
    opens = [name in ("microwave", "fridge") or (name == "cabinet" and rng.random() < 0.7) for name in rooms]
    kinds = [kind] * (2 if task_type == TWO else 1)
    if task_type == LOOK:
        kinds += ["desklamp"] * int(rng.integers(1, 3))
    kinds += [
        str(x) for x in rng.choice([kind, "mug", "knife", "teddybear"], 3 - min(3, len(kinds)) if size > 2 else 1)
    ]
    kinds = sorted(kinds)
    where = [
        sorted({int(r) for r in rng.integers(0, len(rooms), 2 if rng.random() < 0.3 and name != "desklamp" else 1)})
        for name in kinds
    ]
    goal = (kind, "desklamp" if task_type == LOOK else target)
    cool = int(rng.integers(1 << len(kinds))) if task_type in (HEAT, PICK) else 0
    return small_game(
        task_type,
        goal,
        list(zip(rooms, map(int, places), opens, strict=True)),
        list(zip(kinds, where, strict=True)),
        cool,
    )


def key(world: World) -> tuple[Any, ...]:
    """What goals and commands (but for `IDLE` ones) depend on."""
    return (
        world.loc, world.held, world.open, world.clean, world.hot, world.cool, world.toggled, tuple(world.contents),
    )  # fmt: skip


class Search:
    """All states that can be reached before the goal, each with its number of commands to the goal.

    Attributes:
        states: a full state for every key.
        next: per key, (command, key after it).
        distance: per key, None where the goal cannot be reached.
    """

    def __init__(self, game: Game, repairs: Sequence[str] = (), verbs: Sequence[str] = (), limit: int = 10**9) -> None:
        world = World(game, repairs)
        start = key(world)
        self.states = {start: world.get_state()}
        self.next: dict[Any, list[tuple[str, Any]]] = {}
        before: dict[Any, list[Any]] = {start: []}
        won = []
        queue = deque([start])
        while queue and len(self.states) <= limit:
            here = queue.popleft()
            world.set_state(self.states[here])
            self.next[here] = []
            if world.won:
                won.append(here)
                continue
            for command in world.admissible():
                verb = command.split()[0]
                if verb in IDLE or (verbs and verb not in verbs):
                    continue
                world.set_state(self.states[here])
                assert world.step(command).valid
                after = key(world)
                if after not in self.states:
                    self.states[after] = world.get_state()
                    before[after] = []
                    queue.append(after)
                self.next[here].append((command, after))
                before[after].append(here)
        self.complete = not queue
        self.distance: dict[Any, int | None] = dict.fromkeys(self.states)
        frontier = deque(won)
        self.distance.update(dict.fromkeys(won, 0))
        while frontier:
            here = frontier.popleft()
            for earlier in before[here]:
                if self.distance[earlier] is None:
                    self.distance[earlier] = (self.distance[here] or 0) + 1
                    frontier.append(earlier)

    def best(self, here: Any) -> tuple[str, ...]:
        """All commands that start a shortest way, sorted."""
        length = self.distance[here]
        if not length:
            return ()
        return tuple(sorted(command for command, after in self.next[here] if self.distance[after] == length - 1))
