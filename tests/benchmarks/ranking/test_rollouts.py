"""The player of adjustable quality."""

import numpy as np
import pytest

from benchmarks.ranking.rollouts import NoisyExpert


def texts(optimal, advice, seed=0):
    infos = {"expert_action": np.array(advice, dtype=object)}
    return [reply.text for reply in NoisyExpert(optimal).act([""] * len(advice), infos, np.random.default_rng(seed))]


def test_certain_players():
    assert texts(1.0, ["up"] * 50) == ["up"] * 50
    # A dead end has no optimal move: all four come up.
    assert set(texts(1.0, [""] * 50)) == {"up", "down", "left", "right"}


def test_the_share_of_optimal_moves():
    # With probability .6 the expert's, and with .4 / 4 = .1 the same move by chance: .7 of 20,000, standard deviation
    # sqrt(.7 * .3 / 20,000) = .0032.
    played = texts(0.6, ["left"] * 20_000)
    assert played.count("left") / len(played) == pytest.approx(0.7, abs=0.015)
    for other in ("up", "down", "right"):
        assert played.count(other) / len(played) == pytest.approx(0.1, abs=0.015)


def test_the_same_numbers_are_drawn_whatever_the_expert_says():
    for one, other in zip(texts(0.5, ["up"] * 40), texts(0.5, ["down"] * 40), strict=True):
        assert one == other or (one, other) == ("up", "down")


@pytest.mark.parametrize("optimal", [-0.1, 1.1])
def test_no_probability(optimal):
    with pytest.raises(ValueError, match="probability"):
        NoisyExpert(optimal)
