"""Nested states as tensors and JSON."""

from pathlib import Path
from typing import Any

import pytest
import torch

from baselines.records.tensor_folder import join, read_tensors, split, write_tensors
from tests.refusals import refuses


def test_a_state_comes_back_as_it_was(tmp_path: Path) -> None:
    state = {
        "a": [torch.arange(3), {1: torch.tensor(2.5), "x": (None, True, 0.1)}],
        "b": "text",
        "empty": torch.zeros(0),
    }
    tree, tensors = split(state)
    assert sorted(tensors) == ["a.0", "a.1.1", "empty"]
    write_tensors(tmp_path, "state", tensors)
    found = join(tree, read_tensors(tmp_path, "state"))
    assert torch.equal(found["a"][0], torch.arange(3))
    assert torch.equal(found["a"][1][1], torch.tensor(2.5))
    assert found["a"][1]["x"] == (None, True, 0.1)
    assert (found["b"], found["empty"].shape) == ("text", (0,))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64, torch.int64, torch.bool])
def test_types_and_strides_are_kept(tmp_path: Path, dtype: torch.dtype) -> None:
    value = torch.arange(6).reshape(2, 3).to(dtype).T
    write_tensors(tmp_path, "one", {"w": value})
    found = read_tensors(tmp_path, "one")["w"]
    assert found.dtype == dtype
    assert torch.equal(found, value)


def test_large_states_are_written_in_shards(tmp_path: Path) -> None:
    # Four bytes per number: two tensors of 8 bytes fit 16, one of 24 has a shard to itself.
    tensors = {name: torch.full((size,), float(size)) for name, size in (("a", 2), ("b", 2), ("c", 6), ("d", 1))}
    write_tensors(tmp_path, "model", tensors, shard_bytes=16)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"model-0000{n}-of-00003.safetensors" for n in (1, 2, 3)
    ]
    found = read_tensors(tmp_path, "model")
    assert {name: value.tolist() for name, value in found.items()} == {n: v.tolist() for n, v in tensors.items()}


def test_tied_weights_and_what_is_no_state() -> None:
    weight = torch.arange(4.0)
    tree, tensors = split({"embed": weight, "head": weight, "other": weight.clone(), "half": weight[:2]})
    assert sorted(tensors) == ["embed", "half", "other"]
    assert join(tree, tensors)["head"] is tensors["embed"]
    refuses(TypeError, r"a.b must be a tensor or a plain value, got function", split, {"a": {"b": lambda: None}})
    refuses(ValueError, r"holds no state\.safetensors", lambda: read_tensors(Path("/nonexistent"), "state"))


@pytest.mark.parametrize("tree", [{"tensor": "absent"}, {"dict": 3}, {"set": []}, {"a": 1, "b": 2}, {"dict": [[1]]}])
def test_trees_of_others_are_refused(tree: Any) -> None:
    refuses(ValueError, "no tree of tensors, or not all of them", join, tree, {})
