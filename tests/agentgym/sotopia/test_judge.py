"""The judge by rules, dimension by dimension, worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest

from agentgym.outside.dialogue import LEAVE, NONE, Act, Turn
from agentgym.sotopia import judge as rules
from agentgym.sotopia.dialogue import DIMENSIONS, Dialogue, Rating, Verdict
from agentgym.sotopia.games.game import Game
from agentgym.sotopia.judge import RulesJudge
from tests.agentgym.sotopia.support import make_task, turns
from tests.agentgym.sotopia.test_games import FRIENDS, MEETING, SALE


def judged(game: Game | None, *spoken: str | Act, more: tuple[Turn, ...] = ()) -> tuple[Rating, Rating]:
    dialogue = Dialogue(replace(make_task(), game=game), [*turns(*spoken), *more], "left")
    (verdict,) = RulesJudge().score([dialogue])
    assert isinstance(verdict, Verdict)
    for rating in verdict.ratings:
        for value, (low, high) in zip(rating, DIMENSIONS.values(), strict=True):
            assert low <= value <= high
            assert value == int(value)
    return verdict.ratings


def test_ratings_by_hand() -> None:
    # 85 is 7 points for both; the buyer heard one price, the seller two.
    assert judged(SALE, "I pay $70.", "I want $95.", "I pay $85.", "Deal.", LEAVE) == (
        Rating(10, 2, 1, 0, 0, 2, 7), Rating(10, 2, 2, 0, 0, 2, 7),
    )  # fmt: skip
    first, second = judged(MEETING, "Monday at noon?", "Deal.")
    assert (first.goal, first.financial_and_material_benefits) == (10, 0)
    assert (second.goal, second.financial_and_material_benefits) == (1, 0)
    first, second = judged(SALE, "I pay $70.", LEAVE)
    assert (first.relationship, second.relationship, first.goal, second.goal) == (0, -1, 0, 0)
    first, second = judged(FRIENDS, "Ann, Don, Kim?", "Eva.", "No.")
    assert (first.social_rules, second.social_rules, first.knowledge, second.knowledge) == (-5, 0, 1, 3)


def test_believability_insults_and_secrets_by_hand() -> None:
    first, second = judged(SALE, "Hello.", "Hi.", "Hello.", "", "Hello.", NONE)
    # The first repeats twice; the second says nothing once; one turn passes in silence.
    assert (first.believability, second.believability) == (5, 7)
    quiet = tuple(Turn(number, (NONE, NONE)) for number in range(12))
    assert [rating.believability for rating in judged(SALE, more=quiet)] == [0, 0]
    first, second = judged(SALE, "You liar!", "Why?", "Idiot. Shut up.", "Deal.", "You fool, you moron", "No.")
    assert (first.relationship, first.social_rules) == (-5, -10)
    assert (second.relationship, second.social_rules) == (0, 0)
    assert judged(SALE, "Assistance, please: the classic stupor.")[0].social_rules == 0
    # Ada cannot swim: three words, so all of them; Ben fears balloons.
    assert judged(SALE, "Between us: ADA CANNOT SWIM!")[0].secret == -10
    assert judged(SALE, "Ada", "Oh?", "cannot swim")[0].secret == 0
    first, second = judged(SALE, "Ben fears balloons.", "Ada cannot swim.")
    assert (first.secret, second.secret) == (0, 0)  # the other's secret is not one's own


def test_marks_of_secrets_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = ["Bo never learned to ride a bicycle.", "Ada can't swim", "It's the dog's, the DOG's fault, he says", ""]
    words = [*" ".join(secrets).lower().split(), "|", "\n|\n", "a_b", "lorem", "the"]
    rng = np.random.default_rng(0)
    said = [" ".join(words[start : start + length]) for start in range(len(words)) for length in (2, 3, 4, 5, 6)]
    said += [" ".join(rng.choice(words, 12)) for _ in range(500)]
    found = [rules._given_away(secret, each) for secret in secrets for each in said]
    monkeypatch.setattr(rules, "_marks", lambda secret: [""])
    assert found == [rules._given_away(secret, each) for secret in secrets for each in said]
    assert set(found) == {0, -5, -10}


def test_reasons_and_what_cannot_be_computed() -> None:
    (failure,) = RulesJudge().score([Dialogue(make_task(), turns("Hello."), "turns")])
    assert "name a model as judge" in failure.reason
    assert RulesJudge().score([]) == []
    (verdict,) = RulesJudge().score([Dialogue(replace(make_task(), game=SALE), turns("I pay $85.", "Deal."), "turns")])
    assert verdict.reasons[0]["goal"] == "agreed: $85"


@pytest.mark.parametrize(
    ("words", "insults"),
    [("an asshole, an ass, a bass", 2), ("Fuck it, fucking hell, SHUT UP", 3), ("go to hell, idiots! You idiot", 2),
     ("a class of liars; a foolish loser", 1)],
)  # fmt: skip
def test_insults_are_whole_words_however_they_are_looked_for(words: str, insults: int) -> None:
    first, _ = judged(SALE, f"{words}.", "Oh.", LEAVE)
    assert first.social_rules == -3 * insults
