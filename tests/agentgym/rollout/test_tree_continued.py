"""Continuations that are planned one by one."""

import gymnasium as gym
import numpy as np
import pytest

from agentgym.rollout.tree import Continuation, continued
from agentgym.trajectory import Reply
from policies.scripted import RandomPolicy
from wrappers import VectorReplyParser


def test_continuations_begin_with_the_reply_of_the_plan_and_go_on_with_their_own_numbers():
    envs = VectorReplyParser(gym.make_vec("AgentRL/Sokoban-v0", num_envs=3, autoreset_mode="Disabled"))
    envs.reset(seed=[0] * 3, options=[{"split": "train", "index": 0}] * 3)
    begin = envs.snapshot(0)
    plan = [
        Continuation(begin, "g", None, (5, k), (5, k), reply)
        for k in range(2)
        for reply in (None, Reply("<action>up</action>"), Reply("<action>left</action>"))
    ]
    table = continued(envs, RandomPolicy(), plan, seed=0)
    first = table.order[table.offsets[:-1]]
    chosen = [table.actions[action] for action in table.action[first]]
    assert chosen[1:3] == chosen[4:] == ["up", "left"]
    assert table.groups == ("g",)
    # Alone and in another order it is the same.
    alone = continued(envs, RandomPolicy(), plan[4:5], seed=0)
    rows = table.order[table.offsets[4] : table.offsets[5]]
    assert [table.actions[a] for a in table.action[rows]] == [alone.actions[a] for a in alone.action]
    # The same numbers after the first step: a player that chooses the same first step plays the same.
    for k in (0, 3):
        for given in (k + 1, k + 2):
            if chosen[k] == chosen[given]:
                mine, theirs = (table.order[table.offsets[i] : table.offsets[i + 1]] for i in (k, given))
                np.testing.assert_array_equal(table.action[mine], table.action[theirs])
    with pytest.raises(ValueError, match="without parents"):
        continued(envs, RandomPolicy(), [plan[0]._replace(parent=(0, 0))], seed=0)
