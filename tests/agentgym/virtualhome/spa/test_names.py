"""Action strings as the papers' wrapper reads them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.virtualhome.actions import RULES
from agentgym.virtualhome.spa.names import EMPTY, TEMPLATES, action_of, open_line


def test_every_action_can_be_said() -> None:
    assert set(TEMPLATES) == set(RULES)


@pytest.mark.parametrize("action", sorted(set(TEMPLATES) - {"RELEASE"}))
def test_what_is_said_by_template_is_that_action(action: str) -> None:
    count = TEMPLATES[action].count("{}")
    said = TEMPLATES[action].format(*["coffee table", "mug"][:count])
    things = ["<coffee_table> (1)", "<mug> (1)"][:count]
    assert open_line(said) == " ".join([f"[{action}]", *things])
    assert open_line(f"Step 1: {said.upper()} ") == " ".join([f"[{action}]", *things])


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("walk to  sink", "[WALK] <_sink> (1)"),
        ("put a on b on c", "[PUTBACK] <a> (1) <b_on_c> (1)"),
        ("put a in b on c", "[PUT] <a_in_b_on_c> (1)"),  # on and in: two actions
        ("put back cup on table", "[PUT] <back_cup_on_table> (1)"),
        ("Put Off coat", "[PUT] <Off> (1) <coat> (1)"),
        ("release cup", "[RELEASE] <cup> (1)"),
        ("release", "[RELEASE]"),
        ("fly", "[FLY]"),
        ("look around", "[LOOK] <around> (1)"),
        ("Go to The Fridge", "[GO] <to_The_Fridge> (1)"),
        ("a:", EMPTY),
        (":", EMPTY),
        ("", None),
        (" \n", None),
        ("walk to " + "x" * 1000, EMPTY),
    ],
)
def test_what_is_said_otherwise(said: str, line: str | None) -> None:
    assert open_line(said) == line


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("Thought: cold.\nAction: Grab jacket\n", "Grab jacket"),
        ("Action:sit on sofa", "sit on sofa"),
        ("Action:  sit", " sit"),
        ("Action: sit\nAction: stand up", "sit\nAction: stand up"),
        ("Action: ", ""),
        ("I think so.", None),
        ("action: sit", None),
    ],
)
def test_the_action_of_a_reply(reply: str, action: str | None) -> None:
    assert action_of(reply) == action


@given(st.text(st.sampled_from("put onisackgrbwl :<>[]1"), max_size=40))
def test_a_line_begins_with_an_action_in_brackets(said: str) -> None:
    line = open_line(said)
    assert line is None or re.match(r"\[.*\]", line)
    assert (line is None) == (not said.strip())
