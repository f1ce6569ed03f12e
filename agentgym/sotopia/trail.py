"""Remembers what follows from the turns of dialogues, so that every turn is read once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from agentgym.sotopia.dialogue import Turn
from agentgym.sotopia.games.caches import charge, register

_T = TypeVar("_T")
#: After so many turns of all dialogues it begins anew.
_MOST = 512


class Trail(Generic[_T]):
    """A tree of the turns of dialogues that begin alike, with a value after each turn.

    Args:
        start: the value before the first turn.
        step: returns the value after a turn from the value before; it must not change that.

    >>> trail = Trail(0, lambda count, turn: count + 1)
    >>> trail.after(()), trail.after([Turn(0, (("none", ""), ("none", "")))])
    (0, 1)
    """

    def __init__(self, start: _T, step: Callable[[_T, Turn], _T]) -> None:
        self._step = step
        self._root: tuple[_T, dict[Any, Any]] = (start, {})
        self._size = 0
        register(self)

    def clear(self) -> None:
        """Forget all turns."""
        self._root, self._size = (self._root[0], {}), 0

    def after(self, turns: Iterable[Turn]) -> _T:
        """Return the value after these turns."""
        if self._size > _MOST:
            self.clear()
        value, following = self._root
        for turn in turns:
            node = following.get(turn.acts)
            if node is None:
                node = following[turn.acts] = (self._step(value, turn), {})
                self._size += 1
                charge(*[act.text for act in turn.acts])
            value, following = node
        return value
