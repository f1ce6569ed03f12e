"""The four games: how utterances are read, what terms are worth, what is remembered, and how the rules judge it."""

import itertools
import pickle
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from agentgym.outside.dialogue import LEAVE, LONGEST, NONE, Act, Turn, write
from agentgym.sotopia import judge
from agentgym.sotopia.dialogue import DIMENSIONS, Dialogue, Rating, Verdict
from agentgym.sotopia.env import SotopiaEnv
from agentgym.sotopia.games import bargain, divide, phrases
from agentgym.sotopia.games import game as module
from agentgym.sotopia.games.bargain import BUYER, SELLER, Bargain, hear
from agentgym.sotopia.games.divide import Divide, Pool
from agentgym.sotopia.games.friend import Friend, MutualFriend
from agentgym.sotopia.games.game import Game, Standing, TurnTree, UtteranceCache
from agentgym.sotopia.games.schedule import Calendar, Schedule
from agentgym.sotopia.judge import RulesJudge
from tests.agentgym.sotopia.support import first, make_task, outcome, say, standing
from tests.agentgym.sotopia.support import turns as turns_of
from tests.cases import cases
from tests.refusals import refuses

#: A twentieth of the list price, 5 dollars, is one point: 80 is 8 points for the buyer, 85 is 7, 60 is 12.
SALE = Bargain(100.0, (80.0, 90.0), (BUYER, SELLER))


@cases(
    "text, price",
    ("I can pay $1,250.50.", 1250.5),
    ("Would 70 dollars do?", 70.0),
    ("It is listed at $100, how about $70?", 70.0),
    ("$70 instead of $100", 70.0),
    ("I would rather pay $70 than $80.", 70.0),
    ("$70 is too low. I could do $95.", 95.0),
    ("I can't do $70, but $95 works.", 95.0),
    ("I can't go lower than $85.", 85.0),
    ("I have had it for 3 years and want $70 for it.", 70.0),
    ("$70, and I come with 2 friends to carry it", 70.0),
    ("Make it 70 and it is yours.", 70.0),
    ("I have had it for 3 years.", None),
    ("My 2 kids love it, it has 21 gears.", None),
    ("version 2.0.1", None),
    ("10% off?", None),
    ("", None),
    ("¿Setenta? 70 $", 70.0),
)
def test_the_last_amount_that_is_not_turned_down_is_the_offer(text: str, price: float | None) -> None:
    assert hear(text).terms == price


@cases(
    "accepts, refuses, texts",
    (True, False, ("Deal!", "Okay, it's a deal.", "I accept.", "Sounds good.", "I'll take it.", "Yes!")),
    (True, False, ("Okay, thanks.", "No problem, deal.")),
    (False, False, ("Yes. It is nearly new.", "Yes?", "Deal?", "I would accept if you were nicer.")),
    (False, False, ("Nice weather.", "The dealer disagreed.")),
    (False, True, ("No deal.", "I do not accept that.", "I don\u2019t agree.", "No, thanks.")),
    (False, True, ("That is too expensive.",)),
)
def test_agreement_and_refusal(accepts: bool, refuses: bool, texts: tuple[str, ...]) -> None:
    assert {text: (hear(text).accepts, hear(text).refuses) for text in texts} == dict.fromkeys(
        texts, (accepts, refuses)
    )


@cases(
    "price, goals",
    (85.0, (7, 7)),  # 5 above the one's target, 5 below the other's
    (80.0, (8, 6)),
    (70.0, (10, 4)),  # 8 + 2, 8 - 4
    (60.0, (10, 2)),  # 12 is cut at 10
    (120.0, (0, 10)),  # 8 - 8
    (82.5, (8, 7)),  # 7.5 is rounded up, and 6.5 is
)
def test_goals_by_price(price: float, goals: tuple[int, int]) -> None:
    assert outcome(SALE, f"I pay ${price}.", "Deal.") == (price, goals)


def test_offers_stand_until_they_are_refused_or_agreed_to() -> None:
    assert (outcome(SALE, "I pay $70.", "No.", "Deal."), outcome(SALE)) == ((None, (0, 0)), (None, (0, 0)))
    offered = standing(SALE, "I pay $70.", "Lovely weather.", "Isn't it?")
    assert (offered.offers, offered.move) == ((70.0, None), "ask")
    assert standing(SALE, "I pay $70.", "No, that is too low.").offers == (None, None)
    assert standing(SALE, "I pay $70.", "Rather $95.", "No!").offers == (70.0, None)
    for spoken, agreed in (
        # A counter-offer leaves both open: the buyer takes the seller's, or the seller the buyer's.
        (("I pay $70.", "Rather $95.", "Deal."), 95.0),
        (("I pay $70.", "Rather $95.", "Please!", "Deal."), 70.0),
        (("I pay $85.", "$85 it is."), 85.0),
        (("I pay $85.", "$85?"), None),
        (("I pay $85.", "$85 is too low."), None),
        (("I pay $85.", "Deal, for $90."), None),
        (("I pay $70.", "Hm.", "Deal."), None),
        (("I pay $85.", "Deal.", "No deal! I pay $20.", "Deal."), 85.0),
    ):
        assert outcome(SALE, *spoken).agreed == agreed, spoken


def test_only_speech_counts_and_what_is_said_at_once_answers_nothing() -> None:
    for kind in ("action", "non-verbal communication"):
        assert outcome(SALE, "I pay $85.", Act(kind, "Deal.")).agreed is None
    assert standing(SALE, "I pay $85.", Act("leave")).move == "leave"
    at_once = SALE.read(Standing(), Turn(0, (say("I pay $70."), say("Deal."))))
    assert (at_once.agreed, at_once.offers) == (None, (70.0, None))
    assert SALE.read(at_once, Turn(1, (say("Or $60."), say("Deal.")))).agreed == 70.0


def test_sides_of_a_sale() -> None:
    buyer, seller = SALE.sides
    assert ("90" in repr(buyer), "80" in repr(seller)) == (False, False)
    assert buyer.worth(80.0) == seller.worth(90.0) == 8.0
    assert [side.propose(8.0, (), ()) for side in SALE.sides] == [80.0, 90.0]
    assert seller.propose(99.0, (), ()) == 100.0  # never above the list price
    # 77.50 is 4.5 points for either
    assert (SALE.solvable, Bargain(100.0, (60.0, 95.0), (BUYER, SELLER)).solvable) == (True, False)


def test_utterances_that_say_nothing_of_terms_are_the_same_objects_so_that_no_memory_is_kept_of_each() -> None:
    assert hear("The saddle is new, qwerty asdf.") is hear("Zxcv poiu lkjh mnb x12y7.")
    assert hear("Is it any good?") is not hear("It is.")
    assert hear("I pay $70.") == hear("I pay 70 dollars.")


POOL = Pool((("book", "books"), ("hat", "hats"), ("ball", "balls")), (3, 2, 1))
#: Worth 3*1 + 2*3 + 1*1 = 10 points to role 0, and 3*2 + 2*1 + 1*2 = 10 to role 1.
DIVISION = Divide(POOL, ((1, 3, 1), (2, 1, 2)))


@cases(
    "text, share",
    ("I take 2 books and 1 ball, you take 1 book and 2 hats.", (2, 0, 1)),
    ("I take two books and the ball; you get the rest.", (2, 0, 1)),
    ("I'd like to have both hats.", (0, 2, 0)),
    ("You get everything.", (0, 0, 0)),
    ("You get nothing and I keep 3 books, 2 hats and 1 ball.", (3, 2, 1)),
    ("What about this: I get all the books and you get 2 hats and 1 ball.", (3, 0, 0)),
    ("The books are mine, the hats and the ball are yours.", (3, 0, 0)),
    ("I take 2 hats, for you 3 books and the ball.", (0, 2, 0)),
    ("For me 2 hats, for you the rest.", (0, 2, 0)),
    ("I take 4 books.", None),  # there are 3
    ("I take 1 book, you take 1 book.", None),  # what of the third?
    ("I won't take 2 books.", None),
    ("I value books at 3 points and hats at 2.", None),
    ("Which do you like, books or hats?", None),
    ("", None),
)
def test_claims(text: str, share: tuple[int, ...] | None) -> None:
    assert POOL.hear(0, text).terms == share
    assert POOL.hear(1, text).terms == (None if share is None else POOL.rest(share))


def test_own_words_about_shares_are_read_back() -> None:
    for role, share, form in itertools.product((0, 1), POOL.shares(), range(3)):
        assert POOL.hear(role, DIVISION.sides[role].phrase(share, form)).terms == share, (role, share, form)


def test_goals_and_sides_of_a_division_by_hand() -> None:
    # Role 1 needs 5 points for a half: 3 books are 6, and the 2 hats and the ball 7 for role 0, the most there is.
    # Role 0 needs 5: 2 hats are 6, and 3 books and the ball are 8 for role 1.
    for share, goals in (
        ((0, 2, 1), (10, 8)),  # 7 of 7; 6 of 8 is 7.5
        ((0, 2, 0), (9, 10)),  # 6 of 7 is 8.6; 8 of 8
        ((3, 0, 0), (4, 5)),  # 3 of 7 is 4.3; 4 of 8
        ((3, 2, 1), (10, 0)),
    ):
        assert DIVISION.goals(share) == goals
    assert outcome(DIVISION, "I take the hats.", "Deal.") == ((0, 2, 0), (9, 10))
    assert outcome(DIVISION, "I take the books and the ball.", "Deal.", first=1) == ((0, 2, 0), (9, 10))
    assert outcome(DIVISION, "I take the hats.", "No way.") == (None, (0, 0))
    first, second = DIVISION.sides
    assert (first.worth((0, 2, 0)), second.worth((0, 2, 0))) == (6.0, 8.0)
    assert ("(2, 1, 2)" in repr(first), "(1, 3, 1)" in repr(second)) == (False, False)
    for side, level in itertools.product((first, second), (3.0, 5.0, 7.0, 9.0)):
        assert side.worth(side.propose(level, (), ())) >= level
    assert first.propose(6.0, [(0, 2, 1), (0, 2, 0)], ()) == (0, 2, 0)  # the other asked for the books, then the ball


def test_the_best_that_leaves_the_other_half_against_all_divisions() -> None:
    for values in itertools.product([(1, 2, 3), (4, 1, 1), (2, 2, 2), (0, 0, 5)], repeat=2):
        game = Divide(POOL, values)
        best = [1, 1]
        for books, hats, ball in itertools.product(range(4), range(3), range(2)):
            first = books * values[0][0] + hats * values[0][1] + ball * values[0][2]
            second = (3 - books) * values[1][0] + (2 - hats) * values[1][1] + (1 - ball) * values[1][2]
            if 2 * second >= 3 * values[1][0] + 2 * values[1][1] + values[1][2]:
                best[0] = max(best[0], first)
            if 2 * first >= 3 * values[0][0] + 2 * values[0][1] + values[0][2]:
                best[1] = max(best[1], second)
        share = (1, 2, 0)
        points = values[0][0] + 2 * values[0][1], 2 * values[1][0] + values[1][2]
        expected = tuple(min(10, int(10 * point / top + 0.5)) for point, top in zip(points, best, strict=True))
        assert game.goals(share) == expected


ATTRIBUTES = (("town", ("Ashford", "Dunwick", "Elmstead")), ("job", ("baker", "judge", "sea captain")))
KIM = Friend("Kim", ("Ashford", "sea captain"))
FRIENDS = MutualFriend(
    ATTRIBUTES,
    (
        (Friend("Ann", ("Ashford", "baker")), Friend("Don", ("Dunwick", "judge")), KIM),
        (Friend("Eva", ("Elmstead", "baker")), KIM, Friend("Gus", ("Dunwick", "baker"))),
    ),
)


def test_a_friend_is_found_by_name_and_confirmed() -> None:
    assert (FRIENDS.mutual, FRIENDS.solvable) == ("Kim", True)
    for question, answer in (
        ("Is it Kim?", "Yes!"),
        ("Is it Kim?", "Kim is a friend of mine."),
        ("Do you know Kim?", "Yes, I know Kim. Do you like her?"),
    ):
        assert outcome(FRIENDS, question, answer) == ("Kim", (10, 10))
    for answer in ("No.", "I don't know Kim.", "Maybe.", "Kim?", "I know nobody of that name."):
        assert outcome(FRIENDS, "Is it Kim?", answer).agreed is None, answer
    assert outcome(FRIENDS, "Kim!", "Nice weather.", "Yes.").agreed is None
    assert outcome(FRIENDS, "Is it Ann?", "Yes, deal.") == ("Ann", (0, 0))


def test_wrong_names_cost_three_properties_a_half_and_lists_propose_nobody() -> None:
    # Role 0 names Ann (3) and brings up a town (0.5): 6.5 is rounded up. Role 1 repeats both, which is free.
    spoken = ("Is it Ann from Ashford?", "No, I don't know Ann from Ashford.", "Is it Kim?", "Yes.")
    assert standing(FRIENDS, *spoken).things == (("Ann", "ashford", "Kim"), ())
    assert outcome(FRIENDS, *spoken) == ("Kim", (7, 10))
    # Both bring up two properties.
    spoken = ("A baker in Ashford?", "No. A judge in Dunwick?", "No. Kim?", "Yes.")
    assert outcome(FRIENDS, *spoken) == ("Kim", (9, 9))
    assert FRIENDS.cost(("Ann", "Don", "Kim", "judge")) == 6.5
    listed = outcome(FRIENDS, "Ann, Don and Kim.", "Kim!", "Yes.")
    assert listed == ("Kim", (4, 10))  # two wrong names
    assert standing(FRIENDS, "I know Ann and Kim.").offers == (None, None)
    assert standing(FRIENDS, "Kim?", "What?", "Any bakers?").offers == (None, None)


def test_names_are_whole_words_with_capitals_and_sides_know_their_own() -> None:
    for text, things in (
        ("Kimono, kim, DON, Donut", ()),
        ("Don't ask for Don's job.", ("Don",)),
        ("a Sea Captain from ASHFORD, no bakery", ("sea captain", "ashford")),
    ):
        assert FRIENDS.hear(0, text).things == things
    side = FRIENDS.sides[0]
    assert (side.names, side.hear(1, "Eva, Ann?").things) == ({"Ann", "Don", "Kim"}, ("Ann",))
    assert "Eva" not in repr(side)
    for wanted, names in (
        (["ashford"], ("Ann", "Kim")),
        (["ashford", "dunwick"], ("Ann", "Don", "Kim")),
        (["ashford", "baker"], ("Ann",)),
        (["elmstead", "baker"], ()),  # nobody of this role lives there
        ([], ()),
    ):
        assert side.matching(frozenset(wanted)) == names


FREE = Calendar((("Monday", "noon"), ("Monday", "evening"), ("Friday", "noon")))
MEETING = Schedule(FREE, ((0, 8, 3), (9, 1, 2)))


@cases(
    "text, slot",
    ("Monday at noon?", 0),
    ("How about the evening of Monday?", 1),
    ("Friday suits me.", 2),
    ("In the evening, please.", 1),
    ("Monday at noon or Friday at noon", None),
    ("I am busy on Monday at noon, but Friday at noon works.", 2),
    ("Not on Friday at noon.", None),
    ("Tuesday at noon", None),  # is not free, and two are at noon
    ("", None),
)
def test_slots(text: str, slot: int | None) -> None:
    assert FREE.hear(text).terms == slot


def test_goals_and_sides_of_a_meeting_by_hand() -> None:
    side = MEETING.sides[0]
    for slot, form in itertools.product(range(3), repeat=2):
        assert FREE.hear(side.phrase(slot, form)).terms == slot
    assert outcome(MEETING, "Monday at noon?", "Deal.") == (0, (10, 1))
    assert outcome(MEETING, "Monday at noon?", "No, that is impossible. Friday?", "That works for me.") == (2, (7, 8))
    assert outcome(MEETING, "Monday at noon?", "Friday?") == (None, (0, 0))
    assert standing(MEETING, "Monday at noon?", "Friday?").offers == (0, 2)
    assert (MEETING.solvable, Schedule(FREE, ((0, 8, 3), (9, 1, 4))).solvable) == (True, False)
    assert [side.worth(slot) for slot in range(3)] == [10.0, 2.0, 7.0]
    assert (side.propose(6.0, (), ()), side.propose(6.0, (), [0]), side.propose(6.0, (), [0, 2])) == (0, 2, 0)
    assert "(9, 1, 2)" not in repr(side)


#: Words of all patterns and of none, with capitals, and letters that Python's patterns take for others (ſ for s).
WORDS = (
    "deal Deal AGREED accept accepted sold ſold sounds good works well for me that take it I'll done settled let's do "
    "fine by with yes sure ok no nope sorry problem isn't isn\u2019t cannot NOT never none nobody unable refuse reject "
    "decline impossible busy bad way thanks too low high few if would could lower than $40 55 dollars know note "
    "lorem ipsum dolor Zürich plans 70 55. x12 x12y $3 \u0665 bucks uſd dollar 1,250 make it for about"
)
CLAIMS = (
    "I take two books", "you get the hat", "I keep everything", "you can have the rest", "for me 2 hats", "a hat",
    "the books are mine", "I want nothing", "you take all the straßen", "I get one straße", "we plan", "I take it all",
)  # fmt: skip
ENDS = (".", "?", "!", ",", ";", ", but", ". ", "")


def utterances(seed: int, count: int) -> list[str]:
    rng = np.random.default_rng(seed)
    pieces = [*WORDS.split(), *CLAIMS, *CLAIMS]
    return [
        " ".join(str(piece) + str(rng.choice(ENDS)) for piece in rng.choice(pieces, rng.integers(1, 9)))
        for _ in range(count)
    ]


def test_hints_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = utterances(0, 6_000)
    read = phrases.read.__wrapped__  # type: ignore[attr-defined]  # without its cache
    pools = [Pool((("book", "books"), ("hat", "hats")), (3, 2)), Pool((("straße", "straßen"), ("hat", "hats")), (3, 2))]

    def everything() -> list[object]:
        heard = [read(text) for text in texts]
        prices = [bargain.hear.__wrapped__(text) for text in texts]  # type: ignore[attr-defined]
        return [heard, [divide.claimed(pool, said.open) for pool in pools for said in heard], prices]

    quick = everything()
    asked: list[bool] = []
    for reader in (phrases, divide, bargain):
        monkeypatch.setattr(reader, "may_hold", lambda text, hints: asked.append(True) or True)
    monkeypatch.setattr(bargain, "_BEGINS", re.compile(""))
    assert everything() == quick
    assert asked
    said, claims, prices = quick
    assert len({each.terms for each in prices}) > 2  # type: ignore[attr-defined]
    assert {each.agrees for each in said} == {each.no for each in said} == {True, False}  # type: ignore[attr-defined]
    assert len(set(claims)) > 5  # type: ignore[call-overload]


def test_clauses_break_and_begin_as_the_plain_patterns_say() -> None:
    breaks = re.compile(r"(?<=[.!?;])\s+|\n+|,? but | however,? |; |, so ", re.IGNORECASE)
    yes = re.compile(r"^\W*(?:yes|yeah|yep|sure)\b", re.IGNORECASE)
    no = re.compile(r"^\W*(?:no|nope|nah|sorry)\b(?! (?:problem|worries|doubt))", re.IGNORECASE)
    pieces = [
        *(".", "!", "?", ",", ";", "a", "but", "But", "however", "\u017fo", "yes", "YES", "ye\u017f", "no", "sorry"),
        *[" ", "  ", "\n", "\t", "\x0b", "\x85", "; ", ", but ", " but ", " however, ", ", so ", " problem"],
    ]
    rng = np.random.default_rng(0)
    found = set()
    for _ in range(20_000):
        text = "".join(rng.choice(pieces, rng.integers(0, 10)))
        parts = breaks.split(text)
        assert phrases._BREAK.split(text) == parts, repr(text)
        said = phrases.read_new(text)
        assert said.yes == (said.agrees or any(yes.match(part) for part in parts if part)), repr(text)
        assert said.no == (bool(said.denied) or any(no.match(part) for part in parts if part)), repr(text)
        found.add((len(parts) > 1, said.yes, said.no))
    assert len(found) == 7  # one clause does not say both


def test_shares_and_points_by_hand_and_against_one_by_one() -> None:
    pool = Pool((("book", "books"), ("hat", "hats")), (2, 1))
    # Shares (0,0) (0,1) (1,0) (1,1) (2,0) (2,1) at 3 points a book and 4 a hat.
    assert pool.points((3, 4)) == [0, 4, 3, 7, 6, 10]
    for side in DIVISION.sides:
        levels, divisions = side._ranked
        one_by_one = sorted(
            (side.worth(terms), side.own(terms), terms, POOL.rest(side.own(terms))) for terms in POOL.shares()
        )
        assert levels == [worth for worth, *_ in one_by_one]
        assert divisions == [(terms, rest) for _, _, terms, rest in one_by_one]


def test_caches_of_utterances_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_HELD", 100_000)
    caches = [UtteranceCache[int]() for _ in range(3)]
    for number in range(1_000):
        text = f"{number:1000}"
        caches[number % 3].keep(text, number)
        assert sum(len(key) for cache in caches for key in cache.known) <= 100_000
        assert caches[number % 3].get(text) == number
    assert pickle.loads(pickle.dumps(caches[0])).known == {}


def test_what_is_remembered_of_long_dialogues_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_HELD", 200_000)
    env = SotopiaEnv(families="bargain", partner="fair")
    for seed in range(3):
        env.reset(seed=seed)
        for number in range(8):
            *_, terminated, truncated, _ = env.step(write(say(f"${number + 50}. " + "x" * (LONGEST - 10))))
            assert module._held <= 200_000
            if terminated or truncated:
                break


def test_a_tree_reads_every_turn_once_and_begins_anew_when_the_budget_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_HELD", 20_000)
    monkeypatch.setattr(module, "_held", 0)
    read: list[int] = []

    def step(spoken: int, turn: Turn) -> int:
        read.append(turn.number)
        return spoken + (turn.acts[0] != NONE)

    tree = TurnTree(0, step)
    turns = [Turn(i, first(say(f"{i}"))) for i in range(8)]
    assert [tree.after(turns[:count]) for count in range(9)] == list(range(9))
    assert read == list(range(8))
    assert (tree.after([Turn(0, first(say("x" * 2_000)))]), tree.after(turns)) == (1, 8)
    assert read == [*range(8), 0, *range(8)]


def test_dialogues_that_are_asked_about_in_turns_and_backwards_are_followed_as_one_by_one() -> None:
    tree = TurnTree[str]("", lambda before, turn: before + turn.acts[0].text)
    one, other = ([Turn(i, first(say(letter))) for i, letter in enumerate(word)] for word in ("abcdef", "abxyz"))
    for turns in (one[:2], one[:4], other[:4], one, other, one[:3], other[:2], one[:5], (), other):
        assert tree.after(turns) == "".join(turn.acts[0].text for turn in turns)


@cases(
    "kind, arguments, message",
    (Bargain, (0.0, (1.0, 2.0), (BUYER, SELLER)), "positive prices, a buyer and a seller"),
    (Bargain, (9.0, (1.0, 2.0), (BUYER, BUYER)), "positive prices, a buyer and a seller"),
    (Divide, (POOL, ((1, 1), (1, 1, 1))), "a value of at least 0 for each kind and role"),
    (Divide, (POOL, ((0, 0, 0), (1, 1, 1))), "a value of at least 0 for each kind and role"),
    (Pool, ((("book", "books"),), (0,)), "at least one of each"),
    (MutualFriend, (ATTRIBUTES, ((KIM,), ())), "one and the same friend"),
    (MutualFriend, (ATTRIBUTES, (FRIENDS.friends[0], FRIENDS.friends[0])), "one and the same friend"),
    (Calendar, ((("Monday", "noon"), ("Monday", "noon")),), "slots that differ"),
    (Schedule, (FREE, ((0, 8, 11), (9, 1, 2))), r"a cost in 0\.\.10 for each slot and role"),
)
def test_says_what_is_wrong_with_a_game(kind: Any, arguments: Any, message: str) -> None:
    refuses(ValueError, message, kind, *arguments)


def judged(game: Game | None, *spoken: str | Act, more: tuple[Turn, ...] = ()) -> tuple[Rating, Rating]:
    dialogue = Dialogue(replace(make_task(), game=game), [*turns_of(*spoken), *more], "left")
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
    for words, insults in (
        ("an asshole, an ass, a bass", 2), ("Fuck it, fucking hell, SHUT UP", 3),
        ("go to hell, idiots! You idiot", 2), ("a class of liars; a foolish loser", 1),
    ):  # fmt: skip
        assert judged(SALE, f"{words}.", "Oh.", LEAVE)[0].social_rules == -3 * insults
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
    found = [judge._given_away(secret, each) for secret in secrets for each in said]
    monkeypatch.setattr(judge, "_marks", lambda secret: [""])
    assert found == [judge._given_away(secret, each) for secret in secrets for each in said]
    assert set(found) == {0, -5, -10}


def test_reasons_and_what_cannot_be_computed() -> None:
    (failure,) = RulesJudge().score([Dialogue(make_task(), turns_of("Hello."), "turns")])
    assert "name a model as judge" in failure.reason
    assert RulesJudge().score([]) == []
    (verdict,) = RulesJudge().score(
        [Dialogue(replace(make_task(), game=SALE), turns_of("I pay $85.", "Deal."), "turns")]
    )
    assert verdict.reasons[0]["goal"] == "agreed: $85"
