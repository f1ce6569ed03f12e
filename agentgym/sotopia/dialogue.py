"""A dialogue as the judge sees it, and as one side of it does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from agentgym.sotopia.acts import Act, told
from agentgym.sotopia.profiles import Task
from agentgym.sotopia.text import opening

if TYPE_CHECKING:
    from agentgym.sotopia.games.game import Standing


class Turn(NamedTuple):
    """What both sides did in a turn; who was not in turn did nothing. Turns are counted from 0."""

    number: int
    acts: tuple[Act, Act]


def tell(names: tuple[str, str], turn: Turn) -> str:
    """Return a turn as the observation tells it, with its line break; doing nothing is not mentioned."""
    acts = ";".join([told(name, act) for name, act in zip(names, turn.acts, strict=True) if act.kind != "none"])
    return f"Turn #{turn.number}: {acts}\n"


#: So many characters of turns are told at most, the latest: with an opening they stay inside a `TextSpace`.
MOST_TOLD = 800_000


def tell_all(names: tuple[str, str], turns: Iterable[Turn]) -> str:
    """Return turns as the observation tells them; of more than `MOST_TOLD` characters the oldest turns are left out."""
    told = [tell(names, turn) for turn in turns]
    text = "".join(told)
    while len(text) > MOST_TOLD:
        told = told[(len(told) + 1) // 2 :]
        text = "".join(told)
    return text


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
        names = self.task.names
        return opening(self.task, None) + tell_all(names, self.turns)


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
