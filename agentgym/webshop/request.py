"""What a shopper can read out of a request: words to search for, wished options, the price limit."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_LIMIT = re.compile(r"price (?:lower|less) than \$?(\d+(?:\.\d+)?)")
#: "with size: small, and color: red" is how a request names options.
_WISH = re.compile(r"(?:\bwith|, and) ([\w ]+): ")
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


def price_limit(request: str) -> float:
    """Return the price that must not be exceeded, inf without one.

    >>> price_limit("a red hat, and price lower than 30.00 dollars"), price_limit("a hat")
    (30.0, inf)
    """
    found = _LIMIT.search(request)
    return float(found[1]) if found else float("inf")


def wished_groups(request: str) -> list[str]:
    """Return the option groups that the request names, in order.

    >>> wished_groups("show me hats with brim with color: red, and size: 7, and price lower than 30.00 dollars")
    ['color', 'size']
    """
    return [name.rpartition(" with ")[2] for name in _WISH.findall(request)]


def wished_words(request: str) -> list[str]:
    """Return the words of the values that the request names, without their groups.

    >>> wished_words("show me hats with brim with color: dark red, and size: 7, and price lower than 30.00 dollars")
    ['dark', 'red', '7']
    """
    return _WORD.findall(_WISH.sub(" ", _parts(request)[1]))


def wished_values(request: str, groups: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the value of each option group that the request asks for: by "group: value", else by the value alone.

    Args:
        request: in words.
        groups: the option groups of a product with their values.

    >>> groups = {"color": ["red", "dark red"], "size": ["small", "x-small"]}
    >>> wished_values("hats with color: dark red, and size: small", groups)
    {'color': 'dark red', 'size': 'small'}
    >>> wished_values("i need an x-small hat in red", groups)
    {'color': 'red', 'size': 'x-small'}
    """
    text = f" {request.lower()} "
    chosen = {}
    for name, values in groups.items():
        longest = sorted(values, key=len, reverse=True)
        named = [value for value in longest if re.search(rf"\b{re.escape(name)}: {re.escape(value)}(?!\w)", text)]
        loose = [value for value in longest if re.search(rf"(?<![\w-]){re.escape(value)}(?![\w-])", text)]
        if named or (loose and f"{name}: " not in text):
            chosen[name] = (named or loose)[0]
    return chosen


def keywords(request: str) -> list[str]:
    """Return the words that say what is wanted, without options and price.

    >>> keywords("Show me water resistant hats with wide brim with color: red, and price lower than 30.00 dollars")
    ['water', 'resistant', 'hats', 'wide', 'brim']
    """
    return [word for word in _WORD.findall(_parts(request)[0]) if word not in _EMPTY]


def _parts(request: str) -> tuple[str, str]:
    """Return the request without its price limit, in lower case: what is wanted, and the list of options."""
    text = _PRICE.sub("", request.lower())
    wish = _WISH.search(text)
    if wish is None:
        return text, ""
    first = wish.end() - len(wish[1].rpartition(" with ")[2]) - len(" with : ")
    return text[:first], text[first:]
