"""The first hour on a card, played with the tiny model on a CPU: every part is there, and one that fails says so."""

import json

import torch
from typer.testing import CliRunner

from benchmarks.run import app
from benchmarks.speed import first_hour
from benchmarks.speed.gpu_measures import SHAPES, make_policy


def test_a_token_is_a_word_of_its_own() -> None:
    policy = make_policy(SHAPES["tiny"], torch.device("cpu"))
    assert len(policy.tokenizer) == SHAPES["tiny"].vocabulary
    texts = [policy.tokenizer.decode([token]) for token in range(len(policy.tokenizer))]
    assert len(set(texts)) == len(texts)


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
