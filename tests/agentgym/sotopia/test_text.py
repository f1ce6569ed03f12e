"""Who sees what: six relationships and both roles, with every fact of a biography looked for by itself."""

import pytest

from agentgym.sotopia.profiles import Relationship
from agentgym.sotopia.text import ROLES, opening
from tests.agentgym.sotopia.made_up import ADA, BEN, make_task

NAME, PUBLIC, PERSONALITY = 1, 2, 3
#: How much of the partner is visible.
LEVELS = {
    "stranger": 0,
    "know_by_name": 1,
    "acquaintance": 2,
    "friend": 3,
    "romantic_relationship": 3,
    "family_member": 3,
}


def test_the_first_observation_to_the_character() -> None:
    assert opening(make_task(Relationship.acquaintance), 0) == (
        "\nHere is the context of this interaction:\n"
        "Scenario: Two people wait for a train.\n"
        "Participants: Ada Lund and Ben Noor\n"
        "Ada Lund's background: Ada Lund is a 31-year-old female sea captain. She/her pronouns. Ada keeps bees. "
        "Personality and values description: Ada is stubborn. Ada's secrets: Ada cannot swim.\n"
        "Ben Noor's background: Ben Noor is a 64-year-old male clown. He/him pronouns. Ben juggles.\n"
        "Ada Lund's goal: Get the window seat\n"
        "Ben Noor's goal: Unknown\n"
        "Conversation Starts:\n"
    )


@pytest.mark.parametrize("role", [0, 1])
@pytest.mark.parametrize("name", LEVELS)
def test_all_relationships_in_both_roles(name: str, role: int) -> None:
    task = make_task(Relationship[name])
    text, (me, other) = opening(task, role), ((ADA, BEN), (BEN, ADA))[role]
    lines = {line.partition(": ")[0]: line.partition(": ")[2] for line in text.splitlines() if ": " in line}
    own, seen = lines[f"{me.name}'s background"], lines[f"{other.name}'s background"]
    for fact in (me.name, me.occupation.lower(), me.public_info, me.personality_and_values, me.secret):
        assert fact in own
    level = LEVELS[name]
    assert (seen == "Unknown") == (level == 0)
    assert (other.name in seen) == (level >= NAME)
    for fact in (str(other.age), other.occupation.lower(), other.gender_pronoun, other.public_info):
        assert (fact in seen) == (level >= PUBLIC)
    assert (other.personality_and_values in seen) == (level >= PERSONALITY)
    assert other.secret not in text
    assert lines[f"{me.name}'s goal"] == task.scenario.goals[role]
    assert lines[f"{other.name}'s goal"] == "Unknown"
    assert lines["Participants"] == "Ada Lund and Ben Noor"


@pytest.mark.parametrize("relationship", list(Relationship))
def test_the_judge_sees_everything(relationship: Relationship) -> None:
    text = opening(make_task(relationship, text='A train. <p viewer="environment">It is late.</p>'), None)
    for person, goal in zip((ADA, BEN), make_task().scenario.goals, strict=True):
        assert person.secret in text
        assert f"{person.name}'s goal: {goal}" in text
    assert "It is late." in text


def test_tags_in_scenario_goals_and_biographies_are_for_their_viewer() -> None:
    task = make_task(
        text='A <p viewer="agent_0">zero</p><p viewer="agent_1">one</p>', goals=("<extra_info>x</extra_info>", "y")
    )
    for role, (mine, theirs) in enumerate((("zero", "one"), ("one", "zero"))):
        text = opening(task, role)
        assert f"Scenario: A {mine}\n" in text
        assert theirs not in text
        assert "<" not in text
    assert len(ROLES) == 2
