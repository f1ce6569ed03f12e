"""A text turned into index terms as Anserini's English analyser does it.

Tokens (`tokenizer`), a final 's off, lower case, 33 stop words out, Porter's stems as Lucene has them: M. F. Porter,
"An algorithm for suffix stripping", Program 14(3), 1980, with the two later rules of its author that Lucene keeps (-bli
becomes -ble and -logi becomes -log). Words of one or two characters stay as they are; any character but a, e, i, o, u,
y counts as a consonant.
"""

from __future__ import annotations

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


_SECOND = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble", "alli": "al",
    "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al",
    "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble", "logi": "log",
}  # fmt: skip
_THIRD = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_FOURTH = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti",
    "ous", "ive", "ize",
)  # fmt: skip


def _ordered(suffixes: tuple[str, ...]) -> tuple[str, ...]:
    """Put longer suffixes first: only the longest that a word ends in counts."""
    return tuple(sorted(suffixes, key=len, reverse=True))


_SECOND_ORDER, _THIRD_ORDER, _FOURTH_ORDER = _ordered(tuple(_SECOND)), _ordered(tuple(_THIRD)), _ordered(_FOURTH)


def _shape(word: str) -> str:
    """Write each character as c (consonant) or v (vowel); a y is a vowel after a consonant."""
    shape = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and shape[-1:] == "c")
        shape += "v" if vowel else "c"
    return shape


def _measure(word: str) -> int:
    """Count the changes from vowel to consonant: Porter's m."""
    return _shape(word).count("vc")


def _ends_short(word: str) -> bool:
    """Say whether a word ends consonant, vowel, consonant (but not w, x or y): Porter's *o."""
    return _shape(word)[-3:] == "cvc" and word[-1] not in "wxy"


def _ends_double(word: str) -> bool:
    """Say whether a word ends in the same consonant twice."""
    return len(word) > 1 and word[-1] == word[-2] and _shape(word)[-1] == "c"


def _replace(word: str, order: tuple[str, ...], new: dict[str, str]) -> str:
    """Replace the longest suffix of a step where what stands before it has a measure above 0."""
    for suffix in order:
        if word.endswith(suffix):
            before = word[: -len(suffix)]
            return before + new[suffix] if _measure(before) > 0 else word
    return word


def _inflection(word: str) -> str:
    """Take off plurals, -ed and -ing; turn a final y into i."""
    if word.endswith("s"):
        if word.endswith(("sses", "ies")):
            word = word[:-2]
        elif word[-2] != "s":
            word = word[:-1]
    if word.endswith("eed"):
        if _measure(word[:-3]) > 0:
            word = word[:-1]
    elif word.endswith(("ed", "ing")):
        before = word[:-2] if word.endswith("ed") else word[:-3]
        if "v" in _shape(before):
            word = before
            if word.endswith(("at", "bl", "iz")):
                word += "e"
            elif _ends_double(word):
                word = word if word[-1] in "lsz" else word[:-1]
            elif _measure(word) == 1 and _ends_short(word):
                word += "e"
    if word.endswith("y") and "v" in _shape(word[:-1]):
        word = word[:-1] + "i"
    return word


def _ending(word: str) -> str:
    """Take off what is left of a suffix (-al, -ment, -ion after s or t), a final e, and one l of a double."""
    for suffix in _FOURTH_ORDER:
        if word.endswith(suffix):
            before = word[: -len(suffix)]
            if _measure(before) > 1 and (suffix != "ion" or before[-1:] in ("s", "t")):
                word = before
            break
    if word.endswith("e"):
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _ends_short(word[:-1])):
            word = word[:-1]
    if word.endswith("ll") and _measure(word) > 1:
        word = word[:-1]
    return word


def stem(word: str) -> str:
    """Return the stem of a lower-case word.

    Example:
        >>> [stem(w) for w in "running shoes easily generalizations ponies sky as".split()]
        ['run', 'shoe', 'easili', 'gener', 'poni', 'sky', 'as']
    """
    if len(word) <= 2:
        return word
    return _ending(_replace(_replace(_inflection(word), _SECOND_ORDER, _SECOND), _THIRD_ORDER, _THIRD))
