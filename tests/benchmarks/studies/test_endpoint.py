import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.run import app
from benchmarks.studies.endpoint import EndpointSpeed

pytest.importorskip("aiohttp")


def test_the_command_plays_scored_dialogues_and_writes_its_figures(tmp_path: Path) -> None:
    out = tmp_path / "new" / "endpoint.json"
    result = CliRunner().invoke(
        app, ["endpoint", "--dialogues", "3", "--delay", "0.01", "--turns", "4", "--repeats", "1", "--out", str(out)]
    )
    assert result.exit_code == 0, result.output
    assert "3 at a time" in result.output
    figures = json.loads(out.read_text())
    # Two answers of the partner and one of the judge, one after the other.
    assert figures["one"] >= 0.03
    assert figures["ratio"] == pytest.approx(figures["many"] / figures["one"])


def test_the_ratio() -> None:
    assert EndpointSpeed(0.2, 20, 128, one=2.0, many=3.0, processor=1.0).ratio == 1.5
