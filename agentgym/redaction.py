"""Keys and credentials taken out of text that is stored, shown, raised or pickled."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from html import escape
from typing import Final
from urllib.parse import quote

#: What stands for a secret.
HIDDEN: Final = "***"
_USER = re.compile(r"(?<=://)[^/?#\s]{1,1000}@")  # up to the last @: a password may hold some
_NAMED = re.compile(
    r"(?i)((?:api[-_]?key|access[-_]?key|access[-_]?token|token|secret|password|passwd|signature|sig|key)=)[^&#\s\"']+"
)
_FIELD = re.compile(
    r"(?i)((?:api[-_]?key|access[-_]?key|access[-_]?token|client[-_]?secret|authorization|password|passwd)[\"']?"
    r"\s{0,9}:\s{0,9}[\"']?)(?!bearer\b|basic\b)[^\s\"',;}&]+"
)
_BEARER = re.compile(r"(?i)\b((?:bearer|basic)\s+)[\w.~+/=-]{8,}")


def hide(text: str, secrets: Iterable[str]) -> str:
    """Return the text without the secrets, wherever they stand, also as JSON, a URL or a page writes them.

    >>> hide("my key is sk-1, key=5", ["sk-1"])
    'my key is ***, key=5'
    """
    for secret in sorted({each for each in secrets if each}, key=len, reverse=True):
        for written in (secret, json.dumps(secret)[1:-1], quote(secret, "", errors="surrogatepass"), escape(secret)):
            text = text.replace(written, HIDDEN)
    return text


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
        secrets: keys to take out wherever they stand, also as JSON or a URL writes them.

    >>> redact("http://me:pw@host/v1?api_key=abc&k=3 said: no sk-1", ["sk-1"])
    'http://***@host/v1?api_key=***&k=3 said: no ***'
    """
    text = hide(text, secrets)
    text = _USER.sub(f"{HIDDEN}@", text)
    text = _NAMED.sub(rf"\g<1>{HIDDEN}", text)
    text = _FIELD.sub(rf"\g<1>{HIDDEN}", text)
    return _BEARER.sub(rf"\g<1>{HIDDEN}", text)
