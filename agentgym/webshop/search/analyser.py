"""A text turned into index terms as Anserini's English analyser does it.

Tokens (`tokenizer`), a final 's off, lower case, 33 stop words out, Porter's stems (`porter`).
"""

from __future__ import annotations

from agentgym.webshop.search.porter import stem
from agentgym.webshop.search.tokenizer import tokens

_STOP_WORDS = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
    "to was will with"
)
STOP_WORDS = frozenset(_STOP_WORDS.split())
_APOSTROPHES = "'\u2019\uff07"


def terms(text: str) -> list[str]:
    """Return the terms of a text in order, repeats included.

    Example:
        >>> terms("The Women's running shoes, size 7.5")
        ['women', 'run', 'shoe', 'size', '7.5']
    """
    found = []
    for token in tokens(text):
        if len(token) > 1 and token[-1] in "sS" and token[-2] in _APOSTROPHES:
            token = token[:-2]
        token = token.lower() if token.isascii() else "".join(map(_lower, token))
        if token not in STOP_WORDS:
            found.append(stem(token))
    return found


def _lower(letter: str) -> str:
    """Lower one character by itself, as Java does: a Greek sigma has one form, the dotted capital I loses its dot."""
    return letter.lower()[0]
