"""What every credit method of the registry must satisfy, in every preset, on random rollouts; controls, evidence."""

import dataclasses
import functools
import importlib
import inspect
import pkgutil
import re
from typing import Any, Literal, get_args, get_origin

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import wrappers.credit
from agentgym.trajectory import StepTable
from tests.cases import cases
from tests.processes import printed
from tests.refusals import refuses
from tests.wrappers.credit import every_method
from tests.wrappers.credit.every_method import ARGUMENTS, BRANCHING, EMPTY, METHODS, ONE, WITH_PRESETS, beside
from tests.wrappers.credit.small_tables import close, episodes, random_table, random_trees, rebuild
from wrappers import credit
from wrappers.credit import CreditWrapper, dapo, gigpo, graphgpo, grpo, hgpo, rewardflow, rloo
from wrappers.credit.controls import broadcast, shuffled
from wrappers.credit.evidence import agreement, pair_accuracy
from wrappers.credit.graphgpo import graphgpo_values
from wrappers.credit.group import TOLERANCE, number_pairs
from wrappers.credit.options import declared
from wrappers.credit.potential import PRESETS
from wrappers.credit.state_graph import StateGraph, Unit

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
@example(seed=60)  # a mean of equal numbers is off them by rounding
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


def test_methods_are_named_like_their_file_and_wrappers_use_that_of_theirs() -> None:
    files = {module.name for module in pkgutil.iter_modules(credit.__path__)}
    beside = {"action_targets", "bi_level_gae", "graphgpo_filled", "importance", "reinforce_plus_plus_baseline"}
    assert every_method.FUNCTIONS.keys() - files == beside
    for name in every_method.FUNCTIONS.keys() & files:
        assert every_method.FUNCTIONS[name] is getattr(importlib.import_module(f"wrappers.credit.{name}"), name)
    classes = [each for each in vars(wrappers.credit).values() if inspect.isclass(each)]
    found = [each for each in classes if issubclass(each, CreditWrapper) and each is not CreditWrapper]
    assert len(found) >= 18
    for each in set(found) - {wrappers.credit.GAE}:  # it asks for values, and has a method without them
        assert each.method is getattr(wrappers.credit, each.method.__name__)
        assert each.__name__.lower() == each.method.__name__.replace("_", "")
        assert each.__module__ == each.method.__module__


FAMILY = {name: functools.partial(credit.potential, preset=name) for name in PRESETS}
#: Their means of returns can be so near each other that eps counts.
RECENT = [credit.salt, credit.milegpo, credit.tigpo, credit.frontier, *FAMILY.values()]
PUBLISHED = [grpo, rloo, dapo, gigpo, hgpo, rewardflow, graphgpo]
COMPARING = [*PUBLISHED, *RECENT, credit.reinforce_plus_plus, credit.reinforce_plus_plus_baseline]
SEEDS = st.integers(0, 10**6)


#: No deviation divides what the rewards scale; a gate adds eps to variances.
NOT_SCALED = [FAMILY["g2po_authors"], FAMILY["ecpo"]]


@pytest.mark.parametrize("method", [method for method in COMPARING if method not in NOT_SCALED])
@given(seed=SEEDS, factor=st.sampled_from([0.125, 3.0]))
def test_scaled_rewards_change_only_what_has_no_deviation(method, seed, factor):
    table = random_table(seed)
    scaled = dataclasses.replace(table, reward=table.reward * factor)
    options = {"outcome": "return"} | ({"base_group": True} if method is hgpo else {})
    if method is rloo:
        close(rloo(scaled), factor * rloo(table))
        return
    if method not in RECENT:
        close(method(scaled, **options), method(table, **options), atol=1e-3)
    close(method(scaled, eps=0.0, **options), method(table, eps=0.0, **options))
    if method in (grpo, dapo, gigpo):
        close(method(scaled, std="none", **options), factor * method(table, std="none", **options))


@cases(
    "first",
    "import wrappers.credit.rewardflow",
    "import wrappers.credit.rewardflow as module",
    "from wrappers.credit.rewardflow import PRESETS",
    "import wrappers",
    "import sys, pickle, wrappers.credit.grpo; pickle.loads(pickle.dumps(wrappers.credit.rewardflow))",
    "import importlib; importlib.reload(importlib.import_module('wrappers.credit.rewardflow'))",
)
def test_whatever_a_process_imports_first(first: str) -> None:
    code = (
        f"{first}\nfrom wrappers.credit import rewardflow\nimport wrappers.credit.rewardflow, wrappers.credit.grpo\n"
        "from wrappers.credit import rewardflow as again, grpo\nfrom wrappers import RewardFlow\n"
        "print(callable(rewardflow), rewardflow is again, callable(grpo), RewardFlow.method.__name__)"
    )
    assert printed(code).split() == ["True", "True", "True", "rewardflow"]


#: A step level alone.
STEPS = {rewardflow: {"alpha_trajectory": 0.0}, graphgpo: {"beta_episode": 0.0}}
UNITS = Unit.__args__


@pytest.mark.parametrize("method", [rewardflow, graphgpo])
@given(seed=SEEDS)
def test_visits_of_an_edge_may_differ_in_worth_and_their_order_does_not_matter(method, seed):
    rng = np.random.default_rng(seed)
    table = random_table(seed, clean=True)
    table = dataclasses.replace(table, valid=rng.random(len(table)) < 0.5)
    rows = rng.permutation(len(table))
    options = {"unit": "edge", "invalid": "keep", "invalid_penalty": 0.5}
    close(method(rebuild(table, rows), **options), method(table, **options)[rows])
    if method is graphgpo:
        cost = rng.uniform(0.5, 2.0, len(table))
        close(graphgpo(rebuild(table, rows), cost=cost[rows]), graphgpo(table, cost=cost)[rows])


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("method", [rewardflow, graphgpo])
@given(seed=SEEDS)
def test_groups_that_all_fail_get_no_step_credit_whatever_their_rewards(method, unit, seed):
    table = random_table(seed, win=0.1)
    rich = dataclasses.replace(table, reward=np.random.default_rng(seed).normal(size=len(table)))
    failed = np.bincount(table.group, weights=table.won) == 0
    assert (method(rich, unit=unit, **STEPS[method])[failed[table.group]] == 0).all()


@pytest.mark.parametrize("unit", UNITS)
@given(seed=SEEDS)
def test_graphgpo_never_scores_the_nearer_of_two_edges_lower(unit, seed):
    # Prop. 4.1. Of two edges out of a state, the one with the smaller d(s') + c never scores lower, and it scores
    # strictly higher where the rewards of the edges out of the state differ by more than rounding.
    table = random_table(seed)
    cost = np.random.default_rng(seed).uniform(0.5, 2.0, len(table))
    # An edge that is taken several times has one cost: that of its first visit.
    edge, example = StateGraph.from_table(table).edges
    cost = cost[example][edge]
    credit = graphgpo_values(table, cost=cost)
    scores = graphgpo(table, cost=cost, beta_episode=0.0, unit=unit)
    way = credit.distance[credit.graph.target] + cost
    for node in np.unique(credit.graph.source):
        rows = np.flatnonzero(credit.graph.source == node)
        rows = rows[np.argsort(way[rows], kind="stable")]
        reward, score = credit.step_reward[rows], scores[rows]
        assert (np.diff(score) <= 1e-12).all()
        assert (np.diff(score)[np.diff(reward) < -TOLERANCE * np.abs(reward).max()] < 0).all()


TABLE = random_table(3)


def test_controls_shuffle_or_broadcast_advantages() -> None:
    given, moved = graphgpo(TABLE, omega=0.8, invalid_penalty=0.1, penalty="advantage"), shuffled(TABLE)
    for group in range(TABLE.n_groups):
        rows = TABLE.group == group
        np.testing.assert_array_equal(np.sort(moved[rows]), np.sort(given[rows]))
    assert (moved != given).any()
    np.testing.assert_array_equal(moved, shuffled(TABLE))
    given, spread = graphgpo(TABLE, omega=0.8, invalid_penalty=0.1, penalty="advantage"), broadcast(TABLE)
    for trajectory in range(TABLE.n_trajectories):
        rows = TABLE.trajectory == trajectory
        close(spread[rows], given[rows].mean())


@pytest.mark.parametrize("control", [shuffled, broadcast])
def test_controls_leave_what_is_not_scored_and_are_of_methods_that_read_the_table_alone(control):
    missing = np.isnan(dapo(TABLE))
    assert missing.any()
    np.testing.assert_array_equal(np.isnan(control(TABLE, of="dapo")), missing)
    refuses(ValueError, "did you mean 'graphgpo'", control, TABLE, of="graphpo")
    refuses(ValueError, "'judge' needs scores", control, TABLE, of="judge")


def naive_accuracy(table: StepTable, scores: np.ndarray) -> float:
    total = [np.nansum(scores[table.trajectory == i]) for i in range(table.n_trajectories)]
    won, group, right = table.trajectory_won, table.trajectory_group, []
    for i in np.flatnonzero(won):
        lost = np.flatnonzero(~won & (group == group[i]))
        right += [0.5 if abs(total[i] - total[j]) < 1e-12 else float(total[i] > total[j]) for j in lost]
    return float(np.mean(right)) if right else 0.5


@pytest.mark.parametrize("seed", range(6))
def test_accuracy_equals_a_loop_over_pairs(seed: int) -> None:
    table, rng = random_table(seed), np.random.default_rng(seed)
    scores = rng.integers(-2, 3, len(table)).astype(float)  # many ties
    scores[rng.random(len(table)) < 0.1] = np.nan
    assert pair_accuracy(table, scores) == pytest.approx(naive_accuracy(table, scores))
    centred = scores.copy()
    for group in range(table.n_groups):
        rows = table.group == group
        centred[rows] -= np.nanmean(scores[rows]) if (~np.isnan(scores[rows])).any() else 0
    assert pair_accuracy(table, scores, centred=True) == pytest.approx(naive_accuracy(table, centred))


def test_by_hand() -> None:
    table = episodes("s -up-> goal +", "s -left-> u -left-> pit", "s -left-> u -up-> u -left-> pit")
    assert pair_accuracy(table, np.full(len(table), -0.1)) == 1.0
    assert pair_accuracy(table, np.full(len(table), 0.1)) == 0.0
    assert pair_accuracy(table, np.full(len(table), 0.1), centred=True) == 0.5
    assert pair_accuracy(table, np.full(len(table), np.nan)) == 0.5
    assert pair_accuracy(episodes("s -up-> goal +", "s -left-> goal +"), [5.0, 0.0]) == 0.5
    assert agreement(episodes("s -up-> u", "s -left-> v"), [5.0, 0.0]) == 0.0
    # Left costs a step more than right; of the two visits of "u" one is not scored, so that "u" has no ranks.
    table = episodes("s -right-> u -up-> goal +", "s -left-> v -up-> u -up-> goal +", "s -right-> u -down-> pit")
    scores = np.array([2.0, np.nan, 2.0, 0.0, np.nan, 1.0, np.nan])
    graph = graphgpo(table, beta_episode=0.0)
    assert graph[0] == graph[5] > 0 > graph[2]
    # In "s" the graph ranks rows 0, 2, 5 as 1.5, 0, 1.5, less the mean .5, -1, .5; the scores 1.5, 1.5, 0: .5, .5, -1.
    assert agreement(table, scores) == pytest.approx((0.25 - 0.5 - 0.5) / 1.5)


@pytest.mark.parametrize("seed", range(4))
def test_the_graph_agrees_with_itself_and_ranks_are_inside_states(seed: int) -> None:
    table = random_table(seed)
    graph = graphgpo(table, beta_episode=0.0)
    sets, example = number_pairs(table.group, table.n_groups, table.state, len(table.states))
    shift = np.random.default_rng(seed).normal(size=len(example))[sets] * 100  # levels of states play no part
    assert agreement(table, graph + shift) == pytest.approx(1.0)
    assert agreement(table, shift - graph) == pytest.approx(-1.0)
    assert agreement(table, shift) == 0.0
