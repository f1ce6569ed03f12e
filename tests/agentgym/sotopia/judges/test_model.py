import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.sotopia.dialogue import DIMENSIONS, Rating
from agentgym.sotopia.judges import make_judge
from agentgym.sotopia.judges.model import VerdictError, read_verdict, verdict_schema
from agentgym.sotopia.players import make_player

FIRST = Rating(9, 2, 3, -1, 0, 1, 7)
SECOND = Rating(10, -5, 0, -10, -10, 5, 0)


def paper(ratings: tuple[Rating, Rating] = (FIRST, SECOND)) -> dict[str, Any]:
    return {f"agent_{i}_evaluation": pairs(rating) for i, rating in enumerate(ratings, 1)}


def pairs(rating: Rating) -> dict[str, Any]:
    return {name: [f"why {name}", score] for name, score in zip(DIMENSIONS, rating, strict=True)}


def mappings(rating: Rating) -> dict[str, Any]:
    return {name: {"reasoning": reason, "score": score} for name, (reason, score) in pairs(rating).items()}


FORMATS = {
    "paper": paper(),
    "pairs": {"evaluations": {"agent_1": pairs(FIRST), "agent_2": pairs(SECOND)}},
    "mappings": {"evaluations": {"agent_2": mappings(SECOND), "agent_1": mappings(FIRST)}},
}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    "text",
    [
        "%s",
        " \n%s\n",
        "```json\n%s\n```",
        "Here you are:\n```\n%s\n```\nThat is all.",
        "My verdict: %s.",
        '<think>{"evaluations": {} } {</think>%s',
    ],
)
def test_the_published_formats_are_read(form: str, text: str) -> None:
    verdict = read_verdict(text % json.dumps(FORMATS[form], indent=1))
    assert verdict.ratings == (FIRST, SECOND)
    assert verdict.reasons[1]["goal"] == "why goal"
    assert sum(FIRST) == 21  # 9 + 2 + 3 - 1 + 0 + 1 + 7
    assert sum(SECOND) == -10


def changed(**scores: Any) -> str:
    given = json.loads(json.dumps(FORMATS["pairs"]))
    for name, value in scores.items():
        given["evaluations"]["agent_2"][name] = value
    return json.dumps(given)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (changed(goal=["", 11]), "agent_2: goal is 11, outside 0..10"),
        (changed(goal=["", -1]), "outside 0..10"),
        (changed(secret=["", 1]), "secret is 1, outside -10..0"),
        (changed(relationship=["", 6]), "outside -5..5"),
        (changed(goal=["", 7.5]), "no whole number"),
        (changed(goal=["", "7"]), "no whole number"),
        (changed(goal=["", True]), "no whole number"),
        (changed(goal=["", None]), "no whole number"),
        (changed(goal=["", float("nan")]), "NaN is not a JSON number"),
        (changed(goal=["", float("inf")]), "Infinity is not a JSON number"),
        (changed(goal=[7, "the score first"]), "no whole number"),
        (changed(goal=7), "expected [reasoning, score]"),
        (changed(goal=["a", "b", 7]), "expected [reasoning, score]"),
        (changed(goal={}), "no whole number"),
        (json.dumps({"evaluations": {"agent_1": pairs(FIRST)}}), "expected exactly 'agent_1' and 'agent_2'"),
        (json.dumps({"evaluations": {**FORMATS["pairs"]["evaluations"], "agent_3": {}}}), "expected exactly"),
        (json.dumps({"evaluations": [1]}), "holds no object"),
        (json.dumps({"evaluations": {"agent_1": 1, "agent_2": 2}}), "agent_1 has no object"),
        (json.dumps({"agent_1": pairs(FIRST), "agent_2": pairs(SECOND)}), "'agent_1_evaluation'"),
        (json.dumps({"evaluations": {"agent_1": {}, "agent_2": {}}}), "lacks the dimension 'believability'"),
        (json.dumps(FORMATS["pairs"]) * 2, "one JSON object, got 2"),
        (json.dumps(FORMATS["pairs"])[:-3], "no JSON"),
        ('{"evaluations": {}, "evaluations": {}}', "stands twice in one object"),
        ('{"a": ' + "9" * 5_000 + "}", "no JSON"),
        ('{"a": ' * 100_000, "no JSON"),
        ("", "got 0"),
        ("I would say seven of ten.", "got 0"),
        ("[1, 2]", "got 0"),
        ("null", "got 0"),
    ],
)
def test_anything_else_is_refused_with_the_reason(text: str, words: str) -> None:
    with pytest.raises(VerdictError) as caught:
        read_verdict(text)
    assert words in str(caught.value)
    assert len(str(caught.value)) < 600


def test_whole_numbers_may_be_written_as_floats_and_other_keys_do_not_matter() -> None:
    text = changed(goal=["", 7.0], overall_score=["", 99])
    assert read_verdict(text).ratings[1].goal == 7
    assert isinstance(read_verdict(text).ratings[1].goal, int)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: (
    st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ["evaluations", "agent_1", "agent_2", "agent_1_evaluation", "agent_2_evaluation", "goal", "score"]
    ), inner, max_size=3)
)))  # fmt: skip
def test_no_value_raises_anything_else(value: Any) -> None:
    with pytest.raises(VerdictError):
        read_verdict(json.dumps(value))


def test_the_schema_asks_for_all_scores_in_their_ranges() -> None:
    agents = verdict_schema()["properties"]["evaluations"]["properties"]
    assert list(agents) == ["agent_1", "agent_2"]
    assert agents["agent_2"]["required"] == list(DIMENSIONS) == list(Rating._fields)
    assert agents["agent_1"]["properties"]["secret"]["properties"]["score"] == {
        "type": "integer", "minimum": -10, "maximum": 0,
    }  # fmt: skip


def test_partners_and_judges_by_name() -> None:
    mine = make_player("rules")
    assert make_player(mine) is mine
    assert make_judge("rules") is not None
    with pytest.raises(ValueError, match=r"unknown partner 'rule'.*did you mean 'rules'"):
        make_player("rule")
    with pytest.raises(ValueError, match="unknown judge"):
        make_judge("gpt")
    with pytest.raises(ValueError, match=r"must have act\(views\)"):
        make_player(5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"must have score\(dialogues\)"):
        make_judge(mine)  # type: ignore[arg-type]
