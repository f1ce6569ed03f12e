"""A text cut into tokens exactly where Lucene's StandardTokenizer cuts it.

Source: Unicode standard annex 29 (word boundaries) with the emoji sequences of technical standard 51, as that
tokenizer applies them; see `characters` for the classes of characters.
"""

from __future__ import annotations

import re

from agentgym.webshop.search.characters import Classes

#: Longer tokens are cut into pieces of this many UTF-16 units.
LONGEST = 255
#: A text is searched in windows, so that the time is linear; a token begins no nearer to the end of its window, unless
#: the text ends there.
_WINDOW, _MARGIN = 4096, 1024

_CLASSES = Classes()


def _words(letter: str, digit: str, colon: str, comma: str, ext: str, plain: str, katakana: str, hebrew: str) -> str:
    """Build the pattern of a word from patterns of one character.

    `ext` is what may follow each of them, `plain` a letter that follows a colon (see `_LETTER`); `katakana` and
    `hebrew` are empty where the text has none.

    A run of letters and digits is held together by low lines, by a colon, dot or apostrophe between two letters, by a
    comma, semicolon, dot or apostrophe between two digits. Katakana and the other scripts join only across low lines.
    """
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
_ASCII = re.compile(_words("[A-Za-z]", "[0-9]", "[:.']", "[,;.']", "", "[A-Za-z]", "", ""))
_ANY = re.compile(
    f"{_words(_LETTER, '0', '[:.' + chr(39) + ']', '[,.' + chr(39) + ']', _EXT, '[AEH]', 'K', _HEBREW)}"
    f"|{_EMOJI}|[0#]{_SIGN}v?c{_SIGN}|r{_EXT}r{_EXT}|(?:[Sy]{_EXT})+|[JI]{_EXT}"
)


def tokens(text: str) -> list[str]:
    """Return the tokens of a text, in order, as they stand in it.

    Example:
        >>> tokens("Men's T-shirt, size 10.5 (2,000 sold)")
        ["Men's", 'T', 'shirt', 'size', '10.5', '2,000', 'sold']
    """
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
    """Return where a piece that starts at `start` and has at most `units` UTF-16 units ends."""
    end = start
    while end < len(text) and (units := units - (2 if text[end] > "\uffff" else 1)) >= 0:
        end += 1
    return end
