"""Reads the numbers out of the official scenarios whose outcome can be computed: 10 sales, 10 divisions, 10 friends.

Nothing but these texts is needed: list price and both targets, counts and both valuations, both lists of friends. Where
a scenario says otherwise than its own texts would have it, that is an error and no silent guess.
"""

from __future__ import annotations

import re
from functools import lru_cache

from agentgym.outside.text import DataError
from agentgym.sotopia.games.bargain import BUYER, SELLER, Bargain
from agentgym.sotopia.games.divide import Divide, Pool
from agentgym.sotopia.games.friend import Friend, MutualFriend
from agentgym.sotopia.games.game import Game
from agentgym.sotopia.profiles import Scenario
from agentgym.sotopia.text import JUDGE, ROLES, render

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
    """Return the game of a scenario, always the same; None for one whose outcome only a judge can tell.

    Raises:
        DataError: when a sale, a division or a search for a friend lacks a number.
    """
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


def _attributes(told: str) -> list[tuple[str, str]]:
    """Return names and values: "Hobby: Chess  Workplace: Bank", at least two spaces apart."""
    found: list[tuple[str, list[str]]] = []
    gap = ""
    for part in _GAP.split(told):
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
        for name, told in _FRIEND.findall(goal):
            attributes = _attributes(told.strip())
            if names and tuple(attribute for attribute, _ in attributes) != names:
                raise ValueError(f"{name} has other attributes than {', '.join(names)}: {told!r:.200}")
            names = tuple(attribute for attribute, _ in attributes)
            friends.append(Friend(name, tuple(value for _, value in attributes)))
        lists.append(tuple(friends))
    everyone = lists[0] + lists[1]
    values = [tuple(dict.fromkeys(friend.values[i] for friend in everyone)) for i in range(len(names))]
    game = MutualFriend(tuple(zip(names, values, strict=True)), (lists[0], lists[1]))
    declared = _COMMON.search(render(scenario.text, JUDGE))
    if declared is None or declared[1] != game.mutual:
        raise ValueError(f"both lists share {game.mutual!s:.200}, which is not who the scenario names")
    return game


_READERS = {"craigslist_bargains": _bargain, "deal-or-no-deal": _divide, "mutual_friends": _friend}
