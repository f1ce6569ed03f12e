"""Episodes that were played on the original engine, played again: not one character differs."""

from collections import Counter
from typing import Any

import pytest

from agentgym.alfworld.game import TASK_TYPES, Game
from agentgym.alfworld.rules import World
from tests.agentgym.alfworld.given_games import envs_of
from tests.agentgym.alfworld.official_games import episodes, games, task_id_of

Episode = list[dict[str, Any]]


def replay(played: list[Episode], known: dict[str, Game]) -> int:
    """Play the recorded commands and compare everything; returns the number of steps."""
    steps = 0
    for episode in played:
        limit = next((row["t"] for row in episode[1:] if row["done"] and not row["won"]), 1000)
        envs = envs_of(1, [known[task_id_of(episode)]], max_episode_steps=limit, autoreset_mode="Disabled")
        (observation,), infos = envs.reset(options={"index": 0})
        over = False
        for row in episode:
            if row["kind"] == "step":
                admissible = row["action"].strip() in infos["admissible_actions"][0]
                (observation,), (reward,), (terminated,), (truncated,), infos = envs.step([row["action"]])
                if not over:  # afterwards the original repeats its score; here nothing is rewarded twice
                    assert reward == row["reward"], row
                    assert infos["is_action_valid"][0] == admissible, row
                over = terminated or truncated
                assert over == row["done"], row
                steps += 1
            assert observation == row["observation"], row
            assert list(infos["admissible_actions"][0]) == row["admissible_commands"], row
            assert infos["won"][0] == row["won"], row
    return steps


@pytest.mark.parametrize(("trace", "count", "steps"), [("valid_seen", 560, 13778), ("old_put", 60, 2379)])
def test_recorded_episodes_of_both_wordings(trace: str, count: int, steps: int) -> None:
    played = episodes(trace)
    assert len(played) == count
    assert replay(played, games(trace, {task_id_of(episode) for episode in played})) == steps


def test_recorded_episodes_of_the_small_train_archive() -> None:
    known = games("train_240")
    played = [episode for episode in episodes("train") if task_id_of(episode) in known]
    assert len({task_id_of(episode) for episode in played}) == 43
    assert replay(played, known) > 1000


@pytest.mark.slow
def test_the_whole_train_split() -> None:
    """Every walkthrough wins with its last command, none before; all recorded train episodes are the same."""
    known = games("train_3553")
    counts = Counter(game.task_type for game in known.values())
    assert [counts[kind] for kind in TASK_TYPES] == [790, 308, 650, 459, 533, 813]
    for game in known.values():
        check_walkthrough(game)
    played = episodes("train")
    assert len(played) == 1273
    assert replay(played, known) == 23559


@pytest.mark.parametrize(("archive", "count"), [("valid_seen", 140), ("valid_unseen", 134), ("valid_train", 200)])
def test_every_walkthrough_of_the_validation_splits_wins(archive: str, count: int) -> None:
    known = games(archive)
    assert len(known) == count
    for game in known.values():
        check_walkthrough(game)


def check_walkthrough(game: Game) -> None:
    world = World(game)
    assert 3 <= len(game.walkthrough) <= 10
    assert game.task_id.startswith(game.task_type + "-")
    for command in game.walkthrough:
        assert not world.won
        assert world.step(command).valid, (game.task_id, command)
    assert world.won, game.task_id


def test_games_of_the_older_version_have_no_walkthrough_and_the_same_rooms() -> None:
    old = games("old_put")
    assert {game.dialect for game in old.values()} == {"put"}
    assert {game.walkthrough for game in old.values()} == {()}
    new = games("valid_seen") | games("valid_unseen")
    for task_id, game in old.items():
        other = new[task_id]
        assert (game.receptacles, game.objects, game.contents) == (other.receptacles, other.objects, other.contents)
        assert (game.locations, game.task, game.goal_objects) == (other.locations, other.task, other.goal_objects)
