"""What is shown: the opening of a dialogue for either side and for the judge, from profile texts with tags.

| relationship | name | age, occupation, pronouns, public information | personality and values | secret, goal |
|---|---|---|---|---|
| stranger | no | no | no | no |
| known by name | yes | no | no | no |
| acquaintance | yes | yes | no | no |
| friend, romantic, family | yes | yes | yes | no |

This is what a side sees of the other. Everyone sees all of themselves, and the judge sees all of both. The names of
both are in the line of participants, as in SOTOPIA, even between strangers.

In profile texts `<extra_info>`, `<strategy_hint>` and `<clarification_hint>` only mark what they hold, and
`<p viewer="...">` hides it from all but one viewer. Nothing else is a tag, so that `3 < 5 & <b>` stays as it is. Only
profiles are rendered: what people say in a dialogue never comes here.
"""

from __future__ import annotations

import re

from agentgym.sotopia.profiles import Person, Relationship, Task

#: Who sees what only the judge may: the judge also sees everything else.
JUDGE = "environment"
#: The viewers of roles 0 and 1.
ROLES = ("agent_0", "agent_1")

_MARKS = ("extra_info", "strategy_hint", "clarification_hint")
#: What is meant as a tag; one that is not written as `_TAG` wants it is an error, lest it hide nothing.
_MEANT = re.compile(rf"<\s*+(?:/\s*+)?(?:{'|'.join(_MARKS)}|p)\b[^>]*+>?", re.IGNORECASE)
_TAG = re.compile(rf"""<(/?)({"|".join(_MARKS)}|p)(?:\s+viewer\s*=\s*(?:"([^"]*)"|'([^']*)'))?\s*>""")
UNKNOWN = "Unknown"
_GENDERS = {"Man": "male", "Woman": "female", "Nonbinary": "nonbinary"}


def render(text: str, viewer: str) -> str:
    """Return what one viewer sees of a profile text.

    Args:
        text: a scenario, a goal or a part of a biography.
        viewer: one of `ROLES`, or `JUDGE`, who sees everything.

    Raises:
        ValueError: when tags do not match or are not understood, so that it is not clear what is hidden from whom.

    >>> render('A party. <p viewer="environment">Both know Kim.</p> (<extra_info>You sing.</extra_info>)', "agent_0")
    'A party.  (You sing.)'
    """
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
    """Return what another sees of a person in a `Relationship`, or its number."""
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
        ValueError: when the tags of a profile text do not match (see `render`).
    """
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
