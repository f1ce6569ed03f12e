"""Shared by all tests: policies that follow a script, environments of Gymnasium, and tables written as walks.

* `Scripted`: a policy that says given texts, by step, by place or reply by reply; `Drawn`: one that draws them.
* `corridor`: the vector environment of `tests.corridor`; `of`: that of any `TextEnv`; `stock`: Gymnasium's own ones.
* `begun` begins an episode, `steps` plays actions and returns every answer, `play` the last one; `objects`: a column.
* `walks`: a `StepTable` of episodes that are written as "state action state action state".
* `filled`: a `StepTable` of the columns that a test is about.

Import from here before you define a policy, an environment or a table of your own.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from agentgym.core import TextEnv
from agentgym.trajectory import Reply, StepTable
from agentgym.vector import TextVectorEnv
from tests.corridor import CorridorVectorEnv

DISABLED, SAME_STEP, NEXT_STEP = AutoresetMode.DISABLED, AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP
LEFT, RIGHT, JUMP = "<action>left</action>", "<action>right</action>", "<action>jump</action>"


class Scripted:
    """Says given texts, over again when they are used up.

    Args:
        *said: texts, or whole replies.
        by: "step": all places hear the same, one text a step; "place": the i-th observation gets the i-th text;
            "reply": one text after the other.

    Attributes:
        seen: the observations of each step.
    """

    def __init__(self, *said: str | Reply, by: Literal["step", "place", "reply"] = "step") -> None:
        self.said = [Reply(each) if isinstance(each, str) else each for each in said]
        self.by = by
        self.seen: list[list[Any]] = []
        self._count = 0

    def act(self, observations: Sequence[Any], infos: Mapping[str, Any], rng: np.random.Generator) -> list[Reply]:
        numbers = {
            "step": [len(self.seen)] * len(observations),
            "place": range(len(observations)),
            "reply": range(self._count, self._count + len(observations)),
        }[self.by]
        self.seen.append(list(observations))
        self._count += len(observations)
        return [self.said[number % len(self.said)] for number in numbers]


class Drawn:
    """Draws each text from the generator that it is given."""

    def __init__(self, *said: str) -> None:
        self.said = said

    def act(self, observations: Sequence[Any], infos: Mapping[str, Any], rng: np.random.Generator) -> list[Reply]:
        return [Reply(self.said[i]) for i in rng.integers(0, len(self.said), len(observations))]


def corridor(places: int, mode: AutoresetMode = DISABLED, **options: Any) -> CorridorVectorEnv:
    """Return the vector environment of `tests.corridor`."""
    return CorridorVectorEnv(places, autoreset_mode=mode, **options)


def of(env_class: type[TextEnv[Any]], places: int, mode: AutoresetMode = DISABLED, **options: Any) -> TextVectorEnv:
    """Return the vector environment of a `TextEnv`."""
    kind = type(f"{env_class.__name__}Vector", (TextVectorEnv,), {"env_class": env_class})
    made: TextVectorEnv = kind(places, autoreset_mode=mode, **options)
    return made


def stock(
    make: Callable[[], gym.Env[Any, Any]], places: int, mode: AutoresetMode = DISABLED, kind: str = "sync"
) -> VectorEnv[Any, Any, Any]:
    """Return Gymnasium's vector environment; `kind` is "sync" or "async"."""
    if kind == "sync":
        return SyncVectorEnv([make] * places, autoreset_mode=mode)
    return AsyncVectorEnv([make] * places, shared_memory=False, autoreset_mode=mode)


class Twin:
    """What a vector environment does, done with single ones, one after another: all play, then who ended begins.

    Args:
        envs: the single environments.
        mode: of the vector environment; where nothing begins by itself, who ended stays as it is until `reset`.
        limit: steps of an episode, None for no other limit than the environments'.

    Attributes:
        rows: observation and info of each.
        flags: whether the episode of each terminated or was truncated.
    """

    def __init__(self, envs: Sequence[Any], mode: AutoresetMode | str, limit: int | None = None) -> None:
        self.envs, self.mode, self.limit = envs, AutoresetMode(mode), limit
        self.rows: list[Any] = [None] * len(envs)
        self.elapsed = [0] * len(envs)
        self.flags = [(False, False)] * len(envs)

    def reset(self, i: int, seed: int | None = None, options: Any = None) -> None:
        self.rows[i] = self.envs[i].reset(seed=seed, options=options)
        self.elapsed[i], self.flags[i] = 0, (False, False)

    def step(self, actions: Sequence[Any]) -> list[tuple[float, bool, bool, Any]]:
        """Return of each reward and flags, and the last observation and info of an episode that is replaced at once."""
        idle, rewards, answers = [any(flags) for flags in self.flags], [0.0] * len(self.envs), []
        for i, action in enumerate(actions):
            if not idle[i]:
                observation, rewards[i], terminated, truncated, info = self.envs[i].step(action)
                self.rows[i], self.elapsed[i] = (observation, info), self.elapsed[i] + 1
                self.flags[i] = terminated, truncated or self.elapsed[i] == self.limit
        for i, reward in enumerate(rewards):
            if idle[i] and self.mode is NEXT_STEP:
                self.reset(i)
            flags, final = self.flags[i], None
            if any(flags) and self.mode is SAME_STEP:
                final = self.rows[i]
                self.reset(i)
            answers.append((reward, *flags, final))
        return answers

    def save(self) -> Any:
        return [
            (env.snapshot(), *rest) for env, *rest in zip(self.envs, self.rows, self.elapsed, self.flags, strict=True)
        ]

    def load(self, saved: Any) -> None:
        for i, (state, *rest) in enumerate(saved):
            self.envs[i].restore(state)
            self.rows[i], self.elapsed[i], self.flags[i] = rest


def begun(env: Any, **how: Any) -> Any:
    """Begin an episode in an environment of any kind, and return the environment."""
    env.reset(**how)
    return env


def steps(env: Any, actions: Iterable[Any]) -> list[Any]:
    """Play actions in an environment of any kind, and return what every step answered."""
    return [env.step(action) for action in actions]


def play(env: Any, *actions: Any) -> Any:
    """Play actions in an environment of any kind, and return what the last step answered."""
    return steps(env, actions)[-1]


def objects(*values: Any) -> Any:
    """Return an object array of these values, which may be sequences."""
    return np.fromiter(values, np.object_, len(values))


def info_columns(infos: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the infos of sub-environments as one array per key, written without what `TextVectorEnv.columns` saves."""
    dtypes = {bool: np.bool_, float: np.float64, int: np.int64}
    return {
        key: np.fromiter((info[key] for info in infos), dtypes.get(type(first), np.object_), len(infos))
        for key, first in infos[0].items()
    }


def walks(episodes: Mapping[str, str], won: Collection[str] = (), group: str = "g", **columns: Any) -> StepTable:
    """Return the table of episodes written as "state action state action state".

    Args:
        episodes: by name.
        won: names of those that succeeded; their last step has a reward of 1.
        group: of all.
        **columns: columns in place of these, see `StepTable.from_arrays`.

    >>> walks({"a": "s right u up goal", "b": "s left pit"}, won=["a"]).next_state
    array([1, 2, 3])
    """
    rows = []
    for name, text in episodes.items():
        words = text.split()
        for t in range(len(words) // 2):
            state, action, after = words[2 * t : 2 * t + 3]
            rows.append((name, t, state, action, after, float(name in won and 2 * t + 3 == len(words)), name in won))
    names = ("trajectory", "t", "state", "action", "next_state", "reward", "won")
    table = {"group": [group] * len(rows), **dict(zip(names, zip(*rows, strict=True), strict=True))}
    return StepTable.from_arrays(**{**table, **columns})


def filled(**columns: Any) -> StepTable:
    """Return a `StepTable` of some columns; where others are missing nothing changes and nothing is earned.

    Args:
        **columns: the first of them one entry a row, see `StepTable.from_arrays`.

    >>> filled(trajectory=["a", "a", "b"], reward=[0, 1, 0]).trajectory_return
    array([1., 0.])
    """
    n = len(next(iter(columns.values())))
    zeros = dict.fromkeys(("group", "trajectory", "state", "action", "next_state", "reward"), [0] * n)
    return StepTable.from_arrays(**{**zeros, "t": range(n), "won": [False] * n, **columns})
