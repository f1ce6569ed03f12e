"""The tasks of a shop: goals in splits, and which one an episode has."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.webshop.expert import wished
from agentgym.webshop.goals import Goals
from agentgym.webshop.shop import Shop
from agentgym.webshop.splits import check_split, split_goals


class Tasks:
    """The goals that a shop's visitors may have.

    Args:
        shop: the shop.
        goals: in the original's order; an index of the split "all" is a place in it.
        split_by: what differs between splits, see `splits`.
        winnable: leave out goals that an ideal purchase does not score 1.0.
    """

    def __init__(self, shop: Shop, goals: Goals, split_by: str, winnable: bool) -> None:
        self.shop, self.goals = shop, goals
        self._split_by, self._only_winnable = split_by, winnable

    @cached_property
    def _splits(self) -> dict[str, NDArray[np.int64]]:
        found = split_goals(self.goals.products, self._split_by)
        if self._only_winnable:
            kept = np.array([ideal_score(self.shop, self.goals, i) == 1.0 for i in range(len(self.goals))], np.bool_)
            found = {name: indices[kept[indices]] for name, indices in found.items()}
        return found

    def count(self, split: str) -> int:
        """Number of goals of a split."""
        return len(self._splits[split])

    def task_id(self, index: int) -> str:
        """Return the name of a goal: its kind and its index in the original's order."""
        return f"{self.goals.kind}/{index}"

    def choose(self, split: str, options: Mapping[str, Any], rng: np.random.Generator) -> int:
        """Return the index, in the original's order, of the goal for the options of a reset.

        Args:
            split: to use unless the options name one.
            options: `task_id`, with or without `split`; or any of `split`, `index`.
            rng: draws the index when the options leave it open.

        Raises:
            ValueError: when options exclude each other or name something that does not exist.
        """
        named = check_split(options["split"]) if options.get("split") is not None else None
        if "task_id" in options:
            if "index" in options:
                raise ValueError(
                    f"reset options {sorted(options)} name the goal twice: give 'task_id' (with or without 'split'), "
                    "or 'split' and 'index'"
                )
            return self._by_task_id(options["task_id"], named)
        split = split if named is None else named
        indices = self._splits[split]
        if not len(indices):
            raise ValueError(f"split {split!r} is empty: the shop has only {len(self.goals)} goals; use split 'all'")
        index: Any = options.get("index")
        if index is None:
            index = int(rng.integers(len(indices)))
        if isinstance(index, bool) or not isinstance(index, numbers.Integral) or index < 0:
            raise ValueError(f"option 'index' must be an integer of at least 0, got {index!r}")
        place = int(index)
        if place >= len(indices):
            raise ValueError(
                f"index {index} is out of range: split {split!r} has {len(indices)} goals, use 0 to {len(indices) - 1}"
            )
        return int(indices[place])

    def _by_task_id(self, task_id: Any, split: str | None) -> int:
        kind, _, number = task_id.partition("/") if isinstance(task_id, str) else ("", "", "")
        index = int(number) if number.isdecimal() and number.isascii() and len(number) < 10 else len(self.goals)
        if kind != self.goals.kind or index >= len(self.goals) or self.task_id(index) != task_id:
            last = self.task_id(len(self.goals) - 1)
            raise ValueError(f"unknown task_id {task_id!r}: this shop has {self.task_id(0)!r} to {last!r}")
        allowed = self._splits["all" if split is None else split]
        place = int(np.searchsorted(allowed, index))
        if place == len(allowed) or allowed[place] != index:
            where = f"split {split!r}" if split else "the goals that can be won (repair 'winnable')"
            raise ValueError(f"the task {task_id!r} does not belong to {where}")
        return index


def ideal_score(shop: Shop, goals: Goals, index: int) -> float:
    """Return the score of buying exactly the goal's product with exactly the wished options."""
    position, goal = int(goals.products[index]), goals[index]
    return shop.grade(position, dict(wished(goal, shop.catalogue[position])), goal).score
