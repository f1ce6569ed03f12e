"""Sales: how prices are read, and what they are worth."""

import pytest

from agentgym.sotopia.games.bargain import BUYER, SELLER, Bargain, hear
from tests.agentgym.sotopia.played import outcome, standing

#: A twentieth of the list price, 5 dollars, is one point: 80 is 8 points for the buyer, 85 is 7, 60 is 12.
SALE = Bargain(100.0, (80.0, 90.0), (BUYER, SELLER))


@pytest.mark.parametrize(
    ("text", "price"),
    [
        ("I can pay $70.", 70.0),
        ("I can pay $1,250.50.", 1250.5),
        ("Would 70 dollars do?", 70.0),
        ("70", 70.0),
        ("It is listed at $100, how about $70?", 70.0),
        ("$70 instead of $100", 70.0),
        ("I would rather pay $70 than $80.", 70.0),
        ("$70 is too low. I could do $95.", 95.0),
        ("I can't do $70, but $95 works.", 95.0),
        ("I can't go lower than $85.", 85.0),
        ("I have had it for 3 years and want $70 for it.", 70.0),
        ("$70, and I come with 2 friends to carry it", 70.0),
        ("I can't do $70.", None),
        ("Make it 70 and it is yours.", 70.0),
        ("How about 1,250?", 1250.0),
        ("I have had it for 3 years.", None),
        ("My 2 kids love it, it has 21 gears.", None),
        ("Is it any good?", None),
        ("version 2.0.1", None),
        ("10% off?", None),
        ("", None),
        ("<b>$70</b>", 70.0),
        ("¿Setenta? 70 $", 70.0),
    ],
)
def test_the_last_amount_that_is_not_turned_down_is_the_offer(text: str, price: float | None) -> None:
    assert hear(text).terms == price


@pytest.mark.parametrize(
    ("text", "accepts", "refuses"),
    [
        ("Deal!", True, False),
        ("Okay, it's a deal.", True, False),
        ("I accept.", True, False),
        ("Sounds good.", True, False),
        ("I'll take it.", True, False),
        ("Yes!", True, False),
        ("Okay, thanks.", True, False),
        ("No problem, deal.", True, False),
        ("Yes. It is nearly new.", False, False),
        ("Yes?", False, False),
        ("No deal.", False, True),
        ("I do not accept that.", False, True),
        ("I don\u2019t agree.", False, True),
        ("Deal?", False, False),
        ("I would accept if you were nicer.", False, False),
        ("No, thanks.", False, True),
        ("That is too expensive.", False, True),
        ("Nice weather.", False, False),
        ("The dealer disagreed.", False, False),
    ],
)
def test_agreement_and_refusal(text: str, accepts: bool, refuses: bool) -> None:
    assert (hear(text).accepts, hear(text).refuses) == (accepts, refuses)


@pytest.mark.parametrize(
    ("price", "goals"),
    [
        (85.0, (7, 7)),  # 5 above the one's target, 5 below the other's
        (80.0, (8, 6)),
        (90.0, (6, 8)),
        (70.0, (10, 4)),  # 8 + 2, 8 - 4
        (60.0, (10, 2)),  # 12 is cut at 10
        (120.0, (0, 10)),  # 8 - 8
        (500.0, (0, 10)),
        (82.5, (8, 7)),  # 7.5 is rounded up, and 6.5 is
    ],
)
def test_goals_by_price(price: float, goals: tuple[int, int]) -> None:
    assert outcome(SALE, f"I pay ${price}.", "Deal.") == (price, goals)


def test_nothing_agreed_is_nothing_gained() -> None:
    assert outcome(SALE, "I pay $70.", "No.", "Deal.") == (None, (0, 0))
    assert outcome(SALE) == (None, (0, 0))


def test_an_offer_stands_until_it_is_refused() -> None:
    offered = standing(SALE, "I pay $70.", "Lovely weather.", "Isn't it?")
    assert offered.offers == (70.0, None)
    assert offered.move == "ask"
    assert standing(SALE, "I pay $70.", "No, that is too low.").offers == (None, None)
    assert standing(SALE, "I pay $70.", "Rather $95.", "No!").offers == (70.0, None)
    # A counter-offer leaves both open: the buyer takes the seller's, or the seller the buyer's.
    assert outcome(SALE, "I pay $70.", "Rather $95.", "Deal.").agreed == 95.0
    assert outcome(SALE, "I pay $70.", "Rather $95.", "Please!", "Deal.").agreed == 70.0


def test_the_same_amount_is_agreement_and_another_is_an_offer() -> None:
    assert outcome(SALE, "I pay $85.", "$85 it is.").agreed == 85.0
    assert outcome(SALE, "I pay $85.", "$85?").agreed is None
    assert outcome(SALE, "I pay $85.", "$85 is too low.").agreed is None
    assert outcome(SALE, "I pay $85.", "Deal, for $90.").agreed is None


def test_nobody_accepts_an_own_offer_and_what_is_agreed_holds() -> None:
    assert outcome(SALE, "I pay $70.", "Hm.", "Deal.").agreed is None
    assert outcome(SALE, "I pay $85.", "Deal.", "No deal! I pay $20.", "Deal.").agreed == 85.0


def test_only_speech_counts() -> None:
    from agentgym.sotopia.acts import Act

    for kind in ("action", "non-verbal communication"):
        assert outcome(SALE, "I pay $85.", Act(kind, "Deal.")).agreed is None
    assert standing(SALE, "I pay $85.", Act("leave")).move == "leave"


def test_what_is_said_at_once_answers_nothing() -> None:
    from agentgym.sotopia.acts import Act, Turn
    from agentgym.sotopia.games.game import Standing

    at_once = SALE.read(Standing(), Turn(0, (Act("speak", "I pay $70."), Act("speak", "Deal."))))
    assert at_once.agreed is None
    assert at_once.offers == (70.0, None)
    assert SALE.read(at_once, Turn(1, (Act("speak", "Or $60."), Act("speak", "Deal.")))).agreed == 70.0


def test_sides_know_their_own_target_only() -> None:
    buyer, seller = SALE.sides[0], SALE.sides[1]
    assert "90" not in repr(buyer)
    assert "80" not in repr(seller)
    assert buyer.worth(80.0) == seller.worth(90.0) == 8.0
    assert buyer.propose(8.0, (), ()) == 80.0
    assert seller.propose(8.0, (), ()) == 90.0
    assert seller.propose(99.0, (), ()) == 100.0  # never above the list price


def test_is_solvable_when_both_can_have_seven() -> None:
    assert SALE.solvable
    assert not Bargain(100.0, (60.0, 95.0), (BUYER, SELLER)).solvable  # 77.50 is 4.5 points for either


@pytest.mark.parametrize(
    "given",
    [(0.0, (1.0, 2.0), (BUYER, SELLER)), (9.0, (1.0, -2.0), (BUYER, SELLER)), (9.0, (1.0, 2.0), (BUYER, BUYER))],
)
def test_says_what_is_wrong_with_a_sale(given: tuple[float, tuple[float, float], tuple[str, str]]) -> None:
    with pytest.raises(ValueError, match="positive prices, a buyer and a seller"):
        Bargain(*given)


def test_utterances_that_say_nothing_of_terms_are_the_same_objects_so_that_no_memory_is_kept_of_each() -> None:
    assert hear("The saddle is new, qwerty asdf.") is hear("Zxcv poiu lkjh mnb x12y7.")
    assert hear("Is it any good?") is not hear("It is.")
    assert hear("I pay $70.") == hear("I pay 70 dollars.")
