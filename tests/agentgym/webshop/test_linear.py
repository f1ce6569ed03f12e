"""Text from outside is read in linear time: eight times the text takes less than twenty times the processor's time."""

import time
from collections.abc import Callable

import numpy as np
import pytest

from agentgym.webshop.catalogue.product import read_tag
from agentgym.webshop.nouns import words as nouns
from agentgym.webshop.player import WebShopPlayer, keywords, mentioned, price_limit, wished_options
from agentgym.webshop.reward import _words, alike
from agentgym.webshop.search.analyser import terms
from agentgym.webshop.search.bm25 import Bm25
from agentgym.webshop.search.bm25_build import build
from agentgym.webshop.search.search import documents
from agentgym.webshop.session import LONGEST_COMMAND, parse
from tests.agentgym.webshop.small_shop import product, shop_of, visit

SOCKS = product("B1", "Wool Socks", (("size", ("s", "m")),))
SHOP = shop_of(SOCKS, product("B2", "Hat"))
SEARCH = Bm25(build(documents(SHOP.catalogue)))
#: Texts of about n characters.
FAMILIES: dict[str, Callable[[int], str]] = {
    "a letter": lambda n: "x" * n,
    "a digit": lambda n: "7" * n,
    "low lines": lambda n: "_" * n,
    "letter and low lines": lambda n: "a" + "_" * n,
    "low lines between": lambda n: "a_" * (n // 2),
    "marks": lambda n: "e" + "\u0301" * n,
    "marks on low lines": lambda n: "_\u0301" * (n // 2),
    "dots": lambda n: "a." * (n // 2),
    "numbers with commas": lambda n: "1," * (n // 2),
    "points": lambda n: "$" + "1." * (n // 2),
    "dollars": lambda n: "$1" * (n // 2),
    "blanks": lambda n: " " * n,
    "words": lambda n: "wool socks " * (n // 11),
    "different words": lambda n: " ".join(f"w{i}" for i in range(n // 6)),
    "open brackets": lambda n: "[" * n,
    "brackets": lambda n: "[a]" * (n // 3),
    "quotes": lambda n: "\"א'" * (n // 3),
    "quotes after marks": lambda n: "א" + "\u0301" * (n - 2) + '"',
    "emoji": lambda n: "\U0001f44d\u200d" * (n // 2),
    "flags": lambda n: "\U0001f1eb" * n,
    "katakana": lambda n: "カ_" * (n // 2),
    "commas and colons": lambda n: ", and a: " * (n // 9),
    "with": lambda n: " with" * (n // 5),
    "price": lambda n: "price lower than 1" * (n // 18),
    "asking": lambda n: ", and price lower than " * (n // 23),
    "lines": lambda n: "[button] \n" * (n // 10),
    "separators": lambda n: " [SEP] b1" * (n // 9),
    "apostrophes": lambda n: "'s" * (n // 2),
}


def seconds(run: Callable[[str], object], text: str) -> float:
    best = float("inf")
    for _ in range(2):
        begin = time.process_time()
        run(text)
        best = min(best, time.process_time() - begin)
    return best


def tag(text: str) -> object:
    try:
        return read_tag(text)
    except ValueError:
        return None


def play(text: str) -> object:
    session = visit(SHOP)
    return [session.play(command) for command in (f"search[{text}]", f"click[{text}]", text)]


def shop(text: str) -> object:
    page = f"Instruction: [SEP] {text} [SEP] Back to Search [SEP] < Prev [SEP] {text}"
    player = WebShopPlayer()
    offered = [f"click[{piece}]" for piece in text.split(" ")]
    player.act(page, [*offered, "click[buy now]"])
    return player.act(page, [*offered, "click[next >]"])


def same(text: str) -> object:
    _words.cache_clear()
    alike.cache_clear()
    return alike(text, text[1:] + "b"), alike(text, f"{text[: len(text) // 2]}q{text[len(text) // 2 :]}")


PARSERS: dict[str, Callable[[str], object]] = {
    "parse": lambda text: (parse(text), parse(text, True), parse(f"search[{text}]"), parse(f"click[{text}]", True)),
    "play": play,
    "terms": terms,
    "search": lambda text: SEARCH.top(text, 50),
    "tag": tag,
    "alike": same,
    "nouns": nouns,
    "request": lambda text: (price_limit(text), wished_options(text), keywords(text)),
    "mentioned": lambda text: mentioned(text, text.split(" ")),
    "shopper": shop,
}
SMALL = 8_000


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("family", FAMILIES)
def test_time_grows_as_the_text_does(parser: str, family: str) -> None:
    run, make = PARSERS[parser], FAMILIES[family]
    run(make(100))
    long = seconds(run, make(8 * SMALL))
    # What takes no time at either length has no ratio.
    assert long < 0.02 or long < 20 * seconds(run, make(SMALL)), (parser, family, long)


@pytest.mark.parametrize("command", ["search[{}]", "click[{}]", "{}"])
def test_a_command_of_a_million_characters_changes_nothing(command: str) -> None:
    session = visit(SHOP)
    before = session.get_state()
    for make in FAMILIES.values():
        assert not session.play(command.format(make(1_000_000)))
    assert session.get_state() == before


def test_the_longest_command() -> None:
    session = visit(SHOP)
    words = "wool " * (LONGEST_COMMAND // 5)
    longest = f"search[{words[: LONGEST_COMMAND - 8]}]"
    assert len(longest) == LONGEST_COMMAND
    assert session.play(longest)
    assert session.page.clickables["b1"] == 0
    assert not session.play(f"{longest[:-1]}x]")
    assert len(session.url()) < 1_000_000


def test_numbers_of_many_digits_are_no_price() -> None:
    for text in ("$" + "9" * 400, "$" + "0." + "1" * 10**6, "$" + "1" * 5000):
        with pytest.raises(ValueError, match="expected amounts"):
            read_tag(text)
    assert np.isinf(price_limit("price lower than " + "9" * 400))
