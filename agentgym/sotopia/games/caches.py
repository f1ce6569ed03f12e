"""Caches of what follows from utterances and from turns, within one budget of bytes for the whole process."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, TypeVar

from agentgym.sotopia.acts import Turn

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
        """Leave behind what is only remembered."""
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
