"""The report of the tiny shape on a CPU: complete, resumable per shape, and nothing lost where a shape does not fit."""

import dataclasses
import json

import pytest
import torch
from typer.testing import CliRunner

from benchmarks.gpu import results, study
from benchmarks.gpu.results import NO_GPU, Figure, check_results, figures, load
from benchmarks.gpu.shapes import SHAPES
from benchmarks.gpu.study import DoesNotFitError, run_shapes
from benchmarks.json_files import OtherConfigurationError, ResultsError
from benchmarks.run import app

CPU = torch.device("cpu")


def quiet(words):
    return None


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Folder of the command's report; treat it as read-only."""
    folder = tmp_path_factory.mktemp("gpu")
    given = ["gpu", "--shapes", "tiny", "--iterations", "2", "--warmup", "1", "--out", str(folder)]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 0, result.output
    return folder, result.output


def test_every_figure_is_there_and_the_devices_are_absent(report):
    folder, output = report
    (one,) = load(folder).shapes
    found = dict(figures(one))
    for name in (
        "hardware.device", "hardware.driver", "rates.utilisation", "rates.with_recomputation", "decode.limit",
        "decode.share", "stages.update.allocated", "stages.generation.reserved", "passes[0].kept", "memory.ratio",
    ):  # fmt: skip
        assert found[name] == Figure(None, NO_GPU), name
    for name in ("environment", "generation", "scoring", "credit", "update"):
        assert found[f"stages.{name}.seconds"].value > 0
    shares = [figure.value for name, figure in found.items() if name.endswith(".share") and name.startswith("stages")]
    assert sum(share for share in shares if share is not None) == pytest.approx(100)
    result = CliRunner().invoke(app, ["check", str(folder)])
    assert result.exit_code == 0, result.output
    assert "tiny:" in result.output
    assert "marked absent (no GPU)" in result.output
    for text in (output, (folder / "report.md").read_text(), (folder / "report.html").read_text()):
        assert "absent: no GPU" in text
        assert "2 iterations after 1 of warm-up, fewer than the 10 after 3" in " ".join(text.split())


def test_what_is_counted_is_what_was_played(report):
    (one,) = load(report[0]).shapes
    sizes = load(report[0]).asked["tiny"]
    # Every reply of random weights is as long as it may be, but for the one token in 512 that ends it.
    most = sizes.groups * sizes.group_size * sizes.turns * sizes.reply_tokens
    assert 0.8 * most < one.tokens.replies <= most
    # The second turn continues the first: chains hold more than a row. Packed passes have no padding.
    assert one.tokens.chains < one.tokens.rows <= sizes.groups * sizes.group_size * sizes.turns
    assert one.tokens.padding == pytest.approx(0, abs=1e-9)
    assert one.agreement.sampler.largest.value < 1e-4
    assert 0 < one.agreement.precision.largest.value < 0.2
    assert [each.recomputation for each in one.passes] == [False, True]
    assert all(each.tokens == sizes.tokens for each in one.passes)
    assert one.model.parameters == one.model.trained
    assert one.memory.expected == pytest.approx(sum(one.memory.parts.values()))


def test_a_missing_or_emptied_field_fails_the_check(report, tmp_path):
    good = json.loads((report[0] / results.RESULTS).read_text())

    def checked(change):
        value = json.loads(json.dumps(good))
        change(value["shapes"][0])
        (tmp_path / results.RESULTS).write_text(json.dumps(value))
        result = CliRunner().invoke(app, ["check", str(tmp_path)])
        return result.exit_code, " ".join(result.output.split())

    assert checked(lambda one: None)[0] == 0
    status, words = checked(lambda one: one["rates"].pop("trained"))
    assert (status, "shapes[0].rates.trained: Field required" in words) == (1, True)
    status, words = checked(lambda one: one["decode"]["limit"].update(absent=""))
    assert (status, "decode.limit must have a value or say why it is absent" in words) == (1, True)
    status, words = checked(lambda one: one["decode"]["limit"].update(value=0.0))
    assert (status, "decode.limit must have a value or say why" in words) == (1, True)
    status, words = checked(lambda one: one["hardware"]["device"].update(value="NVIDIA H200", absent=""))
    assert (status, "is absent although there is a GPU" in words) == (1, True)


def test_a_shape_that_does_not_fit_says_what_to_lower_and_the_ones_before_are_kept(report, tmp_path, monkeypatch):
    before = load(report[0])
    results.save(before, tmp_path)
    monkeypatch.setitem(SHAPES, "more", SHAPES["tiny"])
    asked = {**before.asked, "more": SHAPES["tiny"].sizes}

    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory")

    told = []
    with monkeypatch.context() as patch:
        patch.setattr(study, "measure_decode", full)
        with pytest.raises(DoesNotFitError, match=r"more: the decode loop does not fit .*--decode-batch \(now 4\)"):
            run_shapes(asked, tmp_path, CPU, told.append)
    assert "tiny: measured before" in told
    assert load(tmp_path).shapes == before.shapes
    with pytest.raises(ResultsError, match="shape more is not measured"):
        list(check_results(tmp_path))
    # The same command goes on, also with smaller sizes for the shape that did not fit.
    again = dataclasses.replace(before.shapes[0], shape="more")
    monkeypatch.setattr(study, "measure_shape", lambda *_: again)
    asked["more"] = dataclasses.replace(asked["more"], decode_batch=2)
    assert run_shapes(asked, tmp_path, CPU, quiet).of("more") == again
    assert len(list(check_results(tmp_path))) == 2
    asked["tiny"] = dataclasses.replace(asked["tiny"], tokens=99)
    with pytest.raises(OtherConfigurationError, match="tokens: there 512, asked for 99"):
        run_shapes(asked, tmp_path, CPU, quiet)


def test_every_part_that_does_not_fit_names_its_option(monkeypatch):
    sizes = dataclasses.replace(SHAPES["tiny"].sizes, iterations=1, warmup=0)

    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory")

    for part, option in (
        ("make_policy", "a larger card"), ("measure_agreement", "--groups"), ("measure_decode", "--decode-batch"),
        ("measure_pass", "--tokens"), ("run_training", "--tokens"),
    ):  # fmt: skip
        with monkeypatch.context() as patch:
            patch.setattr(study, part, full)
            if part == "run_training":  # the parts before it are measured elsewhere
                for name in ("measure_decode", "measure_pass"):
                    patch.setattr(study, name, lambda *_, **__: None)
            with pytest.raises(DoesNotFitError, match=option):
                study.measure_shape("tiny", sizes, CPU, quiet)


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [("tinny", "did you mean 'tiny'?"), ("tiny,tiny", "distinct names"), ("1.5B,tiny", "1.5B: no GPU is found here")],
)
def test_a_wrong_choice_is_told(shapes, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    result = CliRunner().invoke(app, ["gpu", "--shapes", shapes, "--out", str(tmp_path)], env={"COLUMNS": "200"})
    assert (result.exit_code, expected in result.output) == (2, True), result.output


def test_every_token_of_a_shape_is_a_word():
    sizes = SHAPES["tiny"].sizes
    policy = study.make_policy(SHAPES["tiny"], sizes, CPU)
    assert len(policy.tokenizer) == SHAPES["tiny"].vocabulary
    texts = [policy.tokenizer.decode([token]) for token in range(len(policy.tokenizer))]
    assert len(set(texts)) == len(texts)
