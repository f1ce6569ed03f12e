"""The rows of the search tables: what each needs, where it is refused, and that a curriculum follows the iteration."""

import dataclasses
from typing import Any

import gymnasium as gym
import pytest

import agentgym  # noqa: F401
from agentgym.searchqa.env import SearchQAEnv
from baselines.recipes import RECIPES, recipe
from baselines.recipes.papers import PAPERS
from baselines.recipes.search_rows import SEARCH_ROWS
from baselines.trainer import Trainer
from tests.baselines.corridor_learning import CONFIG, babbling_policy
from wrappers.prompt import VectorPromptWindow
from wrappers.reply import VectorReplyParser


def built(name: str, num_envs: int = 4) -> Any:
    """Return the environments in which a row is trained."""
    own = SEARCH_ROWS[name].own_env
    assert own is not None
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
    with pytest.raises(ValueError, match=rf"{name} is trained in an environment of its own.*--methods {name}"):
        row.anywhere()
    assert recipe("grpo").anywhere() == recipe("grpo")


def test_only_zerosearch_has_a_curriculum() -> None:
    assert [dict(recipe(name).schedule(5, 10)) for name in ("grpo", "r1", "search_r1", "stepsearch")] == [{}] * 4
    assert recipe("zerosearch").schedule(0, 10) == {"noise": 0.25}
    assert recipe("zerosearch").schedule(10, 10) == {"noise": 0.5}


def test_a_row_with_other_options_keeps_its_environment() -> None:
    assert recipe("zerosearch:std=none").own_env == SEARCH_ROWS["zerosearch"].own_env
    with pytest.raises(ValueError, match="did you mean 'zerosearch'"):
        recipe("zero_search")


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


def test_training_follows_the_curriculum_and_validation_does_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    noise = watched(monkeypatch)
    trainer(tmp_path, 2, checkpoint={"every": 1}, validation={"every": 5}).run(lambda made, _, row: made.iteration < 1)
    # The start is validated; then comes the first group.
    assert noise[-4:] == [0.25] * 4
    assert set(noise[:-4]) == {None}
    with pytest.raises(ValueError, match="iterations: checkpoint 2, here 3"):
        trainer(tmp_path, 3, checkpoint={"every": 1}, validation={"every": 5})
    noise.clear()
    trainer(tmp_path, 2, checkpoint={"every": 1}, validation={"every": 5}).run()
    # 0.25 + (4^0.5 - 1) / 3 * 0.25 in the second of two, resumed; and the end is validated.
    assert noise[:4] == pytest.approx([1 / 3] * 4)
    assert set(noise[4:]) == {None}


def test_papers_of_the_rows_can_be_made() -> None:
    rows = [paper for (method, _, _), paper in PAPERS.items() if method in SEARCH_ROWS]
    assert {paper.method for paper in rows} == {"search_r1", "stepsearch"}
    assert all(paper.env == "searchqa" and paper.recipe().own_env is not None for paper in rows)
