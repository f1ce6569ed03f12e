"""Lines of scripts: what they say, against the pattern that defines them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.virtualhome.actions import RULES
from agentgym.virtualhome.commands import PARAMETERS, Line, LineError, parse_line

THINGS = re.compile(r"<(.+?)>\s*\((.+?)\)")


def naive(text: str) -> list[tuple[str, str]]:
    found = []
    match = THINGS.search(text)
    while match:
        found.append((match[1], match[2]))
        text = text[match.end(2) :]
        match = THINGS.search(text)
    return found


def test_there_are_42_actions_that_can_be_done() -> None:
    assert len(RULES) == 42
    assert set(PARAMETERS) - set(RULES) == {"LOOKAT_SHORT", "LOOKAT_LONG"}


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
