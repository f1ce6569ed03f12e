"""Comparisons by hand and against plain readings: differences, corrections, numbers of tasks, and what is refused."""

import dataclasses
import json

import numpy as np
import pytest

from benchmarks.json_files import ResultsError
from benchmarks.play.compare import compare_results
from benchmarks.play.results import load
from benchmarks.statistics import holm, paired_bootstrap, tasks_needed
from tests.benchmarks.command import played as play
from tests.benchmarks.command import run
from tests.refusals import refuses


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """Folder of two players on 30 levels."""
    folder = tmp_path_factory.mktemp("panels")
    for player in ("random", "expert"):
        play(folder, "sokoban/generated@1", player, 30, samples=2)
    return folder / "sokoban-generated@1-30"


def test_differences_and_holm_by_hand() -> None:
    one, other = np.array([1.0, 1.0, 1.0, 0.0]), np.array([0.0, 0.0, 0.5, 0.0])
    difference, p = paired_bootstrap(one, other)
    assert difference.mean == 0.625  # (1 + 1 + .5 + 0) / 4
    # 16 ways to swap; the sum 2.5 is reached without a swap and with one of the equal task, and so is -2.5: 4 of 16
    assert p == pytest.approx(0.25)
    even, p = paired_bootstrap(np.ones(4), np.ones(4))
    assert (even.mean, p) == (0.0, 1.0)
    assert even.high == pytest.approx(1 - 0.5101, abs=1e-4)  # Wilson: 4 / (4 + 1.96^2)
    even, p = paired_bootstrap(np.ones(4), np.zeros(4))
    assert (even.mean, even.high, p) == (1.0, 1.0, 2 / 16)
    even, p = paired_bootstrap(np.array([0.3, 0.8, 1.0]), np.array([0.2, 0.7, 0.9]))  # alike but for rounding
    assert (even.excludes_zero, p) == (False, 2 / 8)
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])  # .01 x 3; .03 x 2; max(.06, .04 x 1)
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    apart = np.tile([1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -0.5], 20)
    # mean .05, deviation sqrt((20 x 1 + 20 x .25 - 200 x .0025) / 199) = .3508; (2.8016 x .3508 / .05)^2 = 386.4
    needed, least = tasks_needed(apart)
    assert (needed, least) == (387, pytest.approx(2.8016 * 0.3508 / 200**0.5, rel=1e-3))
    assert tasks_needed(np.zeros(5)) == (None, 0.0)


def test_the_command_compares_every_pair(played, tmp_path):
    words = run("compare", played / "random", played / "expert", "--out", tmp_path / "figures.json")
    (found,) = json.loads((tmp_path / "figures.json").read_text("utf-8"))
    apart = load(played / "random").success().mean() - 1.0
    assert found["difference"]["mean"] == pytest.approx(apart)
    assert found["holm"] == found["p"] < 0.01
    assert "random - expert" in words
    assert found["needed"] < 30


def test_results_of_other_tasks_or_conditions_are_refused(played):
    one = load(played / "random")
    other = dataclasses.replace(
        one, panel=dataclasses.replace(one.panel, hash="0" * 16, options={"max_episode_steps": 9})
    )
    with pytest.raises(ResultsError, match=r"different panels.*first difference: max_episode_steps is 20 and 9"):
        compare_results([one, other], ["a", "b"])
    changed = dataclasses.replace(one.tasks[4], digest="1" * 64, id="test/new")
    other = dataclasses.replace(
        one, panel=dataclasses.replace(one.panel, hash="0" * 16), tasks=[*one.tasks[:4], changed, *one.tasks[5:]]
    )
    with pytest.raises(ResultsError, match=f"1 tasks are only in a, the first: '{one.tasks[4].id}'"):
        compare_results([one, other], ["a", "b"])
    other = dataclasses.replace(one, panel=dataclasses.replace(one.panel, added={"symbols": "xsb"}))
    with pytest.raises(ResultsError, match="different conditions: symbols is None in a, 'xsb' in b"):
        compare_results([one, other], ["a", "b"])
    one, other = (dataclasses.replace(one, panel=dataclasses.replace(one.panel, data={"corpus": c})) for c in "xy")
    with pytest.raises(ResultsError, match=r"different conditions: the files of corpus .* 'x' in a, 'y' in b"):
        compare_results([one, other], ["a", "b"])
    one, other = (dataclasses.replace(one, panel=dataclasses.replace(one.panel, data={"levels": c})) for c in "xy")
    assert len(compare_results([one, other], ["a", "b"])) == 1  # other files, the same tasks
    refuses(ResultsError, "at least two", compare_results, [one], ["a"])


def test_a_file_that_is_none_is_named(tmp_path):
    (tmp_path / "results.json").write_text("{}", encoding="utf-8")
    assert "results.json" in run("compare", tmp_path, tmp_path, status=2)
