"""Time to give credit to 16 groups x 8 episodes x 50 steps, per method."""

from __future__ import annotations

import functools
import time
from typing import Any

import numpy as np

from agentgym.trajectory import StepTable
from benchmarks import peers
from benchmarks.timing import Measurement, best_milliseconds

GROUPS, GROUP_SIZE, LENGTH = 16, 8, 50
#: Sweeps that published code makes over every graph, converged or not.
SWEEPS = 1000


def random_walk_table(seed: int, groups: int, size: int, length: int, states: int = 300) -> StepTable:
    """Synthetic groups of full-length episodes: walks over a ring of `states` states with chords; half succeed.

    Returns:
        A table of `groups * size * length` rows; the reward is 1 in the last step of a successful walk.
    """
    rng = np.random.default_rng(seed)
    episodes = groups * size
    moves = rng.integers(0, 4, (episodes, length))
    chords = rng.integers(0, states, (groups, states))
    columns: dict[str, list[Any]] = {name: [] for name in ("group", "trajectory", "t", "state", "action", "next_state")}
    for episode in range(episodes):
        group, here = divmod(episode, size)[0], 0
        for t, move in enumerate(moves[episode].tolist()):
            there = int(chords[group, here]) if move == 3 else (here + (1, -1, 2)[move]) % states
            after = states + int(episode % 2) if t == length - 1 else there
            for name, value in zip(columns, (group, episode, t, here, move, after), strict=True):
                columns[name].append(value)
            here = there
    won = np.repeat(np.arange(episodes) % 2 == 0, length)
    last = np.tile(np.arange(length) == length - 1, episodes)
    return StepTable.from_arrays(**columns, reward=(won & last).astype(float), won=won)


def measure_credit(quick: bool) -> list[Measurement]:
    """Processor milliseconds to score 16 groups x 8 episodes x 50 steps, per method, and to propagate by sweeps."""
    from baselines.recipes import RECIPES

    table = random_walk_table(0, GROUPS, GROUP_SIZE, LENGTH)
    shape = f"{GROUPS} x {GROUP_SIZE} x {LENGTH} steps"
    found = []
    for name, recipe in RECIPES.items():
        spent = best_milliseconds(functools.partial(recipe, table), 5 if quick else 20)
        found.append(Measurement(f"credit_{name}", "credit", f"{name}, {shape}", True, spent, "ms"))
    begin = time.process_time()
    peers.sweeping_propagation(table, sweeps=SWEEPS)
    spent = (time.process_time() - begin) * 1e3
    what = f"{SWEEPS:,} sweeps over a dict graph, {shape}"
    found.append(Measurement("credit_sweeps", "credit", what, False, spent, "ms"))
    return found
