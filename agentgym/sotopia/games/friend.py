"""Two strangers find their mutual friend: both score 10 minus their own costs, at least 1, or 0 without success.

The first to name a wrong person loses three points, the first to mention a property, such as a town, half a point.
"""

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar

from agentgym.sotopia.games.game import BEST, Game, Heard, Outcome, Side, Standing, cached, whole
from agentgym.sotopia.games.phrases import read

NAME_COST, PROPERTY_COST = 3.0, 0.5
_KNOWN = re.compile(
    r"\bI (?:do )?know (?:him|her|them|that one)\b|\bme too\b|\bthat(?:'s| is) (?:right|the one|it)\b", re.IGNORECASE
)
#: Attributes, such as "town", with their possible values.
Attributes = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class Friend:
    """A name, and a value for each attribute."""

    name: str
    values: tuple[str, ...]


class Directory:
    """Finds names (one word each, case-sensitive) and properties (case-insensitive) in utterances."""

    def __init__(self, names: frozenset[str], attributes: Attributes) -> None:
        self._names = names
        self._values, self._pattern = _vocabulary(attributes)
        #: Returns the content of an utterance: a single name is a proposal, names and properties are the things.
        self.hear = cached(self._hear)

    def _hear(self, text: str) -> Heard:
        said = read(text)
        names: dict[str, None] = {}  # ordered
        properties: dict[str, None] = {}
        proposed: dict[str, None] = {}
        denied = frozenset(said.denied)
        for part in said.open + said.denied:
            found = []
            for word in self._pattern.findall(part):
                word = _POSSESSIVE.sub("", word)
                if word in self._names:
                    found.append(word)
                elif word.lower() in self._values:
                    properties[word.lower()] = None
            names.update(dict.fromkeys(found))
            if part not in denied:
                proposed.update(dict.fromkeys(found))
        terms = next(iter(proposed)) if len(proposed) == 1 else None
        agrees = said.yes or _KNOWN.search(text) is not None
        return Heard(terms, agrees, said.no, said.asks, (*names, *properties))


@lru_cache(maxsize=256)
def _vocabulary(attributes: Attributes) -> tuple[frozenset[str], re.Pattern[str]]:
    """Return all lower-case properties, and a pattern for them and for words; longer properties come first."""
    values = frozenset([value.lower() for _, values in attributes for value in values])
    several = sorted([value for value in values if not _WORD.fullmatch(value)], key=lambda each: (-len(each), each))
    whole_words = [rf"(?<!\w){re.escape(value)}(?!\w)" for value in several]
    return values, re.compile("|".join([*whole_words, r"\w+(?:['\u2019]\w+)*"]), re.IGNORECASE)


_WORD = re.compile(r"\w+")
#: "Don's" is Don; "Don't" is not.
_POSSESSIVE = re.compile(r"['\u2019]s$", re.IGNORECASE)


@dataclass(frozen=True)
class FriendSide(Side):
    """One role and its friends."""

    lapses: ClassVar[bool] = True
    role: int
    attributes: Attributes
    friends: tuple[Friend, ...]

    def hear(self, role: int, text: str) -> Heard:
        return self._directory.hear(text)

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset([friend.name for friend in self.friends])

    @cached_property
    def _directory(self) -> Directory:
        return Directory(self.names, self.attributes)

    def matching(self, properties: frozenset[str]) -> tuple[str, ...]:
        """Return the names of the friends that match lower-case values, one of each mentioned attribute."""
        asked = [values & properties for values in self._values]
        if not any(asked):
            return ()
        return tuple([
            friend.name
            for friend in self.friends
            if all(not some or value.lower() in some for value, some in zip(friend.values, asked, strict=True))
        ])  # fmt: skip

    @cached_property
    def _values(self) -> list[frozenset[str]]:
        return [frozenset([value.lower() for value in values]) for _, values in self.attributes]


@dataclass(frozen=True)
class MutualFriend(Game):
    """A search for the one friend that both know; `friends` of roles 0 and 1 are private."""

    family: ClassVar[str] = "friend"
    lapses: ClassVar[bool] = True
    attributes: Attributes
    friends: tuple[tuple[Friend, ...], tuple[Friend, ...]]

    def __post_init__(self) -> None:
        first, second = ({friend.name for friend in friends} for friends in self.friends)
        if len(first & second) != 1 or (len(first), len(second)) != (len(self.friends[0]), len(self.friends[1])):
            raise ValueError(f"both must know one and the same friend, and names must differ, got {self.friends}")

    @cached_property
    def mutual(self) -> str:
        first, second = self.sides
        return next(iter(first.names & second.names))

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset([friend.name for friends in self.friends for friend in friends])

    @cached_property
    def _directory(self) -> Directory:
        return Directory(self.names, self.attributes)

    def hear(self, role: int, text: str) -> Heard:
        return self._directory.hear(text)

    @cached_property
    def sides(self) -> tuple[FriendSide, FriendSide]:
        return FriendSide(0, self.attributes, self.friends[0]), FriendSide(1, self.attributes, self.friends[1])

    def cost(self, things: tuple[str, ...]) -> float:
        """Return the cost of mentioning these names and properties."""
        named = self.names.intersection(things)
        return NAME_COST * len(named - {self.mutual}) + PROPERTY_COST * (len(things) - len(named))

    def settle(self, standing: Standing) -> Outcome:
        if standing.agreed != self.mutual:
            return Outcome(standing.agreed, (0, 0))
        first, second = (max(1, whole(BEST - self.cost(things))) for things in standing.things)
        return Outcome(standing.agreed, (first, second))

    @property
    def solvable(self) -> bool:
        return True  # the mutual friend can be named at once

    def tell(self, terms: Any) -> str:
        return str(terms)
