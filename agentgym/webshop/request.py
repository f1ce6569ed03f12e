"""What a shopper can read out of a request: words to search for, wished options, the price limit."""

from __future__ import annotations

import re
from collections.abc import Iterable

_LIMIT = re.compile(r"price (?:lower|less) than \$?(\d+(?:\.\d+)?)")
#: "with size: small, and color: red" is how a request names options.
_WISH = re.compile(r"(?: with|, and) ([^:,]{1,40}): ")
_PRICE = re.compile(r",? and price (?:lower|less) than .*")
_WORD = re.compile(r"[^\W_]+(?:['.-][^\W_]+)*")
#: Words that say that something is wanted, not what.
_ASKING = (
    "a about also am an and any are around at buy can choose could do find for from get give have has help hello hi i "
    "id if in interested is it like looking me my need of on one or order our out pick please purchase search shop "
    "shopping show sister some something that the there to try us want wants we where which will with would you your "
    "price lower less than dollars under i'm i'd i've it's"
)
_EMPTY = frozenset(_ASKING.split())
#: Values are looked for in so many characters of a request.
_LONGEST = 2_000


def price_limit(request: str) -> float:
    """Return the price that must not be exceeded, inf without one.

    >>> price_limit("a red hat, and price lower than 30.00 dollars"), price_limit("a hat")
    (30.0, inf)
    """
    found = _LIMIT.search(request)
    return float(found[1]) if found else float("inf")


def wished_options(request: str) -> dict[str, str]:
    """Return the options that the request names: group -> value, in lower case and in order.

    >>> wished_options("show me hats with brim with color: dark red, and size: 7, and price lower than 30.00 dollars")
    {'color': 'dark red', 'size': '7'}
    """
    options = _parts(request)[1]
    marks = list(_WISH.finditer(options))
    bounds = [mark.start() for mark in marks] + [len(options)]
    return {mark[1]: options[mark.end() : end] for mark, end in zip(marks, bounds[1:], strict=True)}


def mentioned(request: str, values: Iterable[str]) -> list[str]:
    """Return the values that stand in a request as whole words, longest first; none that is a part of another.

    >>> mentioned("i need an x-small hat in dark red", ["red", "dark red", "small", "x-small", "green"])
    ['dark red', 'x-small']
    """
    text, found = f" {request[:_LONGEST].lower()} ", []
    for value in sorted(set(values), key=lambda value: (-len(value), value)):
        shorter = re.sub(rf"(?<![\w-]){re.escape(value.lower())}(?![\w-])", " ", text) if value.strip() else text
        if shorter != text:
            found.append(value)
            text = shorter
    return found


def keywords(request: str) -> list[str]:
    """Return the words that say what is wanted, without options and price.

    >>> keywords("Show me water resistant hats with wide brim with color: red, and price lower than 30.00 dollars")
    ['water', 'resistant', 'hats', 'wide', 'brim']
    """
    return [word for word in words(_parts(request)[0]) if word not in _EMPTY]


def words(text: str) -> list[str]:
    """Return the words of a text in lower case; hyphens, points and apostrophes inside belong to them.

    >>> words("X-Large, 6.5 (Women's)")
    ['x-large', '6.5', "women's"]
    """
    return _WORD.findall(text.lower())


def _parts(request: str) -> tuple[str, str]:
    """Return the request without its price limit, in lower case: what is wanted, and the list of options."""
    text = _PRICE.sub("", request.lower())
    wish = _WISH.search(text)
    if wish is None:
        return text, ""
    first = text.rindex(" with ", 0, wish.end()) if wish[0].startswith(" with") else wish.start()
    return text[:first], text[first:]
