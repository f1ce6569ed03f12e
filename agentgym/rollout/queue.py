"""Asking a policy without waiting for the slowest reply: observations go in, replies come out as they are finished."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from agentgym.rollout.groups import Policy, act_each
from agentgym.trajectory import Reply

_T = TypeVar("_T")
_Asked = tuple[Sequence[int], Sequence[Any], Mapping[str, NDArray[Any]], Sequence[np.random.Generator]]


class ReplyQueue(Protocol):
    """Requests on their way to a policy.

    A policy that answers single requests as they finish has a method `reply_queue()`, which returns one of these. What
    it promises: a reply depends on its observation, its infos and its own generator, never on which other requests
    there are or on when they are answered.
    """

    def put(
        self,
        names: Sequence[int],
        observations: Sequence[Any],
        infos: Mapping[str, NDArray[Any]],
        rngs: Sequence[np.random.Generator],
    ) -> None:
        """Ask for some replies, and do not wait.

        Args:
            names: n integers by which the replies are told apart; none of them is on its way.
            observations: n, as `agentgym.rollout.Policy.act` takes them.
            infos: n entries in each column.
            rngs: n generators, from which nothing else draws before the reply is there.
        """
        ...

    def get(self) -> list[tuple[int, Reply | Exception]]:
        """Wait until something is answered, and return what is: names, and replies or why there is none.

        Called only while something is on its way; never an empty list, and each name once. An exception that is raised
        here is the policy's and ends it all.
        """
        ...

    def close(self) -> None:
        """Give up what is on its way."""
        ...


def answers_of(queue: Any, found: Sequence[tuple[int, _T]], waiting: Collection[int]) -> Sequence[tuple[int, _T]]:
    """Return what the `get` of a queue answered, if it is what such a queue promises.

    Args:
        queue: named by errors.
        found: pairs of a name and an answer.
        waiting: names of what is on its way.

    Raises:
        TypeError: it is no list of pairs.
        ValueError: it is empty, which asked for again and again would never end; or a name is not on its way, or comes
            twice.
    """
    kind = type(queue).__name__
    if not isinstance(found, (list, tuple)) or not all(
        isinstance(one, (tuple, list)) and len(one) == 2 for one in found
    ):
        raise TypeError(
            f"{kind}.get must return a list of pairs (name, reply), where a reply that failed is an exception, got "
            f"{found!r:.200}"
        )
    if not found:
        raise ValueError(
            f"{kind}.get returned nothing while {len(waiting)} requests are on their way ({_few(waiting)}): it must "
            "wait until at least one is answered, or return an exception for each that never will be"
        )
    names = [name for name, _ in found]
    unknown = [name for name in names if name not in waiting]
    twice = [name for name in names if names.count(name) > 1] if len(set(names)) < len(names) else []
    if unknown or twice:
        wrong = f"{unknown[0]!r}, which is not on its way" if unknown else f"{twice[0]!r} twice"
        raise ValueError(
            f"{kind}.get answered {wrong}: each name that `put` was given is answered once; on their way are "
            f"{_few(waiting)}"
        )
    return found


def _few(names: Collection[int]) -> str:
    shown = [str(name) for name, _ in zip(names, range(8), strict=False)]
    return ", ".join(shown) + (", ..." if len(names) > len(shown) else "")


class InTurn:
    """The queue of a policy that has none: each `get` answers what one `put` asked, in their order.

    Args:
        policy: asked as `agentgym.rollout.act_each` says.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._asked: deque[_Asked] = deque()

    def put(
        self,
        names: Sequence[int],
        observations: Sequence[Any],
        infos: Mapping[str, NDArray[Any]],
        rngs: Sequence[np.random.Generator],
    ) -> None:
        """Note what is asked."""
        self._asked.append((names, observations, infos, rngs))

    def get(self) -> list[tuple[int, Reply | Exception]]:
        """Ask the policy; its exceptions are those of the requests at hand."""
        names, observations, infos, rngs = self._asked.popleft()
        try:
            replies = act_each(self._policy, observations, infos, rngs)
        except Exception as error:
            return [(name, error) for name in names]
        if len(replies) != len(names):
            raise ValueError(
                f"{type(self._policy).__name__}.act answered {len(replies)} replies to {len(names)} observations"
            )
        return list(zip(names, replies, strict=True))

    def close(self) -> None:
        """Forget what is asked."""
        self._asked.clear()


def reply_queue(policy: Policy) -> ReplyQueue | None:
    """Return a new queue of a policy that has one; None of any other, for which there is `InTurn`."""
    methods = {"act", "act_each", "reply_queue"}
    # A subclass that overrides only `act` does not mean the queue of its parent.
    owner = next((kind for kind in type(policy).__mro__ if methods & vars(kind).keys()), type(policy))
    if "reply_queue" in vars(owner) or "reply_queue" in vars(policy):
        made: ReplyQueue | None = policy.reply_queue()  # type: ignore[attr-defined]
        return made
    return None
