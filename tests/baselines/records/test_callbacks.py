"""Samples of a run, and trackers of others."""

import dataclasses
import json
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from baselines.records.callbacks import Samples, Tracker
from tests.baselines.corridor_learning import TASKS
from tests.baselines.test_trainer import trainer
from tests.refusals import refuses


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]


def test_samples_say_what_was_seen_said_and_credited(tmp_path: Path) -> None:
    seen: dict[int, Any] = {}

    def note(run: Any, table: Any, row: Any) -> None:
        seen[int(row["iteration"])] = None if table is None else (table, run.advantages)

    trainer(iterations=2).run(note, Samples(tmp_path))
    found = lines(tmp_path)
    assert [line["iteration"] for line in found] == [1] * 8 + [2] * 8
    for line in found:
        table, advantages = seen[line["iteration"]]
        keys = [f"{g} {a} {t}" for g, a, t in zip(table.group, table.trajectory, table.t, strict=True)]
        assert len(set(keys)) == len(keys)
        row = next(
            i for i in range(len(table))
            if str(table.trajectories[table.trajectory[i]]) == line["trajectory"] and table.t[i] == line["t"]
        )  # fmt: skip
        assert line["advantage"] == advantages[row]
        assert line["reply"] == table.replies[row].text
        assert line["valid"] == table.valid[row]
        assert "cell" in line["prompt"]
        assert line["state"] == str(table.states[table.state[row]])


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
