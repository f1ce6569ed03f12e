"""Which words of a title are nouns: one number of WebShop's reward compares the nouns of two titles.

The original asks spaCy. Its code loads `en_core_web_sm`, its setup script downloads `en_core_web_lg`, and its forks use
either, so scores with spaCy differ between them; whether a purchase scores 1.0 hardly does.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from agentgym.checks import suggest
from agentgym.outside.text import DataError, read_file, read_json

#: Returns the nouns of a title, lower-cased, in order, repeats included.
Tagger = Callable[[str], Sequence[str]]

_PIECES = re.compile(r"[A-Za-z]+(?:'[a-z]+)?|\d+(?:\.\d+)?|\S")
_NOT_NOUNS = (
    "a all an and any are as at be but by each for from her his in is it its my no not of on or our that the their "
    "these this those to with your"
)
_FUNCTION_WORDS = frozenset(_NOT_NOUNS.split())
_MODEL = "en_core_web_sm"


def words(title: str) -> tuple[str, ...]:
    """Return all words of a title but function words: the tagger "words", which needs nothing.

    Example:
        >>> words("Men's Shoes for the Gym, 2 Pairs")
        ("men's", 'shoes', 'gym', 'pairs')
    """
    pieces = [piece.lower() for piece in _PIECES.findall(title) if piece[0].isalpha()]
    return tuple([piece for piece in pieces if piece not in _FUNCTION_WORDS])


def make_tagger(name: str | os.PathLike[str] | Tagger) -> Tagger:
    """Return a tagger that remembers recent titles.

    Args:
        name: "words"; "spacy" or "spacy:<model>" (needs the extra `nouns` and the model, `en_core_web_sm` by default);
            "table:<file>" or a path: a JSON file with an object, title -> list of nouns, where titles that it lacks
            are tagged by "words" with one warning; or a function from a title to its nouns.

    Raises:
        ValueError: for an unknown name, a missing or malformed file, or a model that is not installed.
        ImportError: when spaCy is not installed.
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
        raise DataError(f"noun_tagger: {path} must hold one JSON object, title -> list of its nouns")
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
    try:
        import spacy
    except ImportError as error:
        raise ImportError(
            "noun_tagger 'spacy' needs spaCy: pip install 'stepcredit[nouns]', then "
            f"python -m spacy download {model}; or use noun_tagger='words', which needs nothing"
        ) from error
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
