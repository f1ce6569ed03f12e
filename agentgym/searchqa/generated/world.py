"""A generated world: countries, towns, people, works and events with consistent facts."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from agentgym.outside.text import tables_beside

#: Words and questions by name.
TABLES = tables_beside(__file__, "words.toml")


def _words(*lists: str) -> Iterator[tuple[str, ...]]:
    return (tuple(TABLES[name].split()) for name in lists)


WOMEN, MEN, SURNAMES, SIDES, REALMS, RIVERS = _words("women", "men", "surnames", "sides", "realms", "rivers")
ADJECTIVES, NOUNS, METALS, TROPHIES = _words("adjectives", "nouns", "metals", "trophies")
OTHERS, CURRENCIES, LANGUAGES, GOODS = _words("others", "currencies", "languages", "goods")
_STEMS, _ENDINGS = _words("stems", "endings")
#: Suffixes of town names after a side, or "... of" in names of countries.
PLACES = tuple([stem + ending for stem in _STEMS for ending in _ENDINGS])
#: Kinds of events and what was done there.
CONTESTS: dict[str, str] = TABLES["contests"]
#: Occupations: their works, what makers are called, and the verb for making them; `OTHERS` are without works.
MAKERS: dict[str, tuple[str, str, str]] = {name: tuple(row) for name, row in TABLES["makers"].items()}


PERSON, TOWN, COUNTRY, WORK, EVENT = "person", "town", "country", "work", "event"
#: The last year of all events.
NOW = 2015


@dataclass(eq=False, slots=True)
class Entity:
    """A thing with a passage of its own.

    Attributes:
        kind: one of the five above.
        name: unique in all worlds of an encyclopaedia, aliases included.
        alias: another name, "" for none.
        links: relation, such as "spouse" -> entity.
        values: attribute, such as "born" -> text or whole number.
        passage: id of its passage.
    """

    kind: str
    name: str
    alias: str = ""
    links: dict[str, Entity] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    passage: str = ""


@dataclass(frozen=True)
class World:
    """The entities of one split, by kind; worlds are not linked."""

    people: list[Entity]
    towns: list[Entity]
    countries: list[Entity]
    works: list[Entity]
    events: list[Entity]

    def entities(self) -> list[Entity]:
        return [*self.countries, *self.towns, *self.people, *self.works, *self.events]


@dataclass(frozen=True)
class Census:
    """Number of entities of each kind in a world."""

    people: int
    towns: int
    countries: int
    works: int
    events: int


class Names:
    """Returns every name once, for all worlds, in an order shuffled by `rng`."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self.town = self._shuffled(SIDES, PLACES, "{} {}")
        self.country = self._shuffled(REALMS, PLACES, "{} of {}")
        self.work = self._shuffled(ADJECTIVES, NOUNS, "The {} {}")
        trophies = [f"{metal} {trophy}" for metal in METALS for trophy in TROPHIES]
        self.event = self._shuffled(trophies, list(CONTESTS), "{} {}")
        self._people: set[str] = set()

    def _shuffled(self, first: Sequence[str], second: Sequence[str], form: str) -> Callable[[], str]:
        pairs = self._rng.permutation(len(first) * len(second)).tolist()
        return (form.format(first[pair // len(second)], second[pair % len(second)]) for pair in pairs).__next__

    def person(self, first_names: Sequence[str], surname: str = "") -> str:
        """Return a first name and a surname, the given one if there is one."""
        while True:
            name = f"{pick(self._rng, first_names)} {surname or pick(self._rng, SURNAMES)}"
            if name not in self._people:
                self._people.add(name)
                return name
            surname = ""

    def full_name(self, name: str, first_names: Sequence[str]) -> str:
        """Return a person's name with a second first name; no other person has its ending as a name."""
        first, last = name.split()
        second = self._rng.permutation([each for each in first_names if each != first]).tolist()
        ending = next(f"{each} {last}" for each in second if f"{each} {last}" not in self._people)
        self._people.add(ending)
        return f"{first} {ending}"


def pick(rng: np.random.Generator, choices: Sequence[Any]) -> Any:
    """Draw one of some things."""
    return choices[int(rng.integers(len(choices)))]


def between(rng: np.random.Generator, least: int, most: int) -> int:
    """Draw a whole number, both ends included."""
    return int(rng.integers(least, most + 1))


def make_world(rng: np.random.Generator, given: Names, census: Census) -> World:
    """Return a world with names from `given`; everything else is drawn from `rng`."""
    world = World([], [], [], [], [])
    _make_places(world, rng, given, census)
    _make_people(world, rng, given, census.people)
    _marry(world.people, rng)
    _teach(world.people, rng)
    _make_works(world, rng, given, census.works)
    _make_events(world, rng, given, census.events)
    return world


def _make_places(world: World, rng: np.random.Generator, given: Names, census: Census) -> None:
    for _ in range(census.countries):
        values = {
            "independent": between(rng, 1750, 1960),
            "currency": pick(rng, CURRENCIES),
            "language": pick(rng, LANGUAGES),
        }
        world.countries.append(Entity(COUNTRY, given.country(), values=values))
    for i in range(census.towns):
        country = world.countries[i] if i < census.countries else pick(rng, world.countries)
        values = {
            "founded": between(rng, 820, 1740),
            "river": pick(rng, RIVERS),
            "goods": pick(rng, GOODS),
            "inhabitants": between(rng, 3, 400) * 1000,
        }
        town = Entity(TOWN, given.town(), given.town() if rng.random() < 0.3 else "", {"country": country}, values)
        if i < census.countries:
            country.links["capital"] = town
        world.towns.append(town)


def _make_people(world: World, rng: np.random.Generator, given: Names, count: int) -> None:
    makers = list(MAKERS)
    for born in sorted(between(rng, 1780, 1960) for _ in range(count)):
        woman = rng.random() < 0.5
        parent = _elder(world.people, rng, born, 20, 40, born) if rng.random() < 0.4 else None
        surname = parent.name.rpartition(" ")[2] if parent else ""
        first_names = WOMEN if woman else MEN
        name = given.person(first_names, surname)
        if parent and not name.endswith(f" {surname}"):
            parent = None
        death = born + between(rng, 46, 92)
        values: dict[str, Any] = {
            "born": born,
            "woman": woman,
            "occupation": pick(rng, makers) if rng.random() < 0.75 else pick(rng, OTHERS),
        }
        if death <= NOW:
            values["died"] = death
        links = {"birthplace": pick(rng, world.towns)}
        if parent:
            links["parent"] = parent
        alias = given.full_name(name, first_names) if rng.random() < 0.3 else ""
        world.people.append(Entity(PERSON, name, alias, links, values))


def died(person: Entity) -> int:
    """Year of death; for the living, the last year."""
    return int(person.values.get("died", NOW))


def _elder(
    people: list[Entity], rng: np.random.Generator, born: int, least: int, most: int, alive: int
) -> Entity | None:
    """Draw a person born `least` to `most` years before `born` who was alive in the year `alive`, or None."""
    first = bisect_left(people, born - most, key=_birth)
    last = bisect_right(people, born - least, key=_birth)
    elder = people[between(rng, first, last - 1)] if first < last else None
    return elder if elder and died(elder) >= alive else None


def _birth(person: Entity) -> int:
    return int(person.values["born"])


def _marry(people: list[Entity], rng: np.random.Generator) -> None:
    for i, person in enumerate(people):
        if "spouse" in person.links or rng.random() < 0.4:
            continue
        fitting = [
            other
            for other in people[i + 1 : i + 60]
            if "spouse" not in other.links
            and other.values["woman"] != person.values["woman"]
            and other.values["born"] - person.values["born"] <= 8
            and not _related(person, other)
        ]
        if not fitting:
            continue
        other = pick(rng, fitting)
        year = other.values["born"] + between(rng, 20, 30)
        for one, spouse in ((person, other), (other, person)):
            one.links["spouse"] = spouse
            one.values["married"] = year


def _related(one: Entity, other: Entity) -> bool:
    parents = {id(each.links["parent"]) for each in (one, other) if "parent" in each.links}
    return id(one) in parents or id(other) in parents or one.name.split()[-1] == other.name.split()[-1]


def _teach(people: list[Entity], rng: np.random.Generator) -> None:
    colleagues: dict[str, list[Entity]] = {}
    for person in people:
        elder = colleagues.setdefault(person.values["occupation"], [])
        born = person.values["born"]
        teacher = _elder(elder, rng, born, 15, 50, born + 20)
        elder.append(person)
        if teacher and teacher is not person.links.get("parent") and rng.random() < 0.6:
            person.links["teacher"] = teacher


def _make_works(world: World, rng: np.random.Generator, given: Names, count: int) -> None:
    makers = [person for person in world.people if person.values["occupation"] in MAKERS]
    order = [makers[i] for i in rng.permutation(len(makers)).tolist()]
    for i in range(count):
        maker = order[i] if i < len(order) else pick(rng, order)
        born = maker.values["born"]
        year = between(rng, born + 21, min(born + 60, died(maker)))
        kind = MAKERS[maker.values["occupation"]][0]
        work = Entity(WORK, given.work(), given.work() if rng.random() < 0.2 else "")
        work.links = {"creator": maker, "setting": pick(rng, world.towns)}
        work.values = {"type": kind, "year": year}
        earlier = [
            other
            for other in world.works[-60:]
            if other.values["year"] < year and other.values["type"] != kind and other.links["creator"] is not maker
        ]
        if earlier and rng.random() < 0.5:
            work.links["base"] = pick(rng, earlier)
        maker.links.setdefault("masterpiece", work)
        world.works.append(work)


def _make_events(world: World, rng: np.random.Generator, given: Names, count: int) -> None:
    taken = set()
    while len(world.events) < count:
        winner, second = (pick(rng, world.people) for _ in range(2))
        town = pick(rng, world.towns)
        born = winner.values["born"]
        year = between(rng, born + 18, min(born + 55, died(winner)))
        alive = second.values["born"] + 18 <= year <= died(second)
        if winner is second or not alive:
            continue
        name = given.event()
        contest = next(kind for kind in CONTESTS if name.endswith(kind))
        if (contest, town.name, year) in taken:
            continue
        taken.add((contest, town.name, year))
        links = {"winner": winner, "second": second, "place": town}
        world.events.append(Entity(EVENT, name, links=links, values={"contest": contest, "year": year}))
