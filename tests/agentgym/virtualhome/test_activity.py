"""What scenes and episodes remember changes nothing: random play with branches, against twins that remember nothing."""

import pickle
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentgym.virtualhome.activity import Activity, Episode, Lexicon
from agentgym.virtualhome.generated.houses import house
from agentgym.virtualhome.goals import Goal
from agentgym.virtualhome.scene import Scene
from tests.agentgym.virtualhome.naive_view import NaiveView
from tests.agentgym.virtualhome.small_houses import EDGES, NODES
from tests.agentgym.virtualhome.test_admissible import check


def shown(episode: Episode) -> tuple[Any, ...]:
    return episode.observe(), episode.admissible(), episode.report(), episode.won, episode.score


def play(activity: Activity, rng: Random, steps: int) -> None:
    """Two episodes take turns in one scene, are saved, branch, go back and begin again."""
    episodes = [Episode(activity), Episode(activity)]
    saved: list[tuple[Any, tuple[Any, ...]]] = []
    for step in range(steps):
        episode = rng.choice(episodes)
        chance = rng.random()
        if chance < 0.15:
            saved.append((pickle.loads(pickle.dumps(episode.get_state())), shown(episode)))
        elif chance < 0.3 and saved:
            state, texts = rng.choice(saved)
            episode.set_state(state)
            assert shown(episode) == texts
        elif chance < 0.35:
            episodes[rng.randrange(2)] = Episode(activity)
        elif chance < 0.45:
            mark, before = episode.world.mark(), shown(episode)
            episode.distance_bounds()  # plans by acting in the world, and undoes it
            assert (episode.world.mark(), shown(episode)) == (mark, before)
        else:
            offered = episode.admissible()
            local = [command for command in offered if not command.startswith(("walk", "turn", "find", "wash"))]
            assert episode.act(rng.choice(local if local and rng.random() < 0.6 else offered))
        if step % 4 == 0:
            fresh = Episode(Activity("x", "x", "x", "x", Lexicon(activity.scene), activity.goal, ()))
            fresh.set_state(episode.get_state())
            assert shown(fresh) == shown(episode)
            view = NaiveView(episode.world)
            assert episode.observe().endswith(view.surroundings())
            assert episode.report()[0] == view.location()
    check(activity, episodes[0].world)


@given(st.integers(0, 10**9))
def test_in_a_small_house(seed: int) -> None:
    play(
        Activity("x", "x", "x", "x", Lexicon(Scene(NODES, EDGES)), Goal(states=((20, "DIRTY"),)), ()), Random(seed), 60
    )


def test_in_generated_houses() -> None:
    for number in range(2):
        play(Activity("x", "x", "x", "x", house("train", number).lexicon, Goal(), ()), Random(number), 80)
