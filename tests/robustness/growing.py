"""Trials of time: it grows as the input does, for texts and whatever parses them, tables, numbers, boards and listings.

A clock says nothing on a machine that others use as well, so the long form alone asks one; the short form reads all
texts of `tests.growth` and asks that nothing is raised. And trials of tables: any rows and rewards, every method;
a file of a table, in time and memory. Memory of credit is that of `tests/wrappers/credit/test_scale.py`.
"""

import contextlib
import dataclasses
import itertools
import operator
import tempfile
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from agentgym.outside.text import DataError
from agentgym.sokoban.text import MOST_SIDE, board_text, parse_level
from agentgym.trajectory import StepTable
from agentgym.trajectory.columns import intern
from policies.decode.reply import ReplyEnd
from policies.tiny import tiny_tokenizer
from tests.agentgym import hard_inputs
from tests.agentgym.hard_inputs import COMMANDS, MAZES, NUMBERS, TASKS
from tests.growth import FAMILIES, MOST_GROWTH, growth, seconds, text_of
from tests.robustness.parsers import PARSERS
from tests.robustness.trial import FRAGMENTS, Trial, record
from tests.wrappers.credit.every_method import BRANCHING, CREDIT, FORKED, LINEAR, REWARDS, SHAPES
from tests.wrappers.credit.small_tables import random_table

Work = Callable[[], object]


def credit(name: str, shape: str, n: int) -> Work:
    """Credit n steps."""
    method, table = (CREDIT | BRANCHING)[name], (SHAPES | FORKED)[shape](n)
    method(table)  # what a table keeps is computed once
    return partial(method, table)


def forks(shape: str, n: int) -> Work:
    """Read n steps of episodes that were cut from each other."""
    return lambda: FORKED[shape](n).episode_return


def numbers(name: str, n: int) -> Work:
    """Number n values."""
    return partial(intern, "state", [NUMBERS[name](i) for i in range(n)])


def board(name: str, n: int) -> Work:
    """Parse a board of about n cells."""
    text = MAZES[name](min(round(n**0.5), MOST_SIDE - 1))

    def parse() -> None:
        with contextlib.suppress(DataError):
            board_text(parse_level(text))

    return parse


def receptacles(command: str, held: bool, task: str, n: int) -> Work:
    """Three turns in a room with n receptacles."""
    admissible = hard_inputs.admissible_in_a_crowded_room(command, n)
    return lambda: list(hard_inputs.turns_in_a_crowded_room(admissible, held, task))


def reply(n: int) -> Work:
    """Look for a stop text of ten tokens in a reply of n."""
    tokenizer = tiny_tokenizer(["Px"])
    token, other = (tokenizer(text)["input_ids"][0] for text in "Px")
    over = ReplyEnd(tokenizer, (), ("P" * 9 + "x",))

    def write() -> None:
        ids: list[int] = []
        for _ in range(n):
            ids.append(other if len(ids) % 5 == 4 else token)
            over(ids)

    return write


#: By name: what is done, its arguments but the last, and the smaller size.
INPUTS: dict[str, tuple[Callable[..., Work], list[tuple[object, ...]], int]] = {
    "credit": (credit, list(LINEAR), 5_000),
    "forks": (forks, [(shape,) for shape in FORKED], 2_000),
    "numbers": (numbers, [(name,) for name in NUMBERS], 5_000),
    "board": (board, [(name,) for name in MAZES], 2_025),
    "receptacles": (receptacles, list(itertools.product(COMMANDS, (False, True), TASKS)), 400),
    "reply": (reply, [()], 400),
}


def check(given: list[object]) -> None:
    """Eight times the input takes less than twenty times the processor's time."""
    name, *arguments = given
    work, _, small = INPUTS[str(name)]
    ratio = growth(operator.call, work(*arguments, small), work(*arguments, 8 * small), tries=3)
    assert ratio < MOST_GROWTH, f"{given}: {ratio:.1f} times as long for 8 times {small:,}"


TRIALS = [
    Trial(
        f"growth/{name}", st.sampled_from([[name, *each] for each in inputs]), check, min(len(inputs), 20), cheap=False,
        long=True,
    )
    for name, (_, inputs, _) in INPUTS.items()
]  # fmt: skip

#: Characters of the shorter text; for eight times as much, quadratic time is tens of milliseconds, whatever is done.
SMALL = 10_000

#: And for those that take long for each character, where less text shows as much.
SLOW = dict.fromkeys(
    (
        "redact", "score", "researcher", "row", "visitor", "terms", "index", "alike", "shopper", "phrases", "bargain",
        "divide", "friend", "schedule", "judge", "step of WebShop-v0",
    ),
    4_000,
) | dict.fromkeys(("log, steps", "log, verl, rows", "log, ragen"), 2_000)  # fmt: skip


def check_text(given: dict[str, Any]) -> None:
    run, family = PARSERS[given["parser"]], given["family"]
    small = SLOW.get(given["parser"], SMALL)
    run(text_of(family, 100))
    ratio = growth(run, *(text_of(family, length) for length in (small, 8 * small)))
    assert ratio < MOST_GROWTH, f"{family}: {ratio:.1f} times as long for 8 times {small:,} characters"


def check_all(parser: str) -> None:
    """Try every family."""
    for family in FAMILIES.values():
        check_text({"parser": parser, "family": family})


def read_all(parser: str) -> None:
    """Read a text of every family, whatever time it takes."""
    for family in FAMILIES.values():
        PARSERS[parser](text_of(family, SLOW.get(parser, SMALL)))


_ends = st.sampled_from(FRAGMENTS)
_units = st.lists(_ends.filter(bool), min_size=1, max_size=3).map("".join)
_any = record(parser=st.sampled_from(list(PARSERS)), family=st.tuples(_ends, _units, _ends).map(list))
TRIALS += [
    *(Trial(f"read/{parser}", st.just(parser), read_all, 1, cheap=False) for parser in PARSERS),
    *(Trial(f"time/{parser}", st.just(parser), check_all, 1, cheap=False, long=True) for parser in PARSERS),
    Trial("time/any", _any, check_text, 40, cheap=False, long=True),
]


METHODS = {**{name: CREDIT[name] for name in CREDIT if name not in REWARDS}, **BRANCHING}
PAID: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "usual": lambda rng, n: rng.choice([0.0, 1.0, -0.1], n),
    "zero": lambda rng, n: np.zeros(n),
    "huge": lambda rng, n: rng.choice([1e300, -1e300, 1e299], n),
    "tiny": lambda rng, n: rng.choice([1e-300, -1e-300, 5e-324], n),
    "mixed": lambda rng, n: 10.0 ** rng.uniform(-300, 300, n),
}


def made(kind: str, rewards: str, n: int, seed: int) -> StepTable:
    """Build a table of about n rows: one of `SHAPES`, or walks in so many groups as `kind` says."""
    if kind in SHAPES:
        table = SHAPES[kind](n)
    else:
        groups, size, states = map(int, kind.split())
        table = random_table(seed, groups=groups, size=size, steps=max(n // (groups * size), 1), states=states)
    return dataclasses.replace(table, reward=PAID[rewards](np.random.default_rng(seed), len(table)))


def check_credit(given: dict[str, Any]) -> None:
    """A method gives every row a number, or nan for "not scored"; or says which numbers are beyond it."""
    table = made(given["kind"], given["rewards"], given["rows"], given["seed"])
    method = METHODS[given["method"]]
    before = table.reward.copy()
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        try:
            advantages = method(table)
        except ValueError as refused:
            if given["rewards"] not in ("huge", "mixed", "tiny") or not 10 < len(str(refused)) < 1_000:
                raise
            return
    assert advantages.dtype == np.float64
    per_token = given["method"].startswith(("prime", "rlsd", "rlcsd"))
    assert advantages.shape == ((len(table), 3) if per_token else (len(table),))
    assert not np.isinf(advantages).any()
    assert np.array_equal(table.reward, before)
    assert np.array_equal(method(table), advantages, equal_nan=True)


def check_file(given: dict[str, Any]) -> None:
    """Eight times the rows take less than twenty times the time, and ten times the memory, to write and read."""

    def spent(rows: int) -> tuple[float, int]:
        table = SHAPES[given["kind"]](rows)
        with tempfile.TemporaryDirectory() as name:
            path = Path(name) / "x.jsonl"
            time_taken = seconds(lambda: table.to_jsonl(path), 1) + seconds(lambda: StepTable.from_jsonl(path), 2)
            tracemalloc.start()
            try:
                assert len(StepTable.from_jsonl(path)) == rows
                return time_taken, tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()

    (short, little), (long, much) = spent(given["rows"]), spent(8 * given["rows"])
    assert long < MOST_GROWTH * max(short, 0.01), (short, long)
    assert much < 10 * max(little, 1 << 20), (little, much)


_credited = record(
    kind=st.sampled_from([*SHAPES, "1 4 3", "2 3 8", "6 1 4", "3 2 40"]), rewards=st.sampled_from(list(PAID)),
    rows=st.integers(4, 60), seed=st.integers(0, 999), method=st.sampled_from(list(METHODS)),
)  # fmt: skip
_written = record(kind=st.sampled_from(list(SHAPES)), rows=st.sampled_from([500, 2_000]))
TRIALS += [
    Trial("tables/credit", _credited, check_credit, 150),
    Trial("tables/file", _written, check_file, 3, cheap=False, long=True),
]
