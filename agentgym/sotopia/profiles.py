"""The records of SOTOPIA, and what each viewer sees of them in a dialogue's opening.

Each side sees its whole record, and the judge sees both. Of the other person a side sees:

| relationship | name | age, occupation, pronouns, public information | personality and values | secret, goal |
|---|---|---|---|---|
| stranger | no | no | no | no |
| known by name | yes | no | no | no |
| acquaintance | yes | yes | no | no |
| friend, romantic, family | yes | yes | yes | no |

The line of participants names both, as in SOTOPIA. In profile texts `<extra_info>`, `<strategy_hint>` and
`<clarification_hint>` are markers, and `<p viewer="...">` hides its content from all but one viewer; utterances have no
tags.
"""

import re
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any

from agentgym.sotopia.games.game import Game


class Relationship(IntEnum):
    """How well two people know each other."""

    stranger = 0
    know_by_name = 1
    acquaintance = 2
    friend = 3
    romantic_relationship = 4
    family_member = 5


@dataclass(frozen=True, slots=True)
class Person:
    """A character with the fields of SOTOPIA's agent profiles; `gender` is "Man", "Woman" or "Nonbinary"."""

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
        return f"{self.first_name} {self.last_name}"


@dataclass(frozen=True, slots=True)
class Scenario:
    """A situation and the goals of both; texts may hold the tags of `render`."""

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
    """A scenario with two people, roles 0 and 1; ids are unique among official and generated tasks.

    `game` computes the goal scores, None if only a judge can; `seed` is for scripted players.
    """

    id: str
    scenario: Scenario
    people: tuple[Person, Person]
    game: Game | None
    seed: int

    @property
    def content(self) -> list[Any]:
        """Scenario, people and seed as plain values (the goals' texts hold a game's payoffs); see `TextEnv.content`."""
        scenario, ids = self.scenario, ("id", "model_id", "tag")
        texts = [scenario.source, scenario.text, scenario.goals, int(scenario.relationship)]
        people = [{name: value for name, value in asdict(each).items() if name not in ids} for each in self.people]
        return [texts, people, self.seed]

    @property
    def names(self) -> tuple[str, str]:
        return self.people[0].name, self.people[1].name


#: The viewer that sees everything.
JUDGE = "environment"
#: The viewers of roles 0 and 1.
ROLES = ("agent_0", "agent_1")

_MARKS = ("extra_info", "strategy_hint", "clarification_hint")
#: Attempted tags; one that `_TAG` does not match is an error, since it would hide nothing.
_MEANT = re.compile(rf"<\s*+(?:/\s*+)?(?:{'|'.join(_MARKS)}|p)\b[^>]*+>?", re.IGNORECASE)
_TAG = re.compile(rf"""<(/?)({"|".join(_MARKS)}|p)(?:\s+viewer\s*=\s*(?:"([^"]*)"|'([^']*)'))?\s*>""")
UNKNOWN = "Unknown"
_GENDERS = {"Man": "male", "Woman": "female", "Nonbinary": "nonbinary"}


def render(text: str, viewer: str) -> str:
    """Return what a viewer, one of `ROLES` or `JUDGE`, sees of a profile text; ValueError for bad tags."""
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


def known_story(person: Person, relationship: int) -> str:
    """Return what another sees of a person in a `Relationship`."""
    known = Relationship(relationship)
    if known == Relationship.stranger:
        return UNKNOWN
    if known == Relationship.know_by_name:
        return person.name
    gender = _GENDERS.get(person.gender, person.gender.lower())
    story = (
        f"{person.name} is a {person.age}-year-old {gender} {person.occupation.lower()}. "
        f"{person.gender_pronoun} pronouns. {person.public_info}"
    )
    if known == Relationship.acquaintance:
        return story
    return f"{story} Personality and values description: {person.personality_and_values}"


def opening(task: Task, role: int | None) -> str:
    """Return the first observation of a role, for None the judge's; ValueError for unmatched tags."""
    viewer = JUDGE if role is None else ROLES[role]
    scenario, (first, second) = task.scenario, task.names
    stories, goals = [], []
    for i, person in enumerate(task.people):
        own = role is None or role == i
        story = known_story(person, Relationship.friend if own else scenario.relationship)
        if own:
            story += f" {person.first_name}'s secrets: {person.secret}"
        stories.append(render(story, viewer))
        goals.append(render(scenario.goals[i], viewer) if own else UNKNOWN)
    return (
        "\nHere is the context of this interaction:\n"
        f"Scenario: {render(scenario.text, viewer)}\n"
        f"Participants: {first} and {second}\n"
        f"{first}'s background: {stories[0]}\n"
        f"{second}'s background: {stories[1]}\n"
        f"{first}'s goal: {goals[0]}\n"
        f"{second}'s goal: {goals[1]}\n"
        "Conversation Starts:\n"
    )
