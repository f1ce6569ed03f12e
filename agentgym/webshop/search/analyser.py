"""Index terms of a text as by Anserini's English analyser.

**Tokens** equal those of Lucene's StandardTokenizer. Every character has a class, and tokens are patterns of classes:
the word-break properties of Unicode's annex 29 (with the emoji sequences of technical standard 51), with separate
classes for emoji, Han, Hiragana and South-East Asian scripts. Code points whose property is not Python's general
category are listed here (Unicode 12.1; later characters follow their category).

**Terms** are tokens without a final 's, in lower case, without 33 stop words, stemmed as in Lucene: M. F. Porter, "An
algorithm for suffix stripping", Program 14(3), 1980, with two later rules of its author (-bli becomes -ble and -logi
becomes -log). Words of one or two characters are unchanged; any character but a, e, i, o, u, y is a consonant.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right

#: Longer tokens are cut into pieces of this many UTF-16 units.
LONGEST = 255
#: A text is searched in windows, for linear time; a token starts at least this far from the end of its window, unless
#: the text ends there.
_WINDOW, _MARGIN = 4096, 1024

LETTER, HEBREW, DIGIT, KATAKANA, HAN, HIRAGANA, ASIAN, ASIAN_MARK = "A", "H", "0", "K", "J", "I", "S", "y"
COLON, DOT, COMMA, QUOTE, DOUBLE_QUOTE, UNDERSCORE = ":", ".", ",", "'", '"', "_"
EXTEND, EMOJI_SELECTOR, TEXT_SELECTOR, JOINER, KEY_CAP, MODIFIER = "x", "v", "t", "z", "c", "m"
EMOJI, EMOJI_LETTER, KEY_BASE, FLAG, OTHER = "e", "E", "#", "r", " "

_LISTED: dict[str, str] = {
    DIGIT: "66b",
    COLON: "3a b7 387 5f4 2027 fe13 fe55 ff1a",
    DOT: "2e 2018 2019 2024 fe52 ff07 ff0e",
    COMMA: "2c 3b 37e 589 60c 60d 66c 7f8 2044 fe10 fe14 fe50 fe54 ff0c ff1b",
    QUOTE: "27",
    DOUBLE_QUOTE: "22",
    UNDERSCORE: "5f 202f 203f 2040 2054 fe33 fe34 fe4d-fe4f ff3f",
    JOINER: "200d",
    EMOJI_SELECTOR: "fe0f",
    TEXT_SELECTOR: "fe0e",
    KEY_CAP: "20e3",
    KEY_BASE: "23 2a",
    FLAG: "1f1e6-1f1ff",
    MODIFIER: "1f3fb-1f3ff",
    EXTEND: "200c ff9e ff9f e0020-e007f",
    EMOJI_LETTER: "2139 24c2 1f170-1f171 1f17e-1f17f",
    HEBREW: "5d0-5ea 5ef-5f2 fb1d fb1f-fb28 fb2a-fb36 fb38-fb3c fb3e fb40-fb41 fb43-fb44 fb46-fb4f",
    KATAKANA: "3031-3035 309b-309c 30a0-30fa 30fc-30ff 31f0-31ff 32d0-32fe 3300-3357 ff66-ff9d 1b000 1b164-1b167",
    HIRAGANA: "3041-3096 309d-309f 1b001-1b11e 1b150-1b152 1f200",
    HAN: "2e80-2e99 2e9b-2ef3 2f00-2fd5 3007 3021-3029 3038-303a 3400-4db5 4e00-9fef f900-fa6d fa70-fad9 "
    "20000-2a6d6 2a700-2b734 2b740-2b81d 2b820-2cea1 2ceb0-2ebe0 2f800-2fa1d",
    OTHER: "200b 3006",
    EMOJI: "a9 ae 203c 2049 2122 2194-2199 21a9-21aa 231a-231b 2328 2388 23cf 23e9-23f3 23f8-23fa 25aa-25ab 25b6 25c0 "
    "25fb-25fe 2600-2605 2607-2612 2614-2685 2690-2705 2708-2712 2714 2716 271d 2721 2728 2733-2734 2744 2747 274c "
    "274e 2753-2755 2757 2763-2767 2795-2797 27a1 27b0 27bf 2934-2935 2b05-2b07 2b1b-2b1c 2b50 2b55 3030 303d 3297 "
    "3299 1f000-1f0ff 1f10d-1f10f 1f12f 1f16c-1f16f 1f18e 1f191-1f19a 1f1ad-1f1e5 1f201-1f20f 1f21a 1f22f "
    "1f232-1f23a 1f23c-1f23f 1f249-1f3fa 1f400-1f53d 1f546-1f64f 1f680-1f6ff 1f774-1f77f 1f7d5-1f7ff 1f80c-1f80f "
    "1f848-1f84f 1f85a-1f85f 1f888-1f88f 1f8ae-1f8ff 1f90c-1f93a 1f93c-1f945 1f947-1fffd",
    LETTER: "2c2-2c5 2d2-2d7 2de-2df 2ed 2ef-2ff 55b-55c 55e 5f3 a720-a721 a789-a78a ab5b 24b6-24c1 "
    "24c3-24e9 1f130-1f149 1f150-1f169 1f172-1f17d 1f180-1f189",
}
#: Blocks whose letters and marks form one token (line-break class SA).
_SOUTH_EAST_ASIAN = (
    "e01-e3a e40-e4e e81-ecd edc-edf 1000-103f 1050-108f 109a-109f 1780-17d3 17d7 17dc-17dd 1950-1974 1980-19c9 "
    "19da 19de-19df 1a20-1a7c 1aa0-1aad a9e0-a9ef a9fa-a9fe aa60-aac2 aadb-aadf 11700-1172b 1173a-1173b 1173f"
)
_BY_CATEGORY = {
    **dict.fromkeys(("Lu", "Ll", "Lt", "Lm", "Lo", "Nl"), LETTER),
    **dict.fromkeys(("Mn", "Mc", "Me", "Cf"), EXTEND),
    "Nd": DIGIT,
    "Pc": UNDERSCORE,
}


def _ranges(text: str) -> list[tuple[int, int]]:
    pairs = (part.partition("-") for part in text.split())
    return [(int(first, 16), int(last or first, 16)) for first, _, last in pairs]


_TABLE = sorted((*bounds, kind) for kind, text in _LISTED.items() for bounds in _ranges(text))
_STARTS = [first for first, _, _ in _TABLE]
_ASIAN = sorted(_ranges(_SOUTH_EAST_ASIAN))
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


_STOP_WORDS = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
    "to was will with"
)
STOP_WORDS = frozenset(_STOP_WORDS.split())
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
        token = token.lower() if token.isascii() else "".join(map(_lower, token))
        if token not in STOP_WORDS:
            found.append(stem(token))
    return found


def _lower(letter: str) -> str:
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


#: Longer suffixes first: only the longest that a word ends in counts.
_SECOND_ORDER, _THIRD_ORDER, _FOURTH_ORDER = (
    tuple(sorted(suffixes, key=len, reverse=True)) for suffixes in (_SECOND, _THIRD, _FOURTH)
)


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


def _ends_double(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _shape(word)[-1] == "c"


def _replace(word: str, order: tuple[str, ...], new: dict[str, str]) -> str:
    for suffix in order:
        if word.endswith(suffix):
            before = word[: -len(suffix)]
            return before + new[suffix] if _measure(before) > 0 else word
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
            elif _ends_double(word):
                word = word if word[-1] in "lsz" else word[:-1]
            elif _measure(word) == 1 and _ends_short(word):
                word += "e"
    if word.endswith("y") and "v" in _shape(word[:-1]):
        word = word[:-1] + "i"
    return word


def _ending(word: str) -> str:
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
    """Return the Porter stem of a lower-case word."""
    if len(word) <= 2:
        return word
    return _ending(_replace(_replace(_inflection(word), _SECOND_ORDER, _SECOND), _THIRD_ORDER, _THIRD))
