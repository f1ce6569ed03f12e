import dataclasses
import inspect
import itertools
import math
import re
import warnings
from pathlib import Path
from typing import Annotated, Any, TypedDict

import numpy as np
import pytest

from agentgym.trajectory import StepTable
from tests.cases import cases
from tests.playing import filled
from tests.refusals import refuses
from tests.wrappers.credit.every_method import METHODS, beside
from tests.wrappers.credit.small_tables import close, random_table, random_trees
from website.tables import with_options
from wrappers.credit import gigpo, graphgpo, grpo, importance, options, rewardflow, vetta
from wrappers.credit.dapo import overlong_penalty
from wrappers.credit.options import choose, credit, declaration, declared, option, option_table, presets, read_options
from wrappers.credit.segments import by_count


def test_wrong_names_of_any_type_are_answered_with_the_right_ones() -> None:
    # What every method answers is in test_credit_contract.py.
    table = random_table(0)
    refuses(ValueError, "'paper', 'authors'; did you mean 'authors'", gigpo, table, preset="autors")
    refuses(ValueError, r"unknown preset \['paper'\]; known: 'paper'", gigpo, table, preset=["paper"])
    refuses(ValueError, r"unknown outcome array\(\[1, 2\]\); known: 'return'", gigpo, table, outcome=np.array([1, 2]))
    refuses(TypeError, "unknown option 'singletons'.*did you mean 'singleton'", gigpo, table, singletons="zero")
    refuses(ValueError, "unknown over 'step'; known: .*did you mean 'steps'", gigpo, table, over="step")
    for method, words in itertools.product((rewardflow, graphgpo), ("look", ["look"], ("",), (1,))):
        refuses(TypeError, "no_change_actions must be a tuple of words", method, table, no_change_actions=words)


def test_numbers_and_presets() -> None:
    table = random_table(0)
    refuses(ValueError, r"gamma must be above 0, got 0", rewardflow, table, gamma=0)
    refuses(ValueError, r"omega must be above 0 and at most 1, got 0", graphgpo, table, omega=0)
    for name, method in METHODS.items():
        discounts = {"gamma"} if name in ("aem", "milegpo") else {"gamma", "lam"}  # their lam is a weight
        for key, wrong in itertools.product(discounts & declared(method)[0].keys(), (-0.1, 1.5)):
            words = rf"{key} must be .*, got {wrong}"
            refuses(ValueError, words, method, table, **beside(name, table), **{key: wrong})
    for ddof in (0.5, -1, 2):
        refuses(ValueError, rf"unknown ddof {ddof}; known: '0', '1'", grpo, table, ddof=ddof)
    refuses(ValueError, r"invalid_penalty must be at least 0, got -0.1", grpo, table, invalid_penalty=-0.1)
    refuses(ValueError, r"eps must be at least 0, got -1", grpo, table, eps=-1)
    refuses(TypeError, r"lose_last must be True or False, got 1", rewardflow, table, lose_last=1)
    assert (gigpo(table, gamma=np.float32(0.5), ddof=np.int64(0)) == gigpo(table, gamma=0.5, ddof=0)).all()
    assert (gigpo(table, omega=np.int64(2)) == gigpo(table, omega=2)).all()
    assert (gigpo(table, preset="authors", omega=0.0) == grpo(table, preset="authors", std="none")).all()
    paper, authors = {"plates": 2, "salt": 0.5, "hot": True}, {"plates": 3, "salt": 0.5, "hot": True}
    assert presets(Lunch) == {"paper": paper, "authors": authors}
    changed = presets(Lunch, paper={"salt": 1.0}, authors={"hot": False})
    assert changed == {"paper": paper | {"salt": 1.0}, "authors": authors | {"hot": False}}
    refuses(ValueError, "plates must be between 1 and 9, got 10", lunch_in, paper={"plates": 10})
    refuses(TypeError, "unknown option 'plate'", lunch_in, paper={"plate": 1})


class Lunch(TypedDict, total=False):
    plates: Annotated[int, option(2, "how many", authors=3, low=1, high=9)]
    salt: Annotated[float, option(0.5, "in grams", above=0)]
    hot: Annotated[bool, option(True, "or cold")]
    guests: tuple[str, ...]


@cases(
    "given, error, message",
    ({"plates": 0}, ValueError, "plates must be between 1 and 9, got 0"),
    ({"plates": 10}, ValueError, "plates must be between 1 and 9, got 10"),
    ({"plates": 2.0}, TypeError, r"plates must be an integer, got 2\.0"),
    ({"plates": True}, TypeError, "plates must be an integer, got True"),
    ({"salt": 0}, ValueError, "salt must be above 0, got 0"),
    ({"salt": 1e101}, ValueError, r"salt must be finite and above 0, got 1e\+101, beyond 1e\+100"),
    ({"hot": 1}, TypeError, "hot must be True or False, got 1"),
    ({"guests": "Ada"}, TypeError, "guests must be a tuple of words, got 'Ada'"),
    ({"plate": 1}, TypeError, "unknown option 'plate'; known: .*; did you mean 'plates'"),
)
def test_what_is_given_is_checked_by_the_declaration(given, error, message):
    refuses(error, message, choose, Lunch, presets(Lunch), "paper", given)
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
    refuses(ValueError, r"unknown preset 'papers'; known: .*; did you mean 'paper'", lunch, None, preset="papers")
    refuses(TypeError, "unknown option 'plate'", lunch, None, plate=1)
    # What all methods have in common is added to the documentation.
    doc = inspect.getdoc(lunch_in(paper={"guests": ()}))
    options = "    **options: instead of the preset's; listed below.\n\nReturns:\n    float64 (N,)"
    assert doc.startswith(f'Return the bill.\n\nArgs:\n    table: where one sits.\n    preset: "paper".\n{options}')
    assert "    TypeError: on an unknown option, or a value of the wrong type.\n\n>>> 1\n1\n\n" in doc


#: Method, preset, option, and the type of its numbers.
OPTIONS = [
    (name, preset, option, kind)
    for name, method in METHODS.items()
    for option, kind in declared(method)[0].items()
    if kind in (int, float)
    for preset in declared(method)[1]
]
#: Ends of ranges, and what is near them; and what is beyond them, or no number at all.
NUMBERS = (
    0, 0.0, 1, -1, 0.5, 1.5, 2, 5e-324, -5e-324, 1e-300, 1e-100, 1e-17, 1 - 2**-53, 1e100, -1e100, 2**70,
    np.float32(0.5), np.int64(3),
)  # fmt: skip
REFUSED = (1e101, 10**400, math.nan, math.inf, -math.inf, "1", None, True, [1.0])


WALKS = random_table(1, groups=2, size=4, steps=6, win=0.5)
TABLES: dict[str, StepTable] = {
    "walks": WALKS,
    "trees": random_trees(3, groups=2, size=3, steps=6, win=0.5, branches=4),
    "tiny rewards": dataclasses.replace(WALKS, reward=WALKS.reward * 1e-200),
    "huge rewards": dataclasses.replace(WALKS, reward=WALKS.reward * 1e100),
}


@pytest.mark.parametrize("name", METHODS)
def test_a_number_gives_finite_credit_or_an_error_that_names_it(name: str) -> None:
    method = METHODS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for (_, preset, key, kind), table in itertools.product(
            (row for row in OPTIONS if row[0] == name), TABLES.values()
        ):
            given: dict[str, Any] = beside(name, table) | {"preset": preset}
            scored = ~np.isnan(method(table, **given))
            for number in NUMBERS:
                try:
                    found = method(table, **given, **{key: number})
                except ValueError as error:
                    assert re.search(f"{key}.* must be .*got ", str(error), re.DOTALL)  # noqa: PT017
                except TypeError as error:
                    assert kind is int
                    assert not isinstance(number, (int, np.integer))
                    assert f"{key} must be an integer, got {number!r}" == str(error)  # noqa: PT017
                else:
                    assert not np.isinf(found).any(), (preset, key, number, table)
                    # Which groups it leaves out is what RAGEN-2's options are about.
                    assert name == "ragen2" or not np.isnan(found[scored]).any(), (preset, key, number)
            for number in REFUSED if table is TABLES["walks"] else ():
                refuses((ValueError, TypeError), f"^{key} must be .*, got ", method, table, **given, **{key: number})


#: Numbers that only hurt beside another option, or extreme rewards.
TOGETHER: list[tuple[str, str, dict[str, Any]]] = [
    ("grpo", "tiny rewards", {"preset": "authors", "over": "trajectories", "eps": 5e-324}),
    ("frontier", "tiny rewards", {"eps": 5e-324}),
    ("igpo", "tiny rewards", {"compare": "separate", "eps": 5e-324}),
    ("igpo", "huge rewards", {"std": "none", "invalid_penalty": 1e100}),
    ("prime", "huge rewards", {"preset": "authors", "outcome": "return", "alpha_trajectory": 1e100}),
    ("rewardflow", "huge rewards", {"values": "propagated", "shaping_gamma": 1.0}),
    ("graphgpo_filled", "walks", {"beta_graph": 1e100}),
]


@pytest.mark.parametrize(("name", "rewards", "options"), TOGETHER)
def test_numbers_that_hurt_together_stay_finite(name: str, rewards: str, options: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(METHODS[name](TABLES[rewards], **beside(name, TABLES[rewards]), **options)).all()


def test_numbers_whose_squares_vanish_stay_finite_and_those_of_functions_without_presets_are_checked() -> None:
    for name in ("reinforce_plus_plus", "reinforce_plus_plus_baseline"):
        # Rewards of 1e-200 differ, and their variance is 1e-400, which is 0 in floating point.
        assert 0 < np.abs(METHODS[name](TABLES["tiny rewards"], eps=0.0)).max() < 1e-199
        # As above the other way round: 4, 4, 0 without eps are 1/sqrt(3), 1/sqrt(3), -2/sqrt(3).
        table = filled(trajectory=[0, 1, 2], t=[0, 0, 0], reward=[4, 4, 0])
        close(METHODS[name](table, eps=0.0), np.array([1, 1, -2]) / np.sqrt(3))
    ones, ends = np.ones((1, 2)), [[False, True]]
    for alpha in (math.nan, math.inf, -1.0, 1e101):
        with pytest.raises(ValueError, match="alpha must be finite and at least 0"):
            vetta([[0.0, 1.0]], ones, [[True, True]], ends, alpha=alpha)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(importance(-ones, -2 * ones, [[True, True]], beta=5e-324)).all()
    for floor in (math.nan, math.inf):
        with pytest.raises(ValueError, match="floor must be a finite number, or None"):
            overlong_penalty([3], max_length=2, buffer=1, floor=floor)
    for k in (0, 1.5, math.nan, True):
        refuses(ValueError, "k must be an integer of at least 1, got", by_count, TABLES["walks"], k)


PAGES = Path(__file__).parents[3] / "docs" / "credit"


# Those of `graphgpo_filled` are graphgpo's and a share, which the page on attribution names.
@pytest.mark.parametrize("function", sorted(METHODS.keys() - {"graphgpo_filled"}))
def test_one_page_names_the_options_of_a_method_and_the_site_shows_them(function: str) -> None:
    texts = [page.read_text("utf-8") for page in sorted(PAGES.glob("*.md"))]
    (text,) = [text for text in texts if f"\nOptions: `help({function})`.\n" in text]
    kind, known = declaration(METHODS[function])
    shown = with_options(text).split(f"\nOptions: `help({function})`.\n")[1].split("\n\n", 2)[:2]
    for name in kind.__annotations__:
        assert f"`{name}`" in "\n".join(shown)
        own = [row.split(" | ")[1] for row in shown[0].splitlines() if row.startswith(f"| `{name}` |")]
        assert not own or own[0].startswith(f"`{next(iter(known.values()))[name]!r}`")


@pytest.mark.parametrize("function", METHODS)
def test_the_documentation_of_the_function_lists_every_option(function: str) -> None:
    kind, known = declaration(METHODS[function])
    text = inspect.getdoc(METHODS[function])
    listed = re.findall(r"^    (\w+) \(", text[text.index("\nOptions:") :], re.MULTILINE)
    assert sorted(listed) == sorted(kind.__annotations__)
    assert all(sorted(values) == sorted(listed) for values in known.values())
    assert max(map(len, text.splitlines())) <= 116


def test_a_table_by_hand() -> None:
    presets = options.presets(options.OutcomeOptions, paper={"outcome": "won"}, authors={})
    rows = option_table(options.OutcomeOptions, presets).splitlines()
    assert rows[:2] == ["| option | default (`paper`) | meaning |", "|---|---|---|"]
    assert rows[2] == (
        "| `invalid_penalty` | `0.0`; authors `0.1` | Subtracted for every step whose action was not valid; 0 for "
        "none. Values: number at least 0. |"
    )
    assert rows[4].startswith("| `outcome` | `'won'`; authors `'return'` | Worth of an episode: ")
