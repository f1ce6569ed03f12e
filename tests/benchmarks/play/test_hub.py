"""A data set's folder is what Hugging Face's own package reads, and it reads back here; nothing is sent in tests."""

import dataclasses
import json
import re
from pathlib import Path
from unittest.mock import create_autospec

import huggingface_hub
import pytest

from benchmarks.json_files import ResultsError
from benchmarks.play import hub
from benchmarks.play.results import load
from tests.benchmarks.command import played as play
from tests.benchmarks.command import run
from tests.refusals import refuses


@pytest.fixture(scope="module")
def played(tmp_path_factory) -> Path:
    """Folder of two players on three levels, and of one on two larger ones."""
    folder = tmp_path_factory.mktemp("panels")
    for name, policies, count in (
        ("sokoban/6x6/3-5@1", ("random", "expert"), 3),
        ("sokoban/7x7/5-15@1", ("random",), 2),
    ):
        for policy in policies:
            play(folder, name, policy, count, samples=2)
    return folder


def test_the_folder_reads_back_and_the_card_says_what_can_be_loaded(played, tmp_path):
    run("hub", played, "--out", tmp_path)
    found = hub.read_folder(tmp_path)
    assert len(found) == 3
    assert all(found[name] == load(played / name) for name in found)
    card = huggingface_hub.DatasetCard.load(tmp_path / "README.md")
    files = {one["config_name"]: one["data_files"] for one in card.data.to_dict()["configs"]}
    lines = {name: [json.loads(line) for path in sorted(tmp_path.glob(pattern)) for line in path.open()]
             for name, pattern in files.items()}  # fmt: skip
    assert {name: len(rows) for name, rows in lines.items()} == {"tasks": 3 + 2, "outcomes": (3 + 3 + 2) * 2}
    assert [len({tuple(row) for row in rows}) for rows in lines.values()] == [1, 1]  # each is one table
    expert = [row for row in lines["outcomes"] if row["player"] == "expert"]
    assert all(row["won"] for row in expert)
    assert {row["digest"] for row in expert} <= {row["digest"] for row in lines["tasks"]}
    assert "| expert | 3 x 2 | 100.0 (" in card.text


def test_what_does_not_belong_together_is_refused(played, tmp_path):
    results = {path.parent.relative_to(played).as_posix(): load(path) for path in played.glob("*/*/results.json")}
    one, other, larger = sorted(results)
    with pytest.raises(ResultsError, match="results of different panels cannot be compared"):
        hub.write_folder({one: results[one], other: results[larger]}, tmp_path)
    refuses(ResultsError, "no results to write", hub.write_folder, {}, tmp_path)
    hub.write_folder(results, tmp_path)
    tasks = [dataclasses.replace(results[one].tasks[0], digest="0" * 64), *results[one].tasks[1:]]
    hub.write_json(dataclasses.replace(results[one], tasks=tasks), tmp_path / "results" / one / "results.json")
    refuses(ResultsError, "not results on the tasks of", hub.read_folder, tmp_path)
    (tmp_path / "panels" / f"{one.partition('/')[0]}.jsonl").write_text("{")
    refuses(ResultsError, "download the folder again", hub.read_folder, tmp_path)


def test_a_name_that_cannot_be_one_is_refused_before_anything_is_written(played, tmp_path):
    out = tmp_path / "out"
    said = run("hub", played, "--out", out, "--upload", "a/b/c", status=2)
    assert ("--upload" in said, "a/b/c" in said, out.exists()) == (True, True, False)


def test_the_folder_is_sent_as_a_private_data_set(played, tmp_path, monkeypatch):
    api = create_autospec(huggingface_hub.HfApi, instance=True)
    api.create_repo.return_value = "https://hub/datasets/me/results"
    monkeypatch.setattr(hub, "HfApi", lambda: api)
    assert "https://hub/datasets/me/results" in run("hub", played, "--out", tmp_path, "--upload", "me/results")
    assert api.create_repo.call_args.kwargs | {"name": api.create_repo.call_args.args} == {
        "name": ("me/results",), "repo_type": "dataset", "private": True, "exist_ok": True,
    }  # fmt: skip
    sent = api.upload_folder.call_args.kwargs
    assert (sent["folder_path"], sent["repo_id"], sent["repo_type"]) == (tmp_path, "me/results", "dataset")
    allowed = sent["allow_patterns"]
    written = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted(huggingface_hub.utils.filter_repo_objects(written, allow_patterns=allowed)) == sorted(written)
    assert not list(huggingface_hub.utils.filter_repo_objects([".env", "panels/key", "x.py"], allow_patterns=allowed))


def test_files_of_something_else_are_neither_written_over_nor_mixed_in(played, tmp_path):
    results = {path.parent.relative_to(played).as_posix(): load(path) for path in played.glob("*/*/results.json")}
    (tmp_path / "README.md").write_text("mine")
    refuses(ResultsError, r"README\.md is of another page: name an empty folder", hub.write_folder, results, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]
    out = tmp_path / "out"
    hub.write_folder(results, out)
    hub.write_folder(results, out)
    first = min(results)
    with pytest.raises(ResultsError, match=rf"results/{re.escape(first)} is of an earlier data set: remove it"):
        hub.write_folder({name: one for name, one in results.items() if name != first}, out)
