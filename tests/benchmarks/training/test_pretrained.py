"""The whole benchmark with a real pretrained model: two iterations of SmolLM2 in Search-QA."""

import json
import os
import shutil

import numpy as np
import pytest

pytest.importorskip("torch")
from safetensors.numpy import load_file
from typer.testing import CliRunner

from benchmarks.run import app
from policies.smollm2 import smollm2_folder

pytestmark = pytest.mark.slow


@pytest.fixture
def model():
    """The model's folder; 93 MB are downloaded where the cache is empty."""
    try:
        return smollm2_folder()
    except (ImportError, RuntimeError, ValueError) as error:
        pytest.skip(str(error))


@pytest.fixture
def folder(tmp_path):
    """Where the results go: gigabytes, which pytest would keep."""
    yield tmp_path / "out"
    shutil.rmtree(tmp_path / "out", ignore_errors=True)


def moved(before, after):
    """Share of the weight tensors that differ between two folders of a model."""
    one, other = (load_file(folder / "model.safetensors") for folder in (before, after))
    assert one.keys() == other.keys()
    return np.mean([not np.array_equal(one[name], other[name]) for name in one])


@pytest.mark.skipif(os.environ.get("STEPCREDIT_PRETRAINED") != "1", reason="minutes: STEPCREDIT_PRETRAINED=1 runs it")
def test_two_iterations_move_a_pretrained_model_and_leave_table_and_report(model, folder):
    options = ["--env", "searchqa", "--model", "smollm2", "--methods", "rewardflow", "--seeds", "0", "--jobs", "1"]
    sizes = ["--quick", "--steps", "2", "--eval-tasks", "2"]  # 4 episodes are cloned, 2 groups of 4 played
    result = CliRunner().invoke(app, [*options, *sizes, "--out", str(folder)], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    clone, trained = (folder / name / "model" for name in ("clone-seed0", "rewardflow-seed0"))
    assert moved(model, clone) == 1
    assert moved(clone, trained) > 0.9
    rows = [json.loads(line) for line in (folder / "rewardflow-seed0" / "log.jsonl").read_text("utf-8").splitlines()]
    assert [row["iteration"] for row in rows] == [0, 1, 2]
    assert all(np.isfinite(row["approx_kl"]) and row["grad_norm"] > 0 for row in rows[1:])
    for name in ("clone", "rewardflow"):
        assert name in result.output
    assert "smollm2" in (folder / "report.html").read_text("utf-8")
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")
