"""Gradients against the truth: advantages by hand, the exact gradient by all episodes, sampled means, and measures."""

import dataclasses

import numpy as np
import pytest

from benchmarks.truth import gradients
from benchmarks.truth.measures import split_groups
from benchmarks.truth.processes import LOST, PROCESSES, WON, Process, delayed, recovery, varying
from wrappers.credit.rloo import rloo


def episodes_of(process):
    """All episodes by enumeration: probability, steps (state, action) and whether it was won."""
    open_ones = [(1.0, 0, [])]
    for t in range(process.horizon):
        going = []
        for p, state, steps in open_ones:
            for action in np.flatnonzero(process.policy[state]):
                for after in np.flatnonzero(process.moves[state, action]):
                    q = p * process.policy[state, action] * process.moves[state, action, after]
                    taken = [*steps, (state, action)]
                    if after >= len(process.policy) or t == process.horizon - 1:
                        yield q, taken, after == len(process.policy)
                    else:
                        going.append((q, after, taken))
        open_ones = going


@pytest.mark.parametrize("make", [lambda: Process.of(0, varying, 5), lambda: Process.of((0, False), recovery, 5)])
def test_the_exact_gradient_is_that_of_all_episodes(make):
    process = make()
    total, won, gradient = 0.0, 0.0, np.zeros_like(process.policy)
    for p, steps, success in episodes_of(process):
        total, won = total + p, won + p * success
        for state, action in steps:
            score = -process.policy[state]
            score[action] += 1
            gradient[state] += p * success * score
    assert total == pytest.approx(1)
    assert process.values[1][0, 0] == pytest.approx(won)
    np.testing.assert_allclose(process.gradient, gradient, atol=1e-12)


def test_advantages_and_measures_by_hand() -> None:
    process = Process.of("start", delayed, 6)
    # With the key .9, without it .2, either one time in two: .55.
    assert process.values[1][0, 0] == pytest.approx(0.55)
    assert dict(zip(process.actions, process.advantages[0, 0], strict=True)) == pytest.approx(
        {"take": 0.35, "leave": -0.35, "left": -0.55, "right": -0.55}  # the last two are not admissible
    )
    assert not process.advantages[1:5, 1:][:, :, 2:][process.visits[1:5, 1:] > 0].any()
    process = Process.of(0, varying, 5)
    # Short: .5. Long: four times one in two to go on, .5^4; the mean is .28125.
    assert process.values[1][0, 0] == pytest.approx((0.5 + 0.0625) / 2)
    assert process.advantages[0, 0, :2].tolist() == pytest.approx([0.21875, -0.21875])
    # With three steps left, two rooms are out of reach of the limit.
    process = Process.of((0, False), recovery, 3)
    assert process.values[1][:, 0].tolist() == pytest.approx([0.125, 0.0, 0.0])
    process = Process.of((0, False), recovery, 8)
    assert dict(zip(process.states, process.distances[:-2].tolist(), strict=True)) == {
        (0, False): 3, (1, False): 2, (2, False): 1, (0, True): 4, (1, True): 3, (2, True): 2
    }  # fmt: skip
    lost = Process.of(0, lambda state: {"jump": [(0.5, WON), (0.5, LOST)]}, 2)
    table = lost.play(64, np.random.default_rng(0))
    assert set(lost.distance_gain(table)[table.won]) == {1.0}
    assert set(lost.distance_gain(table)[~table.won]) == {-1.0}
    # Two groups with gradients (1, 1) and (1, 0) against (1, 0): mean (1, .5), variance .5, cosines .7071 and 1.
    sums = {
        "gradient": np.array([2.0, 1.0]), "groups": np.array([2.0, 1 + 0.5**0.5, 3.0]),
        "rows": np.array([3.0, 5.0, 5.0, 4.0, 1.0]),
    }  # fmt: skip
    length = 1.25 - 0.5 / 2
    expected = [(1 + 0.5**0.5) / 2, 0.0, (0.5 / length) ** 0.5, 0.8, 0.25]
    np.testing.assert_allclose(gradients.measures_of(sums, np.array([1.0, 0.0])), expected)


@pytest.mark.parametrize("name", ["recovery", "frozen lake", "sokoban 0"])
def test_sampled_gradients_of_true_advantages_have_the_exact_mean(name):
    process = PROCESSES[name]()
    table = process.play(4096, np.random.default_rng(1))
    assert table.trajectory_won.mean() == pytest.approx(process.values[1][0, 0], abs=0.04)
    found = gradients.group_gradients(process, split_groups(table, 2), process.truth(table), 2)
    error = found.std(0, ddof=1) / np.sqrt(len(found))
    often = (process.visits.sum(0)[:, None] * process.policy).ravel() > 0.01  # else too rare for an error
    often &= error > 1e-9
    z = (found.mean(0) - process.gradient.ravel())[often] / error[often]
    assert np.abs(z).max() < 4.5
    assert (z**2).mean() == pytest.approx(1, abs=0.6)


def test_leave_one_out_is_unbiased_and_a_reversed_credit_is_not():
    process, batches = PROCESSES["recovery"](), 8
    table = split_groups(process.play(4096, np.random.default_rng(2)), 4)
    exact, credit = process.gradient.ravel(), rloo(table, outcome="won")

    def measured(values):
        return gradients.jackknife(gradients.batch_sums(process, table, values, 4, batches), exact)

    ours, reversed_, truth = measured(credit), measured(-credit), measured(process.truth(table))
    assert ours["bias"].mean < 0.1
    assert ours["cosine"].mean == pytest.approx(-reversed_["cosine"].mean)
    assert (reversed_["bias"].mean, reversed_["error"].mean) == (1, 1)
    assert (truth["error"].mean, truth["leakage"].mean) == (0, 0)
    assert truth["cosine"].mean > ours["cosine"].mean
    assert measured(np.full(len(table), np.nan))["leakage"] is None


def test_errors_by_continuations_halve_with_four_times_as_many():
    process = Process.of(0, varying, 5)
    # Q and V of the steps: (.5, .28125) and (.0625, .28125) one in two each at the start, and so on below.
    assert process.sampling_error(256) == pytest.approx(2 * process.sampling_error(1024))
    one = Process.of(0, lambda state: {"jump": [(0.5, WON), (0.5, LOST)]}, 1)
    assert one.sampling_error(2) == pytest.approx(0.5)  # (1/4 + 1/4) / 2 = .5^2


def test_the_command_and_its_page(tmp_path):
    config = gradients.configure(quick=True, process=["varying length"])
    found = gradients.STUDY.play(config, tmp_path)
    again = gradients.STUDY.load(tmp_path / "gradients.json")
    assert dataclasses.replace(again, created="") == dataclasses.replace(found, created="")
    page = tmp_path / "results" / "gradients.md"
    page.parent.mkdir()
    (tmp_path / "images").mkdir()
    page.write_text("# Title\n\n<!-- gradients -->\n<!-- end of gradients -->\n")
    gradients.STUDY.command(out=None, page=page, rebuilt=tmp_path / "gradients.json", quick=False)
    first = page.read_bytes()
    gradients.STUDY.command(out=None, page=page, rebuilt=tmp_path / "gradients.json", quick=False)
    assert page.read_bytes() == first
    assert first.count(b"**software**") == 1
    assert len(gradients.page(found).reported) == 14
