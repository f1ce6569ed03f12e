"""The official scenarios with numbers in them."""

from dataclasses import replace

import pytest

from agentgym.outside.text import DataError
from agentgym.sotopia.games.bargain import Bargain
from agentgym.sotopia.games.divide import Divide
from agentgym.sotopia.games.friend import MutualFriend
from agentgym.sotopia.games.game import Game
from agentgym.sotopia.judges.rules import RulesJudge
from agentgym.sotopia.official.games import read_game
from agentgym.sotopia.official.profile_files import read_official
from agentgym.sotopia.players.scripted import PLAYERS
from agentgym.sotopia.profiles import Relationship, Scenario, Task
from tests.agentgym.sotopia.made_up import ADA, BEN
from tests.agentgym.sotopia.official_data import FOLDER, needs_data
from tests.agentgym.sotopia.played import play


def scenarios() -> dict[str, Scenario]:
    return {pairing.scenario.id: pairing.scenario for pairing in read_official(FOLDER)}


def games() -> dict[str, Game]:
    found = {named: read_game(scenario) for named, scenario in scenarios().items()}
    return {named: game for named, game in found.items() if game is not None}


@needs_data
def test_thirty_of_ninety_are_games() -> None:
    assert len(scenarios()) == 90
    families = [game.family for game in games().values()]
    assert {name: families.count(name) for name in set(families)} == {"bargain": 10, "divide": 10, "friend": 10}


@needs_data
def test_numbers_read_by_hand() -> None:
    found = games()
    sale = found["01H7VFHPQQQY6H4DNC6NBQ8XTG"]
    assert isinstance(sale, Bargain)
    assert (sale.list_price, sale.targets) == (650.0, (454.0, 610.0))
    fruit = found["01H7VFHP5H5GY9Z62J4NJYJQN1"]
    assert isinstance(fruit, Divide)
    assert fruit.pool.counts == (1, 4, 3)
    assert fruit.values == ((5, 3, 7), (2, 4, 10))
    fruit = found["01H7VFHP7K0EN9QX5JTD8B9NSQ"]
    assert isinstance(fruit, Divide)
    assert fruit.pool.counts == (3, 2, 1)
    assert fruit.values == ((1, 2, 3), (3, 1, 2))
    party = found["01H7VFHPQ1712DHGTMPQFTXH02"]
    assert isinstance(party, MutualFriend)
    assert party.mutual == "Alvin"
    assert len(party.friends[1]) == 9
    assert [name for name, _ in party.attributes] == ["School", "Company"]
    assert party.friends[0][0].values == ("Sewanee, University of the South", "BellSouth")


@needs_data
def test_all_play_without_a_judge_to_be_asked() -> None:
    judge = RulesJudge()
    agreed = 0
    for number, (named, game) in enumerate(games().items()):
        task = Task(named, scenarios()[named], (ADA, BEN), game, number)
        dialogue = play(task, PLAYERS["negotiator"](), PLAYERS["rules"]())
        (verdict,) = judge.score([dialogue])
        assert verdict.ratings[0].goal == dialogue.outcome.goals[0]  # type: ignore[union-attr]
        agreed += dialogue.outcome.agreed is not None
    assert agreed >= 20


def sale(text: str, first: str, second: str, source: str = "craigslist_bargains") -> Scenario:
    return Scenario("s", "sale", source, text, (first, second), Relationship.stranger)


def test_a_sale_from_its_texts() -> None:
    made = sale("A lamp is offered for $1,200.50.", "You are the buyer; target $900.", "You sell it; target $1,000.0.")
    assert read_game(made) == Bargain(1200.5, (900.0, 1000.0), ("buyer", "seller"))
    assert read_game(replace(made, source="social_iqa")) is None


@pytest.mark.parametrize(
    ("text", "first"), [("A lamp is offered.", "You are the buyer; target $900."), ("A lamp for $9.", "Buy it.")]
)
def test_a_scenario_without_its_numbers_is_an_error(text: str, first: str) -> None:
    with pytest.raises(DataError, match=r"scenario s \(sale\) of source 'craigslist_bargains' cannot be read"):
        read_game(sale(text, first, "You sell it; target $1,000.0."))


def test_friends_must_share_whom_the_scenario_names() -> None:
    goal = "You know:\n Kim: Town: Ashford  Job: baker \n Ann: Town: Dunwick  Job: judge \n"
    other = "You know:\n Kim: Town: Ashford  Job: baker  \n Eva: Town: Elmstead  Job: judge \n"
    text = '<p viewer="environment">They have 1 common friends: {}.</p>'
    made = sale(text.format("Kim"), goal, other, "mutual_friends")
    game = read_game(made)
    assert isinstance(game, MutualFriend)
    assert game.friends[1][1].values == ("Elmstead", "judge")
    with pytest.raises(DataError, match="not who the scenario names"):
        read_game(replace(made, text=text.format("Ann")))
