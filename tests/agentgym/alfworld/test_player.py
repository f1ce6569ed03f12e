"""The exploring expert: what it understands, how well it plays, and that it only knows what it was told."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from agentgym.alfworld.game import CLEAN, COOL, HEAT, LOOK, PICK, TWO, Game
from agentgym.alfworld.generated.generator import GameSpec, generate
from agentgym.alfworld.goals import SENTENCES
from agentgym.alfworld.player import ALFWorldPlayer, Beliefs, Task, read_task
from agentgym.alfworld.rules import World
from agentgym.alfworld.text import introduction
from tests.agentgym.alfworld.support import games, small_game
from tests.agentgym.hard_inputs import COMMANDS, TASKS, admissible_in_a_crowded_room, turns_in_a_crowded_room


def play(
    game: Game, limit: int = 50, repairs: tuple[str, ...] = (), explorer: ALFWorldPlayer | None = None
) -> tuple[bool, list[str]]:
    """Play an episode; returns (won, commands)."""
    world, explorer = World(game, repairs), explorer or ALFWorldPlayer()
    text, commands = introduction(game), []
    while not world.won and len(commands) < limit:
        commands.append(explorer.act(text, world.admissible()))
        text, valid = world.step(commands[-1])
        assert valid
    return world.won, commands


def test_every_official_sentence_is_understood() -> None:
    for kind, sentences in SENTENCES.items():
        for sentence in sentences:
            text = (
                "see a bed 1.\n\nYour task is to: " + sentence.format(thing="soapbar", place="toiletpaperhanger") + "."
            )
            assert read_task(text) == Task(kind, "soapbar", "toiletpaperhanger")
    assert read_task("Your task is to: make tea.") == Task("", "", "")
    assert read_task("Nothing happens.") == Task("", "", "")


def test_beliefs_follow_what_is_said() -> None:
    beliefs = Beliefs(
        "You are in the middle of a room. Looking quickly around you, you see a desk 1, a drawer 2, and a drawer 1.\n\n"
        "Your task is to: put a pen in drawer.",
        ("go to desk 1", "go to drawer 1", "go to drawer 2", "look"),
    )
    assert beliefs.receptacles == ["desk 1", "drawer 2", "drawer 1"]
    assert (beliefs.here, beliefs.seen, beliefs.held) == (set(), {}, "")
    # the desk and drawer 2 share a place; the drawer is closed
    here = ("examine desk 1", "examine drawer 2", "go to drawer 1", "open drawer 2", "take pen 1 from desk 1")
    beliefs.update("You arrive at desk 1. On the desk 1, you see a desklamp 1, and a pen 1.", here)
    assert beliefs.here == {"desk 1", "drawer 2"}
    assert beliefs.closed == {"drawer 2"}
    assert beliefs.seen == {"desk 1": {"desklamp 1", "pen 1"}}
    assert beliefs.where("pen") == {"desk 1": ["pen 1"]}
    beliefs.update("You pick up the pen 1 from the desk 1.", ("examine desk 1", "examine pen 1", "open drawer 2"))
    assert beliefs.held == "pen 1"
    assert beliefs.seen == {"desk 1": {"desklamp 1"}}
    beliefs.update("You open the drawer 2. The drawer 2 is open. In it, you see nothing.", ("examine drawer 2",))
    beliefs.update("You clean the pen 1 using the sinkbasin 1.", ())
    assert beliefs.treated == {("clean", "pen 1")}
    beliefs.update("You put the pen 1 in/on the drawer 2.", ())
    assert (beliefs.held, beliefs.seen["drawer 2"]) == ("", {"pen 1"})


def test_an_open_receptacle_that_shares_the_place_is_seen_through_the_commands() -> None:
    rooms = [("desk", 0, False), ("shelf", 0, False), ("sofa", 1, False)]
    game = small_game(PICK, ("pen", "desk"), rooms, [("pen", [1])])
    explorer = ALFWorldPlayer()
    world = World(game)
    text, _ = world.step("go to desk 1")
    assert text == "You arrive at desk 1. On the desk 1, you see nothing."
    beliefs = Beliefs(introduction(game), World(game).admissible())
    beliefs.update(text, world.admissible())
    assert beliefs.where("pen") == {"shelf 1": ["pen 1"]}
    assert play(replace(game, task="put a pen in desk"), explorer=explorer)[0]


@pytest.mark.parametrize("split", ["train", "valid_unseen"])
def test_generated_games_of_all_types_are_won(split: str) -> None:
    won: Counter[str] = Counter()
    steps = []
    for index in range(72):
        game = generate(GameSpec(split, index))
        success, commands = play(game)
        won[game.task_type] += success
        steps.append(len(commands) - len(game.walkthrough))
    # blocks of 36 games have 8, 3, 7, 5, 5 and 8 of each type
    assert won == {PICK: 16, LOOK: 6, CLEAN: 14, HEAT: 10, COOL: 10, TWO: 16}
    assert min(steps) >= 0
    assert 0.5 < np.mean(steps) < 4  # it has to look for things, and it knows where


@pytest.mark.parametrize("options", [{"dialect": "put"}, {"ghosts": 0.3}, {"seed": 5}])
def test_other_wordings_and_ghosts_are_no_obstacle(options: dict[str, object]) -> None:
    assert all(play(generate(GameSpec("valid_seen", index, **options)))[0] for index in range(36))  # type: ignore[arg-type]


@pytest.mark.parametrize("split", ["valid_unseen", "valid_seen"])
def test_official_games_are_won_in_fifty_steps(split: str) -> None:
    known = games(split).values()
    assert sum(play(game)[0] for game in known) > 0.95 * len(known)


def test_it_does_not_know_what_it_has_not_seen() -> None:
    # two games that differ in closed drawers only: the same commands until the texts differ
    rooms = [("desk", 0, False), *[("drawer", place, True) for place in range(1, 5)], ("sofa", 5, False)]
    games = [
        small_game(PICK, ("pen", "sofa"), rooms, [("pen", [drawer])], task="put a pen in sofa") for drawer in (1, 4)
    ]
    worlds, explorers = [World(game) for game in games], [ALFWorldPlayer(), ALFWorldPlayer()]
    texts, same = [introduction(game) for game in games], 0
    while texts[0] == texts[1] and worlds[0].admissible() == worlds[1].admissible():
        commands = [e.act(text, world.admissible()) for e, text, world in zip(explorers, texts, worlds, strict=True)]
        assert commands[0] == commands[1]
        texts = [world.step(commands[0]).observation for world in worlds]
        same += 1
    assert same >= 2


def test_it_keeps_looking_without_going_round_in_circles_when_nothing_is_there() -> None:
    for index in range(12):
        game = generate(GameSpec("train", index))
        hollow = replace(game, contents=tuple(content & ~game.goal_objects for content in game.contents))
        won, commands = play(hollow, limit=200)
        assert not won
        rooms = len(set(game.places))
        visited = {command for command in commands[: 3 * len(game.receptacles)] if command.startswith("go to ")}
        assert len({game.places[game.receptacles.index(command[6:])] for command in visited}) == rooms
        assert max(Counter(commands).values()) <= 3 + 200 // rooms


def test_it_survives_texts_that_say_nothing_and_begins_anew() -> None:
    rng = np.random.default_rng(0)
    texts = ("Nothing happens.", "", "You arrive at", "On the moon, you see a cow 1.", "Your task is to: dance.")
    for index in range(6):
        world, explorer = World(generate(GameSpec("train", index))), ALFWorldPlayer()
        for _ in range(60):
            commands = world.admissible()
            command = explorer.act(str(rng.choice(texts)), commands)
            assert command in commands
            world.step(str(rng.choice(commands)))
    assert ALFWorldPlayer().act("Nothing happens.", ()) == "look"
    explorer = ALFWorldPlayer()
    games = [generate(GameSpec("train", index)) for index in range(6)]
    assert [play(game, explorer=explorer) for game in games] == [play(game) for game in games]
    repairs = ("colocated", "examine", "ghosts", "look", "toggle")
    assert all(play(generate(GameSpec("valid_seen", index)), repairs=repairs)[0] for index in range(36))


FIRST = "Looking quickly around you, you see a desk 1, and a shelf 1.\n\nYour task is to: put a pen in desk."


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("task", TASKS)
def test_rooms_with_many_receptacles_are_no_obstacle(command: str, held: bool, task: str) -> None:
    admissible = admissible_in_a_crowded_room(command, 1_000)
    said = list(turns_in_a_crowded_room(admissible, held, task))
    assert len(said) == 3
    assert set(said) <= set(admissible)
