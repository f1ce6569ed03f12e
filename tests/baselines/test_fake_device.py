"""The training path on a device that is none: tensors on the wrong one raise, waits and bytes are counted.

Most parts run in bfloat16; STEPCREDIT_DEVICE=all runs all of them in both precisions, which takes minutes. Where there
is a GPU, all run on it as well.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.baselines.fake_device import parts as device

ROOT = Path(__file__).parents[2]
#: Parts that run unless all are asked for.
_SHORT = ("rollout", "scoring", "architectures", "training", "lora", "cloning")


@pytest.fixture(scope="module", params=["fake", "cuda"])
def found(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What each part found; a tensor on the wrong device is an error of its part."""
    environment, parts = {**os.environ, "OMP_NUM_THREADS": "1"}, ["cuda"]
    if request.param == "cuda":
        if shutil.which("nvidia-smi") is None:
            pytest.skip("there is no GPU")
        del environment["CUDA_VISIBLE_DEVICES"]  # tests/conftest.py hides it
    else:
        beside = Path(sys.executable).parent / "ninja"
        if shutil.which("g++") is None or not (shutil.which("ninja") or beside.exists()):
            pytest.skip("the fake device is built with g++ and ninja, and one of them is missing")
        parts = [] if os.environ.get("STEPCREDIT_DEVICE") == "all" else ["bfloat16", *_SHORT]
    done = subprocess.run(
        [sys.executable, "-m", device.__name__, *parts], cwd=ROOT, capture_output=True, text=True,
        env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(params=["float32", "bfloat16"])
def part(found: dict[str, Any], request: pytest.FixtureRequest) -> Any:
    def of(name: str) -> tuple[Any, bool]:
        if f"{name} {request.param}" not in found:
            pytest.skip("takes long: STEPCREDIT_DEVICE=all runs it")
        figures = found[f"{name} {request.param}"]
        assert "error" not in figures, figures["error"]
        return figures, request.param == "float32"

    return of


def test_the_host_waits_once_for_a_token(part: Any) -> None:
    figures, exact = part("rollout")
    # Two more while the prompts are read, over 12 tokens.
    assert figures["waits_of_a_token"] <= 1 + 2 / 12
    assert figures["waits_of_a_token_in_lanes"] <= 1 + 2 / 12
    waits, tokens = figures["waits_of_a_restricted_token"]
    assert waits <= 1 + 2 / tokens
    assert figures["restricted"] < (1e-5 if exact else 0.5)
    assert not exact or figures["tokens"] == figures["on_cpu"] == figures["kept"][0] == figures["kept"][1]


def test_models_on_a_device_score_as_they_sample_and_act(part: Any) -> None:
    figures, exact = part("scoring")
    for name in ("rectangles", "packed", "trees"):
        assert figures[name]["apart"] < (1e-5 if exact else 0.5)
        assert figures[name]["waits"] == 0
    figures, exact = part("architectures")
    assert len(figures) == 6
    assert all(value < (1e-4 if exact else 1.0) for value in figures.values()), figures


def test_defaults_of_a_device_with_its_own_memory(part: Any) -> None:
    figures, _ = part("training")
    assert figures["packed"]
    assert figures["recomputed"]
    assert figures["moved"]
    assert figures["gradients_kept"] == 0
    assert figures["mismatch_logged"]


def test_informed_teachers_cost_one_wait_for_an_update_and_none_for_a_pass(part: Any) -> None:
    """The norm of each update; once each for figures and weights, and for each context that the scorer gives."""
    figures, exact = part("distillation")
    for name, contexts in (("sdpo", 0), ("sdpo sampled", 0), ("rlsd", 1), ("rlcsd", 2)):
        each = figures[name]
        assert (each["updates"], each["taught"]) == (4, 1)
        assert (each["loss"] != 0) == name.startswith("sdpo")
        assert each["kinds"]["to host"] <= 3 + contexts + (not exact), each
        assert each["waits"] - each["kinds"]["to host"] == 4 < each["passes"], each


def test_scorers_resumed_runs_and_memory_of_a_device(part: Any) -> None:
    figures, _ = part("scorers")
    assert all(figures.values())
    figures, _ = part("resume")
    assert all(value == 0.0 for value in figures.values()), figures
    figures, _ = part("memory")
    assert figures["None"] < 0.5
    assert figures["False"] < 0.65


def test_adapters_and_clones_learn_on_a_device(part: Any) -> None:
    figures, _ = part("lora")
    assert figures["base_shared"]
    assert figures["read_again_plays_the_same"]
    assert (figures["merged_on"], figures["merged_bytes_on_the_device"]) == ("cpu", 0)
    figures, _ = part("cloning")
    assert figures["losses"][-1] < figures["losses"][0]
    assert figures["recomputed"]
    assert figures["waits_of_an_update"] == 2  # loss and accuracy, and the gradient's norm
