"""WebShop's reward (Yao et al., "WebShop", NeurIPS 2022, as computed by its current program), with its parts.

score = r_type x (attributes found + options found + price kept) / (attributes + options wished + 1)

* `r_type` compares the kinds of products: 1.0; 0.5 if the queries differ, fewer than two levels of the department path
  agree, and at most 0.2 of the title's nouns do; whatever else agrees, 0.1 for below 0.1 of the nouns, 0.0 for none.
* An attribute is found if the product has one like it (`alike`), or if title, bullets or description contain it.
* An option is found if any chosen value is like it, in any group, with colours reduced to one word (`reduced`). The
  wish of a synthetic goal is compared together with its group's name: "small" is like size: x-small, and some goals
  cannot reach 1.0 (the repair "winnable" excludes them).
* The price is kept if it is not above the limit.

A tagger finds the nouns of titles. The original uses spaCy with `en_core_web_sm` (its code), `en_core_web_lg` (its
setup script), or either (forks): scores with spaCy differ between them, scores of 1.0 rarely do.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentgym.checks import suggest
from agentgym.outside.packages import install, needed
from agentgym.outside.text import DataError, read_file, read_json
from agentgym.webshop.catalogue import TEXTS, Catalogue, Product
from agentgym.webshop.goals import Goal

#: Maximum number of cached matches.
_MEMORY = 4096


class Purchase(NamedTuple):
    """The score of a purchase in 0..1, and its parts by name."""

    score: float
    parts: Mapping[str, Any]


class Match(NamedTuple):
    """The match of a product and a goal, without options.

    `r_type`: 0.0, 0.1, 0.5 or 1.0; `query`: equal queries; `category`: two common levels of the department paths;
    `title`: share of the goal title's nouns in the product's title; `attributes`: how many of the goal's are found.
    """

    r_type: float
    query: bool
    category: bool
    title: float
    attributes: int


class Grader:
    """Grades purchases in one catalogue with prices of shape (products,) (a range has one hidden price)."""

    def __init__(self, catalogue: Catalogue, prices: NDArray[np.float64], nouns: Tagger) -> None:
        self._prices = prices
        sold = lru_cache(_MEMORY)(lambda position: _sold(catalogue[position], nouns))
        self._match = lru_cache(_MEMORY)(lambda position, goal: _match(sold(position), goal, nouns))

    def __call__(self, position: int, options: Mapping[str, str], goal: Goal) -> Purchase:
        return grade(self._match(position, goal), float(self._prices[position]), tuple(options.values()), goal)


class _Sold(NamedTuple):
    query: str
    levels: frozenset[str]
    nouns: frozenset[str]
    attributes: tuple[str, ...]
    places: tuple[str, ...]


def _sold(product: Product, nouns: Tagger) -> _Sold:
    places = product.title.lower(), " ".join(product.bullets).lower(), product.description.lower()
    levels, there = _levels(product.product_category), frozenset(nouns(product.title))
    return _Sold(product.query, levels, there, product.attributes, places)


def compare(product: Product, goal: Goal, nouns: Tagger) -> Match:
    """Return the match of a product and a goal."""
    return _match(_sold(product, nouns), goal, nouns)


def _match(sold: _Sold, goal: Goal, nouns: Tagger) -> Match:
    same_query = sold.query == goal.query
    same_category = len(sold.levels & _levels(goal.product_category)) >= 2
    wanted = nouns(goal.name)
    title = len(sold.nouns.intersection(wanted)) / len(wanted) if wanted else 0.2
    r_type = 1.0 if same_query or same_category or title > 0.2 else 0.5
    if title < 0.1:
        r_type = 0.1 if title > 0 else 0.0
    found = sum([_is_there(wish, sold.attributes, sold.places) for wish in goal.attributes])
    return Match(r_type, same_query, same_category, title, found)


def _is_there(wish: str, attributes: tuple[str, ...], places: tuple[str, ...]) -> bool:
    for place in places:
        if wish in place:
            return True
    for attribute in attributes:  # noqa: SIM110  # called very often
        if alike(attribute, wish):
            return True
    return False


def grade(match: Match, price: float, chosen: tuple[str, ...], goal: Goal) -> Purchase:
    """Return the score and parts of a purchase.

    Parts, named as in the original: `r_type`, `query_match`, `category_match`, `title_score`; share found (`r_`) and
    weight (`w_`) of attributes (`r_att`), options (`r_option`; only if some are wished) and price (`r_price`).
    """
    attributes, options = len(goal.attributes), len(goal.options)
    kept = price <= goal.price_upper
    total = attributes + options + 1
    found = _options_found(chosen, goal.options) if options else 0
    parts: dict[str, Any] = {
        "r_type": match.r_type,
        "r_att": match.attributes / attributes if attributes else 1.0,
        "w_att": attributes / total,
        "query_match": match.query,
        "category_match": match.category,
        "title_score": match.title,
        "r_price": kept,
        "w_price": 1 / total,
    }
    if options:
        parts |= {"r_option": found / options, "w_option": options / total}
    return Purchase((match.attributes + found + kept) / total * match.r_type, parts)


def _options_found(chosen: tuple[str, ...], wished: tuple[tuple[str, str], ...] | tuple[str, ...]) -> int:
    if not chosen:
        return 0
    values, found = [reduced(value) for value in chosen], 0
    for wish in wished:
        wanted = reduced(wish)
        for value in values:
            if alike(value, wanted):
                found += 1
                break
    return found


@lru_cache(maxsize=1 << 12)
def _levels(path: str) -> frozenset[str]:
    return frozenset([level.strip() for level in path.split("\u203a")])


#: The colour words of the reward, in its search order.
COLOURS: tuple[str, ...] = tuple(TEXTS["colours"].split())


@lru_cache(maxsize=1 << 14)
def reduced(option: str | tuple[str, str]) -> str:
    """Return the first colour word inside an option, else the option as text.

    As in the original, a word counts anywhere in a value, but a (name, value) pair of a synthetic goal is only reduced
    if its name or value *is* a colour word; otherwise the reward compares Python's text of the pair.

    >>> reduced("dark blue"), reduced("standard"), reduced(("color", "red")), reduced(("color", "dark red"))
    ('blue', 'tan', 'red', "('color', 'dark red')")
    """
    if not isinstance(option, str):
        return min(_COLOURS.intersection(option), default=str(option))  # they are sorted
    for colour in COLOURS:
        if colour in option:
            return colour
    return option


_COLOURS = frozenset(COLOURS)
_LATIN_1 = dict.fromkeys(range(128, 256))
_NOT_WORD = re.compile(r"\W")
#: Longer phrases (no attribute or option is longer) are alike only if the words of one contain those of the other.
_LONGEST = 500


@lru_cache(maxsize=1 << 16)
def alike(bought: str, wished: str) -> bool:
    """Return whether the token set ratio of two phrases is above 85, as in thefuzz 0.19 on difflib (the original's).

    It compares the sorted common words, these with the rest of the one, and these with the rest of the other; the best
    pair counts. Characters 128 to 255 are dropped; others that are no letters, digits or underscores separate words.

    >>> alike("easy to clean", "clean easy"), alike("x large", "xx large"), alike("machine wash", "hand wash")
    (True, True, False)
    """
    (left, one, letters), (right, other, others) = _phrase(bought), _phrase(wished)
    if not left or not right:
        return False
    short = len(bought) <= _LONGEST and len(wished) <= _LONGEST
    if left.isdisjoint(right):  # the words in common are no text: one pair is left
        return short and _close(one, other, letters, others)
    common = left & right
    if common in (left, right):
        return True
    if not short:
        return False
    both = " ".join(sorted(common))
    one, other = (f"{both} {' '.join(sorted(words - common))}".strip() for words in (left, right))
    pairs = (both, one), (both, other), (one, other)
    return any(_close(some, more, frozenset(some), frozenset(more)) for some, more in pairs)


def _words(phrase: str) -> frozenset[str]:
    return frozenset(_NOT_WORD.sub(" ", phrase.translate(_LATIN_1)).lower().split())


@lru_cache(maxsize=1 << 14)
def _phrase(phrase: str) -> tuple[frozenset[str], str, frozenset[str]]:
    words = _words(phrase)
    text = " ".join(sorted(words))
    return words, text, frozenset(text)


def _close(one: str, other: str, letters: frozenset[str], others: frozenset[str]) -> bool:
    length, width = len(one), len(other)
    total = length + width
    if round(200 * min(length, width) / total) <= 85:
        return False
    most = min(length - len(letters - others), width - len(others - letters))
    if round(200 * most / total) <= 85:
        return False
    matcher = SequenceMatcher(None, one, other)
    return round(100 * matcher.quick_ratio()) > 85 and round(100 * matcher.ratio()) > 85


#: Returns the nouns of a title, lower-cased, in order, repeats included.
Tagger = Callable[[str], Sequence[str]]

_PIECES = re.compile(r"[A-Za-z]+(?:'[a-z]+)?|\d+(?:\.\d+)?|\S")
_FUNCTION_WORDS = frozenset(TEXTS["function_words"].split())
_MODEL = "en_core_web_sm"


def words(title: str) -> tuple[str, ...]:
    """Return the words of a title without function words: the tagger "words", which needs nothing."""
    pieces = [piece.lower() for piece in _PIECES.findall(title) if piece[0].isalpha()]
    return tuple([piece for piece in pieces if piece not in _FUNCTION_WORDS])


def make_tagger(name: str | os.PathLike[str] | Tagger) -> Tagger:
    """Return a tagger that caches recent titles; a ValueError for a bad name or file, an ImportError without spaCy.

    Args:
        name: "words"; "spacy" or "spacy:<model>" (needs the extra `nouns` and the model, `en_core_web_sm` by default);
            "table:<file>" or a path: JSON, title -> list of nouns (else "words", with a warning); or a function.
    """
    return lru_cache(maxsize=4096)(_make(name))


def _make(name: str | os.PathLike[str] | Tagger) -> Tagger:
    if isinstance(name, os.PathLike):
        return _table(Path(name))
    if callable(name):
        return name
    kind, _, argument = name.partition(":") if isinstance(name, str) else ("", "", "")
    if kind == "words" and not argument:
        return words
    if kind == "spacy":
        return _spacy(argument or _MODEL)
    if kind == "table" and argument:
        return _table(Path(argument))
    raise ValueError(
        f"unknown noun_tagger {name!r}: expected 'words', 'spacy', 'spacy:<model>', 'table:<file>' or a function from "
        f"a title to its nouns; {suggest(str(name), ['words', 'spacy', 'table:<file>'])}"
    )


def _table(path: Path) -> Tagger:
    try:
        content = read_json(read_file(path), unique=True)
    except (OSError, ValueError) as error:
        raise DataError(f"noun_tagger: cannot read the table {path} ({error})") from error
    if not isinstance(content, dict) or not all(
        isinstance(nouns, list) and all(isinstance(noun, str) for noun in nouns) for nouns in content.values()
    ):
        raise DataError(f"noun_tagger: {path} must be one JSON object, title -> list of its nouns")
    table: Mapping[str, Sequence[str]] = content
    warned: list[str] = []

    def look_up(title: str) -> Sequence[str]:
        if title in table:
            return table[title]
        if not warned:
            warned.append(title)
            warnings.warn(f"{path} lacks the title {title!r}: such titles are tagged by 'words'", stacklevel=2)
        return words(title)

    return look_up


def _spacy(model: str) -> Tagger:
    spacy = needed(
        "spacy",
        f"noun_tagger 'spacy' needs spaCy: {install('nouns')}, then python -m spacy download {model}; or use "
        "noun_tagger='words', which needs nothing",
    )
    try:
        pipeline = spacy.load(model)
    except OSError as error:
        raise ValueError(
            f"noun_tagger: spaCy has no model {model!r}: run python -m spacy download {model}, or use "
            "noun_tagger='words', which needs nothing"
        ) from error

    def tag(title: str) -> tuple[str, ...]:
        return tuple([token.text.lower() for token in pipeline(title) if token.pos_ in ("NOUN", "PROPN")])

    return tag
