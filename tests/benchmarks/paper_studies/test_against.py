"""Credits and state keys against the truth: the same episodes with other states, and every study's part, tiny."""

import dataclasses

import numpy as np
import pytest

from agentgym.trajectory import StepTable
from benchmarks.json_files import OtherConfigurationError, ResultsError
from benchmarks.league.diagnostics import GRAPHS, graph_sums
from benchmarks.league.episodes import play_scripted, tasks_of
from benchmarks.paper_studies.against import make_against, measure, run_against
from benchmarks.paper_studies.description import Against, Compared, Labels, Study
from benchmarks.paper_studies.labels import noise_of, shown_again, with_states
from benchmarks.paper_studies.registry import STUDIES
from wrappers.credit.gigpo import step_level as gigpo_steps


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


def test_graphs_are_counted_by_hand():
    # Two episodes from s: up leads to u and on to the goal, left to the pit. Of the four states three lead to success.
    table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
        action=["up", "on", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])  # fmt: skip
    found = {name: tuple(sums[0].tolist()) for name, sums in graph_sums(table).items()}
    assert set(found) == set(GRAPHS)
    assert found == {
        "states": (4, 3), "edges": (3, 3), "branching": (3, 2), "shared": (2, 3), "singletons": (1, 3),
        # One pair of actions, of which one leads to success: no tie.
        "ties": (0, 1), "reached": (3, 4), "goals": (1, 1), "mixed": (1, 1),
    }  # fmt: skip


def test_an_environment_is_measured_once(tmp_path):
    study = STUDIES["normalisation"]
    config = make_against(study, study.against, quick=True)
    words = []
    first = run_against(config, study.against, tmp_path, lambda env, told: words.append(told))
    assert any("playing" in told for told in words)
    words.clear()
    again = run_against(config, study.against, tmp_path, lambda env, told: words.append(told))
    assert again.measured == first.measured
    assert all("finished before" in told for told in words)
    with pytest.raises(OtherConfigurationError, match="another configuration"):
        run_against(make_against(study, study.against, quick=True, seed=1), study.against, tmp_path)


def test_a_cell_is_compared_with_the_one_of_its_base():
    against = Against(
        ("sokoban",), (Compared("same", gigpo_steps), Compared("none", lambda table: np.zeros(len(table)))), (4,),
        base={"credit": "same"},
    )  # fmt: skip
    study = Study("made-up", "Is nothing worth less?", against)
    found = measure(make_against(study, against, quick=True), against, "sokoban")
    same, none = found.cells
    assert same.less_base == {}
    # A credit that is the same everywhere ranks nothing: 0, and by so much less than the other.
    assert none.measures["within"].mean == 0
    assert none.less_base["within"].mean == pytest.approx(-same.measures["within"].mean)
    assert 0 <= found.episodes.gained_in_lost.mean <= 1


@pytest.mark.parametrize("name", [name for name, each in STUDIES.items() if each.against])
def test_every_credit_gives_each_step_a_number(shop, name):
    for each in STUDIES[name].against.credits:
        given = each.give(shop.table)
        assert given.shape == (len(shop.table),)
        assert np.isfinite(given).all()


def test_policies_play_their_own_environment_alone(tmp_path):
    study = STUDIES["adverts"]
    with pytest.raises(ResultsError, match="adverts is about webshop"):
        make_against(study, study.against, models={"sokoban": tmp_path})
