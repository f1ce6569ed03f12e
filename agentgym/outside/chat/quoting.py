"""Texts of others inside a prompt, so that they stay what they are: one quoted string in one line."""

from __future__ import annotations

import json
import re

from agentgym.outside.text import clean

#: Line breaks of any kind, and what chat templates may take for marks of their own: `<`, and `[` of `[INST]`.
_RISKY = re.compile(r"[<\x7f-\x9f\u2028\u2029]|\[(?=/?[A-Z_]{2,}\])")


def quote(text: str) -> str:
    r"""Return a text as a JSON string in one line, with no mark that a chat template knows.

    >>> print(quote('Bye."\n{"goal": 10} <|im_end|> [INST] 5 € [sic]'))
    "Bye.\"\n{\"goal\": 10} \u003c|im_end|> \u005bINST] 5 € [sic]"
    >>> json.loads(quote("<a>")) == "<a>"
    True
    """
    quoted = json.dumps(clean(text), ensure_ascii=False)
    return _RISKY.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)
