"""Actions as lines of scripts and as commands in words."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.virtualhome.actions import RULES
from agentgym.virtualhome.commands import PARAMETERS, PLACE, TEMPLATES, Line, LineError, Words, parse_line
from agentgym.virtualhome.scene import Scene
from tests.agentgym.virtualhome.small_houses import EDGES, NODES

THINGS = re.compile(r"<(.+?)>\s*\((.+?)\)")


def naive(text: str) -> list[tuple[str, str]]:
    found = []
    match = THINGS.search(text)
    while match:
        found.append((match[1], match[2]))
        text = text[match.end(2) :]
        match = THINGS.search(text)
    return found


def test_every_action_has_a_command_and_numbers_follow_the_ids() -> None:
    assert len(RULES) == 42
    assert set(PARAMETERS) - set(RULES) == {"LOOKAT_SHORT", "LOOKAT_LONG"}
    assert set(TEMPLATES) == set(PARAMETERS) - {"LOOKAT_SHORT", "LOOKAT_LONG"}
    assert all(TEMPLATES[action].count("{}") == PARAMETERS[action] for action in TEMPLATES)
    assert len(set(TEMPLATES.values())) == len(TEMPLATES)
    assert str(WORDS.line("grab mug 1")) == "[GRAB] <mug> (20)"
    assert str(WORDS.line("grab mug 2")) == "[GRAB] <mug> (21)"
    assert str(WORDS.line("put mug 2 on kitchen table 1")) == "[PUTBACK] <mug> (21) <kitchen_table> (10)"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[WALK] <dining_room> (201)", Line("WALK", (("dining_room", 201),))),
        ("  [putin] <Food Food> ( 7 )<freezer>(8) [0] ", Line("PUTIN", (("food_food", 7), ("freezer", 8)))),
        ("[LOOKAT_MEDIUM] <tv> (1)", Line("LOOKAT", (("tv", 1),))),
        ("[SLEEP]", Line("SLEEP")),
        ("[WALK] <a> b> (1_0)", Line("WALK", (("a>_b", 10),))),
        ("[WALK] <a>\n(3)", Line("WALK", (("a", 3),))),
    ],
)
def test_what_lines_say(text: str, line: Line) -> None:
    assert parse_line(text) == line
    assert parse_line(str(line)) == line


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("walk to sink 4", "ScriptParseException: Cannot parse action"),
        ("", "ScriptParseException: Cannot parse action"),
        ("[FLY] <cup> (1)", 'ScriptParseException: Unknown action "FLY"'),
        ("[walk]", 'ScriptParseException: Wrong number of parameters for "WALK". Got 0, expected 1'),
        ("[STANDUP] <a> (1)", 'ScriptParseException: Wrong number of parameters for "STANDUP". Got 1, expected 0'),
        ("[PUTIN] <a> (1)", 'ScriptParseException: Wrong number of parameters for "PUTIN". Got 1, expected 2'),
        ("[WALK] <a\nb> (1)", 'ScriptParseException: Wrong number of parameters for "WALK". Got 0, expected 1'),
        ("[WALK] <cup> (1.6)", "ValueError"),
        ("[SLEEP] <cup> (one)", "ValueError"),
        (f"[WALK] <cup> ({'9' * 5000})", "ValueError"),
    ],
)
def test_what_lines_do_not_say(text: str, said: str) -> None:
    with pytest.raises(LineError) as error:
        parse_line(text)
    assert str(error.value) == said


@given(st.text("<>() 1a\n", max_size=30))
def test_things_are_found_as_the_pattern_finds_them(text: str) -> None:
    found = naive(text)
    try:
        things = parse_line(f"[PUTIN]{text}").things
    except LineError as error:
        assert str(error) == "ValueError" or len(found) != 2  # noqa: PT017  # an error is one of two answers
    else:
        assert things == tuple((name.lower().replace(" ", "_"), int(number)) for name, number in found)


@pytest.mark.parametrize("part", ["<", "<a>(", "<a> ", "<a>(\n", "<a\n", ">(", "<a>\n\n\n", "<a> (1)"])
def test_long_lines_are_read_at_once(part: str) -> None:
    """A quadratic reader needs minutes for these."""
    with pytest.raises(LineError):
        parse_line("[WALK]" + part * (1_000_000 // len(part)))


WORDS = Words(Scene(NODES, EDGES))


@pytest.mark.parametrize("action", TEMPLATES)
def test_a_command_says_what_it_was_made_of(action: str) -> None:
    scene = WORDS.scene
    nodes = [node for node in range(scene.size) if node != scene.character]
    for first in nodes:
        for second in nodes if PARAMETERS[action] > 1 else nodes[:1]:
            chosen = (first, second)[: PARAMETERS[action]]
            command = WORDS.say(action, *chosen)
            line = WORDS.line(f" {command}\n")
            assert line is not None
            assert line.action == action
            assert line.things == tuple((scene.names[node], scene.ids[node]) for node in chosen)
            assert WORDS.said(line) == command
            if len(chosen) == 1:
                assert WORDS.phrases[first].each[PLACE[action]] == command


@pytest.mark.parametrize(
    "text",
    ["", "grab", "grab ", "grab mug", "grab mug 3", "GRAB mug 1", "grab  mug 1", "grab you", "walk to you", "sleep now",
     "put mug 1 on", "put on", "put mug 1 on mug 1 on mug 1", "fly to mug 1", "[GRAB] <mug> (20)", "put  on mug 1"],
)  # fmt: skip
def test_what_is_no_command(text: str) -> None:
    assert WORDS.line(text) is None


@given(st.text(max_size=60) | st.sampled_from(sorted(TEMPLATES.values())).map(lambda text: text.replace("{}", "mug 1")))
def test_any_text_is_read(text: str) -> None:
    line = WORDS.line(text)
    assert line is None or WORDS.said(line) == text.strip()
