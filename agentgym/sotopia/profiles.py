"""Who talks, about what, and with which goals: the records of SOTOPIA."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any

from agentgym.sotopia.games.game import Game


class Relationship(IntEnum):
    """How well two people know each other; `text` says what follows from it."""

    stranger = 0
    know_by_name = 1
    acquaintance = 2
    friend = 3
    romantic_relationship = 4
    family_member = 5


@dataclass(frozen=True, slots=True)
class Person:
    """A character, with the fields of SOTOPIA's agent profiles; `gender` is "Man", "Woman" or "Nonbinary"."""

    id: str
    first_name: str
    last_name: str
    age: int
    occupation: str
    gender: str
    gender_pronoun: str
    public_info: str
    personality_and_values: str
    secret: str
    decision_making_style: str = ""
    big_five: str = ""
    moral_values: tuple[str, ...] = ()
    schwartz_personal_values: tuple[str, ...] = ()
    mbti: str = ""
    model_id: str = ""
    tag: str = ""

    @property
    def name(self) -> str:
        """First and last name."""
        return f"{self.first_name} {self.last_name}"


@dataclass(frozen=True, slots=True)
class Scenario:
    """A situation: what happens, and what each of the two wants; texts may hold the tags of `text.render`."""

    id: str
    codename: str
    source: str
    text: str
    goals: tuple[str, str]
    relationship: Relationship
    age_constraint: str = ""
    occupation_constraint: str = ""
    agent_constraint: str = ""
    tag: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    """A scenario with the two people in it.

    Attributes:
        id: unique among all tasks, official and generated ones.
        scenario: the situation.
        people: roles 0 and 1; `scenario.goals` are theirs in this order.
        game: computes the goal scores from what was agreed; None where only a judge can tell.
        seed: what scripted partners draw from, their temperament for one.
    """

    id: str
    scenario: Scenario
    people: tuple[Person, Person]
    game: Game | None
    seed: int

    @property
    def content(self) -> list[Any]:
        """What is told, who the people are and what is drawn, as plain values; see `agentgym.core.TextEnv.content`.

        A game's payoffs are not repeated: the goals tell every one of them.
        """
        scenario, ids = self.scenario, ("id", "model_id", "tag")
        told = [scenario.source, scenario.text, scenario.goals, int(scenario.relationship)]
        people = [{name: value for name, value in asdict(each).items() if name not in ids} for each in self.people]
        return [told, people, self.seed]

    @property
    def names(self) -> tuple[str, str]:
        """Names of the two people."""
        return self.people[0].name, self.people[1].name
