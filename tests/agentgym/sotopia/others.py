"""Partners and judges for tests, which count how often and for how many dialogues they are asked."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.sotopia.acts import NONE, Act
from agentgym.sotopia.dialogue import Dialogue, Failure, Rating, Verdict, View


class Script:
    """Says its lines one after the other, then leaves; keeps what it was asked."""

    def __init__(self, *acts: Act | Failure) -> None:
        self.acts = acts
        self.calls: list[list[View]] = []

    def act(self, views: Sequence[View]) -> list[Act | Failure]:
        self.calls.append(list(views))
        answers: list[Act | Failure] = []
        for view in views:
            done = sum(turn.acts[view.role] != NONE for turn in view.turns)
            answers.append(self.acts[done] if done < len(self.acts) else Act("leave"))
        return answers


class Fixed:
    """Gives everyone the same scores; keeps what it was asked."""

    def __init__(self, goals: tuple[float, float] = (8, 3), failure: Failure | None = None) -> None:
        ratings = tuple(Rating(9, 2, 3, -1, 0, 1, goal) for goal in goals)
        self.verdict = failure or Verdict((ratings[0], ratings[1]))
        self.calls: list[list[Dialogue]] = []

    def score(self, dialogues: Sequence[Dialogue]) -> list[Verdict | Failure]:
        self.calls.append(list(dialogues))
        return [self.verdict] * len(dialogues)


class Down:
    """Cannot be reached."""

    def act(self, views: Sequence[View]) -> list[Act | Failure]:
        raise ConnectionError("connection refused")

    def score(self, dialogues: Sequence[Dialogue]) -> list[Verdict | Failure]:
        raise ConnectionError("connection refused")
