import inspect
import math
from typing import Annotated, TypedDict

import numpy as np
import pytest

from tests.wrappers.credit.random_tables import random_table
from wrappers.credit.dapo import dapo
from wrappers.credit.gigpo import gigpo
from wrappers.credit.graphgpo import graphgpo
from wrappers.credit.grpo import grpo
from wrappers.credit.hgpo import hgpo
from wrappers.credit.options import choose, credit, option, presets, read_options
from wrappers.credit.reinforce_plus_plus import reinforce_plus_plus, reinforce_plus_plus_baseline
from wrappers.credit.rewardflow import rewardflow
from wrappers.credit.rloo import rloo

METHODS = [grpo, rloo, dapo, reinforce_plus_plus_baseline, gigpo, hgpo, rewardflow, graphgpo]


@pytest.mark.parametrize("method", METHODS)
def test_wrong_names_are_answered_with_the_right_ones(method):
    table = random_table(0)
    with pytest.raises(
        ValueError, match=r"unknown preset 'autors'; known: 'paper', 'authors'; did you mean 'authors'\?"
    ):
        method(table, preset="autors")
    with pytest.raises(ValueError, match=r"unknown preset \['paper'\]; known: 'paper'"):
        method(table, preset=["paper"])
    with pytest.raises(ValueError, match=r"unknown outcome array\(\[1, 2\]\); known: 'return'"):
        method(table, outcome=np.array([1, 2]))
    with pytest.raises(TypeError, match=r"unknown option 'singletons'; known: .*; did you mean 'singleton'\?"):
        method(table, singletons="zero")
    with pytest.raises(
        ValueError, match=r"unknown over 'step'; known: 'trajectories', 'steps'; did you mean 'steps'\?"
    ):
        method(table, over="step")
    with pytest.raises(TypeError, match=r"invalid_penalty must be a number, got '0.1'"):
        method(table, invalid_penalty="0.1")
    with pytest.raises(ValueError, match=r"invalid_penalty must be finite and at least 0, got nan"):
        method(table, invalid_penalty=math.nan)


def test_numbers_out_of_range():
    table = random_table(0)
    with pytest.raises(ValueError, match=r"gamma must be above 0, got 0"):
        rewardflow(table, gamma=0)
    with pytest.raises(ValueError, match=r"omega must be above 0 and at most 1, got 0"):
        graphgpo(table, omega=0)
    for gamma in (-0.1, 1.5):
        for method in (gigpo, hgpo, rewardflow, reinforce_plus_plus):
            with pytest.raises(ValueError, match=rf"gamma must be between 0 and 1, got {gamma}"):
                method(table, gamma=gamma)
    for ddof in (0.5, -1, 2):
        with pytest.raises(ValueError, match=rf"unknown ddof {ddof}; known: '0', '1'"):
            grpo(table, ddof=ddof)
    for method in METHODS:
        with pytest.raises(ValueError, match=r"invalid_penalty must be at least 0, got -0.1"):
            method(table, invalid_penalty=-0.1)
    for huge in (math.inf, 10**400):
        with pytest.raises(ValueError, match="eps must be finite and at least 0, got"):
            grpo(table, eps=huge)
    with pytest.raises(ValueError, match=r"eps must be at least 0, got -1"):
        grpo(table, eps=-1)
    with pytest.raises(TypeError, match=r"lose_last must be True or False, got 1"):
        rewardflow(table, lose_last=1)


@pytest.mark.parametrize("method", [rewardflow, graphgpo])
@pytest.mark.parametrize("words", ["look", ["look"], ("",), (1,)])
def test_words_of_actions_are_a_tuple(method, words):
    with pytest.raises(TypeError, match="no_change_actions must be a tuple of words"):
        method(random_table(0), no_change_actions=words)


def test_numbers_may_be_of_numpy():
    table = random_table(0)
    assert (gigpo(table, gamma=np.float32(0.5), ddof=np.int64(0)) == gigpo(table, gamma=0.5, ddof=0)).all()
    assert (gigpo(table, omega=np.int64(2)) == gigpo(table, omega=2)).all()


def test_an_option_overrides_the_preset():
    table = random_table(0)
    assert (gigpo(table, preset="authors", omega=0.0) == grpo(table, preset="authors", std="none")).all()


class Lunch(TypedDict, total=False):
    plates: Annotated[int, option(2, "how many", authors=3, low=1, high=9)]
    salt: Annotated[float, option(0.5, "in grams", above=0)]
    hot: Annotated[bool, option(True, "or cold")]
    guests: tuple[str, ...]


def test_presets_are_made_of_the_options():
    assert presets(Lunch) == {
        "paper": {"plates": 2, "salt": 0.5, "hot": True},
        "authors": {"plates": 3, "salt": 0.5, "hot": True},
    }
    changed = presets(Lunch, paper={"salt": 1.0}, authors={"hot": False})
    assert changed == {
        "paper": {"plates": 2, "salt": 1.0, "hot": True},
        "authors": {"plates": 3, "salt": 0.5, "hot": False},
    }


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"plates": 0}, ValueError, "plates must be between 1 and 9, got 0"),
        ({"plates": 10}, ValueError, "plates must be between 1 and 9, got 10"),
        ({"plates": 2.0}, TypeError, r"plates must be an integer, got 2\.0"),
        ({"plates": True}, TypeError, "plates must be an integer, got True"),
        ({"salt": 0}, ValueError, "salt must be above 0, got 0"),
        ({"salt": 1e101}, ValueError, r"salt must be finite and above 0, got 1e\+101, beyond 1e\+100"),
        ({"hot": 1}, TypeError, "hot must be True or False, got 1"),
        ({"guests": "Ada"}, TypeError, "guests must be a tuple of words, got 'Ada'"),
        ({"plate": 1}, TypeError, "unknown option 'plate'; known: .*; did you mean 'plates'"),
    ],
)
def test_what_is_given_is_checked_by_the_declaration(given, error, message):
    with pytest.raises(error, match=message):
        choose(Lunch, presets(Lunch), "paper", given)
    assert choose(Lunch, presets(Lunch), "authors", {"salt": 1})["salt"] == 1


def lunch_in(**presets):
    @credit(Lunch, **presets)
    def lunch(table, *, preset="paper", **options):
        """Return the bill.

        Args:
            table: where one sits.

        >>> 1
        1
        """
        return preset, options

    return lunch


def test_a_body_is_given_every_option_of_its_preset_and_those_of_the_caller():
    lunch = lunch_in(paper={"guests": ()}, authors={"guests": ("Ada",), "salt": 1.0})
    assert lunch(None) == ("paper", {"plates": 2, "salt": 0.5, "hot": True, "guests": ()})
    assert lunch(table=None, preset="authors", hot=False) == (
        "authors",
        {"plates": 3, "salt": 1.0, "hot": False, "guests": ("Ada",)},
    )
    assert read_options(lunch, {"plates": "4"}) == {"plates": 4}
    with pytest.raises(ValueError, match=r"unknown preset 'papers'; known: .*; did you mean 'paper'"):
        lunch(None, preset="papers")
    with pytest.raises(TypeError, match="unknown option 'plate'"):
        lunch(None, plate=1)


def test_a_preset_that_is_not_allowed_is_refused_where_it_is_declared():
    with pytest.raises(ValueError, match="plates must be between 1 and 9, got 10"):
        lunch_in(paper={"plates": 10})
    with pytest.raises(TypeError, match="unknown option 'plate'"):
        lunch_in(paper={"plate": 1})


def test_what_all_methods_have_in_common_is_added_to_the_documentation():
    assert inspect.getdoc(lunch_in(paper={"guests": ()})).splitlines()[:17] == [
        "Return the bill.",
        "",
        "Args:",
        "    table: where one sits.",
        '    preset: "paper".',
        "    **options: instead of the preset's; listed below.",
        "",
        "Returns:",
        "    float64 (N,), in the order of the table's rows.",
        "",
        "Raises:",
        "    ValueError: on an unknown preset or an option's value out of range.",
        "    TypeError: on an unknown option.",
        "",
        ">>> 1",
        "1",
        "",
    ]
