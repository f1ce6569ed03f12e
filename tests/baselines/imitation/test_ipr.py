"""IPR: the states before an expert's steps, the values behind two actions, and which pairs they make."""

import dataclasses

import pytest
import torch

from agentgym.trajectory import Reply
from agentgym.trajectory.episode import Step, Trajectory
from baselines.imitation.cloning import Demonstrator
from baselines.imitation.episodes import expert_episodes
from baselines.imitation.ipr import IPR, Shown, shown_steps
from tests.baselines.corridor_learning import TASKS, babbling_policy
from tests.baselines.imitation.corridor_setting import a_round, seen

torch.set_num_threads(1)


def test_the_experts_steps_have_the_state_before_them():
    policy = babbling_policy()
    part = a_round(policy)
    steps = shown_steps(part, Demonstrator(policy), TASKS)
    # From cells 1, 2 and 3 the way to cell 4 takes 3, 2 and 1 steps.
    assert [(step.episode.group, step.t) for step in steps] == [
        ("start-1", 0), ("start-1", 1), ("start-1", 2), ("start-2", 0), ("start-2", 1), ("start-3", 0)
    ]  # fmt: skip
    _, infos = part.setting.envs.restore([0, 1], [steps[1].state, steps[5].state])
    assert infos["state_key"][:2].tolist() == ["2", "3"]
    assert len(expert_episodes(part)) == 6


def shown(actions, t=0):
    steps = tuple(
        Step(i, f"{i}", action, f"{i + 1}", 0.0, True, Reply(action, (i,), (ord(action),)))
        for i, action in enumerate(actions)
    )
    return Shown(None, t, Trajectory("a", 0, True, True, False, steps))


def way(actions, won):
    return dataclasses.replace(shown(actions).episode, won=won)


@pytest.mark.parametrize(
    ("span", "own", "won", "values", "better"),
    [
        ("rest", "lll", False, (1.0, 0.4), "bc"),  # .6 is more than .5
        ("rest", "lll", False, (0.9, 0.4), None),  # .5 is not
        ("rest", "lll", True, (1.0, 0.0), None),  # the policy's way on won: its rest is no worse
        ("step", "lll", True, (1.0, 0.0), "b"),
        ("rest", "l", True, (0.0, 1.0), "l"),  # the other way round, and shorter
        ("rest", "lll", True, (0.0, 1.0), None),  # longer than the expert's
        ("rest", "l", False, (0.0, 1.0), None),  # lost
    ],
)
def test_a_step_pair_needs_a_gap_between_the_values(span, own, won, values, better):
    found = IPR(span=span, threshold=0.5).pair(shown("abc", t=1), way(own, won), *values)
    assert (None if found is None else "".join(reply.text for reply in found.better)) == better


def test_values_are_shares_of_continuations_that_won():
    # Right from cell 3 wins at once, whoever continues; left leads to cell 2.
    policy = babbling_policy()
    part = a_round(policy)
    last = shown_steps(part, Demonstrator(policy), TASKS)[-1]
    left = dataclasses.replace(last.episode.steps[0], reply=policy.demonstrate(seen(3), "<action>left</action>"))
    own = dataclasses.replace(last.episode, steps=(left,), won=False)
    ((expert, other),) = IPR(continuations=8)._values(part, [(last, own)])
    assert expert == 1.0
    assert 0.0 <= other < 1.0
