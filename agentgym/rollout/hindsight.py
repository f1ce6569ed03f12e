"""Exact hindsight: failed episodes relabelled as successes of tasks that they solved.

After Andrychowicz et al., "Hindsight Experience Replay", NeurIPS 2017; `TextEnv.fulfilled` names the tasks.
"""

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from agentgym.checks import check_name
from agentgym.core import TextEnv
from agentgym.outside.text import clean
from agentgym.rollout.groups import observations_of, unnumbered
from agentgym.rollout.recorder import TableBuilder
from agentgym.trajectory import Reply, StepTable, Trajectory
from agentgym.vector import TextVectorEnv

Choice = Literal["hardest", "last", "first", "all"]
#: Which of several solved tasks is taken.
CHOICES: tuple[Choice, ...] = ("hardest", "last", "first", "all")


@dataclass(frozen=True)
class _Success:
    """A task that an episode solved, the rows that solved it, the seed to replay them, and the episode's name."""

    task_id: str
    rows: tuple[int, ...]
    seed: int
    name: str


def relabel_goals(
    table: StepTable,
    envs: gym.vector.VectorEnv[Any, Any, Any],
    *,
    choose: Choice = "hardest",
    cut_loops: bool = False,
    edit: Callable[[str], str] | None = None,
    demonstrate: Callable[[Any, str], Reply] | None = None,
    seed: int = 0,
) -> StepTable:
    """Return the failed episodes of a table as won episodes of tasks that they solved, each played again.

    An episode is cut after the step that first solved the task. Rows have the states, rewards and prompts of the new
    task; group labels are the new task ids, trajectory ids `"<id in the table> as <task id>"`. Episodes whose replay
    differs from the table or does not win are left out, with a `RuntimeWarning`.

    Args:
        table: from `collect`, with task ids as group labels.
        envs: with autoreset `DISABLED`, made with the same arguments, in wrappers of the new prompts. Its episodes end.
        choose: which of several tasks: "hardest", with the longest shortest solution (`env.distance()` at its
            beginning; the last of equal ones); the "last" or "first" solved; or "all", whose rows repeat each other.
        cut_loops: leave out steps between two visits of one exact state (`info["state_key"]`), such as invalid actions.
        edit: maps a reply's text (or an action, without replies) to the text to play, such as one without thoughts.
        demonstrate: `policy.demonstrate`, for token ids of prompt and reply in the new task; None: replies have text
            alone. Log-probabilities are dropped; `baselines.off_policy.rescored` computes new ones.
        seed: of the environments' draws during the replay.

    Returns:
        a `StepTable` of won episodes with `replies`, in the order of the table; may have no rows.

    Raises:
        TypeError: the environment has no exact hindsight or cannot rank tasks.
        ValueError: a group label is no task id, autoreset is not disabled, or parsed replies are not in the table.
    """
    check_name(choose, CHOICES, "choose")
    env = relabelling_env(envs)
    seeds = np.random.SeedSequence(seed).generate_state(max(1, table.n_trajectories), np.uint32).tolist()
    failed = np.flatnonzero(~table.trajectory_won).tolist()
    successes: dict[tuple[str, tuple[int, ...]], _Success] = {}
    astray = 0
    for i in failed:
        played = [row for row in table.chain(i).tolist() if not _gave_up(table, row)]
        _begin(env, table.groups[table.trajectory_group[i]], seeds[i])
        done = _tasks_done(env, table, played, cut_loops)
        if done is None:
            astray += 1
            continue
        for task_id in _chosen(env, done, choose):
            rows, name = tuple(done[task_id]), f"{table.trajectories[i]} as {task_id}"
            # branches of one episode solved what they share once
            successes.setdefault((task_id, rows), _Success(task_id, rows, seeds[i], name))
    won = _played_again(envs, table, list(successes.values()), edit, demonstrate)
    _tell(astray, len(failed), "were played differently by these environments: make them with the same arguments")
    _tell(len(successes) - len(won), len(successes), "did not win again: are the time limits shorter?")
    relabelled = StepTable.from_trajectories(won)
    return relabelled if won else replace(relabelled, replies=np.empty(0, object))


def _tell(count: int, among: int, what: str) -> None:
    if count:
        warnings.warn(f"{count} of {among} episodes {what}; they are left out", RuntimeWarning, stacklevel=3)


def relabelling_env(envs: gym.vector.VectorEnv[Any, Any, Any]) -> TextEnv[Any]:
    """Return the environment that names solved tasks; TypeError without exact hindsight, ValueError unless DISABLED."""
    mode = envs.metadata.get("autoreset_mode")
    if mode is not AutoresetMode.DISABLED:
        raise ValueError(
            f"relabel_goals needs a vector environment with autoreset DISABLED, as collect does, got {mode}; "
            "make it with gym.make_vec(..., autoreset_mode='Disabled')"
        )
    if not isinstance(envs.unwrapped, TextVectorEnv):
        raise TypeError(f"relabel_goals needs a vector environment of ours, got {envs}; make it with gym.make_vec")
    env = envs.unwrapped.envs[0]
    if type(env).fulfilled is TextEnv.fulfilled:
        env.fulfilled()  # raises a TypeError with the reason
    return env


def _begin(env: TextEnv[Any], label: Hashable, seed: int) -> None:
    """Reset to the task of a group label, which may have a number."""
    names = [label, unnumbered(label)] if isinstance(label, str) else []
    for task_id in dict.fromkeys(names):
        try:
            env.reset(seed=seed, options={"task_id": task_id})
        except ValueError:
            continue
        return
    raise ValueError(
        f"the group {label!r:.200} is no task_id of {env}: relabel_goals takes tables whose group labels are task ids, "
        "as collect makes them, and environments made with the same arguments"
    )


def _gave_up(table: StepTable, row: int) -> bool:
    """Return whether the policy wrote no reply in a row."""
    return table.replies is not None and getattr(table.replies[row], "finish", "") == "prompt-too-long"


def _tasks_done(
    env: TextEnv[Any], table: StepTable, rows: Sequence[int], cut_loops: bool
) -> dict[str, list[int]] | None:
    """Return the tasks that an episode solved, in order, with the rows that solved each; None if the replay differs."""
    before, done = set(env.fulfilled()), dict[str, list[int]]()
    path = _Path(cut_loops, env)
    for row in rows:
        _, over, valid = env.act(clean(str(table.actions[table.action[row]])))
        if valid != table.valid[row] or (over and row != rows[-1]):
            return None
        path.add(row, valid)
        for task_id in env.fulfilled():
            if task_id not in before and task_id not in done:
                done[task_id] = list(path.rows)
    return done


class _Path:
    """The rows played so far, without loops if these are cut."""

    def __init__(self, cut_loops: bool, env: TextEnv[Any]) -> None:
        self.rows: list[int] = []
        self._env, self._cut_loops = env, cut_loops
        self._states = [self._state(True)]

    def add(self, row: int, valid: bool) -> None:
        self.rows.append(row)
        state = self._state(valid)
        if self._cut_loops and state in self._states:
            first = self._states.index(state)
            del self.rows[first:], self._states[first + 1 :]
        else:
            self._states.append(state)

    def _state(self, valid: bool) -> str:
        return str(self._env.describe(valid)["state_key"]) if self._cut_loops else ""


def _chosen(env: TextEnv[Any], done: Mapping[str, Sequence[int]], choose: Choice) -> list[str]:
    tasks = list(done)
    if choose == "all" or len(tasks) < 2:
        return tasks
    if choose != "hardest":
        ends = {task_id: done[task_id][-1] for task_id in tasks}
        end = max(ends.values()) if choose == "last" else min(ends.values())
        return [task_id for task_id in tasks if ends[task_id] == end][-1:]
    return [max(reversed(tasks), key=lambda task_id: _distance(env, task_id))]


def _distance(env: TextEnv[Any], task_id: str) -> float:
    """Return the length of a task's shortest solution, -1 if it is unknown."""
    distance = getattr(env, "distance", None)
    if distance is None:
        raise TypeError(
            f"{type(env).__name__} has no distance() to find the hardest of several tasks; choose 'last', 'first' "
            "or 'all'"
        )
    env.reset(options={"task_id": task_id})
    length = float(distance())
    return length if isfinite(length) else -1.0  # the task was solved, so "no plan" means unknown


def _played_again(
    envs: gym.vector.VectorEnv[Any, Any, Any],
    table: StepTable,
    successes: Sequence[_Success],
    edit: Callable[[str], str] | None,
    demonstrate: Callable[[Any, str], Reply] | None,
) -> list[Trajectory]:
    won: list[Trajectory] = []
    for start in range(0, len(successes), envs.num_envs):
        wave = list(successes[start : start + envs.num_envs])
        padded = wave + wave[-1:] * (envs.num_envs - len(wave))
        observations, infos = envs.reset(
            seed=[success.seed for success in padded],  # type: ignore[arg-type]  # one each
            options=[{"task_id": success.task_id} for success in padded],  # type: ignore[arg-type]  # one each
        )
        if edit is None and "command" in infos and table.replies is None:
            raise ValueError(
                f"{envs} parses replies, and the table has actions only: pass a function that makes replies "
                "from actions, edit=policies.scripted.tagged"
            )
        builder = TableBuilder(envs.num_envs, AutoresetMode.DISABLED)
        builder.reset(infos, np.arange(envs.num_envs) < len(wave))
        ended = np.zeros(envs.num_envs, np.bool_)
        for t in range(max(len(success.rows) for success in wave)):
            replies: list[Reply | None] = [None] * envs.num_envs
            for i, success in enumerate(wave):
                if t < len(success.rows):
                    text = _text(table, success.rows[t])
                    text = text if edit is None else edit(text)
                    seen = observations_of(observations, np.array([i]))[0]
                    replies[i] = Reply(text) if demonstrate is None else demonstrate(seen, text)
            actions = ["" if reply is None else reply.text for reply in replies]
            observations, rewards, terminated, truncated, infos = envs.step(actions)
            builder.step(actions, rewards, terminated, truncated, infos, replies)
            ended |= terminated | truncated
        for trajectory in builder.table().to_trajectories() if ended[: len(wave)].any() else ():
            success = wave[int(str(trajectory.trajectory))]
            if trajectory.won and len(trajectory.steps) == len(success.rows):
                won.append(replace(trajectory, trajectory=success.name))
    return won


def _text(table: StepTable, row: int) -> str:
    reply = None if table.replies is None else table.replies[row]
    return str(table.actions[table.action[row]]) if reply is None else str(reply.text)
