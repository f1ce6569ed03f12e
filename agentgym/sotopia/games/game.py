"""A game reads offers, acceptances and refusals from speech and scores the first agreement."""

import functools
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from agentgym.outside.dialogue import Turn

#: Highest goal score; scores are whole numbers from 0.
BEST = 10


class Heard(NamedTuple):
    """Content of one utterance, which may accept or refuse the other's proposal or ask something.

    `terms`: the proposal, such as a price, None for none or an unclear one; `things`: mentioned names and properties,
    in a game where they cost.
    """

    terms: Any = None
    accepts: bool = False
    refuses: bool = False
    asks: bool = False
    things: tuple[str, ...] = ()


_FLAGS = (False, True)
_NO_TERMS = {(yes, no, asks): Heard(None, yes, no, asks) for yes in _FLAGS for no in _FLAGS for asks in _FLAGS}


def heard(terms: Any, accepts: bool, refuses: bool, asks: bool) -> Heard:
    """Return a `Heard`; those without terms, the most frequent, are shared objects."""
    return _NO_TERMS[accepts, refuses, asks] if terms is None else Heard(terms, accepts, refuses, asks)


class Standing(NamedTuple):
    """State of a game; hashable.

    Attributes:
        offers: latest terms of each role that were not refused since.
        role: the role that moved last; -1 before the first move.
        move: "offer", "accept", "refuse", "ask", "talk", or the kind of an act that is not spoken.
        agreed: the agreed terms.
        things: what each role mentioned first, see `Heard`.
    """

    offers: tuple[Any, Any] = (None, None)
    role: int = -1
    move: str = ""
    agreed: Any = None
    things: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())


class Outcome(NamedTuple):
    """Agreed terms (None without) and goal scores of roles 0 and 1, 0..10 (both 0 without agreement)."""

    agreed: Any
    goals: tuple[int, int]


class Reader(ABC):
    """Follows a game through a dialogue: the game itself, and each side."""

    #: An offer lapses with the next utterance of the role that made it.
    lapses: ClassVar[bool] = False

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name in self.__dataclass_fields__}

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @abstractmethod
    def hear(self, role: int, text: str) -> Heard:
        """Return the content of a role's utterance."""

    def read(self, standing: Standing, turn: Turn) -> Standing:
        """Return the state after a turn; simultaneous utterances do not answer each other."""
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
        """Return the state after all turns of a dialogue."""
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
    """The knowledge of one role: its own preferences, never the other's."""

    role: int

    @cached_property
    def notes(self) -> dict[str, Any]:
        """Caches of players for this side, by names that the players choose."""
        return {}


class DealSide(Side):
    """A side of a game that ends with terms that both accept.

    `top`: worth of the highest opening that is still acceptable; `aim`: worth from which a player likes terms;
    `novelty`: concession that a new proposal of the other counts as.
    """

    top: float = float(BEST)
    aim: ClassVar[float] = 6.5
    novelty: ClassVar[float] = 0.0

    @abstractmethod
    def worth(self, terms: Any) -> float:
        """Return the worth of terms to this side, 0..10 in most games, 10 is best."""

    @abstractmethod
    def propose(self, level: float, wishes: Sequence[Any], said: Sequence[Any]) -> Any:
        """Return terms of worth `level`, if there are such, that the other may like.

        `wishes` and `said` are the other's and the own proposals, oldest first.
        """

    @abstractmethod
    def phrase(self, terms: Any, form: int) -> str:
        """Return a sentence that proposes terms; `form` selects the wording."""


class Game(Reader):
    """A game between two roles; `family` is its name, and `material` whether the goal is money or things."""

    family: ClassVar[str]
    material: ClassVar[bool] = False

    @cached_property
    @abstractmethod
    def sides(self) -> tuple[Side, Side]:
        """Return what roles 0 and 1 know, always the same objects."""

    def goals(self, terms: Any) -> tuple[int, int]:
        """Return the goal scores of terms, in a game in which nothing else matters."""
        raise NotImplementedError

    def settle(self, standing: Standing) -> Outcome:
        """Return the outcome if the dialogue ends now."""
        agreed = standing.agreed
        return Outcome(agreed, (0, 0) if agreed is None else self.goals(agreed))

    @property
    @abstractmethod
    def solvable(self) -> bool:
        """Some outcome gives both more than 6."""

    @abstractmethod
    def tell(self, terms: Any) -> str:
        """Return terms in words."""


def _with(offers: tuple[Any, Any], role: int, terms: Any) -> tuple[Any, Any]:
    return (terms, offers[1]) if role == 0 else (offers[0], terms)


def whole(score: float) -> int:
    """Return a score as a whole number in 0..10, halves upwards."""
    return min(BEST, max(0, int(score + 0.5 + 1e-9))) if score > 0 else 0


_V = TypeVar("_V")
#: Bytes of all caches together.
MOST_HELD = 1 << 26
#: Bytes per entry: a constant, and per character of its text, which has up to four and is repeated in the parts of
#: the value.
_ENTRY, _CHARACTER = 500, 12
#: Turns of all dialogues after which a tree is cleared.
_MOST_TURNS = 512
#: The next node for each pair of acts, and under None the value: one object per turn saves memory.
_Node = dict[Any, Any]

_held = 0
_caches: weakref.WeakSet[Any] = weakref.WeakSet()


def _charge(characters: int) -> None:
    """Count an entry made from a text; when the budget is spent, clear all caches."""
    global _held
    _held += _ENTRY + _CHARACTER * characters
    if _held > MOST_HELD:
        _held = 0
        for cache in list(_caches):
            cache.clear()


class UtteranceCache(Generic[_V]):
    """Caches what was read from utterances; a copy, pickled too, begins empty."""

    __slots__ = ("__weakref__", "get", "known")

    def __init__(self) -> None:
        self.known: dict[str, _V] = {}
        self.get = self.known.get
        _caches.add(self)

    def keep(self, text: str, value: _V) -> None:
        _charge(len(text))
        self.known[text] = value

    def clear(self) -> None:
        self.known.clear()

    def __reduce__(self) -> Any:
        return UtteranceCache, ()


def cached(read: Callable[[str], _V]) -> Callable[[str], _V]:
    """Return a cached function of an utterance."""
    cache: UtteranceCache[_V] = UtteranceCache()
    get, keep = cache.get, cache.keep

    @functools.wraps(read)
    def cached_read(text: str) -> _V:
        known = get(text)
        if known is None:
            known = read(text)
            keep(text, known)
        return known

    return cached_read


class TurnTree(Generic[_V]):
    """Caches a value after each turn of dialogues with a common beginning; `step` must not change the old value."""

    def __init__(self, start: _V, step: Callable[[_V, Turn], _V]) -> None:
        self._step = step
        self._root: _Node = {None: start}
        self._size = 0
        #: The last dialogue and its value: the next one mostly begins with it.
        self._last: tuple[tuple[Turn, ...], _Node] = (), self._root
        _caches.add(self)

    def clear(self) -> None:
        self._root, self._size = {None: self._root[None]}, 0
        self._last = (), self._root

    def after(self, turns: Iterable[Turn]) -> _V:
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
