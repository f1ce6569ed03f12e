"""The default benchmark: what its parts leave, its file, what it shows, and the check that finds what is missing."""

import dataclasses
import functools
import io
import json
import operator
import os
import re
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import typer
from rich.console import Console
from safetensors.numpy import load_file

from agentgym.outside.text import DataError
from baselines.environments.registry import settings_of
from baselines.imitation.method import Imitation
from baselines.recipes.methods import method as method_of
from baselines.runs.data_source import noted
from baselines.runs.stack import imitation_setting
from benchmarks.json_files import ResultsError, encode
from benchmarks.options import named_methods
from benchmarks.processes import JobFailedError
from benchmarks.report.assemble import LONGEST, colour_of, write_picture
from benchmarks.report.page import html, terminal_table, write_page
from benchmarks.training import showcase
from benchmarks.training.artefacts import check_artefacts
from benchmarks.training.command import _check_envs
from benchmarks.training.learning import RESULTS, STUDY, CurvePoint, needs, parts
from benchmarks.training.learning_page import (
    band_words,
    caption,
    cells,
    curve_series,
    difference,
    draw_curves,
    kind_tables,
    page_data,
    success,
)
from benchmarks.training.run import KindScore
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
    assert list(parts(config)) == [
        "clone-seed0", "clone-seed1", "references",
        "grpo-seed0", "rewardflow-seed0", "grpo-seed1", "rewardflow-seed1",
    ]  # fmt: skip
    assert [needs(config, part) for part in parts(config)] == [
        [], [], [], *[["clone-seed0"]] * 2, *[["clone-seed1"]] * 2
    ]  # fmt: skip


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


def asked(monkeypatch, *options):
    """What the command line would run."""
    found = []
    monkeypatch.setattr("benchmarks.training.command._learn", lambda config, *_: found.append(config))
    run(*options)
    return found[0]


@pytest.mark.slow
def test_a_random_models_adapter_learns_from_conversations(random_model, tmp_path, monkeypatch):
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
    whole = tmp_path / "whole"
    for part in (clone, references, method):
        do(config, whole, part)
    results = STUDY.gather(config, whole, whole)
    STUDY.save(results, whole / RESULTS)
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


def test_results_are_read_as_they_were_saved_and_parts_that_are_missing_named(found, tmp_path, finished_run, config):
    STUDY.save(found, tmp_path / RESULTS)
    assert STUDY.load(tmp_path / RESULTS) == found
    assert encode(found) == json.loads((tmp_path / RESULTS).read_text("utf-8"))
    refuses(ResultsError, r"clone-seed0/finished.json: no such file", STUDY.gather, config, tmp_path)
    folder = shutil.copytree(finished_run, tmp_path / "copy")
    (folder / "grpo-seed0" / "finished.json").write_text("{", "utf-8")
    refuses(ResultsError, r"finished.json: Invalid JSON", STUDY.gather, config, folder)


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


def test_settings_and_names_of_both_kinds_are_read(config) -> None:
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


@pytest.fixture
def copy(finished_run, tmp_path):
    return shutil.copytree(finished_run, tmp_path / "copy")


def test_a_finished_run_is_in_order_without_a_reference_too(finished_run, copy):
    lines = list(check_artefacts(finished_run))
    assert [line.split(":")[0] for line in lines] == [
        "results.json", "curves.png", "report.html", "clone-seed0", "clone-seed1",
        "grpo-seed0", "rewardflow-seed0", "grpo-seed1", "rewardflow-seed1",
    ]  # fmt: skip
    path = copy / "grpo-seed0" / "log.jsonl"
    rows = [json.loads(line) | {"kl": 0.0} for line in path.read_text("utf-8").splitlines()]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    found = {line.split(":")[0]: line for line in check_artefacts(copy)}
    assert "KL" not in found["grpo-seed0"]
    assert "KL to the clone 0." in found["grpo-seed1"]


def without_last_row(folder):
    path = folder / "grpo-seed0" / "log.jsonl"
    path.write_text("".join(path.read_text("utf-8").splitlines(keepends=True)[:-1]), "utf-8")


def with_a_number_lost(folder):
    path = folder / "grpo-seed0" / "log.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    rows[1]["entropy"] = None
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def with_a_rising_loss(folder):
    path = folder / "clone-seed1" / "cloning.json"
    path.write_text(json.dumps([{"loss": 1.0}, {"loss": 1.5}]), "utf-8")


def with_untrained_weights(folder):
    shutil.copytree(folder / "clone-seed0" / "model", folder / "rewardflow-seed0" / "model", dirs_exist_ok=True)


@cases(
    "damage, expected",
    (without_last_row, r"log.jsonl: iterations \[0, 1\]"),
    (with_a_number_lost, "iteration 1: entropy is None"),
    (with_a_rising_loss, r"the loss did not fall: \[1.0, 1.5\]"),
    (with_untrained_weights, "rewardflow-seed0: the weights are those of the clone"),
    (lambda folder: (folder / "curves.png").write_bytes(b"\x89PNG"), "expected a picture"),
    (lambda folder: (folder / "report.html").write_text("<html>", "utf-8"), "expected the page of results.json"),
    (lambda folder: [path.unlink() for path in (folder / "grpo-seed1").glob("*/state.json")], "no checkpoint"),
    (lambda folder: (folder / "grpo-seed1" / "log.jsonl").unlink(), "the log of training is missing"),
    (lambda folder: (folder / "grpo-seed1" / "log.jsonl").write_text("{", "utf-8"), "log.jsonl, line 1: not JSON"),
    (lambda folder: (folder / "clone-seed0" / "cloning.json").write_text("[", "utf-8"), "cloning.json: not JSON"),
    (lambda folder: shutil.rmtree(folder / "grpo-seed0" / "model"), "grpo-seed0/model: weights cannot be read"),
    (lambda folder: shutil.rmtree(folder / "clone-seed0" / "model"), "clone-seed0/model: no weights"),
)
def test_what_is_missing_is_named(copy, damage, expected):
    damage(copy)
    refuses(DataError, expected, lambda: list(check_artefacts(copy)))


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def render(found):
    page = STUDY.shown(found)
    return html(page, {each.file: b"" for each in page.figures})


def test_the_page_fetches_nothing_and_holds_what_the_results_hold(finished_run, found, tmp_path):
    page = (finished_run / "report.html").read_text("utf-8")
    assert len(page) < 3_000_000
    # Of the chart library's script, which is the only one from elsewhere, the browser test says the same.
    ours = re.sub(r"/\* BEGIN (bokeh[-a-z]*\.min\.js) \*/.*?/\* END \1 \*/", "", page, flags=re.DOTALL)
    assert len(page) - len(ours) > 1_000_000
    assert set(re.findall(r"https?://[^\s\"'<)]+", ours)) == {"http://www.w3.org/2000/svg"}  # a name, never fetched
    assert not re.search(r"<(script|img|iframe)[^>]*\ssrc=(?!.data:)|<link[^>]*stylesheet|@import|url\((?!#)", ours)
    page = (finished_run / "report.html").read_text("utf-8")
    written = {path.name: path.read_text("utf-8") for path in write_page(STUDY.shown(found), tmp_path)[1:]}
    assert written["report.html"] == page
    assert noted(finished_run).words in page
    assert "| rewardflow | " in written["report.md"]
    page = (finished_run / "report.html").read_text("utf-8")
    for policy in ("random", "expert", "clone", "grpo", "rewardflow"):
        assert f'<th scope="row">{policy}</th>' in page
    data = data_of(page)
    for mode in ("greedy", "sampled"):
        assert data["curves"][mode] == curve_series(found, mode)
    assert list(data["episodes"]) == ["random", "expert", "clone", "grpo", "rewardflow"]
    assert len(data["graphs"]) == 4
    assert all(0 <= node[axis] <= 1 for graph in data["graphs"] for node in graph["nodes"] for axis in "xy")
    assert all(line.startswith("iteration ") for run in found.runs for line in run.warnings)
    runs = [
        dataclasses.replace(run, warnings=["iteration 3: <lost>"] if run.method == "grpo" else []) for run in found.runs
    ]
    assert render(dataclasses.replace(found, runs=runs)).count("<li>grpo, seed 0, iteration 3: &lt;lost&gt;</li>") == 1
    none = [dataclasses.replace(run, warnings=[]) for run in found.runs]
    assert "<h2>Warnings</h2>" not in render(dataclasses.replace(found, runs=none))


def test_boards_have_tiles_and_observations_stay_in_the_data(found):
    data = page_data(found)
    symbols = {symbol for graph in data["graphs"] for node in graph["nodes"] for symbol in node["text"]}
    assert symbols - {"\n"} <= set(data["tiles"])
    assert (settings_of("AgentRL/ALFWorld-v0").tiles, settings_of("AgentRL/Sokoban-v0").tiles["X"]) == (None, "box")
    for evil in ("</script><script>alert(1)</script> <b>&", "y" * 1_000_000):
        frame = dataclasses.replace(found.episodes[0].frames[0], text=evil)
        episode = dataclasses.replace(found.episodes[0], frames=[frame])
        page = render(dataclasses.replace(found, episodes=[episode]))
        assert len(page) < 3_000_000
        assert "<script>alert" not in page
        shown = data_of(page)["episodes"][episode.policy][0]["frames"][0]["text"]
        assert shown == evil if len(evil) < LONGEST else shown.startswith("yyy") and len(shown) < LONGEST + 100


def test_rows_are_averages_and_differences_those_of_trained_policies(found):
    assert "Tiny language-model policies are cloned" in render(found)
    other = dataclasses.replace(found, config=dataclasses.replace(found.config, model="some/folder", clone_tasks=0))
    assert "Language-model policies are trained without a warm start" in render(other)
    assert [row[0] for row in STUDY.shown(found).tables[0].texts] == ["random", "expert", "clone", "grpo", "rewardflow"]
    for policy in ("clone", "grpo"):
        greedy = found.of(policy, "greedy")
        assert [score.seed for score in greedy] == [0, 1]
        solved = sum(score.success.count("1") for score in greedy)
        assert success(found, policy, "greedy").mean == pytest.approx(solved / 24)
        assert cells(found, policy)[4] == f"{sum(score.mean_length for score in greedy) / 2:.1f}"
    assert success(found, "expert", "greedy").mean == 1.0
    for policy in ("random", "expert", "clone", "grpo", "rewardflow"):
        assert (difference(found, policy) is not None) == (policy in ("grpo", "rewardflow"))
        assert (cells(found, policy)[-1] == "-") == (policy in ("random", "expert"))
    assert success(found, "random", "greedy") is success(found, "expert", "sampled") is None
    for method in ("grpo", "rewardflow"):
        own, clone = (success(found, policy, "greedy").mean for policy in (method, "clone"))
        assert difference(found, method).mean == pytest.approx(own - clone)


@pytest.mark.parametrize("width", [60, 80, 130])
@pytest.mark.parametrize("name", ["rewardflow", "reinforce_plus_plus_baseline"])
def test_the_terminal_shows_every_policy_and_number_at_any_width(finished_run, tmp_path, width, name):
    text = (finished_run / "results.json").read_text("utf-8").replace("rewardflow", name)
    (tmp_path / "results.json").write_text(text, "utf-8")
    console = Console(file=io.StringIO(), width=width)
    console.print(terminal_table(STUDY.shown(STUDY.load(tmp_path / "results.json")).tables[0], console))
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in console.file.getvalue()
    if name == "rewardflow":
        assert all(policy in " ".join(lines) for policy in ("random", "expert", "clone", "grpo", "rewardflow"))
    if width >= 80:
        assert "100.0" in " ".join(lines)


def test_the_caption_counts_tasks_and_seeds_and_kinds_of_tasks_have_a_table_per_split(found):
    assert caption(found).startswith("12 held-out test tasks, 2 training seeds.")
    assert "admissible" not in caption(found)
    setup = dataclasses.replace(found.config.setup, policy={"admissible": True})
    limited = dataclasses.replace(found, config=dataclasses.replace(found.config, setup=setup))
    assert caption(limited).endswith("Models write admissible commands only, and are trained under that restriction.")
    setting = found.config.env, settings_of("alfworld")
    assert kind_tables(found) == []
    kinds = list(setting[1].kind_names)[:2]
    scores = [
        KindScore("clone", seed, "greedy", "test", {kinds[0]: seed, kinds[1]: 1}, {kinds[0]: 2, kinds[1]: 1})
        for seed in (0, 1)
    ]  # fmt: skip
    config = dataclasses.replace(found.config, env=setting[1].id)
    (table,) = kind_tables(dataclasses.replace(found, config=config, kinds=scores))
    # One of four, two of two, three of six.
    assert table.rows == [["clone, greedy", "25.0", "100.0", "50.0"]]
    assert table.heads[-1] == "All (6)"


def test_curves_average_seeds_and_their_picture_explains_its_band(found, tmp_path):
    # grpo: seed 0 has iterations 0, 2, 4; seed 1 has 0 and 2 only.
    curves = {
        0: [CurvePoint(0, 0.0, 0.1, 0.2), CurvePoint(2, 10.0, 0.3, 0.4), CurvePoint(4, 20.0, 0.5, 0.6)],
        1: [CurvePoint(0, 0.0, 0.1, 0.4), CurvePoint(2, 30.0, 0.5, 0.6)],
    }
    runs = [dataclasses.replace(run, curve=curves[run.seed]) if run.method == "grpo" else run for run in found.runs]
    series = curve_series(dataclasses.replace(found, runs=runs), "greedy")[0]
    assert (series["method"], series["iteration"], series["seconds"]) == ("grpo", [0, 2], [0, 20])
    assert series["mean"] == pytest.approx([0.3, 0.5])
    bands = zip(series["low"], series["mean"], series["high"], strict=True)
    assert all(low <= mean <= high for low, mean, high in bands)
    assert curve_series(dataclasses.replace(found, runs=runs), "sampled")[0]["mean"] == pytest.approx([0.1, 0.4])
    write_picture(draw_curves(found), tmp_path / "curves.png")
    content = (tmp_path / "curves.png").read_bytes()
    assert content.startswith(b"\x89PNG")
    width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))
    assert width > 1000
    assert height > 700
    assert band_words(found) == "mean of 2 seeds; band: 95 % t interval over seeds; 6 validation tasks each"
    one = dataclasses.replace(found, config=dataclasses.replace(found.config, seeds=[0]))
    assert band_words(one) == "one seed; band: 95 % Wilson interval over 6 validation tasks"
    names = ["grpo", "rloo", "gigpo", "rewardflow", "graphgpo"]
    assert len({colour_of(name) for name in names}) == 5
    assert colour_of("a new method").startswith("#")
