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

#: Files of the folder: scenarios, characters, pairings.
FILES = ("environment_profiles.jsonl", "agent_profiles.jsonl", "env_agent_combo_storages.jsonl")

#: The ids of the scenarios of SOTOPIA-hard, after `01H7VFH`: with five pairings each, its 70 dialogues. (The published
#: list of 70 numbers counts the pairings in the order of another file, so it is of no use here.)
_HARD = (
    "NV13MHN97GAH73E3KM8", "N5WVC5HKKVBHZBA553R", "N9W0WAFZCBT09PKJJNK", "PDZVVCDZR3AARA547CY", "PQQQY6H4DNC6NBQ8XTG",
    "N7WJK7VWVRZZTQ6DX9T", "PS5WJW2694R1MNC8JFY", "NN7XTR99319DS8KZCQM", "Q11NAMZS4A2RDGDB01V", "PSWGDGEYRP63H2DJKV0",
    "NF4G18PC9JHGRC8A1R6", "NNYH3W0VRWVY178K2TK", "P8AN5643B0NR0NP00VE", "N7A1ZX5KSMT2YN9RXC4",
)  # fmt: skip
HARD_SCENARIOS = frozenset(f"01H7VFH{tail}" for tail in _HARD)


class DataError(ValueError):
    """A file that is not what it should be; the message names file and line."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """Two people in a scenario."""

    id: str
    scenario: Scenario
    people: tuple[Person, Person]


def read_official(folder: str | Path) -> tuple[Pairing, ...]:
    """Return the pairings in the order of their file; a folder that was read is remembered by its path.

    Raises:
        FileNotFoundError: when the folder or one of `FILES` is not there.
        DataError: on a line that is not such a record, or that names a record that is not there.
    """
    return _read(Path(folder).expanduser().resolve())


@lru_cache(maxsize=8)
def _read(folder: Path) -> tuple[Pairing, ...]:
    for name in FILES:
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
    return pairings


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
