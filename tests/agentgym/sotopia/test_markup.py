"""Tags of profile texts."""

import pytest

from agentgym.sotopia.text import JUDGE, ROLES, render

HIDDEN = 'At a party. <p viewer="environment">Both know Alvin.</p>'


def test_what_only_the_judge_may_see_reaches_nobody_else() -> None:
    assert [render(HIDDEN, role) for role in ROLES] == ["At a party.", "At a party."]
    assert render(HIDDEN, JUDGE) == "At a party. Both know Alvin."


@pytest.mark.parametrize("quote", ['"', "'"])
def test_a_part_for_one_role(quote: str) -> None:
    text = f"a <p viewer={quote}agent_1{quote}>secret</p> b"
    assert [render(text, viewer) for viewer in (*ROLES, JUDGE)] == ["a  b", "a secret b", "a secret b"]


def test_hints_lose_their_tags_and_keep_their_text() -> None:
    text = "Sell (<extra_info>for $5</extra_info>) <strategy_hint>smile</strategy_hint>"
    assert render(f"{text}<clarification_hint>!</clarification_hint>", ROLES[0]) == "Sell (for $5) smile!"


def test_what_is_hidden_stays_hidden_inside_and_around_other_tags() -> None:
    text = 'x<p viewer="agent_0">1<extra_info>2</extra_info><p viewer="all">3</p><p viewer="agent_1">4</p></p>y'
    assert [render(text, viewer) for viewer in (*ROLES, JUDGE)] == ["x123y", "xy", "x1234y"]
    assert render('<extra_info viewer="agent_1">z</extra_info>', ROLES[0]) == ""
    assert render('<p viewer="agent_01">z</p><p viewer="">z</p>', ROLES[0]) == ""


@pytest.mark.parametrize(
    "text", ["3 < 5 > 2", "a <b>bold</b> & <answer>", "q < pp", "<paragraph>", "&lt;p&gt;", "<extra info>"]
)
def test_anything_else_is_text(text: str) -> None:
    assert render(text, ROLES[0]) == text


@pytest.mark.parametrize(
    "text",
    [
        '<p viewer="agent_1">open', "</p>", "<extra_info>a</strategy_hint>",
        '<p viewer="agent_1"><extra_info>a</p></extra_info>', "<P viewer='agent_1'>x</P>", "<p viewer=agent_1>x</p>",
        '<p class="a" viewer="agent_1">x</p>', "< p viewer='agent_1'>x</p>", '<p viewer="agent_1', "<p/>",
    ],
)  # fmt: skip
def test_tags_that_do_not_match_are_an_error_and_no_leak(text: str) -> None:
    with pytest.raises(ValueError, match="profile text"):
        render(text, ROLES[0])
