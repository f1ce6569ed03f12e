"""Time of credit methods: every recipe on one table, and from fresh texts over the size of a batch."""

from __future__ import annotations

import dataclasses
import functools
import gc
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from agentgym.trajectory import Reply, StepTable
from benchmarks import options
from benchmarks.speed.record import Measurement
from benchmarks.speed.timing import best_milliseconds

Shape = tuple[int, int, int]
#: Groups, episodes per group, steps per episode.
SHAPE = (16, 8, 50)
SIZES = ((8, 4, 50), SHAPE, (32, 16, 50), (64, 16, 50), (256, 5, 4))
QUICK_SIZES = ((8, 4, 50), SHAPE, (256, 5, 4))
METHODS = (*options.METHODS[:2], "hgpo", *options.METHODS[2:])
#: Length of an observation in characters.
CHARACTERS = 600
_WORDS = ("a", "the", "and", "table", "lamp", "door", "shelf", "north", "south", "you", "see", "red", "open", "closed")
_CREDIT = "credit"
_TEXTS, _TABLE = f"from fresh texts of {CHARACTERS} characters to advantages", "from a table to advantages"


def _milliseconds(work: Callable[..., Any], *given: Any) -> float:
    """Processor time of one call, without collecting garbage."""
    gc.collect()
    begin = time.process_time()
    work(*given)
    return (time.process_time() - begin) * 1e3


def _words(shape: Shape) -> str:
    return " x ".join(map(str, shape))


def measure_credit(quick: bool) -> list[Measurement]:
    """Return milliseconds to score a table, per method, and over the size of a batch."""
    from baselines.recipes import RECIPES

    table = random_walk_table(0, *SHAPE)
    drawn = np.log(np.random.default_rng(0).uniform(0.1, 1.0, len(table))).tolist()
    replies = [Reply("", token_ids=(0,), logprobs=(logprob,)) for logprob in drawn]  # some methods look at them
    table = dataclasses.replace(table, replies=np.fromiter(replies, np.object_, len(table)))
    found = []
    for name, recipe in RECIPES.items():
        spent = best_milliseconds(functools.partial(recipe, table), 5 if quick else 20)
        found.append(Measurement(f"credit_{name}", _CREDIT, f"{name}, {_words(SHAPE)} steps", True, spent, "ms"))
    return found + measure_sizes(quick, QUICK_SIZES if quick else SIZES)


def measure_sizes(quick: bool, sizes: Sequence[Shape]) -> list[Measurement]:
    """Return milliseconds, and microseconds per step, of interning and of methods, over the size of a batch."""
    from baselines.recipes import RECIPES

    methods = {name: RECIPES[name] for name in METHODS if name in RECIPES}
    found = []
    for shape in sizes:
        texts = FreshTexts(*shape)
        works: dict[tuple[str, str], tuple[Callable[[], Any], Callable[[Any], Any]]] = {
            (_TEXTS, "only the table"): (texts.columns, _table_of),
            (_TEXTS, "only the table, no text shared"): (functools.partial(texts.columns, shared=False), _table_of),
        }
        for name, recipe in methods.items():
            works[_TEXTS, name] = texts.columns, functools.partial(_table_of, method=recipe)
            works[_TABLE, name] = functools.partial(_fresh_table, texts), recipe
        least = dict.fromkeys(works, float("inf"))
        # In turns, so that a busy moment of the machine meets all of them.
        for _ in range(3 if quick else 12):
            for key, (prepare, work) in works.items():
                least[key] = min(least[key], _milliseconds(work, prepare()))
        size = _words(shape)
        for (section, name), spent in least.items():
            short = f"{'texts' if section == _TEXTS else 'table'}_{size}_{name}"
            found.append(Measurement(short, section, name, True, spent, "ms", column=size))
            each, row = f"{section}, per step", spent * 1e3 / len(texts)
            found.append(Measurement(f"{short}_step", each, name, True, row, "µs", column=size))
    return found


def _table_of(columns: dict[str, Any], method: Callable[[StepTable], Any] = lambda table: table) -> Any:
    return method(StepTable.from_arrays(**columns))


def _fresh_table(texts: FreshTexts) -> StepTable:
    return StepTable.from_arrays(**texts.columns())


def random_walk_table(seed: int, groups: int, size: int, length: int, states: int = 300) -> StepTable:
    """Return `groups * size` walks of `length` steps over a ring of states with chords; half succeed, with reward 1."""
    rng = np.random.default_rng(seed)
    episodes = groups * size
    moves = rng.integers(0, 4, (episodes, length))
    chords = rng.integers(0, states, (groups, states))
    columns: dict[str, Any] = {name: [] for name in ("group", "trajectory", "t", "state", "action", "next_state")}
    for episode in range(episodes):
        group, here = divmod(episode, size)[0], 0
        for t, move in enumerate(moves[episode].tolist()):
            there = int(chords[group, here]) if move == 3 else (here + (1, -1, 2)[move]) % states
            after = states + int(episode % 2) if t == length - 1 else there
            for name, value in zip(columns, (group, episode, t, here, move, after), strict=True):
                columns[name].append(value)
            here = there
    won = np.repeat(np.arange(episodes) % 2 == 0, length)
    last = np.tile(np.arange(length) == length - 1, episodes)
    return StepTable.from_arrays(**columns, reward=(won & last).astype(float), won=won)


class FreshTexts:
    """A `random_walk_table` with new strings each time: Python keeps a string's hash, so a second interning is free."""

    def __init__(self, groups: int, size: int, length: int) -> None:
        self.table = table = random_walk_table(0, groups, size, length)
        rng = np.random.default_rng(0)
        filler = " ".join(rng.choice(_WORDS, 40 * CHARACTERS).tolist())
        # One text per state of a group: its own words, then a name that no other state has.
        begins = rng.integers(0, len(filler) - CHARACTERS, (groups, len(table.states))).tolist()

        def texts(states: Any) -> list[bytes]:
            return [
                f"{filler[begins[group][state] :][: CHARACTERS - 14]} #{group:06d}{state:06d}".encode()
                for group, state in zip(table.group.tolist(), states.tolist(), strict=True)
            ]

        self.state, self.next_state = texts(table.state), texts(table.next_state)
        self._goes_on = np.append(np.diff(table.trajectory) == 0, False).tolist()

    def __len__(self) -> int:
        return len(self.table)

    def columns(self, *, shared: bool = True) -> dict[str, Any]:
        """Return the arguments of `StepTable.from_arrays`, all of them lists.

        With `shared`, the next state of a step is the object of the following step's state, as in a rollout.
        """
        table = self.table
        state = [text.decode() for text in self.state]
        if shared:
            following = [*state[1:], ""]
            next_state = [
                after if goes_on else text.decode()
                for after, goes_on, text in zip(following, self._goes_on, self.next_state, strict=True)
            ]
        else:
            next_state = [text.decode() for text in self.next_state]
        return {
            "group": [f"task {group}" for group in table.group.tolist()],
            "trajectory": [f"episode {trajectory}" for trajectory in table.trajectory.tolist()],
            "state": state,
            "action": [f"go {table.actions[action]}" for action in table.action.tolist()],
            "next_state": next_state,
            **{name: getattr(table, name).tolist() for name in ("t", "reward", "won", "valid")},
        }
