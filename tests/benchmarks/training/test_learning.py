"""The default benchmark: what its parts leave, that they belong together, and that its file is checked."""

import copy
import dataclasses
import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("typer")

import typer

from agentgym.outside.files import OtherConfigurationError
from baselines.imitation.method import Imitation
from baselines.recipes.methods import method as method_of
from baselines.runs.stack import imitation_setting, new_policy
from benchmarks.json_files import ResultsError, claimed, encode
from benchmarks.options import named_methods
from benchmarks.processes import JobFailedError
from benchmarks.training import showcase
from benchmarks.training.command import _check_envs
from benchmarks.training.learning import RESULTS, STUDY, needs, parts
from benchmarks.training.showcase import trained_graph
from policies.huggingface import HuggingFacePolicy
from tests.cases import cases
from tests.refusals import refuses


def do(config, folder, part, progress=lambda *words: None):
    STUDY.do(config, folder, part, progress, folder)


@pytest.fixture
def found(finished_run):
    return STUDY.load(finished_run / RESULTS)


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
    for run in found.runs:
        seconds = {score.seconds for score in found.scores if (score.policy, score.seed) == (run.method, run.seed)}
        assert len(seconds) == 1
        assert seconds.pop() == pytest.approx(clone[run.seed] + run.seconds)
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


def test_folders_name_what_differs_and_parts_wait_for_theirs(config, tmp_path):
    for _ in range(2):
        with claimed(tmp_path, config):
            pass
    other = dataclasses.replace(config, groups=99)
    with pytest.raises(OtherConfigurationError, match=r"groups: there 4, here 99"), claimed(tmp_path, other):
        pass
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


def test_a_model_of_ones_own_is_trained_in_full_precision(config, tmp_path):
    import torch

    policy = new_policy(config, 0)
    policy.model.to(torch.bfloat16)
    policy.save_pretrained(tmp_path)
    found = new_policy(dataclasses.replace(config, model=str(tmp_path)), 0)
    assert {weight.dtype for weight in found.model.parameters()} == {torch.float32}


def test_adapters_are_trained_resumed_and_scored(finished_run, config, tmp_path):
    from policies.lora import has_adapter

    shutil.copytree(finished_run / "clone-seed0", tmp_path / "clone-seed0")
    training = {**config.training, "learning_rate": 10 * config.training["learning_rate"]}
    config = dataclasses.replace(config, lora=4, training=training, methods=["grpo"], seeds=[0])
    for _ in range(2):  # the second time it finds a whole run, and reads it back from the checkpoint
        do(config, tmp_path, "grpo-seed0")
    place = tmp_path / "grpo-seed0"
    rows = [json.loads(line)["iteration"] for line in (place / "log.jsonl").read_text("utf-8").splitlines()]
    assert rows == [0, 1, 2]
    adapter, merged, clone = (
        HuggingFacePolicy.from_pretrained(folder)
        for folder in (place / "adapter", place / "model", tmp_path / "clone-seed0" / "model")
    )
    assert has_adapter(adapter.model)
    assert not has_adapter(merged.model)
    rows = [merged.encode("####\n#PO#\n####")], [(5,)]
    found, expected, start = (player.score(*rows).logprobs.item() for player in (merged, adapter, clone))
    assert found == pytest.approx(expected, abs=1e-5)
    assert found != pytest.approx(start, abs=1e-5)


@pytest.fixture
def random_model(tmp_path):
    """Folder of a small Qwen2 with random weights, without settings of a policy."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    from policies.tiny import tiny_tokenizer

    tokenizer = tiny_tokenizer(["####\n#PO#\n#_X#\n####"], ["up", "down", "left", "right"])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Qwen2ForCausalLM(
            Qwen2Config(
                vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=4096, tie_word_embeddings=True,
                eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, bos_token_id=None,
            )
        )  # fmt: skip
    model.save_pretrained(tmp_path / "qwen")
    tokenizer.save_pretrained(tmp_path / "qwen")
    return tmp_path / "qwen"


class KilledError(Exception):
    """Stands for the end of a process."""


def asked(monkeypatch, *options):
    """What the command line would run."""
    from typer.testing import CliRunner

    from benchmarks.run import app

    found = []
    monkeypatch.setattr("benchmarks.training.command._learn", lambda config, *_: found.append(config))
    result = CliRunner().invoke(app, list(options))
    assert result.exit_code == 0, result.output
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
    write_page(STUDY.shown(results), whole)
    assert len(list(check_artefacts(whole))) == 5
    page = (whole / "report.html").read_text("utf-8")
    assert "adapters of rank 8" in page
    assert "the whole conversation" in page


def test_load_gives_back_what_was_saved(found, tmp_path):
    STUDY.save(found, tmp_path / RESULTS)
    assert STUDY.load(tmp_path / RESULTS) == found
    assert encode(found) == json.loads((tmp_path / RESULTS).read_text("utf-8"))


def change(value, path, new):
    """Set the entry at a path such as ("runs", 0, "curve")."""
    for key in path[:-1]:
        value = value[key]
    if new is KeyError:
        del value[path[-1]]
    else:
        value[path[-1]] = new


@cases(
    "path, new, expected",
    (("version",), 99, r"this code reads version 2, got version 99"),
    (("config", "seeds"), "0", r"results\.json: config\.seeds: Input should be a valid array, got '0'"),
    (("config", "seeds"), [0, 1, 5], r"no run of 'grpo' with seed 5"),
    (("config", "methods"), ["grpo", "rloo"], r"no run of 'rloo' with seed 0"),
    (("config", "eval_tasks"), 13, r"results\.json: scores\[0\]\.success: expected 13 characters"),
    (
        ("runs", 0, "curve", 1, "greedy"),
        "high",
        r"runs\[0\]\.curve\[1\]\.greedy: Input should be a valid number, got 'high'",
    ),
    (("runs", 0, "curve"), [], r"json: runs\[0\]\.curve: iterations must rise"),
    (("runs", 0, "seed"), True, r"runs\[0\]\.seed: Input should be a valid integer, got True"),
    (("runs", 0, "seed"), KeyError, r"runs\[0\]\.seed: Field required"),
    (("runs", 0, "seconsd"), 1.0, r"runs\[0\]\.seconsd: Unexpected keyword argument"),
    (("scores",), [], r"no sampled score of 'random' with seed 0"),
    (("graphs", 0, "edges", 0, "target"), 10_000, r"graphs\[0\]\.edges: an edge ends at a node that does not exist"),
)
def test_a_malformed_file_is_refused_with_the_path_of_the_fault(finished_run, tmp_path, path, new, expected):
    value = copy.deepcopy(json.loads((finished_run / "results.json").read_text("utf-8")))
    change(value, path, new)
    (tmp_path / "results.json").write_text(json.dumps(value), "utf-8")
    refuses(ResultsError, expected, lambda: STUDY.load(tmp_path / "results.json"))


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
