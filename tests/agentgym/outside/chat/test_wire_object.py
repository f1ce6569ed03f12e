import json
import math

import pytest

from agentgym.outside.chat.wire import only_object
from agentgym.outside.text import DataError


@pytest.mark.parametrize(
    "form", ["%s", "```json\n%s\n```", "So:\n```\n%s\n```\nDone {1}.", "It is %s.", "<think>{}{</think>%s"]
)
def test_the_object_is_found_bare_in_a_fence_within_prose_and_behind_thoughts(form: str) -> None:
    given = {"1": 2, "a": {"b": [1.5, None]}}
    assert only_object(form % json.dumps(given)) == given


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "got 0"),
        ("[1, 2]", "got 0"),
        ('{"a": 1} {"a": 1}', "got 2"),
        ('{"a": 1', "no JSON"),
        ('{"a": 1, "a": 2}', "stands twice in one object"),
        ('{"a": {"b": 1, "b": 2}}', "stands twice in one object"),
        ('{"a": ' * 100_000, "no JSON"),
        ('{"a": NaN}', "NaN is not a JSON number"),
        ('{"a": ' + "9" * 5_000 + "}", "an integer of 5000 digits"),
        ('{"a": 1e999}', "beyond all floats"),
    ],
)
def test_anything_else_is_refused_with_the_reason(text: str, words: str) -> None:
    with pytest.raises(DataError) as caught:
        only_object(text)
    assert words in str(caught.value)
    assert len(str(caught.value)) < 400


def test_the_caller_says_how_numbers_are_read() -> None:
    read = {"parse_constant": lambda _: math.inf, "parse_int": len}
    assert only_object('{"a": NaN, "b": 1234}', read) == {"a": math.inf, "b": 4}
