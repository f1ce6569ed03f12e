"""The league in all environments, and the ranking in Sokoban, from end to end on a few tasks."""

import dataclasses
import re

import pytest

from benchmarks.report.page import markdown
from benchmarks.truth.credits import names_of
from benchmarks.truth.episodes import ENVIRONMENTS, QUICK, make_config
from benchmarks.truth.league import LEAGUE, RANKING, configure_ranking, measure
from benchmarks.truth.measures import MEASURES
from tests.benchmarks.command import run
from tests.cases import cases

EXACT = ("sokoban", "alfworld", "virtualhome", "telecom")


def made(tmp_path_factory, *options):
    place = tmp_path_factory.mktemp(options[0]) / "study"
    run("study", *options, "--out", place)
    return place


def untimed(found):
    return [dataclasses.replace(each, seconds=0.0) for each in found.standings]


@pytest.fixture(scope="module")
def league(tmp_path_factory):
    return made(tmp_path_factory, "league", "--quick")


@pytest.fixture(scope="module")
def found(league):
    return LEAGUE.load(league / "league.json")


@pytest.fixture(scope="module")
def ranking(tmp_path_factory):
    return made(tmp_path_factory, "ranking", "--groups", 6)


@pytest.fixture(scope="module")
def ranked(ranking):
    return RANKING.load(ranking / "ranking.json")


def test_every_credit_is_measured_and_what_knows_more_ranks_better(found):
    assert [standing.env for standing in found.standings] == list(ENVIRONMENTS)
    assert list(found.credits) == [*names_of("methods"), "vine", "random"]
    for standing in found.standings:
        exact = standing.env in EXACT
        assert standing.main.truth == ("distance" if exact else "value")
        assert (standing.main.error == 0) is exact
        assert (standing.main.steps is None) is not exact
        assert 0 < standing.main.known <= 1
        known = len(found.credits) - (not exact)  # the solver's turn credit needs exact distances
        assert len(standing.main.scores) == len(found.config.sizes) * known
    assert found.mean("sokoban", "turn_credit total, solver", "within", 4) > 0.4
    assert found.mean("sokoban", "graphgpo step", "within", 4) > 0.4
    assert abs(found.mean("sokoban", "random", "within", 4)) < 0.25
    assert found.mean("searchqa", "vine", "within", 4) > 0.2
    lost = dataclasses.replace(found.standings[0], success=0.0)
    assert found.standings[0].counts
    assert not lost.counts
    assert dataclasses.replace(found, standings=[lost]).mean("sokoban", "graphgpo step", "within", 4) is None


def test_the_same_command_continues_and_changes_nothing(league, found):
    kept = (league / "webshop-expert-50.json").read_text("utf-8")
    (league / "sotopia-expert-50.json").unlink()
    result = run("study", "league", "--quick", "--out", league)
    assert "6 of 7 players are finished" in result
    assert "sotopia, expert 50: 0 of 16 episodes" in result
    assert (league / "webshop-expert-50.json").read_text("utf-8") == kept
    assert untimed(LEAGUE.load(league / "league.json")) == untimed(found)
    assert re.search(r"graphgpo_filled +\.?\d", result)


def test_both_truths_of_an_exact_environment(tmp_path):
    config = make_config(QUICK, envs=["sokoban"], groups=[4], check=True, seed=3, credits=names_of("methods"))
    standing = LEAGUE.play(config, tmp_path / "check").standings[0]
    assert [held.truth for held in standing.held] == ["distance", "value", "undiscounted value"]
    for held in standing.held:
        assert held.measure("graphgpo step", "within", 4).mean > 0.2
        assert (held.ceilings[0] is None) is (held.truth == "distance")
    assert standing.truth_cost > 1


def test_a_cloned_policy_plays_in_its_environment(finished_run):
    job = finished_run / "clone-seed0"
    tiny = dataclasses.replace(QUICK, tasks=2, continuations=2)
    config = make_config(
        tiny, envs=["sokoban", "webshop"], models=[job / "model"], check=True, credits=["gigpo step", "empg", "aem"]
    )
    assert config.models == {"sokoban": {"clone-seed0": str(job)}, "webshop": {}}
    standing = measure(config, "sokoban", "clone-seed0")
    assert [held.truth for held in standing.held] == ["distance", "value", "undiscounted value"]
    assert standing.steps > 0
    assert {"empg", "aem"} <= {score.credit for score in standing.main.scores}
    assert standing.main.measure("empg", "coverage", 4).mean > 0
    assert measure(config, "sokoban", "expert 50").main.score("empg", 4) is None


@cases(
    "options, words",
    (["--env", "sokobann"], "unknown environment 'sokobann'.*sokoban"),
    (["--env", "my_module:Env-v0"], "this study plays environments with an expert"),
    (["--credits", "my_module:credit"], "a function of your own is compared"),
    (["--player", "expert 60"], "unknown player 'expert 60'.*did you mean 'expert"),
    (["--groups", "4", "--groups", "6"], "each a multiple of the smaller ones"),
    (["--policy", "/nowhere/clone-seed0"], "expected a job folder"),
    (["--split", "tests"], "unknown split 'tests'"),
    (["--credits", "new"], "unknown set of credits 'new'"),
    (["--seed", "1"], "another configuration"),
)
def test_what_is_asked_wrongly_is_said(league, options, words):
    assert re.search(words, run("study", "league", "--quick", "--out", league, *options, status=2), re.DOTALL)


def test_references_are_what_they_must_be(ranked):
    for player in ranked.standings:
        held = player.main
        for size in ranked.config.sizes:
            oracle, random = (held.score(name, size).measures for name in ("oracle", "random"))
            for name in ("within", "same", "overall", "sign", "sign_all"):
                assert oracle[name].mean == pytest.approx(1)
            assert oracle["coverage"].mean == pytest.approx(1 - held.steps["unchanged"])
            assert abs(random["within"].mean) < 0.15
            assert random["sign_all"].mean == pytest.approx(0.5, abs=0.1)


def test_every_credit_is_measured_at_every_size(ranked):
    success = [player.success for player in ranked.standings]
    assert [player.player for player in ranked.standings] == ["random", "expert 25", "expert 50", "expert 75"]
    assert success == sorted(success)
    assert list(ranked.credits) == ranked.config.credits
    for player in ranked.standings:
        assert len(player.main.scores) == len(ranked.credits) * 4
        for score in player.main.scores:
            assert set(score.measures) == set(MEASURES)
            for interval in score.measures.values():
                assert interval is None or interval.low <= interval.mean <= interval.high
        for size in ranked.config.sizes:
            differences = player.main.score("gigpo step", size).differences
            assert all(differences[name] is None or differences[name].mean == 0 for name in MEASURES)
        # GRPO, RLOO and GiGPO compare returns, which do not depend on the group: a larger one moves and rescales them,
        # and the order of any two steps stays.
        for credit in ("grpo", "rloo", "gigpo step"):
            values = {player.main.measure(credit, "same", size).mean for size in ranked.config.sizes}
            assert max(values) - min(values) < 1e-12


@pytest.mark.parametrize("name", ["league", "ranking"])
def test_the_page_holds_everything_and_asks_for_nothing(request, name):
    folder = request.getfixturevalue(name)
    study = {"league": LEAGUE, "ranking": RANKING}[name]
    found = study.load(folder / f"{name}.json")
    written = (folder / "report.html").read_text("utf-8")
    assert set(re.findall(r"https?://[^\s\"'<)]+", written)) <= {"http://www.w3.org/2000/svg"}
    assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "report.md").read_text("utf-8") == markdown(study.shown(found))
    for standing in found.standings:
        rank = standing.main.measure("graphgpo step", "within", max(found.config.sizes))
        assert f"{rank.mean:.2f} [{rank.low:.2f}, {rank.high:.2f}]" in written


def test_the_seed_decides():
    one, again, other = (measure(configure_ranking(groups=2, seed=seed), "sokoban", "expert 50") for seed in (0, 0, 1))
    assert one.held == again.held
    assert one.held != other.held


def test_the_methods_of_2026_rank_as_their_values_do():
    config = configure_ranking(groups=24, player=["expert 50"], credits="2026")
    assert "hgpo step" not in config.credits
    held = measure(config, "sokoban", "expert 50").main
    rank = {name: held.measure(name, "within", 8).mean for name in config.credits}
    # Distances, then Bellman's values, then means of returns; and gains summed along the trajectory lose most of it.
    assert rank["graphgpo step"] > rank["bellman step"] > rank["g2po step"] > rank["gated_bepo step"]
    # One method up to what it is standardised over.
    assert rank["g2po step"] == pytest.approx(rank["pgpo step"], abs=1e-9)
    assert rank["gagpo step, lambda 0"] == pytest.approx(rank["g2po step"], abs=0.02)
    assert rank["oracle"] == pytest.approx(1)
