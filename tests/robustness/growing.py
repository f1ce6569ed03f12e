"""Trials of time: it grows as the input does, where the input is a table, numbers, a board or a long listing.

`linear` asks the same of texts. Both ask a clock and so belong to the long form alone; what is made of such inputs is
tested beside the code that reads them.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
from collections.abc import Callable
from functools import partial

from hypothesis import strategies as st

from agentgym.outside.text import DataError
from agentgym.sokoban.text import MOST_SIDE, board_text, parse_level
from agentgym.trajectory.columns import intern
from policies.decode.reply import ReplyEnd
from policies.tiny import tiny_tokenizer
from tests.agentgym.hard_inputs import (
    COMMANDS,
    MAZES,
    NUMBERS,
    TASKS,
    admissible_in_a_crowded_room,
    turns_in_a_crowded_room,
)
from tests.growth import MOST_GROWTH, growth
from tests.robustness.trial import Trial
from tests.wrappers.credit.hard_tables import BRANCHING, CREDIT, FORKED, LINEAR, SHAPES

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
    admissible = admissible_in_a_crowded_room(command, n)
    return lambda: list(turns_in_a_crowded_room(admissible, held, task))


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
        f"growth/{name}",
        st.sampled_from([[name, *arguments] for arguments in inputs]),
        check,
        min(len(inputs), 20),
        cheap=False,
        long=True,
    )
    for name, (_, inputs, _) in INPUTS.items()
]
