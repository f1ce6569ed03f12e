"""The official files: what they hold, files like them that are damaged, their games, and all pairings played."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym.outside.dialogue import LEAVE, write
from agentgym.outside.text import DataError
from agentgym.sotopia import parallel_env
from agentgym.sotopia.env import SotopiaEnv, SotopiaVectorEnv
from agentgym.sotopia.games.bargain import Bargain
from agentgym.sotopia.games.game import Standing
from agentgym.sotopia.official import FILES, HARD_SCENARIOS, read_game, read_official
from agentgym.sotopia.profiles import Relationship, Scenario
from agentgym.sotopia.tasks import load_tasks
from tests.agentgym.indices import check_indices
from tests.agentgym.sotopia.support import FOLDER, Fixed, Script, needs_data, say
from tests.cases import cases
from tests.processes import printed
from tests.refusals import refuses

SCENARIO = {
    "env_id": "e1", "codename": "wait", "source": "ours", "scenario": "Two wait.", "agent_goals": ["Sit", "Sleep"],
    "relationship": "3",
}  # fmt: skip
PERSON = {
    "agent_id": "a1", "first_name": "Ada", "last_name": "Lund", "age": 31, "occupation": "Captain", "gender": "Woman",
    "gender_pronoun": "She/her", "public_info": "Bees.", "personality_and_values": "Stubborn.",
    "secret": "Cannot swim.", "moral_values": ["Care", " Fairness"],
}  # fmt: skip
PAIRING = {"combo_id": "c1", "env_id": "e1", "agent_ids": ["a1", "a2"]}
ROWS = ([SCENARIO], [PERSON, {**PERSON, "agent_id": "a2", "first_name": "Bo"}], [PAIRING])


def write_files(folder: Path, rows: tuple = ROWS) -> Path:
    for name, records in zip(FILES, rows, strict=True):
        (folder / name).write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return folder


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


@cases(
    "line, message",
    (b"\xff\xfe", "not UTF-8"),
    (b'{"a": "\\u0041", "b": ' + b"[" * 900 + b"]" * 900 + b"}", "nested too deeply"),
    (b'{"a": 1', "not JSON"),
    ids=["bytes", "depth with an escape", "cut"],
)
@pytest.mark.parametrize("file", FILES)
def test_damage_is_named_with_file_and_line(tmp_path: Path, file: str, line: bytes, message: str) -> None:
    path = write_files(tmp_path) / file
    path.write_bytes(path.read_bytes() + b"\n" + line + b"\n")
    number = len(path.read_bytes().splitlines())
    refuses(DataError, rf"{file}, line {number}: .*{message}", read_official, tmp_path)


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


SCRIPT = """
import hashlib, agentgym, gymnasium as gym
digest = hashlib.sha256()
for order in ("round-robin", "simultaneous", "random"):
    env = gym.make("AgentRL/SOTOPIA-v0", order=order, role="random", expert=True)
    for seed in range(12):
        observation, info = env.reset(seed=seed)
        while not info["ended"]:
            digest.update(repr((observation, info)).encode())
            observation, *rest, info = env.step(info["expert_action"])
        digest.update(repr((observation, rest, info)).encode())
print(digest.hexdigest())
"""


def test_whole_dialogues_are_the_same_in_any_process() -> None:
    assert printed(SCRIPT, "0") == printed(SCRIPT, "1")
