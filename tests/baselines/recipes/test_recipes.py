"""Recipes, methods and papers' settings: every name works, every wrong one is named, and a new method is found."""

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from agentgym.rollout import collect
from agentgym.searchqa.env import SearchQAEnv
from agentgym.trajectory import Reply, StepTable
from baselines.config import Optimiser, TrainerConfig
from baselines.environments.settings import SOKOBAN_TINY
from baselines.recipes import RECIPES, recipe
from baselines.recipes.methods import IMITATION, method
from baselines.recipes.papers import PAPERS, Paper, paper
from baselines.recipes.rows import SEARCH_ROWS
from baselines.trainer import Trainer
from tests.baselines.corridor_learning import CONFIG, TASKS, babbling_policy, corridor
from tests.cases import cases
from tests.playing import filled
from tests.refusals import refuses
from tests.wrappers.credit.small_tables import episodes, random_table
from wrappers.credit.attribution import attribution
from wrappers.credit.evidence import agreement, pair_accuracy
from wrappers.credit.prime import prime
from wrappers.credit.process_reward import process_reward
from wrappers.credit.ragen2 import spread_groups
from wrappers.credit.rewardflow import rewardflow
from wrappers.credit.spa import spa
from wrappers.prompt import VectorPromptWindow
from wrappers.reply import VectorReplyParser


def test_options_settings_levels_and_contrast() -> None:
    table = collect(corridor(), babbling_policy(), tasks=TASKS, group_size=8, seed=0)
    assert all(each.notes.endswith(".") for each in RECIPES.values())
    changed = recipe("rewardflow").with_options(gamma=0.5)
    options = recipe("rewardflow").options | {"gamma": 0.5}
    assert np.array_equal(changed(table), rewardflow(table, **options))
    assert not np.array_equal(changed(table), recipe("rewardflow")(table))
    refuses(TypeError, "unknown option 'gama'", lambda: recipe("rewardflow").with_options(gama=0.5)(table))
    common = dataclasses.replace(SOKOBAN_TINY, groups=5)
    assert recipe("grpo").configure(common) == common
    changed = recipe("dapo").configure(common)
    assert (changed.loss.clip_low, changed.loss.clip_high, changed.loss.kl) == (0.2, 0.28, 0.0)
    assert changed.rollout.resample_rounds == 10
    assert (changed.groups, changed.learning_rate) == (5, common.learning_rate)
    ppo = recipe("ppo")
    assert recipe("grpo").score_level is None
    assert ppo.score_level == "turn"
    levels = [ppo.with_options(level=level).score_level for level in ("turn", "token", "bi-level", "residual")]
    assert levels == ["turn", "token", "token", "token"]
    assert ppo.with_options(preset="authors").score_level == "token"  # the preset's level where none is given
    # Both episodes fail, one with a reward on the way.
    table = filled(trajectory=[0, 1], next_state=[1, 1], reward=[0.5, 0.0])
    assert recipe("dapo").contrasting(table).tolist() == [False]
    assert recipe("dapo").with_options(contrast="return").contrasting(table).tolist() == [True]
    assert recipe("grpo").contrasting(table).tolist() == [False]
    # RAGEN-2's filter would train on this group: it is not played again.
    assert recipe("ragen2").contrasting(table).tolist() == spread_groups(table).tolist() == [True]
    assert recipe("ragen2:outcome=won").contrasting(table).tolist() == [False]


@cases(
    "text, name, options",
    ("gigpo:gamma=.9", "gigpo:gamma=0.9", {"gamma": 0.9}),
    ("gigpo:gamma=1", "gigpo:gamma=1.0", {"gamma": 1.0}),
    ("grpo:std=none:ddof=0", "grpo:std=none:ddof=0", {"std": "none", "ddof": 0}),
    ("grpo:preset=authors", "grpo:preset=authors", {"preset": "authors"}),
    ("ppo:whiten=false:level=token", "ppo:whiten=False:level=token", {"whiten": False, "level": "token"}),
)
def test_options_follow_the_name(text: str, name: str, options: dict[str, Any]) -> None:
    found = recipe(text)
    assert found.name == name
    plain = RECIPES[text.split(":")[0]]
    assert found.options == {**plain.options, **options}
    assert (found.credit, found.training, found.scorer) == (plain.credit, plain.training, plain.scorer)
    assert recipe(found.name) == found


@cases(
    "text, words",
    ("gigpo:gama=.9", "unknown option 'gama'; known: .*did you mean 'gamma'"),
    ("gigop:gamma=.9", "unknown method 'gigop'; .*did you mean 'gigpo'"),
    ("gigpo:gamma=2", "gamma must be between 0 and 1, got 2.0"),
    ("gigpo:gamma=much", "gamma must be a number, got 'much'"),
    ("gigpo:std=nune", "unknown std 'nune'; .*did you mean 'none'"),
    ("ppo:whiten=1", "whiten must be True or False, got '1'"),
    ("gigpo:gamma", "expected gigpo:option=value, each option once, got 'gamma'"),
    ("gigpo:gamma=.9:gamma=.8", "each option once, got 'gamma=.8'"),
    ("no_such_module:credit", "no module of this name can be imported"),
    ("json:lods", "module 'json' has no function 'lods'; .*did you mean 'loads'"),
)
def test_wrong_options_and_functions_are_explained(text: str, words: str) -> None:
    refuses(ValueError, words, recipe, text)


def test_names_and_functions_of_ones_own_read_their_options() -> None:
    found = recipe("tests.own_worlds:credit:scale=.5:sign=minus")
    assert found.name == "tests.own_worlds:credit:scale=0.5:sign=minus"
    assert found.options == {"scale": 0.5, "sign": "minus"}
    table = filled(trajectory=[0, 1], next_state=["goal", "pit"], won=[True, False])
    assert found(table).tolist() == [0.5, -0.05]
    assert recipe("tests.own_worlds:half").options["invalid_penalty"] == 0.5
    known = "unknown option 'scal'; known: 'scale', 'sign'; did you mean 'scale'"
    refuses(ValueError, known, recipe, "tests.own_worlds:credit:scal=.5")
    found = method("ipr:continuations=2:span=step:threshold=.25")
    assert (found.continuations, found.span, found.threshold) == (2, "step", 0.25)
    assert found.name == "ipr:continuations=2:span=step:threshold=0.25"
    assert method("gigpo:gamma=.9").name == "gigpo:gamma=0.9"
    assert set(IMITATION) == {"sft", "rft", "hindsight", "dpo", "eto", "ipr", "stepagent", "spear"}


@cases(
    "name, words",
    ("rft:sample=4", "sample"), ("rft:samples=0", "at least 1"), ("rft:samples=many", "an integer"),
    ("ipr:span=all", "'rest' and 'step'|rest"), ("rft:samples", "option=value"), ("rtf", "unknown method"),
)  # fmt: skip
def test_a_wrong_name_or_option_says_what_is_expected(name, words):
    refuses(ValueError, words, method, name)


ADAM = Optimiser(weight_decay=0.01)


def test_printed_rows_have_entries_recipes_their_options_and_differences_are_listed() -> None:
    table = episodes("a -x-> b -x-> goal +", "a -y-> c -y-> pit")
    for found in PAPERS.values():
        made = found.recipe()
        assert np.isfinite(made(table)).all()
        assert made.options.items() >= found.options.items()
        config = found.config()  # every name is a setting, every value allowed
        assert found.differences(config) == []
        assert found.method == "hisr" or dataclasses.replace(config.optimiser, minibatch_rows=64) == ADAM
        plain = {name: value for name, value in found.scorer.items() if not isinstance(value, dict)}
        assert all(getattr(made.scorer, name) == value for name, value in plain.items())
    hindsight = paper("hisr", "alfworld").recipe().scorer.hindsight
    assert (hindsight.beta, hindsight.clip, hindsight.hindsight) == (0.3, None, "cloze")
    known = r"beacon in sokoban \(paper\) are known, but the method is not in this"
    refuses(NotImplementedError, known, Paper("beacon", "sokoban").recipe)
    known = r"no paper's settings for the method 'reward-flow'.*did you mean 'rewardflow'"
    refuses(ValueError, known, paper, "reward-flow", "alfworld")
    known = r"paper of 'graphgpo' prints no settings for 'sotopia'; known: 'alfworld'"
    refuses(ValueError, known, paper, "graphgpo", "sotopia")
    assert paper("graphgpo", "webshop", "script") is paper("graphgpo", "webshop")  # no script of its own
    assert paper("stepsearch", "searchqa").source == "script"  # nothing else was read
    found = paper("rewardflow", "alfworld")
    config = found.config(iterations=3, optimiser={"minibatch_rows": 64})
    assert found.differences(config) == [
        "optimiser.minibatch_rows: paper 256, here 64", "iterations: paper 100, here 3"
    ]  # fmt: skip
    elsewhere = {"steps: 25", "success_reward: 1.0", "reply_tokens: 512", "validation_temperature: 0.4"}
    assert elsewhere <= set(found.unset())
    assert found.config().loss.dual_clip is TrainerConfig().loss.dual_clip


@cases(
    "method, envs, source, printed",
    ("rewardflow", "alfworld webshop sokoban visualsokoban searchqa", "paper", {"gamma": 0.9}),
    ("rewardflow", "alfworld sokoban visualsokoban", "script", {"gamma": 0.9}),
    ("rewardflow", "alfworld visualsokoban", "paper", {"invalid_penalty": 0.1}),
    ("rewardflow", "searchqa", "paper", {"invalid_penalty": 0.01}),
    ("rewardflow", "searchqa", "script", {"gamma": 0.95, "invalid_penalty": 0.01}),
    ("graphgpo", "alfworld", "paper", {"omega": 0.1}), ("graphgpo", "webshop", "paper", {"omega": 0.2}),
    ("graphgpo", "sokoban visualsokoban", "paper", {"omega": 0.8}),
    ("graphgpo", "sokoban visualsokoban", "script", {"omega": 0.8}),
    ("istar", "webshop", "paper", {"alpha": 1.0, "beta": 0.05, "rate": 1e-6 / 5e-7, "reduce": "sum"}),
    ("istar", "sokoban sotopia", "paper", {"alpha": 1.0}), ("hisr", "alfworld", "paper", {"alpha": 0.3, "gamma": 0.99}),
    ("stepsearch", "searchqa", "script", {"gamma": 1.0, "lam": 1.0}),
)  # fmt: skip
def test_options_are_those_printed(method: str, envs: str, source: str, printed: dict[str, Any]) -> None:
    """By hand from the papers' tables; all that the command prints is in the golden studies/settings."""
    for env in envs.split():
        found = PAPERS[method, env, source]  # type: ignore[index]
        assert {**found.options, **found.scorer}.items() >= printed.items()


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
    # A scorer that is wrong throughout is not turned round.
    table = episodes("s -up-> goal +", "s -left-> pit")
    for gate in ("accuracy", "centred", "agreement"):
        assert made.with_options(gate=gate).estimate(table, np.array([-1.0, 1.0])).figures["prm_gate"] == 0.0


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
