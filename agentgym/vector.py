"""Many episodes of one text environment in one process, stepped by direct calls of `TextEnv.advance`."""

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from operator import itemgetter
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from agentgym.branching import Branching, Saved
from agentgym.branching.stack import check_index, read_reseed, read_restore
from agentgym.checks import keywords_of, nearest, suggest, whole
from agentgym.core import Info, TextEnv
from agentgym.outside.text import clean_all

Array = NDArray[Any]
_OWN = ("num_envs", "max_episode_steps", "autoreset_mode")
COLUMN_DTYPE = {bool: np.bool_, float: np.float64, int: np.int64}


class TextVectorEnv(Branching, gym.vector.VectorEnv[Any, Any, Array]):
    """Vector form of one `TextEnv` class.

    Observations are a `tuple[str, ...]`, or for `Dict` spaces a dict with a tuple of strings per text and a stacked
    array per picture. Every info key is an array with one entry per sub-environment and has no mask, except `final_obs`
    and `final_info` (Gymnasium's convention). Autoreset modes:

    * `SAME_STEP` (default): the step that ends an episode returns the first observation of the next one.
    * `NEXT_STEP`: the following step, whose action is ignored, returns it.
    * `DISABLED`: a finished sub-environment ignores its action (pass `""`), keeps its observation, info and flags, and
      gets reward 0 until `reset(options={"reset_mask": mask})`.

    `max_episode_steps` is the time limit in steps (None: none), `env_kwargs` go to each environment.
    """

    env_class: ClassVar[type[TextEnv[Any]]]

    def __init__(
        self,
        num_envs: int = 1,
        *,
        max_episode_steps: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
        **env_kwargs: Any,
    ) -> None:
        self.num_envs = num_envs = whole("num_envs", num_envs, 1)
        self.max_episode_steps = None if max_episode_steps is None else whole("max_episode_steps", max_episode_steps, 1)
        try:
            self.autoreset_mode = AutoresetMode(autoreset_mode)
        except ValueError as error:
            values = ", ".join(repr(mode.value) for mode in AutoresetMode)
            raise ValueError(f"unknown autoreset_mode {autoreset_mode!r}; expected one of {values}") from error
        known = keywords_of(self.env_class)
        for name in env_kwargs:
            if name not in known and nearest(name, [*known, *_OWN]) in _OWN:
                raise TypeError(f"{type(self).__name__}: unknown argument {name!r}; {suggest(name, _OWN)}")
        self.envs = self.make_envs(**env_kwargs)
        first = self.envs[0]
        self.metadata = {**first.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = first.render_mode
        self.instructions = first.instructions
        self.tools, self.checks_calls = first.tools, first.checks_calls
        self.single_observation_space = first.observation_space
        self.single_action_space = first.action_space
        self.observation_space = batch_space(first.observation_space, num_envs)
        self.action_space = batch_space(first.action_space, num_envs)
        self._observations: list[Any] = [None] * num_envs
        self._infos: list[Info] = [{}] * num_envs
        self._elapsed = [0] * num_envs
        self._terminated = [False] * num_envs
        self._truncated = [False] * num_envs
        self._begun = False
        #: the columns of the `SETTLED` keys
        self._settled: dict[str, Array] = {}

    def make_envs(self, **env_kwargs: Any) -> list[TextEnv[Any]]:
        """Return the `num_envs` sub-environments."""
        return [self.env_class(**env_kwargs) for _ in range(self.num_envs)]

    def columns(self, infos: Sequence[Info]) -> dict[str, Any]:
        """Return one array per info key; text and tuples have dtype object."""
        settled, count = self._settled, len(infos)
        columns = {
            key: settled[key].copy()
            if key in settled
            else np.fromiter(map(itemgetter(key), infos), COLUMN_DTYPE.get(type(first), np.object_), count)
            for key, first in infos[0].items()
        }
        if not settled:
            self._settled = {key: columns[key].copy() for key in self.env_class.SETTLED}
        return columns

    def _settle(self, indices: Iterable[int]) -> None:
        for key, column in self._settled.items():
            for i in indices:
                column[i] = self._infos[i][key]

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Mapping[str, Any] | Sequence[Mapping[str, Any] | None] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode in every sub-environment, or in those of a mask.

        Args:
            seed: an integer s (sub-environment i gets s + i), a sequence of one integer or None each, or None.
            options: one mapping for all, or a sequence of one mapping (or None) each. The key `reset_mask`, bool
                (num_envs,), selects which start; options of single ones then go into the key `per_env`.

        Raises:
            TypeError: seeds or options have a wrong type or no order (set, dict, generator).
            ValueError: wrong length, malformed or empty mask, or the mask omits a sub-environment that was never reset.
        """
        mask, per_env = self._split_options(options)
        if seed is None:
            seeds: Sequence[int | None] = [None] * self.num_envs
        elif isinstance(seed, (int, np.integer)):
            seeds = [int(seed) + i for i in range(self.num_envs)]
        else:
            seeds = self._batch("seed", seed, (int, np.integer, type(None)), "an integer or None")
        indices = np.flatnonzero(mask).tolist()
        self._restart(indices, [seeds[i] for i in indices], [per_env[i] for i in indices])
        self._begun = True
        return self._batch_observations(), self.columns(self._infos)

    def step(self, actions: Sequence[str]) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """Play one command in every sub-environment.

        `actions` is a list, tuple or array of `num_envs` strings; each is cleaned once. Returns observations, rewards
        (float64), terminated (bool), truncated (bool) and infos, arrays of shape (num_envs,).

        Raises:
            ValueError: the number of actions is not `num_envs`.
            TypeError: actions without order, a single string, or no string for a running sub-environment.
            gymnasium.error.ResetNeeded: before the first reset.
        """
        if not self._begun:
            raise gym.error.ResetNeeded("TextVectorEnv.step: no episodes yet; call reset() first")
        running, waiting, commands = self._read(actions)
        self.prepare(running, commands)
        rewards = [0.0] * self.num_envs
        ended = self._play(running, commands, rewards)
        if waiting:
            self._restart(waiting)
        count = self.num_envs
        flags = np.fromiter(self._terminated, np.bool_, count), np.fromiter(self._truncated, np.bool_, count)
        if ended and self.autoreset_mode is AutoresetMode.SAME_STEP:
            final = self._final(ended)
            self._restart(ended)
        else:
            final = {}
            self._settle(ended)
        gained = np.fromiter(rewards, np.float64, count)
        return self._batch_observations(), gained, *flags, {**self.columns(self._infos), **final}

    def _play(self, running: Sequence[int], commands: Sequence[str], rewards: list[float]) -> list[int]:
        may_cut = self.env_class.is_cut is not TextEnv.is_cut
        envs, observations, infos, elapsed = self.envs, self._observations, self._infos, self._elapsed
        limit = inf if self.max_episode_steps is None else self.max_episode_steps
        ended: list[int] = []
        for i in running:
            env = envs[i]
            observations[i], rewards[i], over, infos[i] = env.advance(commands[i], infos[i])
            elapsed[i] = steps = elapsed[i] + 1
            cut = may_cut and env.is_cut()
            if over or cut or steps >= limit:
                self._terminated[i], self._truncated[i] = over, cut or steps >= limit
                if over or cut:
                    env.finish()
                ended.append(i)
        return ended

    def _read(self, actions: Sequence[str]) -> tuple[Sequence[int], Sequence[int], list[str]]:
        batch: Any = self._batch("actions", actions)
        # `tolist` turns numpy strings into plain ones
        given = batch.tolist() if isinstance(batch, np.ndarray) else list(batch)
        running: Sequence[int] = range(self.num_envs)
        over: list[int] = []
        if any(self._terminated) or any(self._truncated):
            ended = [a or b for a, b in zip(self._terminated, self._truncated, strict=True)]
            running, over = ([i for i, done in enumerate(ended) if done is kind] for kind in (False, True))
            for i in over:
                given[i] = ""
        try:
            commands = clean_all(given)
        except TypeError:
            i, action = next((i, action) for i, action in enumerate(given) if not isinstance(action, str))
            raise TypeError(
                f"sub-environment {i}: expected a str command, got {type(action).__name__} ({action!r:.200})"
            ) from None
        return running, over if self.autoreset_mode is AutoresetMode.NEXT_STEP else (), commands

    def prepare(self, running: Sequence[int], commands: Sequence[str]) -> None:
        """Do shared work of the coming steps, such as one search for all; `act` gets the same command objects."""

    def snapshot(self, i: int) -> Saved:
        i = check_index(i, self.num_envs)
        if not self._begun:
            raise gym.error.ResetNeeded(f"{type(self).__name__}.snapshot: no episodes yet; call reset() first")
        counted = self._elapsed[i], self._terminated[i], self._truncated[i]
        return Saved(type(self).__name__, self.envs[i].snapshot(), (counted, self._infos[i].copy()))

    def restore(self, indices: Any, states: Any, seeds: Any = None) -> tuple[Any, dict[str, Any]]:
        chosen, given, numbers = read_restore(type(self).__name__, self.num_envs, indices, states, seeds)
        if not self._begun and len(chosen) < self.num_envs:
            raise gym.error.ResetNeeded(
                f"{type(self).__name__}.restore: no episodes yet; call reset() first, or restore all sub-environments"
            )
        for i, state, seed in zip(chosen, given, numbers, strict=True):
            self.envs[i].resume(state.inside, seed)
            self._observations[i] = self.envs[i].observe()
            (self._elapsed[i], self._terminated[i], self._truncated[i]), info = state.own
            self._infos[i] = info.copy()
        self._settle(chosen)
        self._begun = True
        return self._batch_observations(), self.columns(self._infos)

    def reseed(self, indices: Any, seeds: Any) -> None:
        given = read_reseed(self.num_envs, indices, seeds)
        if not self._begun:
            raise gym.error.ResetNeeded(f"{type(self).__name__}.reseed: no episodes yet; call reset() first")
        for i, seed in given:
            self.envs[i].reseed(seed)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        values = [getattr(env, name) for env in self.envs]
        return tuple(value(*args, **kwargs) if callable(value) else value for value in values)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        return tuple(getattr(env, name) for env in self.envs)

    def render(self) -> tuple[Any, ...] | None:
        return None if self.render_mode is None else self.call("render")

    def close_extras(self, **kwargs: Any) -> None:
        self.call("close")

    def _restart(
        self,
        indices: Sequence[int],
        seeds: Sequence[int | None] | None = None,
        options: Sequence[Mapping[str, Any] | None] | None = None,
    ) -> None:
        for k, i in enumerate(indices):
            given = options[k] if options else None
            self._observations[i], self._infos[i] = self.envs[i].reset(
                seed=seeds[k] if seeds else None, options=dict(given) if given else None
            )
            self._elapsed[i] = 0
            self._terminated[i] = self._truncated[i] = False
        self._settle(indices)

    def _batch_observations(self) -> Any:
        if not isinstance(self.single_observation_space, gym.spaces.Dict):
            return tuple(self._observations)
        batch: dict[str, Any] = {}
        for key, space in self.single_observation_space.items():
            values = [observation[key] for observation in self._observations]
            batch[key] = np.stack(values) if isinstance(space, gym.spaces.Box) else tuple(values)
        return batch

    def _final(self, ended: list[int]) -> dict[str, Any]:
        count, first = self.num_envs, self._infos[ended[0]]
        objects = iter(np.empty((len(first) + 1, count), np.object_))  # filled with None
        masks = np.zeros((len(first) + 2, count), np.bool_)
        masks[:, ended] = True
        final_mask, info_mask, *key_masks = masks
        observations = next(objects)
        for i in ended:
            observations[i] = self._observations[i]
        info: dict[str, Any] = {}
        infos = [(i, self._infos[i]) for i in ended]
        for (key, value), mask in zip(first.items(), key_masks, strict=True):
            dtype = COLUMN_DTYPE.get(type(value))
            column = next(objects) if dtype is None else np.zeros(count, dtype)
            for i, last in infos:
                column[i] = last[key]
            info[key], info[f"_{key}"] = column, mask
        return {"final_obs": observations, "_final_obs": final_mask, "final_info": info, "_final_info": info_mask}

    def _split_options(self, options: Any) -> tuple[Array, Sequence[Mapping[str, Any] | None]]:
        everywhere = np.ones(self.num_envs, np.bool_)
        if options is None:
            return everywhere, [None] * self.num_envs
        if not isinstance(options, Mapping):
            return everywhere, self._batch("options", options, (Mapping, type(None)), "a mapping or None")
        options = dict(options)
        mask = options.pop("reset_mask", everywhere)
        if not (isinstance(mask, np.ndarray) and mask.dtype == np.bool_ and mask.shape == (self.num_envs,)):
            raise ValueError(f"reset_mask must be a bool array of shape ({self.num_envs},), got {mask!r:.200}")
        if not mask.any():
            raise ValueError(
                "reset_mask holds no sub-environment: pass a mask with at least one True, or no mask at all"
            )
        if not self._begun and not mask.all():
            raise ValueError("reset_mask leaves out sub-environments that were never reset: reset all of them first")
        per_env = options.pop("per_env", None)
        if per_env is None:
            return mask, [options] * self.num_envs
        given = self._batch("per_env", per_env, (Mapping, type(None)), "a mapping or None")
        return mask, [{**options, **(more or {})} for more in given]

    def _batch(self, name: str, values: Any, kinds: tuple[type, ...] = (), expected: str = "") -> Sequence[Any]:
        array = isinstance(values, np.ndarray)
        if isinstance(values, (str, bytes)) or not (array or isinstance(values, Sequence)):
            raise TypeError(
                f"{name} must be a list, a tuple or an array with one entry per sub-environment ({self.num_envs}), got "
                f"{type(values).__name__} ({values!r:.200})"
            )
        if (array and values.ndim != 1) or len(values) != self.num_envs:
            got = f"an array of shape {values.shape}" if array else f"{len(values)} entries"
            raise ValueError(f"{name} must hold one entry per sub-environment ({self.num_envs}), got {got}")
        for i, value in enumerate(values if kinds else ()):
            if not isinstance(value, kinds):
                raise TypeError(
                    f"{name} of sub-environment {i} must be {expected}, got {type(value).__name__} ({value!r:.200})"
                )
        return values  # type: ignore[no-any-return]
