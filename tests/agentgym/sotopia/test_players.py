"""Scripted players, and the profiles of whom they play."""

import itertools
import pickle
import re

import numpy as np
import pytest

from agentgym.outside.dialogue import LEAVE, NONE, Act, Turn, View
from agentgym.sotopia import parallel_env
from agentgym.sotopia.dialogue import COMMANDS
from agentgym.sotopia.env import SotopiaVectorEnv
from agentgym.sotopia.games.game import Game
from agentgym.sotopia.generated import FAMILIES, generate
from agentgym.sotopia.players import PLAYERS, TEMPERAMENTS, make_player
from agentgym.sotopia.profiles import JUDGE, ROLES, UNKNOWN, Relationship, Task, known_story, opening, render
from agentgym.sotopia.rules import SocialWorld
from tests.agentgym.sotopia.support import ADA, BEN, FOLDER, Fixed, make_task, needs_data, play
from tests.agentgym.sotopia.test_games import FRIENDS, SALE
from tests.cases import cases
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


@cases(
    "named, prices",
    ("firm", [100, 99, 98, 97]),  # 10 points, less 0.2 each turn, a dollar
    ("fair", [98, 96, 95, 93, 92]),  # 9.5, less 0.3: $97.50, 96, 94.50, 93, 91.50
    ("yielding", [95, 93, 91, 89, 87, 85]),  # 9, less 0.4
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
        assert make_player(name).act([]) == []
    (failure,) = PLAYERS["rules"]().act([view(None)])
    assert "name a model as partner" in failure.reason
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


NAME, PUBLIC, PERSONALITY = 1, 2, 3
#: How much of the partner is visible.
LEVELS = {
    "stranger": 0, "know_by_name": 1, "acquaintance": 2, "friend": 3, "romantic_relationship": 3, "family_member": 3,
}  # fmt: skip


def test_the_first_observation_to_the_character() -> None:
    assert opening(make_task(Relationship.acquaintance), 0) == (
        "\nHere is the context of this interaction:\n"
        "Scenario: Two people wait for a train.\n"
        "Participants: Ada Lund and Ben Noor\n"
        "Ada Lund's background: Ada Lund is a 31-year-old female sea captain. She/her pronouns. Ada keeps bees. "
        "Personality and values description: Ada is stubborn. Ada's secrets: Ada cannot swim.\n"
        "Ben Noor's background: Ben Noor is a 64-year-old male clown. He/him pronouns. Ben juggles.\n"
        "Ada Lund's goal: Get the window seat\n"
        "Ben Noor's goal: Unknown\n"
        "Conversation Starts:\n"
    )


@pytest.mark.parametrize("role", [0, 1])
@pytest.mark.parametrize("name", LEVELS)
def test_all_relationships_in_both_roles_and_for_the_judge(name: str, role: int) -> None:
    task = make_task(Relationship[name])
    text, (me, other) = opening(task, role), ((ADA, BEN), (BEN, ADA))[role]
    lines = {line.partition(": ")[0]: line.partition(": ")[2] for line in text.splitlines() if ": " in line}
    own, seen = lines[f"{me.name}'s background"], lines[f"{other.name}'s background"]
    for fact in (me.name, me.occupation.lower(), me.public_info, me.personality_and_values, me.secret):
        assert fact in own
    level = LEVELS[name]
    assert (seen == "Unknown") == (level == 0)
    assert (other.name in seen) == (level >= NAME)
    for fact in (str(other.age), other.occupation.lower(), other.gender_pronoun, other.public_info):
        assert (fact in seen) == (level >= PUBLIC)
    assert (other.personality_and_values in seen) == (level >= PERSONALITY)
    assert other.secret not in text
    assert (lines[f"{me.name}'s goal"], lines[f"{other.name}'s goal"]) == (task.scenario.goals[role], "Unknown")
    assert lines["Participants"] == "Ada Lund and Ben Noor"
    everything = opening(task, None)
    assert all(
        f"{person.name}'s goal: {goal}" in everything
        for person, goal in zip((ADA, BEN), task.scenario.goals, strict=True)
    )
    assert ADA.secret in everything
    assert BEN.secret in everything


def test_tags_in_scenario_goals_and_biographies_are_for_their_viewer() -> None:
    task = make_task(
        text='A <p viewer="agent_0">zero</p><p viewer="agent_1">one</p>', goals=("<extra_info>x</extra_info>", "y")
    )
    for role, (mine, theirs) in enumerate((("zero", "one"), ("one", "zero"))):
        text = opening(task, role)
        assert f"Scenario: A {mine}\n" in text
        assert theirs not in text
        assert "<" not in text


def test_what_is_hidden_stays_hidden_and_hints_lose_their_tags() -> None:
    for text, shown in (
        (
            'At a party. <p viewer="environment">Both know Alvin.</p>',
            ["At a party.", "At a party.", "At a party. Both know Alvin."],
        ),
        ('a <p viewer="agent_1">secret</p> b', ["a  b", "a secret b", "a secret b"]),
        ("a <p viewer='agent_1'>secret</p> b", ["a  b", "a secret b", "a secret b"]),
        (
            "(<extra_info>$5</extra_info>) <strategy_hint>ha</strategy_hint><clarification_hint>!</clarification_hint>",
            ["($5) ha!"] * 3,
        ),
        (
            'x<p viewer="agent_0">1<extra_info>2</extra_info><p viewer="all">3</p><p viewer="agent_1">4</p></p>y',
            ["x123y", "xy", "x1234y"],
        ),
        ('<extra_info viewer="agent_1">z</extra_info>', ["", "z", "z"]),
        ('<p viewer="agent_01">z</p><p viewer="">z</p>', ["", "", "zz"]),
    ):
        assert [render(text, viewer) for viewer in (*ROLES, JUDGE)] == shown, text


@pytest.mark.parametrize(
    "text", ["3 < 5 > 2", "a <b>bold</b> & <answer>", "q < pp", "<paragraph>", "&lt;p&gt;", "<extra info>"]
)
def test_anything_else_is_text(text: str) -> None:
    assert render(text, ROLES[0]) == text


@cases(
    "text",
    '<p viewer="agent_1">open', "</p>", "<extra_info>a</strategy_hint>",
    '<p viewer="agent_1"><extra_info>a</p></extra_info>', "<P viewer='agent_1'>x</P>", "<p viewer=agent_1>x</p>",
    '<p class="a" viewer="agent_1">x</p>', "< p viewer='agent_1'>x</p>", '<p viewer="agent_1', "<p/>",
)  # fmt: skip
def test_tags_that_do_not_match_are_an_error_and_no_leak(text: str) -> None:
    refuses(ValueError, "profile text", render, text, ROLES[0])


_PARTS = re.compile(r"<(\w+)[^>]*>(.*?)</\1>", re.DOTALL)


def forbidden(task: Task, role: int) -> list[str]:
    """What a role must not be shown: the other's secret, goal and biography, and what is for the judge."""
    other, own = task.people[1 - role], task.people[role]
    goals = task.scenario.goals
    texts = [other.secret, render(goals[1 - role], JUDGE), *[part for _, part in _PARTS.findall(goals[1 - role])]]
    texts += [part for name, part in _PARTS.findall(task.scenario.text) if name == "p"]
    seen = known_story(other, task.scenario.relationship)
    texts += [fact for fact in (other.public_info, other.personality_and_values) if fact not in seen]
    if seen == UNKNOWN:
        texts.append(f"{other.age}-year-old")
    allowed = render(goals[role], ROLES[role]), own.secret, own.public_info, f"{own.age}-year-old"
    return [text for text in texts if not any(text in each for each in allowed)]


def leaks(task: Task, role: int, shown: str) -> list[str]:
    """What a role was shown and should not have been."""
    return [text for text in forbidden(task, role) if text in shown]


@pytest.mark.slow
@pytest.mark.parametrize("order", ["round-robin", "simultaneous", "random"])
def test_random_episodes_against_rules_leak_nothing(order: str) -> None:
    envs = SotopiaVectorEnv(100, role="random", order=order, max_turns=8)
    rng = np.random.default_rng(0)
    observations, infos = envs.reset(seed=1)
    assert all(forbidden(env.task, env.me) for env in envs.envs)
    episodes = 0
    while episodes < 350:
        for env, observation, info in zip(envs.envs, observations, infos["agreement"], strict=True):
            assert not leaks(env.task, env.me, f"{observation} {info}")
        actions = [COMMANDS[i] for i in rng.integers(len(COMMANDS), size=100)]
        observations, _, terminated, truncated, infos = envs.step(actions)
        episodes += int((terminated | truncated).sum())


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize("order", ["simultaneous", "round-robin", "random"])
def test_random_episodes_of_all_official_pairings_leak_nothing(order: str) -> None:
    env = parallel_env(data=FOLDER, judge=Fixed(), split="all", order=order, max_turns=6)
    rng = np.random.default_rng(0)
    for index in range(450):
        observations, infos = env.reset(seed=index, options={"index": index})
        while True:
            for role, agent in enumerate(ROLES):
                assert not leaks(env.task, role, f"{observations[agent]} {infos[agent]}")
            if not env.agents:
                break
            actions = {agent: COMMANDS[rng.integers(len(COMMANDS))] for agent in env.agents}
            observations, _, _, _, infos = env.step(actions)
        assert leaks(env.task, 0, env.world.view(1).text)  # what the other one saw
