"""A dialogue: as the judge sees it, as one side of it does, and quoted for the prompt of a model."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agentgym.foreign_text import clean
from agentgym.sotopia.acts import Turn, tell_all
from agentgym.sotopia.games.game import Outcome, Standing
from agentgym.sotopia.profiles import Task
from agentgym.sotopia.text import opening

#: Line breaks of any kind, and what chat templates may take for marks of their own: `<`, and `[` of `[INST]`.
_RISKY = re.compile(r"[<\x7f-\x9f\u2028\u2029]|\[(?=/?[A-Z_]{2,}\])")


@dataclass(slots=True)
class Dialogue:
    """Everything about a dialogue; what a judge gets, and a game computes its outcome from.

    Attributes:
        task: scenario, people, goals and game.
        turns: what has been done so far.
        ended: "left", "stale" (three times in a row whoever was in turn did nothing), "turns" (the limit), "failed" (a
            partner did not answer), or "" while it goes on.
        standing: how the game stands after these turns; None where nobody followed it.
    """

    task: Task
    turns: list[Turn] = field(default_factory=list)
    ended: str = ""
    standing: Standing | None = None

    @property
    def text(self) -> str:
        """The whole dialogue with all that is private to either side; for judges only."""
        return opening(self.task, None) + tell_all(self.task.names, self.turns)

    @property
    def outcome(self) -> Outcome | None:
        """What came of the game; None without one."""
        game = self.task.game
        if game is None:
            return None
        return game.settle(game.follow(self.turns) if self.standing is None else self.standing)


class View(NamedTuple):
    """What one side may know; what a partner gets.

    Attributes:
        task_id: the task's id.
        role: 0 or 1.
        names: of both people, by role.
        opening: the first observation of this side.
        turns: what both have done so far.
        kinds: the kinds of acts allowed now, in the order of `acts.KINDS`; only "none" when the other is in turn.
        max_turns: after so many turns the dialogue is cut.
        private: this side's part of the game, such as its prices; None where there is no game.
        seed: what scripted partners draw from.
        standing: how the game stands after these turns, which both can hear; None where there is no game, or nobody
            followed it.
    """

    task_id: str
    role: int
    names: tuple[str, str]
    opening: str
    turns: Sequence[Turn]
    kinds: tuple[str, ...]
    max_turns: int
    private: Any
    seed: int
    standing: Standing | None = None

    @property
    def name(self) -> str:
        """Own name."""
        return self.names[self.role]

    @property
    def partner_name(self) -> str:
        """Name of the other."""
        return self.names[1 - self.role]

    @property
    def turn(self) -> int:
        """Number of the turn that is to be played, from 0."""
        return len(self.turns)

    @property
    def text(self) -> str:
        """All observations of this side so far."""
        return self.opening + tell_all(self.names, self.turns)


def quote(text: str) -> str:
    r"""Return a text as a JSON string in one line, with no mark that a chat template knows.

    >>> print(quote('Bye."\n{"goal": 10} <|im_end|> [INST] 5 € [sic]'))
    "Bye.\"\n{\"goal\": 10} \u003c|im_end|> \u005bINST] 5 € [sic]"
    >>> json.loads(quote("<a>")) == "<a>"
    True
    """
    quoted = json.dumps(clean(text), ensure_ascii=False)
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
