"""Recipes of scorers equal the pure functions; the search rows need their environment; a new method is found."""

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from agentgym.searchqa.env import SearchQAEnv
from agentgym.trajectory import Reply, StepTable
from baselines.recipes import RECIPES, recipe
from baselines.recipes.papers import PAPERS
from baselines.recipes.rows import SEARCH_ROWS
from baselines.trainer import Trainer
from tests.baselines.corridor_learning import CONFIG, babbling_policy
from tests.refusals import refuses
from tests.wrappers.credit.small_tables import episodes, random_table
from wrappers.credit.attribution import attribution
from wrappers.credit.evidence import agreement, pair_accuracy
from wrappers.credit.prime import prime
from wrappers.credit.process_reward import process_reward
from wrappers.credit.spa import spa
from wrappers.prompt import VectorPromptWindow
from wrappers.reply import VectorReplyParser


def built(name: str, num_envs: int = 4) -> Any:
    """Return the environments in which a row is trained."""
    own = SEARCH_ROWS[name].own_env
    options = {**own.options, **own.training}
    return gym.make_vec(own.id, num_envs, autoreset_mode="Disabled", top_k=1, **options)


@pytest.mark.parametrize("name", list(SEARCH_ROWS))
def test_a_row_is_a_method_with_an_environment_of_its_own(name: str) -> None:
    row = recipe(name)
    assert name not in RECIPES
    assert row.notes.endswith(".")
    assert row == SEARCH_ROWS[name]
    envs = built(name)
    envs.reset(seed=0, options={"split": "train", "index": 3, **row.schedule(0, 10)})
    assert (envs.unwrapped.envs[0].turns.total == 1) == (name == "r1")
    refuses(ValueError, rf"{name} is trained in an environment of its own.*--methods {name}", row.anywhere)
    assert recipe("grpo").anywhere() == recipe("grpo")


def test_curricula_environments_and_papers_of_rows() -> None:
    assert [dict(recipe(name).schedule(5, 10)) for name in ("grpo", "r1", "search_r1", "stepsearch")] == [{}] * 4
    assert recipe("zerosearch").schedule(0, 10) == {"noise": 0.25}
    assert recipe("zerosearch").schedule(10, 10) == {"noise": 0.5}
    assert recipe("zerosearch:std=none").own_env == SEARCH_ROWS["zerosearch"].own_env
    refuses(ValueError, "did you mean 'zerosearch'", recipe, "zero_search")
    rows = [paper for (method, _, _), paper in PAPERS.items() if method in SEARCH_ROWS]
    assert {paper.method for paper in rows} == {"search_r1", "stepsearch"}
    assert all(paper.env == "searchqa" and paper.recipe().own_env is not None for paper in rows)


def watched(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return what the reset option `noise` of every episode will be, in their order."""
    noise: list[Any] = []
    begin = SearchQAEnv.begin

    def noted(self: SearchQAEnv, options: dict[str, Any]) -> None:
        noise.append(options.get("noise"))
        begin(self, options)

    monkeypatch.setattr(SearchQAEnv, "begin", noted)
    return noise


def trainer(folder: Any, iterations: int, **changes: Any) -> Trainer:
    config = dataclasses.replace(CONFIG, iterations=iterations, groups=1, group_size=4, **changes)
    envs = VectorPromptWindow(VectorReplyParser(built("zerosearch")))
    tasks = [{"split": "train", "index": i} for i in range(4)]
    return Trainer(
        babbling_policy(), envs, recipe("zerosearch"), tasks, config, folder=folder, resume=True,
        validation_tasks=[{"split": "validation", "index": 0}],
    )  # fmt: skip


def test_training_follows_the_curriculum_and_validation_does_not(monkeypatch: Any, tmp_path: Any) -> None:
    noise = watched(monkeypatch)
    trainer(tmp_path, 2, checkpoint={"every": 1}, validation={"every": 5}).run(lambda made, _, row: made.iteration < 1)
    # The start is validated; then comes the first group.
    assert (noise[-4:], set(noise[:-4])) == ([0.25] * 4, {None})
    with pytest.raises(ValueError, match="iterations: checkpoint 2, here 3"):
        trainer(tmp_path, 3, checkpoint={"every": 1}, validation={"every": 5})
    noise.clear()
    trainer(tmp_path, 2, checkpoint={"every": 1}, validation={"every": 5}).run()
    # 0.25 + (4^0.5 - 1) / 3 * 0.25 in the second of two, resumed; and the end is validated.
    assert (noise[:4], set(noise[4:])) == (pytest.approx([1 / 3] * 4), {None})


def scores_of(table: StepTable) -> np.ndarray:
    scores = np.random.default_rng(0).normal(size=len(table))
    scores[::7] = np.nan
    return scores


@pytest.mark.parametrize("preset", ["paper", "authors"])
def test_scores_of_steps_are_process_rewards(preset: str) -> None:
    table = random_table(1)
    scores, options = scores_of(table), {"preset": preset, "alpha": 0.3, "compare": "state"}
    made = recipe("judge").with_options(**options)
    found = made.estimate(table, scores)
    np.testing.assert_array_equal(found.advantages, process_reward(table, scores=scores, **made.options))
    assert (found.targets, found.figures["prm_pair_accuracy"]) == (None, pair_accuracy(table, scores))
    assert found.figures["prm_agreement"] == agreement(table, scores)
    assert found.figures["prm_scored"] == pytest.approx(1 - len(scores[::7]) / len(table))
    assert "prm_gate" not in found.figures
    nothing = process_reward(table, scores=np.zeros(len(table)), **{**made.options, "alpha": 0.0})
    np.testing.assert_array_equal(made(table), nothing)


def test_the_gate_multiplies_alpha() -> None:
    # Won scores 2 + 0, lost 1 and 3: one pair of two is right, 2 * .5 - 1 = 0.
    table, made = episodes("s -up-> u -up-> goal +", "s -left-> pit", "s -down-> pit"), recipe("judge")
    gated = made.with_options(gate="accuracy")
    closed = gated.estimate(table, np.array([2.0, 0.0, 1.0, 3.0]))
    assert closed.figures["prm_gate"] == 0.0
    np.testing.assert_array_equal(closed.advantages, made(table))
    wide = gated.estimate(table, np.array([2.0, 2.0, 1.0, 3.0]))
    assert wide.figures["prm_gate"] == 1.0
    np.testing.assert_array_equal(wide.advantages, made.estimate(table, np.array([2.0, 2.0, 1.0, 3.0])).advantages)
    scores = np.array([0.5, 0.1, 2.0, 0.0])  # wrong about one of two pairs
    assert gated.estimate(table, scores).figures["prm_gate"] == 0.0
    seen = made.with_options(gate="agreement", alpha=3.0).estimate(table, scores)
    trust = max(0.0, agreement(table, scores))
    assert seen.figures["prm_gate"] == trust
    expected = process_reward(table, scores=scores, **{**made.options, "alpha": 3.0 * trust})
    np.testing.assert_allclose(seen.advantages, expected)


@pytest.mark.parametrize("gate", ["accuracy", "centred", "agreement"])
def test_a_scorer_that_is_wrong_throughout_is_not_turned_round(gate: str) -> None:
    table = episodes("s -up-> goal +", "s -left-> pit")
    assert recipe("judge").with_options(gate=gate).estimate(table, np.array([-1.0, 1.0])).figures["prm_gate"] == 0.0


def test_scores_of_tokens_are_primes() -> None:
    table = episodes("s -up-> u -up-> goal +", "s -left-> pit")
    replies = np.empty(len(table), object)
    replies[:] = [Reply("", (1,), (2,) * n, (-1.0,) * n) for n in (2, 1, 3)]
    table = dataclasses.replace(table, replies=replies)
    mask = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 1]], bool)
    scores = np.where(mask, np.arange(9.0).reshape(3, 3) / 10, 0)
    made = recipe("prime").with_options(gamma=0.9)
    found = made.estimate(table, scores)
    np.testing.assert_array_equal(found.advantages, prime(table, scores=scores, mask=mask, **made.options))
    assert found.figures["prm_pair_accuracy"] == 0.0  # .1 + .3 for the won one, .6 + .7 + .8 for the lost one
    np.testing.assert_array_equal(
        made.with_options(gate="accuracy").estimate(table, scores).advantages, made(table)
    )  # fmt: skip


@pytest.mark.parametrize("options", [{}, {"rescale": True}, {"grounding": "penalty", "compare": "state"}])
def test_contributions_are_spas_rewards_compared(options: dict[str, Any]) -> None:
    table = random_table(3)
    options = {"grounding": "bonus", **options}
    rewarding = {name: value for name, value in options.items() if name != "compare"}
    using = {name: value for name, value in options.items() if name == "compare"}
    scores = scores_of(table)
    expected = process_reward(table, scores=spa(table, contributions=scores, **rewarding), outcome="won", **using)
    found = recipe("spa_network").with_options(**options).estimate(table, scores)
    np.testing.assert_array_equal(found.advantages, expected)
    ridge = process_reward(
        table, scores=spa(table, contributions=attribution(table), **rewarding), outcome="won", **using
    )
    np.testing.assert_array_equal(recipe("spa").with_options(**options)(table), ridge)


NEW = """
from typing import TypedDict
from wrappers.credit.method import STEP, Credit, Method
from wrappers.credit.options import OutcomeOptions, credit

@credit(OutcomeOptions, paper={})
def brandnew(table, *, preset="paper", **options):
    return table.won.astype(float)

METHOD = Method(
    brandnew, "Whether it was won.", space={"outcome": ("won", "return")}, contender="brandnew",
    colour="#123456", credits=(Credit("brandnew", STEP, "", brandnew),),
)
"""
LOOK = """
import sys
import wrappers.credit
wrappers.credit.__path__.append(sys.argv[1])
from baselines.recipes import RECIPES, recipe
from benchmarks.training.records import SPACE
from benchmarks.training.head_to_head import METHODS
from benchmarks.truth.credits import LEAGUE
from benchmarks.report.assemble import colour_of
assert recipe("brandnew:outcome=won").credit is RECIPES["brandnew"].credit
assert SPACE["brandnew"] == {"outcome": ("won", "return")} and "brandnew" in METHODS.split(",")
assert [credit.name for credit in LEAGUE if credit.method == "brandnew"] == ["brandnew step"]
assert colour_of("brandnew") == "#123456"
"""


def test_a_method_in_one_file_is_found_by_all_that_list_methods(tmp_path: Path) -> None:
    (tmp_path / "brandnew.py").write_text(NEW)
    subprocess.run([sys.executable, "-c", LOOK, str(tmp_path)], check=True)
