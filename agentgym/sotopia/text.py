"""Who may see what: the opening text of a dialogue for either side, and for the judge.

| relationship | name | age, occupation, pronouns, public information | personality and values | secret, goal |
|---|---|---|---|---|
| stranger | no | no | no | no |
| known by name | yes | no | no | no |
| acquaintance | yes | yes | no | no |
| friend, romantic, family | yes | yes | yes | no |

This is what a side sees of the other. Everyone sees all of themselves, and the judge sees all of both. The names of
both are in the line of participants, as in SOTOPIA, even between strangers.
"""

from __future__ import annotations

from agentgym.sotopia.markup import JUDGE, ROLES, render
from agentgym.sotopia.profiles import Person, Relationship, Task

UNKNOWN = "Unknown"
_GENDERS = {"Man": "male", "Woman": "female", "Nonbinary": "nonbinary"}


def whole_story(person: Person) -> str:
    """Return all that is known of a person, as they themselves see it."""
    return f"{known_story(person, Relationship.friend)} {person.first_name}'s secrets: {person.secret}"


def known_story(person: Person, relationship: int) -> str:
    """Return what another sees of a person in a relationship.

    Args:
        person: who is seen.
        relationship: a `Relationship` or its number.
    """
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
    """Return the first observation of a role, or with None the judge's: context, people, goals.

    Raises:
        ValueError: when the tags of a profile text do not match (see `markup.render`).
    """
    viewer = JUDGE if role is None else ROLES[role]
    scenario, (first, second) = task.scenario, task.names
    stories, goals = [], []
    for i, person in enumerate(task.people):
        own = role is None or role == i
        story = whole_story(person) if own else known_story(person, scenario.relationship)
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
