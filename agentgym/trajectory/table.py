"""The step table, the type between environments and credit: one row per step, as flat columns."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agentgym.checks import keywords_checked
from agentgym.outside.text import MOST_DIGITS
from agentgym.trajectory import forks
from agentgym.trajectory.columns import check_rows, check_states, data_frame, intern, length, named_rewards, numbers
from agentgym.trajectory.episode import Ending, Reply, Trajectory, columns_of, components_of, trajectories_of
from agentgym.trajectory.file import line_of, read_columns, write_lines

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StepTable:
    """Steps of many trajectories in many groups, as columns of length N (rows), M trajectories.

    A group holds comparable trajectories (the same task). Build a table with `from_arrays`; results of credit methods
    follow its row order. A trajectory may be cut from another one after a row, its `parent`: it holds only the steps
    from there on; only the other trajectory has the shared steps. `unfolded` is the table without forks.

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
        won: bool (N,), this row's trajectory succeeded (others that share the row may have failed).
        parent: int64 (M,), the row of the same group after which each trajectory was cut, -1 for roots. The trajectory
            starts in that row's next state with a larger `t`.
        states, actions, groups, trajectories: values of the integer ids; all groups share the states.
        replies: object (N,) of `Reply`, or None.
        reward_components: float64 (N,) by name, each step's part of each of several rewards, or None.

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
    parent: Ints
    states: tuple[Hashable, ...]
    actions: tuple[Hashable, ...]
    groups: tuple[Hashable, ...]
    trajectories: tuple[Hashable, ...]
    replies: NDArray[np.object_] | None = None
    reward_components: dict[str, Floats] | None = None

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
        parent: Mapping[Hashable, tuple[Hashable, int]] | None = None,
        replies: Sequence[Reply | None] | None = None,
        reward_components: Mapping[str, ArrayLike] | None = None,
    ) -> Self:
        """Build a table from one entry per step, in any order of rows; columns are copied.

        Warns (RuntimeWarning) once if a won and a lost episode of one group terminate in the same state.

        Args:
            group: hashable values; one group holds the trajectories of one task.
            trajectory: hashable values, unique over the table (not only within a group).
            t: integers, distinct within a trajectory.
            state: hashable values but None; equal values are the same state.
            action: hashable values.
            next_state: as `state`, in the last row too; success, failure and ordinary states need distinct values.
            reward: finite numbers, of at most 1e300.
            won: whether the row's trajectory succeeded, the same in all its rows.
            valid: whether the environment accepted the action; default all True.
            terminated: default: True in the last row of each trajectory that is not truncated there.
            truncated: default all False.
            parent: `(trajectory, t)` of the step after which a trajectory was cut, for all that were.
            replies: the policy's answers, one per row.
            reward_components: columns of finite numbers by name, in addition to `reward`.

        Raises:
            ValueError: lengths differ, or a rule above is broken; names the first bad row.
            TypeError: a column is no list or array, or an id is not hashable.
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
            parent=np.full(len(trajectories), -1),
            states=states,
            actions=actions,
            groups=groups,
            trajectories=trajectories,
            replies=None if replies is None else np.fromiter(replies, np.object_, n),
            reward_components=None if reward_components is None else named_rewards(reward_components, n),
        )
        check_rows(table)
        if terminated is None:
            table.terminated[table.last] = ~table.truncated[table.last]
        check_states(table)
        if parent is not None and parent != {}:
            table.parent[:] = forks.parent_rows(table, parent)
        return table

    def __len__(self) -> int:
        return len(self.state)

    def __repr__(self) -> str:
        won = f"{self.trajectory_won.mean():.1%} won" if self.n_trajectories else "empty"
        fields = [field.name for field in dataclasses.fields(self)]
        columns = ", ".join(name for name in fields if isinstance(getattr(self, name), np.ndarray) and name != "parent")
        cut = f" ({np.count_nonzero(self.parent >= 0)} cut from others)" if self.has_forks else ""
        return (
            f"StepTable({len(self)} rows, {self.n_trajectories} trajectories{cut}, {self.n_groups} groups, {won}; "
            f"columns: {columns})"
        )

    @property
    def n_groups(self) -> int:
        return len(self.groups)

    @property
    def n_trajectories(self) -> int:
        return len(self.trajectories)

    @property
    def has_forks(self) -> bool:
        """Whether a trajectory was cut from another one."""
        return bool((self.parent >= 0).any())

    @cached_property
    def order(self) -> Ints:
        """int64 (N,): row numbers sorted by trajectory, then t."""
        before, after = self.trajectory[:-1], self.trajectory[1:]
        if ((before < after) | ((before == after) & (self.t[:-1] < self.t[1:]))).all():
            return np.arange(len(self))  # the usual case: trajectory by trajectory
        return np.lexsort((self.t, self.trajectory)).astype(np.int64)

    @cached_property
    def offsets(self) -> Ints:
        """int64 (M + 1,): `order[offsets[i]:offsets[i + 1]]` are trajectory i's own rows in order of t."""
        counts = np.bincount(self.trajectory, minlength=self.n_trajectories)
        return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)

    @cached_property
    def last(self) -> Ints:
        """int64 (M,): row number of each trajectory's last step."""
        return self.order[self.offsets[1:] - 1]

    @cached_property
    def previous(self) -> Ints:
        """int64 (N,): the row before each row in its episode, through forks; -1 where an episode begins."""
        previous = np.empty(len(self), np.int64)
        previous[self.order[1:]] = self.order[:-1]
        previous[self.order[self.offsets[:-1]]] = self.parent
        return previous

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
        """float64 (M,): undiscounted return of each trajectory's own rows; see `episode_return`."""
        return np.bincount(self.trajectory, weights=self.reward, minlength=self.n_trajectories).astype(np.float64)

    @cached_property
    def episode_return(self) -> Floats:
        """float64 (M,): undiscounted return of each whole episode, through all forks."""
        return forks.chain_sums(self, self.reward)

    @cached_property
    def episode_length(self) -> Ints:
        """int64 (M,): number of steps of each whole episode, through all forks."""
        return forks.chain_sums(self, np.ones(len(self))).astype(np.int64)

    @cached_property
    def endings(self) -> tuple[Ending, ...]:
        flags = (self.won[self.last], self.terminated[self.last], self.truncated[self.last])
        return tuple([Ending.of(*row) for row in zip(*(flag.tolist() for flag in flags), strict=True)])

    def chain(self, trajectory: int) -> Ints:
        """Return int64: the rows of a whole episode, through all forks, of the trajectory with this index."""
        return forks.chain(self, trajectory)

    def unfolded(self) -> tuple[Self, Ints]:
        """Return the table in which every trajectory is a whole episode, and the source rows, int64 (L,).

        Rows of a shared prefix are repeated for every trajectory, with that one's outcome in `won`. Ids stay.

        >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 1],
        ...     state=["s", "u", "u"], action=["right", "up", "down"], next_state=["u", "goal", "pit"],
        ...     reward=[0, 1, 0], won=[1, 1, 0], parent={"b": ("a", 0)})
        >>> table.parent, table.episode_return
        (array([-1,  0]), array([1., 0.]))
        >>> whole, source = table.unfolded()
        >>> whole.trajectory, whole.won, source
        (array([0, 0, 1, 1]), array([ True,  True, False, False]), array([0, 1, 0, 2]))
        """
        return forks.unfolded(self)

    def keep(self, episodes: Bools) -> Self:
        """Return the table of the whole episodes in `episodes`, bool (M,); ValueError if there are none.

        Shared rows of a dropped trajectory go to the first kept one that continues it.
        """
        mask = np.asarray(episodes)
        if mask.shape != (self.n_trajectories,) or mask.dtype != np.bool_ or not mask.any():
            raise ValueError(
                f"keep needs one flag per trajectory ({self.n_trajectories}), at least one of them True, got "
                f"{mask.dtype} of shape {mask.shape}"
            )
        return self.from_trajectories(forks.kept(self, mask))

    def to_trajectories(self) -> list[Trajectory]:
        return trajectories_of(self)

    @classmethod
    def from_trajectories(cls, trajectories: Iterable[Trajectory]) -> Self:
        """Build a table from the row form; ValueError for a trajectory without steps."""
        return cls.from_arrays(**columns_of(trajectories))

    @classmethod
    def concatenate(cls, tables: Iterable[StepTable]) -> Self:
        """Join tables with distinct trajectory ids (else ValueError); equal group ids become one group."""
        tables = list(tables)
        times = Counter(name for table in tables for name in table.trajectories)
        twice = next((name for name, count in times.items() if count > 1), None)
        if twice is not None:
            raise ValueError(f"trajectory {twice!r} is in several tables: give them distinct ids first")
        return cls.from_trajectories(a for table in tables for a in table.to_trajectories())

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame` (extra `pandas`), one row per step, with names for ids and texts as `reply`."""
        return data_frame(self)

    def to_jsonl(self, path: str | Path) -> None:
        """Write one JSON line per trajectory, atomically; TypeError for an id that is no JSON value."""
        for value in (*self.groups, *self.trajectories, *self.states, *self.actions):
            huge = isinstance(value, (int, np.integer)) and abs(int(value)) >= 10**MOST_DIGITS
            if huge or not (value is None or isinstance(value, (str, int, float, np.generic))):
                raise TypeError(f"cannot write {value!r:.80} to JSON and read it back; use strings or numbers as ids")
        write_lines(path, map(line_of, self.to_trajectories()))

    @classmethod
    def from_jsonl(cls, path: str | Path) -> Self:
        """Read a file of `to_jsonl` with texts cleaned; a ValueError names file and line of a malformed one."""
        columns, parent, lines = read_columns(path)
        replies = [reply and Reply(**reply) for reply in columns.pop("replies")]
        earned = components_of(columns.pop("reward_components"))
        if not replies:
            raise ValueError(f"{path}: no line holds a trajectory")
        try:
            return cls.from_arrays(
                **columns, parent=parent, replies=replies if any(replies) else None, reward_components=earned
            )
        except forks.ForkError as error:
            raise ValueError(f"{path}, line {lines[error.trajectory]}: {error}") from error
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from error
