"""What every credit method of the registry must satisfy, in every preset."""

import dataclasses
import inspect
import re
from typing import Any, Literal, get_args, get_origin

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wrappers.credit
from agentgym.trajectory import StepTable
from tests.refusals import refuses
from tests.wrappers.credit.every_method import ARGUMENTS, BRANCHING, EMPTY, METHODS, ONE, WITH_PRESETS, beside
from tests.wrappers.credit.small_tables import close, random_table, random_trees, rebuild
from wrappers.credit import CreditWrapper
from wrappers.credit.options import declared

#: There are 67 methods and presets, and most share their code.
fewer = settings(max_examples=settings().max_examples // 2)
#: Presets whose statistics are over the batch, and not over each group alone.
OVER_THE_BATCH = {"empg", "ragen2", "reinforce_plus_plus", "reinforce_plus_plus_baseline"}
WHITENED = {("prime", "authors"), ("vine", "authors"), ("rlcsd", "paper"), ("rlcsd", "soft")}
#: What a lone episode with return 3 scores in the presets of the papers, where that is not 0; the rewards and targets
#: that are no comparison are tested elsewhere.
LONE = {
    ("dapo", "paper"): np.nan, ("dapo", "authors"): np.nan, ("ragen2", "paper"): np.nan, ("vine", "paper"): np.nan,
    ("frontier", "default"): 0.1, ("attribution", "default"): 0.5, ("action_targets", "paper"): 1.0,
    ("action_targets", "authors"): 1.0, ("potential", "g2po_authors"): 3.0,
    ("gigpo", "authors"): 3.0, ("graphgpo", "authors"): 3.0, ("graphgpo_filled", "authors"): 3.0,
    ("grpo", "authors"): 3.0, ("rewardflow", "authors"): 3.0, ("rloo", "authors"): 3.0, ("tree_grpo", "authors"): 3.0,
}  # fmt: skip
NO_COMPARISON = {"spa", "hisr", "gae", "prime", "process_reward", "istar", "rlsd", "rlcsd"}
NEEDING_MORE = ("mean", "components")  # outcomes from 0 to 1, a table with components
#: Options with a choice of words, and each of their words.
WORDS = {
    name: [
        (option, value)
        for option, kind in declared(method)[0].items()
        for value in (get_args(kind) if get_origin(kind) is Literal else ())
        if isinstance(value, str) and value not in NEEDING_MORE
    ]
    for name, method in METHODS.items()
}


def played(name: str, seed: int, **options: Any) -> StepTable:
    return (random_trees if name in BRANCHING else random_table)(seed, **options)


@pytest.mark.parametrize(("name", "preset"), WITH_PRESETS)
@given(seed=st.integers(0, 10**6))
@fewer
def test_names_and_order_do_not_matter_and_nothing_is_changed(name: str, preset: str, seed: int) -> None:
    # RewardFlow's node rewards are those of the first sight, a matter of order once a win can be missed.
    table = played(name, seed, **({"win": 1.0} if name == "rewardflow" else {}))
    rows = np.random.default_rng(seed).permutation(len(table))
    # SPA's authors read the text of the next state, which renaming would hide.
    rename = (lambda key: ("node", key[::-1])) if (name, preset) != ("spa", "authors") else str
    shuffled = rebuild(table, rows, rename=rename, relabel=lambda key: (len(key), key))
    before = {field.name: np.array(getattr(table, field.name)) for field in dataclasses.fields(table) if field.init}
    found = METHODS[name](table, preset=preset, **beside(name, table))
    close(METHODS[name](shuffled, preset=preset, **beside(name, shuffled, rows, len(table))), found[rows])
    for column, values in before.items():
        assert str(values) == str(np.array(getattr(table, column))), column


@pytest.mark.parametrize(
    ("name", "preset"), [each for each in WITH_PRESETS if each[0] not in OVER_THE_BATCH and each not in WHITENED]
)
@given(seed=st.integers(0, 10**6))
@fewer
def test_groups_do_not_see_each_other(name: str, preset: str, seed: int) -> None:
    table = played(name, seed)
    whole = METHODS[name](table, preset=preset, **beside(name, table))
    for group in range(table.n_groups):
        rows = np.flatnonzero(table.group == group)
        alone = rebuild(table, rows)
        close(METHODS[name](alone, preset=preset, **beside(name, alone, rows, len(table))), whole[rows])


@pytest.mark.parametrize(
    ("name", "preset"), [each for each in WITH_PRESETS if each[0] not in ARGUMENTS or each[0] in ("aem", "hcapo")]
)
@given(seed=st.integers(0, 10**6))
@fewer
def test_batches_that_all_fail_score_exactly_0(name: str, preset: str, seed: int) -> None:
    table = played(name, seed, win=0.0)
    # MileGPO alone has something to say of groups that fail throughout: where they came back to.
    options = {option: 0.0 for option in ("invalid_penalty", "w_trap") if option in declared(METHODS[name])[0]}
    found = METHODS[name](table, preset=preset, **options, **beside(name, table))
    if (name, preset) != ("action_targets", "authors"):  # a lost episode is worth more at its beginning
        assert not np.nan_to_num(found).any()
    assert np.isnan(found).all() if name == "dapo" else name in ("ragen2", "vine") or not np.isnan(found).any()


@pytest.mark.parametrize(("name", "preset"), WITH_PRESETS)
def test_no_rows_and_one_row(name: str, preset: str) -> None:
    for option, value in [("preset", preset), *(WORDS[name] if name != "potential" else ())]:
        options = {"preset": preset, option: value}
        assert METHODS[name](EMPTY, **options, **beside(name, EMPTY)).shape[:1] == (0,)
    found = METHODS[name](ONE, preset=preset, **beside(name, ONE))
    assert found.shape[:1] == (1,)
    if name not in NO_COMPARISON:
        assert found == pytest.approx([LONE.get((name, preset), 0.0)], abs=1e-5, nan_ok=True)


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if "penalty" in declared(method)[0]])
def test_an_invalid_step_loses_the_penalty_of_its_advantage_or_changes_others(name: str) -> None:
    table = played(name, 3)
    given_ = beside(name, table) | {"invalid_penalty": 0.0}
    plain = METHODS[name](table, **given_)
    lost = plain - METHODS[name](table, **(given_ | {"invalid_penalty": 0.1, "penalty": "advantage"}))
    expected = np.where(table.valid, 0.0, 0.1)
    if plain.ndim == 2:
        expected = np.where(given_["mask"], expected[:, None], 0.0)
    close(lost[~np.isnan(plain)], expected[~np.isnan(plain)])
    row, spread = (
        METHODS[name](table, **(given_ | {"invalid_penalty": 0.1, "penalty": where})) for where in ("row", "discounted")
    )
    for changed in (row, spread):
        assert not np.allclose(changed, plain, equal_nan=True)
    assert np.allclose(row, spread, equal_nan=True) == (name == "igpo")  # which sums the rewards of rows itself


@pytest.mark.parametrize(
    ("name", "argument"), [(name, each) for name, arguments in ARGUMENTS.items() for each in arguments]
)
def test_an_argument_of_another_length_or_without_numbers_is_named(name: str, argument: str) -> None:
    table = played(name, 5)
    right = beside(name, table)
    for wrong in (np.zeros(1), np.full(len(table), np.inf), ["much"] * len(table)):
        refuses(ValueError, f"^{argument} must ", METHODS[name], table, **{**right, argument: wrong})


@pytest.mark.parametrize("name", METHODS)
def test_unknown_names_are_answered_with_known_ones(name: str) -> None:
    table = played(name, 0)
    given, method = beside(name, table), METHODS[name]
    for option, value in WORDS[name]:
        words = f"unknown {option} 'nothing'; known: .*'{re.escape(value)}'"
        refuses(ValueError, words, method, table, **given, **{option: "nothing"})
    refuses(ValueError, "unknown preset 'papers'; known: '", method, table, preset="papers", **given)
    refuses(TypeError, "unknown option 'gama'; known: ", method, table, gama=1, **given)


def test_a_wrapper_uses_the_method_of_its_file() -> None:
    classes = [each for each in vars(wrappers.credit).values() if inspect.isclass(each)]
    found = [each for each in classes if issubclass(each, CreditWrapper) and each is not CreditWrapper]
    assert len(found) >= 18
    for each in set(found) - {wrappers.credit.GAE}:  # it asks for values, and has a method without them
        assert each.method is getattr(wrappers.credit, each.method.__name__)
        assert each.__name__.lower() == each.method.__name__.replace("_", "")
        assert each.__module__ == each.method.__module__
