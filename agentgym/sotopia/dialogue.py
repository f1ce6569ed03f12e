"""Dialogues, players, judges, and rewards of verdicts. Players and judges handle many dialogues at once."""

import importlib
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

from agentgym.checks import suggest
from agentgym.outside.dialogue import KINDS, LEAVE, NONE, Act, Failure, Turn, complete, lost, turn_lines, write
from agentgym.outside.redaction import refuse_credential
from agentgym.outside.text import tables_beside
from agentgym.sotopia.games.game import Outcome, Standing
from agentgym.sotopia.profiles import Task, opening

#: Instructions and prompts.
TEXTS = tables_beside(__file__, "texts.toml")
#: The dimensions of SOTOPIA-EVAL with lowest and highest score, in the order of `Rating`.
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
    """A dialogue as a judge or game gets it.

    Attributes:
        task: scenario, people, goals and game.
        turns: the turns so far.
        ended: "left", "stale" (three acts `none` in a row), "turns" (the limit), "failed" (no answer of a partner), or
            "" while it runs.
        standing: state of the game; None if it was not followed.
    """

    task: Task
    turns: list[Turn] = field(default_factory=list)
    ended: str = ""
    standing: Standing | None = None

    @property
    def text(self) -> str:
        """The whole dialogue with all private information; for judges only."""
        return opening(self.task, None) + turn_lines(self.task.names, self.turns)

    @property
    def outcome(self) -> Outcome | None:
        """Outcome of the game; None without one."""
        game = self.task.game
        if game is None:
            return None
        return game.settle(game.follow(self.turns) if self.standing is None else self.standing)


class Rating(NamedTuple):
    """Scores of one side, in the ranges of `DIMENSIONS`."""

    believability: float
    relationship: float
    knowledge: float
    secret: float
    social_rules: float
    financial_and_material_benefits: float
    goal: float


class Verdict(NamedTuple):
    """Ratings of agents 0 and 1, and a sentence for each dimension that has one."""

    ratings: tuple[Rating, Rating]
    reasons: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})


@runtime_checkable
class Judge(Protocol):
    """Scores finished dialogues."""

    def score(self, dialogues: Sequence[Dialogue]) -> list[Verdict | Failure]:
        """Return the verdict on each dialogue, or a failure."""
        ...


def ask_judge(judge: Judge, dialogues: Sequence[Dialogue]) -> Sequence[Verdict | Failure]:
    """Return a judge's answers; errors are those of `ask_player`."""
    try:
        verdicts: Sequence[Verdict | Failure] = judge.score(dialogues)
    except OSError as error:
        verdicts = [lost(judge, error)] * len(dialogues)
    return complete(verdicts, len(dialogues), judge, "score")


def find(what: str, given: Any, kind: Any, method: str, named: Mapping[str, Callable[[], Any]], model: str) -> Any:
    """Return a player or judge: an object of `kind` itself, one `named`, or that of `MODEL@URL`; ValueError for others.

    `what` is the argument's name, `method` what an object has, `model` the class in `agentgym.sotopia.models`.
    """
    if not isinstance(given, str):
        if not isinstance(given, kind):
            raise ValueError(f"{what} must have {method}, or be a name such as 'rules', got {given!r}")
        return given
    if "://" in given:
        refuse_credential(what, given, f"agentgym.sotopia.models.{model}.at(name)")
        return getattr(importlib.import_module("agentgym.sotopia.models"), model).at(given)
    if given not in named:
        raise ValueError(f"unknown {what} {given!r}; {suggest(given, named)}, or MODEL@URL")
    return named[given]()


def needs_game(*whom: object) -> bool:
    """Return whether one of these players and judges requires goals that can be computed."""
    return any(getattr(who, "needs_game", False) for who in whom)


def check_playable(task: Task, *whom: object) -> None:
    """Raise a ValueError if a player or judge requires computable goals and the task has none."""
    if task.game is None and needs_game(*whom):
        names = ", ".join(type(who).__name__ for who in whom if needs_game(who))
        raise ValueError(
            f"{names} cannot play task {task.id!r} ({task.scenario.codename}), which has no computable goals: pass "
            "models as judge= and partner=, or use split 'numeric'"
        )


#: Rewards: the goal score in 0..1, whether it is above the threshold, or the mean of all dimensions.
REWARDS = ("goal", "success", "overall")


class Result(NamedTuple):
    """A judge's verdict for one side.

    Attributes:
        dimensions: own scores, in the order of `DIMENSIONS`.
        partner_goal: goal score of the other.
        failure: why there is no verdict, "" if there is one; all scores are then 0 and have no meaning.
    """

    dimensions: tuple[float, ...] = (0.0,) * len(DIMENSIONS)
    partner_goal: float = 0.0
    failure: str = ""

    @property
    def goal(self) -> float:
        return self.dimensions[-1]

    def won(self, threshold: float) -> bool:
        return self.goal > threshold

    def reward(self, form: str, threshold: float) -> float:
        """Return the reward in a form of `REWARDS`; 0 without a verdict."""
        if self.failure:
            return 0.0
        if form == "goal":
            return self.goal / 10
        if form == "success":
            return float(self.won(threshold))
        return sum(self.dimensions) / len(self.dimensions)


def result_of(given: object, role: int) -> Result:
    """Return the result of a judge's answer for a role; a malformed verdict is a failure."""
    if isinstance(given, Failure):
        return failed("judge", given)
    if not isinstance(given, Verdict):
        return failed("judge", Failure(f"its answer, a {type(given).__name__}, is no verdict"))
    try:
        mine, theirs = (tuple([float(score) for score in given.ratings[each]]) for each in (role, 1 - role))
    except (TypeError, ValueError, OverflowError):
        mine = theirs = (math.nan,)
    if not all(map(math.isfinite, mine + theirs)):
        return failed("judge", Failure("a score of its verdict is no finite number"))
    for scores in (mine, theirs):
        if len(scores) != len(DIMENSIONS):
            return failed("judge", Failure(f"its verdict has {len(scores)} scores a side, expected {len(DIMENSIONS)}"))
        for (name, (lowest, highest)), score in zip(DIMENSIONS.items(), scores, strict=True):
            if not lowest <= score <= highest:
                return failed("judge", Failure(f"its score of {name}, {score:g}, is not in {lowest} to {highest}"))
    return Result(mine, theirs[-1])


def failed(who: str, failure: Failure) -> Result:
    """Return the result of a dialogue after a failure of `who`, "partner" or "judge"."""
    tried = f" (tried {failure.attempts} times)" if failure.attempts > 1 else ""
    return Result(failure=f"{who}: {failure.reason}{tried}")


def check_threshold(threshold: Any) -> float:
    """Return the goal score to be exceeded; ValueError if that is impossible."""
    number = isinstance(threshold, numbers.Real) and not isinstance(threshold, bool)
    value = float(threshold) if number else -1.0
    if not 0 <= value < 10:
        raise ValueError(f"success_threshold must be a number from 0 to below 10, got {threshold!r}")
    return value


INSTRUCTIONS: str = TEXTS["instructions"]

#: Example commands of every kind.
COMMANDS = tuple(
    write(act)
    for act in (
        NONE, Act("speak", "Hello."), Act("speak", "What would you like?"), Act("speak", "I agree."),
        Act("speak", "I cannot agree to that."), Act(KINDS[2], "nods"), Act("action", "sits down"), LEAVE,
    )
)  # fmt: skip
