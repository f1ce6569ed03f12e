"""Adapts any Gymnasium text environment, single or vector, to the contract of `agentgym.core`.

Gymnasium's vector environments share reset options and step finished places, so each sub-environment is stepped alone.
"""

import copy
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any
from weakref import WeakSet

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from agentgym import branching
from agentgym.checks import whole
from agentgym.core import Info, TextEnv
from agentgym.outside.gym_answers import asking, flag, number, read_reset, read_step
from agentgym.vector import COLUMN_DTYPE, TextVectorEnv
from agentgym.worker import Worker

Key = Callable[[Any, Info], Hashable]
Task = Callable[[Info], Hashable]
Success = Callable[[float, bool, Info], bool]
_Stock = (SyncVectorEnv, AsyncVectorEnv)
_OF_AN_EPISODE = ("_seed", "_resets", "_task_id", "_observation", "_info", "_won", "_cut", "_steps")
#: Step limit where no `TimeLimit` sets one.
MOST_STEPS = 1000
#: Environments that were warned about: one warning each.
_endless: WeakSet[Any] = WeakSet()


def takes_text(envs: Any) -> bool:
    """Return whether `adapt` changes this environment: a single or stock vector one with text actions."""
    space = envs.action_space if isinstance(envs, gym.Env) else getattr(envs, "single_action_space", None)
    return isinstance(envs, (gym.Env, *_Stock)) and getattr(getattr(space, "dtype", None), "kind", "") == "U"


def adapt(
    envs: gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any],
    *,
    key: Key | None = None,
    task: Task | None = None,
    success: Success | None = None,
    max_episode_steps: int | None = None,
) -> gym.vector.VectorEnv[Any, Any, Any]:
    """Return a text environment in our vector form, with our info keys; environments that need no adapting as they are.

    `collect`, `evaluate` and the vector wrappers call it themselves. Missing info keys are filled in:

    | info key | default |
    |---|---|
    | `state_key` | `key(observation, info)`; without `key` the observation, if it is text |
    | `task_id` | `task(info)`; else the reset options if they name more than a split, else the seed, else the reset |
    | `won` | `success(reward, terminated, info)`; else `info["success"]`; False until the episode is over |
    | `is_action_valid` | True |
    | `score` | 1.0 after a success, else 0.0 |

    A key without a value is left out, or masked (`_won`) if other sub-environments have it.

    Args:
        envs: one environment (becomes a vector environment of one, autoreset DISABLED) or a stock vector environment.
            Actions are strings; observations too, unless `key` is given.
        key: names a state; never None.
        task: names the task after a reset; episodes of one task form a group.
        success: returns whether an episode was won, at its last step.
        max_episode_steps: step limit; None: a `TimeLimit`'s, else `MOST_STEPS` and a warning; -1: a `TimeLimit`'s.

    Raises:
        TypeError: actions are not text, or functions or a limit are given for an environment of ours.
        ValueError: an `AsyncVectorEnv` uses shared memory, which cannot hold text, or the limit is invalid.

    >>> class Guess(gym.Env):
    ...     observation_space = action_space = gym.spaces.Text(10)
    ...     def reset(self, *, seed=None, options=None):
    ...         return "high or low?", {}
    ...     def step(self, action):
    ...         return "over", float(action == "low"), True, False, {"success": action == "low"}
    >>> envs = adapt(gym.vector.SyncVectorEnv([Guess] * 2, autoreset_mode=AutoresetMode.DISABLED))
    >>> _ = envs.reset(seed=[7, 7])
    >>> envs.step(["low", "high"])[4]["won"]
    array([ True, False])
    """
    if not isinstance(envs, (gym.Env, *_Stock)):
        arguments = {"key": key, "task": task, "success": success, "max_episode_steps": max_episode_steps}
        given = [name for name, value in arguments.items() if value is not None]
        if given:
            raise TypeError(
                f"{given[0]}= is for a single environment, SyncVectorEnv or AsyncVectorEnv, got {envs}: adapt it "
                "before wrapping it; environments of this package have these values in their infos"
            )
        return envs
    if not takes_text(envs):
        space = envs.action_space if isinstance(envs, gym.Env) else envs.single_action_space
        raise TypeError(
            f"the actions of {envs} are {space}, not text (whose space has dtype=str): turn strings into them with "
            "gymnasium.wrappers.TransformAction(env, function, agentgym.core.TextSpace())"
        )
    if isinstance(envs, gym.Env):
        envs = SyncVectorEnv([partial(_itself, envs)], autoreset_mode=AutoresetMode.DISABLED)
    return AdaptedVectorEnv(envs, key, task, success, max_episode_steps)


def _itself(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """Return the environment; unlike a lambda, this function can be pickled."""
    return env


class AdaptedEnv(TextEnv[Any]):
    """One sub-environment (an environment or a `Worker`) with our info keys; errors name `index`."""

    def __init__(
        self,
        env: Any,
        key: Key | None,
        task: Task | None,
        success: Success | None,
        limit: int | None = None,
        index: int = 0,
        owner: Any = None,
    ) -> None:
        self.metadata = {"render_modes": [], **env.metadata}
        super().__init__()
        self.env = env
        self.render_mode = env.render_mode
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self._key, self._task, self._success = key, task, success
        self._where = f"sub-environment {index} ({env.envs if isinstance(env, Worker) else env})"
        self._owner = env if owner is None else owner
        limited = env.has_wrapper_attr("_max_episode_steps")  # of a `TimeLimit`
        self._assumed = limit is None and not limited
        self._limit = MOST_STEPS if self._assumed else None if limit in (None, -1) else limit
        self._steps = 0
        self._seed: int | None = None
        self._resets = 0
        self._task_id = ""
        self._observation: Any = None
        self._info: Info = {}
        self._won: bool | None = False
        self._cut = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Info]:
        self._seed = None if seed is None else int(seed)
        self.begin(options or {})
        self._begun = self._running = True
        return self.observe(), self.describe(True)

    def begin(self, options: dict[str, Any]) -> None:
        self._resets += 1
        with asking("reset", self._where):
            answer = self.env.reset(seed=self._seed, options=options or None)
        self._observation, self._info = read_reset(answer, self._where)
        self._steps = 0
        self._task_id = str(self._name_of_task(options))
        self._won, self._cut = False, False

    def act(self, command: str) -> tuple[float, bool, bool]:
        where = self._where
        with asking("step", where):
            answer = self.env.step(command)
        self._observation, reward, terminated, self._cut, self._info = read_step(answer, where)
        self._steps += 1
        if self._limit is not None and self._steps >= self._limit and not (terminated or self._cut):
            self._cut = True
            if self._assumed:
                self._warn_of_no_end()
        self._won = self._is_success(reward, terminated) if terminated or self._cut else False
        return reward, terminated, flag(self._info.get("is_action_valid", True), "info['is_action_valid']", where)

    def is_cut(self) -> bool:
        return self._cut

    def observe(self) -> Any:
        return str(self._observation) if isinstance(self._observation, str) else self._observation

    def describe(self, valid: bool) -> Info:
        info = {**self._info, "is_action_valid": valid, "task_id": self._task_id}
        if self._won is None:
            info.pop("won", None)
        else:
            info["won"] = self._won
        if self._key is not None:
            info["state_key"] = self._key(self._observation, self._info)
        elif isinstance(self._observation, str):
            info.setdefault("state_key", self._observation)
        if "state_key" in info:
            if info["state_key"] is None:
                raise ValueError(
                    f"{self._where}: the key of a state is None: give each state its own name, in "
                    "info['state_key'] or by adapt(envs, key=lambda observation, info: ...)"
                )
            info["state_key"] = str(info["state_key"])
        return {**info, "score": number(info.get("score", bool(self._won)), "info['score']", self._where)}

    def get_state(self) -> Any:
        env = self.env
        state = env.snapshot() if isinstance(env, Worker) else branching.snapshot(env)
        known = {name: getattr(self, name) for name in _OF_AN_EPISODE}
        return state, copy.deepcopy(known)

    def set_state(self, state: Any) -> None:
        inner, known = state
        if isinstance(self.env, Worker):
            self.env.restore(inner)
        else:
            branching.resume(self.env, inner)
        vars(self).update(copy.deepcopy(known))

    def reseed(self, seed: int) -> None:
        super().reseed(seed)
        if isinstance(self.env, Worker):
            self.env.reseed(seed)
        else:
            branching.reseed(self.env, seed)

    def _name_of_task(self, options: Mapping[str, Any]) -> Hashable:
        if self._task is not None:
            return self._task(self._info)
        named = {name: value for name, value in options.items() if value is not None}
        for source in (self._info, named):
            if source.get("task_id") is not None:
                found: Hashable = source["task_id"]
                return found
        parts = [f"{name}={named[name]}" for name in sorted(named)]
        if not named.keys() - {"split"}:
            parts.append(f"reset={self._resets}" if self._seed is None else f"seed={self._seed}")
        return ", ".join(parts)

    def _is_success(self, reward: float, terminated: bool) -> bool | None:
        if self._success is not None:
            return flag(self._success(reward, terminated, self._info), "what success= returns", self._where)
        known = [name for name in ("won", "success") if name in self._info]
        return flag(self._info[known[0]], f"info[{known[0]!r}] of an episode's end", self._where) if known else None

    def _warn_of_no_end(self) -> None:
        if self._owner not in _endless:
            _endless.add(self._owner)
            warnings.warn(
                f"{self._where} did not end an episode within {MOST_STEPS:,} steps and has no TimeLimit: the "
                "episode is truncated. Set a limit: gymnasium.wrappers.TimeLimit(env, steps) or "
                "agentgym.adapter.adapt(envs, max_episode_steps=steps); -1 for no limit",
                RuntimeWarning,
                stacklevel=2,
            )


class AdaptedVectorEnv(TextVectorEnv):
    """Vector form of `AdaptedEnv`, made by `adapt`; keys that only some sub-environments have get masks."""

    env_class = AdaptedEnv

    def __init__(
        self,
        inner: SyncVectorEnv[Any, Any] | AsyncVectorEnv[Any, Any],
        key: Key | None = None,
        task: Task | None = None,
        success: Success | None = None,
        limit: int | None = None,
    ) -> None:
        if limit is not None and limit != -1:
            whole("max_episode_steps", limit, 1)
        self.inner = inner
        self._workers: list[Worker] = []
        if isinstance(inner, AsyncVectorEnv):
            if inner.shared_memory:
                raise ValueError(f"{inner}: shared memory garbles text; make it with shared_memory=False")
            self._workers = [Worker(inner, i) for i in range(inner.num_envs)]
        else:
            self.inner_envs = inner.envs
        super().__init__(
            inner.num_envs,
            autoreset_mode=inner.metadata["autoreset_mode"],
            key=key,
            task=task,
            success=success,
            limit=limit,
        )
        self.spec = inner.spec
        self.instructions = self._attribute("instructions", "")
        self.command_tags = self._attribute("command_tags", ())
        self.tools, self.checks_calls = self._attribute("tools", ()), self._attribute("checks_calls", False)

    def make_envs(self, **functions: Any) -> list[TextEnv[Any]]:
        # Not `inner`: a single environment gets a new one each time it is adapted.
        owner = self.inner if self._workers else self.inner_envs[0].unwrapped
        inside = self._workers or self.inner_envs
        return [AdaptedEnv(env, index=i, owner=owner, **functions) for i, env in enumerate(inside)]

    def columns(self, infos: Sequence[Info]) -> dict[str, Any]:
        columns: dict[str, Any] = {}
        for key in dict.fromkeys(name for info in infos for name in info):
            has = np.array([key in info for info in infos])
            values = [info.get(key) for info in infos]
            values = [value.item() if isinstance(value, np.generic) else value for value in values]
            kinds = {type(value) for value, there in zip(values, has, strict=True) if there}
            dtype = COLUMN_DTYPE.get(kinds.pop(), np.object_) if len(kinds) == 1 else np.object_
            if dtype is np.int64 and any(abs(value) >= 2**63 for value in values if value is not None):
                dtype = np.object_
            if dtype is not np.object_:
                values = [value if there else 0 for value, there in zip(values, has, strict=True)]
            columns[key] = np.fromiter(values, dtype, len(infos))
            if not has.all():
                columns[f"_{key}"] = has
        return columns

    def prepare(self, running: Sequence[int], commands: Sequence[str]) -> None:
        if self._workers:
            for i in running:
                self._workers[i].ask("step", commands[i])

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        found: tuple[Any, ...] = self.inner.call(name, *args, **kwargs)
        return found

    def get_attr(self, name: str) -> tuple[Any, ...]:
        found: tuple[Any, ...] = self.inner.get_attr(name)
        return found

    def set_attr(self, name: str, values: Any) -> None:
        self.inner.set_attr(name, values)

    def close_extras(self, **kwargs: Any) -> None:
        self.inner.close(**kwargs)

    def _attribute(self, name: str, default: Any) -> Any:
        return self.get_attr(name)[0] if self.call("has_wrapper_attr", name)[0] else default

    def _restart(
        self,
        indices: Sequence[int],
        seeds: Sequence[int | None] | None = None,
        options: Sequence[Mapping[str, Any] | None] | None = None,
    ) -> None:
        for k, i in enumerate(indices if self._workers else ()):
            seed, given = seeds[k] if seeds else None, options[k] if options else None
            self._workers[i].start(None if seed is None else int(seed), dict(given) if given else None)
        super()._restart(indices, seeds, options)

    def _final(self, ended: list[int]) -> dict[str, Any]:
        mask = np.zeros(self.num_envs, np.bool_)
        mask[ended] = True
        observations = np.full(self.num_envs, None, np.object_)
        for i in ended:
            observations[i] = self._observations[i]
        info = self.columns([info if over else {} for info, over in zip(self._infos, mask, strict=True)])
        info = {**{f"_{name}": mask.copy() for name in info if not name.startswith("_")}, **info}
        return {"final_obs": observations, "_final_obs": mask, "final_info": info, "_final_info": mask.copy()}
