"""The page and the picture of the league."""

import dataclasses
import json
import re

import pytest

pytest.importorskip("typer")
pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

from benchmarks.league.report import page_data, write_league_report
from benchmarks.league.study import QUICK, make_config, run_league


@pytest.fixture(scope="module")
def league(tmp_path_factory):
    config = make_config(QUICK, envs=["sokoban", "sotopia"], groups=[4], players=["random", "expert 50"], tasks=2)
    return run_league(config, tmp_path_factory.mktemp("league"))


def test_the_page_holds_every_number_that_it_shows(league, tmp_path):
    picture, page = write_league_report(league, tmp_path)
    assert picture.read_bytes().startswith(b"\x89PNG")
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"(src|href)=.http", text)
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL).group(1))
    assert data == json.loads(json.dumps(page_data(league)))
    names = [credit["name"] for credit in data["credits"]]
    for shown, standing in zip(data["standings"], league.standings, strict=True):
        expected = standing.main.measure("graphgpo step", "sign_all", 4)
        found = shown["measures"]["sign_all"][0][names.index("graphgpo step")]
        assert (found is None) is (expected is None)
        if expected is not None:
            assert found == pytest.approx(dataclasses.astuple(expected), abs=1e-4)
        assert len(shown["groups"][0]) == len(data["group_heads"])


def test_players_who_hardly_ever_won_do_not_count(league):
    lost = [dataclasses.replace(each, success=0.0) if each.player == "random" else each for each in league.standings]
    data = page_data(dataclasses.replace(league, standings=lost))
    assert [shown["counts"] for shown in data["standings"]] == [each.success >= 0.02 for each in lost]
    assert not data["standings"][0]["counts"]
