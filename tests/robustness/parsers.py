"""Trials of time: eight times the text takes less than twenty times the processor's time, whatever the text."""

from __future__ import annotations

import contextlib
import gc
import json
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import gymnasium as gym
from hypothesis import strategies as st

from agentgym.alfworld.official.problem import read_game
from agentgym.alfworld.player import ALFWorldPlayer, read_task
from agentgym.chat.wire import read_answer
from agentgym.foreign_text import ForeignError, clean, one_line, read_json
from agentgym.redaction import redact
from agentgym.registry import ROWS
from agentgym.searchqa.player import SearchQAPlayer, names_in
from agentgym.searchqa.protocol import escape_tags
from agentgym.searchqa.protocol import parse as parse_search
from agentgym.searchqa.scoring import exact_match, extract_answer, f1, is_well_formed, normalise, sub_match
from agentgym.sokoban.text import parse_level
from agentgym.sotopia.acts import parse as parse_act
from agentgym.sotopia.games.phrases import read as read_phrases
from agentgym.sotopia.judges.model import read_verdict
from agentgym.sotopia.players.model import read_act
from agentgym.sotopia.text import render
from agentgym.webshop.nouns import words as nouns
from agentgym.webshop.player import WebShopPlayer, keywords, mentioned, price_limit, wished_options
from agentgym.webshop.search.analyser import terms
from agentgym.webshop.session import parse as parse_shop
from tests.agentgym.alfworld.game_files import PROBLEM, content
from tests.robustness.trial import FRAGMENTS, Trial
from wrappers.reply import parse_reply

#: Beginning, what is repeated, and end.
FAMILIES: dict[str, tuple[str, str, str]] = {
    "one letter": ("", "a", ""),
    "spaces": ("x", " ", "x"),
    "line breaks": ("", "\r\n", "x"),
    "digits": ("$", "1", "x"),
    "groups of digits": ("$1", ",111", "."),
    "open brackets": ("", "[", ""),
    "open and closed": ("", "()", ""),
    "open parentheses": ("", "(", ""),
    "braces": ("", '{"a":', ""),
    "tags that never close": ("", "<", ""),
    "tag and spaces": ("<", " ", ">"),
    "tags and spaces": ("", "< ", ""),
    "search tags": ("", "<search>", ""),
    "crossed tags": ("", "<think><answer></think>", "</answer>"),
    "fences": ("", "```json\n", ""),
    "fence and spaces": ("```json", " ", "x"),
    "quotation marks": ("", '"', ""),
    "backslashes": ('"', "\\", '"'),
    "surrogates": ("", "\ud800", ""),
    "control characters": ("", "\x1b[2J", ""),
    "accents": ("e", "\u0301", ""),
    "names": ("Is it ", "The King of ", ""),
    "sentences": ("", "no. I cannot; deal? ", ""),
    "wishes": ("", ", and price lower than 1", ""),
    "commands": ("", "put a mug in/on ", "drawer"),
    "lists": ("You see ", "a mug 1, ", "and a mug 2."),
    "facts": ("", "(inReceptacle Mug_bar_1 Sink_bar_3)", ""),
    "board": ("#", "@$.# ", "#"),
    "rows": ("", "#####\n", ""),
    "URLs": ("", "http://a:b@c/?key=1 ", ""),
}


def quietly(run: Callable[[str], object]) -> Callable[[str], object]:
    """Refusing a text is fine; it is the time that counts."""

    def parse(text: str) -> object:
        with contextlib.suppress(ValueError):
            return run(text)
        return None

    return parse


def search(text: str) -> None:
    for protocol in ("searchr1", "verl_agent"):
        parse_search(text, protocol)
    escape_tags(text)
    names_in(text)
    normalise(text)
    for score in (exact_match, f1, sub_match):
        score(f"{text}!", (text, "Ada"))
    extract_answer(text)
    is_well_formed(text)
    SearchQAPlayer().act(f"<information>{text}</information>", ())


def shop(text: str) -> None:
    parse_shop(text)
    parse_shop(f"search[{text}]", True)
    terms(text)
    nouns(text)
    price_limit(text), wished_options(text), keywords(text), mentioned(text, ["red", "wool socks"])
    WebShopPlayer().act(f"Instruction: [SEP] {text} [SEP] Search", ("search[x]", "click[buy now]"))


def social(text: str) -> None:
    parse_act(text)
    parse_act(json.dumps({"action_type": "speak", "argument": text}))
    read_phrases(text)
    render(text, "agent_0")
    for read in (read_verdict, lambda given: read_act(given, ("none", "speak", "leave"))):
        with contextlib.suppress(ValueError):
            read(text)


def household(text: str) -> None:
    with contextlib.suppress(ValueError):
        read_task(text)
    ALFWorldPlayer().act(f"You see {text}.\n\nYour task is to: put a mug in drawer.", ("look", "go to drawer 1"))
    for problem in (text, PROBLEM.replace("(pickupable", f"{text} (pickupable"), PROBLEM.replace("GOAL", text)):
        with contextlib.suppress(ValueError):
            read_game(content(pddl_problem=problem), "x/y")


def reply(text: str) -> None:
    parse_reply(text)
    parse_reply(f"<think>{text}</think><action>up</action>")
    parse_reply(text, command_tags=("search", "answer"))


def door(text: str) -> None:
    one_line(clean(text, len(text)))
    redact(text, ["sk-123456"])
    for given in (text, f'{{"a": "{text}"}}'):
        with contextlib.suppress(ForeignError):
            read_json(given)


@cache
def made(env_id: str) -> Any:
    return gym.make(env_id, disable_env_checker=True)


def step(env_id: str, text: str) -> None:
    env = made(env_id)
    env.reset(seed=0)
    env.step(text)
    env.reset(seed=0)
    env.step(f"search[{text}]" if "Shop" in env_id else f"<search>{text}</search>")


PARSERS: dict[str, Callable[[str], object]] = {
    "door": door,
    "reply": quietly(reply),
    "answer": quietly(lambda text: read_answer(text.encode("utf-8", "surrogatepass"))),
    "level": quietly(parse_level),
    "search": quietly(search),
    "shop": quietly(shop),
    "social": quietly(social),
    "household": quietly(household),
    **{f"step of {row.id[8:]}": lambda text, env_id=row.id: step(env_id, text) for row in ROWS},
}
SMALL = 6_000
#: What takes less than this at the greater length has no ratio worth the name.
NOTHING = 0.03


def seconds(run: Callable[[str], object], text: str, tries: int) -> float:
    """Processor time of the best try."""
    best = float("inf")
    gc.disable()  # what a whole process holds by now is no part of the measure
    try:
        for _ in range(tries):
            begin = time.process_time()
            run(text)
            best = min(best, time.process_time() - begin)
    finally:
        gc.enable()
    return best


def check(given: dict[str, Any]) -> None:
    run, (begin, unit, end) = PARSERS[given["parser"]], given["family"]

    def text(n: int) -> str:
        return begin + unit * (n // max(len(unit), 1)) + end

    run(text(100))
    long = seconds(run, text(8 * SMALL), 1)
    if long > NOTHING:
        short = seconds(run, text(SMALL), 3)
        long = min(long, seconds(run, text(8 * SMALL), 2))
        assert long < NOTHING or long < 20 * short, f"{short:.4f} s for {SMALL:,} characters, {long:.4f} s for 8 times"


def check_all(parser: str) -> None:
    """Try every family."""
    for family in FAMILIES.values():
        check({"parser": parser, "family": list(family)})


_fragments = st.sampled_from([fragment for fragment in FRAGMENTS if fragment])
TRIALS = [
    *(Trial(f"time/{parser}", st.just(parser), check_all, 1, cheap=False) for parser in PARSERS),
    Trial(
        "time/any",
        st.fixed_dictionaries(
            {
                "parser": st.sampled_from(list(PARSERS)),
                "family": st.tuples(
                    st.sampled_from(FRAGMENTS),
                    st.lists(_fragments, min_size=1, max_size=3).map("".join),
                    st.sampled_from(FRAGMENTS),
                ).map(list),
            }
        ),
        check,
        40,
        cheap=False,
    ),
]
