"""Forks keep nothing of what they replaced."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import pytest
from gymnasium.vector import AutoresetMode

from tests.wrappers.whole_stack import make_stack
from wrappers import SubEnvWrapper

COUNT = 128
REPLIES = [f"<action>{move}</action>" for move in ("up", "right", "down", "left")]


class Hoarder(SubEnvWrapper[None]):
    """Keeps every state that was restored."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.kept: list[Any] = []

    def begin(self, indices: Any, shown: Any) -> None:
        pass

    def restore(self, indices: Any, states: Any, seeds: Any = None) -> Any:
        self.kept += [(i, tuple(state)) for i, state in zip(indices, states, strict=True)]
        return super().restore(indices, states, seeds)


def grown(envs: Any, forks: int) -> int:
    """Bytes that are held more after so many forks, each into seven others, and a step now and then."""
    envs.reset(seed=[0] * COUNT, options={"index": 0})
    first = [envs.snapshot(0)] * COUNT

    def fork(times: int) -> None:
        for k in range(times):
            others = [(k + 16 * j) % COUNT for j in range(1, 8)]
            envs.fork(k % COUNT, others, None if k % 3 else [k] * 7)
            if k % 25 == 0:
                envs.step(REPLIES * (COUNT // 4))
            if k % 100 == 99:
                envs.restore(range(COUNT), first)

    fork(100)
    gc.collect()
    tracemalloc.start()
    try:
        fork(100)  # what is measured begins with objects of the same age
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        fork(forks)
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_a_thousand_forks_of_128_sub_environments_leak_nothing() -> None:
    credit, graphs = make_stack("AgentRL/Sokoban-v0", COUNT, AutoresetMode.DISABLED, 50, transcript=False)
    graphs.grows = False
    envs = credit.env  # a credit wrapper keeps what was played: that is its purpose
    assert grown(envs, 1000) < 50_000
    assert grown(Hoarder(envs), 200) > 100_000  # a tuple for each of 1,400 states
