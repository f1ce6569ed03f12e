"""Two strangers find out whom they both know.

Whoever first names somebody who is not the mutual friend loses three points; whoever first brings up a property of
friends, such as a town or an employer, loses half a point. So listing all names does not win: ask about properties
first. Both score 10 less their own costs, at least 1, once one names the mutual friend and the other confirms; 0 when
they settle on somebody else or on nobody.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from agentgym.sotopia.games.game import BEST, Game, Heard, Outcome, Side, Standing, whole
from agentgym.sotopia.games.phrases import clauses, denied, says_no, says_yes, words

NAME_COST, PROPERTY_COST = 3.0, 0.5
_KNOWN = re.compile(r"\bI (?:do )?know (?:him|her|them|that one)\b|\bme too\b|\bthat(?:'s| is) (?:the one|it)\b", re.I)


#: Attributes, such as "town", each with the values that people may speak of.
Attributes = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class Friend:
    """Somebody a role knows: a name, and a value for each attribute."""

    name: str
    values: tuple[str, ...]


class Directory:
    """Finds names and properties in utterances; names with their capitals, properties without regard to them."""

    def __init__(self, names: frozenset[str], attributes: Attributes) -> None:
        values = {value.lower() for _, values in attributes for value in values}
        self._names = re.compile("|".join(words(names)) or r"(?!)")
        self._values = re.compile("|".join(words(values)) or r"(?!)", re.IGNORECASE)

    def hear(self, text: str) -> Heard:
        """Return what an utterance says: one name is a proposal, names and properties are the things."""
        parts = clauses(text)
        names, proposed, properties = {}, {}, {}  # dicts, for their order
        for part in parts:
            properties.update(dict.fromkeys([value.lower() for value in self._values.findall(part)]))
            found = dict.fromkeys(self._names.findall(self._values.sub(" ", part)))
            names.update(found)
            if not denied(part):
                proposed.update(found)
        terms = next(iter(proposed)) if len(proposed) == 1 else None
        agrees = says_yes(parts) or _KNOWN.search(text) is not None
        return Heard(terms, agrees, says_no(parts), text.rstrip().endswith("?"), (*names, *properties))


_directory = lru_cache(maxsize=1024)(Directory)


@lru_cache(maxsize=16384)
def _hear(names: frozenset[str], attributes: Attributes, text: str) -> Heard:
    return _directory(names, attributes).hear(text)


@dataclass(frozen=True)
class FriendSide(Side):
    """One role and the friends it knows."""

    family: ClassVar[str] = "friend"
    lapses: ClassVar[bool] = True
    role: int
    attributes: Attributes
    friends: tuple[Friend, ...]

    def hear(self, role: int, text: str) -> Heard:
        """Return what an utterance says: of names, it knows those of its own friends."""
        return _hear(self.names(), self.attributes, text)

    def names(self) -> frozenset[str]:
        """Return the names of the friends."""
        return _names(self.friends)

    def matching(self, properties: frozenset[str]) -> tuple[str, ...]:
        """Return the names of the friends who have, of each attribute spoken of, one of these values.

        Args:
            properties: lower-case values.
        """
        return _matching(self, properties)


@lru_cache(maxsize=4096)
def _names(friends: tuple[Friend, ...]) -> frozenset[str]:
    return frozenset([friend.name for friend in friends])


@lru_cache(maxsize=16384)
def _matching(side: FriendSide, properties: frozenset[str]) -> tuple[str, ...]:
    asked = [properties.intersection([value.lower() for value in values]) for _, values in side.attributes]
    if not any(asked):
        return ()
    return tuple(
        friend.name
        for friend in side.friends
        if all(not some or value.lower() in some for value, some in zip(friend.values, asked, strict=True))
    )


@dataclass(frozen=True)
class MutualFriend(Game):
    """A search for the one friend whom both know.

    Args:
        attributes: what is known of friends; their values hold at least those of all friends.
        friends: those of roles 0 and 1, each known to itself; they share exactly one name.
    """

    family: ClassVar[str] = "friend"
    lapses: ClassVar[bool] = True
    attributes: Attributes
    friends: tuple[tuple[Friend, ...], tuple[Friend, ...]]

    def __post_init__(self) -> None:
        """Check that there is one mutual friend."""
        counts = [Counter(friend.name for friend in friends) for friends in self.friends]
        if len(counts[0].keys() & counts[1].keys()) != 1 or max(*counts[0].values(), *counts[1].values()) > 1:
            raise ValueError(f"both must know one and the same friend, and names must differ, got {self.friends}")

    @property
    def mutual(self) -> str:
        """The name of the mutual friend."""
        return next(iter(_names(self.friends[0]) & _names(self.friends[1])))

    def hear(self, role: int, text: str) -> Heard:
        """Return what an utterance says."""
        return _hear(_names(self.friends[0] + self.friends[1]), self.attributes, text)

    def private(self, role: int) -> FriendSide:
        """Return what a role knows."""
        return FriendSide(role, self.attributes, self.friends[role])

    def cost(self, things: tuple[str, ...]) -> float:
        """Return what bringing up these names and properties costs."""
        names = _names(self.friends[0]) | _names(self.friends[1])
        wrong = len(names.intersection(things) - {self.mutual})
        return NAME_COST * wrong + PROPERTY_COST * len([thing for thing in things if thing not in names])

    def settle(self, standing: Standing) -> Outcome:
        """Return the outcome."""
        if standing.agreed != self.mutual:
            return Outcome(standing.agreed, (0, 0))
        first, second = (max(1, whole(BEST - self.cost(things))) for things in standing.things)
        return Outcome(standing.agreed, (first, second))

    @property
    def solvable(self) -> bool:
        """Always: the mutual friend can be named at once."""
        return True

    def tell(self, terms: Any) -> str:
        """Return the name."""
        return str(terms)
