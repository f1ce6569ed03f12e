"""The player that knows only the texts, and the expert that knows everything."""

import pytest

from agentgym.searchqa.env import SearchQAEnv
from agentgym.searchqa.expert import next_command
from agentgym.searchqa.player import SearchQAPlayer, names_in
from agentgym.searchqa.question import Question
from tests.refusals import refuses


def played(env, reader, **options):
    """The last info of an episode."""
    observation, info = env.reset(options=options)
    over = False
    while not over:
        observation, _, over, _, info = env.step(reader.act(observation, info["admissible_actions"]))
    return info


@pytest.fixture(scope="module")
def env():
    return SearchQAEnv(split="test")


def test_it_finds_what_one_search_finds_and_answers_some_of_it(env):
    reader, infos = SearchQAPlayer(), []
    for source in ("one_hop", "comparison"):
        infos += [played(env, reader, data_source=source, index=index) for index in range(40)]
    assert sum(info["support_recall"] for info in infos) / 80 > 0.9
    assert sum(info["won"] for info in infos) / 80 > 0.3
    assert all(info["is_action_valid"] for info in infos)


def test_one_reader_plays_many_episodes_like_fresh_ones(env):
    reader = SearchQAPlayer(searches=2)
    for index in range(6):
        assert played(env, reader, index=index) == played(env, SearchQAPlayer(searches=2), index=index)


def test_it_answers_in_the_last_turn():
    short = SearchQAEnv(split="test", max_turns=1, last_turn="counted")
    assert played(short, SearchQAPlayer(), index=0)["search_count"] == 0
    refuses(ValueError, "at least 1", SearchQAPlayer, searches=0)


def test_comparisons_go_by_the_years_and_names_are_found() -> None:
    reader = SearchQAPlayer(searches=1)
    reader.act("Who was born earlier, Ada Bell or Iva Moll?", ())
    passages = (
        'Doc 1(Title: "Ada Bell") Ada Bell was born in Port Ulm in 1880.\n'
        'Doc 2(Title: "Iva Moll") Born in Ulm in 1843, Iva Moll was a poet.'
    )
    assert reader.act(f"<information>{passages}</information>", ()) == "<answer>Iva Moll</answer>"
    assert names_in("Was The Iron Gate made in Port Ulm or in the Kingdom of Zell?") == [
        "The Iron Gate", "Port Ulm", "Kingdom of Zell",
    ]  # fmt: skip
    assert names_in("who wrote it in 1911?") == []


QUESTION = Question("q", "Who?", ("Ada", "Bell"), "s", "train", ("1", "2"))
TITLES = {"1": "One", "2": "Two"}


@pytest.mark.parametrize(
    ("retrieved", "searches", "can_search", "expected"),
    [
        ((), 0, True, "<search> One </search>"),
        (("1",), 1, True, "<search> Two </search>"),
        (("2",), 1, True, "<search> One </search>"),
        (("1", "2"), 1, True, "<answer> Ada </answer>"),
        ((), 2, True, "<search> One </search>"),
        ((), 3, True, "<answer> Ada </answer>"),  # it does not find it
        ((), 0, False, "<answer> Ada </answer>"),
    ],
)
def test_the_expert_searches_for_what_is_missing(retrieved, searches, can_search, expected):
    assert next_command(QUESTION, TITLES, retrieved, searches, can_search=can_search) == expected
