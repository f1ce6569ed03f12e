"""The same episodes with other states: what was shown when their actions are played again."""

from __future__ import annotations

import dataclasses
import re
import zlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

import agentgym  # noqa: F401  # registers the environments
from agentgym.trajectory import Floats, StepTable
from agentgym.trajectory.columns import intern
from baselines.environments.settings import SIDE_BY_SIDE
from benchmarks.json_files import ResultsError
from wrappers.prompt import text_of
from wrappers.similar_states import merge_similar_states

#: Share of the places on a page with adverts that hold one.
_PLACES = 0.5
#: Dimensions of `bag_of_words`.
_BUCKETS = 1024


@dataclass(frozen=True)
class Labels:
    """What counts as one state: by the key "own", else texts of a cosine from `threshold` on (None: equal ones)."""

    key: str = "own"
    threshold: float | None = None
    adverts: float = 0.0

    @property
    def noise(self) -> str:
        return f"{100 * self.adverts:.0f} %"


def bag_of_words(states: Sequence[Hashable]) -> Floats:
    """Return one vector of word counts per text, float64 (n, 1024); needs no model.

    >>> vectors = bag_of_words(["Ada wrote notes.", "notes Ada wrote", "boats"])
    >>> bool((vectors[0] == vectors[1]).all()), float(vectors[0] @ vectors[2])
    (True, 0.0)
    """
    vectors = np.zeros((len(states), _BUCKETS))
    for row, state in zip(vectors, states, strict=True):
        for word in re.findall(r"\w+", str(state).lower()) or ["nothing"]:
            row[zlib.crc32(word.encode()) % _BUCKETS] += 1
    return vectors


def with_states(part: StepTable, shown: StepTable | None, labels: Labels) -> StepTable:
    """Return a table with the states of a labelling; `shown` are the same rows with texts, of `shown_again`."""
    if shown is None or labels.key == Labels().key:
        return part
    texts = dataclasses.replace(part, state=shown.state, next_state=shown.next_state, states=shown.states)
    return texts if labels.threshold is None else merge_similar_states(texts, bag_of_words, labels.threshold)


def shown_again(
    table: StepTable, env: str, options: Mapping[str, Any], tasks: Sequence[Mapping[str, Any]], seed: int
) -> StepTable:
    """Play the actions of episodes again, groups being tasks, and return them with the shown texts as states.

    `ResultsError`: an action brings another reward than before.
    """
    envs: Any = gym.make_vec(env, min(table.n_trajectories, SIDE_BY_SIDE), autoreset_mode="Disabled", **options)
    before, after = [""] * len(table), [""] * len(table)
    episodes = [
        table.order[begin:end].tolist() for begin, end in zip(table.offsets[:-1], table.offsets[1:], strict=True)
    ]
    for start in range(0, len(episodes), envs.num_envs):
        wave = episodes[start : start + envs.num_envs]
        chosen = [dict(tasks[int(table.group[rows[0]])]) for rows in wave]
        chosen += [chosen[-1]] * (envs.num_envs - len(wave))
        observations, _ = envs.reset(seed=seed + start, options=chosen)
        for t in range(max(map(len, wave))):
            running = [(i, rows[t]) for i, rows in enumerate(wave) if t < len(rows)]
            actions = [""] * envs.num_envs
            for i, row in running:
                before[row] = text_of(_at(observations, i))
                actions[i] = str(table.actions[table.action[row]])
            observations, rewards, *_ = envs.step(actions)
            for i, row in running:
                after[row] = text_of(_at(observations, i))
                if not np.isclose(rewards[i], table.reward[row]):
                    raise ResultsError(
                        f"{env}, {table.groups[table.group[row]]}: {actions[i]!r} played again brings {rewards[i]:g}, "
                        f"not {table.reward[row]:g}: these episodes cannot be shown again"
                    )
    envs.close()
    for row in table.last[table.terminated[table.last]].tolist():
        after[row] += " [success]" if table.won[row] else " [failure]"
    (state, next_state), states = intern("state", before, after)
    return dataclasses.replace(table, state=state, next_state=next_state, states=states)


def _at(observations: Any, i: int) -> Any:
    many = isinstance(observations, dict)  # of a `Dict` space
    return {name: column[i] for name, column in observations.items()} if many else observations[i]


def noise_of(adverts: float) -> dict[str, Any]:
    """Return the options of an environment whose pages carry adverts."""
    return {"noise": (adverts, _PLACES)} if adverts else {}
