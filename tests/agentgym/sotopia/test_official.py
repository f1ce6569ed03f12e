"""The official files: what they hold, files like them that are damaged, their games, all pairings played; profiles, and
the scripted players that play them."""

import itertools
import pickle
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agentgym.outside.dialogue import LEAVE, NONE, Act, Turn, View, write
from agentgym.outside.text import DataError
from agentgym.sotopia import parallel_env
from agentgym.sotopia.dialogue import COMMANDS
from agentgym.sotopia.env import SotopiaEnv, SotopiaVectorEnv
from agentgym.sotopia.games.bargain import Bargain
from agentgym.sotopia.games.game import Game, Standing
from agentgym.sotopia.generated import FAMILIES, generate
from agentgym.sotopia.official import HARD_SCENARIOS, read_game, read_official
from agentgym.sotopia.players import PLAYERS, TEMPERAMENTS, make_player
from agentgym.sotopia.profiles import JUDGE, ROLES, UNKNOWN, Relationship, Scenario, Task, known_story, opening, render
from agentgym.sotopia.rules import SocialWorld
from agentgym.sotopia.tasks import load_tasks
from tests.agentgym.indices import check_indices
from tests.agentgym.sotopia.support import (
    ADA,
    BEN,
    FOLDER,
    PAIRING,
    PERSON,
    ROWS,
    SCENARIO,
    Fixed,
    Script,
    make_task,
    needs_data,
    play,
    say,
    write_files,
)
from tests.agentgym.sotopia.test_games import FRIENDS, SALE
from tests.cases import cases
from tests.refusals import refuses


@needs_data
def test_the_official_numbers() -> None:
    pairings = read_official(FOLDER)
    scenarios = {pairing.scenario.id: pairing.scenario for pairing in pairings}
    people = {person.id for pairing in pairings for person in pairing.people}
    assert (len(pairings), len(scenarios), len(people)) == (450, 90, 40)
    assert Counter(Counter(pairing.scenario.id for pairing in pairings).values()) == {5: 90}
    assert Counter(each.relationship.name for each in scenarios.values()) == {
        "friend": 46, "stranger": 25, "acquaintance": 10, "romantic_relationship": 5, "know_by_name": 4,
    }  # fmt: skip
    assert sum(pairing.scenario.id in HARD_SCENARIOS for pairing in pairings) == 70
    assert scenarios.keys() >= HARD_SCENARIOS


def test_a_folder_of_such_files_is_cleaned_and_another_is_explained(tmp_path: Path) -> None:
    (pairing,) = read_official(write_files(tmp_path))
    assert (pairing.id, pairing.scenario.relationship) == ("c1", Relationship.friend)
    assert [person.name for person in pairing.people] == ["Ada Lund", "Bo Lund"]
    assert pairing.people[0].moral_values == ("Care", "Fairness")
    person = {**PERSON, "first_name": "Ada\nTurn #0: Bo left", "secret": "\ud800?"}
    (pairing,) = read_official(write_files(tmp_path, (ROWS[0], [person, ROWS[1][1]], ROWS[2])))
    assert (pairing.people[0].name, pairing.people[0].secret) == ("Ada\\nTurn #0: Bo left Lund", "\ufffd?")
    (tmp_path / "empty").mkdir()
    refuses(DataError, r"no environment_profiles.jsonl in .*data must be the folder", read_official, tmp_path / "empty")


@cases(
    "rows, message",
    (([{**SCENARIO, "agent_goals": ["one"]}], *ROWS[1:]), "line 1.*two texts"),
    (([{**SCENARIO, "relationship": 6}], *ROWS[1:]), "line 1.*6 is not a valid Relationship"),
    (([{**SCENARIO, "scenario": '<p viewer="agent_1">x'}], *ROWS[1:]), "does not close <p>"),
    ((ROWS[0], [PERSON], ROWS[2]), "combo.*line 1.*'a2'"),
    ((ROWS[0], ROWS[1], [PAIRING, PAIRING]), "combo.*line 2: the id 'c1' is that of line 1 too"),
    (([SCENARIO, {**SCENARIO, "codename": "x"}], *ROWS[1:]), "environment_.*line 2: the id 'e1' is that of line 1"),
    ((ROWS[0], [{**PERSON, "age": None}], ROWS[2]), "agent_profiles.*line 1.*age must be an integer, got None"),
    ((ROWS[0], [{**PERSON, "secret": "x" * 30_000}], ROWS[2]), "line 1.*secret must be a text of at most 20,000"),
    ((ROWS[0], [{**PERSON, "last_name": "x" * 300}], ROWS[2]), "line 1.*last_name must be a text of at most 200"),
    (([{**SCENARIO, "source": "craigslist_bargains"}], *ROWS[1:]), "environment_.*line 1.*no price in 'Two wait.'"),
    ((ROWS[0], [{**PERSON, "secret": "<p>x"}], ROWS[2]), "agent_profiles.*line 1.*does not close <p>"),
    ((ROWS[0], [{**PERSON, "moral_values": "Care"}], ROWS[2]), "agent_profiles.*line 1.*must be a list of texts"),
    ((ROWS[0], ROWS[1], [{**PAIRING, "env_id": ["e1"]}]), "combo.*line 1.*is no id of environment_profiles.jsonl"),
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, rows: tuple, message: str) -> None:
    refuses(DataError, message, read_official, write_files(tmp_path, rows))


def test_replaced_files_are_read_anew(tmp_path: Path) -> None:
    write_files(tmp_path)
    before = load_tasks(tmp_path, None, 0)
    assert load_tasks(tmp_path, None, 0) is before
    (environment, *more), people, pairings = ROWS
    write_files(
        tmp_path, ([{**environment, "scenario": "Two people meet again, years later."}, *more], people, pairings)
    )
    assert read_official(tmp_path)[0].scenario.text == "Two people meet again, years later."
    assert load_tasks(tmp_path, None, 0).by_index("all", 0).scenario.text == "Two people meet again, years later."


@needs_data
def test_games_read_by_hand() -> None:
    scenarios = {pairing.scenario.id: pairing.scenario for pairing in read_official(FOLDER)}
    found = {named: game for named, scenario in scenarios.items() if (game := read_game(scenario)) is not None}
    assert Counter(game.family for game in found.values()) == {"bargain": 10, "divide": 10, "friend": 10}
    sale = found["01H7VFHPQQQY6H4DNC6NBQ8XTG"]
    assert (sale.list_price, sale.targets) == (650.0, (454.0, 610.0))
    fruit = found["01H7VFHP5H5GY9Z62J4NJYJQN1"]
    assert (fruit.pool.counts, fruit.values) == ((1, 4, 3), ((5, 3, 7), (2, 4, 10)))
    fruit = found["01H7VFHP7K0EN9QX5JTD8B9NSQ"]
    assert (fruit.pool.counts, fruit.values) == ((3, 2, 1), ((1, 2, 3), (3, 1, 2)))
    party = found["01H7VFHPQ1712DHGTMPQFTXH02"]
    assert (party.mutual, len(party.friends[1])) == ("Alvin", 9)
    assert [name for name, _ in party.attributes] == ["School", "Company"]
    assert party.friends[0][0].values == ("Sewanee, University of the South", "BellSouth")


def sale(text: str, first: str, second: str, source: str = "craigslist_bargains") -> Scenario:
    return Scenario("s", "sale", source, text, (first, second), Relationship.stranger)


def test_a_sale_and_friends_from_their_texts() -> None:
    made = sale("A lamp is offered for $1,200.50.", "You are the buyer; target $900.", "You sell it; target $1,000.0.")
    assert read_game(made) == Bargain(1200.5, (900.0, 1000.0), ("buyer", "seller"))
    assert read_game(replace(made, source="social_iqa")) is None
    goal = "You know:\n Kim: Town: Ashford  Job: baker \n Ann: Town: Dunwick  Job: judge \n"
    other = "You know:\n Kim: Town: Ashford  Job: baker  \n Eva: Town: Elmstead  Job: judge \n"
    text = '<p viewer="environment">They have 1 common friends: {}.</p>'
    made = sale(text.format("Kim"), goal, other, "mutual_friends")
    assert read_game(made).friends[1][1].values == ("Elmstead", "judge")
    refuses(DataError, "which the scenario does not name", read_game, replace(made, text=text.format("Ann")))
    words = r"scenario s \(sale\) of source 'craigslist_bargains' cannot be read"
    for text, first in (("A lamp is offered.", "You are the buyer; target $900."), ("A lamp for $9.", "Buy it.")):
        refuses(DataError, words, read_game, sale(text, first, "You sell it; target $1,000.0."))


BYE = write(LEAVE)


@needs_data
@pytest.mark.parametrize("role", [0, 1])
def test_all_numeric_pairings_play_offline(role: int) -> None:
    envs = SotopiaVectorEnv(150, data=FOLDER, expert=True, role=role, autoreset_mode="Disabled")
    assert [envs.envs[0].num_tasks(split) for split in ("all", "hard", "numeric")] == [450, 70, 150]
    _, infos = envs.reset(seed=0, options=[{"index": i} for i in range(150)])
    assert len({env.task.scenario.id for env in envs.envs}) == 30
    assert set(infos["source"]) == {"craigslist_bargains", "deal-or-no-deal", "mutual_friends"}
    assert set(infos["family"]) == {"bargain", "divide", "friend"}
    over = False
    while not over:
        _, _, terminated, truncated, infos = envs.step(list(infos["expert_action"]))
        over = bool((terminated | truncated).all())
    assert not infos["unscored"].any()
    assert {scenario: True for scenario, won in zip(infos["family"], infos["won"], strict=True) if won} == {
        "bargain": True, "divide": True, "friend": True,
    }  # fmt: skip
    assert infos["won"].mean() > 0.4


@needs_data
@pytest.mark.parametrize("split", ["all", "hard"])
def test_the_others_say_that_they_need_a_judge(split: str) -> None:
    env = SotopiaEnv(data=FOLDER, split=split)
    pair = parallel_env(data=FOLDER, split=split)
    refused = 0
    for index in range(env.num_tasks(split)):
        if env.tasks.by_index(split, index).game is None:
            with pytest.raises(ValueError, match=r"RulesPlayer, RulesJudge cannot.*no computable goals.*'numeric'"):
                env.reset(options={"index": index})
            refuses(ValueError, r"RulesJudge cannot.*no computable goals", pair.reset, options={"index": index})
            refused += 1
    assert refused == {"all": 300, "hard": 45}[split]


@needs_data
def test_with_both_every_pairing_plays() -> None:
    envs = SotopiaVectorEnv(450, data=FOLDER, partner=Script(say("Well.")), judge=Fixed(), autoreset_mode="Disabled")
    assert envs.envs[0].split == "all"
    _, infos = envs.reset(options=[{"index": i} for i in range(450)])
    assert len(set(infos["task_id"])) == 450
    *_, infos = envs.step([write(say("Hello"))] * 450)
    assert {each for each, family in zip(infos["standing"], infos["family"], strict=True) if not family} == {
        Standing(role=1, move="speak")
    }
    _, rewards, terminated, _, infos = envs.step([BYE] * 450)
    assert terminated.all()
    assert set(rewards) == {0.8}
    again = SotopiaEnv(data=FOLDER, partner=Script(), judge=Fixed())
    assert again.reset(options={"task_id": infos["task_id"][7], "split": "all"})[1]["task_id"] == infos["task_id"][7]


@needs_data
def test_families_of_official_scenarios() -> None:
    env = SotopiaEnv(data=FOLDER, families="divide")
    assert [env.num_tasks(split) for split in ("all", "numeric")] == [50, 50]
    refuses(ValueError, "holds no task", lambda: SotopiaEnv(data=FOLDER, families="schedule").reset())
    refuses(ValueError, r"unknown split 'train'.*'numeric'", env.reset, options={"split": "train"})
    refuses(ValueError, r"known: 'all', 'hard', 'numeric'; use 'hard'", env.reset, options={"split": "test"})
    refuses(ValueError, "id of a pairing", env.reset, options={"task_id": "bargain-0-1"})
    assert SotopiaEnv(data=FOLDER, families="schedule").split == "all"  # no official scenario of this family
    env = SotopiaEnv(data=FOLDER)
    assert env.split == "numeric"
    check_indices(env, "numeric")


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
        *((each, [each] * 3) for each in ("3 < 5 > 2", "a <b>b</b> & c", "<paragraph>", "&lt;p&gt;", "<extra info>")),
    ):
        assert [render(text, viewer) for viewer in (*ROLES, JUDGE)] == shown, text


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
