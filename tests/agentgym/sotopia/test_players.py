"""Scripted players: what they do, and who succeeds against whom."""

from __future__ import annotations

import itertools
import pickle

import pytest

from agentgym.outside.dialogue import LEAVE, NONE, Act, Failure, Turn, View
from agentgym.sotopia.games.game import Game
from agentgym.sotopia.generated import FAMILIES, generate
from agentgym.sotopia.players import PLAYERS, TEMPERAMENTS, make_player
from agentgym.sotopia.profiles import Task
from agentgym.sotopia.rules import SocialWorld
from tests.agentgym.sotopia.support import make_task, play
from tests.agentgym.sotopia.test_games import FRIENDS, SALE
from tests.refusals import refuses


def success(family: str, policy: str, count: int = 60) -> float:
    """Share of goal scores above 6 against the rules, either role every other task."""
    won = 0
    for index in range(count):
        task, role = generate(family, 0, index), index % 2
        players = [PLAYERS[policy](), PLAYERS["rules"]()]
        dialogue = play(task, *(players if role == 0 else players[::-1]))
        won += dialogue.outcome.goals[role] > 6  # type: ignore[union-attr]
    return won / count


@pytest.mark.parametrize("family", FAMILIES)
def test_poor_players_fail_and_a_good_one_succeeds(family: str) -> None:
    for policy in ("silent", "accepts-all", "repeats"):
        assert success(family, policy) <= 0.3, policy
    assert success(family, "negotiator") >= 0.6


def view(game: Game | None, *acts: tuple[Act, Act], role: int = 1, seed: int = 0, task_id: str = "wait-0") -> View:
    private = None if game is None else game.sides[role]
    past = tuple(Turn(number, each) for number, each in enumerate(acts))
    kinds = ("none", "speak", "non-verbal communication", "action", "leave")
    return View(task_id, role, ("Ada Lund", "Ben Noor"), "", past, kinds, 20, private, seed)


def offer(price: float) -> tuple[Act, Act]:
    return Act("speak", f"I pay ${price}."), NONE


def answer(game: Game, *acts: tuple[Act, Act], named: str = "fair") -> Act:
    (act,) = PLAYERS[named]().act([view(game, *acts)])
    assert isinstance(act, Act)
    return act


def test_a_fair_seller_by_hand() -> None:
    # Target 90, list price 100: the most it asks is worth 10, it opens half a point below, at $97.50 or $98.
    first = answer(SALE)
    assert "$98" in first.text
    # 60 is worth 2, 70 is worth 4: two points gained, and 0.3 for having spoken once: 9.5 - 2.3 = 7.2, $86.
    second = answer(SALE, offer(60), (NONE, first), offer(70))
    assert "$86" in second.text
    # 85 is worth 7: five points gained, and 0.6: 9.5 - 5.6 is below the floor of 5, and 85 is better.
    third = answer(SALE, offer(60), (NONE, first), offer(70), (NONE, second), offer(85))
    assert SALE.hear(1, third.text).accepts
    # Afterwards it leaves.
    agreed = (
        offer(60), (NONE, first), offer(70), (NONE, second), offer(85), (NONE, third), (Act("speak", "Bye!"), NONE),
    )  # fmt: skip
    assert answer(SALE, *agreed) == LEAVE
    # Worth 8 - 18 and 8 - 16, both count as -8, so that only the time it took is given.
    first = answer(SALE)
    assert "$96" in answer(SALE, offer(0.5), (NONE, first), offer(9)).text


@pytest.mark.parametrize(
    ("named", "prices"),
    [
        ("firm", [100, 99, 98, 97]),  # 10 points, less 0.2 each turn, a dollar
        ("fair", [98, 96, 95, 93, 92]),  # 9.5, less 0.3: $97.50, 96, 94.50, 93, 91.50
        ("yielding", [95, 93, 91, 89, 87, 85]),  # 9, less 0.4
    ],
)
def test_they_hardly_give_way_to_who_does_not_and_leave_in_the_end(named: str, prices: list[int]) -> None:
    acts: list[tuple[Act, Act]] = []
    asked = []
    while not acts or acts[-1][1] != LEAVE:
        acts.append(offer(60))
        said = answer(SALE, *acts, named=named)
        acts.append((NONE, said))
        asked.append(SALE.hear(1, said.text).terms)
    assert asked == [*prices, None]


def test_the_task_chooses_the_temperament() -> None:
    seen = set()
    for seed in range(6):
        (act,) = PLAYERS["rules"]().act([view(SALE, seed=seed)])
        same = [name for name in TEMPERAMENTS if PLAYERS[name]().act([view(SALE, seed=seed)]) == [act]]
        assert list(TEMPERAMENTS)[seed % 3] in same
        seen.update(same)
    assert seen == set(TEMPERAMENTS)


def test_answers_about_friends_are_true() -> None:
    # Role 1 knows Eva (Elmstead, baker), Kim (Ashford, sea captain), Gus (Dunwick, baker).
    for question, expected in (
        ("Do you know a baker?", "Yes, somebody like that."),
        ("Do you know a judge?", "No, none of mine."),
        ("A baker in Ashford?", "No, none of mine."),
        ("Is it Ann?", "No, none of mine."),
        ("Is it Kim?", "Yes, I know Kim."),
        ("Ann, Don, Kim...", "Yes, I know Kim."),
    ):
        assert answer(FRIENDS, (Act("speak", question), NONE), named="firm").text == expected
    asked = answer(FRIENDS, (Act("speak", "A judge?"), NONE), named="fair").text
    assert asked.startswith("No, none of mine. Do you know somebody with ")


def test_out_of_turn_without_a_game_and_by_name() -> None:
    for name in PLAYERS:
        assert PLAYERS[name]().act([view(SALE)._replace(kinds=("none",))]) == [NONE], name
        assert PLAYERS[name]().act([]) == []
    (failure,) = PLAYERS["rules"]().act([view(None)])
    assert isinstance(failure, Failure)
    assert "name a model as partner" in failure.reason
    for name in PLAYERS:
        assert make_player(name).act([]) == []
    refuses(ValueError, "did you mean 'yielding'", make_player, "yielded")
    assert make_task().game is None


def test_what_a_player_does_follows_from_the_view_alone() -> None:
    for family, name in itertools.product(FAMILIES, ("rules", "firm", "negotiator", "repeats")):
        task = generate(family, 3, 4)
        world = SocialWorld(task)
        player, other = PLAYERS[name](), PLAYERS["fair"]()
        while not world.ended:
            role = world.speakers[0]
            given = world.view(role)
            act = (player, other)[role].act([given])[0]
            # A new player that sees the dialogue for the first time, on a new copy of the game, does the same.
            fresh = given._replace(private=pickle.loads(pickle.dumps(task.game)).sides[role])
            assert PLAYERS[name if role == 0 else "fair"]().act([fresh]) == [act]
            world.play((act, NONE) if role == 0 else (NONE, act))  # type: ignore[arg-type]


@pytest.mark.parametrize("order", ["round-robin", "simultaneous"])
def test_they_come_to_an_end_in_every_order(order: str) -> None:
    for family, index in itertools.product(FAMILIES, range(5)):
        dialogue = play(generate(family, 1, index), PLAYERS["fair"](), PLAYERS["yielding"](), order)
        assert dialogue.ended in ("left", "turns", "stale")


def test_odd_utterances_do_no_harm() -> None:
    odd = (
        "", "\n", "$", "$$$ 9" * 400, "\u202e$70", "<p viewer='agent_0'>", "\x00", "Kim " * 3000, "1e309",
        "٣٠ dollars",
    )  # fmt: skip
    for family in FAMILIES:
        task: Task = generate(family, 0, 0)
        for text in odd:
            given = view(task.game, (Act("speak", text), NONE))
            for name in ("firm", "fair", "yielding", "negotiator"):
                (act,) = PLAYERS[name]().act([given])
                assert isinstance(act, Act)
