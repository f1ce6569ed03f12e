"""Generated houses, families of activities, and activities."""

import pickle
import random
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from agentgym.tasks import Draws
from agentgym.virtualhome.env import VirtualHomeEnv, VirtualHomeVectorEnv
from agentgym.virtualhome.expert import plan
from agentgym.virtualhome.generated.activities import MOST_COMMANDS, NUM_ACTIVITIES, GeneratedActivities
from agentgym.virtualhome.generated.families import FAMILIES, HELD_OUT, Choice, Idea
from agentgym.virtualhome.generated.houses import SPLITS, House, house
from agentgym.virtualhome.goals import Goal
from agentgym.virtualhome.scene import BETWEEN, INSIDE, WIDTH, members
from tests.agentgym.virtualhome.official.small_folder import write
from tests.agentgym.virtualhome.official_houses import FOLDER, find
from tests.agentgym.virtualhome.small_houses import replay
from tests.refusals import refuses

ALL = GeneratedActivities()


@pytest.mark.parametrize("split", SPLITS)
def test_programs_achieve_their_goals_and_not_before_the_last_command(split: str) -> None:
    for index in range(34):
        activity = ALL.by_index(split, index)
        world = activity.world()
        before = world.get_state()
        assert plan(activity, world) == activity.program
        assert world.get_state() == before
        assert 1 < len(activity.program) <= MOST_COMMANDS
        scores = replay(activity, activity.program)
        assert scores[-1] == 1.0
        assert max(scores[:-1]) < 1.0


def test_families_take_turns_types_narrow_and_counts() -> None:
    kinds = [ALL.by_index("train", index).task_type for index in range(34)]
    assert kinds == [*FAMILIES] * 2
    unseen = [family for family in FAMILIES if HELD_OUT[family]]
    assert [ALL.by_index("valid_unseen", index).task_type for index in range(len(unseen))] == unseen
    few = GeneratedActivities(num_activities=40).of_types(("read", "place"))
    # 40 of 17 families: two whole turns and one more of the first six; "place" is the first, "read" the eleventh
    assert few.count("train") == 5
    ids = ["train/place/0", "train/read/0", "train/place/1", "train/read/1", "train/place/2"]
    assert list(few.ids("train")) == ids
    assert [few.by_index("train", index).task_id for index in range(5)] == ids
    with pytest.raises(IndexError):
        few.by_index("train", 5)
    assert few.by_id("train/wash/3", None) is ALL.by_id("train/wash/3", "train")
    assert {split: ALL.count(split) for split in SPLITS} == NUM_ACTIVITIES
    assert GeneratedActivities(num_activities=7).count("valid_seen") == 7
    assert ALL.of_types(("work",)).count("valid_unseen") == 0


def test_ids_that_are_none_of_another_split_and_beyond_the_count() -> None:
    for wrong in (
        "",
        "train",
        "train/fly/0",
        "train/place/00",
        "train/place/-1",
        "test/place/0",
        "valid_unseen/work/0",
    ):
        refuses(ValueError, "'train/place/0'", ALL.by_id, wrong, None)
    refuses(ValueError, "belongs to split 'train', not to 'valid_seen'", ALL.by_id, "train/place/0", "valid_seen")
    assert ALL.by_id("train/place/123456789012", None).task_id == "train/place/123456789012"
    first, other = ALL.by_index("train", 0), GeneratedActivities(house_seed=1).by_index("train", 0)
    assert first.scene.names != other.scene.names
    refuses(ValueError, "house_seed", GeneratedActivities, house_seed=-1)


def ideas(family: str, held_out: bool, count: int = 40) -> list[tuple[Choice, Idea]]:
    found = []
    for number in range(count):
        choice = Choice(house("train", number), Draws.seeded(7, number), family, held_out)
        idea = choice.idea()
        if idea is not None:
            found.append((choice, idea))
    return found


def classes(choice: Choice, goal: Goal) -> set[str]:
    """Classes of everything in a goal, deeds included."""
    scene = choice.house.scene
    nodes = {node for node, _ in goal.states} | {node for edge in (*goal.edges, *goal.without) for node in edge[::2]}
    nodes |= {deed.node for deed in goal.deeds if deed.node is not None}
    return {scene.names[scene.index[node]] for node in nodes}


@pytest.mark.parametrize("family", FAMILIES)
def test_no_conjunct_is_true_at_the_start_and_held_out_pairs_are_held_out(family: str) -> None:
    found, held_out = ideas(family, held_out=False), ideas(family, held_out=True)
    assert found
    for choice, idea in found:
        tests = idea.goal.tests(choice.house.scene)
        assert tests.missing(choice.house.scene.cells, 0) == tests.size > 0
        # one reads a book, and that on any seat
        assert family == "read" or not classes(choice, idea.goal) & HELD_OUT[family]
    assert all(classes(choice, idea.goal) & HELD_OUT[family] for choice, idea in held_out)
    assert bool(held_out) == bool(HELD_OUT[family])


def test_sentences_name_what_counts_and_vary() -> None:
    for family in FAMILIES:
        for choice, idea in ideas(family, held_out=False, count=10):
            names, index = choice.house.lexicon.names, choice.house.scene.index
            nodes = [node for edge in idea.goal.edges for node in edge[::2]] + [node for node, _ in idea.goal.states]
            assert all(node == choice.who or names.of[index[node]] in idea.sentence for node in nodes)
            assert idea.sentence.endswith(".")
    sentences = Counter(idea.sentence for family in FAMILIES for _, idea in ideas(family, held_out=False))
    assert len(sentences) > 250
    assert max(sentences.values()) < 40


@cache
def houses() -> list[House]:
    return [house(split, number) for split in SPLITS for number in range(60)]


def furnishing(home: House) -> tuple[str, ...]:
    """Rooms and fixtures of a house; things that lie around are left out."""
    scene = home.scene
    return tuple(sorted(name for name, kind in zip(scene.names, scene.categories, strict=True) if kind != "Things"))


def test_sizes_states_and_places_of_houses() -> None:
    for home in houses():
        assert 45 <= home.scene.size <= 110
        assert 3 <= home.scene.rooms.bit_count() <= 5
        assert 200 <= sum(1 for _ in home.scene.edges()) <= 700
        assert list(home.scene.ids) == list(range(1, home.scene.size + 1))
        for states in home.states.values():
            assert len({"ON", "OFF"} & set(states)) < 2
            assert "ON" not in states or not {"OPEN", "PLUGGED_OUT"} & set(states)
    for home in houses()[::10]:
        edges = set(home.scene.edges())
        for thing, (relation, fixture) in home.places.items():
            assert {(thing, relation, fixture), (thing, "CLOSE", fixture), (fixture, "CLOSE", thing)} <= edges
            assert home.rooms[thing] == home.rooms[fixture]
            for other, (_, place) in home.places.items():
                assert place != fixture or other == thing or (thing, "CLOSE", other) in edges


@pytest.mark.parametrize("number", range(9))
def test_everything_is_in_one_room_and_every_room_can_be_reached(number: int) -> None:
    scene = houses()[20 * number].scene
    for node in range(scene.size):
        inside = scene.cells[node * WIDTH + INSIDE] & scene.rooms
        assert inside.bit_count() == (0 if scene.rooms >> node & 1 else 1)
    joined = {next(members(scene.rooms))}
    for _ in range(5):
        for door in members(scene.classes["door"]):
            pair = set(members(scene.cells[door * WIDTH + BETWEEN]))
            assert len(pair) == 2
            joined |= pair if pair & joined else set()
    assert joined == set(members(scene.rooms))


def test_splits_share_no_house_and_everything_occurs() -> None:
    first, second, third = ({furnishing(home) for home in houses()[60 * n : 60 * n + 60]} for n in range(len(SPLITS)))
    assert not first & second
    assert not (first | second) & third
    assert min(map(len, (first, second, third))) > 40
    seen = Counter(name for home in houses() for name in home.of_class)
    assert len(seen) > 85
    assert min(seen.values()) >= 3


def test_an_episode_by_hand() -> None:
    env = VirtualHomeEnv(data="generated", expert=True)
    observation, info = env.reset(options={"task_id": "train/place/0"})
    activity = env.episode.activity
    assert observation.startswith(f"Your task is to: {activity.description}\n\nYou are in ")
    assert (info["score"], info["won"], info["task_type"], info["inventory"]) == (0.0, False, "place", "nothing")
    rewards = []
    for left, command in zip(range(len(activity.program), 0, -1), activity.program, strict=True):
        assert info["expert_action"] == command
        assert env.distance() == left
        assert command in info["admissible_actions"]
        _, reward, terminated, truncated, info = env.step(command)
        rewards.append(reward)
    assert rewards == [0.0] * (len(rewards) - 1) + [1.0]
    assert (terminated, truncated, info["won"], info["score"], info["expert_action"]) == (True, False, True, 1.0, "")
    assert env.distance_bounds() == (0.0, 0.0)


def test_keys_are_equal_for_equal_states_alone() -> None:
    env = VirtualHomeEnv(data="generated")
    rng = random.Random(0)
    seen: dict[str, Any] = {}
    _, info = env.reset(options={"task_id": "train/drink/1"})
    for _ in range(12):
        env.reset(options={"task_id": "train/drink/1"})
        info = env.describe(True)
        for _ in range(15):
            snapshot, done, *_ = env.episode.get_state()
            state = (snapshot._replace(renewed=()), done)
            assert seen.setdefault(info["state_key"], state) == state
            if info["won"]:
                break
            local = [command for command in info["admissible_actions"] if not command.startswith(("walk", "turn"))]
            info = env.step(rng.choice(local if local and rng.random() < 0.7 else info["admissible_actions"]))[-1]
    assert len(seen) > 60
    assert len(set(map(repr, seen.values()))) == len(seen)


def test_task_types_and_arguments_are_checked(tmp_path: Path) -> None:
    folder = write(tmp_path)
    env = VirtualHomeEnv(data="generated", task_types=["read", "place"])
    assert {env.reset(seed=seed)[1]["task_type"] for seed in range(12)} == {"read", "place"}
    assert env.reset(seed=0, options={"task_type": "read", "index": 3})[1]["task_id"] == "train/read/3"
    refuses(ValueError, r"unknown task type 'raed'.*did you mean 'read'", env.reset, options={"task_type": "raed"})
    refuses(ValueError, "task_types is empty", VirtualHomeEnv, task_types=[])
    for arguments, words in (
        ({"data": ""}, "data must be a folder, 'generated' or None"),
        ({"data": "generated", "repairs": ["fly"]}, "unknown repair 'fly'"),
        ({"data": "generated", "reward": float("nan")}, "reward must be a finite number"),
        ({"data": "generated", "num_activities": 0}, "num_activities must be an integer of at least 1"),
        ({"data": "generated", "house_seed": 1.5}, "house_seed must be an integer of at least 0"),
        ({"data": "generated", "goal": "best"}, r"unknown goal 'best'; .*either"),
        ({"data": folder, "num_activities": 8}, "num_activities=8 cannot change the published activities.*omit it"),
        ({"data": folder, "house_seed": 1}, "house_seed=1 cannot change the published activities.*omit it"),
    ):
        refuses(ValueError, words, VirtualHomeEnv, **arguments)
    VirtualHomeEnv(data=folder, goal="strict", house_seed=0, num_activities=None)


def test_the_variable_names_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    find("scene1_518_diffs.json.xz")
    monkeypatch.setenv("VIRTUALHOME_DATA", str(FOLDER))
    env = VirtualHomeEnv(expert=True, reward=10)
    _, info = env.reset(options={"split": "all", "index": 33})
    while not info["won"]:
        _, reward, _, _, info = env.step(info["expert_action"])
    assert reward == 10.0
    assert VirtualHomeEnv(data="generated").reset(seed=0)[1]["task_id"].startswith("train/")


def test_many_share_their_houses() -> None:
    envs: Any = gym.make_vec("AgentRL/VirtualHome-v0", num_envs=4, data="generated")
    assert isinstance(envs.unwrapped, VirtualHomeVectorEnv)
    envs.reset(seed=0, options=[{"index": 5}, {"index": 5}, {"index": 5 + 17}, {"index": 6}])
    scenes = [env.episode.world.scene for env in envs.unwrapped.envs]
    assert scenes[0] is scenes[1]
    assert scenes[0] is scenes[3]  # another family in the same house
    assert scenes[0] is not scenes[2]


def test_an_environment_of_files_can_be_pickled_in_the_middle_of_an_episode(tmp_path: Path) -> None:
    env = VirtualHomeEnv(data=str(write(tmp_path)), goal="strict", expert=True, split="all")
    _, info = env.reset(seed=1)
    info = env.step(info["expert_action"])[-1]
    other = pickle.loads(pickle.dumps(env))
    while not info["won"]:
        command = info["expert_action"]
        first, second = env.step(command), other.step(command)
        assert first == second
        info = first[-1]
