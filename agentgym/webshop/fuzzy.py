"""Whether two phrases are nearly the same words: WebShop's test for attributes and options."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import lru_cache

_LATIN_1 = dict.fromkeys(range(128, 256))
_NOT_WORD = re.compile(r"\W")
#: Longer phrases (no attribute or option is) are alike only when the words of one contain those of the other.
_LONGEST = 2_000


@lru_cache(maxsize=1 << 16)
def alike(bought: str, wished: str) -> bool:
    """Say whether the token set ratio of two phrases is above 85.

    The ratio compares the sorted words that both have, these followed by the rest of the one, and these followed by
    the rest of the other; the best of the three pairs counts. As in thefuzz 0.19 on Python's difflib, which the
    original's reward runs on; characters 128 to 255 are dropped, others that are no letters, digits or low lines
    separate words.

    Example:
        >>> alike("easy to clean", "clean easy"), alike("x large", "xx large"), alike("machine wash", "hand wash")
        (True, True, False)
    """
    left, right = _words(bought), _words(wished)
    if not left or not right:
        return False
    common = left & right
    if common and common in (left, right):
        return True
    if len(bought) > _LONGEST or len(wished) > _LONGEST:
        return False
    both = " ".join(sorted(common))
    one, other = (f"{both} {' '.join(sorted(words - common))}".strip() for words in (left, right))
    return _close(both, one) or _close(both, other) or _close(one, other)


@lru_cache(maxsize=1 << 14)
def _words(phrase: str) -> frozenset[str]:
    return frozenset(_NOT_WORD.sub(" ", phrase.translate(_LATIN_1)).lower().split())


def _close(one: str, other: str) -> bool:
    """Say whether the ratio of two texts in per cent, rounded, is above 85; the quick bounds are never below it."""
    shorter, total = min(len(one), len(other)), len(one) + len(other)
    if round(200 * shorter / total) <= 85:
        return False
    matcher = SequenceMatcher(None, one, other)
    return round(100 * matcher.quick_ratio()) > 85 and round(100 * matcher.ratio()) > 85
