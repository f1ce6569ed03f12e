"""What a dialogue asks of others: the protocols of partners and judges.

Both are asked for many dialogues at once, and both may fail for one of them without harm to the rest. A name stands for
one that comes with the environment: `find_partner` and `find_judge`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar, runtime_checkable

from agentgym.core import suggest

if TYPE_CHECKING:
    from agentgym.sotopia.acts import Act
    from agentgym.sotopia.dialogue import Dialogue, View

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


class Failure(NamedTuple):
    """Why a partner did not act, or why a judge did not score.

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

    @property
    def overall(self) -> float:
        """The plain mean of the seven, whose ranges differ: from -30/7 to 37/7.

        >>> Rating(9, 2, 3, 0, 0, 1, 6).overall
        3.0
        """
        return sum(self) / len(self)


class Verdict(NamedTuple):
    """What a judge found.

    Attributes:
        ratings: of agent 0 and of agent 1.
        reasons: of agent 0 and of agent 1, a sentence for each dimension that the judge gave one for.
    """

    ratings: tuple[Rating, Rating]
    reasons: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})


@runtime_checkable
class Partner(Protocol):
    """Who talks with the agent: anything with this one method."""

    def act(self, views: Sequence[View]) -> list[Act | Failure]:
        """Return the next act of each dialogue, in the order of `views`, or why there is none.

        A partner keeps nothing between calls that would change an answer: what it says depends on the view alone
        (a scripted one draws from a generator made of `view.seed` and the turn), so dialogues can be branched.
        """
        ...


@runtime_checkable
class Judge(Protocol):
    """Who scores dialogues that have ended: anything with this one method."""

    def score(self, dialogues: Sequence[Dialogue]) -> list[Verdict | Failure]:
        """Return the verdict on each dialogue, in their order, or why there is none."""
        ...


def find_partner(partner: str | Partner) -> Partner:
    """Return a partner: itself when it is one, else the one of that name.

    Args:
        partner: an object with `act`; "rules" (a temperament drawn by the task's seed) or the name of a temperament,
            see `agentgym.sotopia.players.scripted.PARTNERS`; or `MODEL@URL`, a model behind an OpenAI-compatible
            endpoint such as `qwen@http://127.0.0.1:8000/v1`.

    Raises:
        ValueError: when there is no such partner.
        ImportError: when a package that it needs is not installed.
    """
    if not isinstance(partner, str):
        if not isinstance(partner, Partner):
            raise ValueError(f"partner must have act(views), or be a name such as 'rules', got {partner!r}")
        return partner
    if _is_endpoint(partner):
        from agentgym.sotopia.players.model import ModelPartner

        return ModelPartner.at(partner)
    from agentgym.sotopia.players.scripted import PARTNERS

    return _named(partner, PARTNERS, "partner")


def find_judge(judge: str | Judge) -> Judge:
    """Return a judge: itself when it is one, else the one of that name.

    Args:
        judge: an object with `score`; "rules", which computes the goal from what was agreed; or `MODEL@URL` as in
            `find_partner`.

    Raises:
        ValueError: when there is no such judge.
        ImportError: when a package that it needs is not installed.
    """
    if not isinstance(judge, str):
        if not isinstance(judge, Judge):
            raise ValueError(f"judge must have score(dialogues), or be a name such as 'rules', got {judge!r}")
        return judge
    if _is_endpoint(judge):
        from agentgym.sotopia.judges.model import ModelJudge

        return ModelJudge.at(judge)
    from agentgym.sotopia.judges.rules import RulesJudge

    return _named(judge, {"rules": RulesJudge}, "judge")


def _is_endpoint(name: str) -> bool:
    return "://" in name


def _named(name: str, known: Mapping[str, Callable[[], _T]], kind: str) -> _T:
    if name not in known:
        raise ValueError(f"unknown {kind} {name!r}; {suggest(name, known)}, or MODEL@URL")
    return known[name]()
