"""Every parser of foreign text takes time in proportion to its length, whatever the text."""

from __future__ import annotations

import contextlib
import gc
import json
import time
from collections.abc import Callable

import pytest

from agentgym.sotopia.acts import Turn, parse, told, write
from agentgym.sotopia.dialogue import Dialogue
from agentgym.sotopia.games.bargain import Bargain
from agentgym.sotopia.games.divide import Divide, Pool
from agentgym.sotopia.games.friend import Friend, MutualFriend
from agentgym.sotopia.games.phrases import read
from agentgym.sotopia.games.schedule import Calendar, Schedule
from agentgym.sotopia.judges.model import read_verdict
from agentgym.sotopia.judges.rules import RulesJudge
from agentgym.sotopia.models import quote
from agentgym.sotopia.official.games import read_game
from agentgym.sotopia.players.model import read_act
from agentgym.sotopia.profiles import Relationship, Scenario, Task
from agentgym.sotopia.text import render
from tests.agentgym.sotopia.made_up import ADA, BEN, first, say

#: The text of a family is begin + unit * as often as it takes + end.
FAMILIES: dict[str, tuple[str, str, str]] = {
    "spaces": ("", " ", "x"),
    "line breaks": ("yes", "\n", "x"),
    "fence and spaces": ("```json", " ", "x"),
    "fence and line breaks": ("```\n", "\n ", "x"),
    "fences": ("", "```json\n", ""),
    "digits": ("for ", "1", " dollar"),
    "groups of digits": ("$1", ",111", "x"),
    "decimals": ("pay 1.", "0", ".5"),
    "dollars": ("", "$1 ", ""),
    "amounts": ("", "not for 70, ", ""),
    "no": ("", "no. ", ""),
    "denials": ("", "I cannot; ", "deal"),
    "agreements": ("", "works aa bb ", "deal?"),
    "claims": ("I ", "can ", "take all"),
    "shares": ("", "you get 2 books, for me ", ""),
    "many books": ("I take ", "9", " books"),
    "all books": ("I take all", " ", "of the"),
    "names": ("", "Kim's ", ""),
    "quotes": ("", "'", "s"),
    "tags": ("", "<", ">"),
    "tag and spaces": ("<p", " ", "x"),
    "slash and spaces": ("<", " ", "/ "),
    "viewers": ("", '<p viewer="a">', ""),
    "brackets": ("", "[", "]"),
    "braces": ("", "{", "}"),
    "objects": ("", "{}", ""),
    "nested objects": ("", '{"a":', ""),
    "backslashes": ('{"a": "', "\\", '"'),
    "thoughts": ("", "</think>", ""),
    "attributes": ("Kim: a: ", "  b", ": "),
    "points": ("", "the book is ", "1 point"),
    "counts": ("", "1 book ", ""),
    "words": ("we ", "a", " give you"),
}  # fmt: skip

SALE = Bargain(100.0, (80.0, 90.0), ("buyer", "seller"))
SHARES = Divide(Pool((("book", "books"), ("hat", "hats")), (3, 2)), ((1, 2), (2, 1)))
FRIENDS = MutualFriend(
    (("town", ("Old York", "Ham")), ("job", ("tailor", "cook"))),
    ((Friend("Kim", ("Ham", "cook")), Friend("Lee", ("Ham", "tailor"))), (Friend("Kim", ("Ham", "cook")),)),
)
MEETING = Schedule(Calendar((("Monday", "noon"), ("Friday", "evening"))), ((0, 5), (5, 0)))


def _scenario(source: str, text: str) -> Scenario:
    return Scenario("s", "s", source, text, (f"Sell. {text}", f"Buy as a buyer. {text}"), Relationship.stranger)


def _judged(text: str) -> None:
    task = Task("t", _scenario("ours", "x"), (ADA, BEN), SALE, 0)
    RulesJudge().score([Dialogue(task, [Turn(0, first(say(text))), Turn(1, first(say(text)))], "left")])


PARSERS: dict[str, Callable[[str], object]] = {
    "act": parse,
    "act in JSON": lambda text: parse(write(say(text))),
    "act in a fence": lambda text: parse(f"```json\n{write(say(text))}\n```"),
    "answer": lambda text: read_act(text, ("speak",)),
    "verdict": read_verdict,
    "verdict with reasons": lambda text: read_verdict(json.dumps({"evaluations": {"agent_1": {"goal": [text, 1]}}})),
    "line": lambda text: told("Ada", say(text)),
    "quote": quote,
    "phrases": read,
    "bargain": lambda text: SALE.hear(0, text),
    "divide": lambda text: SHARES.hear(1, text),
    "friend": lambda text: FRIENDS.hear(0, text),
    "schedule": lambda text: MEETING.hear(0, text),
    "judge": _judged,
    "markup": lambda text: render(text, "agent_0"),
    "official sale": lambda text: read_game(_scenario("craigslist_bargains", text)),
    "official division": lambda text: read_game(_scenario("deal-or-no-deal", text)),
    "official friends": lambda text: read_game(_scenario("mutual_friends", text)),
}  # fmt: skip
#: Characters of the shorter text; the longer one has eight times as many.
SHORT = 3_000


def seconds(parser: Callable[[str], object], text: str) -> float:
    """Processor time of the best of three calls; a ValueError is an answer, anything else is not."""
    best = float("inf")
    for i in range(3):
        given = f"{text}{i}"  # no cache knows it
        start = time.process_time()
        with contextlib.suppress(ValueError):
            parser(given)
        best = min(best, time.process_time() - start)
    return best


@pytest.mark.parametrize("name", PARSERS)
def test_parsing_is_linear(name: str) -> None:
    gc.collect()
    slow = {}
    for family, (begin, unit, end) in FAMILIES.items():
        short, long = (begin + unit * (length // len(unit)) + end for length in (SHORT, 8 * SHORT))
        times = seconds(PARSERS[name], short), seconds(PARSERS[name], long)
        if times[1] > max(20 * times[0], 0.003):  # below that a clock says little
            slow[family] = times
    assert slow == {}
