"""Records a vector environment as a `StepTable`."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from agentgym.outside.gym_answers import flag
from agentgym.trajectory import Ending, Reply, Step, StepTable, Trajectory


class UnscoredError(ValueError):
    """All episodes finished without a score."""


def none_scored(reasons: Sequence[str]) -> UnscoredError:
    """Return the error for episodes without any score; `reasons` has one entry each."""
    return UnscoredError(f"none of {len(reasons)} episodes could be scored; the first: {reasons[0]}")


@dataclass
class _Episode:
    """A running episode; a restored one begins with `copied` steps of another of the same `family`."""

    number: int
    group: Hashable
    state: Hashable
    begin: int = 0
    parent: tuple[int, int] | None = None
    steps: list[Step] = field(default_factory=list)
    family: int = -1
    copied: int = 0

    @property
    def t(self) -> int:
        return self.begin + len(self.steps)

    def ended(self, won: bool, terminated: bool, truncated: bool) -> tuple[_Episode, Trajectory]:
        steps = tuple(self.steps)
        return self, Trajectory(self.group, self.number, won, terminated, truncated, steps, self.parent)


class TableBuilder:
    """Collects the transitions of a vector environment in any autoreset mode.

    Call `reset` and `step` with what `envs.reset` and `envs.step` took and returned, then `table`. State keys are
    `infos["canonical_key"]` if a wrapper provides it, else `infos["state_key"]`; a won episode ends in `"<key>
    [success]"`, another that *terminates* in `"<key> [failure]"`, a truncated one in an ordinary state. Actions are
    `infos["command"]` if a reply wrapper provides it, else those given to `step`. Episodes whose last info has
    `unscored` true are left out. Where a step's info has `reward_components`, numbers by name such as `{"format": .1,
    "answer": 1.0}`, they become columns of the table.

    Attributes:
        started: number of episodes begun; an episode's number is its name.
        unscored: why episodes were left out, in the order of their ends.
    """

    def __init__(self, num_envs: int, autoreset_mode: AutoresetMode) -> None:
        self.num_envs = num_envs
        self.autoreset_mode = autoreset_mode
        self._running: list[_Episode | None] = [None] * num_envs
        self._finished: list[tuple[_Episode, Trajectory]] = []
        self.started = 0
        self.unscored: list[str] = []
        self._left_out: list[int] = []  # their numbers

    @property
    def unfinished(self) -> int:
        """Number of sub-environments with a running episode of at least one step."""
        return sum(episode is not None and bool(episode.steps) for episode in self._running)

    def reset(
        self, infos: Mapping[str, Any], mask: NDArray[np.bool_] | None = None, groups: Sequence[Hashable] | None = None
    ) -> None:
        """Begin an episode in every sub-environment of the mask (default: all) and drop running ones.

        `mask`: bool (num_envs,); `groups`: a label each, by default `infos["task_id"]`. KeyError if infos lack a key.
        """
        for i in range(self.num_envs):
            if mask is None or mask[i]:
                self._begin(i, infos, groups[i] if groups is not None else None)

    def resume(self, i: int, infos: Mapping[str, Any], group: Hashable, parent: tuple[int, int] | None) -> None:
        """Record in sub-environment i an episode that is cut from another one; a running one is dropped.

        `parent` is that one's name and `t` of the step after which it is cut; None: before its first step.
        """
        self._begin(i, infos, group)
        episode = self._of(i)
        episode.begin, episode.parent = 0 if parent is None else parent[1] + 1, parent

    def snapshot(self, i: int) -> Any:
        """Return the recorded part of sub-environment i's episode, a picklable value; None without one."""
        episode = self._running[i]
        return None if episode is None else replace(episode, steps=episode.steps.copy())

    def restore(self, indices: Sequence[int], states: Sequence[Any]) -> None:
        """Continue recording from snapshots, one per distinct sub-environment; running episodes are dropped.

        An episode keeps its number if it still ran in one of them. Steps before a snapshot are in the table once.
        """
        replaced = {episode.number for i in indices if (episode := self._running[i]) is not None}
        for i, state in zip(indices, states, strict=True):
            self._running[i] = None
            if state is None:
                continue
            number = state.number
            if number in replaced:
                replaced.remove(number)
            else:
                number, self.started = self.started, self.started + 1
            steps = state.steps.copy()
            self._running[i] = replace(state, number=number, steps=steps, copied=len(steps))

    def position(self, i: int) -> tuple[int, int]:
        """Return the name of sub-environment i's episode and `t` of its next step."""
        return self._of(i).number, self._of(i).t

    def step(
        self,
        actions: Sequence[Any],
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        infos: Mapping[str, Any],
        replies: Sequence[Reply | None] | None = None,
    ) -> None:
        """Record one step of all sub-environments with a running episode."""
        for i, episode in enumerate(self._running):
            if episode is None:
                if self.autoreset_mode is AutoresetMode.NEXT_STEP:
                    self._begin(i, infos, None)
                continue
            over = bool(terminated[i] or truncated[i])
            same_step = over and self.autoreset_mode is AutoresetMode.SAME_STEP
            after = infos["final_info"] if same_step else infos
            key = _state_key(after, i)
            won, unscored = over and _said(after, "won", i), "unscored" in after and bool(after["unscored"][i])
            ending = Ending.of(won, bool(terminated[i]), bool(truncated[i]), unscored) if over else Ending.CUT
            if ending in (Ending.SUCCESS, Ending.FAILURE):
                key = f"{key} [{ending.value}]"
            action = after["command"][i] if "command" in after else actions[i]
            episode.steps.append(
                Step(
                    t=episode.t,
                    state=episode.state,
                    action=action,
                    next_state=key,
                    reward=float(rewards[i]),
                    valid=_said(after, "is_action_valid", i),
                    reply=None if replies is None else replies[i],
                    reward_components=_components(after, i) if "reward_components" in after else None,
                )
            )
            episode.state = key
            if over:
                if ending is Ending.UNSCORED:
                    self.unscored.append(str(after["failure"][i]) if "failure" in after else "")
                    self._left_out.append(episode.number)
                else:
                    self._finished.append(episode.ended(won, bool(terminated[i]), bool(truncated[i])))
                self._running[i] = None
                if same_step:
                    self._begin(i, infos, None)

    def give_up(self, i: int, reply: Reply) -> None:
        """Truncate an episode whose policy wrote nothing (see `Reply.finish`).

        The last row has the action `""`, no reward, and the same next state.
        """
        episode = self._of(i)
        episode.steps.append(Step(episode.t, episode.state, "", episode.state, 0.0, False, reply))
        self._finished.append(episode.ended(False, False, True))
        self._running[i] = None

    def table(self) -> StepTable:
        """Return the finished episodes in the order of their beginning; UnscoredError or ValueError without any."""
        if self.unscored and not self._finished:
            raise none_scored(self.unscored)
        if not self._finished:
            raise ValueError("no episode has finished yet: step until at least one episode is terminated or truncated")
        return StepTable.from_trajectories(_cut(sorted(self._finished, key=lambda pair: pair[0].number)))

    def ended(self) -> dict[int, Trajectory | str]:
        """Return finished episodes by number: the trajectory, or why it has no score."""
        trajectories = {episode.number: trajectory for episode, trajectory in self._finished}
        return {**trajectories, **dict(zip(self._left_out, self.unscored, strict=True))}

    def clear(self) -> None:
        self._finished.clear()
        self.unscored.clear()
        self._left_out.clear()

    def _of(self, i: int) -> _Episode:
        episode = self._running[i]
        if episode is None:
            raise ValueError(f"no episode runs in sub-environment {i}")
        return episode

    def _begin(self, i: int, infos: Mapping[str, Any], group: Hashable | None) -> None:
        label = str(entry(infos, "task_id", i)) if group is None else group
        self._running[i] = _Episode(self.started, label, _state_key(infos, i), family=self.started)
        self.started += 1


def _cut(finished: Sequence[tuple[_Episode, Trajectory]]) -> Iterator[Trajectory]:
    """Yield the trajectories; a restored one leaves out the steps that an earlier one has."""
    families: dict[int, list[Trajectory]] = {}
    for episode, trajectory in finished:
        earlier = families.setdefault(episode.family, [])
        shared, owner = 0, trajectory
        for other in earlier:
            if shared == episode.copied:
                break
            if (other.group, other.parent) == (trajectory.group, trajectory.parent):
                same = _common(other, trajectory, episode.copied)
                shared, owner = (same, other) if same > shared else (shared, owner)
        earlier.append(trajectory)
        if shared:
            before = owner.trajectory, trajectory.steps[shared - 1].t
            trajectory = replace(trajectory, steps=trajectory.steps[shared:], parent=before)
        yield trajectory


def _common(one: Trajectory, other: Trajectory, most: int) -> int:
    """Return the length of the common beginning, at most `most`, without an episode's last step."""
    most = min(most, len(one.steps) - 1, len(other.steps) - 1)
    pairs = zip(one.steps[:most], other.steps[:most], strict=True)
    return next((k for k, (a, b) in enumerate(pairs) if a is not b and a != b), most)


def _state_key(infos: Mapping[str, Any], i: int) -> str:
    name = "canonical_key" if "canonical_key" in infos else "state_key"
    key = entry(infos, name, i)
    if key is None:
        raise ValueError(f"info {name!r} of sub-environment {i} must be the key of a state, got None")
    return str(key)


def _said(infos: Mapping[str, Any], name: str, i: int) -> bool:
    value = entry(infos, name, i)
    return bool(value) if type(value) is np.bool_ else flag(value, f"infos[{name!r}]", f"sub-environment {i}")


def _components(infos: Mapping[str, Any], i: int) -> dict[str, float] | None:
    """The reward components of a step: an object per sub-environment, or Gymnasium's arrays by name."""
    given = infos["reward_components"]
    if isinstance(given, Mapping):
        one: Any = {name: given[name][i] for name in given if name[:1] != "_" and _has(given, name, i)}
    else:
        one = given[i] if _has(infos, "reward_components", i) else None
    try:
        return None if one is None else {str(name): float(value) for name, value in one.items()}
    except (AttributeError, TypeError, ValueError):
        raise ValueError(
            f"infos['reward_components'] of sub-environment {i} must be numbers by name, such as {{'format': 0.1}}, "
            f"got {one!r:.80}"
        ) from None


def entry(infos: Mapping[str, Any], name: str, i: int) -> Any:
    """Return an info value of one sub-environment, or raise a KeyError that says how to provide it."""
    if _has(infos, name, i):
        return infos[name][i]
    known = sorted(key for key in infos if not key.startswith("_") and _has(infos, key, i))
    remedy = {
        "state_key": "; if observations are not text, name states: adapt(envs, key=lambda observation, info: ...)",
        "won": " from 'success'; otherwise define success: adapt(envs, success=lambda reward, terminated, info: ...)",
    }
    raise KeyError(
        f"infos of sub-environment {i} have no {name!r}, only {known}: agentgym.adapter.adapt(envs) provides it"
        f"{remedy.get(name, '')}"
    )


def _has(infos: Mapping[str, Any], name: str, i: int) -> bool:
    return name in infos and (f"_{name}" not in infos or bool(infos[f"_{name}"][i]))
