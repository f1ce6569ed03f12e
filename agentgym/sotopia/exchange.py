"""The others' part of a step, for many dialogues at once: partners answer, and judges score what has ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from agentgym.foreign_text import clean
from agentgym.sotopia.acts import KINDS, LONGEST, Act
from agentgym.sotopia.dialogue import Dialogue, View
from agentgym.sotopia.partner import Failure, Judge, Partner, Verdict
from agentgym.sotopia.profiles import Task

_T = TypeVar("_T")


class Place(Protocol):
    """A dialogue that an agent has part in."""

    @property
    def waits(self) -> bool:
        """The partner has to act."""
        ...

    @property
    def unjudged(self) -> Dialogue | None:
        """The dialogue, when it has ended and has no verdict yet."""
        ...

    def partner_view(self) -> View:
        """Return what the partner may know now."""
        ...

    def answer(self, given: Act | Failure) -> None:
        """Play what the partner did."""
        ...

    def judge_says(self, given: Verdict | Failure) -> None:
        """Take the verdict."""
        ...


def converse(places: Sequence[Place], partner: Partner, judge: Judge) -> None:
    """Let partners act until every agent is in turn or its dialogue is over, and have those judged that are over.

    Every round is one call of the partner for all dialogues that wait, and the verdicts are one call of the judge. An
    `OSError` of either (a connection, say) is a failure of all dialogues of the call.

    Raises:
        RuntimeError: when a partner or judge gives another number of answers than it was asked for.
    """
    while waiting := [place for place in places if place.waits]:
        views = [place.partner_view() for place in waiting]
        try:
            acts = partner.act(views)
        except OSError as error:
            acts = [_lost(partner, error)] * len(views)
        for place, act in zip(waiting, _complete(acts, len(views), partner, "act"), strict=True):
            place.answer(_sound(act, partner))
    over = [(place, dialogue) for place in places if (dialogue := place.unjudged) is not None]
    if over:
        verdicts = ask_judge(judge, [dialogue for _, dialogue in over])
        for (place, _), verdict in zip(over, verdicts, strict=True):
            place.judge_says(verdict)


def ask_judge(judge: Judge, dialogues: Sequence[Dialogue]) -> Sequence[Verdict | Failure]:
    """Return the judge's answers; see `converse` for what can go wrong."""
    try:
        verdicts: Sequence[Verdict | Failure] = judge.score(dialogues)
    except OSError as error:
        verdicts = [_lost(judge, error)] * len(dialogues)
    return _complete(verdicts, len(dialogues), judge, "score")


def needs_game(*whom: object) -> bool:
    """Say whether one of these partners and judges only knows dialogues whose goals can be computed."""
    return any(getattr(who, "needs_game", False) for who in whom)


def check_playable(task: Task, *whom: object) -> None:
    """Raise a ValueError when a task has no goals that can be computed, and a partner or judge needs them."""
    if task.game is None and needs_game(*whom):
        names = ", ".join(type(who).__name__ for who in whom if needs_game(who))
        raise ValueError(
            f"task {task.id!r} ({task.scenario.codename}) has no goals that can be computed, it needs a judge and a "
            f"partner that understand it: {names} cannot. Pass models as judge= and partner=, or use split 'numeric'"
        )


def _lost(who: object, error: OSError) -> Failure:
    return Failure(f"{type(who).__name__}: {type(error).__name__}: {error}")


def _complete(answers: Sequence[_T], count: int, who: object, method: str) -> Sequence[_T]:
    if len(answers) != count:
        raise RuntimeError(f"{type(who).__name__}.{method}: {len(answers)} answers to {count} dialogues")
    return answers


def _sound(act: Act | Failure, partner: Partner) -> Act | Failure:
    if isinstance(act, Failure):
        return act
    if not isinstance(act, Act) or act.kind not in KINDS or not isinstance(act.text, str):
        return Failure(f"{type(partner).__name__}: {act!r:.200} is no act: its kind must be one of {', '.join(KINDS)}")
    text = "" if act.kind in ("none", "leave") else clean(act.text, LONGEST)
    return act if text is act.text else Act(act.kind, text)
