"""A branch of any environment, behind all wrappers, plays on as if it had never been cut: to the bit."""

from __future__ import annotations

import pickle
from functools import cache
from typing import Any

import pytest
from gymnasium.vector import AutoresetMode
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym.registry import ROWS
from tests.wrappers.whole_stack import Keeping, Player, make_stack, seen

COUNT, LIMIT = 3, 7
CASES: list[tuple[str, dict[str, Any]]] = [
    *((row.id, {}) for row in ROWS),
    ("AgentRL/WebShop-v0", {"noise": (0.7, 0.5), "num_products": 300}),
    ("AgentRL/SOTOPIA-v0", {"order": "random", "role": "random"}),
]
CASES = [(name, {"data": "generated", **more} if "ALFWorld" in name else more) for name, more in CASES]


@cache
def stacks(case: int, mode: AutoresetMode, transcript: bool) -> list[tuple[Any, Keeping]]:
    """Two stacks that are built alike."""
    name, more = CASES[case]
    return [make_stack(name, COUNT, mode, LIMIT, transcript, **more) for _ in range(2)]


@pytest.mark.filterwarnings("ignore:.*the policy's commands:UserWarning")
@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("case", range(len(CASES)), ids=[f"{name[8:-3]}{'+' * bool(more)}" for name, more in CASES])
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_playing_on_from_a_fork_is_playing_on(case: int, mode: AutoresetMode, data: st.DataObject) -> None:
    seed, before = data.draw(st.integers(0, 500), "seed"), data.draw(st.integers(0, 12), "steps before the cut")
    transcript = data.draw(st.booleans(), "transcript")
    source, target = data.draw(st.permutations(range(COUNT)), "source and target")[:2]
    (envs, graphs), (others, their_graphs) = stacks(case, mode, transcript)
    graphs.grows = their_graphs.grows = True
    graphs.load_state_dict(Keeping().state_dict())

    player = Player(envs, envs.reset(seed=seed)[1])
    shown = player.play(before, seed)
    saved = [envs.snapshot(i) for i in range(COUNT)]
    if data.draw(st.booleans(), "pickled"):
        saved = pickle.loads(pickle.dumps(saved))
    over = list(player.over)
    their_graphs.load_state_dict(graphs.state_dict())
    graphs.grows = their_graphs.grows = False  # what siblings find out is not part of a branch
    on = player.play(9, seed + 1)

    # all of them, here and in another stack, in another order
    order = data.draw(st.permutations(range(COUNT)), "order")
    others.reset(seed=seed + 7)
    for stack in (envs, others):
        observations, again = stack.restore(order, [saved[i] for i in order])
        if shown:
            now = [seen(observations, again, i) for i in range(COUNT)]
            assert [entries[:2] for entries in now] == [entries[:2] for entries in shown[-1]]
        assert Player(stack, again, over).play(9, seed + 1) == on

    # one of them in two places
    envs.restore(range(COUNT), saved)
    observations, again = envs.fork(source, target)
    assert seen(observations, again, target) == seen(observations, again, source)
    over[target] = over[source]
    forked = Player(envs, again, over).play(9, seed + 1, like={target: source})
    assert [step[target] for step in forked] == [step[source] for step in on]
    rest = [i for i in range(COUNT) if i != target]
    assert [[step[i] for i in rest] for step in forked] == [[step[i] for i in rest] for step in on]
