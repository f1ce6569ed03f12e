"""What a game in a dialogue is: how it is read, and how it is scored.

A game reads the utterances of a dialogue for offers, acceptances and refusals, and computes the goal scores from what
was agreed. Only what is spoken counts: a nod is no acceptance. What was agreed first holds, whatever is said later.
"""

from __future__ import annotations

import functools
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from agentgym.sotopia.acts import Turn

#: Goal scores are whole numbers from 0 to this.
BEST = 10


class Heard(NamedTuple):
    """What one utterance says.

    Attributes:
        terms: what it proposes, such as a price; None for nothing, or for nothing clear.
        accepts: it agrees with what the other proposed.
        refuses: it turns that down.
        asks: it asks something.
        things: names and properties that it brings up, in a game where that costs.
    """

    terms: Any = None
    accepts: bool = False
    refuses: bool = False
    asks: bool = False
    things: tuple[str, ...] = ()


_FLAGS = (False, True)
_NO_TERMS = {(yes, no, asks): Heard(None, yes, no, asks) for yes in _FLAGS for no in _FLAGS for asks in _FLAGS}


def heard(terms: Any, accepts: bool, refuses: bool, asks: bool) -> Heard:
    """Return a `Heard`; those without terms, which most are, are always the same objects."""
    return _NO_TERMS[accepts, refuses, asks] if terms is None else Heard(terms, accepts, refuses, asks)


class Standing(NamedTuple):
    """How a game stands after some turns, by default before the first; hashable.

    Attributes:
        offers: the latest terms of either role that were not refused since.
        role: who moved last; -1 before the first move.
        move: what that was: "offer", "accept", "refuse", "ask", "talk", or the kind of an act that is not spoken.
        agreed: the terms agreed on.
        things: what each role brought up before the other did, see `Heard`.
    """

    offers: tuple[Any, Any] = (None, None)
    role: int = -1
    move: str = ""
    agreed: Any = None
    things: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())


class Outcome(NamedTuple):
    """What came of a game.

    Attributes:
        agreed: the terms agreed on; None without agreement.
        goals: goal scores of roles 0 and 1, whole numbers 0..10; both 0 without agreement.
    """

    agreed: Any
    goals: tuple[int, int]


class Reader(ABC):
    """Who follows a game through a dialogue: the game itself, and each side."""

    #: An offer lapses when who made it says something else.
    lapses: ClassVar[bool] = False

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name in self.__dataclass_fields__}

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @abstractmethod
    def hear(self, role: int, text: str) -> Heard:
        """Return what an utterance of a role says."""

    def read(self, standing: Standing, turn: Turn) -> Standing:
        """Return how the game stands after a turn; of what is said at once, nothing answers the other."""
        before = standing
        for role, (kind, text) in enumerate(turn.acts):
            if kind == "none":
                continue
            if kind != "speak":
                standing = Standing(standing.offers, role, kind, standing.agreed, standing.things)
                continue
            standing = self._follow(standing, before, role, self.hear(role, text))
        return standing

    def follow(self, turns: Iterable[Turn]) -> Standing:
        """Return how the game stands after all turns of a dialogue."""
        standing = Standing()
        for turn in turns:
            standing = self.read(standing, turn)
        return standing

    def _follow(self, standing: Standing, before: Standing, role: int, heard: Heard) -> Standing:
        terms, accepts, refuses, asks, brought = heard
        offers, _, _, agreed, things = standing
        other = 1 - role
        theirs = before.offers[other]
        if brought:
            known = things[role] + before.things[other]
            new = tuple([each for each in brought if each not in known])
            things = (things[0] + new, things[1]) if role == 0 else (things[0], things[1] + new)
        same = theirs is not None and (terms == theirs or (accepts and terms is None))
        if same and not refuses and (accepts or not asks):
            move, agreed = "accept", theirs if agreed is None else agreed
        elif terms is not None and terms != theirs:
            move, offers = "offer", _with(offers, role, terms)
        else:
            move = "refuse" if refuses else "ask" if asks else "talk"
            if self.lapses:
                offers = _with(offers, role, None)
            if refuses and offers[other] == theirs:
                offers = _with(offers, other, None)
        return Standing(offers, role, move, agreed, things)


class Side(Reader):
    """What one role, 0 or 1, knows of a game: what its own preferences are, never the other's."""

    role: int

    @cached_property
    def notes(self) -> dict[str, Any]:
        """What players remember about this side, by their own names for it."""
        return {}


class DealSide(Side):
    """A side of a game that ends with terms which both accept.

    Attributes:
        top: the worth of the best terms that may be asked for without offence.
        aim: worth from which terms are good, in a player's eyes.
        novelty: what a new proposal of the other counts as a concession, however it is liked.
    """

    top: float = float(BEST)
    aim: ClassVar[float] = 6.5
    novelty: ClassVar[float] = 0.0

    @abstractmethod
    def worth(self, terms: Any) -> float:
        """Return what terms are worth to this side: 0..10 in most games, 10 is best."""

    @abstractmethod
    def propose(self, level: float, wishes: Sequence[Any], said: Sequence[Any]) -> Any:
        """Return terms of at least this worth that the other may like.

        Args:
            level: their least worth, if there are such terms.
            wishes: what the other proposed, oldest first.
            said: what this side proposed, oldest first.
        """

    @abstractmethod
    def phrase(self, terms: Any, form: int) -> str:
        """Return a sentence that proposes terms; other forms are other words."""


class Game(Reader):
    """A game between two roles.

    Attributes:
        family: "bargain", "divide", "friend" or "schedule".
        material: the goal is money or things.
    """

    family: ClassVar[str]
    material: ClassVar[bool] = False

    @cached_property
    @abstractmethod
    def sides(self) -> tuple[Side, Side]:
        """What roles 0 and 1 know, always the same objects."""

    def goals(self, terms: Any) -> tuple[int, int]:
        """Return the goal scores of terms, in a game in which nothing else matters."""
        raise NotImplementedError

    def settle(self, standing: Standing) -> Outcome:
        """Return the outcome when the dialogue ends as it stands."""
        agreed = standing.agreed
        return Outcome(agreed, (0, 0) if agreed is None else self.goals(agreed))

    @property
    @abstractmethod
    def solvable(self) -> bool:
        """There is an outcome in which both score more than 6."""

    @abstractmethod
    def tell(self, terms: Any) -> str:
        """Return terms in words."""


def _with(offers: tuple[Any, Any], role: int, terms: Any) -> tuple[Any, Any]:
    return (terms, offers[1]) if role == 0 else (offers[0], terms)


def whole(score: float) -> int:
    """Return a score as a whole number in 0..10, halves upwards.

    >>> whole(6.5), whole(-3.0), whole(11.2)
    (7, 0, 10)
    """
    return min(BEST, max(0, int(score + 0.5 + 1e-9))) if score > 0 else 0


_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")
#: Bytes that all caches together may hold.
MOST_HELD = 1 << 26
#: What an entry counts for, in bytes: itself, and each character of its text, which has up to four and stands in the
#: parts of the value again.
_ENTRY, _CHARACTER = 500, 12
#: Turns of all dialogues after which a tree begins anew.
_MOST_TURNS = 512
#: What follows each pair of acts, a node again, and under None the value: one object a turn, of which there are many.
_Node = dict[Any, Any]

_held = 0
_caches: weakref.WeakSet[Any] = weakref.WeakSet()


def _charge(characters: int) -> None:
    """Count an entry made from a text; when the budget is spent, all caches begin anew."""
    global _held
    _held += _ENTRY + _CHARACTER * characters
    if _held > MOST_HELD:
        _held = 0
        for cache in list(_caches):
            cache.clear()


class UtteranceCache(Generic[_K, _V]):
    """Remembers what was read from utterances; a copy of it, pickled too, begins empty.

    >>> cache = UtteranceCache()
    >>> cache.keep((0, "Hi."), "a greeting", "Hi.")
    >>> cache.get((0, "Hi.")), cache.get((1, "Hi."))
    ('a greeting', None)
    """

    __slots__ = ("__weakref__", "get", "known")

    def __init__(self) -> None:
        self.known: dict[_K, _V] = {}
        self.get = self.known.get
        _caches.add(self)

    def keep(self, key: _K, value: _V, text: str) -> None:
        """Remember what was read from a text, under a key."""
        _charge(len(text))
        self.known[key] = value

    def clear(self) -> None:
        """Forget everything."""
        self.known.clear()

    def __reduce__(self) -> Any:
        return UtteranceCache, ()


def cached(read: Callable[[str], _V]) -> Callable[[str], _V]:
    """Return a function of an utterance with a cache before it."""
    cache: UtteranceCache[str, _V] = UtteranceCache()
    get, keep = cache.get, cache.keep

    @functools.wraps(read)
    def cached_read(text: str) -> _V:
        known = get(text)
        if known is None:
            known = read(text)
            keep(text, known, text)
        return known

    return cached_read


class TurnTree(Generic[_V]):
    """Remembers a value after each turn of dialogues that begin alike, so that every turn is read once.

    Args:
        start: the value before the first turn.
        step: returns the value after a turn from the value before; it must not change that.

    >>> from agentgym.sotopia.acts import NONE
    >>> tree = TurnTree(0, lambda count, turn: count + 1)
    >>> tree.after(()), tree.after([Turn(0, (NONE, NONE))])
    (0, 1)
    """

    def __init__(self, start: _V, step: Callable[[_V, Turn], _V]) -> None:
        self._step = step
        self._root: _Node = {None: start}
        self._size = 0
        #: The dialogue asked about last, and what is known after it: mostly the next one begins with it.
        self._last: tuple[tuple[Turn, ...], _Node] = (), self._root
        _caches.add(self)

    def clear(self) -> None:
        """Forget all turns."""
        self._root, self._size = {None: self._root[None]}, 0
        self._last = (), self._root

    def after(self, turns: Iterable[Turn]) -> _V:
        """Return the value after these turns."""
        if self._size > _MOST_TURNS:
            self.clear()
        turns = tuple(turns)
        begun, node = self._last
        if turns[: len(begun)] != begun:
            begun, node = (), self._root
        for turn in turns[len(begun) :]:
            acts = turn.acts
            known = node.get(acts)
            if known is None:
                known = node[acts] = {None: self._step(node[None], turn)}
                self._size += 1
                _charge(len(acts[0].text) + len(acts[1].text))
            node = known
        self._last = turns, node
        value: _V = node[None]
        return value
