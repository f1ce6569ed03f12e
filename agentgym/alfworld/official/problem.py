"""Read a game file of the official data (`game.tw-pddl`): planning problem, grammar (the texts), walkthrough."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from sys import intern
from typing import Any

from agentgym.alfworld.game import CLEAN, COOL, HEAT, LOOK, PICK, TWO, Game, mask, numbered
from agentgym.alfworld.things import FLAGS
from agentgym.outside.text import DataError, read_json, tables_beside

#: Maximum numbers of receptacles, objects and locations, and lengths of a name and a task sentence in characters: they
#: bound observations. Official games have at most 54, 73, 50; 19; 50.
MOST_THINGS, MOST_NAME, MOST_SENTENCE = 1000, 100, 1000
_FACT = re.compile(r"\(\s*(\w+)\s+([^\s()]+)(?:\s+([^\s()]+))?\s*\)")
_PREFIX = "Your task is to: "
_TASK = re.compile(rf'"({_PREFIX}(?:[^"\\]++|\\.)*+)"')
_GOAL_TYPES = re.compile(r"\((object|receptacle)type\s+\?\w+\s+([^\s()]+?)type\s*\)")
_CONDITIONS = {"isclean": CLEAN, "ishot": HEAT, "iscool": COOL, "istoggled": LOOK}
_NEVER_AT_FIRST = frozenset(("holds", "holdsany", "isclean", "ishot", "ison", "issliced", "istoggled", "opened"))
_NEEDS = {CLEAN: "cleanable", HEAT: "heatable", COOL: "coolable"}

#: Phrases that identify the grammar of each dialect, spaces collapsed.
_PHRASES: dict[str, list[str]] = tables_beside(__file__, "phrases.toml")

Facts = dict[str, list[tuple[str, str]]]


def read_game(data: Any, task_id: str) -> Game:
    """Return the game of a decoded `game.tw-pddl`; a `DataError` when it is malformed or of an unknown version."""
    if not isinstance(data, Mapping):
        raise DataError(f"game.tw-pddl must be a JSON object, got {type(data).__name__}")
    for key in ("pddl_problem", "grammar"):
        if not isinstance(data.get(key), str):
            raise DataError(f"game.tw-pddl has no text {key!r} (it has {sorted(data)!r:.200})")
    walkthrough = data.get("walkthrough") or ()
    if not isinstance(walkthrough, (list, tuple)) or not all(isinstance(command, str) for command in walkthrough):
        raise DataError(f"'walkthrough' must be a list of commands, got {walkthrough!r:.200}")
    task, dialect = _read_grammar(data["grammar"])
    problem = data["pddl_problem"].lower()
    start, goal = problem.find("(:init"), problem.find("(:goal")
    if not 0 <= start < goal:
        raise DataError("pddl_problem has no (:init ...) followed by (:goal ...)")
    # the file repeats the accepted types for each receptacle: each line is parsed once
    lines = dict.fromkeys(problem[start + len("(:init") : goal].split("\n"))
    facts: Facts = {}
    for name, first, second in _FACT.findall("\n".join(lines)):
        if name in facts:
            facts[name].append((first, second))
        else:
            facts[name] = [(first, second)]
    for name in sorted(_NEVER_AT_FIRST & facts.keys()):
        raise DataError(f"the game starts with {name!r}; expected a start with closed doors and empty hands")
    try:
        return _build(facts, _read_goal(problem[goal:]), task_id, task, dialect, tuple(map(intern, walkthrough)))
    except KeyError as error:
        raise DataError(f"pddl_problem is malformed: missing facts about {error!s:.200}") from error
    except ValueError as error:
        raise DataError(f"pddl_problem is malformed: {error!s:.500}") from error


def _read_grammar(grammar: str) -> tuple[str, str]:
    start = grammar.find(f'"{_PREFIX}')
    found = _TASK.match(grammar, start) if start >= 0 else None
    try:
        task = str(read_json(f'"{found[1]}"')) if found else ""
    except DataError:
        task = ""
    if not found or not task.endswith("."):
        raise DataError("the grammar has no sentence 'Your task is to: ... .'")
    if len(task) > MOST_SENTENCE:
        raise DataError(f"the sentence of the task has {len(task):,} characters; at most {MOST_SENTENCE:,} are read")
    dialect, missing = _dialect(grammar[: found.start()] + grammar[found.end() :])
    if missing:
        raise DataError(
            "unknown version of the texts; expected those of json_2.1.1 "
            f"('put x in/on y') and json_2.1.2 or later ('move x to y'). Not found in its grammar: {missing}"
        )
    return task.removeprefix(_PREFIX).removesuffix("."), dialect


@lru_cache(maxsize=4)
def _dialect(grammar: str) -> tuple[str, str]:
    text = re.sub(r"\s+", " ", grammar)
    dialect = "move" if _PHRASES["move"][0] in text else "put"
    missing = [phrase for phrase in (*_PHRASES[dialect], *_PHRASES["shared"]) if phrase not in text]
    if dialect == "put" and 'template :: "help"' in text:
        missing.append("no `help` beside `put`")
    return dialect, missing[0] if missing else ""


def _read_goal(goal: str) -> tuple[str, str, str]:
    types = _GOAL_TYPES.findall(goal)
    objects = [name for kind, name in types if kind == "object"]
    receptacles = {name for kind, name in types if kind == "receptacle"}
    conditions = [kind for word, kind in _CONDITIONS.items() if f"({word} " in goal]
    task_type = conditions[0] if conditions else TWO if "(not (=" in goal else PICK
    if task_type == LOOK and len(objects) == 2 and not receptacles and len(conditions) == 1:
        # the lamp is the object with the toggled variable
        toggled = re.search(r"\(istoggled\s+(\?\w+)\s*\)", goal)
        lamp = re.search(rf"\(objecttype\s+{re.escape(toggled[1])}\s+(\S+?)type\s*\)", goal) if toggled else None
        if lamp:
            objects.remove(lamp[1])
            return task_type, objects[0], lamp[1]
    elif task_type != LOOK and len(set(objects)) == len(receptacles) == 1 and len(conditions) <= 1:
        return task_type, objects[0], receptacles.pop()
    raise ValueError(f"the goal is of none of the six kinds: {' '.join(goal.split())[:200]}")


def _build(
    facts: Facts, goal: tuple[str, str, str], task_id: str, task: str, dialect: str, walkthrough: tuple[str, ...]
) -> Game:
    object_type = {name: intern(kind.removesuffix("type")) for name, kind in _of_each(facts, "objecttype").items()}
    receptacle_type = {
        name: intern(kind.removesuffix("type")) for name, kind in _of_each(facts, "receptacletype").items()
    }
    place_of = _of_each(facts, "receptacleatlocation")
    starts = facts["atlocation"]
    if len(starts) != 1:
        raise ValueError(f"expected one location of the agent, got {len(starts)}")
    start = starts[0][1]
    for things, what in (
        (object_type, "objects"),
        (receptacle_type, "receptacles"),
        (set(place_of.values()), "locations"),
    ):
        if len(things) > MOST_THINGS:
            raise ValueError(f"it has {len(things):,} {what}; at most {MOST_THINGS:,} are read")
    names = _names(sorted({word for pairs in facts.values() for pair in pairs for word in pair if word}))
    objects, receptacles = sorted(object_type), sorted(receptacle_type)
    locations = list(dict.fromkeys([*(place_of[name] for name in receptacles), start]))
    longest = max((names[name] for name in (*objects, *receptacles, *locations)), key=len)
    if len(longest) > MOST_NAME:
        raise ValueError(f"the name {longest[:40]}... has {len(longest):,} characters; at most {MOST_NAME} are read")
    index = {name: i for i, name in enumerate(objects)}
    index_of = {name: i for i, name in enumerate(receptacles)}
    location_index = {name: i for i, name in enumerate(locations)}

    contents = [0] * len(receptacles)
    for name, where in facts.get("inreceptacle", ()):
        contents[index_of[where]] |= 1 << index[name]
    seen_from = [0] * len(locations)
    for name, where in facts.get("objectatlocation", ()):
        if where in location_index:  # the agent can be nowhere else
            seen_from[location_index[where]] |= 1 << index[name]
    inner: dict[int, int] = {}
    for name, vessel in facts.get("inreceptacleobject", ()):
        inner[index[vessel]] = inner.get(index[vessel], 0) | 1 << index[name]

    flags = {flag: mask(index[name] for name, _ in facts.get(flag, ()) if name in index) for flag in FLAGS}
    standing = set(receptacle_type.values())
    accepted: dict[str, set[str]] = {}
    for kind, content in facts.get("cancontain", ()):
        accepted.setdefault(kind.removesuffix("type"), set()).add(content.removesuffix("type"))
    fit = {
        kind: mask(i for i, name in enumerate(objects) if object_type[name] in types)
        for kind, types in accepted.items()
        if kind in standing
    }

    task_type, wanted, target = goal
    goal_objects = mask(i for i, name in enumerate(objects) if object_type[name] == wanted)
    if task_type in _NEEDS:
        goal_objects &= flags[_NEEDS[task_type]]
    lamps = mask(i for i, name in enumerate(objects) if object_type[name] == target) if task_type == LOOK else 0
    return Game(
        task_id=task_id,
        task_type=task_type,
        task=task,
        dialect=dialect,
        receptacles=tuple([intern(names[name]) for name in receptacles]),
        receptacle_types=tuple([receptacle_type[name] for name in receptacles]),
        places=tuple([location_index[place_of[name]] for name in receptacles]),
        locations=tuple([intern(names[name]) for name in locations]),
        start=location_index[start],
        openable=mask(index_of[name] for name, _ in facts.get("openable", ()) if name in index_of),
        objects=tuple([intern(names[name]) for name in objects]),
        object_types=tuple([object_type[name] for name in objects]),
        **flags,
        vessels=mask(index[name] for name, _ in facts.get("isreceptacleobject", ()) if name in index),
        cool=mask(index[name] for name, _ in facts.get("iscool", ())),
        contents=tuple(contents),
        seen_from=tuple(seen_from),
        inner=tuple(sorted(inner.items())),
        goal_objects=goal_objects,
        goal_receptacles=tuple(
            [] if task_type == LOOK else [i for i, name in enumerate(receptacles) if receptacle_type[name] == target]
        ),
        goal_lamps=lamps & flags["toggleable"],
        walkthrough=walkthrough,
        fits=tuple([fit.get(receptacle_type[name], 0) for name in receptacles]),
    )


def _of_each(facts: Facts, name: str) -> dict[str, str]:
    said: dict[str, str] = {}
    for thing, what in facts.get(name, ()):
        if said.setdefault(thing, what) != what:
            raise ValueError(f"{name!r} has two values for {thing!r}: {said[thing]!r} and {what!r}")
    return said


def _names(ids: Sequence[str]) -> dict[str, str]:
    names = numbered([name.partition("_bar_")[0] + ("basin" if "basin" in name else "") for name in ids])
    return {each: name if "_bar_" in each else f"{each} " for each, name in zip(ids, names, strict=True)}
