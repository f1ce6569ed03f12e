"""What is measured of each environment, and that it is what is claimed. Nothing here asserts a speed."""

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import agentgym  # noqa: F401
from agentgym.virtualhome.generated.activities import GeneratedActivities
from benchmarks.speed import environments, peers, throughput
from benchmarks.speed.environments import (
    BRANCH_FORMS,
    WORLDS,
    Counter,
    bare_loop,
    beginning,
    forget,
    make_stack,
    play_again,
    play_programs,
    wander,
)
from benchmarks.speed.timing import Stopwatch, first_visit

needs_gym_sokoban = pytest.mark.skipif(
    peers.gym_sokoban() is None, reason="gym-sokoban is not installed (pip install gym gym-sokoban==0.0.6)"
)


def test_loops_visitors_and_programs() -> None:
    counter = Counter()
    spans = [range(first, first + n) for n in (3, 5) for first in [counter(n)]]
    assert not set(spans[0]) & set(spans[1])
    play = bare_loop(8, "board", {"won": False})
    assert play(20) == 16
    envs = gym.make_vec(WORLDS["webshop"].id, 8, num_products=100)
    visit = first_visit(envs, 0, 40, wander, Stopwatch())
    actions = {action for step in visit.plan for action in step}
    assert {action.partition("[")[0] for action in actions} == {"search", "click"}
    assert "click[buy now]" in actions
    shop = envs.unwrapped.envs[0].tasks.shop
    query = next(action for action in sorted(actions) if action.startswith("search["))[7:-1]
    known, pages = shop.search.top(query, 50), shop.pages.item.cache_info().currsize
    assert pages > 10
    forget(envs)
    assert shop.pages.item.cache_info().currsize == shop.pages.results.cache_info().currsize == 0
    assert shop.search.top(query, 50) is not known
    activities = GeneratedActivities()
    speed, steps = play_programs(activities, "train", first=0, count=3)
    # the first three activities, each with all of its commands
    assert steps == sum(len(activities.by_index("train", index).program) for index in range(3))
    assert speed.value > 0


@needs_gym_sokoban
@pytest.mark.parametrize("render", ["rgb_array", "tiny_rgb_array", "none"])
def test_gym_sokoban_steps(render):
    play = peers.sokoban_stepper(render, 6, 2)
    assert play(10) == 10


@needs_gym_sokoban
def test_gym_sokoban_levels_leave_the_global_generators_as_they_were():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    assert peers.sokoban_generator(6, 1)(3) == 3
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


@pytest.mark.parametrize(("world", "form"), BRANCH_FORMS)
def test_a_branch_and_its_beginning_played_again_show_the_same(world: str, form: str) -> None:
    envs = make_stack(world, form, 3)
    seed, replies = beginning(envs, WORLDS[world].branch)
    assert len(replies) == WORLDS[world].branch
    forked, infos = envs.fork(0, 2)
    alone = make_stack(world, form, 1)
    assert play_again(alone, seed, replies)[0] == forked[0] == forked[2]
    assert infos["state_key"][0] == infos["state_key"][2]


def test_parts_are_measured_alone_and_say_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(environments, "measure_world", lambda world, quick: [world.figure("x", f"{quick}", 1.0, "ms")])
    monkeypatch.setattr(peers, "gym_sokoban", lambda: None)
    found = throughput.STUDY.play(throughput.configure(quick=True, only="sokoban,sotopia"), tmp_path)
    assert [(each.key, each.what) for each in found.measurements] == [("steps_x", "True"), ("dialogues_x", "True")]
    assert [words.partition(":")[0] for words in found.skipped] == ["gym-sokoban is not installed"]
