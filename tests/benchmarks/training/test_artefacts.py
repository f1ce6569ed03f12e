"""The check of a finished benchmark finds what is missing."""

import json
import shutil

import pytest

from agentgym.outside.text import DataError
from benchmarks.training.artefacts import check_artefacts
from tests.cases import cases
from tests.refusals import refuses


@pytest.fixture
def copy(finished_run, tmp_path):
    return shutil.copytree(finished_run, tmp_path / "copy")


def test_a_finished_run_is_in_order(finished_run):
    lines = list(check_artefacts(finished_run))
    assert [line.split(":")[0] for line in lines] == [
        "results.json", "curves.png", "report.html", "clone-seed0", "clone-seed1",
        "grpo-seed0", "rewardflow-seed0", "grpo-seed1", "rewardflow-seed1",
    ]  # fmt: skip


def test_a_method_without_a_reference_has_no_divergence(copy):
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
