"""The environment around the household: tasks, rewards, info, experts, snapshots; folders of official games and their
cache, game files, and what is said about those that cannot be read."""

import math
import os
import pickle
import stat
import zlib
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from agentgym.alfworld.env import ALFWorldEnv, ALFWorldVectorEnv
from agentgym.alfworld.game import CLEAN, LOOK, PICK, TASK_TYPES, TWO, Game
from agentgym.alfworld.generated.generator import GeneratedGames
from agentgym.alfworld.official import dataset
from agentgym.alfworld.official.dataset import find_folder, open_split
from agentgym.alfworld.official.problem import read_game
from agentgym.outside.files import VARIABLE, cache_folder
from agentgym.outside.text import DataError
from tests.agentgym.alfworld.support import (
    GOALS,
    HELP,
    PROBLEM,
    content,
    env_of,
    grammar,
    small_game,
    write_trial,
)
from tests.cases import cases
from tests.playing import play
from tests.refusals import refuses

ROOMS = [("cabinet", 0, True), ("shelf", 1, False), ("sinkbasin", 2, False)]


def mugs(task_type: str = TWO, **changes: Any) -> Game:
    """Two mugs, a teddy bear that fits nowhere, a cabinet, a shelf, a sink."""
    things = [("desklamp", [1]), ("mug", [1]), ("mug", [2]), ("teddybear", [1])]
    return small_game(task_type, ("mug", "desklamp" if task_type == LOOK else "cabinet"), ROOMS, things, **changes)


def test_an_episode() -> None:
    env = env_of(mugs(PICK))
    observation, info = env.reset()
    assert observation.endswith("\n\nYour task is to: pick_and_place_simple mug cabinet.")
    assert info == {
        "admissible_actions": ("go to cabinet 1", "go to shelf 1", "go to sinkbasin 1", "help", "inventory", "look"),
        "is_action_valid": True,
        "state_key": "at the middle of the room",
        "task_id": "small/trial",
        "won": False,
        "score": 0.0,
        "task_type": PICK,
        "location": "the middle of the room",
        "inventory": "nothing",
    }
    observation, reward, terminated, truncated, info = env.step("go to the moon")
    assert (observation, reward, terminated, truncated) == ("Nothing happens.", 0.0, False, False)
    assert not info["is_action_valid"]
    play(env, " go to sinkbasin 1\n", "take mug 1 from sinkbasin 1", "clean mug 1 with sinkbasin 1")
    *_, info = env.step("go to cabinet 1")
    assert (info["location"], info["inventory"], info["is_action_valid"]) == ("cabinet 1", "mug 1 (cleaned)", True)
    observation, reward, terminated, _, info = play(env, "open cabinet 1", "move mug 1 to cabinet 1")
    assert (observation, reward, terminated) == ("You move the mug 1 to the cabinet 1.", 1.0, True)
    assert (info["won"], info["score"], info["inventory"]) == (True, 1.0, "nothing")
    env = env_of(mugs(LOOK), reward=10)  # as in the papers
    env.reset()
    assert play(env, "go to shelf 1", "use desklamp 1", "take mug 2 from shelf 1")[1:3] == (10.0, True)
    for wrong in (math.nan, True, "10"):
        refuses(ValueError, "reward must be a finite number", ALFWorldEnv, reward=wrong)


def test_repairs_and_dead_ends_are_shown() -> None:
    env = env_of(mugs(), repairs=["status"])
    first, _ = env.reset()
    assert first.endswith("mug cabinet.\nYou are at the middle of the room, carrying nothing.")
    script = "go to sinkbasin 1", "take mug 1 from sinkbasin 1", "clean mug 1 with sinkbasin 1", "inventory"
    assert play(env, *script)[0] == "You are carrying: a mug 1.\nYou are at sinkbasin 1, carrying mug 1 (cleaned)."
    env = env_of(mugs(), expert=True)
    env.reset()
    *_, info = play(env, "go to shelf 1", "take teddybear 1 from shelf 1")
    assert (env.distance(), env.optimal_actions(), info["expert_action"]) == (math.inf, (), "")


def test_the_expert_follows_the_walkthrough_then_plans() -> None:
    # by way of the shelf, with a look around, which no shortest plan would do
    walkthrough = (
        "go to shelf 1", "look", "go to sinkbasin 1", "take mug 1 from sinkbasin 1", "go to cabinet 1",
        "open cabinet 1", "move mug 1 to cabinet 1",
    )  # fmt: skip
    env = env_of(mugs(PICK), expert=True)
    assert env.reset()[1]["expert_action"] == "go to shelf 1"  # there is no walkthrough
    env = env_of(mugs(PICK, walkthrough=walkthrough), expert=True)
    for detour in ((), ("look", "fly", "inventory"), ("go to cabinet 1",)):
        _, info = env.reset()
        actions = [info["expert_action"]]
        for command in detour:
            *_, info = env.step(command)
        while not info["won"]:
            actions.append(info["expert_action"])
            *_, info = env.step(info["expert_action"])
        assert info["expert_action"] == ""
        if detour == ("go to cabinet 1",):
            assert actions[1:] == ["go to shelf 1", "take mug 2 from shelf 1", "go to cabinet 1", "open cabinet 1",
                                "move mug 2 to cabinet 1"]  # fmt: skip
        else:
            assert tuple(actions[1:]) == walkthrough


def test_snapshots_work_across_games_and_keep_the_walkthrough() -> None:
    env, other = ALFWorldEnv(data="generated", expert=True), ALFWorldEnv(data="generated", expert=True)
    other.reset(options={"index": 3})
    _, info = env.reset(options={"index": 2})
    saved = pickle.loads(pickle.dumps(env.snapshot()))
    assert len(pickle.dumps(saved)) < 4000
    for _ in range(2):
        assert other.restore(saved) == (env.observe(), info)
        assert other.world.game is env.world.game
        *_, other_info = other.step(info["expert_action"])
    *_, info = env.step(info["expert_action"])
    assert other_info == info
    while not info["won"]:
        *_, info = env.step(info["expert_action"])
    assert other.restore(env.snapshot())[1]["won"]
    with pytest.raises(gym.error.ResetNeeded):
        other.step("look")


def test_groups_share_their_game_and_arguments_choose_among_generated_ones() -> None:
    envs = ALFWorldVectorEnv(6, data="generated", autoreset_mode="Disabled")
    envs.reset(options=[{"index": i // 3} for i in range(6)])
    assert len({id(env.world.game) for env in envs.envs}) == 2  # type: ignore[attr-defined]
    env = ALFWorldEnv(data="generated", task_types=[CLEAN, 6])
    assert {env.reset(seed=seed)[1]["task_type"] for seed in range(30)} == {CLEAN, TWO}
    assert env.reset(options={"task_type": "look_at_obj_in_light"})[1]["task_type"] == LOOK
    first = ALFWorldEnv(data="generated", num_games=2)
    assert len({first.reset(seed=seed)[1]["task_id"] for seed in range(30)}) == 2
    other = ALFWorldEnv(data="generated", game_seed=1)
    assert other.reset(options={"index": 0})[0] != first.reset(options={"index": 0})[0]
    every = ALFWorldEnv(data="generated")
    assert {every.reset(seed=seed)[1]["task_type"] for seed in range(60)} == set(TASK_TYPES)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv(dataset.VARIABLE, raising=False)
    return tmp_path / "cache"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Three games in the train split, one in valid_seen, and folders that are not played."""
    train, seen = tmp_path / "data" / "json_2.1.1" / "train", tmp_path / "data" / "json_2.1.1" / "valid_seen"
    write_trial(train, "b/trial_2")
    write_trial(train, "b/trial_10", CLEAN)
    write_trial(train, "a/trial_3", CLEAN)
    write_trial(train, "a/movable", "pick_and_place_simple")
    write_trial(train, "EggSliced/trial_1")
    write_trial(train, "c/unsolvable", game=content(solvable=False))
    write_trial(train, "c/old", game=content(solvable=None))
    write_trial(train, "c/film", trajectory=None)
    write_trial(train, "c/text", game=None)
    write_trial(train, "c/stack", trajectory={"task_type": "pick_and_place_with_movable_recep"})
    write_trial(seen, "d/trial_4", game=content(walkthrough=None))
    return tmp_path / "data"


def fresh(folder: Path, split: str = "train", cache_in: Any = None) -> dataset.Split:
    """As in another process."""
    dataset.open_split.cache_clear()
    return open_split(find_folder(folder), split, cache_folder(cache_in))


def test_which_games_count_and_their_order(data: Path) -> None:
    games = fresh(data)
    assert games.task_ids == ("a/trial_3", "b/trial_10", "b/trial_2")
    assert games.task_types == (CLEAN, CLEAN, "pick_and_place_simple")
    assert games.left_out == (
        ("EggSliced/trial_1", "with movable receptacles or sliced objects"),
        ("a/movable", "with movable receptacles or sliced objects"),
        ("c/film", "without traj_data.json"),
        ("c/old", "without the key 'solvable'"),
        ("c/stack", "of another task type"),
        ("c/text", "without game.tw-pddl"),
        ("c/unsolvable", "that cannot be solved"),
    )
    assert games[1].task_id == "b/trial_10"
    assert games[1] is games[1]
    assert fresh(data, "valid_seen")[0].walkthrough == ()


def test_folders_are_found_by_version_and_links_to_nothing_or_in_a_circle_are_missing(data: Path) -> None:
    """Any circle ended it all in an OSError: too many levels of symbolic links."""
    assert find_folder(data) == find_folder(data / "json_2.1.1") == data / "json_2.1.1"
    train = data / "json_2.1.1" / "train"
    before = fresh(data).task_ids
    (train / "self").symlink_to("self")
    (train / "c" / "self").symlink_to("self")
    for name, target in (("x/y", "game.tw-pddl"), ("x/w", data / "nowhere")):
        (write_trial(train, name, game=None) / "game.tw-pddl").symlink_to(target)
    (train / "x" / "z").symlink_to(data / "nowhere")
    after = fresh(data)
    assert after.task_ids == before
    assert {("x/y", "without game.tw-pddl"), ("x/w", "without game.tw-pddl")} <= set(after.left_out)
    (data / "json_2.1.1").rename(data / "json_2.1.3")
    assert find_folder(str(data)) == data / "json_2.1.3"


def test_missing_folders_and_splits_without_a_playable_game_are_explained(data: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere is not a folder; .*alfworld-download.*\$ALFWORLD_DATA"):
        ALFWorldEnv(data=tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"is a split, not a folder.*pass .*json_2.1.1 as data= and 'train' as split="):
        ALFWorldEnv(data=data / "json_2.1.1" / "train", split="train")
    refuses(DataError, "~nobody_of_this_name/x is not a folder", ALFWorldEnv, data="~nobody_of_this_name/x")
    with pytest.raises(ValueError, match=r"unknown split 'valid_sen'.*did you mean 'valid_seen'"):
        ALFWorldEnv(data=data, split="valid_sen")
    for wrong in (3, b"/tmp", ""):
        refuses(ValueError, "data must be a folder", ALFWorldEnv, data=wrong)
    write_trial(tmp_path / "train", "c/unsolvable", game=content(solvable=False))
    write_trial(tmp_path / "train", "c/film", trajectory=None)
    with pytest.raises(DataError, match=r"no playable game \(1 without traj_data.json, 1 that cannot be solved\)"):
        ALFWorldEnv(data=tmp_path)


def test_a_relative_folder_stays_the_same_when_the_process_moves(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data)
    env = ALFWorldEnv(data=".")
    (data / "other").mkdir()
    write_trial(data / "other" / "json_2.1.1" / "train", "z/trial_1")
    monkeypatch.chdir(data / "other")
    assert env.reset(options={"task_id": "d/trial_4"})[1]["task_id"] == "d/trial_4"
    assert ALFWorldEnv(data=".").num_tasks("train") == 1


@cases(
    "game, trajectory, message",
    ('{"grammar": "', ..., r"x/y: game.tw-pddl cannot be read \(.*\); download the game again, or remove"),
    (..., "[" * 100_000, r"traj_data.json cannot be read"),
    (content(CLEAN), {"task_type": "pick_and_place_simple"}, "do not match"),
    ('{\n"solvable": true,\n"grammar" 1}', ..., r"game.tw-pddl cannot be read \(not JSON: .*line 3"),
    (content(solvable="no"), ..., r"'solvable' must be true or false, got 'no'"),
    (..., '{"task_type": 1e999}', r"traj_data.json cannot be read \(the number"),
    (..., {"task_type": 3}, r"'task_type' in traj_data.json must be a text, got 3"),
)
def test_damaged_games_are_named(data: Path, game: object, trajectory: object, message: str) -> None:
    folder = write_trial(data / "json_2.1.1" / "train", "x/y", game=game, trajectory=trajectory)
    with pytest.raises(DataError, match=f"(?s){message}") as caught:
        fresh(data)
    assert str(folder) in str(caught.value)
    assert "or remove its folder" in str(caught.value)


def test_files_too_large_for_a_game_are_not_read(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset, "MOST_BYTES", 10_000)
    folder = write_trial(data / "json_2.1.1" / "valid_seen", "x/y", game=content(more="x" * 10_000))
    with pytest.raises(DataError, match=r"game.tw-pddl is a file of 1\d,\d+ bytes; at most 10,000 are read") as caught:
        fresh(data, "valid_seen")
    assert str(folder) in str(caught.value)


@pytest.mark.skipif(os.name != "posix", reason="names of folders are bytes")
def test_folders_whose_names_are_no_text_are_named(data: Path) -> None:
    write_trial(data / "json_2.1.1" / "valid_seen", os.fsdecode(b"x\xff/y"))
    refuses(DataError, r"valid_seen/x\\udcff/y: the folder's name is not UTF-8", fresh, data, "valid_seen")


def test_texts_of_games_are_clean(data: Path) -> None:
    quoted = "put a \\ud800mug\x1b[31m in drawer"  # JSON in JSON: the sentence is unescaped twice
    write_trial(data / "json_2.1.1" / "valid_seen", "c/trial_1", game=content(grammar=grammar(quoted)))
    walkthrough = ["go to \ud800"]
    write_trial(data / "json_2.1.1" / "valid_seen", "c/trial_2", game=content(walkthrough=walkthrough))
    games = fresh(data, "valid_seen")
    assert (games[0].task, games[1].walkthrough) == ("put a \ufffdmug\ufffd[31m in drawer", ("go to \ufffd",))


def test_the_task_type_is_read_even_if_it_stands_there_twice(tmp_path: Path) -> None:
    trajectory = {"nested": {"task_type": "x"}, "task_type": CLEAN}
    write_trial(tmp_path / "train", "a/b", CLEAN, trajectory=trajectory)
    write_trial(tmp_path / "train", "a/c", CLEAN, trajectory=[trajectory])
    assert fresh(tmp_path).task_ids == ("a/b",)


def test_the_second_process_reads_the_cache_only(data: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = fresh(data)
    (file,) = own_cache.iterdir()
    assert file.name.startswith("alfworld-train-")
    assert file.stat().st_size < 3 * 1500
    monkeypatch.setattr(dataset, "read_game", None)  # no game file is read
    assert fresh(data) == first
    assert list(own_cache.iterdir()) == [file]
    # others may read it where files can be read by others
    (own_cache / "file").touch()
    assert stat.S_IMODE(file.stat().st_mode) == stat.S_IMODE((own_cache / "file").stat().st_mode)


def test_a_changed_folder_is_read_again(data: Path) -> None:
    fresh(data)
    write_trial(data / "json_2.1.1" / "train", "a/trial_4")
    assert len(fresh(data).task_ids) == 4
    game = data / "json_2.1.1" / "train" / "a" / "trial_4" / "game.tw-pddl"
    status = game.stat()
    game.write_text(game.read_text().replace("put a mug", "put a cup"))  # as long as before
    os.utime(game, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert fresh(data)[1].task == "put a cup in drawer"


def test_a_damaged_cache_is_written_again(data: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = fresh(data, "valid_seen")
    (file,) = own_cache.iterdir()
    good = file.read_bytes()
    heads = [len(head).to_bytes(8, "big") + head for head in map(zlib.compress, (b"[]", b"{}"))]
    damaged = [b"", b"agentgym alfworld games\n", good[:-1], good + b"#"]
    damaged += [good[: good.index(b"\n") + 1] + head for head in heads]
    damaged += [good[:i] + bytes([good[i] ^ 1 << i % 8]) + good[i + 1 :] for i in range(0, len(good), 7)]
    for each in damaged:
        file.write_bytes(each)
        assert fresh(data, "valid_seen") == first
        assert file.read_bytes() == good
    monkeypatch.setattr(dataset, "VERSION", dataset.VERSION + 1)
    assert fresh(data, "valid_seen") == first
    assert file.read_bytes() != good


def test_the_cache_can_be_moved_and_switched_off_and_may_be_one_that_cannot_be_written(
    data: Path, own_cache: Path, tmp_path: Path
) -> None:
    first = fresh(data, cache_in=False)
    assert not own_cache.exists()
    assert fresh(data, cache_in=tmp_path / "else") == first
    assert len(list((tmp_path / "else").iterdir())) == 1
    refuses(ValueError, "cache must be a folder, 'off', True, False or None, got 3", ALFWorldEnv, data=data, cache=3)
    (tmp_path / "file").write_text("in the way")
    with pytest.warns(UserWarning, match="cannot cache.*AGENTGYM_CACHE"):
        assert fresh(data, cache_in=tmp_path / "file") == first
    assert (tmp_path / "file").read_text() == "in the way"


def test_games_are_chosen_by_index_type_and_name(data: Path) -> None:
    env = ALFWorldEnv(data=data)

    def chosen(**options: Any) -> str:
        return str(env.reset(seed=0, options=options)[1]["task_id"])

    assert [chosen(index=i) for i in range(3)] == ["a/trial_3", "b/trial_10", "b/trial_2"]
    assert (chosen(task_type=CLEAN, index=1), chosen(task_type=1)) == ("b/trial_10", "b/trial_2")
    assert chosen(split="valid_seen") == "d/trial_4"
    assert chosen(task_id="b/trial_2") == chosen(task_id="b/trial_2", split="train") == "b/trial_2"
    assert chosen(task_id="d/trial_4") == "d/trial_4"
    assert {chosen(index=None, task_id=None, split=None, task_type=None) for _ in range(2)} == {chosen()}
    assert list(ALFWorldEnv(data=data).tasks.ids("train")) == ["a/trial_3", "b/trial_10", "b/trial_2"]
    only = ALFWorldEnv(data=data, task_types=[3])
    assert (only.num_tasks("train"), list(only.tasks.ids("train"))) == (2, ["a/trial_3", "b/trial_10"])
    assert {only.reset(seed=seed)[1]["task_type"] for seed in range(20)} == {CLEAN}


@cases(
    "options, message",
    ({"index": 1, "task_type": 1}, r"of the types pick_and_place_simple has 1 tasks, use 0 to 0"),
    ({"task_type": 2}, "of the types look_at_obj_in_light holds no task"),
    ({"task_type": "heat"}, "unknown task type 'heat'"),
    ({"task_type": 7}, "unknown task type 7"),
    ({"task_id": "a/b"}, "unknown task_id 'a/b'.*expected '<task folder>/<trial folder>'"),
    ({"task_id": "b/trial_1", "split": "train"}, "did you mean 'b/trial_10'"),
    ({"task_id": "d/trial_4", "split": "train"}, "unknown task_id 'd/trial_4'"),
    ({"task_id": "c/unsolvable"}, "the game 'c/unsolvable' of split 'train' is left out: it is one that cannot"),
    ({"task_id": "a/movable", "split": "train"}, "left out: it is one with movable receptacles"),
)
def test_wrong_choices_are_explained(data: Path, options: dict[str, Any], message: str) -> None:
    refuses(ValueError, f"(?s){message}", lambda: ALFWorldEnv(data=data).reset(seed=0, options=options))


def test_task_types_by_name_and_number() -> None:
    games = GeneratedGames()
    assert games.of_types(range(1, 7)).count("train") == games.count("train")
    assert games.of_types(6).by_index("train", 0).task_type == "pick_two_obj_and_place"
    for wrong in (0, 7, True, 1.5, "two", [], [[1]]):
        refuses(ValueError, "task", games.of_types, wrong)


def test_the_variable_names_the_data(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(dataset.VARIABLE, str(data))
    env: Any = gym.make("AgentRL/ALFWorld-v0").unwrapped
    assert env.reset(options={"index": 0})[1]["task_id"] == "a/trial_3"
    assert "trial_train_0" in ALFWorldEnv(data="generated").reset(options={"index": 0})[1]["task_id"]


def with_facts(*facts: str) -> str:
    """The small problem, with some facts more."""
    return str(content()["pddl_problem"]).replace("(:init", "\n".join(["(:init", *facts]))


def test_a_small_problem() -> None:
    game = read_game(content(), "task/trial")
    # by mangled id: "drawer_bar__minus..." before "drawer_bar__plus...", so it has the higher number
    assert game.receptacles == ("drawer 2", "drawer 1", "sinkbasin 1")
    assert game.receptacle_types == ("drawer", "drawer", "sinkbasin")
    assert game.objects == ("egg 1", "knife 1", "mug 2", "mug 1", "sink 1", "spoon 1")
    assert game.object_types == ("egg", "knife", "mug", "mug", "sink", "spoon")
    # loc_bar_11, loc_bar_2, loc_bar_5 and loc_bar_9 are numbered downwards too
    assert [game.locations[place] for place in game.places] == ["loc 2", "loc 2", "loc 3"]
    assert (game.locations[game.start], game.openable, game.contents) == ("loc 4", 0b011, (0b1010, 0b1000, 0b0100))
    assert game.pickupable == 0b1110
    assert (game.cleanable, game.coolable, game.heatable) == (0b0100, 0b1000, 0)
    assert (game.sliceable, game.vessels, game.cool, game.knives) == (0b1, 0b1100, 0b1000, 0b10)
    assert (game.fits, game.inner, game.seen_from[game.places[2]]) == ((0b10, 0b10, 0b1100), ((2, 0b100000),), 0b0100)
    assert sum(game.seen_from) == 0b0100  # the egg's location is no place for the agent
    assert (game.goal_objects, game.goal_receptacles, game.goal_lamps) == (0b1100, (0, 1), 0)
    assert (game.task, game.dialect) == ("put a mug in drawer", "move")
    assert game.walkthrough == ("go to drawer 1", "look")
    assert (game.room.sinks, game.room.microwaves, game.room.fridges) == (0b100, 0, 0)


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_the_six_goals(task_type: str) -> None:
    lamp = "(objectType DeskLamp_bar_1 DeskLampType)\n(toggleable DeskLamp_bar_1)\n(atLocation agent1"
    problem = PROBLEM.replace("(atLocation agent1", lamp).replace("GOAL", GOALS[task_type])
    game = read_game(content(pddl_problem=problem), "task/trial")
    # desklamp 1 comes first; what cannot be cleaned, heated or cooled does not count
    mugs = {"pick_clean_then_place_in_recep": 0b01000, "pick_heat_then_place_in_recep": 0}
    mugs |= {"pick_cool_then_place_in_recep": 0b10000}
    assert (game.task_type, game.goal_objects) == (task_type, mugs.get(task_type, 0b11000))
    assert game.goal_receptacles == (() if task_type == LOOK else (0, 1))
    assert game.goal_lamps == (0b1 if task_type == LOOK else 0)


def test_the_older_version_and_a_sentence_in_other_words() -> None:
    game = read_game(content(old=True), "task/trial")
    assert (game.dialect, game.walkthrough) == ("put", ())
    game = read_game(content(grammar=grammar('find \\"Bob\\\'s\\" mug. Then stop'.replace("\\'", "'"))), "task/trial")
    assert game.task == 'find "Bob\'s" mug. Then stop'


@cases(
    "data, message",
    ([], "must be a JSON object, got list"),
    (content(grammar=None), "no text 'grammar'"),
    (content(pddl_problem=None), "no text 'pddl_problem'"),
    (content(walkthrough=[1]), "'walkthrough' must be a list of commands"),
    (content(walkthrough="look"), "'walkthrough' must be a list of commands, got 'look'"),
    (content(pddl_problem=content()["pddl_problem"].replace("(isCool", "(opened Drawer_bar__plus_01)(isCool")),
     "starts with 'opened'"),
    (content(pddl_problem=content()["pddl_problem"].replace("(isCool", "(holds agent1 Mug_bar_2)(isCool")),
     "starts with 'holds'"),
    (content(grammar="nothing"), "no sentence 'Your task is to"),
    (content(grammar=grammar().replace("You close the", "You shut the")), "unknown version.*You close the"),
    (content(grammar=grammar(old=True) + HELP), "unknown version.*no `help` beside `put`"),
    (content(grammar=grammar().replace("template :: \"help\"", "")), "unknown version.*help"),
    (content(pddl_problem="(:goal)(:init)"), "no \\(:init ...\\) followed by"),
    (content(pddl_problem="(:init )(:goal )"), "the goal is of none of the six kinds"),
    (content(pddl_problem=content()["pddl_problem"].replace("(atLocation", "(at")), "atlocation"),
    (content(pddl_problem=content()["pddl_problem"].replace("(objectType Knife", "(kind Knife")), "knife_bar_1"),
    (content(pddl_problem=with_facts("(atLocation agent1 loc_bar_2)")), "one location of the agent, got 2"),
    (content(pddl_problem=with_facts("(objectType Mug_bar_1 CupType)")),
     "'objecttype' has two values for 'mug_bar_1': 'cuptype' and 'mugtype'"),
    (content(pddl_problem=with_facts("(receptacleType Drawer_bar__plus_01 BedType)")),
     "'receptacletype' has two values for 'drawer_bar__plus_01'"),
    (content(pddl_problem=with_facts("(receptacleAtLocation Drawer_bar__plus_01 loc_bar_1)")),
     "'receptacleatlocation' has two values for 'drawer_bar__plus_01'"),
    (content(pddl_problem=with_facts(*(f"(objectType X_bar_{i} XType)" for i in range(1001)))),
     "1,007 objects; at most 1,000 are read"),
    (content(pddl_problem=with_facts(*(f"(receptacleType X_bar_{i} XType)" for i in range(1001)))),
     "1,004 receptacles; at most 1,000 are read"),
    (content(pddl_problem=with_facts(f"(objectType {'X' * 200}_bar_1 XType)")), "has 202 characters; at most 100"),
    (content(grammar=grammar("x" * 1001)), "sentence of the task has 1,019 characters; at most 1,000"),
    (content(pddl_problem=PROBLEM.replace("GOAL", "(exists (?o - object) (isHot ?o))")), "none of the six"),
    ({"x" * 5000: 1}, ""),
    (content(walkthrough="x" * 5000), ""),
    (content(walkthrough=["look"] * 5000 + [1]), ""),
    (content(pddl_problem=with_facts(f"(inReceptacle {'x' * 5000} Drawer_bar__plus_01)")), ""),
    (content(pddl_problem=with_facts(*(f"(objectType {'x' * 5000} {kind}Type)" for kind in "ab"))), ""),
    (content(pddl_problem=with_facts() + "x" * 5000, grammar="x" * 5000), ""),
    (content(pddl_problem=PROBLEM.replace("GOAL", "x" * 5000)), ""),
)  # fmt: skip
def test_files_that_cannot_be_read_are_explained_shortly(data: Any, message: str) -> None:
    assert len(refuses(DataError, f"(?s){message}", read_game, data, "task/trial")) < 1000
