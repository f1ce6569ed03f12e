"""State keys for graph credit: what they merge, and that ends stay apart."""

import pytest

from agentgym.searchqa.env import SearchQAVectorEnv
from agentgym.searchqa.keys import documents_key, text_key
from tests.agentgym.searchqa.four_passages import QUESTIONS, Titles


def keys(key, *commands):
    """The key after each command of one episode."""
    envs = SearchQAVectorEnv(1, autoreset_mode="Disabled", questions=QUESTIONS, retriever=Titles(), top_k=1)
    observations, infos = envs.reset(options={"task_id": "country"})
    found = [key(observations[0], {name: column[0] for name, column in infos.items()})]
    for command in commands:
        observations, *_, infos = envs.step([command])
        found.append(key(observations[0], {name: column[0] for name, column in infos.items()}))
    return found


ADA, ULM = "<search>ada</search>", "<search>ulm</search>"


def test_the_set_of_passages_has_no_order_and_does_not_grow_by_repeats():
    one, other = keys(documents_key, ADA, ULM, ADA), keys(documents_key, ULM, ADA)
    assert one[0] == other[0]
    assert one[2] == one[3] == other[2] == "country | ['ada', 'ulm']"
    assert one[1] != other[1]


def test_texts_are_equal_when_the_last_search_found_the_same():
    one, other = keys(text_key, ADA, ULM), keys(text_key, ULM, ADA)
    assert one[1] == other[2]
    assert one[2] == other[1]


@pytest.mark.parametrize("key", [text_key, documents_key])
def test_ends_differ_from_each_other_and_from_what_was_before(key):
    right, wrong = keys(key, ADA, "<answer>Kingdom of Zell</answer>"), keys(key, ADA, "<answer>Oslo</answer>")
    none = keys(key, ADA, *["?"] * 4)
    ends = {right[-1], wrong[-1], none[-1]}
    assert len(ends) == 3
    assert not ends & {*right[:-1], *none[:-1]}
