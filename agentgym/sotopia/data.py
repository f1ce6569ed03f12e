"""The official scenarios, characters and pairings, read from the folder of their files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentgym.sotopia.markup import JUDGE, ROLES, render
from agentgym.sotopia.profiles import Person, Relationship, Scenario

#: Files of the folder: scenarios, characters, pairings, and numbers of the pairings of the hard subset.
FILES = (
    "environment_profiles.jsonl",
    "agent_profiles.jsonl",
    "env_agent_combo_storages.jsonl",
    "sotopia_hard.json",
)


class DataError(ValueError):
    """A file that is not what it should be; the message names file and line."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """Two people in a scenario."""

    id: str
    scenario: Scenario
    people: tuple[Person, Person]


@dataclass(frozen=True)
class Official:
    """What the folder holds: pairings in the order of their file, and the numbers of the hard ones."""

    pairings: tuple[Pairing, ...]
    hard: tuple[int, ...]


def read_official(folder: str | Path) -> Official:
    """Read the folder; a folder that was read is remembered by its path.

    Args:
        folder: holds `FILES`; without the last one there is no hard subset.

    Raises:
        FileNotFoundError: when the folder or a file is not there.
        DataError: on a line that is not such a record, or that names one that is not there.
    """
    return _read(Path(folder).expanduser().resolve())


@lru_cache(maxsize=8)
def _read(folder: Path) -> Official:
    for name in FILES[:3]:
        if not (folder / name).is_file():
            raise FileNotFoundError(
                f"no {name} in {folder}: data must be the folder that holds {', '.join(FILES)} of SOTOPIA's profiles"
            )
    scenarios = {s.id: s for s in _records(folder / FILES[0], _scenario)}
    people = {p.id: p for p in _records(folder / FILES[1], _person)}

    def pairing(row: Mapping[str, Any]) -> Pairing:
        scenario, (first, second) = scenarios[row["env_id"]], row["agent_ids"]
        return Pairing(_id(row, "combo_id"), scenario, (people[first], people[second]))

    pairings = tuple(_records(folder / FILES[2], pairing))
    ids = [each.id for each in pairings]
    if len(set(ids)) < len(ids):
        twice = next(each for each in ids if ids.count(each) > 1)
        raise DataError(f"{folder / FILES[2]}: the id {twice!r} occurs twice")
    return Official(pairings, _hard(folder / FILES[3], len(pairings)))


def _records(path: Path, read: Any) -> Iterator[Any]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                yield read(json.loads(line))
            except KeyError as error:
                raise DataError(f"{path}, line {number}: there is no {error}") from error
            except (ValueError, TypeError, AttributeError) as error:
                raise DataError(f"{path}, line {number}: not a record of this file ({error})") from error


def _id(row: Mapping[str, Any], name: str) -> str:
    return str(row[name] if name in row else row["pk"])


def _scenario(row: Mapping[str, Any]) -> Scenario:
    goals = row["agent_goals"]
    if not (isinstance(goals, list) and len(goals) == 2):
        raise ValueError(f"agent_goals must be a list of two texts, got {goals!r}")
    scenario = Scenario(
        id=_id(row, "env_id"),
        codename=str(row["codename"]),
        source=str(row["source"]),
        text=str(row["scenario"]),
        goals=(str(goals[0]), str(goals[1])),
        relationship=Relationship(int(row["relationship"])),
        age_constraint=str(row.get("age_constraint", "")),
        occupation_constraint=str(row.get("occupation_constraint", "")),
        agent_constraint=str(row.get("agent_constraint", "")),
        tag=str(row.get("tag", "")),
    )
    for text in (scenario.text, *scenario.goals):
        for viewer in (*ROLES, JUDGE):
            render(text, viewer)  # tags that do not match are found now, not in the middle of a run
    return scenario


def _person(row: Mapping[str, Any]) -> Person:
    return Person(
        id=_id(row, "agent_id"),
        age=int(row["age"]),
        **{name: str(row[name]) for name in _TEXTS},
        **{name: str(row.get(name, "")) for name in _MORE_TEXTS},
        moral_values=_texts(row.get("moral_values", ())),
        schwartz_personal_values=_texts(row.get("schwartz_personal_values", ())),
    )


_TEXTS = (
    "first_name", "last_name", "occupation", "gender", "gender_pronoun", "public_info", "personality_and_values",
    "secret",
)  # fmt: skip
_MORE_TEXTS = ("decision_making_style", "big_five", "mbti", "model_id", "tag")


def _texts(values: Any) -> tuple[str, ...]:
    return tuple(str(value).strip() for value in values)


def _hard(path: Path, count: int) -> tuple[int, ...]:
    if not path.is_file():
        return ()
    numbers = json.loads(path.read_text(encoding="utf-8"))
    wrong = [n for n in numbers if isinstance(n, bool) or not isinstance(n, int) or not 0 <= n < count]
    if wrong:
        raise DataError(f"{path}: {wrong[0]!r} is no number of a pairing, from 0 to {count - 1}")
    return tuple(numbers)
