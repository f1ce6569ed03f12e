"""A vector wrapper that keeps the observations, so that episodes and state graphs can be shown afterwards."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from numpy.typing import NDArray

from policies.pictures import data_url


class ObservationLog(gym.vector.VectorWrapper[Any, Any, Any, Any, NDArray[Any]]):
    """Remembers what every sub-environment showed since the last reset (autoreset `DISABLED`).

    Place it directly around the environment and its state keys, below reply and prompt wrappers. Where a picture is
    shown, its data URL stands in a line before the text, as `benchmarks/report/board.js` draws it.

    Attributes:
        frames: per sub-environment, the observations in order; after the end of an episode the last one repeats.
        texts: (task id, state key) -> the first observation with it.
    """

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any]) -> None:
        super().__init__(env)
        self.frames: list[list[str]] = []
        self.texts: dict[tuple[str, str], str] = {}

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Reset, and begin the record of all sub-environments anew."""
        observations, infos = self.env.reset(seed=seed, options=options)
        self.frames = [[] for _ in range(self.num_envs)]
        self._note(observations, infos)
        return observations, infos

    def step(self, actions: Any) -> tuple[Any, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Step, and note what every sub-environment shows."""
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        self._note(observations, infos)
        return observations, rewards, terminated, truncated, infos

    def _note(self, observations: Any, infos: dict[str, Any]) -> None:
        texts = observations["text"] if isinstance(observations, dict) else observations
        if isinstance(observations, dict) and "image" in observations:
            texts = [f"{data_url(one)}\n{text}" for one, text in zip(observations["image"], texts, strict=True)]
        keys = infos.get("canonical_key", infos["state_key"])
        for i, (text, task, key) in enumerate(zip(texts, infos["task_id"], keys, strict=True)):
            self.frames[i].append(text)
            self.texts.setdefault((str(task), str(key)), text)
