"""Episodes to learn from: which of them count, and what of them was written."""

import pytest
import torch

from agentgym.trajectory import Reply, StepTable
from agentgym.trajectory.episode import Step, Trajectory
from baselines.imitation.episodes import distinct_wins, written_replies
from baselines.recipes.methods import method
from tests.baselines.imitation.corridor_setting import a_round, losing_policy

torch.set_num_threads(1)


def test_wins_count_once_per_task_and_actions():
    def won(group, name, actions, won=True):
        steps = tuple(Step(t, f"{t}", a, f"{t + 1}", 0.0, True, Reply(a)) for t, a in enumerate(actions))
        return Trajectory(group, name, won, True, False, steps)

    table = StepTable.from_trajectories(
        [won("a", 0, "rr"), won("a", 1, "rr"), won("a", 2, "lr"), won("b", 3, "rr"), won("b", 4, "rl", won=False)]
    )
    assert distinct_wins(table).trajectories == (0, 2, 3)


@pytest.mark.parametrize(("expert", "rows"), [("true", 6), ("false", 0)])
def test_where_nothing_is_won_the_expert_s_episodes_are_what_is_learned(expert, rows):
    # The expert's ways from cells 1, 2 and 3 have 3, 2 and 1 steps.
    figures = method(f"rft:samples=2:temperature=.1:epochs=1:expert={expert}").learn(a_round(losing_policy()))
    assert (figures["success"], figures["distinct_wins"], figures["rows"]) == (0, 0, rows)
    assert ("loss" in figures) == (rows > 0)


def test_methods_without_tokens_of_a_step_leave_it_out():
    steps = (Step(0, "s", "", "s", 0.0, False, Reply("")), Step(1, "s", "a", "u", 0.0, True, Reply("a", (1,), (2,))))
    assert [reply.text for reply in written_replies(Trajectory("a", 0, True, True, False, steps))] == ["a"]
