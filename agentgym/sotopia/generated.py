"""Generated tasks with games, any number per family, each made from a seed and its number."""

import itertools
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from agentgym.checks import check_name
from agentgym.outside.text import tables_beside
from agentgym.sotopia.games.bargain import BUYER, SELLER, Bargain, dollars
from agentgym.sotopia.games.divide import Divide, Pool, Share
from agentgym.sotopia.games.friend import Friend, MutualFriend
from agentgym.sotopia.games.game import Game
from agentgym.sotopia.games.schedule import Calendar, Schedule
from agentgym.sotopia.profiles import Person, Relationship, Scenario, Task
from agentgym.tasks import Draws

_TABLES = tables_beside(__file__, "generated.toml")
#: Scenarios and goals of each family.
_TEXTS: dict[str, str] = _TABLES["texts"]


def _rows(name: str) -> tuple[Any, ...]:
    return tuple(tuple(row) if isinstance(row, list) else row for row in _TABLES[name])


#: First names with gender and pronouns; `FRIENDS` has the names of mentioned friends.
FIRST_NAMES: tuple[tuple[str, str, str], ...] = tuple(
    (name, gender["name"], gender["pronoun"]) for gender in _TABLES["genders"] for name in gender["names"].split()
)
LAST_NAMES, FRIENDS, DAYS, TIMES, DECISIONS = (
    tuple(_TABLES[name].split()) for name in ("last_names", "friends", "days", "times", "decisions")
)
#: An occupation, and what makes a person known.
OCCUPATIONS = _rows("occupations")
PERSONALITIES, SECRETS, MEETINGS, SALE = map(_rows, ("personalities", "secrets", "meetings", "sale"))
#: Things for sale: name, lowest and highest list price, a remark.
GOODS = _rows("goods")
#: Things to divide: the occasion, and kinds in singular and plural.
OCCASIONS = tuple((occasion, tuple(map(tuple, kinds))) for occasion, kinds in _TABLES["occasions"].items())
#: Attributes of friends: their values.
ATTRIBUTES: dict[str, tuple[str, ...]] = {name: tuple(text.split()) for name, text in _TABLES["attributes"].items()}


@lru_cache(maxsize=512)
def generate(family: str, seed: int, index: int) -> Task:
    """Return a task of a family; equal arguments give equal tasks in any process."""
    check_name(family, FAMILIES, "family")
    if seed < 0 or index < 0:
        raise ValueError(f"seed and index of a generated task must be at least 0, got {seed} and {index}")
    draws = Draws.seeded(seed, FAMILIES.index(family), index)
    people = _people(draws)
    relationships, make = _MAKERS[family]
    relationship = draws.pick(relationships)
    text, goals, game = make(draws)
    named = f"{family}-{seed}-{index}"
    scenario = Scenario(named, family, "generated", text, goals, relationship)
    return Task(named, scenario, people, game, draws.below(2**31))


def _people(draws: Draws) -> tuple[Person, Person]:
    """Return two people with different names, occupations and secrets."""
    parts = [draws.sample(values, 2) for values in (FIRST_NAMES, LAST_NAMES, OCCUPATIONS, PERSONALITIES, SECRETS)]
    first, second = (
        Person(
            id=f"{first}-{last}".lower(),
            first_name=first,
            last_name=last,
            age=20 + draws.below(50),
            occupation=occupation,
            gender=gender,
            gender_pronoun=pronoun,
            public_info=f"{first} {known}.",
            personality_and_values=f"{first} {personality}",
            secret=f"{first} {secret}.",
            decision_making_style=draws.pick(DECISIONS),
        )
        for (first, gender, pronoun), last, (occupation, known), personality, secret in zip(*parts, strict=True)
    )
    return first, second


_Made = tuple[str, tuple[str, str], Game]


def _bargain(draws: Draws) -> _Made:
    thing, low, high, remark = draws.pick(GOODS)
    step = 5 if low >= 50 else 2
    price = float(step * round(draws.uniform(low, high) / step))
    buyer = float(round(price * draws.uniform(0.65, 0.8)))
    seller = float(round(buyer + price * draws.uniform(-0.04, 0.12)))
    words = draws.pick(SALE).format(thing=thing, price=dollars(price), remark=remark)
    targets = {BUYER: buyer, SELLER: seller}
    trades = (BUYER, SELLER) if draws.below(2) else (SELLER, BUYER)
    first, second = (_TEXTS[trade].format(thing=thing, price=dollars(targets[trade])) for trade in trades)
    game = Bargain(price, (targets[trades[0]], targets[trades[1]]), trades)
    return words[0].upper() + words[1:], (first, second), game


#: Counts of three kinds; five to seven things.
_COUNTS: tuple[Share, ...] = tuple(
    counts for counts in itertools.product((1, 2, 3, 4), repeat=3) if 5 <= sum(counts) <= 7
)


@lru_cache(maxsize=len(_COUNTS))
def _values(counts: Share) -> list[Share]:
    """Return values of three kinds with a total of 9 to 12 points."""
    return [
        values
        for values in itertools.product(range(1, 7), repeat=3)
        if 9 <= sum(value * count for value, count in zip(values, counts, strict=True)) <= 12
    ]


def _divide(draws: Draws) -> _Made:
    occasion, kinds = draws.pick(OCCASIONS)
    chosen = tuple(draws.sample(kinds, 3))
    solvable = False
    while not solvable:
        pool = Pool(chosen, draws.pick(_COUNTS))
        values = draws.pick(_values(pool.counts)), draws.pick(_values(pool.counts))
        game = Divide(pool, values)
        solvable = values[0] != values[1] and game.solvable
    worths = (
        [f"each {kind[0]} is worth {value} point{'s' * (value != 1)}" for kind, value in zip(chosen, own, strict=True)]
        for own in values
    )
    first, second = (_TEXTS["divide_goal"].format(values=", ".join(each)) for each in worths)
    return _TEXTS["divide"].format(occasion=occasion, things=pool.tell(pool.counts)), (first, second), game


def _friend(draws: Draws) -> _Made:
    attributes = tuple(draws.sample(list(ATTRIBUTES), 2 + draws.below(2)))
    count = 7 + draws.below(2)
    names = draws.sample(FRIENDS, 2 * count - 1)
    pools = [draws.sample(ATTRIBUTES[attribute], 8) for attribute in attributes]
    everyone = [Friend(name, tuple(draws.pick(pool) for pool in pools)) for name in names]
    own = draws.sample(everyone[:count], count), draws.sample(everyone[count - 1 :], count)
    game = MutualFriend(
        tuple((attribute, ATTRIBUTES[attribute]) for attribute in attributes), (tuple(own[0]), tuple(own[1]))
    )
    lists = (
        [
            f"{friend.name}: " + ", ".join(f"{a} {v}" for a, v in zip(attributes, friend.values, strict=True))
            for friend in friends
        ]
        for friends in own
    )
    first, second = (_TEXTS["friend_goal"].format(friends="\n".join(each)) for each in lists)
    return _TEXTS["friend"], (first, second), game


def _schedule(draws: Draws) -> _Made:
    every = [(day, time) for day in DAYS for time in TIMES]
    chosen = draws.sample(every, 8)
    # Three slots that suit one side only, for each side; one or two that suit both well enough.
    kinds = draws.sample(("first",) * 3 + ("second",) * 3 + ("both", draws.pick(("both", "none"))), 8)
    low, high, fair = (0, 0, 1, 2), (6, 7, 8, 9), (2, 3)
    ranges = {"first": (low, high), "second": (high, low), "both": (fair, fair), "none": ((5, 6), (5, 6))}
    costs = {
        slot: tuple(draws.pick(range_) for range_ in ranges[kind]) for slot, kind in zip(chosen, kinds, strict=True)
    }
    slots = tuple(slot for slot in every if slot in costs)
    own = tuple(costs[slot][0] for slot in slots), tuple(costs[slot][1] for slot in slots)
    game = Schedule(Calendar(slots), own)
    names = [game.tell(number) for number in range(len(slots))]
    text = _TEXTS["schedule"].format(meeting=draws.pick(MEETINGS), slots=", ".join(names))
    lists = ([f"{name} {cost}" for name, cost in zip(names, role, strict=True)] for role in own)
    first, second = (_TEXTS["schedule_goal"].format(costs=", ".join(each)) for each in lists)
    return text, (first, second), game


_STRANGERS = (Relationship.stranger, Relationship.know_by_name)
_CLOSE = (
    Relationship.acquaintance, Relationship.friend, Relationship.romantic_relationship, Relationship.family_member,
)  # fmt: skip
_MAKERS: dict[str, tuple[tuple[Relationship, ...], Callable[[Draws], _Made]]] = {
    "bargain": ((*_STRANGERS, Relationship.acquaintance), _bargain),
    "divide": (_CLOSE, _divide),
    "friend": (_STRANGERS, _friend),
    "schedule": ((Relationship.know_by_name, *_CLOSE), _schedule),
}
#: Families of generated games.
FAMILIES = tuple(_MAKERS)
