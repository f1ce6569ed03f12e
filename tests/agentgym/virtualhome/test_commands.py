import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.virtualhome.commands import PARAMETERS, PLACE, TEMPLATES, Words
from agentgym.virtualhome.scene import Scene
from tests.agentgym.virtualhome.small_houses import EDGES, NODES

WORDS = Words(Scene(NODES, EDGES))


def test_every_action_of_the_simulator_that_does_something_has_a_command() -> None:
    assert set(TEMPLATES) == set(PARAMETERS) - {"LOOKAT_SHORT", "LOOKAT_LONG"}
    assert all(TEMPLATES[action].count("{}") == PARAMETERS[action] for action in TEMPLATES)
    assert len(set(TEMPLATES.values())) == len(TEMPLATES)


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


def test_numbers_follow_the_ids() -> None:
    assert str(WORDS.line("grab mug 1")) == "[GRAB] <mug> (20)"
    assert str(WORDS.line("grab mug 2")) == "[GRAB] <mug> (21)"
    assert str(WORDS.line("put mug 2 on kitchen table 1")) == "[PUTBACK] <mug> (21) <kitchen_table> (10)"


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
