"""The row form of a rollout: replies, steps, episodes, and how these end."""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Literal


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
    """One episode: its steps in order of `t`, and how it ended.

    `parent`: (trajectory, t) of the step of another episode after which this one was cut from it, or None.
    """

    group: Hashable
    trajectory: Hashable
    won: bool
    terminated: bool
    truncated: bool
    steps: tuple[Step, ...]
    parent: tuple[Hashable, int] | None = None

    @property
    def ending(self) -> Ending:
        """How it ended."""
        return Ending.of(self.won, self.terminated, self.truncated)


def trajectories_of(table: Any) -> list[Trajectory]:
    """Return the row form of a `StepTable`, one `Trajectory` per trajectory id."""
    result = []
    for i, row in enumerate(table.last):
        rows, cut = table.order[table.offsets[i] : table.offsets[i + 1]], table.parent[i]
        steps = tuple(
            Step(
                int(table.t[r]), table.states[table.state[r]], table.actions[table.action[r]],
                table.states[table.next_state[r]], float(table.reward[r]), bool(table.valid[r]),
                None if table.replies is None else table.replies[r],
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
    """Return what `StepTable.from_arrays` takes, trajectory by trajectory; one without steps is a ValueError."""
    pairs, parent = [], {}
    for trajectory in trajectories:
        if not trajectory.steps:
            raise ValueError(f"trajectory {trajectory.trajectory!r} has no steps; leave it out")
        if trajectory.parent is not None:
            parent[trajectory.trajectory] = trajectory.parent
        pairs += [(trajectory, step, step is trajectory.steps[-1]) for step in trajectory.steps]
    replies = [step.reply for _, step, _ in pairs]
    return {
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


def plain_steps(episode: Trajectory) -> list[dict[str, Any]]:
    """Return the steps of an episode as plain values, which can travel with rows, traces and files of other programs.

    Returns:
        For each step columns of `StepTable` (`t`, `state`, `action`, `next_state`, `reward`, `valid`, `terminated`,
        `truncated`, `won`), and `text`, the reply.
    """
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
