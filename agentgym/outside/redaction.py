"""Removes keys and credentials from text that is stored, shown, raised or pickled."""

import base64
import re
from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from html import unescape
from itertools import accumulate
from typing import Any, Final

#: Replaces a secret.
HIDDEN: Final = "***"
#: Least number of characters of a secret in base64 or of a truncated secret that are searched for.
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
#: Ways in which JSON, programs, URLs and pages write characters, and the border between two texts of a list. Each
#: begins with a plain character, so that texts without escapes are scanned quickly.
_ESCAPED = re.compile(
    r"\\\\{0,3}u(?P<code>[0-9a-fA-F]{4})|\\\\{0,3}x(?P<byte>[0-9a-fA-F]{2})"
    r"|%(?P<url>(?:25){0,3}[0-9a-fA-F]{2}(?:%(?:25){0,3}[0-9a-fA-F]{2})*)"
    r"|&(?P<page>#\d{1,7};|#[xX][0-9a-fA-F]{1,6};|amp;|lt;|gt;|quot;)"
    r"|\\\\{0,3}[\"']\s{0,9},\s{0,9}\\{0,4}[\"']|\"\s{0,9},\s{0,9}\\{0,4}[\"']|'\s{0,9},\s{0,9}\\{0,4}[\"']"
    r"|\\\\{0,3}(?P<plain>[\"'/\\])"
)
_TWICE = re.compile("%(?:25){0,3}(?=[0-9a-fA-F]{2})")


def hide(text: str, secrets: Iterable[str]) -> str:
    r"""Return the text without the secrets.

    They are found plain; with characters escaped as in JSON, Python, a URL (twice as well) or HTML; split into
    neighbouring texts of a list; in hexadecimal digits; in base64, also in the middle of a longer text; and as a
    beginning of at least eight characters at the end of the text. Other parts stay, such as a secret's last letters.

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
            if text.endswith(secret[:length]):  # a truncated text
                text = text[:-length] + HIDDEN
                break
    decoded = _ESCAPED.sub(_decoded, text) if known else text
    for wanted in [_ESCAPED.sub(_decoded, secret) for secret in known]:
        if wanted and wanted in decoded:
            text = _hide_escaped(text, wanted)
            decoded = _ESCAPED.sub(_decoded, text)
    return text


def hide_all(value: Any, secrets: Iterable[str]) -> Any:
    """Return a JSON value with `hide` applied to every string and name in it."""
    if isinstance(value, str):
        return hide(value, secrets)
    if isinstance(value, dict):
        return {hide(name, secrets): hide_all(item, secrets) for name, item in value.items()}
    return [hide_all(item, secrets) for item in value] if isinstance(value, list) else value


@lru_cache(maxsize=256)
def _codes(secret: str) -> tuple[str, ...]:
    """Return the secret in hexadecimal digits, and its certain part in base64 at each of the three alignments."""
    content = secret.encode("utf-8", "surrogatepass")
    found = {content.hex(), content.hex().upper()}
    for before in range(3):
        whole = base64.b64encode(bytes(before) + content).decode()
        code = whole[(before * 8 + 5) // 6 : (before + len(content)) * 8 // 6]
        found |= {code, code.replace("+", "-").replace("/", "_")}
    return tuple(sorted(code for code in found if len(code) >= _SHORTEST_PART))


def _hide_escaped(text: str, wanted: str) -> str:
    """Hide what is found after decoding escapes; an escape that decodes to a part of it is hidden as a whole."""
    decoded, kept, ends = [], [], []  # of each piece: decoded text, whether it is no escape, its end in the text
    done = 0
    for found in _ESCAPED.finditer(text):
        decoded += [text[done : found.start()], _decoded(found)]
        kept += [True, False]
        ends += [found.start(), found.end()]
        done = found.end()
    decoded, kept, ends = [*decoded, text[done:]], [*kept, True], [*ends, len(text)]
    starts = list(accumulate(map(len, decoded), initial=0))[:-1]

    def place(at: int, end: bool) -> int:
        piece = bisect_right(starts, at) - 1
        begins = ends[piece] - len(decoded[piece]) if kept[piece] else (ends[piece - 1] if piece else 0)
        return begins + at - starts[piece] + end if kept[piece] else ends[piece] if end else begins

    read, parts, done = "".join(decoded), [], 0
    at = read.find(wanted)
    while at >= 0:
        parts += [text[done : max(done, place(at, False))], HIDDEN]
        done = place(at + len(wanted) - 1, True)
        at = read.find(wanted, at + len(wanted))
    return "".join([*parts, text[done:]])


def _decoded(found: re.Match[str]) -> str:
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
    """Raise a ValueError if an argument of `gym.make`, which stays in `env.spec`, holds a credential."""
    if (shown := redact(value)) != value:
        raise ValueError(
            f"{name}={shown!r} holds a credential, which `gym.make` would keep in `env.spec`: give the object instead, "
            f"{instead}, which is pickled without it"
        )


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Return the text without credentials in URLs and without the secrets (see `hide`); call it before cutting."""
    text = hide(text, secrets)
    text = _USER.sub(f"{HIDDEN}@", text)
    text = _NAMED.sub(rf"\g<1>{HIDDEN}", text)
    text = _FIELD.sub(rf"\g<1>{HIDDEN}", text)
    return _BEARER.sub(rf"\g<1>{HIDDEN}", text)
