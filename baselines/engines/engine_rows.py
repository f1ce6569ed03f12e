"""Steps that travel with an engine's rows, and the credit that comes back to their tokens.

What credit needs of a step goes with its row as plain values; where whole groups are together, a table is made again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.trajectory import Bools, Floats, Reply, StepTable, Trajectory
from agentgym.trajectory.episode import plain_steps
from baselines.batch import scored_rows

_COLUMNS = ("t", "state", "action", "next_state", "reward", "valid", "terminated", "truncated", "won")


@dataclass(frozen=True)
class EngineRow:
    """A row of an engine.

    Attributes:
        trajectory: name of the episode, unique over all groups.
        steps: as `steps_of` made them; none in padding.
    """

    group: str
    trajectory: str
    completion_ids: Sequence[int]
    steps: Sequence[Mapping[str, Any]]


def steps_of(episode: Trajectory, rows: Sequence[int], prompt: int) -> list[dict[str, Any]]:
    """Return steps that stand in one sequence as plain values.

    Args:
        rows: numbers of the steps; each reply holds the tokens before it in the sequence, and its own.
        prompt: how many tokens of the sequence come before the completion.

    Returns:
        For each step the fields of `agentgym.trajectory.episode.plain_steps`, and `start` and `stop`, its tokens in the
        completion.
    """
    plain = plain_steps(episode)
    steps: list[dict[str, Any]] = []
    for row in rows:
        reply = episode.steps[row].reply or Reply("")
        start = len(reply.prompt_ids) - prompt
        steps.append(plain[row] | {"start": start, "stop": start + len(reply.token_ids)})
    return steps


def credited(
    rows: Sequence[EngineRow], credit: Callable[[StepTable], NDArray[np.float64]]
) -> tuple[StepTable, list[Floats], list[Bools]]:
    """Return the advantages of rows in any order.

    Args:
        credit: of a table, one number per step or one per token of its reply; nan = not scored. The table's replies
            hold text and tokens, neither prompts nor log-probabilities.

    Returns:
        The table; for each row float64 (c,), advantages, 0 outside of scored replies; for each row bool (c,), True at
        the tokens of scored replies.

    Raises:
        ValueError: a step is not within its row, all rows are padding, or the credit has another shape.
    """
    places = [(row, step) for row in rows for step in row.steps]
    if not places:
        raise ValueError(f"none of {len(rows)} rows holds a step: no episode was scored")
    for row, step in places:
        if not 0 <= step["start"] < step["stop"] <= len(row.completion_ids):
            raise ValueError(
                f"step {step['t']} of {row.trajectory} wrote tokens {step['start']} to {step['stop']} of a row with "
                f"{len(row.completion_ids)}: the engine has cut the row; allow longer responses"
            )
    columns: Any = {name: [step[name] for _, step in places] for name in _COLUMNS}
    table = StepTable.from_arrays(
        group=[row.group for row, _ in places],
        trajectory=[row.trajectory for row, _ in places],
        replies=[
            Reply(step["text"], token_ids=tuple(row.completion_ids[step["start"] : step["stop"]]))
            for row, step in places
        ],
        **columns,
    )
    values, is_scored = scored_rows(table, np.asarray(credit(table), np.float64))
    advantages = [np.zeros(len(row.completion_ids)) for row in rows]
    masks = [np.zeros(len(row.completion_ids), np.bool_) for row in rows]
    numbers = [number for number, row in enumerate(rows) for _ in row.steps]
    for number, (_, step), value, taught in zip(numbers, places, values, is_scored, strict=True):
        if taught:
            span = slice(step["start"], step["stop"])
            advantages[number][span] = value if values.ndim == 1 else value[: span.stop - span.start]
            masks[number][span] = True
    return table, advantages, masks
