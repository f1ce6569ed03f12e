"""What a rollout leaves behind: one row per step, as flat columns.

`StepTable` is the type between environments and credit: every credit method is a function `f(table, **options) ->
float64 array of len(table)`. `Trajectory` and `Step` are its row form; only a trainer looks into a `Reply`'s tokens.
"""

from __future__ import annotations

import dataclasses
import enum
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agentgym.checks import keywords_checked
from agentgym.columns import check_rows, data_frame, intern, length, numbers
from agentgym.foreign_text import MOST_DIGITS
from agentgym.table_file import read_columns, write_lines

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


class Ending(enum.Enum):
    """How an episode ended.

    >>> Ending.of(won=False, terminated=False, truncated=True)
    <Ending.TIME_LIMIT: 'time limit'>
    """

    SUCCESS = "success"
    """It was won, in a state that ends it or in the last step before a limit."""
    FAILURE = "failure"
    """It terminated otherwise: in the MDP, nothing follows."""
    TIME_LIMIT = "time limit"
    """A limit, of the wrapper, the task or the policy's prompts, truncated it: in the MDP, more would follow."""
    CUT = "cut"
    """It had not ended when the recording did."""
    UNSCORED = "unscored"
    """Nobody knows how good it was (`info["unscored"]`): it is in no table."""

    @classmethod
    def of(cls, won: bool, terminated: bool, truncated: bool, unscored: bool = False) -> Ending:
        """Name the ending that the flags of an episode's last step say."""
        if unscored:
            return cls.UNSCORED
        if won:
            return cls.SUCCESS
        return cls.FAILURE if terminated else cls.TIME_LIMIT if truncated else cls.CUT


@dataclass(frozen=True)
class Reply:
    """One answer of a policy.

    Attributes:
        text: the whole reply, as the reply wrapper parses it.
        prompt_ids: token ids of the prompt, empty for policies without tokens.
        token_ids: token ids of the generated part of the reply.
        logprobs: natural log-probability of each generated token under the sampling distribution
            (temperature included), same length as `token_ids`.
        finish: "stop": the model's end token or a stop text ended it; "length": the limit did; "prompt-too-long":
            nothing was written, for the prompt did not fit, and the episode is over; "": nobody said.
        version: state of the policy's weights that wrote it: 0 until they first change, then 1, and so on.
        allowed: token ids among which each token was drawn, as long as `token_ids`; empty: among all.
    """

    text: str
    prompt_ids: tuple[int, ...] = ()
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    finish: Literal["", "stop", "length", "prompt-too-long"] = ""
    version: int = 0
    allowed: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Step:
    """One transition `(state, action, reward, next_state)`; `valid`: the environment accepted the action."""

    t: int
    state: Hashable
    action: Hashable
    next_state: Hashable
    reward: float
    valid: bool = True
    reply: Reply | None = None


@dataclass(frozen=True)
class Trajectory:
    """One episode: its steps in order of `t`, and how it ended."""

    group: Hashable
    trajectory: Hashable
    won: bool
    terminated: bool
    truncated: bool
    steps: tuple[Step, ...]

    @property
    def ending(self) -> Ending:
        """How it ended."""
        return Ending.of(self.won, self.terminated, self.truncated)


@dataclass(frozen=True, eq=False)
class StepTable:
    """Steps of many trajectories in many groups, as columns of length N (rows), M trajectories.

    A group holds the trajectories that are compared with each other (the same task). Build one with `from_arrays`,
    whose row order is kept: results of credit methods come back in it, however the rows were shuffled.

    Attributes:
        group: int64 (N,), 0..n_groups-1, index into `groups`.
        trajectory: int64 (N,), 0..M-1, index into `trajectories`; unique over the table.
        t: int64 (N,), strictly increasing within a trajectory.
        state: int64 (N,), index into `states`: the state the action was taken in.
        next_state: int64 (N,), index into `states`; also known for a trajectory's last step.
        action: int64 (N,), index into `actions`.
        valid: bool (N,), the environment accepted the action.
        reward: float64 (N,).
        terminated, truncated: bool (N,), at most True in a trajectory's last row.
        won: bool (N,), this row's trajectory succeeded.
        states, actions, groups, trajectories: what the integer ids stand for. States are shared by all groups.
        replies: object (N,) of `Reply`, or None.

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
    ...     action=["right", "up", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> table.states, table.next_state[table.last], table.terminated
    (('s', 'u', 'goal', 'pit'), array([2, 3]), array([False,  True,  True]))
    """

    group: Ints
    trajectory: Ints
    t: Ints
    state: Ints
    next_state: Ints
    action: Ints
    valid: Bools
    reward: Floats
    terminated: Bools
    truncated: Bools
    won: Bools
    states: tuple[Hashable, ...]
    actions: tuple[Hashable, ...]
    groups: tuple[Hashable, ...]
    trajectories: tuple[Hashable, ...]
    replies: NDArray[np.object_] | None = None

    @classmethod
    @keywords_checked
    def from_arrays(
        cls,
        *,
        group: Sequence[Hashable] | ArrayLike,
        trajectory: Sequence[Hashable] | ArrayLike,
        t: ArrayLike,
        state: Sequence[Hashable] | ArrayLike,
        action: Sequence[Hashable] | ArrayLike,
        next_state: Sequence[Hashable] | ArrayLike,
        reward: ArrayLike,
        won: ArrayLike,
        valid: ArrayLike | None = None,
        terminated: ArrayLike | None = None,
        truncated: ArrayLike | None = None,
        replies: Sequence[Reply | None] | None = None,
    ) -> Self:
        """Build a table from one entry per step, in any order of rows.

        Args:
            group: any hashable values (strings, integers); one group holds the trajectories of one task.
            trajectory: any hashable values, unique over the table (not only within a group).
            t: integers, distinct within a trajectory.
            state: any hashable values; equal values are the same state.
            action: any hashable values.
            next_state: as `state`; give success, failure and ordinary states distinct values.
            reward: finite numbers, of at most 1e300.
            won: whether the row's trajectory succeeded, the same in all its rows.
            valid: whether the environment accepted the action; default all True.
            terminated: default: True in the last row of each trajectory that is not truncated there.
            truncated: default all False.
            replies: what the policy answered, one per row.

        Columns are copied: what becomes of the arguments later does not change the table.

        Raises:
            ValueError: when lengths differ, or a rule above is broken; the message names the first bad row.
            TypeError: when a column is no list or array, or a group, trajectory, state or action is not hashable.
        """
        n = length("state", state)
        for name, column in (
            ("group", group), ("trajectory", trajectory), ("t", t), ("action", action), ("next_state", next_state),
            ("reward", reward), ("won", won), ("valid", valid), ("terminated", terminated), ("truncated", truncated),
            ("replies", replies),
        ):  # fmt: skip
            optional = name in ("valid", "terminated", "truncated", "replies")
            if not (optional and column is None) and length(name, column) != n:
                raise ValueError(f"column {name!r} has {length(name, column)} rows, 'state' has {n}")
        (state_ids, next_state_ids), states = intern("state' or 'next_state", state, next_state)
        (group_ids,), groups = intern("group", group)
        (trajectory_ids,), trajectories = intern("trajectory", trajectory)
        (action_ids,), actions = intern("action", action)
        table = cls(
            group=group_ids,
            trajectory=trajectory_ids,
            t=numbers("t", t, np.int64),
            state=state_ids,
            next_state=next_state_ids,
            action=action_ids,
            valid=np.ones(n, np.bool_) if valid is None else numbers("valid", valid, np.bool_),
            reward=numbers("reward", reward, np.float64),
            terminated=np.zeros(n, np.bool_) if terminated is None else numbers("terminated", terminated, np.bool_),
            truncated=np.zeros(n, np.bool_) if truncated is None else numbers("truncated", truncated, np.bool_),
            won=numbers("won", won, np.bool_),
            states=states,
            actions=actions,
            groups=groups,
            trajectories=trajectories,
            replies=None if replies is None else np.fromiter(replies, np.object_, n),
        )
        check_rows(table)
        if terminated is None:
            table.terminated[table.last] = ~table.truncated[table.last]
        return table

    def __len__(self) -> int:
        """Return the number of rows N."""
        return len(self.state)

    def __repr__(self) -> str:
        """Say how large the table is and how it went, in one line."""
        won = f"{self.trajectory_won.mean():.1%} won" if self.n_trajectories else "empty"
        fields = [field.name for field in dataclasses.fields(self)]
        columns = ", ".join(name for name in fields if isinstance(getattr(self, name), np.ndarray))
        return (
            f"StepTable({len(self)} rows, {self.n_trajectories} trajectories, {self.n_groups} groups, {won}; "
            f"columns: {columns})"
        )

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.groups)

    @property
    def n_trajectories(self) -> int:
        """Number of trajectories M."""
        return len(self.trajectories)

    @cached_property
    def order(self) -> Ints:
        """int64 (N,): row numbers sorted by trajectory, then t."""
        before, after = self.trajectory[:-1], self.trajectory[1:]
        if ((before < after) | ((before == after) & (self.t[:-1] < self.t[1:]))).all():
            return np.arange(len(self))  # the usual case: trajectory by trajectory
        return np.lexsort((self.t, self.trajectory)).astype(np.int64)

    @cached_property
    def offsets(self) -> Ints:
        """int64 (M + 1,): `order[offsets[i]:offsets[i + 1]]` are the rows of trajectory i in order of t."""
        counts = np.bincount(self.trajectory, minlength=self.n_trajectories)
        return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)

    @cached_property
    def last(self) -> Ints:
        """int64 (M,): row number of each trajectory's last step."""
        return self.order[self.offsets[1:] - 1]

    @cached_property
    def trajectory_group(self) -> Ints:
        """int64 (M,): group of each trajectory."""
        return self.group[self.last]

    @cached_property
    def trajectory_won(self) -> Bools:
        """Bool (M,): whether each trajectory succeeded."""
        return self.won[self.last]

    @cached_property
    def trajectory_return(self) -> Floats:
        """float64 (M,): undiscounted sum of each trajectory's rewards."""
        return np.bincount(self.trajectory, weights=self.reward, minlength=self.n_trajectories).astype(np.float64)

    @cached_property
    def endings(self) -> tuple[Ending, ...]:
        """How each trajectory ended; M entries."""
        flags = (self.won[self.last], self.terminated[self.last], self.truncated[self.last])
        return tuple([Ending.of(*row) for row in zip(*(flag.tolist() for flag in flags), strict=True)])

    def to_trajectories(self) -> list[Trajectory]:
        """Return the row form, one `Trajectory` per trajectory id."""
        result = []
        for i, row in enumerate(self.last):
            rows = self.order[self.offsets[i] : self.offsets[i + 1]]
            steps = tuple(
                Step(
                    int(self.t[r]), self.states[self.state[r]], self.actions[self.action[r]],
                    self.states[self.next_state[r]], float(self.reward[r]), bool(self.valid[r]),
                    None if self.replies is None else self.replies[r],
                )
                for r in rows
            )  # fmt: skip
            result.append(
                Trajectory(
                    self.groups[self.group[row]], self.trajectories[i], bool(self.won[row]),
                    bool(self.terminated[row]), bool(self.truncated[row]), steps,
                )
            )  # fmt: skip
        return result

    @classmethod
    def from_trajectories(cls, trajectories: Iterable[Trajectory]) -> Self:
        """Build a table from the row form, trajectory by trajectory; trajectories without steps are an error."""
        pairs = []
        for trajectory in trajectories:
            if not trajectory.steps:
                raise ValueError(f"trajectory {trajectory.trajectory!r} has no steps; leave it out")
            pairs += [(trajectory, step, step is trajectory.steps[-1]) for step in trajectory.steps]
        replies = [step.reply for _, step, _ in pairs]
        return cls.from_arrays(
            group=[a.group for a, _, _ in pairs],
            trajectory=[a.trajectory for a, _, _ in pairs],
            t=[step.t for _, step, _ in pairs],
            state=[step.state for _, step, _ in pairs],
            action=[step.action for _, step, _ in pairs],
            next_state=[step.next_state for _, step, _ in pairs],
            reward=[step.reward for _, step, _ in pairs],
            valid=[step.valid for _, step, _ in pairs],
            won=[a.won for a, _, _ in pairs],
            terminated=[last and a.terminated for a, _, last in pairs],
            truncated=[last and a.truncated for a, _, last in pairs],
            replies=replies if any(reply is not None for reply in replies) else None,
        )

    @classmethod
    def concatenate(cls, tables: Iterable[StepTable]) -> Self:
        """Join tables whose trajectory ids are distinct; equal group ids become one group.

        Raises:
            ValueError: when two tables hold the same trajectory id.
        """
        tables = list(tables)
        times = Counter(name for table in tables for name in table.trajectories)
        twice = next((name for name, count in times.items() if count > 1), None)
        if twice is not None:
            raise ValueError(f"trajectory {twice!r} is in several tables: give them distinct ids first")
        return cls.from_trajectories(a for table in tables for a in table.to_trajectories())

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame` with one row per step, in the table's order, and names for ids.

        The columns are those of the table; where there are replies, `reply` holds their texts.

        Raises:
            ImportError: when pandas is not installed (the extra `pandas`).

        >>> table = StepTable.from_arrays(group=["g"] * 2, trajectory=["a", "b"], t=[0, 0], state=["s", "s"],
        ...     action=["up", "left"], next_state=["goal", "pit"], reward=[1, 0], won=[1, 0])
        >>> table.to_pandas()[["trajectory", "state", "action", "reward", "won"]]
          trajectory state action  reward    won
        0          a     s     up     1.0   True
        1          b     s   left     0.0  False
        """
        return data_frame(self)

    def to_jsonl(self, path: str | Path) -> None:
        """Write one JSON line per trajectory; the file appears whole or not at all.

        Raises:
            TypeError: when an id is not a JSON value: a string or a number.
        """
        for value in (*self.groups, *self.trajectories, *self.states, *self.actions):
            huge = isinstance(value, (int, np.integer)) and abs(int(value)) >= 10**MOST_DIGITS
            if huge or not (value is None or isinstance(value, (str, int, float, np.generic))):
                raise TypeError(f"cannot write {value!r:.80} to JSON and read it back; use strings or numbers as ids")
        write_lines(path, map(dataclasses.asdict, self.to_trajectories()))

    @classmethod
    def from_jsonl(cls, path: str | Path) -> Self:
        """Read what `to_jsonl` wrote; see `agentgym.table_file`. Texts come back as `foreign_text.clean` leaves them.

        Raises:
            ValueError: on a line that is not such a trajectory, with file and line number; of a file without any.
        """
        columns = read_columns(path)
        replies = [reply and Reply(**reply) for reply in columns.pop("replies")]
        if not replies:
            raise ValueError(f"{path}: no line holds a trajectory")
        try:
            return cls.from_arrays(**columns, replies=replies if any(replies) else None)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from error
