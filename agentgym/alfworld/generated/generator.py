"""Generated games, in the form of official ones, and their collection; a game is a function of its `GameSpec`."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np

from agentgym.alfworld import things
from agentgym.alfworld.expert import Planner
from agentgym.alfworld.game import CLEAN, COOL, DIALECTS, HEAT, LOOK, PICK, TASK_TYPES, TWO, Game, bits, numbered
from agentgym.alfworld.generated import households
from agentgym.alfworld.generated.households import ROOMS, SPLITS, Layout, layouts, seeded, weighted
from agentgym.alfworld.goals import SENTENCES, Goal, parse_goal, split_id, with_goal
from agentgym.alfworld.rules import World
from agentgym.checks import check_name, real, whole
from agentgym.tasks import Draws, OfTypes

LAMP = "desklamp"

_NEEDED = {CLEAN: things.CLEANABLE, HEAT: things.HEATABLE, COOL: things.COOLABLE}
#: Length of a block of games with the proportions of `households.PROPORTIONS`.
BLOCK = sum(households.PROPORTIONS.values())
_TRIES = 8


@dataclass(frozen=True)
class GameSpec:
    """Which game to generate; a value out of range is a ValueError.

    Attributes:
        split: one of `SPLITS`; "valid_unseen" uses layouts that the others do not use.
        seed: each value gives other layouts and games.
        ghosts: probability that an object is also listed in a second receptacle, as in official games.
    """

    split: str
    index: int
    seed: int = 0
    dialect: str = "move"
    ghosts: float = 0.0

    def __post_init__(self) -> None:
        check_name(self.split, SPLITS, "split")
        if self.index < 0 or self.seed < 0:
            raise ValueError(f"index and seed must be at least 0, got index={self.index}, seed={self.seed}")
        check_name(self.dialect, DIALECTS, "dialect")
        real("ghosts", self.ghosts, 0, 1, expected="a probability from 0 to 1")


@lru_cache(maxsize=4096)
def generate(spec: GameSpec) -> Game:
    """Return the game of a spec; games are cached."""
    task_type = schedule(spec.seed, spec.split, spec.index // BLOCK)[spec.index % BLOCK]
    entropy = [spec.seed, list(SPLITS).index(spec.split), spec.index]
    household = _Household(spec, task_type, seeded(entropy))
    game = household.game()
    planner, world = Planner(game), World(game)
    now = planner.situation(world)
    return replace(game, walkthrough=planner.commands(now, planner.best(now)[1]))


@lru_cache(maxsize=4096)
def schedule(seed: int, split: str, block: int) -> tuple[str, ...]:
    """Return the task types of 36 consecutive games, in the proportions of `households.PROPORTIONS`."""
    kinds = [kind for kind in TASK_TYPES for _ in range(households.PROPORTIONS[kind])]
    entropy = [seed, list(SPLITS).index(split), block, len(kinds)]
    order = np.random.default_rng(np.random.SeedSequence(entropy)).permutation(len(kinds))
    return tuple([kinds[i] for i in order])


class _Household:
    def __init__(self, spec: GameSpec, task_type: str, draws: Draws) -> None:
        self.spec = spec
        self.task_type = task_type
        self.draws = draws
        #: receptacle of every copy (-1 for none), by kind
        self.copies: dict[str, list[int]] = {}
        while not self._begin():
            pass
        self._fill()

    def _begin(self) -> bool:
        draws, task_type = self.draws, self.task_type
        rooms, totals = _rooms(task_type)
        choice = layouts(self.spec.seed, rooms[weighted(draws, totals)], SPLITS[self.spec.split])
        self.layout = choice[draws.below(len(choice))]
        goals = _goals(self.layout, task_type)
        _, self.target, kinds, weights = goals[weighted(draws, [total for total, *_ in goals])]
        self.wanted = kinds[weighted(draws, weights)]
        self.taken: set[int] = set()
        self.copies.clear()
        counts = households.PAIRS if task_type == TWO else households.TARGETS
        self._place(self.wanted, counts[draws.below(len(counts))], _without(task_type, self.target), households.DOORS)
        if task_type == LOOK:
            self._place(LAMP, 1)
            return bool(self.copies[LAMP] and self.copies[self.wanted])
        return len(self.copies[self.wanted]) > (task_type == TWO)

    def _fill(self) -> None:
        draws = self.draws
        for kind, stock in ROOMS[self.layout.room].stock.items():
            if kind not in self.copies and draws.uniform() < stock.likely:
                self._place(kind, stock.copies[draws.below(len(stock.copies))])
            if self.copies.get(kind) and draws.uniform() < households.NOWHERE:
                self.copies[kind].insert(draws.below(len(self.copies[kind]) + 1), -1)

    def _place(self, kind: str, count: int, without: str = "", doors: float = 1) -> None:
        layout, draws = self.layout, self.draws
        totals, receptacles = layout.spots(kind, without, doors)
        copies = self.copies[kind] = []
        if not receptacles:
            return
        for _ in range(count):
            for _ in range(_TRIES):
                receptacle = receptacles[weighted(draws, totals)]
                if layout.kinds[receptacle] not in households.SINGLE:
                    copies.append(receptacle)
                    break
                if receptacle not in self.taken:
                    self.taken.add(receptacle)
                    copies.append(receptacle)
                    break

    def game(self) -> Game:
        spec, layout, draws, task_type = self.spec, self.layout, self.draws, self.task_type
        kinds, contents, masks = self._contents()
        accepted = _accepted(layout.room)
        fits = {kind: _union(masks, accepted[kind]) for kind in set(layout.kinds)}
        start = len(layout.signs)
        order = list(layout.signs)
        order.insert(draws.below(start + 1), start)
        signs = dict(zip(order, numbered(["loc"] * len(order)), strict=True))
        seen_from = [0] * len(order)
        for place, content in zip(layout.places, contents, strict=True):
            seen_from[place] |= content
        flags = {name: _union(masks, having) for name, having in _flags(layout.room).items()}
        wanted = masks[self.wanted]
        fridges = sum(content for content, kind in zip(contents, layout.kinds, strict=True) if kind == "fridge")
        sentence = SENTENCES[task_type][draws.below(2)]
        folder = f"{Goal(task_type, self.wanted, self.target).name}-{layout.scene}"
        goals = [] if task_type == LOOK else [i for i, kind in enumerate(layout.kinds) if kind == self.target]
        if spec.ghosts:
            contents = self._haunted(contents, fits, flags["pickupable"])
        return Game(
            task_id=f"{folder}/trial_{spec.split}_{spec.index}",
            task_type=task_type,
            task=sentence.format(thing=self.wanted, place=self.target),
            dialect=spec.dialect,
            receptacles=layout.names,
            receptacle_types=layout.kinds,
            places=layout.places,
            locations=tuple([signs[place] for place in range(len(order))]),
            start=start,
            openable=layout.openable,
            objects=numbered(kinds),
            object_types=tuple(kinds),
            # as in official games, only possible goal objects in a fridge are cool; none if the goal is to cool them
            cool=0 if task_type == COOL else wanted & fridges & flags["coolable"],
            contents=tuple(contents),
            seen_from=tuple(seen_from),
            inner=self._inner(contents, flags),
            goal_objects=wanted,
            goal_receptacles=tuple(goals),
            goal_lamps=masks[LAMP] if task_type == LOOK else 0,
            walkthrough=(),
            fits=tuple([fits[kind] for kind in layout.kinds]),
            **flags,
        )

    def _contents(self) -> tuple[list[str], list[int], dict[str, int]]:
        kinds: list[str] = []
        contents = [0] * len(self.layout.kinds)
        masks = {}
        for kind in sorted(self.copies):
            first = len(kinds)
            for receptacle in self.copies[kind]:
                if receptacle >= 0:
                    contents[receptacle] |= 1 << len(kinds)
                kinds.append(kind)
            masks[kind] = (1 << len(kinds)) - (1 << first)
        return kinds, contents, masks

    def _haunted(self, contents: list[int], fits: dict[str, int], pickupable: int) -> list[int]:
        draws, layout = self.draws, self.layout
        near = self.target, households.MACHINES.get(self.task_type)
        haunted = list(contents)
        for content in contents:
            for item in bits(content & pickupable):
                if draws.uniform() < self.spec.ghosts:
                    receptacle = draws.below(len(contents))
                    if fits[layout.kinds[receptacle]] >> item & 1 and layout.kinds[receptacle] not in near:
                        haunted[receptacle] |= 1 << item
        return haunted

    def _inner(self, contents: list[int], flags: dict[str, int]) -> tuple[tuple[int, int], ...]:
        draws, inner = self.draws, []
        small = flags["pickupable"] & ~flags["vessels"]
        for content in contents:
            for vessel in bits(content & flags["vessels"]):
                beside = list(bits(content & small))
                if beside and draws.uniform() < households.FILLED:
                    inner.append((vessel, 1 << beside[draws.below(len(beside))]))
        return tuple(sorted(inner))


@lru_cache(maxsize=16)
def _rooms(task_type: str) -> tuple[list[str], list[float]]:
    rooms = [name for name, room in ROOMS.items() if task_type in room.tasks]
    return rooms, list(accumulate(ROOMS[name].tasks[task_type] for name in rooms))


@lru_cache(maxsize=4096)
def _goals(layout: Layout, task_type: str) -> list[tuple[float, str, list[str], list[float]]]:
    stock = ROOMS[layout.room].stock
    needed = _lower(_NEEDED.get(task_type, things.PICKUPABLE))
    portable = _lower(things.PICKUPABLE)
    accepted = _accepted(layout.room)
    never = {*households.NEVER_GOAL, households.MACHINES.get(task_type, "")}
    if task_type == TWO:
        never |= households.SINGLE
    goals = []
    total = 0.0
    for target in [LAMP] if task_type == LOOK else sorted(set(layout.kinds) - never):
        fitting = set().union(*(accepted[kind] for kind in layout.kinds)) if target == LAMP else accepted[target]
        without = _without(task_type, target)
        kinds = [
            kind
            for kind in stock
            if kind in fitting and kind in needed and kind in portable and layout.spots(kind, without)[1]
        ]
        if kinds:
            total += households.GOAL_WEIGHTS.get(target, 1)
            goals.append((total, target, kinds, list(accumulate(stock[kind].likely for kind in kinds))))
    return goals


def _without(task_type: str, target: str) -> str:
    return target if task_type in (PICK, TWO) else households.MACHINES.get(task_type, "")


@lru_cache(maxsize=16)
def _accepted(room: str) -> dict[str, tuple[str, ...]]:
    stock = ROOMS[room].stock
    return {
        kind: tuple(item for item in stock if item in things.ACCEPTED.get(kind, ())) for kind in ROOMS[room].receptacles
    }


@lru_cache(maxsize=16)
def _flags(room: str) -> dict[str, tuple[str, ...]]:
    having = {name: _lower(getattr(things, name.upper())) for name in (*things.FLAGS, "vessels")}
    return {name: tuple(kind for kind in ROOMS[room].stock if kind in kinds) for name, kinds in having.items()}


def _lower(kinds: Iterable[str]) -> frozenset[str]:
    return frozenset(kind.lower() for kind in kinds)


def _union(masks: dict[str, int], kinds: Iterable[str]) -> int:
    return sum(masks[kind] for kind in kinds if kind in masks)


#: Default number of games that `reset` draws from, similar to the official splits.
NUM_GAMES: dict[str, int] = {"train": 3600, "valid_seen": 144, "valid_unseen": 144}

# one name per game: "007" is not "7", episodes are grouped by task_id
_TRIAL = re.compile(rf"trial_({'|'.join(SPLITS)})_(0|[1-9][0-9]{{0,99}})")


class GeneratedGames(OfTypes):
    """The generated games; task_id "<task type>-<object>-None-<receptacle>-<scene>/trial_<split>_<index>".

    `num_games` is the number of games of each split, None for `NUM_GAMES`; task_ids beyond it are valid too.

    >>> games = GeneratedGames()
    >>> game = games.by_index("valid_unseen", 3)
    >>> games.by_id(game.task_id, None) is game
    True
    """

    first = "train"
    task_types, numbered = TASK_TYPES, True

    def __init__(
        self, *, game_seed: Any = 0, num_games: Any = None, dialect: str = "move", ghosts: float = 0.0
    ) -> None:
        self._num_games = None if num_games is None else whole("num_games", num_games, 1)
        self._fixed: dict[str, Any] = {"seed": whole("game_seed", game_seed, 0), "dialect": dialect, "ghosts": ghosts}
        GameSpec("train", 0, **self._fixed)  # checks the values
        self._kinds = TASK_TYPES
        self.splits = tuple(SPLITS)
        self.name = f"the generated games (num_games={num_games})"

    def dialect(self, split: str) -> str:
        return str(self._fixed["dialect"])

    def count(self, split: str) -> int:
        return _count(self._fixed["seed"], split, self._num_games, self._kinds)

    def by_index(self, split: str, index: int) -> Game:
        if index >= self.count(split):
            raise IndexError(index)
        block, position = divmod(index, sum(households.PROPORTIONS[kind] for kind in self._kinds))
        kinds = schedule(self._fixed["seed"], split, block)
        fitting = [i for i, kind in enumerate(kinds) if kind in self._kinds]
        return self._game(split, block * BLOCK + fitting[position])

    def by_id(self, task_id: str, split: str | None) -> Game:
        task_id, goal = split_id(task_id)
        if goal:
            return with_goal(self.by_id(task_id, split), parse_goal(goal))
        trial = _TRIAL.fullmatch(task_id.rpartition("/")[2])
        if not trial:
            raise ValueError(
                f"unknown task_id {task_id!r:.200}: expected '<task folder>/trial_<split>_<index>', such as "
                f"{self._game('train', 0).task_id!r}; splits: {', '.join(SPLITS)}"
            )
        if split is not None and split != trial[1]:
            raise ValueError(f"the game {task_id!r:.200} belongs to split {trial[1]!r}, not to {split!r}")
        game = self._game(trial[1], int(trial[2]))
        if game.task_id != task_id:
            raise ValueError(
                f"unknown task_id {task_id!r:.200}: with game_seed={self._fixed['seed']}, game {trial[2]} of split "
                f"{trial[1]!r} is {game.task_id!r}; was the task_id made with another game_seed?"
            )
        return game

    def ids(self, split: str) -> Iterator[str]:
        return (self.by_index(split, index).task_id for index in range(self.count(split)))

    def _game(self, split: str, index: int) -> Game:
        return generate(GameSpec(split, index, **self._fixed))


@lru_cache(maxsize=256)
def _count(seed: int, split: str, num_games: int | None, kinds: tuple[str, ...]) -> int:
    blocks, rest = divmod(NUM_GAMES[split] if num_games is None else num_games, BLOCK)
    per_block = sum(households.PROPORTIONS[kind] for kind in kinds)
    return blocks * per_block + sum(kind in kinds for kind in schedule(seed, split, blocks)[:rest])
