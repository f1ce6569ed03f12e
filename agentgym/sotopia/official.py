"""The official scenarios, characters and pairings, and the games read from 30 scenarios' texts."""

import itertools
import re
import reprlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from agentgym.outside.files import fingerprint
from agentgym.outside.text import DataError, one_line, read_json_lines
from agentgym.sotopia.dialogue import TEXTS
from agentgym.sotopia.games.bargain import BUYER, SELLER, Bargain
from agentgym.sotopia.games.divide import Divide, Pool
from agentgym.sotopia.games.friend import Friend, MutualFriend
from agentgym.sotopia.games.game import Game
from agentgym.sotopia.profiles import JUDGE, ROLES, Person, Relationship, Scenario, Task, render

_PRICE = re.compile(r"\$(\d+(?:,\d{3})*(?:\.\d+)?)")
_COUNT = re.compile(r"\b(\d+) ([a-z]+)")
#: "Books give you 5 points each", "1 apple = 2 points", "each hat is worth 3 points", "a ball is 2 points", "you value
#: the books at 3 points each".
_VALUE = re.compile(
    r"\b(?:(?:an?|1|each|the)\s+)?([a-z]+) (?:(?:is|are) (?:worth )?|gives? you |equals |at |as |= )(\d+) point"
)
_FRIEND = re.compile(r"^ *([A-Z]\w+): (?=\w[\w ]*: )(.*)$", re.MULTILINE)
_GAP = re.compile("( {2,})")
_ATTRIBUTE = re.compile(r"(\w[\w ]*+): (.*)", re.DOTALL)
_COMMON = re.compile(r"common friends?: (\w+)")


@lru_cache(maxsize=256)
def read_game(scenario: Scenario) -> Game | None:
    """Return the game of a scenario; None if it has none; DataError if a number is missing."""
    reader = _READERS.get(scenario.source)
    if reader is None:
        return None
    try:
        return reader(scenario)
    except (ValueError, LookupError, AttributeError) as error:
        raise DataError(
            f"scenario {scenario.id} ({scenario.codename}) of source {scenario.source!r} cannot be read: {error}"
        ) from error


def _goals(scenario: Scenario) -> tuple[str, str]:
    first, second = (render(goal, viewer) for goal, viewer in zip(scenario.goals, ROLES, strict=True))
    return first, second


def _price(text: str) -> float:
    found = _PRICE.search(text)
    if found is None:
        raise ValueError(f"no price in {text!r:.200}")
    return float(found[1].replace(",", ""))


def _bargain(scenario: Scenario) -> Bargain:
    goals = _goals(scenario)
    first, second = (BUYER if "buyer" in goal else SELLER for goal in goals)
    return Bargain(_price(scenario.text), (_price(goals[0]), _price(goals[1])), (first, second))


def _divide(scenario: Scenario) -> Divide:
    kinds, counts = [], []
    for number, word in _COUNT.findall(scenario.text):
        kinds.append((word.removesuffix("s"), f"{word.removesuffix('s')}s"))
        counts.append(int(number))
    values = []
    for goal in _goals(scenario):
        worth = {word.removesuffix("s"): int(points) for word, points in _VALUE.findall(goal.lower())}
        values.append(tuple(worth[kind] for kind, _ in kinds))
    return Divide(Pool(tuple(kinds), tuple(counts)), (values[0], values[1]))


def _attributes(text: str) -> list[tuple[str, str]]:
    """Return names and values of "Hobby: Chess  Workplace: Bank", at least two spaces apart."""
    found: list[tuple[str, list[str]]] = []
    gap = ""
    for part in _GAP.split(text):
        attribute = _ATTRIBUTE.match(part)
        if part.isspace():
            gap = part
        elif attribute:
            found.append((attribute[1], [attribute[2]]))
        elif found:  # two spaces within a value
            found[-1][1].extend((gap, part))
    return [(name, "".join(value).rstrip()) for name, value in found]


def _friend(scenario: Scenario) -> MutualFriend:
    lists = []
    names: tuple[str, ...] = ()
    for goal in _goals(scenario):
        friends = []
        for name, text in _FRIEND.findall(goal):
            attributes = _attributes(text.strip())
            if names and tuple(attribute for attribute, _ in attributes) != names:
                raise ValueError(f"{name} has other attributes than {', '.join(names)}: {text!r:.200}")
            names = tuple(attribute for attribute, _ in attributes)
            friends.append(Friend(name, tuple(value for _, value in attributes)))
        lists.append(tuple(friends))
    everyone = lists[0] + lists[1]
    values = [tuple(dict.fromkeys(friend.values[i] for friend in everyone)) for i in range(len(names))]
    game = MutualFriend(tuple(zip(names, values, strict=True)), (lists[0], lists[1]))
    declared = _COMMON.search(render(scenario.text, JUDGE))
    if declared is None or declared[1] != game.mutual:
        raise ValueError(f"both lists share {game.mutual!s:.200}, which the scenario does not name")
    return game


_READERS = {"craigslist_bargains": _bargain, "deal-or-no-deal": _divide, "mutual_friends": _friend}


#: Files of the folder: scenarios, characters, pairings.
FILES = ("environment_profiles.jsonl", "agent_profiles.jsonl", "env_agent_combo_storages.jsonl")

#: The scenarios of SOTOPIA-hard.
HARD_SCENARIOS = frozenset(f"01H7VFH{tail}" for tail in TEXTS["hard"].split())


#: Maximum number of characters of a text and of a name (of a person, an occupation, ...): an opening fits into the
#: observation space.
MOST_TEXT, MOST_NAME = 20_000, 200


_RecordT = TypeVar("_RecordT", Scenario, Person, Task)


def read_official(folder: Path) -> tuple[Task, ...]:
    """Return the pairings in file order (the numbers are their seeds); unchanged files are read once.

    Raises a DataError, with file and line, for a missing file, a malformed record, a repeated id or an unknown
    reference.
    """
    return _read(folder, state_of(folder))


def state_of(folder: Path) -> str:
    """Return a text that depends on name, size and time of each of `FILES`; DataError if one is missing."""
    for name in FILES:
        if not (folder / name).is_file():
            raise DataError(
                f"no {name} in {folder}: data must be the folder that holds {', '.join(FILES)} of SOTOPIA's profiles"
            )
    return fingerprint(*[folder / name for name in FILES])


@lru_cache(maxsize=8)
def _read(folder: Path, state: str) -> tuple[Task, ...]:
    scenarios = _records(folder / FILES[0], _scenario)
    people = _records(folder / FILES[1], _person)

    numbers = itertools.count()

    def pairing(row: Mapping[str, Any]) -> Task:
        env_id, agent_ids = row["env_id"], row["agent_ids"]
        if not (isinstance(agent_ids, list) and len(agent_ids) == 2):
            raise ValueError(f"agent_ids must be a list of two ids, got {agent_ids!r:.100}")
        first, second = (_known(people, each, FILES[1]) for each in agent_ids)
        scenario = _known(scenarios, env_id, FILES[0])
        return Task(_id(row, "combo_id"), scenario, (first, second), read_game(scenario), next(numbers))

    return tuple(_records(folder / FILES[2], pairing).values())


def _records(path: Path, read: Callable[[Any], _RecordT]) -> dict[str, _RecordT]:
    records: dict[str, _RecordT] = {}
    lines: dict[str, int] = {}
    for number, row in read_json_lines(path):
        try:
            record = read(row)
        except KeyError as error:
            raise DataError(f"{path}, line {number}: there is no {error}") from error
        except (ValueError, TypeError, AttributeError) as error:
            raise DataError(f"{path}, line {number}: not a record of this file ({error})") from error
        if record.id in records:
            raise DataError(f"{path}, line {number}: the id {record.id!r} is that of line {lines[record.id]} too")
        records[record.id], lines[record.id] = record, number
    return records


def _known(records: Mapping[str, _RecordT], name: object, file: str) -> _RecordT:
    if not isinstance(name, str) or name not in records:
        raise ValueError(f"{name!r:.100} is no id of {file}")
    return records[name]


def _id(row: Mapping[str, Any], name: str) -> str:
    return _name(row, name if name in row else "pk")


def _name(row: Mapping[str, Any], name: str) -> str:
    return one_line(_checked(row[name], name, MOST_NAME))


def _checked(text: object, name: str, most: int = MOST_TEXT) -> str:
    if not isinstance(text, str) or len(text) > most:
        raise ValueError(f"{name} must be a text of at most {most:,} characters, got {reprlib.repr(text)}")
    return text


def _texts(given: object, name: str) -> tuple[str, ...]:
    if not isinstance(given, (list, tuple)):
        raise ValueError(f"{name} must be a list of texts, got {reprlib.repr(given)}")
    return tuple(_checked(each, name) for each in given)


def _integer(row: Mapping[str, Any], name: str) -> int:
    """Return an integer, also one written as text."""
    given = row[name]
    if isinstance(given, bool) or not isinstance(given, (int, str)) or len(str(given)) > 9:
        raise ValueError(f"{name} must be an integer, got {reprlib.repr(given)}")
    return int(given)


def _scenario(row: Mapping[str, Any]) -> Scenario:
    goals = _texts(row["agent_goals"], "agent_goals")
    if len(goals) != 2:
        raise ValueError(f"agent_goals must be a list of two texts, got {len(goals)}")
    scenario = Scenario(
        id=_id(row, "env_id"),
        codename=_name(row, "codename"),
        source=_name(row, "source"),
        text=_checked(row["scenario"], "scenario"),
        goals=(goals[0], goals[1]),
        relationship=Relationship(_integer(row, "relationship")),
        **{name: _checked(row[name], name) for name in _CONSTRAINTS if row.get(name) is not None},
    )
    for text in (scenario.text, *scenario.goals):
        for viewer in (*ROLES, JUDGE):
            render(text, viewer)  # finds unmatched tags early
    read_game(scenario)  # and missing numbers
    return scenario


def _person(row: Mapping[str, Any]) -> Person:
    fields: dict[str, Any] = {"age": _integer(row, "age")}
    fields |= {name: _name(row, name) for name in _NAMES}
    fields |= {name: _checked(row[name], name) for name in _TEXTS}
    fields |= {name: _checked(row[name], name) for name in _MORE_TEXTS if row.get(name) is not None}
    fields |= {name: tuple(each.strip() for each in _texts(row[name], name)) for name in _VALUES if row.get(name)}
    person = Person(id=_id(row, "agent_id"), **fields)
    for viewer in (*ROLES, JUDGE):
        render(f"{person.public_info} {person.personality_and_values} {person.secret}", viewer)
    return person


_CONSTRAINTS = ("age_constraint", "occupation_constraint", "agent_constraint", "tag")
_NAMES = ("first_name", "last_name", "occupation", "gender", "gender_pronoun")
_TEXTS = ("public_info", "personality_and_values", "secret")
_MORE_TEXTS = ("decision_making_style", "big_five", "mbti", "model_id", "tag")
_VALUES = ("moral_values", "schwartz_personal_values")
