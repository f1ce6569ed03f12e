import pytest

from tests.wrappers.credit.small_tables import TREE, close, episodes, rollouts
from wrappers.credit import bpo


def test_by_hand() -> None:
    # At u: 1, 0 and 1 against the mean of the others: 1/2, -1, 1/2. At v: 1 and 0: 1, -1.
    # Before: .5 * 1/2 + .25 * 1; between the forks 1/2 + .5 * 1.
    close(bpo(episodes(*TREE), preset="paper", lam=0.5), [0.5, 1, 1, -1, 0.5, -1, 0])
    # Episodes of the first tree: 1 0 1 0, mean 1/2; of the other: 0. Through the first step go all four, through the
    # second the first and the last.
    episode = bpo(episodes(*TREE)) - bpo(episodes(*TREE), preset="paper")
    close(episode, [0.5, 0.5, 1, 0, 1, 0, -0.5])
    half = bpo(episodes(*TREE), alpha_episode=0.5) - bpo(episodes(*TREE), preset="paper")
    close(half, episode / 2)
    alone = episodes(*TREE[:4])
    close(bpo(alone), bpo(alone, preset="paper"))
    table = episodes("s -a-> u -b-> v -c-> goal +", "0.0: u -d-> pit")
    close(bpo(table, gamma=0.5, lam=0.0), [0, 0.5, 0.5, -0.5])
    table = episodes("s -a!-> u -b!-> goal +", "0.0: u -c-> pit")
    close(bpo(table, lam=0.0), [0, 1, -1])
    # Off the continuation's return: 3/4 against 0.
    close(bpo(table, lam=0.0, invalid_penalty=0.25, penalty="row"), [0, 0.75, -0.75])
    close(bpo(table, lam=0.0, invalid_penalty=0.25, penalty="discounted"), [0, 0.75, -0.75])


def test_without_the_episode_level_the_steps_before_a_fork_learn_nothing():
    """Only the first action counts, and the fork is behind it."""
    gradient = {"paper": 0.0, "default": 0.0}
    for probability, (a0, _, _, c0, _), table in rollouts((0.25, 0.25)):
        table.reward[:] = [0, a0, a0, 0, c0]
        for preset in gradient:
            gradient[preset] += probability * (a0 - 0.25) * bpo(table, preset=preset)[0]
    # The derivative of p by its logit is p (1 - p) = 3/16.
    assert gradient == pytest.approx({"paper": 0.0, "default": 3 / 16})
