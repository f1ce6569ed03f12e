"""Two made-up people, and dialogues between them."""

from __future__ import annotations

from agentgym.sotopia.acts import NONE, Act
from agentgym.sotopia.profiles import Person, Relationship, Scenario, Task

ADA = Person(
    id="ada", first_name="Ada", last_name="Lund", age=31, occupation="Sea Captain", gender="Woman",
    gender_pronoun="She/her", public_info="Ada keeps bees.", personality_and_values="Ada is stubborn.",
    secret="Ada cannot swim.",
)  # fmt: skip
BEN = Person(
    id="ben", first_name="Ben", last_name="Noor", age=64, occupation="Clown", gender="Man", gender_pronoun="He/him",
    public_info="Ben juggles.", personality_and_values="Ben is shy.", secret="Ben fears balloons.",
)  # fmt: skip


def make_task(
    relationship: int = 3,
    text: str = "Two people wait for a train.",
    goals: tuple[str, str] = ("Get the window seat", "Get some sleep"),
) -> Task:
    scenario = Scenario("wait", "wait", "made up", text, goals, Relationship(relationship))
    return Task("wait-0", scenario, (ADA, BEN), None, 7)


def say(text: str) -> Act:
    return Act("speak", text)


def first(act: Act) -> tuple[Act, Act]:
    """A turn in which role 0 acts."""
    return act, NONE


def second(act: Act) -> tuple[Act, Act]:
    """A turn in which role 1 acts."""
    return NONE, act
