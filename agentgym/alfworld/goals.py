"""Goals in a household: a task type with kinds of objects, named as ALFRED's task folders.

Any goal about objects of the room makes a task of the same household, `"<task_id of the game>#<goal>"`.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from agentgym.alfworld.game import CLEAN, COOL, HEAT, LOOK, PICK, TASK_TYPES, TWO, Game, bits, mask
from agentgym.alfworld.rules import World
from agentgym.alfworld.text import TEXTS
from agentgym.alfworld.things import spelled
from agentgym.checks import suggest

#: The task sentences, two for each type.
SENTENCES: dict[str, tuple[str, str]] = {kind: tuple(pair) for kind, pair in TEXTS["sentences"].items()}
_MARK = "#"
_EXAMPLE = "pick_clean_then_place_in_recep-Apple-None-CounterTop"


class Goal(NamedTuple):
    """A goal: one of `TASK_TYPES`, the kind of object, the kind of receptacle (or lamp), in lower case."""

    task_type: str
    thing: str
    place: str

    @property
    def name(self) -> str:
        """The goal as a word.

        >>> Goal("look_at_obj_in_light", "alarmclock", "desklamp").name
        'look_at_obj_in_light-AlarmClock-None-DeskLamp'
        """
        return f"{self.task_type}-{spelled(self.thing)}-None-{spelled(self.place)}"


def own_goal(game: Game) -> Goal | None:
    """Return the goal of a game, None when the room has no object for it."""
    things = [game.object_types[item] for item in bits(game.goal_objects)]
    places = [game.receptacle_types[receptacle] for receptacle in game.goal_receptacles]
    places += [game.object_types[lamp] for lamp in bits(game.goal_lamps)]
    return Goal(game.task_type, things[0], places[0]) if things and places else None


def goals_met(state: World, receptacles: Iterable[int]) -> set[Goal]:
    """Return the goals about portable objects that hold, as far as these receptacles show."""
    game, met = state.game, set()
    kinds = game.object_types
    treated = (
        (PICK, -1),
        (CLEAN, game.cleanable & state.clean),
        (HEAT, game.heatable & state.hot),
        (COOL, game.coolable & state.cool),
    )
    for receptacle in receptacles:
        place, content = game.receptacle_types[receptacle], state.contents[receptacle] & game.pickupable
        once: set[str] = set()
        for item in bits(content):
            kind = kinds[item]
            met.update([Goal(verb, kind, place) for verb, objects in treated if objects >> item & 1])
            if kind in once:
                met.add(Goal(TWO, kind, place))
            once.add(kind)
    if state.held >= 0:
        within = mask(i for receptacle in game.room.local[state.loc] for i in bits(state.contents[receptacle]))
        lit = within & game.toggleable & state.toggled
        met.update([Goal(LOOK, kinds[state.held], kinds[lamp]) for lamp in bits(lit)])
    return met


@lru_cache(maxsize=512)
def _met_at_first(game: Game) -> frozenset[Goal]:
    return frozenset(goals_met(World(game), range(len(game.contents))))


def goals_done(state: World) -> list[Goal]:
    """Return the other goals that hold now and did not hold at the start, those of simpler types first."""
    game = state.game
    # the second receptacle of an object counts although no command touched it
    treated = state.clean | state.hot | (state.cool ^ game.cool)
    changed = [i for i, content in enumerate(state.contents) if state.touched >> i & 1 or content & treated]
    new = goals_met(state, changed) - _met_at_first(game) - {own_goal(game)}
    return sorted(new, key=lambda goal: (TASK_TYPES.index(goal.task_type), goal))


def id_with(game: Game, goal: Goal) -> str:
    """Return the task_id of a game's household with a goal."""
    return f"{split_id(game.task_id)[0]}{_MARK}{goal.name}"


def split_id(task_id: str) -> tuple[str, str]:
    """Return the game's task_id and the goal's name, "" for the game's own goal."""
    game, mark, goal = task_id.rpartition(_MARK)
    return (game, goal) if mark and "-" in goal else (task_id, "")


def parse_goal(name: str) -> Goal:
    """Return a goal by its name."""
    parts = name.lower().split("-")
    if len(parts) != 4 or parts[2] != "none":
        raise ValueError(
            f"unknown goal {name!r:.200}: expected '<task type>-<thing>-None-<place>', such as {_EXAMPLE!r}"
        )
    if parts[0] not in TASK_TYPES:
        raise ValueError(f"goal {name!r:.200}: unknown task type {parts[0]!r:.200}; {suggest(parts[0], TASK_TYPES)}")
    goal = Goal(parts[0], parts[1], parts[3])
    if goal.name != name:  # one name per task: episodes are grouped by it
        raise ValueError(f"unknown goal {name!r:.200}: its canonical form is {goal.name!r:.200}")
    return goal


@lru_cache(maxsize=512)
def with_goal(game: Game, goal: Goal) -> Game:
    """Return the same household with another goal and no walkthrough; the game itself for its own goal.

    The sentence is the first or second of its type, as the game's own. A goal without objects in the room, or one that
    holds at the start, is a ValueError.
    """
    own = own_goal(game)
    if goal == own:
        return game
    flags = {CLEAN: game.cleanable, HEAT: game.heatable, COOL: game.coolable}
    wanted = _of_kind(game, goal.thing) & game.pickupable & flags.get(goal.task_type, -1)
    lamps, places = 0, tuple([i for i, kind in enumerate(game.receptacle_types) if kind == goal.place])
    if goal.task_type == LOOK:
        lamps, places = _of_kind(game, goal.place) & game.toggleable, ()
    # an object that is cool at the start needs no fridge
    machines = {CLEAN: game.room.sinks, HEAT: game.room.microwaves, COOL: game.room.fridges | wanted & game.cool}.get(
        goal.task_type, -1
    )
    for there, what in (
        (wanted, f"{goal.thing!r:.200} to do that with among {', '.join(sorted(set(game.object_types)))}"),
        (lamps or places, f"such place {goal.place!r:.200} among {', '.join(sorted(set(game.receptacle_types)))}"),
        (machines, "sink, microwave or fridge that does it"),
    ):
        if not there:
            raise ValueError(f"goal {goal.name!r:.200}: {game.task_id!r} has no {what}")
    if goal in _met_at_first(game):
        raise ValueError(f"goal {goal.name!r} already holds at the start of {game.task_id!r}: choose another goal")
    sentences = SENTENCES[goal.task_type]
    second = own is not None and game.task == SENTENCES[game.task_type][1].format(thing=own.thing, place=own.place)
    return replace(
        game,
        task_id=id_with(game, goal),
        task_type=goal.task_type,
        task=sentences[second].format(thing=goal.thing, place=goal.place),
        goal_objects=wanted,
        goal_receptacles=places,
        goal_lamps=lamps,
        walkthrough=(),
    )


def _of_kind(game: Game, kind: str) -> int:
    return mask(i for i, each in enumerate(game.object_types) if each == kind)
