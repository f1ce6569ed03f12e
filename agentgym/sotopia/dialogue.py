"""A dialogue, who takes part in it and who judges it: players act and judges score, for many dialogues at once.

Players and judges may fail for one dialogue without harm to the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from agentgym.outside.text import clean
from agentgym.sotopia.acts import KINDS, LONGEST, Act, Turn, tell_all
from agentgym.sotopia.games.game import Outcome, Standing
from agentgym.sotopia.profiles import Task
from agentgym.sotopia.text import opening

_T = TypeVar("_T")

#: The dimensions of SOTOPIA-EVAL with the lowest and the highest score, in the order of `Rating`.
DIMENSIONS: Mapping[str, tuple[int, int]] = {
    "believability": (0, 10),
    "relationship": (-5, 5),
    "knowledge": (0, 10),
    "secret": (-10, 0),
    "social_rules": (-10, 0),
    "financial_and_material_benefits": (-5, 5),
    "goal": (0, 10),
}


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
        seed: what scripted partners draw from, and models with `draw`.
        standing: how the game stands after these turns, which both can hear; None where there is no game, or nobody
            followed it.
        draw: another number is another sample of a model's answers; None for those that the seed alone gives.
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
    draw: int | None = None

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


class Failure(NamedTuple):
    """Why a player did not act, or why a judge did not score.

    Attributes:
        reason: one sentence: who failed, and how.
        attempts: how often it was tried.
    """

    reason: str
    attempts: int = 1


class Rating(NamedTuple):
    """How one of the two did, see `DIMENSIONS` for the ranges. Models and rules give whole numbers."""

    believability: float
    relationship: float
    knowledge: float
    secret: float
    social_rules: float
    financial_and_material_benefits: float
    goal: float


class Verdict(NamedTuple):
    """What a judge found.

    Attributes:
        ratings: of agent 0 and of agent 1.
        reasons: of agent 0 and of agent 1, a sentence for each dimension that the judge gave one for.
    """

    ratings: tuple[Rating, Rating]
    reasons: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})


@runtime_checkable
class Player(Protocol):
    """Who takes a side of a dialogue, as the agent's partner for one: anything with this one method."""

    def act(self, views: Sequence[View]) -> list[Act | Failure]:
        """Return the next act of each dialogue, in the order of `views`, or why there is none.

        A player keeps nothing between calls that would change an answer: what it says depends on the view alone
        (a scripted one draws from a generator made of `view.seed` and the turn), so dialogues can be branched.
        """
        ...


@runtime_checkable
class Judge(Protocol):
    """Who scores dialogues that have ended: anything with this one method."""

    def score(self, dialogues: Sequence[Dialogue]) -> list[Verdict | Failure]:
        """Return the verdict on each dialogue, in their order, or why there is none."""
        ...


def ask_player(player: Player, views: Sequence[View]) -> list[Act | Failure]:
    """Return a player's acts, those that are none as failures; an `OSError` (a connection, say) fails all of them.

    Raises:
        RuntimeError: when it gives another number of answers than it was asked for.
    """
    try:
        acts: Sequence[Act | Failure] = player.act(views)
    except OSError as error:
        acts = [_lost(player, error)] * len(views)
    return [_sound(act, player) for act in _complete(acts, len(views), player, "act")]


def ask_judge(judge: Judge, dialogues: Sequence[Dialogue]) -> Sequence[Verdict | Failure]:
    """Return a judge's answers; see `ask_player` for what can go wrong."""
    try:
        verdicts: Sequence[Verdict | Failure] = judge.score(dialogues)
    except OSError as error:
        verdicts = [_lost(judge, error)] * len(dialogues)
    return _complete(verdicts, len(dialogues), judge, "score")


def _lost(who: object, error: OSError) -> Failure:
    return Failure(f"{type(who).__name__}: {type(error).__name__}: {error!s:.500}")


def _complete(answers: Sequence[_T], count: int, who: object, method: str) -> Sequence[_T]:
    if len(answers) != count:
        raise RuntimeError(f"{type(who).__name__}.{method}: {len(answers)} answers to {count} dialogues")
    return answers


def _sound(act: Act | Failure, partner: Player) -> Act | Failure:
    if isinstance(act, Failure):
        return act
    if not isinstance(act, Act) or act.kind not in KINDS or not isinstance(act.text, str):
        shown = f"kind {act.kind:.50}" if isinstance(act, Act) and isinstance(act.kind, str) else type(act).__name__
        return Failure(f"{type(partner).__name__}: {shown} is no act: its kind must be one of {', '.join(KINDS)}")
    text = "" if act.kind in ("none", "leave") else clean(act.text, LONGEST)
    return act if text is act.text else Act(act.kind, text)


def needs_game(*whom: object) -> bool:
    """Say whether one of these players and judges only knows dialogues whose goals can be computed."""
    return any(getattr(who, "needs_game", False) for who in whom)


def check_playable(task: Task, *whom: object) -> None:
    """Raise a ValueError when a task has no goals that can be computed, and a player or judge needs them."""
    if task.game is None and needs_game(*whom):
        names = ", ".join(type(who).__name__ for who in whom if needs_game(who))
        raise ValueError(
            f"task {task.id!r} ({task.scenario.codename}) has no goals that can be computed, it needs a judge and a "
            f"partner that understand it: {names} cannot. Pass models as judge= and partner=, or use split 'numeric'"
        )
