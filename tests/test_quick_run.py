"""What `python -m benchmarks.run --quick` leaves behind: signs that every stage did its work, not how well it went.

`./do test` runs the benchmark first and names its folder in the variable QUICK_RUN.
"""

import json
import math
import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("QUICK_RUN", ""))
METHODS = ("grpo", "gigpo", "rewardflow", "graphgpo")
TRAINED = [f"{method}-seed0" for method in METHODS]

pytestmark = pytest.mark.skipif(
    "QUICK_RUN" not in os.environ, reason="needs the folder of a quick run in QUICK_RUN, as `./do test` gives it"
)


def _rows(run: str) -> list[dict[str, float]]:
    return [json.loads(line) for line in (FOLDER / run / "log.jsonl").read_text("utf-8").splitlines()]


def test_cloning_learned_the_experts_actions() -> None:
    epochs = json.loads((FOLDER / "clone-seed0" / "cloning.json").read_text("utf-8"))
    losses = [epoch["loss"] for epoch in epochs]
    assert losses == sorted(losses, reverse=True)
    # Better than one of four moves at random.
    assert epochs[-1]["loss"] < math.log(4)
    assert epochs[-1]["accuracy"] > 0.25


@pytest.mark.parametrize("run", TRAINED)
def test_every_iteration_trained_and_was_logged(run: str) -> None:
    start, *rows = _rows(run)
    assert start["iteration"] == 0
    assert [row["iteration"] for row in rows] == [1, 2, 3, 4]
    assert all(math.isfinite(value) for row in rows for value in row.values())
    for row in rows:
        assert row["updates"] >= 1
        assert row["grad_norm"] > 0
        assert row["entropy"] > 0
        assert all(0 <= row[name] <= 1 for name in ("success", "invalid_rate", "clip_fraction", "signal"))
        shares = [row[f"share_{stage}"] for stage in ("environment", "generation", "credit", "update")]
        assert min(shares) > 0
        assert sum(shares) == pytest.approx(100)
    # Some step was told apart from the others, and the policy left its start.
    assert max(row["signal"] for row in rows) > 0
    assert rows[-1]["kl"] > 0


def test_every_method_ends_with_weights_of_its_own() -> None:
    weights = [(FOLDER / run / "model" / "model.safetensors").read_bytes() for run in ["clone-seed0", *TRAINED]]
    assert len(set(weights)) == len(weights)


def test_all_policies_played_the_same_held_out_levels() -> None:
    found = json.loads((FOLDER / "results.json").read_text("utf-8"))
    assert {score["policy"] for score in found["scores"]} == {"random", "expert", "clone", *METHODS}
    assert {len(score["success"]) for score in found["scores"]} == {found["config"]["eval_levels"]}
    (expert,) = (score for score in found["scores"] if score["policy"] == "expert")
    assert set(expert["success"]) == {"1"}
    assert {graph["method"] for graph in found["graphs"]} == set(METHODS)


def test_the_report_and_the_curves_are_there() -> None:
    assert (FOLDER / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert all(method in (FOLDER / "report.html").read_text("utf-8") for method in METHODS)
