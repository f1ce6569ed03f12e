"""`speed rollouts` and `speed updates` from the command line, with the tiny model."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks.run import app
from benchmarks.speed import rollouts, updates

pytest.importorskip("peft")
pytestmark = pytest.mark.filterwarnings("ignore:.*refused every action")  # of an untrained model


@pytest.fixture(autouse=True)
def _no_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("trl", "vllm"):
        monkeypatch.setitem(sys.modules, name, None)


def run(name: str, folder: Path, *options: str) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Measurements by key, and the words on what could not be measured."""
    result = CliRunner().invoke(app, ["speed", name, "--quick", "--out", str(folder), *options], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    found = json.loads((folder / f"{name}.json").read_text())
    return {each["key"]: each for each in found["measurements"]}, found["skipped"]


def test_rollouts_read_what_is_new_once_and_whole_prompts_at_every_turn(tmp_path: Path) -> None:
    found, skipped = run("rollouts", tmp_path)
    assert {key.removesuffix("_seconds") for key in found if key.endswith("_seconds")} == rollouts.PARTS.keys() - {
        "vllm"
    }
    assert [words.partition(":")[0] for words in skipped] == ["vLLM"]
    assert all(each["value"] > 0 for each in found.values())
    for part in ("kept", "adapter", "whole"):
        prompts, distinct, read, written = (
            found[f"{part}_{name}"]["value"] for name in ("of_all_prompts", "distinct", "read", "written")
        )
        assert distinct < prompts / 3  # two episodes of three turns
        if part == "whole":
            assert read >= prompts
        else:
            assert read + written <= distinct  # the last token of a reply is written, and read by nobody


def test_updates_are_measured_with_the_default_settings_and_row_by_row(tmp_path: Path) -> None:
    found, skipped = run("updates", tmp_path)
    assert found.keys() == {f"{part}_{way}" for part in updates.PARTS for way in ("auto", "rows")}
    assert [words.partition(" (")[0] for words in skipped] == [
        f"{updates.PARTS[name]}: TRL" for name in ("transcripts", "replies")
    ]
    assert all(each["value"] > 0 for each in found.values())
    for part, rows in (("transcripts", 2 * 3), ("replies", 3), ("cloning", 2 * 3)):
        words = re.fullmatch(r".*: (\d+) rows, ([\d,]+) tokens, ([\d,]+) distinct", found[f"{part}_auto"]["section"])
        assert words is not None
        count, tokens, distinct = (int(each.replace(",", "")) for each in words.groups())
        assert count == rows
        assert distinct < tokens / 2
    few, skipped = run("updates", tmp_path / "few", "--parts", "replies", "--ways", "rows")
    assert (few.keys(), skipped) == ({"replies_rows"}, [])


@pytest.mark.parametrize(("name", "option"), [("rollouts", "--parts"), ("updates", "--parts"), ("updates", "--ways")])
def test_an_unknown_part_is_refused_with_the_known_ones(name: str, option: str) -> None:
    result = CliRunner().invoke(app, ["speed", name, "--quick", option, "rows,nothing"], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert re.search(r"expected names out\s+of", result.output)
    assert re.search(r"got\s+nothing" if option == "--ways" else r"got\s+nothing,\s+rows", result.output)
