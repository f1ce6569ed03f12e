"""The tasks of a shop: goals in disjoint splits (an `agentgym.tasks.Tasks`)."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.outside.text import DataError, read_json
from agentgym.webshop.expert import wished
from agentgym.webshop.goals import ORDER_SEED, Goal, Goals, Wish
from agentgym.webshop.session import Shop

#: All goals in the original's order, and three disjoint splits.
SPLITS = ("all", "train", "validation", "test")
Task = int | Wish
#: The unit that splits do not share.
DISJOINT = ("goal", "product")
_TEST, _VALIDATION = 500, 1000


class Tasks:
    """The goals of a shop; a task is a goal's index in the original's order.

    A task may also be any `Wish`, with the id `"<kind>/<asin>{<options as JSON>}"`: it is in no split. `winnable`
    leaves out goals that an ideal purchase does not score 1.0; a pickle opens the tasks by `reopen` (None: no pickles).
    """

    splits = SPLITS

    def __init__(
        self, shop: Shop, goals: Goals, split_by: str, winnable: bool, reopen: Callable[[], Tasks] | None = None
    ) -> None:
        self.shop, self.goals = shop, goals
        self._split_by, self._only_winnable, self._reopen = split_by, winnable, reopen

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle how to open the tasks, not the shop."""
        if self._reopen is None:
            raise TypeError("tasks that `agentgym.webshop.shop.open_tasks` did not open cannot be pickled")
        return self._reopen, ()

    @property
    def name(self) -> str:
        return f"the shop's {len(self.goals)} {self.goals.kind} goals"

    @cached_property
    def _splits(self) -> dict[str, NDArray[np.int64]]:
        found = split_goals(self.goals.products, self._split_by)
        if self._only_winnable:
            kept = np.array([ideal_score(self.shop, self.goals, i) == 1.0 for i in range(len(self.goals))], np.bool_)
            found = {name: indices[kept[indices]] for name, indices in found.items()}
        return found

    def count(self, split: str) -> int:
        return len(self._splits[split])

    def task_id(self, task: Task) -> str:
        """Return the name of a task: the kind of goals, then the index in the original's order or the wish."""
        if isinstance(task, Wish):
            options = json.dumps(dict(task.options), ensure_ascii=False, separators=(",", ":"))
            return f"{self.goals.kind}/{self.shop.catalogue[task.product].asin}{options}"
        return f"{self.goals.kind}/{task}"

    def goal(self, task: Task) -> Goal:
        goal = self.goals.for_wish(task) if isinstance(task, Wish) else self.goals[task]
        assert goal is not None  # `by_id` and `bought` see to it
        return goal

    def content(self, task: Task) -> list[Any]:
        """Return the goal and the numbers of the catalogue as plain values; see `agentgym.core.TextEnv.content`.

        It has no product texts: a correction of them may change search results, but no score.
        """
        return [list(self.goal(task)), self._numbers]

    @cached_property
    def _numbers(self) -> str:
        catalogue = self.shop.catalogue
        columns = catalogue.prices().astype("<f8").tobytes() + catalogue.choices().astype("<i8").tobytes()
        return f"{len(catalogue)} {hashlib.sha256(columns).hexdigest()}"

    def by_index(self, split: str, index: int) -> int:
        return int(self._splits[split][index])

    def by_id(self, task_id: str, split: str | None) -> Task:
        """Return a task by its id, of any split if that is None; a ValueError shows a valid id."""
        kind, _, number = task_id.partition("/")
        if kind == self.goals.kind and number.endswith("}"):
            return self._wish_by_id(task_id, split)
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

    def bought(self, product: int, options: Mapping[str, str], task: Task) -> Task | None:
        """Return the task of the split of `task` that a purchase fulfils exactly, with score 1.0, else None.

        It is a goal of the shop if every option was chosen, else a `Wish`. With `split_by="product"` the product must
        also belong to the task's split. Goals with words from people or a record are a TypeError.
        """
        wish = Wish(product, tuple(sorted(options.items())))
        try:
            goal = self.goals.for_wish(wish)
        except ValueError:  # a value that a quirk of the pages let be chosen
            return None
        if goal is None or self.shop.grade(product, options, goal).score != 1.0:
            return None
        split, indices = self._split_of(task), self.goals.indices(wish)
        if indices:
            return next((index for index in indices if self._split_of(index) == split), None)
        return wish if self._split_by == "goal" or self._split_of(wish) == split else None

    def _wish_by_id(self, task_id: str, split: str | None) -> Task:
        asin, mark, options = task_id.partition("/")[2].partition("{")
        position = self.shop.catalogue.find(asin)
        try:
            given = read_json(mark + options)
        except DataError as error:
            raise ValueError(f"unknown task_id {task_id!r:.200}: its options are no JSON object, {error}") from None
        if position is None or not all(isinstance(value, str) for value in given.values()):
            raise ValueError(f'unknown task_id {task_id!r:.200}: expected \'<kind>/<asin>{{"<option>":"<value>"}}\'')
        wish = Wish(position, tuple(sorted(given.items())))
        try:
            asked = self.goals.for_wish(wish) is not None
        except TypeError as error:
            raise ValueError(f"unknown task_id {task_id!r:.200}: {error}") from None
        if not asked:
            raise ValueError(f"unknown task_id {task_id!r:.200}: no goal asks for {asin}")
        found: Task = next(iter(self.goals.indices(wish)), wish)
        if self.task_id(found) != task_id:  # one name per task: episodes are grouped by it
            raise ValueError(f"unknown task_id {task_id!r:.200}: this task is {self.task_id(found)!r:.200}")
        if split not in (None, "all"):
            raise ValueError(f"the task {task_id!r:.200} belongs to no split: omit 'split'")
        return wish

    def _split_of(self, task: Task) -> str | None:
        if isinstance(task, Wish):
            same = np.flatnonzero(self.goals.products == task.product)
            return self._split_of(int(same[0])) if self._split_by == "product" and len(same) else None
        for name in SPLITS[1:]:
            indices = self._splits[name]
            place = int(np.searchsorted(indices, task))
            if place < len(indices) and indices[place] == task:
                return name
        return None

    def ids(self, split: str) -> Iterator[str]:
        return map(self.task_id, self._splits[split].tolist())


def ideal_score(shop: Shop, goals: Goals, index: int) -> float:
    """Return the score of buying exactly the goal's product with exactly the wished options."""
    position, goal = int(goals.products[index]), goals[index]
    return shop.grade(position, dict(wished(goal, shop.catalogue[position])), goal).score


def split_goals(products: NDArray[np.int32], by: str) -> dict[str, NDArray[np.int64]]:
    """Return the indices of each split's goals, ascending, for `products` (one position per goal) of shape (goals,).

    By goal, as in the original: 500 test, 1,000 validation, the others train (below 5,000 goals, a tenth and a fifth);
    splits may share products. By product, a fixed draw takes a tenth of the products for test, a fifth for validation.
    """
    count = len(products)
    if by == "goal":
        ranks = np.arange(count)
        test, validation = min(_TEST, count // 10), min(_VALIDATION, count // 5)
    else:
        known = np.unique(products)
        order = list(range(len(known)))
        random.Random(ORDER_SEED).shuffle(order)
        ranks = np.array(order, np.int64)[np.searchsorted(known, products)]
        test, validation = len(known) // 10, len(known) // 5
    bounds = {"train": (test + validation, len(ranks) + 1), "validation": (test, test + validation), "test": (0, test)}
    found = {name: np.flatnonzero((low <= ranks) & (ranks < high)) for name, (low, high) in bounds.items()}
    return {"all": np.arange(count), **found}
