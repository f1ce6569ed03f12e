"""Records of a run: metrics, event files, use of the machine, callbacks, and warnings."""

import dataclasses
import json
import re
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from agentgym.outside.files import seal
from agentgym.outside.text import DataError
from baselines.config import TRAINING_RULES
from baselines.evaluation import Evaluation
from baselines.records import utilisation
from baselines.records.callbacks import Samples, Tracker
from baselines.records.metrics import LOG_FILE, MetricsLog, Row, read_about, read_log
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
from baselines.records.watch import kept_in, unfinished, warning_texts, watch
from policies.vision.tiny import tiny_vision_policy
from tests.baselines.corridor_learning import TASKS, repeatable, small_policy, trainer
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


def test_folders_are_optional_and_what_is_missing_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = MetricsLog(None)
    log.append({"iteration": 1})
    log.append({"iteration": 2})
    log.resume(1)
    assert log.rows == [{"iteration": 1}]
    refuses(ValueError, "need a folder", MetricsLog, None, tensorboard=True)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    refuses(ImportError, r"pip install .*\[train\]., or tensorboard=False", MetricsLog, tmp_path, tensorboard=True)
    monkeypatch.setitem(sys.modules, "trackio", None)
    refuses(ImportError, "pip install 'trackio'", Tracker, "trackio", project="p")
    refuses(ValueError, "'wandb' or 'trackio', got 'mlflow'", Tracker, "mlflow", project="p")


@cases(
    "line, words",
    (b'{"iteration": 1, "kl": NaN}', "NaN is not a JSON number"),
    (b'{"iteration": 1, "kl": 1e400}', "too large for a float"),
    (b'{"iteration": 1, "kl": "0.5"}', "'kl' must be a number or null, got str"),
    (b'{"iteration": "1"}', "'iteration' must be a number or null, got str"),
    (b'{"iteration": 1.5}', "'iteration' must be a whole number in 0.."),
    (b'{"iteration": 1' + b"0" * 400 + b"}", "an integer of 401 digits"),
    (b'{"kl": 1}', "'iteration' must be a whole number in 0.."),
    (b"[1]", "expected an object of numbers, got list"),
    (b"", "not JSON"),
    (b'{"iteration": 1, "a\xff": 1}', "not UTF-8"),
    (b"[" * 200_000, "nested too deeply"),
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
    path.unlink()
    refuses(ValueError, "train into an empty folder", MetricsLog(tmp_path).resume, 3)


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
    for wrong in ({"tensor": "absent"}, {"dict": 3}, {"set": []}, {"a": 1, "b": 2}, {"dict": [[1]]}):
        refuses(ValueError, "no tree of tensors, or not all of them", join, wrong, {})
    refuses(ValueError, r"holds no state\.safetensors", lambda: read_tensors(Path("/nonexistent"), "state"))


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


def test_samples_are_the_same_when_resumed_and_cleaned(tmp_path: Path) -> None:
    trainer(folder=tmp_path / "a", iterations=3).run(Samples(tmp_path / "a"))
    trainer(folder=tmp_path / "b", iterations=2).run(Samples(tmp_path / "b"))
    with open(tmp_path / "b" / "samples.jsonl", "a") as file:
        file.write('{"iteration": 3, "reply": "of a future that was lost"}\n')
    trainer(folder=tmp_path / "b", iterations=3, resume=True).run(Samples(tmp_path / "b"))
    assert lines(tmp_path / "a") == lines(tmp_path / "b")
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


HEALTHY: Row = {"success": 0.5, "invalid_rate": 0.1, "contrast": 0.8, "signal": 0.6, "entropy": 1.0}


def run_of(*changes: Row) -> list[Row]:
    """A log: the start, and a row for each of the changes to a healthy one."""
    return [{"iteration": 0}, *({**HEALTHY, **change, "iteration": i} for i, change in enumerate(changes, 1))]


def said(rows: list[Row], over: bool = True, kept: dict[int, str] | None = None) -> list[tuple[int, str]]:
    """Play a log row by row, with the keys written into it, and return iterations and keys."""
    found = []
    for number in range(1, len(rows) + 1):
        given = watch(rows[:number], over=over and number == len(rows), kept=kept)
        rows[number - 1] |= dict.fromkeys(given, 1.0)
        found += [(int(rows[number - 1]["iteration"]), key.removeprefix("warning_")) for key in given]
    return found


LOST: Row = {"success": 0.0}
FLAT: Row = {"success": 0.0, "contrast": 0.0, "signal": 0.0}


@cases(
    "rows, expected",
    ([{}] * 9, []),
    ([], []),
    # Ten in a row without success, whatever went before; once, though it goes on.
    ([LOST] * 9 + [{}] * 2, []),
    ([{"success": 0.05}, *[LOST] * 30], [(11, "no_success")]),
    ([LOST] * 9 + [{"success": 0.05}] + [LOST] * 10, [(20, "no_success")]),
    # The end of a shorter run.
    ([LOST] * 3, [(3, "no_success")]),
    ([{"success": 0.02}, {"success": 0.0}, {"success": 0.02}], [(3, "no_better")]),
    # The mean of the last five of ten is that of the first five; a bit more is better, and so is what is solved.
    ([{"success": 0.4}] * 10, [(10, "no_better")]),
    ([{"success": 0.4}] * 9 + [{"success": 0.5}], []),
    ([{"success": 0.4}] * 9, []),
    ([{"success": 0.95}] * 10, []),
    # More than half refused in three iterations, and not falling.
    ([{"invalid_rate": rate} for rate in (0.2, 0.55, 0.6, 0.55)], [(4, "refused")]),
    ([{"invalid_rate": rate} for rate in (0.97, 0.97, 0.97, 0.98)], [(3, "refused")]),
    ([{"invalid_rate": rate} for rate in (0.97, 0.98, 0.9, 0.8, 0.7, 0.6, 0.55)], []),
    ([{"invalid_rate": rate} for rate in (0.4, 0.45, 0.5, 0.5, 0.5)], []),
    # Five iterations without contrast in any group, or all of a shorter run.
    ([{}, *[{"contrast": 0.0}] * 9], [(6, "no_contrast"), (10, "no_better")]),
    ([{"contrast": 0.0}] * 4 + [{}], []),
    ([{"contrast": 0.0}] * 2, [(2, "no_contrast")]),
    # At once.
    ([{}, {"signal": 0.05}, {"signal": 0.049}, {"signal": 0.0}], [(3, "little_signal")]),
    # Success that was there, three iterations without any, and nothing to compare.
    ([{}, {}, FLAT, FLAT, FLAT, FLAT], [(3, "little_signal"), (5, "collapse")]),
    ([{}] * 2 + [LOST] * 6, [(8, "no_better")]),
    ([{}, FLAT, FLAT, {"success": 0.1}], [(2, "little_signal"), (4, "no_better")]),
    # Below a tenth of the start twice in a row, unless the tasks are solved; what was not measured is passed over.
    ([{"entropy": 2.0}, {"entropy": 0.19}, {}, {"entropy": 0.19}, {"entropy": 0.21}], []),
    ([{"entropy": 2.0}, {"entropy": 0.19}, {"entropy": 0.19}], [(3, "entropy")]),
    ([{"entropy": 2.0}, *[{"entropy": 0.1, "success": 0.95}] * 3], []),
)  # fmt: skip
def test_each_thing_is_said_once_and_when_it_is_so(rows: list[Row], expected: list[tuple[int, str]]) -> None:
    assert said(run_of(*rows)) == expected


def test_words_fit_what_happened_and_what_was_not_measured_is_no_sign() -> None:
    rows = run_of({}, {}, {}, {})
    for row in rows[1:]:
        row["invalid_rate"] = row["signal"] = None  # type: ignore[assignment]
        row["entropy"] = None  # type: ignore[assignment]
        del row["contrast"]
    assert said(rows) == []
    assert watch([{"iteration": 0, "success": 0.0}, {"iteration": 1}]) == {}
    # Without groups of several episodes there is no contrast to look at: success alone says it.
    alone = [{"iteration": i, "success": 0.0 if i > 2 else 0.4} for i in range(1, 6)]
    assert said(alone) == [(5, "collapse")]
    solved: Row = {"success": 1.0, "contrast": 0.0, "signal": 0.0}
    easy = watch(run_of(*[solved] * 5))
    assert list(easy) == ["warning_little_signal"]
    assert "harder ones" in easy["warning_little_signal"]
    lost = watch(run_of(*[FLAT] * 10))
    for key in ("warning_no_success", "warning_no_contrast", "warning_little_signal"):
        assert "easier tasks, or a warm start" in lost[key]
    rows = run_of(*[FLAT] * 12)
    words = []
    for number, row in enumerate(rows, 1):
        given = watch(rows[:number], over=number == len(rows))
        row |= dict.fromkeys(given, 1.0)
        words += [f"iteration {row['iteration']}: {line}" for line in given.values()]
    assert warning_texts(rows) == words
    assert len(words) == 3
    # A log that another version has written.
    assert warning_texts([{"iteration": 4, "success": 0.5, "warning_refused": 1.0}]) == ["iteration 4: warning_refused"]
    success = np.array([[True, False], [False, False], [False, False], [True, True]])
    returns = np.array([[1.0, 1.0], [0.2, 0.3], [0.1 + 0.2, 0.3], [1.0, 1.0]])
    assert Evaluation(success, returns, np.ones((4, 2), np.int64), np.zeros((4, 2), np.int64)).contrast == 0.5


@cases(
    "kept, words",
    # Iteration 3 was played by the policy after two updates.
    ({1: "checkpoint-000001", 2: "best-000002", 3: "checkpoint-000003"}, "go back to best-000002;"),
    ({3: "checkpoint-000003"}, "no earlier checkpoint is left (checkpoint.every, checkpoint.keep): start again"),
    ({}, "start again; to prevent this, use a smaller learning_rate or a KL penalty"),
)
def test_a_collapse_names_the_last_good_checkpoint(kept: dict[int, str], words: str) -> None:
    rows = run_of({"success": 0.6}, {"success": 0.5}, {"success": 0.3}, {"success": 0.1}, FLAT, FLAT, FLAT)
    collapse = watch(rows, kept=kept)["warning_collapse"]
    assert collapse.startswith("success was 60% and has been 0 for 3 iterations")
    assert "The last good iteration was 3, with a success of 30%" in collapse  # at least half of the best
    assert words in collapse
    rows = run_of({"entropy": 2.0}, {"entropy": 1.0}, {"entropy": 0.3}, {"entropy": 0.1}, {"entropy": 0.1})
    entropy = watch(rows, kept=kept)["warning_entropy"]
    assert entropy.startswith("the entropy fell from 2 to 0.1 nats per token at a success of 50%")
    assert words in entropy


def test_a_run_warns_once_also_when_it_is_resumed(tmp_path: Path) -> None:
    def hopeless(folder: Path, iterations: int, **changes: Any) -> tuple[list[Row], list[str]]:
        given = {"learning_rate": 0.0, "loss.kl": 0.0, "validation.every": 0, "checkpoint": {"every": 1, "keep": 50}}
        given |= {"credit": lambda table: np.zeros(len(table)), **changes}
        made = trainer(folder=folder, iterations=iterations, **given)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            return made.run(), [str(one.message) for one in caught if "iteration" in str(one.message)]

    rows, words = hopeless(tmp_path / "a", 6)
    assert [row["iteration"] for row in rows if "warning_little_signal" in row] == [1]
    assert [line for line in words if "no step has an advantage other than 0" in line] == [words[0]]
    assert words[0].startswith(f"{tmp_path / 'a'}, iteration 1: ")
    assert (rows[1]["silent_updates"], rows[0]["training_rules"]) == (1.0, TRAINING_RULES)
    assert [row for row in rows[1:] if "training_rules" in row] == []
    first, again = hopeless(tmp_path / "b", 3)[1], hopeless(tmp_path / "b", 6, resume=True)[1]
    assert len([line for line in first if "no step has" in line]) == 1
    assert [line for line in again if "no step has" in line] == []
    assert [row["iteration"] for row in read_log(tmp_path / "b" / LOG_FILE) if "warning_little_signal" in row] == [1]
    assert (kept_in(tmp_path / "b"), kept_in(None)) == ({i: f"checkpoint-{i:06d}" for i in range(1, 7)}, {})


def test_a_run_that_goes_on_past_its_end_is_one_that_was_longer(tmp_path: Path) -> None:
    given: dict[str, Any] = {"learning_rate": 0.0, "loss.kl": 0.0, "validation.every": 0, "group_size": 2}
    lost = [row | {"success": 0.0} for row in run_of({}, {})[1:]]
    straight = [row | dict.fromkeys(watch(lost[: i + 1], over=i == 1), 1.0) for i, row in enumerate(lost)]
    shorter = [lost[0] | dict.fromkeys(watch(lost[:1], over=True), 1.0)]
    assert "warning_no_success" in shorter[0]
    assert unfinished(shorter) == lost[0]
    assert "warning_no_success" in straight[1]
    # In the trainer: a run of one iteration that won nothing, gone on with for another.
    rows = []
    for folder, lengths in (("a", (2,)), ("b", (1, 2))):
        for iterations in lengths:
            policy = small_policy(prefix="", suffix="")  # no reply can be read
            made = trainer(policy, folder=tmp_path / folder, resume=True, iterations=iterations, **given)
            with pytest.warns(UserWarning, match=f"iteration {iterations}: no episode .* succeeded"):
                made.run()
        rows.append(repeatable(read_log(tmp_path / folder / LOG_FILE)))
    assert rows[0] == rows[1]
    assert ["warning_no_success" in row for row in rows[0]] == [False, False, True]


def test_a_run_of_older_rules_goes_on_and_says_so(tmp_path: Path) -> None:
    trainer(folder=tmp_path, iterations=1).run()
    state = tmp_path / "checkpoint-000001" / "state.json"
    content = json.loads(state.read_text())
    assert content.pop("training_rules") == TRAINING_RULES
    state.write_text(json.dumps(content))
    (state.parent / "seal.json").unlink()
    seal(state.parent)
    with pytest.warns(UserWarning, match=f"was trained by rules 1 and continues by {TRAINING_RULES}"):
        resumed = trainer(folder=tmp_path, iterations=3, resume=True)
    rows = resumed.run()
    assert [row.get("training_rules") for row in rows] == [TRAINING_RULES, None, TRAINING_RULES, None]
