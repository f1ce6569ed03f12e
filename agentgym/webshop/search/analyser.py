"""Index terms of a text as by Anserini's English analyser.

**Tokens** equal those of Lucene's StandardTokenizer. Every character has a class, and tokens are patterns of classes:
the word-break properties of Unicode's annex 29 (with the emoji sequences of technical standard 51), with separate
classes for emoji, Han, Hiragana and South-East Asian scripts. `analyser.toml` lists the
code points whose property is not Python's general category.

**Terms** are tokens without a final 's, in lower case, without 33 stop words, stemmed as in Lucene: M. F. Porter, "An
algorithm for suffix stripping", Program 14(3), 1980, with two later rules of its author (-bli becomes -ble and -logi
becomes -log). Words of one or two characters are unchanged; any character but a, e, i, o, u, y is a consonant.
"""

import re
import unicodedata
from bisect import bisect_right

from agentgym.outside.text import tables_beside

#: Longer tokens are cut into pieces of this many UTF-16 units.
LONGEST = 255
#: A text is searched in windows, for linear time; inside a text, tokens start so far from the end of their window.
_WINDOW, _MARGIN = 4096, 1024

LETTER, HEBREW, DIGIT, KATAKANA, HAN, HIRAGANA, ASIAN, ASIAN_MARK = "A", "H", "0", "K", "J", "I", "S", "y"
COLON, DOT, COMMA, QUOTE, DOUBLE_QUOTE, UNDERSCORE = ":", ".", ",", "'", '"', "_"
EXTEND, EMOJI_SELECTOR, TEXT_SELECTOR, JOINER, KEY_CAP, MODIFIER = "x", "v", "t", "z", "c", "m"
EMOJI, EMOJI_LETTER, KEY_BASE, FLAG, OTHER = "e", "E", "#", "r", " "

_TABLES = tables_beside(__file__, "analyser.toml")
_BY_CATEGORY = {
    **dict.fromkeys(("Lu", "Ll", "Lt", "Lm", "Lo", "Nl"), LETTER),
    **dict.fromkeys(("Mn", "Mc", "Me", "Cf"), EXTEND),
    "Nd": DIGIT,
    "Pc": UNDERSCORE,
}


def _ranges(text: str) -> list[tuple[int, int]]:
    pairs = (part.partition("-") for part in text.split())
    return [(int(first, 16), int(last or first, 16)) for first, _, last in pairs]


_TABLE: list[tuple[int, int, str]] = sorted(
    (*bounds, kind) for kind, text in _TABLES["listed"].items() for bounds in _ranges(text)
)
_STARTS = [first for first, _, _ in _TABLE]
_ASIAN = sorted(_ranges(_TABLES["south_east_asian"]))
_ASIAN_STARTS = [first for first, _ in _ASIAN]


def class_of(code: int) -> str:
    """Return the class letter of a code point."""
    row = bisect_right(_STARTS, code) - 1
    if row >= 0 and code <= _TABLE[row][1]:
        return _TABLE[row][2]
    category = unicodedata.category(chr(code))
    row = bisect_right(_ASIAN_STARTS, code) - 1
    if row >= 0 and code <= _ASIAN[row][1] and category not in ("Nd", "Cn"):
        return ASIAN_MARK if category[0] == "M" else ASIAN
    return _BY_CATEGORY.get(category, OTHER)


class Classes(dict[int, str]):
    """A table for `str.translate` from characters to class letters."""

    def __missing__(self, code: int) -> str:
        self[code] = kind = class_of(code)
        return kind


def _words(letter: str, digit: str, colon: str, comma: str, ext: str, plain: str, katakana: str, hebrew: str) -> str:
    low = f"(?:_{ext})"
    letters = f"{letter}{ext}(?:{colon}{ext}{plain}{ext}|{low}*{letter}{ext})*"
    digits = f"{digit}{ext}(?:(?:{comma}{ext}|{low}+)?{digit}{ext})*"
    run = f"(?:{hebrew}{digits}|{letters})+"
    if katakana:
        run = f"(?:{katakana}{ext}(?:{low}*{katakana}{ext})*|{run})"
    return f"{low}{{0,{LONGEST - 1}}}+{run}(?:{low}+{run})*{low}*"


_EXT = "[xvtzcmy]*"
_SIGN = "[xzcmy]*"  # what may follow an emoji's character: all of the above but the two selectors
#: A Hebrew letter keeps a quote that follows it (a double one only before another Hebrew letter), except after a colon.
_QUOTED = f"{_EXT}(?:\"{_EXT}H|'(?!{_EXT}[AEH])){_EXT}"
_HEBREW = f"H{_QUOTED}|"
_LETTER = f"(?:[AE]|H(?!{_QUOTED}))"
_EMOJI = f"z{{0,{LONGEST - 1}}}+[eEm]{_SIGN}v?(?:(?:(?<=z)|z+)[eEm]{_SIGN}v?)*"
_CLASSES = Classes()
_ASCII = re.compile(_words("[A-Za-z]", "[0-9]", "[:.']", "[,;.']", "", "[A-Za-z]", "", ""))
_ANY = re.compile(
    f"{_words(_LETTER, '0', '[:.' + chr(39) + ']', '[,.' + chr(39) + ']', _EXT, '[AEH]', 'K', _HEBREW)}"
    f"|{_EMOJI}|[0#]{_SIGN}v?c{_SIGN}|r{_EXT}r{_EXT}|(?:[Sy]{_EXT})+|[JI]{_EXT}"
)


def tokens(text: str) -> list[str]:
    """Return the tokens of a text, in order and unchanged."""
    pattern, classes = (_ASCII, text) if text.isascii() else (_ANY, text.translate(_CLASSES))
    if len(text) <= LONGEST // 2:
        return [text[match.start() : match.end()] for match in pattern.finditer(classes)]
    found, at = [], 0
    while at < len(text):
        match = pattern.search(classes, at, at + _WINDOW)
        near = at + _WINDOW - _MARGIN
        if at + _WINDOW < len(text) and (match is None or match.start() > near):
            at = near
            continue
        if match is None:
            break
        start, at = match.span()
        if at - start > LONGEST // 2:
            end = _within(text, start, LONGEST)
            if at > end:
                shorter = pattern.match(classes, start, end)
                if shorter is None:  # low lines whose word is too far away
                    at = start + 1
                    continue
                at = shorter.end()
        found.append(text[start:at])
    return found


def _within(text: str, start: int, units: int) -> int:
    end = start
    while end < len(text) and (units := units - (2 if text[end] > "\uffff" else 1)) >= 0:
        end += 1
    return end


STOP_WORDS = frozenset(_TABLES["stop_words"].split())
_APOSTROPHES = "'\u2019\uff07"


def terms(text: str) -> list[str]:
    """Return the terms of a text in order, with repeats.

    >>> terms("The Women's running shoes, size 7.5")
    ['women', 'run', 'shoe', 'size', '7.5']
    """
    found = []
    for token in tokens(text):
        if len(token) > 1 and token[-1] in "sS" and token[-2] in _APOSTROPHES:
            token = token[:-2]
        # as Lucene does, letter by letter: "İ" has two characters in lower case
        token = token.lower() if token.isascii() else "".join([letter.lower()[0] for letter in token])
        if token not in STOP_WORDS:
            found.append(stem(token))
    return found


#: Longer suffixes first: only the longest that a word ends in counts.
_SECOND, _THIRD = (sorted(_TABLES[name].items(), key=lambda pair: -len(pair[0])) for name in ("second", "third"))
_FOURTH = sorted(_TABLES["fourth"].split(), key=len, reverse=True)


def _shape(word: str) -> str:
    shape = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and shape[-1:] == "c")
        shape += "v" if vowel else "c"
    return shape


def _measure(word: str) -> int:
    return _shape(word).count("vc")


def _ends_short(word: str) -> bool:
    return _shape(word)[-3:] == "cvc" and word[-1] not in "wxy"


def _replace(word: str, suffixes: list[tuple[str, str]]) -> str:
    for suffix, new in suffixes:
        if word.endswith(suffix):
            before = word[: -len(suffix)]
            return before + new if _measure(before) > 0 else word
    return word


def _inflection(word: str) -> str:
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
            elif word[-1:] == word[-2:-1] != "" and _shape(word)[-1] == "c":
                word = word if word[-1] in "lsz" else word[:-1]
            elif _measure(word) == 1 and _ends_short(word):
                word += "e"
    if word.endswith("y") and "v" in _shape(word[:-1]):
        word = word[:-1] + "i"
    return word


def _ending(word: str) -> str:
    for suffix in _FOURTH:
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
    """Return the Porter stem of a lower-case word."""
    if len(word) <= 2:
        return word
    return _ending(_replace(_replace(_inflection(word), _SECOND), _THIRD))
