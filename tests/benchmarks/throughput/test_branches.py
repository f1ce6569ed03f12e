"""What is timed as a branch and as its beginning played again leads to the same state."""

import pytest

from benchmarks.throughput.branches import FORMS, WORLDS, beginning, make_stack, replay


@pytest.mark.parametrize(("world", "form"), FORMS)
def test_a_branch_and_its_beginning_played_again_show_the_same(world: str, form: str) -> None:
    envs = make_stack(world, form, 3)
    seed, replies = beginning(envs, WORLDS[world][2])
    assert len(replies) == WORLDS[world][2]
    forked, infos = envs.fork(0, 2)
    alone = make_stack(world, form, 1)
    assert replay(alone, seed, replies)[0] == forked[0] == forked[2]
    assert infos["state_key"][0] == infos["state_key"][2]
