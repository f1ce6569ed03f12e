"""What counts as an event where trajectories are cut into segments."""

from collections.abc import Sequence

import gymnasium as gym

import agentgym  # noqa: F401  # registers the environments
from agentgym.rollout import collect
from agentgym.trajectory import StepTable
from agentgym.virtualhome.keys import something_done
from policies.scripted import ExpertPolicy
from wrappers import VectorReplyParser
from wrappers.credit.segments import by_event


def expert_episodes(families: Sequence[str], number: int) -> StepTable:
    """One expert episode in each house, of families in turn."""
    envs = gym.make_vec(
        "AgentRL/VirtualHome-v0", number, autoreset_mode="Disabled", data="generated", task_types=families, expert=True
    )
    tasks = [{"split": "train", "index": index} for index in range(number)]
    return collect(VectorReplyParser(envs), ExpertPolicy(), tasks=tasks, seed=0)


def test_segments_end_where_something_is_done() -> None:
    table = expert_episodes(["fetch", "watch"], 6)
    segments = by_event(table, something_done)
    ends = {
        "grab": True, "put": True, "open": True, "close": True, "switch": True, "plug": True, "sit": True,
        "walk": False, "find": False, "turn": False,
    }  # fmt: skip
    seen = set()
    for i in range(table.n_trajectories):
        rows = table.chain(i)
        for row, following in zip(rows[:-1].tolist(), rows[1:].tolist(), strict=True):
            verb = str(table.actions[table.action[row]]).split()[0]
            assert segments[following] - segments[row] == ends[verb], verb
            seen.add(verb)
        # watching changes nothing in the house, but it is what was to be done
        last = str(table.actions[table.action[rows[-1]]])
        assert last.startswith(("watch ", "put ", "close "))
    assert {"walk", "find", "grab", "switch", "sit", "open", "close"} <= seen
    assert table.won[table.last].all()


def test_a_walk_counts_where_it_is_what_was_to_be_done() -> None:
    standing = "hall 1; nothing; 00ff; 3; ; 0"
    walked = "kitchen 1; nothing; 01aa; 7; ; 0"
    assert not something_done(standing, "walk to sink 1", walked)
    assert something_done(standing, "walk to sink 1", walked.removesuffix("0") + "1 [success]")
    assert not something_done(standing, "walk to sink 1", walked + " [failure]")
    assert not something_done(standing, "sleep", standing)
    assert not something_done(standing, "sleep", standing + " [failure]")
    assert something_done(standing, "sleep", standing.removesuffix("0") + "1 [success]")
    assert something_done(standing, "grab mug 1", standing.replace("nothing", "mug 1"))
