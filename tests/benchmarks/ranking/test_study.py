"""The ranking study from end to end, on a few levels."""

import dataclasses
import functools
import io
import json
import re

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")
pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

import typer
from rich.console import Console
from typer.testing import CliRunner

from agentgym.trajectory import StepTable
from baselines.environments.sokoban import SOKOBAN
from benchmarks.config import make_config as make_learning_config
from benchmarks.json_files import OtherConfigurationError, ResultsError, write_json
from benchmarks.league.study import make_config as make_league_config
from benchmarks.ranking.measures import MEASURES
from benchmarks.ranking.report import page_data, render
from benchmarks.ranking.results import credit_names, load, score_of
from benchmarks.ranking.rollouts import mixed_groups, split_groups
from benchmarks.ranking.study import make_config, measure_player, ranking, run_ranking
from benchmarks.ranking.table import print_ranking

APP = typer.Typer()
APP.command()(ranking)


def run(*options):
    return CliRunner().invoke(APP, [str(option) for option in options])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("ranking") / "study"
    result = run("--groups", 6, "--out", place)
    assert result.exit_code == 0, result.output
    return place


@pytest.fixture
def study(folder):
    return load(folder / "ranking.json")


def test_references_are_what_they_must_be(study):
    for player in study.players:
        for size in study.config.sizes:
            oracle = score_of(player, "oracle", size).measures
            assert [oracle[name].mean for name in ("within", "same", "overall", "sign", "sign_all")] == pytest.approx(
                [1] * 5
            )
            assert oracle["coverage"].mean == pytest.approx(1 - player.unchanged)
            assert abs(score_of(player, "random", size).measures["within"].mean) < 0.15
            assert score_of(player, "random", size).measures["sign_all"].mean == pytest.approx(0.5, abs=0.1)


def test_every_credit_is_measured_at_every_size(study):
    assert [player.name for player in study.players] == ["uniform", "expert 25", "expert 50", "expert 75"]
    for player in study.players:
        assert len(player.scores) == len(credit_names(study)) * 4
        assert player.gained + player.unchanged + player.lost + player.dead == pytest.approx(1)
        for score in player.scores:
            assert set(score.measures) == set(MEASURES)
            for interval in score.measures.values():
                assert interval is None or interval.low <= interval.mean <= interval.high
        for size in study.config.sizes:
            differences = score_of(player, "gigpo step", size).differences
            assert all(differences[name] is None or differences[name].mean == 0 for name in MEASURES)


def test_better_players_solve_more(study):
    success = [player.success for player in study.players]
    assert success == sorted(success)


def test_group_size_changes_no_comparison_of_returns_that_two_episodes_make(study):
    # GRPO, RLOO and GiGPO compare returns, which do not depend on the group: a larger one moves and rescales them,
    # and the order of any two steps stays.
    for player in study.players:
        for credit in ("grpo", "rloo", "gigpo step"):
            values = {score_of(player, credit, size).measures["same"].mean for size in study.config.sizes}
            assert max(values) - min(values) < 1e-12


def test_the_same_command_continues_and_changes_nothing(folder):
    before = (folder / "ranking.json").read_text("utf-8")
    kept = (folder / "uniform.json").read_text("utf-8")
    (folder / "expert-50.json").unlink()
    result = run("--groups", 6, "--out", folder)
    assert result.exit_code == 0, result.output
    assert "uniform: finished before" in result.output
    assert "expert 50: playing" in result.output
    assert (folder / "uniform.json").read_text("utf-8") == kept
    was, now = json.loads(before), json.loads((folder / "ranking.json").read_text("utf-8"))
    for document in (was, now):
        del document["created"]
        for player in document["players"]:
            del player["seconds"]
    assert was == now


def test_another_configuration_needs_another_folder(folder):
    result = run("--groups", 7, "--out", folder)
    assert result.exit_code == 2
    assert "tasks: there 6, asked for 7" in result.output


def test_results_of_other_credits_need_another_folder(folder, study):
    """Finished players are not measured again, so that a credit which was added later would be missing."""
    config = make_config(6)
    assert config.credits == credit_names(study)
    fewer = dataclasses.replace(config, credits=config.credits[1:])
    with pytest.raises(OtherConfigurationError, match="credits: there"):
        run_ranking(fewer, folder)


def test_a_damaged_player_is_named(folder, tmp_path):
    config = make_config(2)
    run_ranking(config, tmp_path)
    (tmp_path / "uniform.json").write_text("{", encoding="utf-8")
    with pytest.raises(ResultsError, match=r"uniform\.json: Invalid JSON"):
        run_ranking(config, tmp_path)


def test_the_page_holds_everything_and_asks_for_nothing(folder, study):
    page = (folder / "report.html").read_text("utf-8")
    ours = re.sub(r"/\* BEGIN (bokeh[-a-z]*\.min\.js) \*/.*?/\* END \1 \*/", "", page, flags=re.DOTALL)
    assert set(re.findall(r"https?://[^\s\"'<)]+", ours)) == {"http://www.w3.org/2000/svg"}
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])
    assert data == json.loads(json.dumps(page_data(study)))
    assert [credit["name"] for credit in data["credits"]] == credit_names(study)
    assert len(data["credits"][0]["measures"]["within"]) == 4
    assert len(data["credits"][0]["measures"]["within"][0]) == 4
    assert (folder / "ranking.png").read_bytes().startswith(b"\x89PNG")


def test_a_name_cannot_end_the_data_of_the_page(study):
    odd = dataclasses.replace(study.players[0], name="</script><b>")
    page = render(dataclasses.replace(study, players=[odd, *study.players[1:]]))
    assert "</script><b>" not in page


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_terminal_shows_every_credit_and_cuts_nothing(study, width):
    console = Console(file=io.StringIO(), width=width)
    print_ranking(study, console)
    text = console.file.getvalue()
    # On 60 columns long names take two lines.
    assert all(text.count(name) >= 4 for name in credit_names(study) if len(name) < 22 or width > 60)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width


def test_the_seed_decides():
    one, again, other = (measure_player(make_config(2, seed=seed), "expert 50", lambda *_: None) for seed in (0, 0, 1))
    assert one.scores == again.scores
    assert one.scores != other.scores


def test_groups_are_cut_into_disjoint_parts():
    # Two groups of four episodes of one step, in mixed order.
    group = [0, 1, 0, 1, 0, 1, 0, 1]
    table = StepTable.from_arrays(
        group=group, trajectory=range(8), t=[0] * 8, state=["s"] * 8, action=["a"] * 8, next_state=["u"] * 8,
        reward=[0.0] * 8, won=[1, 0, 0, 0, 1, 0, 1, 0],
    )  # fmt: skip
    halves = split_groups(table, 2)
    assert halves.group.tolist() == [0, 2, 0, 2, 1, 3, 1, 3]
    assert halves.groups == ((0, 0), (0, 1), (1, 0), (1, 1))
    assert np.array_equal(split_groups(table, 4).group, table.group)
    # Of the halves only the first, won and lost, has both outcomes; of the wholes only the first as well.
    assert (mixed_groups(halves), mixed_groups(table)) == (0.25, 0.5)
    with pytest.raises(ValueError, match="cannot be cut into parts of 3"):
        split_groups(table, 3)


def test_policies_are_job_folders_with_distinct_names(tmp_path):
    with pytest.raises(ResultsError, match="job folder of a learning benchmark"):
        make_config(2, [tmp_path])
    assert run("--policy", tmp_path / "nothing", "--out", tmp_path / "out").exit_code == 2


def test_weights_are_part_of_the_configuration_and_files_of_players_distinct(tmp_path):
    """Jobs as far as a configuration looks at them: of the ranking, and of the league."""
    config = make_learning_config(SOKOBAN, methods=["grpo"], seeds=[0], model="tiny", history=None, sizes=SOKOBAN.quick)
    write_json(config, tmp_path / "config.json")
    for name in ("job", "expert-50"):
        (tmp_path / name / "model").mkdir(parents=True)
        (tmp_path / name / "model" / "config.json").write_text("{}", encoding="utf-8")
    for make in (functools.partial(make_config, 2), functools.partial(make_league_config, envs=["sokoban"])):
        assert make().weights is None
        found = []
        for weights in (b"1", b"1", b"2"):
            (tmp_path / "job" / "model" / "model.safetensors").write_bytes(weights)
            found.append(make(models=[tmp_path / "job"]))
        assert found[0] == found[1] != found[2]
        assert found[0].models == found[2].models
        with pytest.raises(ResultsError, match="the name 'expert-50' is taken by the player 'expert 50'"):
            make(models=[tmp_path / "expert-50"])


def test_a_cloned_policy_plays_as_well(finished_run, tmp_path):
    result = run("--groups", 2, "--policy", finished_run / "clone-seed0", "--out", tmp_path / "study")
    assert result.exit_code == 0, result.output
    study = load(tmp_path / "study" / "ranking.json")
    assert [player.name for player in study.players][-1] == "clone-seed0"
    assert study.players[-1].steps > 0
    with pytest.raises(ResultsError, match="the name 'clone-seed0' is taken"):
        make_config(2, [finished_run / "clone-seed0", finished_run / "clone-seed0" / "model"])


def test_missing_scores_are_refused(folder, tmp_path):
    document = json.loads((folder / "ranking.json").read_text("utf-8"))
    document["players"][1]["scores"].pop()
    path = tmp_path / "ranking.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(ResultsError, match="expert 25 has no score of 'random' at group size 16"):
        load(path)
    with pytest.raises(ResultsError, match="no such file"):
        load(tmp_path / "nothing.json")


def test_players_and_sets_of_credits_are_chosen_by_name():
    config = make_config(2, players=["expert 50", "uniform"], methods="2026")
    assert list(config.optimal) == ["uniform", "expert 50"]
    assert {"bellman step", "g2po step", "salt step", "gigpo step", "oracle"} < set(config.credits)
    assert "hgpo step" not in config.credits
    assert set(make_config(2, methods="all").credits) > set(config.credits)
    with pytest.raises(ResultsError, match=r"unknown player 'expert 60'; known: 'uniform', .*did you mean 'expert"):
        make_config(2, players=["expert 60"])
    with pytest.raises(ResultsError, match="unknown set of credits 'new'; known: 'published', '2026', 'all'"):
        make_config(2, methods="new")


def test_the_methods_of_2026_rank_as_their_values_do(tmp_path):
    result = run("--groups", 24, "--player", "expert 50", "--credits", "2026", "--out", tmp_path / "recent")
    assert result.exit_code == 0, result.output
    (player,) = load(tmp_path / "recent" / "ranking.json").players
    rank = {name: score_of(player, name, 8).measures["within"].mean for name in make_config(2, methods="2026").credits}
    # Distances, then Bellman's values, then means of returns; and gains summed along the trajectory lose most of it.
    assert rank["graphgpo step"] > rank["bellman step"] > rank["g2po step"] > rank["gated_bepo step"]
    # One method up to what it is standardised over.
    assert rank["g2po step"] == pytest.approx(rank["pgpo step"], abs=1e-9)
    assert rank["gagpo step, lambda 0"] == pytest.approx(rank["g2po step"], abs=0.02)
    assert rank["oracle"] == pytest.approx(1)
