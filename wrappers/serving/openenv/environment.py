"""A session: a Gymnasium environment in OpenEnv's form, with snapshots shared between sessions."""

from __future__ import annotations

import secrets
from typing import Any

import gymnasium as gym
from openenv.core.env_server import Environment
from openenv.core.env_server.types import EnvironmentMetadata

import agentgym
from agentgym.branching import restore, snapshot
from agentgym.checks import whole
from wrappers.serving.openenv.client import EpisodeState, TextAction, TextObservation


class GymEnvironment(Environment[TextAction, TextObservation, EpisodeState]):
    """Serve a Gymnasium environment; `saved` holds the last `most` snapshots of all sessions."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, env: gym.Env[Any, str], saved: dict[str, Any], most: int) -> None:
        super().__init__()
        self._env, self._saved, self._most = env, saved, most
        self._inner: Any = env.unwrapped
        self._state, self._shown = EpisodeState(), TextObservation(text="")
        self._closed = False

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, snapshot: str | None = None, **options: Any
    ) -> TextObservation:
        """Start an episode, or continue a saved one (`seed` of later draws, None: unchanged).

        Raises:
            ValueError: unknown snapshot, task or option (the message lists known ones), or an invalid seed.
            RuntimeError: the session is closed.
        """
        self._check_open()
        if seed is not None:
            whole("seed", seed, 0)
        if snapshot is not None and not isinstance(snapshot, str):
            raise ValueError(f"snapshot must be the name of a snapshot, got {snapshot!r:.40}")
        steps, outcome = 0, {}
        saved = self._saved.get(snapshot) if snapshot is not None else None  # once: other sessions drop some
        if snapshot is None:
            observation, info = self._env.reset(seed=seed, options=options or None)
        elif options:
            raise ValueError(f"a snapshot has its task already: leave out {', '.join(sorted(options))}")
        elif saved is None:
            raise ValueError(f"no snapshot {snapshot!r:.40}: the server keeps the last {self._most}, of this run")
        else:
            state, steps, outcome = saved
            observation, info = restore(self._env, state, seed)
        self._state = EpisodeState(episode_id=episode_id, step_count=steps)
        return self._show(observation, info, **outcome)

    def step(self, action: TextAction, timeout_s: float | None = None, **_: Any) -> TextObservation:
        """Play a command (a refused one is no error), or save the episode and return the last observation, no reward.

        Raises:
            RuntimeError: the session is closed.
        """
        self._check_open()
        if action.snapshot:
            name, outcome = secrets.token_hex(8), self._shown.model_dump(include={"done", "truncated"})
            self._saved[name] = snapshot(self._env), self._state.step_count, outcome
            names = list(self._saved)
            for old in names[: max(0, len(names) - self._most)]:
                self._saved.pop(old, None)  # another session may have dropped it
            return self._shown.model_copy(update={"snapshot": name, "reward": None})
        observation, reward, terminated, truncated, info = self._env.step(action.command)
        self._state.step_count += 1
        done = bool(terminated or truncated)
        return self._show(observation, info, reward=float(reward), done=done, truncated=bool(truncated))

    @property
    def state(self) -> EpisodeState:
        return self._state

    def close(self) -> None:
        self._closed = True
        self._env.close()

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("this session was idle for too long and is closed: connect again")

    def get_metadata(self) -> EnvironmentMetadata:
        rules = getattr(self._inner, "instructions", "")
        return EnvironmentMetadata(
            name=self._env.spec.id if self._env.spec else "", description=rules, version=agentgym.__version__
        )

    def list_splits(self) -> list[str]:
        """Return the names of the splits, for `reset(split=..., index=...)`."""
        return list(self._inner.tasks.splits)

    def num_tasks(self, split: str) -> int:
        return int(self._inner.num_tasks(split))

    def _show(self, observation: str, info: dict[str, Any], **outcome: Any) -> TextObservation:
        self._state.task_id, self._state.state_key = info["task_id"], str(info["state_key"])
        known = {name: info[name] for name in ("is_action_valid", "won", "score", "unscored") if name in info}
        commands = list(info.get("admissible_actions", ()))
        self._shown = TextObservation(text=observation, admissible_actions=commands, **known, **outcome)
        return self._shown
