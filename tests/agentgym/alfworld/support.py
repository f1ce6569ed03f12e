"""Games small enough to search completely, given games to play, game files in the official form, the official games."""

import json
import lzma
import tarfile
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.alfworld import things
from agentgym.alfworld.env import ALFWorldEnv, ALFWorldVectorEnv
from agentgym.alfworld.game import CLEAN, COOL, HEAT, LOOK, PICK, TASK_TYPES, TWO, Game, mask, numbered
from agentgym.alfworld.official.problem import read_game
from agentgym.alfworld.rules import World
from tests.oracles import oracle

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
        name: flag(kinds, getattr(things, name.upper()))
        for name in ("pickupable", "cleanable", "heatable", "coolable", "toggleable", "sliceable", "vessels")
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


def play(world: World, *commands: str) -> World:
    """Play commands that can be done."""
    for command in commands:
        assert world.step(command).valid, command
    return world


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


class GivenGames:
    """Some games as the only split, "train"."""

    name = "the given games"
    splits = ("train",)
    first = "train"

    def __init__(self, games: Iterable[Game]) -> None:
        self._games = {game.task_id: game for game in games}

    def dialect(self, split: str) -> str:
        return next(iter(self._games.values())).dialect

    def count(self, split: str) -> int:
        return len(self._games)

    def by_index(self, split: str, index: int) -> Game:
        return [*self._games.values()][index]

    def by_id(self, task_id: str, split: str | None) -> Game:
        return self._games[task_id]


def env_of(*games: Game, **options: Any) -> ALFWorldEnv:
    """An environment that plays these games."""
    env = ALFWorldEnv(data="generated", **options)
    env.tasks = GivenGames(games)
    return env


def envs_of(count: int, games: Iterable[Game], **options: Any) -> ALFWorldVectorEnv:
    """A vector environment that plays these games."""
    envs = ALFWorldVectorEnv(count, data="generated", **options)
    tasks = GivenGames(games)
    for env in envs.envs:
        assert isinstance(env, ALFWorldEnv)
        env.tasks = tasks
    return envs


GRAMMAR = r'''grammar :: """
    {
        "intro": [ { "rhs": "-= Welcome to TextWorld, ALFRED! =-\n\n#look.feedback#\n\n#task#" } ],
        "task": [ { "rhs": "Your task is to: TASK." } ],
        "GotoLocation.feedback": [ { "rhs": "You arrive at {ARRIVAL.name}. #examineReceptacle.feedback#" } ],
        "OpenObject.feedback": [ { "rhs": "You open the {r.name}. #examineReceptacle.feedback#" } ],
        "CloseObject.feedback": [ { "rhs": "You close the {r.name}." } ],
        "PickupObject.feedback": [ { "rhs": "You pick up the {o.name} from the {r.name}." } ],
        "PutObject.feedback": [ { "rhs": "PUT" } ],
        "inventory.feedback": [
            { "rhs": "You are carrying: [{o.indefinite + ' ' + o.name | holds(a:agent, o:object)}]." },
            { "rhs": "You are not carrying anything." }
        ],
        "examineObject.feedback": [
            { "rhs": "This is a normal {o.name}. In it, you see [{o2.indefinite + ' ' + o2.name}]." },
            { "rhs": "There's nothing special about {o.name}." }
        ]
    }
""";
action PutObject { template :: "TEMPLATE"; }
"You turn on the {o.name}." "You heat the {o.name} using the {r.name}." "You clean the {o.name} using the {r.name}."
"You cool the {o.name} using the {r.name}." "You sliced the {co.name} with the {ko.name}."
"#look-variations#. Next to it, you see #list_objects_on_the_floor#."
'''
HELP = r"""
action help {
    template :: "help";
    feedback :: "
Available commands:
  look:                             look around your current location
  move (object) to (receptacle):  place an object in or on a receptacle
";
}
"""
PROBLEM = """
(define (problem plan_trial)
(:domain alfred)
(:objects
agent1 - agent
Apple - object
)
(:init
        (receptacleType Drawer_bar__plus_01 DrawerType)
        (receptacleType Drawer_bar__minus_02 DrawerType)
        (receptacleType Sink_bar_3_bar_SinkBasin SinkBasinType)
        (receptacleAtLocation Drawer_bar__plus_01 loc_bar_5)
        (receptacleAtLocation Drawer_bar__minus_02 loc_bar_5)
        (receptacleAtLocation Sink_bar_3_bar_SinkBasin loc_bar_2)
        (openable Drawer_bar__plus_01)
        (openable Drawer_bar__minus_02)
        (objectType Sink_bar_3 SinkType)
        (objectType Mug_bar_1 MugType)
        (objectType Mug_bar_2 MugType)
        (objectType Spoon_bar_1 SpoonType)
        (objectType Knife_bar_1 KnifeType)
        (objectType Egg_bar_7 EggType)
        (isReceptacleObject Mug_bar_1)
        (isReceptacleObject Mug_bar_2)
        (inReceptacleObject Spoon_bar_1 Mug_bar_1)
        (inReceptacle Mug_bar_1 Sink_bar_3_bar_SinkBasin)
        (inReceptacle Mug_bar_2 Drawer_bar__plus_01)
        (inReceptacle Mug_bar_2 Drawer_bar__minus_02)
        (inReceptacle Knife_bar_1 Drawer_bar__minus_02)
        (objectAtLocation Mug_bar_1 loc_bar_2)
        (objectAtLocation Egg_bar_7 loc_bar_9)
        (canContain SinkBasinType MugType)
        (canContain SinkBasinType MugType)
        (canContain DrawerType KnifeType)
        (canContain CabinetType EggType)
        (pickupable Mug_bar_1)
        (pickupable Mug_bar_2)
        (pickupable Knife_bar_1)
        (cleanable Mug_bar_1)
        (coolable Mug_bar_2)
        (sliceable Egg_bar_7)
        (isCool Mug_bar_2)
        (atLocation agent1 loc_bar_11)
        )
(:goal GOAL)
)
"""
GOALS = {
    "pick_and_place_simple": """(and (exists (?r - receptacle) (exists (?o - object) (and
        (inReceptacle ?o ?r) (objectType ?o MugType) (receptacleType ?r DrawerType)))))""",
    "look_at_obj_in_light": """(and
        (exists (?ot - object ?r - receptacle ?a - agent ?l - location) (and
            (objectType ?ot DeskLampType) (toggleable ?ot) (isToggled ?ot) (receptacleAtLocation ?r ?l)
            (atLocation ?a ?l) (inReceptacle ?ot ?r)))
        (exists (?o - object ?a - agent) (and (objectType ?o MugType) (holds ?a ?o))))""",
    "pick_clean_then_place_in_recep": """(and (exists (?r - receptacle) (exists (?o - object) (and
        (cleanable ?o) (objectType ?o MugType) (receptacleType ?r DrawerType) (isClean ?o) (inReceptacle ?o ?r)))))""",
    "pick_heat_then_place_in_recep": """(and (exists (?r - receptacle) (exists (?o - object) (and
        (heatable ?o) (objectType ?o MugType) (receptacleType ?r DrawerType) (isHot ?o) (inReceptacle ?o ?r)))))""",
    "pick_cool_then_place_in_recep": """(and (exists (?r - receptacle) (exists (?o - object) (and
        (coolable ?o) (objectType ?o MugType) (receptacleType ?r DrawerType) (isCool ?o) (inReceptacle ?o ?r)))))""",
    "pick_two_obj_and_place": """(and (exists (?r - receptacle) (exists (?o1 - object) (and
        (objectType ?o1 MugType) (receptacleType ?r DrawerType) (inReceptacle ?o1 ?r)
        (exists (?o2 - object) (and (not (= ?o1 ?o2)) (objectType ?o2 MugType) (receptacleType ?r DrawerType)
            (inReceptacle ?o2 ?r)))))))""",
}


def grammar(task: str = "put a mug in drawer", *, old: bool = False) -> str:
    """The texts of a game, in the newer or older wording."""
    words = {
        "TASK": task,
        "ARRIVAL": "lend" if old else "r",
        "PUT": "You put the {o.name} in/on the {r.name}." if old else "You move the {o.name} to the {r.name}.",
        "TEMPLATE": "put {o} in/on {r}" if old else "move {o} to {r}",
    }
    result = GRAMMAR if old else GRAMMAR + HELP
    for word, replacement in words.items():
        result = result.replace(word, replacement)
    return result


def content(task_type: str = "pick_and_place_simple", *, old: bool = False, **changes: Any) -> dict[str, Any]:
    """What a `game.tw-pddl` holds; keys set to None are left out."""
    data: dict[str, Any] = {
        "pddl_domain": "(define (domain alfred))",
        "grammar": grammar(old=old),
        "pddl_problem": PROBLEM.replace("GOAL", GOALS[task_type]),
        "solvable": True,
    }
    data |= {} if old else {"walkthrough": ["go to drawer 1", "look"]}
    return {key: value for key, value in (data | changes).items() if value is not None}


def write_trial(
    split: Path, task_id: str, task_type: str = "pick_and_place_simple", *, game: object = ..., trajectory: object = ...
) -> Path:
    """Write a trial folder; `game` and `trajectory` are contents, texts that are no JSON, or None for no file."""
    folder = split / task_id
    folder.mkdir(parents=True)
    written = {
        "game.tw-pddl": content(task_type) if game is ... else game,
        "traj_data.json": {"scene": {}, "task_type": task_type} if trajectory is ... else trajectory,
    }
    for name, value in written.items():
        if value is not None:
            text = value if isinstance(value, (str, bytes)) else json.dumps(value)
            (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return folder


_SHORT = ("pick_and_place_simple", "look_at_obj_in_light")


def files(archive: str) -> Iterator[tuple[str, str, str, bytes]]:
    """Yield (split, task_id, file name, content) of every file in an archive; nothing is written to disk."""
    with tarfile.open(oracle("alfworld", f"{archive}.tar.xz"), "r|xz") as members:
        for member in members:
            content = members.extractfile(member) if member.isfile() else None
            if content is not None:
                split, task, trial, name = member.name.split("/")
                yield split, f"{task}/{trial}", name, content.read()


def unpack(place: Path, counts: dict[str, tuple[str, int]]) -> Path:
    """Write the first games of an archive, so many of each split, of the types with the shortest walkthroughs."""
    for split, (archive, count) in counts.items():
        kept: list[str] = []
        for _, task, name, content in files(archive):
            if not task.startswith(_SHORT) or "Sliced" in task or "movable" in task:
                continue
            if task not in kept and len(kept) < count:
                kept.append(task)
            if task in kept:
                file = place / "json_2.1.1" / split / task / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
    return place


@cache
def games(archive: str) -> dict[str, Game]:
    """Games of an archive by task_id, sorted."""
    found = {
        task_id: read_game(json.loads(content), task_id)
        for _, task_id, name, content in files(archive)
        if name == "game.tw-pddl"
    }
    return {task_id: found[task_id] for task_id in sorted(found)}


@cache
def episodes(trace: str) -> list[list[dict[str, Any]]]:
    """Recorded episodes: a "reset" row, then "step" rows."""
    played: list[list[dict[str, Any]]] = []
    with lzma.open(oracle("alfworld", "traces", f"{trace}.jsonl.xz"), "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if row["kind"] == "reset":
                played.append([])
            played[-1].append(row)
    return played


def task_id_of(episode: list[dict[str, Any]]) -> str:
    """The task_id of a recorded episode's game."""
    return "/".join(episode[0]["game"].split("/")[1:3])
