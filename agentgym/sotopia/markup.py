"""Profile texts with tags, rendered for one viewer.

`<extra_info>`, `<strategy_hint>` and `<clarification_hint>` only mark what they hold; `<p viewer="...">` hides it from
all but one viewer. Nothing else is a tag, so that `3 < 5 & <b>` stays as it is. Only profiles are rendered: what people
say in a dialogue never comes here.
"""

from __future__ import annotations

import re

#: Who sees what only the judge may: the judge also sees everything else.
JUDGE = "environment"
#: The viewers of roles 0 and 1.
ROLES = ("agent_0", "agent_1")

_MARKS = ("extra_info", "strategy_hint", "clarification_hint")
#: What is meant as a tag; one that is not written as `_TAG` wants it is an error, lest it hide nothing.
_MEANT = re.compile(rf"<\s*+(?:/\s*+)?(?:{'|'.join(_MARKS)}|p)\b[^>]*+>?", re.IGNORECASE)
_TAG = re.compile(rf"""<(/?)({"|".join(_MARKS)}|p)(?:\s+viewer\s*=\s*(?:"([^"]*)"|'([^']*)'))?\s*>""")


def render(text: str, viewer: str) -> str:
    """Return what one viewer sees of a profile text.

    Args:
        text: a scenario, a goal or a part of a biography.
        viewer: one of `ROLES`, or `JUDGE`, who sees everything.

    Raises:
        ValueError: when tags do not match or are not understood, so that it is not clear what is hidden from whom.

    >>> render('A party. <p viewer="environment">Both know Kim.</p> (<extra_info>You sing.</extra_info>)', "agent_0")
    'A party.  (You sing.)'
    """
    if "<" not in text:
        return text
    parts: list[str] = []
    open_tags: list[tuple[str, bool]] = []
    shown, at = True, 0
    for meant in _MEANT.finditer(text):
        tag = _TAG.fullmatch(meant[0])
        if tag is None:
            raise ValueError(f"profile text has a tag that is not understood, {meant[0]!r:.100}: {text!r:.200}")
        closing, name = tag[1], tag[2]
        if shown:
            parts.append(text[at : meant.start()])
        at = meant.end()
        if not closing:
            open_tags.append((name, shown))
            allowed = tag[3] if tag[3] is not None else tag[4]
            shown = shown and (allowed in (None, "all", viewer) or viewer == JUDGE)
        elif open_tags and open_tags[-1][0] == name:
            shown = open_tags.pop()[1]
        else:
            raise ValueError(f"profile text closes <{name}> which is not open: {text!r:.200}; match its tags")
    if open_tags:
        raise ValueError(f"profile text does not close <{open_tags[-1][0]}>: {text!r:.200}; add </{open_tags[-1][0]}>")
    parts.append(text[at:])
    return "".join(parts).strip()
