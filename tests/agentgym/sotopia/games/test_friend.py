"""The search for a mutual friend: what is named, what it costs, and who confirms whom."""

import pytest

from agentgym.sotopia.games.friend import Friend, MutualFriend
from tests.agentgym.sotopia.played import outcome, standing

ATTRIBUTES = (("town", ("Ashford", "Dunwick", "Elmstead")), ("job", ("baker", "judge", "sea captain")))
KIM = Friend("Kim", ("Ashford", "sea captain"))
GAME = MutualFriend(
    ATTRIBUTES,
    (
        (Friend("Ann", ("Ashford", "baker")), Friend("Don", ("Dunwick", "judge")), KIM),
        (Friend("Eva", ("Elmstead", "baker")), KIM, Friend("Gus", ("Dunwick", "baker"))),
    ),
)


def test_found_at_once() -> None:
    assert GAME.mutual == "Kim"
    assert GAME.solvable
    assert outcome(GAME, "Is it Kim?", "Yes!") == ("Kim", (10, 10))
    assert outcome(GAME, "Is it Kim?", "Kim is a friend of mine.") == ("Kim", (10, 10))
    assert outcome(GAME, "Do you know Kim?", "Yes, I know Kim. Do you like her?") == ("Kim", (10, 10))


def test_no_answer_is_no_agreement() -> None:
    for answer in ("No.", "I don't know Kim.", "Maybe.", "Kim?", "I know nobody of that name."):
        assert outcome(GAME, "Is it Kim?", answer).agreed is None, answer
    assert outcome(GAME, "Kim!", "Nice weather.", "Yes.").agreed is None


def test_who_confirms_somebody_else_gets_nothing() -> None:
    assert outcome(GAME, "Is it Ann?", "Yes, deal.") == ("Ann", (0, 0))


def test_wrong_names_cost_three_and_properties_a_half() -> None:
    # Role 0 names Ann (3) and brings up a town (0.5): 6.5 is rounded up. Role 1 repeats both, which is free.
    spoken = ("Is it Ann from Ashford?", "No, I don't know Ann from Ashford.", "Is it Kim?", "Yes.")
    assert standing(GAME, *spoken).things == (("Ann", "ashford", "Kim"), ())
    assert outcome(GAME, *spoken) == ("Kim", (7, 10))
    # Both bring up two properties.
    spoken = ("A baker in Ashford?", "No. A judge in Dunwick?", "No. Kim?", "Yes.")
    assert outcome(GAME, *spoken) == ("Kim", (9, 9))
    assert GAME.cost(("Ann", "Don", "Kim", "judge")) == 6.5


def test_listing_everybody_does_not_win() -> None:
    listed = outcome(GAME, "Ann, Don and Kim.", "Kim!", "Yes.")
    assert listed == ("Kim", (4, 10))  # two wrong names


def test_a_list_of_names_proposes_nobody_and_a_name_lapses() -> None:
    assert standing(GAME, "I know Ann and Kim.").offers == (None, None)
    assert standing(GAME, "Kim?", "What?", "Any bakers?").offers == (None, None)


def test_names_are_read_with_capitals_and_as_whole_words_and_properties_in_any_case() -> None:
    assert GAME.hear(0, "Kimono, kim, DON, Donut").things == ()
    assert GAME.hear(0, "Don't ask for Don's job.").things == ("Don",)
    assert GAME.hear(0, "a Sea Captain from ASHFORD, no bakery").things == ("sea captain", "ashford")


def test_sides_know_the_names_of_their_own_friends_only() -> None:
    side = GAME.sides[0]
    assert side.names == {"Ann", "Don", "Kim"}
    assert "Eva" not in repr(side)
    assert side.hear(1, "Eva, Ann?").things == ("Ann",)
    assert side.matching(frozenset(["ashford"])) == ("Ann", "Kim")
    assert side.matching(frozenset(["ashford", "dunwick"])) == ("Ann", "Don", "Kim")
    assert side.matching(frozenset(["ashford", "baker"])) == ("Ann",)
    assert side.matching(frozenset(["elmstead", "baker"])) == ()  # nobody of this role lives there
    assert side.matching(frozenset()) == ()


def test_says_what_is_wrong() -> None:
    for friends in (((KIM,), ()), ((KIM, KIM), (KIM,)), (GAME.friends[0], GAME.friends[0])):
        with pytest.raises(ValueError, match="one and the same friend"):
            MutualFriend(ATTRIBUTES, friends)
