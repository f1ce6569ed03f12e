"""Records of a run: metrics, event files, use of the machine, callbacks."""

import dataclasses
import json
import re
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from agentgym.outside.text import DataError
from baselines.records import utilisation
from baselines.records.callbacks import Samples, Tracker
from baselines.records.metrics import MetricsLog, read_about, read_log
from baselines.records.tensor_folder import join, read_tensors, split, write_tensors
from baselines.records.utilisation import (
    PeakMemory,
    decode_seconds,
    forward_flops,
    peak_bandwidth,
    peak_flops,
    training_flops,
    update_figures,
)
from policies.vision.tiny import tiny_vision_policy
from tests.baselines.corridor_learning import TASKS, small_policy, trainer
from tests.cases import cases
from tests.refusals import refuses


def test_rows_survive_the_first_says_what_is_played_and_the_repeated_part_is_dropped(tmp_path: Path) -> None:
    log, path = MetricsLog(tmp_path, tensorboard=False), tmp_path / "log.jsonl"
    log.about = {"data": "data=/games", "data_fingerprint": "0123456789abcdef"}
    log.resume(-1)
    for iteration in range(4):
        log.append({"iteration": iteration, "success": iteration / 4, "kl": float("nan"), "loss": float("inf")})
    other = MetricsLog(tmp_path)
    other.resume(2)
    other.append({"iteration": 3, "success": 1.0})
    rows = [{"iteration": i, "success": i / 4, "kl": None, "loss": None} for i in range(3)]
    rows.append({"iteration": 3, "success": 1.0})
    assert other.rows == read_log(path) == rows
    assert other.about == read_about(path) == log.about
    rows[0] |= log.about
    assert [json.loads(line) for line in path.read_text().splitlines()] == rows


def test_folders_are_optional() -> None:
    log = MetricsLog(None)
    log.append({"iteration": 1})
    log.append({"iteration": 2})
    log.resume(1)
    assert log.rows == [{"iteration": 1}]


def test_tensorboard_asks_for_folder_and_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuses(ValueError, "need a folder", MetricsLog, None, tensorboard=True)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    refuses(ImportError, r"pip install .*\[train\]., or tensorboard=False", MetricsLog, tmp_path, tensorboard=True)


@cases(
    "line, words",
    (b'{"iteration": 1, "kl": NaN}', "NaN is not a JSON number"),
    (b'{"iteration": 1, "kl": 1e400}', "too large for a float"),
    (b'{"iteration": 1, "kl": "0.5"}', "'kl' must be a number or null, got str"),
    (b'{"iteration": 1, "kl": true}', "'kl' must be a number or null, got bool"),
    (b'{"iteration": "1"}', "'iteration' must be a number or null, got str"),
    (b'{"iteration": null}', "'iteration' must be a whole number in 0.."),
    (b'{"iteration": 1.5}', "'iteration' must be a whole number in 0.."),
    (b'{"iteration": -1}', "'iteration' must be a whole number in 0.."),
    (b'{"iteration": 1' + b"0" * 400 + b"}", "an integer of 401 digits"),
    (b'{"kl": 1}', "'iteration' must be a whole number in 0.."),
    (b"[1]", "expected an object of numbers, got list"),
    (b"", "not JSON"),
    (b'{"iteration": 1, "a\xff": 1}', "not UTF-8"),
    (b"[" * 200_000, "nested too deeply"),
    (b'{"iteration": 1, "kl": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001, "nested too deeply"),
)
def test_every_damage_is_named_with_file_and_line(tmp_path: Path, line: bytes, words: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"iteration": 0}\n' + line + b'\n{"iteration": 2}\n')
    refuses(DataError, rf"log\.jsonl, line 2: not a row of a training log \(.*{re.escape(words)}", read_log, path)
    path.write_bytes(b'{"iteration": 0}\n' + line)  # cut short by a crash
    assert read_log(path) == [{"iteration": 0}]


def test_a_log_without_the_rows_before_its_checkpoint_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for text, first in (("", 0), ('{"iteration": 0}\n{"iteration": 2}\n', 1), ('{"iteration": 0}\n' * 4, 1)):
        path.write_text(text)
        with pytest.raises(ValueError, match=f"its checkpoint of iteration 3: wrong or missing rows, .*is {first};"):
            MetricsLog(tmp_path).resume(3)
        assert path.read_text() == text


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64, torch.int64, torch.bool])
def test_types_and_strides_are_kept(tmp_path: Path, dtype: torch.dtype) -> None:
    value = torch.arange(6).reshape(2, 3).to(dtype).T
    write_tensors(tmp_path, "one", {"w": value})
    found = read_tensors(tmp_path, "one")["w"]
    assert found.dtype == dtype
    assert torch.equal(found, value)


def test_large_states_are_written_in_shards_and_tied_weights_once(tmp_path: Path) -> None:
    # Four bytes per number: two tensors of 8 bytes fit 16, one of 24 has a shard to itself.
    tensors = {name: torch.full((size,), float(size)) for name, size in (("a", 2), ("b", 2), ("c", 6), ("d", 1))}
    write_tensors(tmp_path, "model", tensors, shard_bytes=16)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"model-0000{n}-of-00003.safetensors" for n in (1, 2, 3)
    ]
    found = read_tensors(tmp_path, "model")
    assert {name: value.tolist() for name, value in found.items()} == {n: v.tolist() for n, v in tensors.items()}
    weight = torch.arange(4.0)
    tree, tensors = split({"embed": weight, "head": weight, "other": weight.clone(), "half": weight[:2]})
    assert sorted(tensors) == ["embed", "half", "other"]
    assert join(tree, tensors)["head"] is tensors["embed"]
    refuses(TypeError, r"a.b must be a tensor or a plain value, got function", split, {"a": {"b": lambda: None}})
    refuses(ValueError, r"holds no state\.safetensors", lambda: read_tensors(Path("/nonexistent"), "state"))


@pytest.mark.parametrize("tree", [{"tensor": "absent"}, {"dict": 3}, {"set": []}, {"a": 1, "b": 2}, {"dict": [[1]]}])
def test_trees_of_others_are_refused(tree: Any) -> None:
    refuses(ValueError, "no tree of tensors, or not all of them", join, tree, {})


def by_hand(vocabulary: int) -> tuple[int, int]:
    # Width 16, one layer, 2 heads and 1 key-value head of size 8, feed-forward 16: products per token with
    # queries 16x16, keys and values 16x8 each, output 16x16, three feed-forward matrices of 16x16, and the head.
    weights = 256 + 2 * 128 + 256 + 3 * 256 + 16 * vocabulary
    return weights, 4 * 1 * 16


def test_costs_of_a_training_pass_and_a_decode_step_by_hand() -> None:
    policy = small_policy()
    weights, attention = by_hand(len(policy.tokenizer))
    # Forward and backward of all weights is 6 per weight and token; attention 3 * a S^2 / 2, S = 3 and 5.
    assert training_flops(policy.model, [3, 5]) == 6 * weights * 8 + 1.5 * attention * (9 + 25)
    assert forward_flops(policy.model, [3, 5]) == 2 * weights * 8 + attention * (9 + 25) / 2
    assert 3 * forward_flops(policy.model, [7]) == training_flops(policy.model, [7])
    # Keys and values of one layer and one head of size 8, two bytes each: 32 bytes per token of context.
    read = 2 * weights + 3 * 10 * 32
    assert decode_seconds(policy.model, 3, 10, bandwidth=1.0, peak=1e30) == pytest.approx(read)
    computed = 2 * weights * 3 + attention * 3 * 10
    assert decode_seconds(policy.model, 3, 10, bandwidth=1e30, peak=1.0) == pytest.approx(computed)
    policy.model.requires_grad_(False)
    assert training_flops(policy.model, [4]) == 4 * weights * 4 + 1.5 * attention * 16


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl"])
def test_of_a_model_that_sees_the_language_model_is_counted(monkeypatch: pytest.MonkeyPatch, family: Any) -> None:
    pytest.importorskip("transformers", minversion="5.23")  # earlier releases are not known to see alike
    policy = tiny_vision_policy(["up"], seed=0, family=family, layers=1, width=16, heads=2, kv_heads=1, mlp=16)
    weights, attention = by_hand(len(policy.tokenizer))  # of the same sizes
    monkeypatch.setattr(utilisation, "peak_flops", lambda device: 1e6)
    counted = 6 * weights * 8 + 1.5 * attention * (9 + 25)
    found = update_figures(policy.model, [3, 5], epochs=1, seconds=1.0)
    assert found["share_peak_flops"] == pytest.approx(100 * counted / 1e6)
    assert forward_flops(policy.model, [3, 5]) == counted / 3
    read = 2 * weights + 3 * 10 * 32
    assert decode_seconds(policy.model, 3, 10, bandwidth=1.0, peak=1e30) == pytest.approx(read)


def test_devices_are_known_by_name_and_without_a_peak_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"H100 80GB HBM3": 989e12, "H100 PCIe": 756e12, "A10": 125e12, "A10G": 70e12, "T4": None}
    for name, peak in known.items():
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device, name=name: f"NVIDIA {name}")
        assert peak_flops(torch.device("cuda")) == peak
    for name, speed in (("NVIDIA H200", 4.8e12), ("NVIDIA A100-SXM4-80GB", 2.039e12), ("NVIDIA T4", None)):
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device, name=name: name)
        assert peak_bandwidth(torch.device("cuda")) == speed
    assert peak_bandwidth(torch.device("cpu")) is None
    policy = small_policy()
    assert peak_flops(torch.device("cpu")) is None
    assert update_figures(policy.model, [10, 30], epochs=2, seconds=4.0) == {"update_tokens_per_second": 20.0}
    monkeypatch.setattr(utilisation, "peak_flops", lambda device: 1e6)
    found = update_figures(policy.model, [10, 30], epochs=2, seconds=4.0)
    assert found["share_peak_flops"] == pytest.approx(100 * 2 * training_flops(policy.model, [10, 30]) / 4e6)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the kernel of this system keeps no peak")
def test_a_processors_peak_is_what_the_process_held() -> None:
    memory = PeakMemory(torch.device("cpu"))
    block = torch.ones(2**26)  # a quarter of a GiB
    del block
    memory.end("update")
    memory.end("rest")
    apart = memory.figures["memory_update_resident"] - memory.figures["memory_rest_resident"]
    assert apart == pytest.approx(0.25, abs=0.02)


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]


def test_samples_say_what_was_seen_said_and_credited(tmp_path: Path) -> None:
    seen: dict[tuple[int, str, int], Any] = {}

    def note(run: Any, table: Any, row: Any) -> None:
        for i in range(0 if table is None else len(table)):
            place = int(row["iteration"]), str(table.trajectories[table.trajectory[i]]), int(table.t[i])
            state = str(table.states[table.state[i]])
            seen[place] = (run.advantages[i], table.replies[i].text, bool(table.valid[i]), state)

    rows = trainer(iterations=2).run(note, Samples(tmp_path))
    assert len(seen) == sum(row.get("steps", 0) for row in rows)
    found = lines(tmp_path)
    assert [line["iteration"] for line in found] == [1] * 8 + [2] * 8
    for line in found:
        expected = seen[line["iteration"], line["trajectory"], line["t"]]
        assert tuple(line[name] for name in ("advantage", "reply", "valid", "state")) == expected
        assert "cell" in line["prompt"]


def test_a_resumed_run_writes_the_same_samples(tmp_path: Path) -> None:
    trainer(folder=tmp_path / "a", iterations=3).run(Samples(tmp_path / "a"))
    trainer(folder=tmp_path / "b", iterations=2).run(Samples(tmp_path / "b"))
    with open(tmp_path / "b" / "samples.jsonl", "a") as file:
        file.write('{"iteration": 3, "reply": "of a future that was lost"}\n')
    trainer(folder=tmp_path / "b", iterations=3, resume=True).run(Samples(tmp_path / "b"))
    assert lines(tmp_path / "a") == lines(tmp_path / "b")


def test_foreign_text_is_cleaned_and_nan_is_null(tmp_path: Path) -> None:
    callback = Samples(tmp_path, rows=100)

    def spoil(run: Any, table: Any, row: Any) -> None:
        if table is None:
            return
        replies = [dataclasses.replace(reply, text="\ud800" + "x" * 5000) for reply in table.replies]
        spoiled = dataclasses.replace(table, replies=np.array(replies, dtype=object))
        run.advantages = np.full((len(table), 3), np.nan)
        callback(run, spoiled, row)

    trainer(iterations=1).run(spoil)
    for line in lines(tmp_path):
        assert len(line["reply"]) <= 2000
        assert "\ud800" not in line["reply"]
        assert line["advantage"] is None


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_trackers_get_every_row(name: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    fake: Any = types.ModuleType(name)
    fake.init = lambda **options: calls.append(("init", options))
    fake.log = lambda numbers, step: calls.append(("log", step, numbers))
    fake.finish = lambda: calls.append(("finish",))
    monkeypatch.setitem(sys.modules, name, fake)
    with Tracker(name, project="p", name="n") as tracker:
        rows = trainer(iterations=2, validation_tasks=TASKS).run(tracker)
    assert calls[0][0] == "init"
    assert (calls[0][1]["project"], calls[0][1]["name"], calls[0][1]["config"]["iterations"]) == ("p", "n", 2)
    assert [call[1] for call in calls[1:-1]] == [0, 1, 2]
    assert calls[2][2] == {key: value for key, value in rows[1].items() if key != "iteration"}
    assert calls[-1] == ("finish",)


def test_a_tracker_that_is_not_there_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trackio", None)
    refuses(ImportError, "pip install 'trackio'", Tracker, "trackio", project="p")
    refuses(ValueError, "'wandb' or 'trackio', got 'mlflow'", Tracker, "mlflow", project="p")
