"""Keys and credentials taken out of text that is stored, shown, raised or pickled."""

from __future__ import annotations

import base64
import re
from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from html import unescape
from itertools import accumulate
from typing import Any, Final

#: What stands for a secret.
HIDDEN: Final = "***"
#: Of a secret in base64, and of one that is cut short, at least so many characters are looked for.
_SHORTEST_PART: Final = 8
_USER = re.compile(r"(?<=://)[^/?#\s]{1,1000}@")  # up to the last @: a password may hold some
_NAMED = re.compile(
    r"(?i)((?:api[-_]?key|access[-_]?key|access[-_]?token|token|secret|password|passwd|signature|sig|key)=)[^&#\s\"']+"
)
_FIELD = re.compile(
    r"(?i)((?:api[-_]?key|access[-_]?key|access[-_]?token|client[-_]?secret|authorization|password|passwd)[\"']?"
    r"\s{0,9}:\s{0,9}[\"']?)(?!bearer\b|basic\b)[^\s\"',;}&]+"
)
_BEARER = re.compile(r"(?i)\b((?:bearer|basic)\s+)[\w.~+/=-]{8,}")
#: Characters as JSON, a program, a URL or a page writes them, and the border between two texts of a list. Each way
#: begins with a plain character, so that a text without escapes is passed over quickly.
_ESCAPED = re.compile(
    r"\\\\{0,3}u(?P<code>[0-9a-fA-F]{4})|\\\\{0,3}x(?P<byte>[0-9a-fA-F]{2})"
    r"|%(?P<url>(?:25){0,3}[0-9a-fA-F]{2}(?:%(?:25){0,3}[0-9a-fA-F]{2})*)"
    r"|&(?P<page>#\d{1,7};|#[xX][0-9a-fA-F]{1,6};|amp;|lt;|gt;|quot;)"
    r"|\\\\{0,3}[\"']\s{0,9},\s{0,9}\\{0,4}[\"']|\"\s{0,9},\s{0,9}\\{0,4}[\"']|'\s{0,9},\s{0,9}\\{0,4}[\"']"
    r"|\\\\{0,3}(?P<plain>[\"'/\\])"
)
_TWICE = re.compile("%(?:25){0,3}(?=[0-9a-fA-F]{2})")


def hide(text: str, secrets: Iterable[str]) -> str:
    r"""Return the text without the secrets, wherever they stand and however they are written.

    That is: as they are; with any of their characters escaped as in JSON, Python, a URL (twice as well) or a page; cut
    into neighbouring texts of a list; in hexadecimal digits; in base64, also in the middle of a longer text; and its
    beginning, from eight characters on, where the text ends with it. Other parts of a secret stay, such as its last
    letters or pieces in different fields.

    >>> hide("my key is sk-1, key=5", ["sk-1"])
    'my key is ***, key=5'
    >>> hide('["sk", "-1"] %73k-1 \\u0073k-1', ["sk-1"])
    '["***"] *** ***'
    """
    known = sorted({each for each in secrets if each}, key=len, reverse=True)
    for secret in known:
        text = text.replace(secret, HIDDEN)
        for code in _codes(secret):
            if code in text:
                text = re.sub(rf"[\w+/=-]{{0,4}}{re.escape(code)}[\w+/=-]{{0,4}}", HIDDEN, text)
        for length in range(len(secret) - 1, _SHORTEST_PART - 1, -1):
            if text.endswith(secret[:length]):  # a text that was cut short
                text = text[:-length] + HIDDEN
                break
    said = _ESCAPED.sub(_said, text) if known else text
    for wanted in [_ESCAPED.sub(_said, secret) for secret in known]:
        if wanted and wanted in said:
            text = _hide_escaped(text, wanted)
            said = _ESCAPED.sub(_said, text)
    return text


def hide_all(value: Any, secrets: Iterable[str]) -> Any:
    """Return a JSON value with `hide` applied to every string in it, names included.

    >>> hide_all({"sk-1": ["is sk-1", 5]}, ["sk-1"])
    {'***': ['is ***', 5]}
    """
    if isinstance(value, str):
        return hide(value, secrets)
    if isinstance(value, dict):
        return {hide(name, secrets): hide_all(item, secrets) for name, item in value.items()}
    return [hide_all(item, secrets) for item in value] if isinstance(value, list) else value


@lru_cache(maxsize=256)
def _codes(secret: str) -> tuple[str, ...]:
    """Return the secret in hexadecimal digits and what is certain of it in base64, at each of three places."""
    content = secret.encode("utf-8", "surrogatepass")
    found = {content.hex(), content.hex().upper()}
    for before in range(3):
        whole = base64.b64encode(bytes(before) + content).decode()
        code = whole[(before * 8 + 5) // 6 : (before + len(content)) * 8 // 6]
        found |= {code, code.replace("+", "-").replace("/", "_")}
    return tuple(sorted(code for code in found if len(code) >= _SHORTEST_PART))


def _hide_escaped(text: str, wanted: str) -> str:
    """Hide what a text says once its escapes are read; of an escape that says a part of it, all is hidden."""
    said, kept, ends = [], [], []  # of each piece: what it says, whether it is no escape, where it ends in the text
    done = 0
    for found in _ESCAPED.finditer(text):
        said += [text[done : found.start()], _said(found)]
        kept += [True, False]
        ends += [found.start(), found.end()]
        done = found.end()
    said, kept, ends = [*said, text[done:]], [*kept, True], [*ends, len(text)]
    starts = list(accumulate(map(len, said), initial=0))[:-1]

    def place(at: int, end: bool) -> int:
        """Return where a character of what is said begins in the text, or ends."""
        piece = bisect_right(starts, at) - 1
        begins = ends[piece] - len(said[piece]) if kept[piece] else (ends[piece - 1] if piece else 0)
        return begins + at - starts[piece] + end if kept[piece] else ends[piece] if end else begins

    read, parts, done = "".join(said), [], 0
    at = read.find(wanted)
    while at >= 0:
        parts += [text[done : max(done, place(at, False))], HIDDEN]
        done = place(at + len(wanted) - 1, True)
        at = read.find(wanted, at + len(wanted))
    return "".join([*parts, text[done:]])


def _said(found: re.Match[str]) -> str:
    if code := found["code"] or found["byte"]:
        return chr(int(code, 16))
    if found["url"]:
        content = bytes.fromhex(_TWICE.sub("", found[0]))
        try:
            return content.decode()
        except UnicodeDecodeError:
            return content.decode("latin-1")
    return unescape(found[0]) if found["page"] else found["plain"] or ""


def refuse_credential(name: str, value: str, instead: str) -> None:
    """Raise a ValueError where an argument of `gym.make` holds a credential, which would stay in `env.spec`.

    Args:
        name: of the argument.
        value: of the argument.
        instead: what to give in its place.
    """
    if (shown := redact(value)) != value:
        raise ValueError(
            f"{name}={shown!r} holds a credential, which `gym.make` would keep in `env.spec`: give the object instead, "
            f"{instead}, which is pickled without it"
        )


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Return the text without credentials; call it before the text is cut, so that no half of a secret stays.

    Args:
        text: of an error, an answer, a URL.
        secrets: keys to take out wherever they stand, see `hide`.

    >>> redact("http://me:pw@host/v1?api_key=abc&k=3 said: no sk-1", ["sk-1"])
    'http://***@host/v1?api_key=***&k=3 said: no ***'
    """
    text = hide(text, secrets)
    text = _USER.sub(f"{HIDDEN}@", text)
    text = _NAMED.sub(rf"\g<1>{HIDDEN}", text)
    text = _FIELD.sub(rf"\g<1>{HIDDEN}", text)
    return _BEARER.sub(rf"\g<1>{HIDDEN}", text)
