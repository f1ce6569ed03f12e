"""Methods of imitation in the learning benchmark: from the same clone, into the same table."""

import dataclasses
import shutil
from pathlib import Path

import pytest
import typer

pytest.importorskip("torch")
pytest.importorskip("transformers")

from baselines.imitation.method import Imitation
from baselines.recipes.methods import method
from benchmarks.learning.command import _check_envs
from benchmarks.learning.jobs import Job, read_finished, run_job
from benchmarks.learning.results import Config, load
from benchmarks.training.options import named_methods
from benchmarks.training.stack import imitation_setting


@pytest.fixture
def config(finished_run: Path) -> Config:
    return load(finished_run / "results.json").config


def test_a_method_goes_on_from_the_clone_and_is_scored_like_any_other(finished_run, config, tmp_path):
    shutil.copytree(finished_run / "clone-seed0", tmp_path / "clone-seed0")
    name = "rft:samples=2:epochs=1"
    told = []
    job = Job("method", 0, name)
    config = dataclasses.replace(config, methods=[name], clone_tasks=8)
    run_job(config, tmp_path, job, lambda *words: told.append(words))
    found = read_finished(tmp_path, job)
    assert [(score.policy, score.mode, len(score.success)) for score in found.scores] == [
        (name, "greedy", config.eval_tasks), (name, "sampled", config.eval_tasks)
    ]  # fmt: skip
    assert [point.iteration for point in found.runs[0].curve] == [0, 1]
    # It gives no step credit, and its state graph says so.
    assert {edge.advantage for edge in found.graphs[0].edges} == {None}
    assert any("imitation" in words for *_, words in told)
    assert (tmp_path / job.name / "model").is_dir()


def test_the_setting_plays_the_tasks_that_were_cloned(config):
    setting = imitation_setting(config, 3)
    assert list(setting.tasks) == [{"split": "train", "index": i} for i in range(config.clone_tasks)]
    assert setting.supervised["learning_rate"] == 3e-3
    assert setting.training.learning_rate == config.training["learning_rate"]
    assert setting.seed == 3


def test_names_of_both_kinds_are_read_where_both_are_trained():
    assert named_methods("rft:samples=2, grpo", imitation=True) == ["rft:samples=2", "grpo"]
    assert isinstance(method("rft"), Imitation)
    with pytest.raises(typer.BadParameter, match="gives no credit"):
        named_methods("rft")


def test_what_cannot_be_learned_from_is_refused_before_anything_is_trained(config):
    with pytest.raises(typer.BadParameter, match="--clone-tasks 0 leaves none"):
        _check_envs(dataclasses.replace(config, methods=["sft"], clone_tasks=0))
    other = dataclasses.replace(
        config, env="AgentRL/SearchQA-v0", methods=["hindsight"],
        setup=dataclasses.replace(config.setup, options={}, plenty={}),
    )  # fmt: skip
    with pytest.raises(typer.BadParameter, match="hindsight"):
        _check_envs(other)
