"""What is measured of each environment, and that it is what is claimed. Nothing here asserts a speed."""

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import agentgym  # noqa: F401
from agentgym.virtualhome.generated.activities import GeneratedActivities
from benchmarks.speed import environments, peers, throughput
from benchmarks.speed.environments import WORLDS, forget, play_programs, wander
from benchmarks.speed.timing import Stopwatch, first_visit

needs_gym_sokoban = pytest.mark.skipif(
    peers.gym_sokoban() is None, reason="gym-sokoban is not installed (pip install gym gym-sokoban==0.0.6)"
)


def test_visitors_and_programs() -> None:
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
@pytest.mark.parametrize("render", ["rgb_array", "none"])
def test_gym_sokoban_steps_leave_the_global_generators_as_they_were(render):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    assert peers.sokoban_stepper(peers.gym_sokoban(), render, 6, 2)(10) == 10
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


def test_parts_are_measured_alone_and_say_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(environments, "measure_world", lambda world, quick: [world.figure("x", f"{quick}", 1.0, "ms")])
    monkeypatch.setattr(peers, "gym_sokoban", lambda: None)
    found = throughput.STUDY.play(throughput.configure(quick=True, only="sokoban,sotopia"), tmp_path)
    assert [(each.key, each.what) for each in found.measurements] == [("steps_x", "True"), ("dialogues_x", "True")]
    assert [words.partition(":")[0] for words in found.skipped] == ["gym-sokoban is not installed"]
