"""Generated games: form, goals, layouts and splits; ALFWorld's expert and player, and what they read."""

import pickle
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from agentgym.alfworld import things
from agentgym.alfworld.expert import distance, optimal_commands, plan
from agentgym.alfworld.game import CLEAN, COOL, HEAT, LOOK, PICK, TASK_TYPES, TWO, Game, bits, mask
from agentgym.alfworld.generated.generator import BLOCK, GameSpec, GeneratedGames, generate, schedule
from agentgym.alfworld.generated.households import LAYOUTS, ROOMS, SPLITS, layouts, sort_of
from agentgym.alfworld.goals import SENTENCES
from agentgym.alfworld.official.dataset import pack, unpack
from agentgym.alfworld.official.problem import read_game
from agentgym.alfworld.player import ALFWorldPlayer, Beliefs, read_task
from agentgym.alfworld.rules import REPAIRS, World
from agentgym.alfworld.text import introduction
from tests.agentgym.alfworld.support import (
    GOALS,
    PROBLEM,
    Search,
    content,
    fits,
    flag,
    games,
    play,
    random_game,
    small_game,
)
from tests.agentgym.hard_inputs import COMMANDS, TASKS, admissible_in_a_crowded_room, turns_in_a_crowded_room
from tests.cases import cases
from tests.refusals import refuses

FORM = re.compile(
    r"(?P<kind>[a-z_]+)-(?P<thing>[A-Za-z]+)-None-(?P<place>[A-Za-z]+)-(?P<scene>\d+)"
    r"/trial_(?P<split>\w+)_(?P<index>\d+)"
)


@cache
def all_games() -> list[Game]:
    return [generate(GameSpec(split, index)) for split in SPLITS for index in range(2 * BLOCK)]


def parts(game: Game) -> dict[str, str]:
    match = FORM.fullmatch(game.task_id)
    assert match, game.task_id
    return match.groupdict()


def test_every_walkthrough_wins_is_shortest_and_needed_also_with_objects_listed_in_two_places() -> None:
    ghosts = [generate(GameSpec("train", index, ghosts=0.3)) for index in range(BLOCK)]
    twice = [sum(c >> i & 1 for c in game.contents) == 2 for game in ghosts for i in range(len(game.objects))]
    assert sum(twice) > 50
    for game in [*all_games(), *ghosts]:
        world = World(game)
        assert len(game.walkthrough) == distance(world)
        for command in game.walkthrough:
            assert not world.won
            assert command in world.admissible()
            assert world.step(command).valid
        assert world.won


def test_names_places_and_objects_are_laid_out_as_in_official_games() -> None:
    for game in all_games():
        for names, kinds in ((game.receptacles, game.receptacle_types), (game.objects, game.object_types)):
            assert list(kinds) == sorted(kinds)
            for kind, count in Counter(kinds).items():
                expected = [f"{kind} {number}" for number in range(count, 0, -1)]
                assert [name for name in names if name.split()[0] == kind] == expected
        assert game.start not in game.places
        # locations as the games of one room share them: numbered in the order of the receptacles
        assert list(dict.fromkeys(game.places)) == list(range(len(game.locations) - 1))
        assert sorted(game.locations) == sorted(f"loc {i}" for i in range(1, len(game.locations) + 1))
        assert World(game).open == 0
        union = 0
        for inside, place in zip(game.contents, game.places, strict=True):
            assert not union & inside
            union |= inside
            assert game.seen_from[place] & inside == inside
        assert union & game.goal_objects
        for vessel, inner in game.inner:
            (receptacle,) = [r for r, content in enumerate(game.contents) if content >> vessel & 1]
            assert game.vessels >> vessel & 1
            assert game.contents[receptacle] & inner == inner


def test_flags_and_fits_are_those_of_the_official_kinds() -> None:
    for game in all_games():
        for name in ("pickupable", "cleanable", "heatable", "coolable", "toggleable", "sliceable", "vessels"):
            assert getattr(game, name) == flag(game.object_types, getattr(things, name.upper())), name
        assert game.fits == fits(game.receptacle_types, game.object_types)
        for i, kind in enumerate(game.receptacle_types):
            opens = game.openable >> i & 1
            assert opens or kind not in ("fridge", "microwave")
            assert not opens or kind in ("fridge", "microwave", "drawer", "safe", "cabinet")


def test_goals_are_those_of_the_task_and_its_sentence() -> None:
    for game in all_games():
        named = parts(game)
        thing, place = named["thing"].lower(), named["place"].lower()
        assert named["kind"] == game.task_type
        assert game.task in [sentence.format(thing=thing, place=place) for sentence in SENTENCES[game.task_type]]
        assert introduction(game).endswith(f"\n\nYour task is to: {game.task}.")
        assert game.goal_objects == mask(i for i, kind in enumerate(game.object_types) if kind == thing)
        there = [i for i, kind in enumerate(game.receptacle_types) if kind == place]
        assert list(game.goal_receptacles) == there
        assert (place == "desklamp") == (game.task_type == LOOK) == bool(game.goal_lamps)
        already = any(game.contents[i] & game.goal_objects for i in there)
        assert not (already and game.task_type in (PICK, TWO))
        fridge = sum(c for c, kind in zip(game.contents, game.receptacle_types, strict=True) if kind == "fridge")
        assert game.cool == (0 if game.task_type == COOL else fridge & game.goal_objects & game.coolable)


def test_what_counts_lies_as_in_official_games() -> None:
    """Never in what treats it (0 of 1,642 official train games), seldom behind doors only."""
    machines = {CLEAN: "sinkbasin", HEAT: "microwave", COOL: "fridge"}
    shut = 0
    for ghosts in (0.0, 0.3):
        for index in range(5 * BLOCK):
            game = generate(GameSpec("train", index, ghosts=ghosts))
            where = [i for i, content in enumerate(game.contents) if content & game.goal_objects]
            kinds = {game.receptacle_types[i] for i in where}
            assert machines.get(game.task_type) not in kinds
            shut += all(game.openable >> i & 1 for i in where)
    assert 0.02 < shut / (10 * BLOCK) < 0.08  # official: 0.049


def averages(games: Iterable[Game]) -> dict[str, float]:
    """What is compared with official games: sizes of rooms and games, lengths, and how often things happen."""
    known = list(games)
    measures: dict[str, Callable[[Game], float]] = {
        "receptacles": lambda game: len(game.receptacles),
        "kinds of receptacles": lambda game: len(set(game.receptacle_types)),
        "receptacles with doors": lambda game: game.openable.bit_count(),
        "places": lambda game: len(set(game.places)),
        "objects in receptacles": lambda game: sum(content.bit_count() for content in game.contents),
        "receptacles that hold something": lambda game: sum(content > 0 for content in game.contents),
        "most objects in a receptacle": lambda game: max(content.bit_count() for content in game.contents),
        "objects that can be picked up": lambda game: game.pickupable.bit_count(),
        "vessels": lambda game: game.vessels.bit_count(),
        "objects that count": lambda game: game.goal_objects.bit_count(),
        "receptacles that count": lambda game: len(game.goal_receptacles),
        "characters of the first observation": lambda game: len(introduction(game)),
        "commands at first": lambda game: len(World(game).admissible()),
        "commands of the walkthrough": lambda game: len(game.walkthrough),
    }
    return {name: sum(map(measure, known)) / len(known) for name, measure in measures.items()}


def test_averages_are_near_those_of_official_games() -> None:
    # the official ones are 40 of each type
    ours = averages(GeneratedGames().of_types((kind,)).by_index("train", i) for kind in TASK_TYPES for i in range(100))
    for name, official in averages(games("train_240").values()).items():
        assert ours[name] == pytest.approx(official, rel=0.2), name
    assert len(ours) == 14


def test_sentences_and_walkthroughs_have_the_forms_of_official_games() -> None:
    """Whatever generated games say or ask for, official ones do too; and most forms are in both."""

    def forms(known: Iterable[Game]) -> Counter[tuple[str, ...]]:
        found: Counter[tuple[str, ...]] = Counter()
        for game in known:
            thing, place = game.task_id.lower().split("-")[1::2][:2]
            found[game.task_type, re.sub(rf"\b{place}\b", "PLACE", re.sub(rf"\b{thing}\b", "THING", game.task))] += 1
            found[(game.task_type, *(command.split()[0] for command in game.walkthrough))] += 1
            found[re.sub(r"(, )?(and )?a [a-z]+ \d+", "", introduction(game).partition("Your task")[0]),] += 1
        return found

    archives = "train_240", "valid_seen", "valid_unseen", "valid_train"
    official = forms(game for archive in archives for game in games(archive).values())
    ours = forms(generate(GameSpec("train", index)) for index in range(20 * BLOCK))
    assert sum(count for form, count in ours.items() if form in official) > 0.98 * ours.total()
    assert sum(count for form, count in official.items() if form in ours) > 0.98 * official.total()


def test_unseen_layouts_are_others_whatever_the_seed() -> None:
    seen, unseen = set(), set()
    for seed in range(3):
        for room in ROOMS:
            for sort, found in (("seen", seen), ("unseen", unseen)):
                choice = layouts(seed, room, sort)
                assert (
                    len({layout.kinds for layout in choice})
                    == len(choice)
                    == LAYOUTS // 5 * (4 if sort == "seen" else 1)
                )
                assert all(sort_of(room, layout.kinds) == sort for layout in choice)
                found.update(layout.kinds for layout in choice)
    assert len(seen) > 250
    assert not seen & unseen
    intros = {split: {g.receptacles for g in all_games() if parts(g)["split"] == split} for split in SPLITS}
    assert intros["train"] & intros["valid_seen"]
    assert not intros["valid_unseen"] & (intros["train"] | intros["valid_seen"])


def test_scene_numbers_are_layouts_and_indices_are_laid_out_as_in_the_official_split() -> None:
    first = {"kitchen": 1, "living room": 201, "bedroom": 301, "bathroom": 401}
    rooms = {}
    for game in all_games():
        scene = int(parts(game)["scene"])
        assert rooms.setdefault(scene, game.room) is game.room
        kind = max((name for name in first if first[name] <= scene), key=first.__getitem__)
        assert first[kind] <= scene < first[kind] + LAYOUTS
        assert ("fridge" in game.receptacle_types) == (kind == "kitchen")
    assert len(rooms) > 60
    counts = {PICK: 8, LOOK: 3, CLEAN: 7, HEAT: 5, COOL: 5, TWO: 8}
    assert Counter(schedule(0, "train", 0)) == Counter(schedule(0, "train", 1)) == counts
    assert schedule(0, "train", 0) != schedule(0, "train", 1)
    assert [game.task_type for game in all_games()[:BLOCK]] == list(schedule(0, "train", 0))
    numbers = Counter(sum(1 for _ in bits(game.goal_objects)) for game in all_games() if game.task_type == TWO)
    assert set(numbers) >= {2, 3, 4}
    assert min(numbers) == 2


def test_a_game_is_a_function_of_its_spec() -> None:
    spec = GameSpec("train", 5)
    late, first = generate.__wrapped__(spec), all_games()[5]
    assert late is not first
    for field in fields(Game):
        if field.init:
            assert getattr(late, field.name) == getattr(first, field.name)
    assert generate(replace(spec, seed=1)).contents != late.contents
    older = generate(replace(spec, dialect="put"))
    assert older.contents == late.contents
    assert older.walkthrough[-1].startswith("put ") or older.task_type == LOOK


@cases(
    "made, arguments, message",
    (GameSpec, {"split": "valid_unsen"}, r"unknown split 'valid_unsen'.*did you mean 'valid_unseen'"),
    (GameSpec, {"index": -1}, "at least 0, got index=-1"),
    (GameSpec, {"dialect": "mov"}, "unknown dialect 'mov'"),
    (GameSpec, {"ghosts": 2}, "ghosts must be a probability"),
    (GeneratedGames, {"num_games": 0}, "num_games must be an integer of at least 1, got 0"),
    (GeneratedGames, {"game_seed": 1.5}, r"game_seed must be an integer of at least 0, got 1.5"),
    *((GeneratedGames, {"ghosts": wrong}, f"ghosts must be a probability from 0 to 1, got {wrong!r}")
      for wrong in ("a", True, None, 2)),
)  # fmt: skip
def test_wrong_specs_are_explained(made: Any, arguments: dict[str, Any], message: str) -> None:
    refuses(ValueError, message, made, **({"split": "train", "index": 0} if made is GameSpec else {}) | arguments)


def test_task_ids_that_are_none_are_explained() -> None:
    games, known = GeneratedGames(), all_games()[0].task_id
    refuses(ValueError, "belongs to split 'train', not to 'valid_seen'", games.by_id, known, "valid_seen")
    with pytest.raises(ValueError, match=r"with game_seed=9, game 0 .*made with another game_seed"):
        GeneratedGames(game_seed=9).by_id(known, None)
    for wrong in ("nonsense", known.replace("_0", "_00"), known + "x", known.replace("trial_train", "trial_test")):
        refuses(ValueError, "unknown task_id", games.by_id, wrong, None)


def test_the_collection_selects_by_type_index_and_task_id() -> None:
    games = GeneratedGames()
    everything = [games.by_index("valid_seen", i) for i in range(2 * BLOCK)]
    assert everything == all_games()[2 * BLOCK : 4 * BLOCK]
    for kind in TASK_TYPES:
        expected = [game for game in everything if game.task_type == kind]
        assert [games.of_types((kind,)).by_index("valid_seen", i) for i in range(len(expected))] == expected
    assert games.count("train") == 3600
    assert games.of_types((LOOK,)).count("valid_unseen") == 12
    few = GeneratedGames(num_games=40)
    listed = [few.by_index("train", i).task_type for i in range(40)]
    assert few.of_types((PICK, TWO)).count("train") == sum(kind in (PICK, TWO) for kind in listed)
    assert list(few.ids("train")) == [few.by_index("train", i).task_id for i in range(40)]
    for game in everything[:10]:
        assert games.by_id(game.task_id, None) is game
        assert games.by_id(game.task_id, "valid_seen") is game


_VERBS = ("go", "open", "close", "take", "move", "use")
_TREATS = {CLEAN: "clean", HEAT: "heat", COOL: "cool"}


@pytest.mark.parametrize(("seed", "count"), [(0, 24), pytest.param(1, 240, marks=pytest.mark.long)])
def test_every_state_of_small_games_has_the_length_and_the_first_commands_that_a_search_finds(
    seed: int, count: int
) -> None:
    rng = np.random.default_rng(seed)
    states = dead = 0
    for i in range(count):
        game = random_game(rng, TASK_TYPES[i % 6], size=int(rng.integers(2, 5)))
        repairs = ("ghosts", "toggle")[: rng.integers(3)] if rng.random() < 0.3 else ()
        # with all verbs now and then: heating what should be cool, cleaning what need not be
        treats = ("clean", "heat", "cool") if rng.random() < 0.1 else (_TREATS.get(game.task_type, ""),)
        search = Search(game, repairs, (*_VERBS, *treats), limit=3000)
        if not search.complete:
            continue
        world = World(game, repairs)
        can_be_won = distance(world) is not None
        for key, state in search.states.items():
            world.set_state(state)
            length = search.distance[key]
            if can_be_won and not repairs:  # what is in hand and fits nowhere is the only dead end
                counts = world.held >= 0 and game.goal_objects >> world.held & 1
                fits = world.held < 0 or any(fit >> world.held & 1 for fit in game.fits)
                assert (length is None) == (not counts and not fits), (i, key)
            assert distance(world) == length, (i, key)
            assert optimal_commands(world) == search.best(key), (i, key)
            commands = plan(world)
            assert (None if commands is None else len(commands)) == length
            if commands is not None:
                assert play(world, *commands).won
            states += 1
            dead += length is None
    assert states > 170 * count
    assert dead > 4 * count


def kitchen(task_type: str, goal: tuple[str, str], objects: list[tuple[str, list[int]]]) -> World:
    rooms = [("cabinet", 0, True), ("countertop", 1, False), ("fridge", 2, True), ("sinkbasin", 3, False)]
    return World(small_game(task_type, goal, rooms, objects))


def test_plans_by_hand() -> None:
    world = kitchen(CLEAN, ("mug", "cabinet"), [("mug", [2])])
    assert plan(world) == (
        "go to fridge 1", "open fridge 1", "take mug 1 from fridge 1", "go to sinkbasin 1",
        "clean mug 1 with sinkbasin 1", "go to cabinet 1", "open cabinet 1", "move mug 1 to cabinet 1",
    )  # fmt: skip
    # apple, held, may lie in the fridge: two commands more than with empty hands, and the fridge is opened anyway
    world = kitchen(PICK, ("mug", "countertop"), [("apple", [3]), ("mug", [2])])
    assert distance(world) == 5
    play(world, "go to sinkbasin 1", "take apple 1 from sinkbasin 1")
    # move apple to sinkbasin; go fridge, open, take; go countertop, move. Or carry it to the fridge: as long
    assert (distance(world), optimal_commands(world)) == (6, ("go to fridge 1", "move apple 1 to sinkbasin 1"))
    world = kitchen(PICK, ("mug", "cabinet"), [("mug", [1]), ("teddybear", [1])])
    play(world, "go to countertop 1", "take teddybear 1 from countertop 1")
    assert (plan(world), distance(world), optimal_commands(world)) == (None, None, ())
    # the mug is listed in the sink and on the countertop: take, clean, and a clean mug is on the countertop
    world = kitchen(CLEAN, ("mug", "countertop"), [("mug", [1, 3])])
    assert plan(world) == ("go to sinkbasin 1", "take mug 1 from sinkbasin 1", "clean mug 1 with sinkbasin 1")
    assert distance(World(world.game, ("ghosts",))) == 5
    rooms = [("countertop", 0, False), ("sidetable", 1, False)]
    world = World(small_game(PICK, ("mug", "sidetable"), rooms, [("mug", [0])], dialect="put"))
    assert (plan(world) or ())[-1] == "put mug 1 in/on sidetable 1"
    rooms = [("desk", 0, False), ("drawer", 0, True), ("shelf", 1, False)]
    world = World(small_game(LOOK, ("pen", "desklamp"), rooms, [("desklamp", [0]), ("pen", [1])]))
    # official walkthroughs switch the lamp on before they take what is to be looked at
    assert plan(world) == ("go to drawer 1", "open drawer 1", "use desklamp 1", "take pen 1 from drawer 1")


@cases(
    "archive, count",
    ("valid_seen", 140),
    ("valid_unseen", 134),
    ("valid_train", 200),
    pytest.param("train_3553", 3553, marks=pytest.mark.long),
)
def test_official_walkthroughs_are_shortest_plans(archive: str, count: int) -> None:
    known = games(archive)
    assert len(known) == count
    for game in known.values():
        assert game.task_id.startswith(game.task_type + "-")
        world = World(game)
        for left, command in zip(range(len(game.walkthrough), 0, -1), game.walkthrough, strict=True):
            assert distance(world) == left, game.task_id
            assert command in optimal_commands(world)
            play(world, command)
        assert world.won


@pytest.mark.parametrize("ghosts", [0.0, 0.3])
def test_in_whole_rooms_each_length_is_one_more_than_that_of_the_best_next_state(ghosts: float) -> None:
    rng = np.random.default_rng(3)
    for index in range(18):
        world = World(generate(GameSpec("train", index, ghosts=ghosts)))
        for _ in range(8):
            # some commands at random, some that lead on, so that all stages of the task are met
            best = optimal_commands(world)
            assert play(world, str(rng.choice(best if best and rng.random() < 0.6 else world.admissible())))
            if world.won:
                break
            here, lengths = world.get_state(), {}
            for command in world.admissible():
                lengths[command] = distance(play(world, command))
                world.set_state(here)
            known = [length for length in lengths.values() if length is not None]
            length = distance(world)
            assert length == (min(known) + 1 if known else None)
            nearer = [] if length is None else [c for c, left in lengths.items() if left == length - 1]
            assert optimal_commands(world) == tuple(sorted(nearer))


def player_play(
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
    assert (beliefs.here, beliefs.closed) == ({"desk 1", "drawer 2"}, {"drawer 2"})
    assert beliefs.seen == {"desk 1": {"desklamp 1", "pen 1"}}
    assert beliefs.where("pen") == {"desk 1": ["pen 1"]}
    beliefs.update("You pick up the pen 1 from the desk 1.", ("examine desk 1", "examine pen 1", "open drawer 2"))
    assert (beliefs.held, beliefs.seen) == ("pen 1", {"desk 1": {"desklamp 1"}})
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
    assert player_play(replace(game, task="put a pen in desk"), explorer=explorer)[0]


@pytest.mark.parametrize("split", ["train", "valid_unseen"])
def test_generated_games_of_all_types_are_won(split: str) -> None:
    won: Counter[str] = Counter()
    steps = []
    for index in range(72):
        game = generate(GameSpec(split, index))
        success, commands = player_play(game)
        won[game.task_type] += success
        steps.append(len(commands) - len(game.walkthrough))
    # blocks of 36 games have 8, 3, 7, 5, 5 and 8 of each type
    assert won == {PICK: 16, LOOK: 6, CLEAN: 14, HEAT: 10, COOL: 10, TWO: 16}
    assert min(steps) >= 0
    assert 0.5 < np.mean(steps) < 4  # it has to look for things, and it knows where


@cases("options, repairs", ({"dialect": "put"}, ()), ({"ghosts": 0.3}, ()), ({"seed": 5}, tuple(REPAIRS)))
def test_other_wordings_ghosts_and_repairs_are_no_obstacle(options: dict[str, Any], repairs: tuple[str, ...]) -> None:
    known = [generate(GameSpec("valid_seen", index, **options)) for index in range(36)]
    assert all(player_play(game, repairs=repairs)[0] for game in known)


@pytest.mark.parametrize("split", ["valid_unseen", "valid_seen"])
def test_official_games_are_won_in_fifty_steps(split: str) -> None:
    known = games(split).values()
    assert sum(player_play(game)[0] for game in known) > 0.95 * len(known)


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
        won, commands = player_play(hollow, limit=200)
        assert not won
        rooms = len(set(game.places))
        visited = {command for command in commands[: 3 * len(game.receptacles)] if command.startswith("go to ")}
        assert len({game.places[game.receptacles.index(command[6:])] for command in visited}) == rooms
        assert max(Counter(commands).values()) <= 3 + 200 // rooms


def test_every_official_sentence_is_understood_and_each_episode_begins_anew() -> None:
    assert ALFWorldPlayer().act("Nothing happens.", ()) == "look"
    for kind, sentences in SENTENCES.items():
        for sentence in sentences:
            said = sentence.format(thing="soapbar", place="toiletpaperhanger")
            assert read_task(f"see a bed 1.\n\nYour task is to: {said}.") == (kind, "soapbar", "toiletpaperhanger")
    assert read_task("Your task is to: make tea.") == ("", "", "")
    explorer = ALFWorldPlayer()
    games = [generate(GameSpec("train", index)) for index in range(6)]
    assert [player_play(game, explorer=explorer) for game in games] == [player_play(game) for game in games]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("task", TASKS)
def test_rooms_with_many_receptacles_are_no_obstacle(command: str, held: bool, task: str) -> None:
    admissible = admissible_in_a_crowded_room(command, 1_000)
    said = list(turns_in_a_crowded_room(admissible, held, task))
    assert len(said) == 3
    assert set(said) <= set(admissible)


@pytest.mark.parametrize("repairs", [(), ("ghosts",), tuple(REPAIRS)], ids=lambda names: "+".join(names) or "none")
def test_different_states_have_different_keys(repairs: tuple[str, ...]) -> None:
    """All states of small games within reach, up to a limit."""
    rng, count = np.random.default_rng(0), 0
    for _ in range(12):
        world = World(random_game(rng, size=int(rng.integers(2, 5))), repairs)
        keys = {world.report()[1]}
        states = {world.get_state()}
        queue = deque(states)
        while queue and len(states) < 1500:
            here = queue.popleft()
            world.set_state(here)
            for command in world.admissible():
                world.set_state(here)
                world.step(command)
                state = world.get_state()
                if state not in states:
                    states.add(state)
                    queue.append(state)
                    assert world.report()[1] not in keys
                    keys.add(world.report()[1])
                    world.step("look")
                    assert world.report()[1] in keys
        count += len(states)
    assert count > 3000


def test_games_survive_packing_and_pickling() -> None:
    rng = np.random.default_rng(3)
    mug = PROBLEM.replace("GOAL", GOALS[PICK]).replace("Mug_bar_1", 'Mu,g"ü_bar_1')
    known = [read_game(content(pddl_problem=mug), "ä,b/ c")]
    known += [*games("old_put").values()][:5] + [random_game(rng) for _ in range(10)]
    known += [generate(GameSpec("valid_unseen", index)) for index in range(10)]
    for game in known:
        packed, pickled = unpack(pack(game)), pickle.loads(pickle.dumps(game))
        for field in fields(Game):
            expected = getattr(game, field.name)
            assert getattr(packed, field.name) == getattr(pickled, field.name) == expected, field.name
        assert len({game, packed, pickled}) == 3
        assert packed.room is game.room
    refuses(ValueError, "not a packed game", unpack, b"something else")
