"""Credits and state keys against the truth: the same episodes with other states, and every study's part, tiny."""

import dataclasses
import io

import numpy as np
import pytest
from rich.console import Console

from agentgym.outside.files import OtherConfigurationError
from benchmarks.json_files import ResultsError
from benchmarks.truth.episodes import ENVIRONMENTS, play_scripted, scripted_of, tasks_of
from benchmarks.truth.labels import Labels, noise_of, shown_again, with_states
from benchmarks.truth.papers import AGAINST, STUDY, Against, environments, make_against, measure
from wrappers.credit.gigpo import step_level
from wrappers.credit.method import Credit


def _shown(played, **options):
    setup = {"data": "generated", "split_by": "product", "max_episode_steps": 10}
    tasks = tasks_of("webshop", played.table.n_groups)
    return shown_again(played.table, "AgentRL/WebShop-v0", {**setup, **options}, tasks, 0)


@pytest.fixture(scope="module")
def shop():
    return play_scripted("webshop", 0.58, 2, 4, seed=0)


def test_episodes_are_shown_again_row_by_row(shop):
    shown = _shown(shop)
    table = shop.table
    assert len(shown) == len(table)
    for name in ("group", "trajectory", "t", "action", "reward", "won"):
        assert (getattr(shown, name) == getattr(table, name)).all()
    texts = np.array(shown.states, dtype=object)
    # What a step leads to is what the next one begins in.
    follows = np.flatnonzero(table.trajectory[1:] == table.trajectory[:-1])
    assert (shown.next_state[follows] == shown.state[follows + 1]).all()
    # A page shows the same text whenever it is come by, so that no state of its own has two.
    for own in range(len(table.states)):
        assert len(set(shown.state[(table.state == own) & (table.group == 0)].tolist())) <= 1
    ends = texts[shown.next_state[table.last[table.terminated[table.last]]]]
    assert all(text.endswith(("[success]", "[failure]")) for text in ends)


def test_adverts_change_texts_and_nothing_else(shop):
    plain, noisy = _shown(shop), _shown(shop, **noise_of(1.0))
    assert (plain.reward == noisy.reward).all()
    assert not any("Advert" in text or "Sponsored" in text for text in plain.states)
    assert len(noisy.states) > len(plain.states)
    labels = [Labels(), Labels("text"), Labels("cosine 0.5", 0.5)]
    own, text, similar = (with_states(shop.table, noisy, each) for each in labels)
    assert own is shop.table
    assert text.states == noisy.states
    assert len(set(similar.state.tolist())) < len(set(text.state.tolist()))


def test_actions_that_bring_another_reward_are_refused(shop):
    other = dataclasses.replace(shop, table=dataclasses.replace(shop.table, reward=shop.table.reward + 1.0))
    with pytest.raises(ResultsError, match="cannot be shown again"):
        _shown(other)


def test_an_environment_is_measured_once(tmp_path):
    config = make_against("normalisation", quick=True)
    said = Console(file=io.StringIO(), width=200)
    first = STUDY.play(config, tmp_path, said)
    assert "sokoban: 0 of 16 episodes" in said.file.getvalue()
    again = STUDY.play(config, tmp_path, said := Console(file=io.StringIO(), width=200))
    assert again.measured == first.measured
    assert "1 of 1 environments are finished" in said.file.getvalue()
    with pytest.raises(OtherConfigurationError, match="another configuration"):
        STUDY.play(make_against("normalisation", quick=True, seed=1), tmp_path)


def test_a_cell_is_compared_with_the_one_of_its_base():
    credits = (Credit("same", "", "", step_level), Credit("none", "", "", lambda table: np.zeros(len(table))))
    found = measure(
        make_against("normalisation", quick=True), Against(credits, (4,), base={"credit": "same"}), "sokoban"
    )
    same, none = found.cells
    assert same.less_base == {}
    # A credit that is the same everywhere ranks nothing: 0, and by so much less than the other.
    assert none.measures["within"].mean == 0
    assert none.less_base["within"].mean == pytest.approx(-same.measures["within"].mean)
    assert 0 <= found.episodes.gained_in_lost.mean <= 1


@pytest.mark.parametrize("name", AGAINST)
def test_every_credit_gives_each_step_a_number(shop, name):
    for each in AGAINST[name].credits:
        given = each.give(shop.table)
        assert given.shape == (len(shop.table),)
        assert np.isfinite(given).all()


def test_environments_of_a_study_are_those_whose_settings_name_it(tmp_path):
    assert environments("group-size") == list(ENVIRONMENTS)
    assert environments("cosine-threshold") == ["alfworld", "webshop", "searchqa"]
    # Every study that a row of settings names is one.
    assert {name for row in ENVIRONMENTS for name in scripted_of(row).studies} <= set(AGAINST)
    with pytest.raises(ResultsError, match="adverts is about webshop"):
        make_against("adverts", models={"sokoban": tmp_path})
