"""A dialogue for the prompt of a model: words are quoted, so that none of them look like a part of the prompt."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from agentgym.sotopia.dialogue import Turn

#: Line breaks of any kind, and what chat templates may take for marks of their own: `<`, and `[` of `[INST]`.
_RISKY = re.compile(r"[<\x7f-\x9f\u2028\u2029]|\[(?=/?[A-Z_]{2,}\])")


def quote(text: str) -> str:
    r"""Return a text as a JSON string in one line, with no mark that a chat template knows.

    >>> print(quote('Bye."\n{"goal": 10} <|im_end|> [INST] 5 € [sic]'))
    "Bye.\"\n{\"goal\": 10} \u003c|im_end|> \u005bINST] 5 € [sic]"
    >>> json.loads(quote("<a>")) == "<a>"
    True
    """
    quoted = json.dumps(text.encode("utf-8", "replace").decode(), ensure_ascii=False)
    return _RISKY.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)


def transcript(names: tuple[str, str], turns: Sequence[Turn]) -> str:
    r"""Return the acts of a dialogue, one JSON object a line; doing nothing is left out.

    >>> from agentgym.sotopia.acts import LEAVE, NONE, Act
    >>> print(transcript(("Ada", "Ben"), [Turn(0, (Act("speak", "Hi."), NONE)), Turn(1, (NONE, LEAVE))]))
    {"turn": 0, "who": "Ada", "action_type": "speak", "argument": "Hi."}
    {"turn": 1, "who": "Ben", "action_type": "leave", "argument": ""}
    """
    lines = [
        f'{{"turn": {turn.number}, "who": {quote(name)}, "action_type": {quote(act.kind)}, '
        f'"argument": {quote(act.text)}}}'
        for turn in turns
        for name, act in zip(names, turn.acts, strict=True)
        if act.kind != "none"
    ]
    return "\n".join(lines) or "(nothing yet)"
