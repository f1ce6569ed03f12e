"""The default benchmark: what its parts leave, that they belong together, and that its file is checked."""

import dataclasses
import functools
import json
import operator
import os
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import typer
from safetensors.numpy import load_file

from baselines.imitation.method import Imitation
from baselines.recipes.methods import method as method_of
from baselines.runs.stack import imitation_setting
from benchmarks.json_files import ResultsError, encode
from benchmarks.options import named_methods
from benchmarks.processes import JobFailedError
from benchmarks.training import showcase
from benchmarks.training.command import _check_envs
from benchmarks.training.learning import RESULTS, STUDY, needs, parts
from benchmarks.training.showcase import trained_graph
from policies.huggingface import HuggingFacePolicy
from policies.lora import has_adapter
from policies.smollm2 import smollm2_folder
from policies.tiny import tiny_policy
from tests.benchmarks.command import run
from tests.cases import cases
from tests.refusals import refuses


def do(config, folder, part, progress=lambda *words: None):
    STUDY.do(config, folder, part, progress, folder)


@pytest.fixture
def config(found):
    return found.config


def test_every_run_leaves_its_files_and_starts_from_the_clone_of_its_seed(finished_run, config, found):
    for method in config.methods:
        for seed in config.seeds:
            folder = finished_run / f"{method}-seed{seed}"
            rows = [json.loads(line) for line in (folder / "log.jsonl").read_text("utf-8").splitlines()]
            assert [row["iteration"] for row in rows] == [0, 1, 2]
            for name in ("approx_kl", "clip_fraction", "success", "invalid_rate", "entropy", "tokens_per_second"):
                assert isinstance(rows[-1][name], float)
            assert any(folder.glob("checkpoint-*/state.json"))
            assert (folder / "model" / "policy.json").is_file()
            assert list(folder.glob("tensorboard/events.*"))
    for seed in config.seeds:
        starts = {(run.curve[0].greedy, run.curve[0].success) for run in found.runs if run.seed == seed}
        assert len(starts) == 1


def test_clones_experts_and_graphs_of_a_run(found) -> None:
    expert = [score for score in found.scores if score.policy == "expert"]
    assert len(expert) == 2
    assert all(set(score.success) == {"1"} and score.invalid_rate == 0 for score in expert)
    clone = {score.seed: score.seconds for score in found.scores if score.policy == "clone"}
    for one in found.runs:
        (seconds,) = {score.seconds for score in found.scores if (score.policy, score.seed) == (one.method, one.seed)}
        assert seconds == pytest.approx(clone[one.seed] + one.seconds)
    assert {episode.policy for episode in found.episodes} == {"random", "expert", "clone", "grpo", "rewardflow"}
    for episode in found.episodes:
        for before, after in zip(episode.frames, episode.frames[1:], strict=False):
            # An accepted action moves the player, a refused one changes nothing.
            assert (before.text != after.text) == before.valid
        assert episode.won == ("X" not in episode.frames[-1].text)
    assert len({graph.task_id for graph in found.graphs}) == 1
    assert [(graph.method, graph.stage) for graph in found.graphs] == [
        ("grpo", "clone"), ("rewardflow", "clone"), ("grpo", "trained"), ("rewardflow", "trained"),
    ]  # fmt: skip
    grpo, rewardflow = found.graphs[:2]
    # The same episodes of the clone, so the same picture; only the advantages are the method's own.
    assert grpo.nodes == rewardflow.nodes
    assert [edge.gain for edge in grpo.edges] == [edge.gain for edge in rewardflow.edges]


def test_a_part_that_is_missing_or_damaged_is_named(finished_run, config, tmp_path):
    refuses(ResultsError, r"clone-seed0/finished.json: no such file", STUDY.gather, config, tmp_path)
    folder = shutil.copytree(finished_run, tmp_path / "copy")
    (folder / "grpo-seed0" / "finished.json").write_text("{", "utf-8")
    refuses(ResultsError, r"finished.json: Invalid JSON", STUDY.gather, config, folder)


def test_parts_wait_for_theirs(config):
    assert list(parts(config)) == [
        "clone-seed0", "clone-seed1", "references",
        "grpo-seed0", "rewardflow-seed0", "grpo-seed1", "rewardflow-seed1",
    ]  # fmt: skip
    assert [needs(config, part) for part in parts(config)] == [
        [], [], [], *[["clone-seed0"]] * 2, *[["clone-seed1"]] * 2
    ]  # fmt: skip


def test_a_failing_part_is_reported_with_its_traceback(config, tmp_path):
    broken = dataclasses.replace(config, env="AgentRL/Nowhere-v0", methods=[], seeds=[])
    with pytest.raises(JobFailedError, match=r"(?s)(references|clone-seed0) failed:.*`Nowhere` doesn't exist"):
        STUDY.play(dataclasses.replace(broken, seeds=[0]), tmp_path, processes=2)
    assert not STUDY.path(tmp_path, "references").exists()


@pytest.fixture
def random_model(tmp_path):
    """Folder of a small Qwen2 with random weights, without settings of a policy."""
    policy = tiny_policy(["####\n#PO#\n#_X#\n####"], seed=0, extra_words=["up", "down", "left", "right"])
    for part in (policy.model, policy.tokenizer):
        part.save_pretrained(tmp_path / "qwen")
    return tmp_path / "qwen"


class KilledError(Exception):
    """Stands for the end of a process."""


def asked(monkeypatch, *options):
    """What the command line would run."""
    found = []
    monkeypatch.setattr("benchmarks.training.command._learn", lambda config, *_: found.append(config))
    run(*options)
    return found[0]


@pytest.mark.slow
def test_a_random_models_adapter_learns_from_conversations_and_a_killed_run_gives_the_same_table(
    random_model, tmp_path, monkeypatch
):
    from benchmarks.report.page import write_page
    from benchmarks.training.artefacts import check_artefacts

    monkeypatch.setattr("benchmarks.training.showcase.CANDIDATES", 2)
    config = asked(
        monkeypatch, "--model", str(random_model), "--lora", "8", "--transcript", "--methods", "grpo",
        "--steps", "2", "--groups", "2", "--group-size", "2", "--clone-tasks", "16", "--clone-epochs", "2",
        "--clone-rate", "5e-3", "--eval-tasks", "2", "--validation-tasks", "2", "--validation-every", "1",
    )  # fmt: skip
    assert (config.lora, config.transcript, config.model) == (8, True, str(random_model))
    assert config.setup.clone["learning_rate"] == 5e-3
    config.setup.options["max_episode_steps"] = 4
    config.setup.policy["max_new_tokens"] = 2
    clone, references, method = parts(config)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for part in (clone, references):
        do(config, whole, part)
        shutil.copytree(whole / part, killed / part)

    def die(done, total, words):
        if done == 2:
            raise KilledError

    do(config, whole, method)
    with pytest.raises(KilledError):
        do(config, killed, method, die)
    assert not STUDY.path(killed, method).exists()
    do(config, killed, method)

    def found(folder):
        results = STUDY.gather(config, folder, folder)
        STUDY.save(results, folder / RESULTS)
        curves = [[(p.iteration, p.success, p.greedy) for p in run.curve] for run in results.runs]
        scores = [dataclasses.replace(score, seconds=0.0) for score in results.scores]
        return results, (scores, curves, results.episodes, results.graphs)

    results, table = found(whole)
    assert found(killed)[1] == table
    folders = (whole / method / "adapter", whole / method / "model", whole / clone / "model")
    adapter, merged, start = map(HuggingFacePolicy.from_pretrained, folders)
    assert (has_adapter(adapter.model), has_adapter(merged.model)) == (True, False)
    rows = [merged.encode("####\n#PO#\n####")], [(5,)]
    said, expected, before = (player.score(*rows).logprobs.item() for player in (merged, adapter, start))
    assert (said == pytest.approx(expected, abs=1e-5), said == pytest.approx(before, abs=1e-5)) == (True, False)
    write_page(STUDY.shown(results), whole)
    assert len(list(check_artefacts(whole))) == 5
    page = (whole / "report.html").read_text("utf-8")
    assert "adapters of rank 8" in page
    assert "the whole conversation" in page


def test_load_gives_back_what_was_saved(found, tmp_path):
    STUDY.save(found, tmp_path / RESULTS)
    assert STUDY.load(tmp_path / RESULTS) == found
    assert encode(found) == json.loads((tmp_path / RESULTS).read_text("utf-8"))


@cases(
    "path, new, expected",
    (("config", "seeds"), [0, 1, 5], r"no run of 'grpo' with seed 5"),
    (("config", "methods"), ["grpo", "rloo"], r"no run of 'rloo' with seed 0"),
    (("config", "eval_tasks"), 13, r"results\.json: scores\[0\]\.success: expected 13 characters"),
    (("runs", 0, "curve"), [], r"json: runs\[0\]\.curve: iterations must rise"),
    (("runs", 0, "seed"), True, r"runs\[0\]\.seed: Input should be a valid integer, got True"),
    (("scores",), [], r"no sampled score of 'random' with seed 0"),
    (("graphs", 0, "edges", 0, "target"), 10_000, r"graphs\[0\]\.edges: an edge ends at a node that does not exist"),
)
def test_a_file_that_contradicts_itself_is_refused_with_the_place(finished_run, tmp_path, path, new, expected):
    content = json.loads((finished_run / RESULTS).read_text("utf-8"))
    functools.reduce(operator.getitem, path[:-1], content)[path[-1]] = new
    (tmp_path / RESULTS).write_text(json.dumps(content), "utf-8")
    refuses(ResultsError, expected, STUDY.load, tmp_path / RESULTS)


def test_a_trained_graph_shows_the_advantages_that_it_is_given(finished_run, config):
    policy = HuggingFacePolicy.from_pretrained(finished_run / "clone-seed0" / "model", device="cpu")
    graph = trained_graph(config, policy, lambda table: np.full(len(table), 7.0), "ppo", 0, config.clone_tasks)
    assert {edge.advantage for edge in graph.edges} == {7.0}
    assert (graph.method, graph.stage) == ("ppo", "trained")


@pytest.mark.parametrize(("training_tasks", "indices"), [(3, [5, 6, 7]), (1000, list(range(5, 37)))])
def test_a_clones_group_is_looked_for_among_the_training_tasks_alone(monkeypatch, training_tasks, indices):
    played = []

    def play(config, policy, chosen, seed):
        played.extend(task["index"] for task in chosen)
        return None, None

    monkeypatch.setattr(showcase, "_play", play)
    monkeypatch.setattr(showcase, "pick_group", lambda table: 2)
    config = SimpleNamespace(
        clone_tasks=5, training_tasks=training_tasks, methods=[], setup=SimpleNamespace(train="train")
    )
    assert showcase.clone_graphs(config, None, 0) == (7, [])
    assert played == indices


def test_a_method_goes_on_from_the_clone_and_is_scored_like_any_other(finished_run, config, tmp_path):
    shutil.copytree(finished_run / "clone-seed0", tmp_path / "clone-seed0")
    name = "rft:samples=2:epochs=1"
    messages, part = [], f"{name}-seed0"
    config = dataclasses.replace(config, methods=[name], clone_tasks=8)
    do(config, tmp_path, part, lambda *words: messages.append(words))
    found = STUDY.one(tmp_path, part)
    assert [(score.policy, score.mode, len(score.success)) for score in found.scores] == [
        (name, "greedy", config.eval_tasks), (name, "sampled", config.eval_tasks)
    ]  # fmt: skip
    assert [point.iteration for point in found.runs[0].curve] == [0, 1]
    # It gives no step credit, and its state graph says so.
    assert {edge.advantage for edge in found.graphs[0].edges} == {None}
    assert any("imitation" in words for *_, words in messages)
    assert (STUDY.path(tmp_path, part).parent / "model").is_dir()


def test_settings_and_names(config) -> None:
    setting = imitation_setting(config, 3)
    assert list(setting.tasks) == [{"split": "train", "index": i} for i in range(config.clone_tasks)]
    assert setting.supervised["learning_rate"] == 3e-3
    assert (setting.training.learning_rate, setting.seed) == (config.training["learning_rate"], 3)
    with pytest.raises(typer.BadParameter, match="--clone-tasks 0 leaves none"):
        _check_envs(dataclasses.replace(config, methods=["sft"], clone_tasks=0))
    other = dataclasses.replace(
        config, env="AgentRL/SearchQA-v0", methods=["hindsight"],
        setup=dataclasses.replace(config.setup, options={}, plenty={}),
    )  # fmt: skip
    refuses(typer.BadParameter, "hindsight", _check_envs, other)


def test_names_of_both_kinds_are_read_where_both_are_trained():
    assert named_methods("rft:samples=2, grpo", imitation=True) == ["rft:samples=2", "grpo"]
    assert isinstance(method_of("rft"), Imitation)
    refuses(typer.BadParameter, "gives no credit", named_methods, "rft")


def moved(before, after):
    """Share of the weight tensors that differ between two folders of a model."""
    one, other = (load_file(folder / "model.safetensors") for folder in (before, after))
    assert one.keys() == other.keys()
    return np.mean([not np.array_equal(one[name], other[name]) for name in one])


@pytest.fixture
def place(tmp_path):
    """Where the results go: gigabytes, which pytest would keep."""
    yield tmp_path / "out"
    shutil.rmtree(tmp_path / "out", ignore_errors=True)


@pytest.mark.slow
@pytest.mark.skipif(os.environ.get("STEPCREDIT_PRETRAINED") != "1", reason="minutes: STEPCREDIT_PRETRAINED=1 runs it")
def test_two_iterations_move_a_pretrained_model_and_leave_table_and_report(place):
    try:
        model = smollm2_folder()  # 93 MB are downloaded where the cache is empty
    except (ImportError, RuntimeError, ValueError) as error:
        pytest.skip(str(error))
    options = ("--env", "searchqa", "--model", "smollm2", "--methods", "rewardflow", "--seeds", "0", "--jobs", "1")
    sizes = ("--quick", "--steps", "2", "--eval-tasks", "2")  # 4 episodes are cloned, 2 groups of 4 played
    words = run(*options, *sizes, "--out", place)
    assert ("clone" in words, "rewardflow" in words) == (True, True)
    clone, trained = (place / name / "model" for name in ("clone-seed0", "rewardflow-seed0"))
    assert moved(model, clone) == 1
    assert moved(clone, trained) > 0.9
    rows = [json.loads(line) for line in (place / "rewardflow-seed0" / "log.jsonl").read_text("utf-8").splitlines()]
    assert [row["iteration"] for row in rows] == [0, 1, 2]
    assert all(np.isfinite(row["approx_kl"]) and row["grad_norm"] > 0 for row in rows[1:])
    assert "smollm2" in (place / "report.html").read_text("utf-8")
    assert (place / "curves.png").read_bytes().startswith(b"\x89PNG")
