"""Record what happens in a vector environment as a `StepTable`."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from agentgym.trajectory import Ending, Reply, Step, StepTable, Trajectory


class UnscoredError(ValueError):
    """Episodes were played to their end, but nobody knows how good any of them was."""


@dataclass
class _Episode:
    """An episode that still runs in a sub-environment."""

    number: int
    group: Hashable
    state: Hashable
    steps: list[Step] = field(default_factory=list)


class TableBuilder:
    """Collects the transitions of a vector environment; works in all three autoreset modes.

    State keys are `infos["canonical_key"]` where a wrapper provides it, else `infos["state_key"]`. The state a won
    episode ends in gets the key `"<key> [success]"`, the one in which another *terminates* `"<key> [failure]"`, so that
    the ends of episodes are never confused with an ordinary state of the same look; an episode that is truncated
    without success ends in an ordinary state (see `agentgym.trajectory.Ending`). Actions are `infos["command"]` where a
    reply wrapper provides it, else what was given to `step`.

    An episode whose last info has `unscored` true is left out, and counted in `unscored`: nobody knows how good it was
    (a judge did not answer, say), and its reward of 0 must not be learned from.

    Args:
        num_envs: number of sub-environments.
        autoreset_mode: the environment's mode.

    Call `reset` with what `envs.reset` answered, `step` with what `envs.step` took and answered, then `table`.
    """

    def __init__(self, num_envs: int, autoreset_mode: AutoresetMode) -> None:
        self.num_envs = num_envs
        self.autoreset_mode = autoreset_mode
        self._running: list[_Episode | None] = [None] * num_envs
        self._finished: list[tuple[int, Trajectory]] = []
        self._started = 0
        self.unscored: list[str] = []
        """Why episodes were left out, in the order of their ends."""

    @property
    def unfinished(self) -> int:
        """Number of sub-environments whose episode still runs and has at least one step."""
        return sum(episode is not None and bool(episode.steps) for episode in self._running)

    def reset(
        self,
        infos: Mapping[str, Any],
        mask: NDArray[np.bool_] | None = None,
        groups: Sequence[Hashable] | None = None,
    ) -> None:
        """Begin an episode in every sub-environment of the mask (all without one); episodes that run there are dropped.

        Args:
            infos: as returned by `envs.reset`.
            mask: bool (num_envs,), which sub-environments were reset.
            groups: group label per sub-environment; by default `infos["task_id"]`: same task, same group.

        Raises:
            KeyError: when the infos lack a key that a table is made of; the message says how to give it.
        """
        for i in range(self.num_envs):
            if mask is None or mask[i]:
                self._begin(i, infos, groups[i] if groups is not None else None)

    def step(
        self,
        actions: Sequence[Any],
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        infos: Mapping[str, Any],
        replies: Sequence[Reply | None] | None = None,
    ) -> None:
        """Record one step of all sub-environments; those without a running episode are left out."""
        for i, episode in enumerate(self._running):
            if episode is None:
                if self.autoreset_mode is AutoresetMode.NEXT_STEP:
                    self._begin(i, infos, None)
                continue
            over = bool(terminated[i] or truncated[i])
            same_step = over and self.autoreset_mode is AutoresetMode.SAME_STEP
            after = infos["final_info"] if same_step else infos
            key = _state_key(after, i)
            won, unscored = over and bool(entry(after, "won", i)), "unscored" in after and bool(after["unscored"][i])
            ending = Ending.of(won, bool(terminated[i]), bool(truncated[i]), unscored) if over else Ending.CUT
            if ending in (Ending.SUCCESS, Ending.FAILURE):
                key = f"{key} [{ending.value}]"
            action = after["command"][i] if "command" in after else actions[i]
            episode.steps.append(
                Step(
                    t=len(episode.steps),
                    state=episode.state,
                    action=action,
                    next_state=key,
                    reward=float(rewards[i]),
                    valid=bool(entry(after, "is_action_valid", i)),
                    reply=None if replies is None else replies[i],
                )
            )
            episode.state = key
            if over:
                if ending is Ending.UNSCORED:
                    self.unscored.append(str(after["failure"][i]) if "failure" in after else "")
                else:
                    trajectory = Trajectory(
                        episode.group,
                        episode.number,
                        won,
                        bool(terminated[i]),
                        bool(truncated[i]),
                        tuple(episode.steps),
                    )
                    self._finished.append((episode.number, trajectory))
                self._running[i] = None
                if same_step:
                    self._begin(i, infos, None)

    def give_up(self, i: int, reply: Reply) -> None:
        """End the running episode of a sub-environment where its policy wrote nothing (see `Reply.finish`).

        The last row has the action `""`, which was not played: no reward, the state stays, and the episode is
        truncated. What the environment does from here on is left out.
        """
        episode = self._running[i]
        if episode is None:
            raise ValueError(f"no episode runs in sub-environment {i}")
        step = Step(len(episode.steps), episode.state, "", episode.state, 0.0, False, reply)
        ended = Trajectory(episode.group, episode.number, False, False, True, (*episode.steps, step))
        self._finished.append((episode.number, ended))
        self._running[i] = None

    def table(self) -> StepTable:
        """Return the finished episodes, in the order in which they were begun.

        Raises:
            UnscoredError: when none of the episodes that have finished could be scored.
            ValueError: when no episode has finished.
        """
        if self.unscored and not self._finished:
            raise UnscoredError(f"none of {len(self.unscored)} episodes could be scored; the first: {self.unscored[0]}")
        if not self._finished:
            raise ValueError("no episode has finished yet: step until at least one episode is terminated or truncated")
        return StepTable.from_trajectories(trajectory for _, trajectory in sorted(self._finished, key=lambda x: x[0]))

    def clear(self) -> None:
        """Forget the finished episodes; running ones go on."""
        self._finished.clear()
        self.unscored.clear()

    def _begin(self, i: int, infos: Mapping[str, Any], group: Hashable | None) -> None:
        label = str(entry(infos, "task_id", i)) if group is None else group
        self._running[i] = _Episode(self._started, label, _state_key(infos, i))
        self._started += 1


def _state_key(infos: Mapping[str, Any], i: int) -> str:
    return str(entry(infos, "canonical_key" if "canonical_key" in infos else "state_key", i))


def entry(infos: Mapping[str, Any], name: str, i: int) -> Any:
    """Info of one sub-environment, or an error that says how it could be had."""
    if _has(infos, name, i):
        return infos[name][i]
    known = sorted(key for key in infos if not key.startswith("_") and _has(infos, key, i))
    remedy = {
        "state_key": "; where observations are not text, say what a state is: "
        "adapt(envs, key=lambda observation, info: ...)",
        "won": " from 'success'; without that, say when an episode is won: "
        "adapt(envs, success=lambda reward, terminated, info: ...)",
    }
    raise KeyError(
        f"infos of sub-environment {i} have no {name!r}, only {known}: agentgym.adapter.adapt(envs) gives it"
        f"{remedy.get(name, '')}"
    )


def _has(infos: Mapping[str, Any], name: str, i: int) -> bool:
    return name in infos and (f"_{name}" not in infos or bool(infos[f"_{name}"][i]))
