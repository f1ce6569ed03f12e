"""The row form of a rollout: replies, steps, episodes and their endings."""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


class Ending(enum.Enum):
    """How an episode ended."""

    SUCCESS = "success"
    """Won, in a terminal state or in the last step before a limit."""
    FAILURE = "failure"
    """Terminated otherwise."""
    TIME_LIMIT = "time limit"
    """Truncated by a limit of wrapper, task or prompt length; in the MDP, more would follow."""
    CUT = "cut"
    """Still running when the recording ended."""
    UNSCORED = "unscored"
    """Without a score (`info["unscored"]`); in no table."""

    @classmethod
    def of(cls, won: bool, terminated: bool, truncated: bool, unscored: bool = False) -> Ending:
        """Return the ending for the flags of an episode's last step."""
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
        token_ids: token ids of the generated part.
        logprobs: natural log-probability of each generated token as sampled, temperature included.
        finish: "stop": an end token or stop text; "length": the limit; "prompt-too-long": no room; "": unknown.
        version: number of weight updates of the policy before it wrote this.
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
    """One transition; `valid`: the environment accepted the action; `reward_components`: several rewards, by name."""

    t: int
    state: Hashable
    action: Hashable
    next_state: Hashable
    reward: float
    valid: bool = True
    reply: Reply | None = None
    reward_components: dict[str, float] | None = field(default=None, hash=False)


@dataclass(frozen=True)
class Trajectory:
    """One episode, its steps in order of `t`; `parent` is (trajectory, t) of the step after which it was cut."""

    group: Hashable
    trajectory: Hashable
    won: bool
    terminated: bool
    truncated: bool
    steps: tuple[Step, ...]
    parent: tuple[Hashable, int] | None = None

    @property
    def ending(self) -> Ending:
        return Ending.of(self.won, self.terminated, self.truncated)


def trajectories_of(table: Any) -> list[Trajectory]:
    """Return the row form of a `StepTable`, one `Trajectory` per trajectory id."""
    result, earned = [], table.reward_components
    for i, row in enumerate(table.last):
        rows, cut = table.order[table.offsets[i] : table.offsets[i + 1]], table.parent[i]
        steps = tuple(
            Step(
                int(table.t[r]), table.states[table.state[r]], table.actions[table.action[r]],
                table.states[table.next_state[r]], float(table.reward[r]), bool(table.valid[r]),
                None if table.replies is None else table.replies[r],
                None if earned is None else {name: float(column[r]) for name, column in earned.items()},
            )
            for r in rows
        )  # fmt: skip
        result.append(
            Trajectory(
                table.groups[table.group[row]], table.trajectories[i], bool(table.won[row]),
                bool(table.terminated[row]), bool(table.truncated[row]), steps,
                None if cut < 0 else (table.trajectories[table.trajectory[cut]], int(table.t[cut])),
            )
        )  # fmt: skip
    return result


def columns_of(trajectories: Iterable[Trajectory]) -> dict[str, Any]:
    """Return the arguments of `StepTable.from_arrays`, trajectory by trajectory; ValueError for one without steps."""
    pairs, parent = [], {}
    for trajectory in trajectories:
        if not trajectory.steps:
            raise ValueError(f"trajectory {trajectory.trajectory!r} has no steps; leave it out")
        if trajectory.parent is not None:
            parent[trajectory.trajectory] = trajectory.parent
        pairs += [(trajectory, step, step is trajectory.steps[-1]) for step in trajectory.steps]
    replies = [step.reply for _, step, _ in pairs]
    return {
        "reward_components": components_of([step.reward_components for _, step, _ in pairs]),
        "group": [a.group for a, _, _ in pairs],
        "trajectory": [a.trajectory for a, _, _ in pairs],
        "t": [step.t for _, step, _ in pairs],
        "state": [step.state for _, step, _ in pairs],
        "action": [step.action for _, step, _ in pairs],
        "next_state": [step.next_state for _, step, _ in pairs],
        "reward": [step.reward for _, step, _ in pairs],
        "valid": [step.valid for _, step, _ in pairs],
        "won": [a.won for a, _, _ in pairs],
        "terminated": [last and a.terminated for a, _, last in pairs],
        "truncated": [last and a.truncated for a, _, last in pairs],
        "parent": parent,
        "replies": replies if any(reply is not None for reply in replies) else None,
    }


def components_of(steps: Sequence[Mapping[str, float] | None]) -> dict[str, list[float]] | None:
    """Return columns by name, in the order of their first appearance, 0 if a step does not name one; None: none.

    >>> components_of([None, {"format": 0.5}, {"answer": 1.0}])
    {'format': [0.0, 0.5, 0.0], 'answer': [0.0, 0.0, 1.0]}
    """
    names = dict.fromkeys(name for step in steps for name in step or ())
    return {name: [(step or {}).get(name, 0.0) for step in steps] for name in names} or None


def plain_steps(episode: Trajectory) -> list[dict[str, Any]]:
    """Return the steps of an episode as plain values: `StepTable`'s columns of a step and `text`, the reply."""
    end = len(episode.steps) - 1
    return [
        {
            "t": step.t, "state": step.state, "action": step.action, "next_state": step.next_state,
            "reward": step.reward, "valid": step.valid, "won": episode.won,
            "terminated": row == end and episode.terminated, "truncated": row == end and episode.truncated,
            "text": "" if step.reply is None else step.reply.text,
        }
        for row, step in enumerate(episode.steps)
    ]  # fmt: skip
