"""What a run leaves behind: logs, checkpoints, scores that belong together."""

import dataclasses
import functools
import json
import shutil

import pytest

pytest.importorskip("torch")

from benchmarks.json_files import OtherConfigurationError, ResultsError, claimed
from benchmarks.learning.jobs import all_jobs, is_finished, run_job
from benchmarks.learning.results import load
from benchmarks.learning.study import gather
from benchmarks.processes import Job, JobFailedError, run_jobs
from benchmarks.training.stack import new_policy


@pytest.fixture
def config(finished_run):
    return load(finished_run / "results.json").config


def test_every_run_leaves_log_checkpoint_model_and_tensorboard_files(finished_run, config):
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


def test_all_methods_of_a_seed_start_from_the_same_clone(finished_run, config):
    found = load(finished_run / "results.json")
    for seed in config.seeds:
        starts = {(run.curve[0].greedy, run.curve[0].success) for run in found.runs if run.seed == seed}
        assert len(starts) == 1


def test_the_expert_solves_every_test_task(finished_run):
    found = load(finished_run / "results.json")
    expert = [score for score in found.scores if score.policy == "expert"]
    assert len(expert) == 2
    assert all(set(score.success) == {"1"} and score.invalid_rate == 0 for score in expert)


def test_training_time_includes_the_warm_start(finished_run):
    found = load(finished_run / "results.json")
    clone = {score.seed: score.seconds for score in found.scores if score.policy == "clone"}
    for run in found.runs:
        seconds = {score.seconds for score in found.scores if (score.policy, score.seed) == (run.method, run.seed)}
        assert len(seconds) == 1
        assert seconds.pop() == pytest.approx(clone[run.seed] + run.seconds)


def test_episodes_show_the_moves_between_their_boards(finished_run):
    found = load(finished_run / "results.json")
    assert {episode.policy for episode in found.episodes} == {"random", "expert", "clone", "grpo", "rewardflow"}
    for episode in found.episodes:
        for before, after in zip(episode.frames, episode.frames[1:], strict=False):
            # An accepted action moves the player, a refused one changes nothing.
            assert (before.text != after.text) == before.valid
        assert episode.won == ("X" not in episode.frames[-1].text)


def test_graphs_show_one_task_before_and_after_training(finished_run):
    found = load(finished_run / "results.json")
    assert len({graph.task_id for graph in found.graphs}) == 1
    assert [(graph.method, graph.stage) for graph in found.graphs] == [
        ("grpo", "clone"), ("rewardflow", "clone"), ("grpo", "trained"), ("rewardflow", "trained"),
    ]  # fmt: skip
    grpo, rewardflow = found.graphs[:2]
    # The same episodes of the clone, so the same picture; only the advantages are the method's own.
    assert grpo.nodes == rewardflow.nodes
    assert [edge.gain for edge in grpo.edges] == [edge.gain for edge in rewardflow.edges]


def test_gather_names_the_job_that_is_missing(finished_run, config, tmp_path):
    with pytest.raises(ResultsError, match="job clone-seed0 is not finished"):
        gather(config, tmp_path)


def test_a_folder_accepts_the_same_and_names_what_differs(config, tmp_path):
    for _ in range(2):
        with claimed(tmp_path, config):
            pass
    other = dataclasses.replace(config, groups=99)
    with pytest.raises(OtherConfigurationError, match=r"groups: there 4, asked for 99"), claimed(tmp_path, other):
        pass


def test_jobs_are_clones_first_and_have_distinct_names(config):
    jobs = all_jobs(config)
    assert [job.name for job in jobs] == [
        "clone-seed0", "clone-seed1", "references",
        "grpo-seed0", "rewardflow-seed0", "grpo-seed1", "rewardflow-seed1",
    ]  # fmt: skip


def test_a_failing_job_is_reported_with_its_traceback(config, tmp_path):
    broken = dataclasses.replace(config, env="AgentRL/Nowhere-v0")
    with pytest.raises(JobFailedError, match=r"(?s)references failed:.*`Nowhere` doesn't exist"):
        run_jobs(
            [Job("references")], functools.partial(run_job, broken, tmp_path), processes=1, progress=lambda *words: None
        )
    assert not is_finished(tmp_path, Job("references"))


def test_a_job_that_waits_for_nothing_is_an_error_not_a_hang(config, tmp_path):
    with pytest.raises(JobFailedError, match="grpo-seed0 can never start"):
        run_jobs(
            [Job("method", 0, "grpo")], functools.partial(run_job, config, tmp_path), processes=1,
            progress=lambda *words: None, ready=lambda job: False,
        )  # fmt: skip


def test_a_damaged_job_file_is_named(finished_run, config, tmp_path):
    folder = shutil.copytree(finished_run, tmp_path / "copy")
    (folder / "grpo-seed0" / "finished.json").write_text("{", "utf-8")
    with pytest.raises(ResultsError, match=r"finished.json: Invalid JSON"):
        gather(config, folder)


def test_a_model_of_ones_own_is_trained_in_full_precision(config, tmp_path):
    import torch

    policy = new_policy(config, 0)
    policy.model.to(torch.bfloat16)
    policy.save_pretrained(tmp_path)
    found = new_policy(dataclasses.replace(config, model=str(tmp_path)), 0)
    assert {weight.dtype for weight in found.model.parameters()} == {torch.float32}


def test_adapters_are_trained_resumed_and_scored(finished_run, config, tmp_path):
    from policies.huggingface import HuggingFacePolicy
    from policies.lora import has_adapter

    shutil.copytree(finished_run / "clone-seed0", tmp_path / "clone-seed0")
    training = {**config.training, "learning_rate": 10 * config.training["learning_rate"]}
    config = dataclasses.replace(config, lora=4, training=training, methods=["grpo"], seeds=[0])
    job = Job("method", 0, "grpo")
    for _ in range(2):  # the second time it finds a whole run, and reads it back from the checkpoint
        run_job(config, tmp_path, job, lambda *words: None)
    place = tmp_path / job.name
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
    monkeypatch.setattr("benchmarks.learning.command._learn", lambda config, *_: found.append(config))
    result = CliRunner().invoke(app, list(options))
    assert result.exit_code == 0, result.output
    return found[0]


@pytest.mark.slow
def test_a_random_models_adapter_learns_from_conversations_and_a_killed_run_gives_the_same_table(
    random_model, tmp_path, monkeypatch
):
    from benchmarks.learning.artefacts import check_artefacts
    from benchmarks.learning.report import write_report
    from benchmarks.learning.results import save

    monkeypatch.setattr("benchmarks.learning.showcase.CANDIDATES", 2)
    config = asked(
        monkeypatch, "--model", str(random_model), "--lora", "8", "--transcript", "--methods", "grpo",
        "--steps", "2", "--groups", "2", "--group-size", "2", "--clone-tasks", "16", "--clone-epochs", "2",
        "--clone-rate", "5e-3", "--eval-tasks", "2", "--validation-tasks", "2", "--validation-every", "1",
    )  # fmt: skip
    assert (config.lora, config.transcript, config.model) == (8, True, str(random_model))
    assert config.setup.clone["learning_rate"] == 5e-3
    config.setup.options["max_episode_steps"] = 4
    config.setup.policy["max_new_tokens"] = 2
    clone, references, method = all_jobs(config)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for job in (clone, references):
        run_job(config, whole, job, lambda *words: None)
        shutil.copytree(whole / job.name, killed / job.name)

    def die(done, total, words):
        if done == 2:
            raise KilledError

    run_job(config, whole, method, lambda *words: None)
    with pytest.raises(KilledError):
        run_job(config, killed, method, die)
    assert not is_finished(killed, method)
    run_job(config, killed, method, lambda *words: None)

    def found(folder):
        results = gather(config, folder)
        save(results, folder / "results.json")
        curves = [[(p.iteration, p.success, p.greedy) for p in run.curve] for run in results.runs]
        scores = [dataclasses.replace(score, seconds=0.0) for score in results.scores]
        return results, (scores, curves, results.episodes, results.graphs)

    results, table = found(whole)
    assert found(killed)[1] == table
    write_report(results, whole)
    assert len(list(check_artefacts(whole))) == 5
    page = (whole / "report.html").read_text("utf-8")
    assert "adapters of rank 8" in page
    assert "the whole conversation" in page
