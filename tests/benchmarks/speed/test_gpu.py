"""The report of the tiny shape on a CPU: complete, resumable per shape, and nothing lost where a shape does not fit."""

import dataclasses
import json
import shutil
import types
from pathlib import Path

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM
from typer.testing import CliRunner

from agentgym.outside.files import OtherConfigurationError
from benchmarks.json_files import ResultsError
from benchmarks.run import app
from benchmarks.speed import first_hour, gpu
from benchmarks.speed.gpu import DoesNotFitError, run_shapes
from benchmarks.speed.gpu_measures import GIB, SHAPES, expected_memory
from benchmarks.speed.gpu_results import FIGURES, NO_GPU, RESULTS, check_results, load
from tests.refusals import refuses

CPU = torch.device("cpu")


def quiet(words):
    return None


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Folder of the command's report; treat it as read-only."""
    folder = tmp_path_factory.mktemp("gpu")
    given = ["gpu", "--shapes", "tiny", "--iterations", "2", "--warmup", "1", "--out", str(folder)]
    result = CliRunner().invoke(app, given, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return folder, result.output


def test_figures_count_what_was_played(report) -> None:
    folder, output = report
    (one,) = load(folder).shapes
    assert (one.about["device"], one.about["driver"]) == (NO_GPU, NO_GPU)
    found = {each.key: each for each in one.figures}
    assert list(found) == list(FIGURES)
    for name in (
        "rates.utilisation", "rates.with_recomputation", "decode.limit", "decode.share", "stages.update.allocated",
        "stages.generation.reserved", "passes.0.kept", "memory.ratio",
    ):  # fmt: skip
        assert (found[name].value, found[name].absent) == (None, NO_GPU), name
    for name in ("environment", "generation", "scoring", "credit", "update"):
        assert found[f"stages.{name}.seconds"].value > 0
    shares = [each.value for name, each in found.items() if name.endswith(".share") and name.startswith("stages")]
    assert sum(shares) == pytest.approx(100)
    result = CliRunner().invoke(app, ["check", str(folder)])
    assert result.exit_code == 0, result.output
    assert "tiny:" in result.output
    assert "marked absent (no GPU)" in result.output
    for text in (output, (folder / "report.md").read_text(), (folder / "report.html").read_text()):
        assert "absent: no GPU" in text
        assert "2 iterations after 1 of warm-up, fewer than the 10 after 3" in " ".join(text.split())
    found, sizes = values(load(report[0])), load(report[0]).asked["tiny"]
    # Every reply of random weights is as long as it may be, but for the one token in 512 that ends it.
    most = sizes.groups * sizes.group_size * sizes.turns * sizes.reply_tokens
    assert 0.8 * most < found["tokens.replies"] <= most
    # The second turn continues the first: chains hold more than a row. Packed passes have no padding.
    assert found["tokens.chains"] < found["tokens.rows"] <= sizes.groups * sizes.group_size * sizes.turns
    assert found["tokens.padding"] == pytest.approx(0, abs=1e-9)
    assert found["agreement.sampler.largest"] < 1e-4
    assert 0 < found["agreement.precision.largest"] < 0.2
    assert found["passes.0.tokens"] == found["passes.1.tokens"] == sizes.tokens
    assert found["model.parameters"] == found["model.trained"]
    parts = [value for name, value in found.items() if name.startswith("memory.parts.")]
    assert found["memory.expected"] == pytest.approx(sum(parts))


def values(results):
    return {each.key: each.value for each in results.shapes[0].figures}


def test_a_file_of_version_1_is_read_as_it_was_measured(report, tmp_path):
    shutil.copy(Path(__file__).with_name("gpu-version-1.json"), tmp_path / RESULTS)
    before, now = load(tmp_path), load(report[0])
    old = json.loads((tmp_path / RESULTS).read_text())["shapes"][0]
    assert (before.shapes[0].created, before.asked["tiny"].decode_batch) == ("2026-11-24 10:33 UTC", 4)
    found = values(before)
    assert found["rates.trained"] == old["rates"]["trained"] == 17492.10965322712
    assert found["stages.update.share"] == 34.961782224478156
    assert found["passes.1.tokens_per_second"] == 24259.728826411647
    assert before.shapes[0].about["commit"].startswith("c685904")
    # What needs neither clock nor draws is measured alike.
    same = [key for key in FIGURES if key.startswith(("model", "memory", "hardware"))]
    assert {key: found[key] for key in same} == {key: values(now)[key] for key in same}
    assert before.shapes[0].about.keys() == now.shapes[0].about.keys()
    assert list(check_results(tmp_path)) == list(check_results(report[0]))
    del old["rates"]["trained"]
    (tmp_path / RESULTS).write_text(json.dumps({"version": 1, "asked": {}, "shapes": [old]}))
    refuses(ResultsError, "version 1 without 'trained'", load, tmp_path)


def test_a_missing_or_emptied_field_fails_the_check(report, tmp_path):
    good = json.loads((report[0] / RESULTS).read_text())

    def checked(change):
        value = json.loads(json.dumps(good))
        (one,) = value["shapes"]
        change(one, {each["key"]: each for each in one["figures"]})
        (tmp_path / RESULTS).write_text(json.dumps(value))
        result = CliRunner().invoke(app, ["check", str(tmp_path)])
        return result.exit_code, " ".join(result.output.split())

    assert checked(lambda one, figures: None)[0] == 0
    for change, expected in (
        (lambda one, figures: one["figures"].remove(figures["rates.trained"]), "tiny lacks rates.trained"),
        (lambda one, figures: figures["rates.trained"].pop("unit"), "unit: Field required"),
        (lambda one, figures: figures["decode.limit"].update(absent=""), "decode.limit must have a value or say why"),
        (lambda one, figures: figures["decode.limit"].update(value=0.0), "decode.limit must have a value or say why"),
        (lambda one, figures: one["about"].update(device="NVIDIA H200"), "is absent although there is a GPU"),
    ):
        status, words = checked(change)
        assert (status, expected in words) == (1, True), words


def test_a_shape_that_does_not_fit_says_what_to_lower_and_the_ones_before_are_kept(report, tmp_path, monkeypatch):
    before = load(report[0])
    gpu.save(before, tmp_path)
    monkeypatch.setitem(SHAPES, "more", SHAPES["tiny"])
    asked = {**before.asked, "more": SHAPES["tiny"].sizes}

    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory")

    told = []
    with monkeypatch.context() as patch:
        patch.setattr(gpu.gpus, "measure_decode", full)
        with pytest.raises(DoesNotFitError, match=r"more: the decode loop does not fit .*--decode-batch \(now 4\)"):
            run_shapes(asked, tmp_path, CPU, told.append)
    assert "tiny: measured before" in told
    assert load(tmp_path).shapes == before.shapes
    refuses(ResultsError, "shape more is not measured", lambda: list(check_results(tmp_path)))
    # The same command goes on, also with smaller sizes for the shape that did not fit.
    again = dataclasses.replace(before.shapes[0], shape="more")
    monkeypatch.setattr(gpu, "measure_shape", lambda *_: again)
    asked["more"] = dataclasses.replace(asked["more"], decode_batch=2)
    assert run_shapes(asked, tmp_path, CPU, quiet).of("more") == again
    assert len(list(check_results(tmp_path))) == 2
    asked["tiny"] = dataclasses.replace(asked["tiny"], tokens=99)
    refuses(OtherConfigurationError, "tokens: there 512, asked for 99", run_shapes, asked, tmp_path, CPU, quiet)


def test_every_part_that_does_not_fit_names_its_option(monkeypatch):
    sizes = dataclasses.replace(SHAPES["tiny"].sizes, iterations=1, warmup=0)

    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory")

    for part, option in (
        ("make_policy", "a larger card"), ("measure_agreement", "--groups"), ("measure_decode", "--decode-batch"),
        ("measure_pass", "--tokens"), ("run_training", "--tokens"),
    ):  # fmt: skip
        with monkeypatch.context() as patch:
            patch.setattr(gpu.gpus, part, full)
            if part == "run_training":  # the parts before it are measured elsewhere
                for name in ("measure_decode", "measure_pass"):
                    patch.setattr(gpu.gpus, name, lambda *_, **__: {})
            refuses(DoesNotFitError, option, gpu.measure_shape, "tiny", sizes, CPU, quiet)


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [("tinny", "did you mean 'tiny'?"), ("tiny,tiny", "distinct names"), ("1.5B,tiny", "1.5B: no GPU is found here")],
)
def test_a_wrong_choice_is_told(shapes, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    result = CliRunner().invoke(app, ["gpu", "--shapes", shapes, "--out", str(tmp_path)], env={"COLUMNS": "200"})
    assert (result.exit_code, expected in result.output) == (2, True), result.output


def test_weights_of_shapes() -> None:
    sizes = SHAPES["tiny"].sizes
    policy = gpu.gpus.make_policy(SHAPES["tiny"], sizes, CPU)
    assert len(policy.tokenizer) == SHAPES["tiny"].vocabulary
    texts = [policy.tokenizer.decode([token]) for token in range(len(policy.tokenizer))]
    assert len(set(texts)) == len(texts)
    policy = on_paper("1.5B", torch.float32)
    assert sum(weight.numel() for weight in policy.model.parameters()) == 1_543_714_304
    parts = expected_memory(policy, 16_384, reference=True)
    # 1.544e9 weights: 4 bytes each, 4 of gradients, 8 of AdamW are 23.0 GiB; 2 of copies and 2 of the reference.
    assert parts["weights"] + parts["gradients"] + parts["optimiser"] == pytest.approx(23.0, abs=0.01)
    assert parts["16-bit copies"] == pytest.approx(2.875, abs=0.01)
    assert parts["reference"] == pytest.approx(2.875, abs=0.01)
    # 28 layers x width 1,536 x 2 bytes = 0.086 MB per token; one layer with everything 3.10 MB / 28.
    assert parts["layer inputs"] * GIB / 16_384 == 86_016
    assert parts["one layer"] * GIB / 16_384 == pytest.approx(3.10e6 / 28, rel=0.01)
    assert 1e9 < parts["output head"] * GIB < 2e9
    policy = on_paper("7B-lora", torch.bfloat16)
    assert sum(weight.numel() for weight in policy.model.parameters()) == 7_615_616_512
    policy.model.requires_grad_(False)
    policy.model.peft_config = {}  # what an adapter has, without its layers
    policy.model.disable_adapter = None
    parts = expected_memory(policy, 16_384, reference=True)
    assert parts["weights"] == pytest.approx(14.2, abs=0.05)
    assert (parts["gradients"], parts["optimiser"], parts["16-bit copies"], parts["reference"]) == (0, 0, 0, 0)
    assert parts["layer inputs"] * GIB / 16_384 == pytest.approx(0.20e6, rel=0.01)
    assert parts["one layer"] * GIB / 16_384 == pytest.approx(6.77e6 / 28, rel=0.01)


def on_paper(name, dtype):
    """The model of a shape without memory behind its weights."""
    shape = SHAPES[name]
    with torch.device("meta"):
        model = Qwen2ForCausalLM(
            Qwen2Config(
                vocab_size=shape.vocabulary, hidden_size=shape.width, intermediate_size=shape.mlp,
                num_hidden_layers=shape.layers, num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads,
                tie_word_embeddings=shape.tied,
            )
        )  # fmt: skip
    model.to(dtype)
    return types.SimpleNamespace(model=model, precision=torch.bfloat16)


def test_the_first_hour_ends_green_here_and_says_what_failed(tmp_path, monkeypatch):
    given = ["speed", "gpu", "--first-hour", "--out", str(tmp_path / "a")]
    result = CliRunner().invoke(app, given, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "a" / "first-hour.json").read_text())
    parts = {part["name"]: part for part in found["parts"]}
    assert list(parts) == ["probes", "attention", "agreement", "speed", "memory", "learning", "resume"]
    assert all(part["passed"] for part in found["parts"])
    assert parts["attention"]["figures"]["sdpa"] < 1e-5
    assert 0.9 < parts["memory"]["figures"]["measured / planned"] < 1.1
    assert parts["learning"]["figures"]["iterations"] == 10
    assert (parts["resume"]["figures"]["iterations before"], parts["resume"]["figures"]["iterations played"]) == (10, 1)
    assert "memory is within the plan" in (tmp_path / "a" / "report.md").read_text()

    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory")

    for name in ("_probes", "_attention", "_agreement"):
        monkeypatch.setattr(first_hour, name, lambda *_: None)
    monkeypatch.setattr(first_hour, "_speed", full)
    for name in ("weigh", "learn"):
        monkeypatch.setattr(first_hour._Learning, name, lambda *_: None)
    result = CliRunner().invoke(app, [*given[:-1], str(tmp_path / "b")], env={"COLUMNS": "200"})
    assert result.exit_code == 1
    assert "failed: speed, resume" in result.output
    assert "OutOfMemoryError: CUDA out of memory" in (tmp_path / "b" / "report.md").read_text()
    assert "CUDA out of memory" in (tmp_path / "b" / "speed.txt").read_text()
