"""Scores of steps and tokens as rewards (process_reward, istar, prime): against loops and recorded answers."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.trajectory import StepTable
from tests.refusals import refuses
from tests.wrappers.credit.learned import AUTHORS, answers, batches, mask, token_logprobs
from tests.wrappers.credit.oracles import assert_agree, spans, table
from tests.wrappers.credit.random_tables import random_table, rebuild
from tests.wrappers.credit.small_tables import episodes
from wrappers.credit.forks import first_rows
from wrappers.credit.group import whitened
from wrappers.credit.grpo import grpo
from wrappers.credit.istar import istar
from wrappers.credit.prime import prime
from wrappers.credit.process_reward import process_reward
from wrappers.credit.reinforce_plus_plus import reinforce_plus_plus_baseline
from wrappers.credit.rloo import rloo

#: Rows 0 and 1 are one episode, 2 and 3 another; both begin in s.
TWO = episodes("s -right-> u -up!-> goal +", "s -left-> v -up-> pit")
NAN = float("nan")
STEPS: Any = {"alpha_trajectory": 0.0, "eps": 0.0}


def naive(
    table: StepTable, scores: np.ndarray, *, compare: str, horizon: str, gamma: float, relative: str, score_norm: str
) -> np.ndarray:
    """The step level, row by row."""
    value = {}
    for i in range(table.n_trajectories):
        ahead = 0.0
        for row in reversed(table.order[table.offsets[i] : table.offsets[i + 1]].tolist()):
            said = scores[row] if scores[row] == scores[row] else 0.0
            ahead = said + (gamma * ahead if horizon == "to_go" else 0.0)
            if scores[row] == scores[row]:
                value[row] = ahead
    if score_norm == "group":
        largest = {
            group: max(abs(value[row]) for row in value if table.group[row] == group)
            for group in {table.group[row] for row in value}
        }
        value = {row: each / (largest[table.group[row]] or 1.0) for row, each in value.items()}
    result = np.zeros(len(table))
    for row in value:
        among = [
            other
            for other in value
            if table.group[other] == table.group[row] and (compare != "state" or table.state[other] == table.state[row])
        ]
        if compare == "first":
            earliest: dict[int, int] = {}
            for other in sorted(among, key=lambda each: table.t[each]):
                earliest.setdefault(table.trajectory[other], other)
            among = list(earliest.values())
        peers = np.array([value[other] for other in among])
        if relative == "rloo":
            n = len(peers)
            if n > 1:
                result[row] = n / (n - 1) * (value[row] - peers.mean())
            else:
                result[row] = value[row] - peers.mean()
        elif np.ptp(peers) > 1e-9 * np.abs(peers).max():
            result[row] = (value[row] - peers.mean()) / peers.std(ddof=1)
    return result


@given(
    seed=st.integers(0, 2**32 - 1),
    compare=st.sampled_from(["group", "first", "state"]),
    horizon=st.sampled_from(["step", "to_go"]),
    relative=st.sampled_from(["grpo", "rloo"]),
    score_norm=st.sampled_from(["none", "group"]),
    silent=st.sampled_from([0.0, 0.3, 0.9, 1.0]),
)
def test_process_reward_equals_the_loops_in_any_order_of_rows(
    seed: int, compare: Any, horizon: Any, relative: Any, score_norm: Any, silent: float
) -> None:
    rng = np.random.default_rng(seed)
    table = random_table(seed % 1000, groups=2, size=3)
    table = rebuild(table, rng.permutation(len(table)))
    scores = np.where(rng.random(len(table)) < silent, NAN, rng.normal(size=len(table)))
    options: Any = {
        "compare": compare, "horizon": horizon, "gamma": 0.9, "relative": relative, "score_norm": score_norm,
    }  # fmt: skip
    found = process_reward(table, scores=scores, **STEPS, **options)
    np.testing.assert_allclose(found, naive(table, scores, **options), atol=1e-9)


def test_what_is_not_scored_by_hand() -> None:
    # The three others: 1, 3 and 2; mean 2, deviation 1.
    episode = grpo(TWO)
    np.testing.assert_allclose(
        process_reward(TWO, scores=[1, 3, NAN, 2], eps=0.0) - grpo(TWO, eps=0.0), [-1, 1, 0, 0], atol=1e-12
    )
    # None is nan; the sum to go passes over it: 1 + 2, -, 5, 2 with mean 10/3.
    found = process_reward(TWO, scores=[3, None, 3, 2], std="none", horizon="to_go", alpha_trajectory=0.0)  # type: ignore[list-item]
    np.testing.assert_allclose(found, [-1 / 3, 0, 5 / 3, -4 / 3])
    assert (process_reward(TWO, scores=[NAN] * 4) == episode).all()
    # The first scored step of an episode stands for it: 3 and 2.
    first = process_reward(TWO, scores=[NAN, 3, 2, 2], std="none", compare="first", alpha_trajectory=0.0)
    np.testing.assert_allclose(first, [0, 0.5, -0.5, -0.5])
    for scores in ([0.0] * 4, [0.3] * 4):
        assert (process_reward(TWO, scores=scores) == grpo(TWO)).all()
        assert (process_reward(TWO, scores=scores, relative="rloo") == rloo(TWO)).all()


@pytest.mark.parametrize(
    ("where", "penalised", "steps"),
    [
        # Row 1 is refused. Scores 0 less the penalty 4: -4 there, mean -1; to go: -4, -4, 0, 0 where it is discounted.
        ("row", "both", [1.0, -3.0, 1.0, 1.0]),
        ("discounted", "both", [-2.0, -2.0, 2.0, 2.0]),
        ("row", "episode", [0.0, 0.0, 0.0, 0.0]),
        ("discounted", "episode", [0.0, 0.0, 0.0, 0.0]),
        ("advantage", "both", [0.0, -4.0, 0.0, 0.0]),
    ],
)
def test_where_the_penalty_is_felt(where: Any, penalised: Any, steps: list[float]) -> None:
    options: Any = {"std": "none", "invalid_penalty": 4.0, "penalty": where, "penalised": penalised, "horizon": "to_go"}
    found = process_reward(TWO, scores=[0.0] * 4, alpha_trajectory=0.0, **options)
    np.testing.assert_allclose(found, steps)


@pytest.mark.parametrize(("singleton", "expected"), [("zero", [0.0, 1.0]), ("raw", [3.0, 4.0])])
def test_process_reward_a_lone_episode(singleton: Any, expected: list[float]) -> None:
    lone = episodes("s -right-> u -up-> goal +")
    options: Any = {**STEPS, "singleton": singleton, "relative": "rloo"}
    np.testing.assert_allclose(process_reward(lone, scores=[3, 4], compare="first", **options), expected)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"scores": [0.0]}, r"scores must hold one number per row, .*, shape \(4,\), got shape \(1,\)"),
        ({"scores": [0.0, np.inf, 0.0, 0.0]}, "scores must hold one number per row, .*; row 1 has inf"),
        ({"scores": [0.0, 1e101, NAN, 0.0]}, "row 1 has 1e.101"),
        ({"scores": ["much"] * 4}, "scores must hold one number per row"),
        ({"scores": [0.0] * 4, "gamma": 1.5}, "gamma must be between 0 and 1, got 1.5"),
        ({"scores": [0.0] * 4, "compare": "states"}, "unknown compare 'states'; known: 'group', 'first', 'state'"),
        ({"scores": [0.0] * 4, "preset": "authors_grpo"}, "unknown preset 'authors_grpo'"),
    ],
)
def test_process_reward_wrong_input_is_named(arguments: Any, words: str) -> None:
    refuses(ValueError, words, process_reward, TWO, **arguments)


BETA = 0.05


def _scores() -> np.ndarray:
    return BETA * (token_logprobs("prm") - token_logprobs("old")).sum(1)


def _scaled() -> np.ndarray:
    """Step scores as the authors divide them."""
    result = np.concatenate([_scores()[rows] / np.abs(_scores()[rows]).max() for _, rows in batches()])
    np.testing.assert_allclose(result, answers(AUTHORS, "istar", "step_score_batch_norm"), atol=1e-4)
    return result


@pytest.mark.parametrize(
    ("preset", "options", "key"),
    [
        ("authors", {}, "rloo"),
        ("authors", {"alpha_trajectory": 0.0}, "process_only_rloo"),
        ("authors_grpo", {}, "grpo|mean_norm"),
    ],
)
def test_authors(preset: str, options: Any, key: str) -> None:
    assert_agree(istar(table(), scores=_scores(), preset=preset, **options), answers(AUTHORS, "istar", key), atol=1e-4)


def test_authors_by_deviation_and_whitening() -> None:
    # In groups whose first rows agree the original divides by 1e-6: advantages of 100,000.
    of, scaled = table(), _scaled()
    outcome = of.trajectory_return[of.trajectory] - 0.1 * ~of.valid
    first = first_rows(of)
    contrast = [spans(values[first], of.group[first])[of.trajectory] for values in (outcome, scaled)]
    theirs = answers(AUTHORS, "istar", "grpo|mean_std_norm")
    ours = istar(of, scores=_scores(), preset="authors_grpo", std="group")
    assert assert_agree(ours, theirs, *contrast) > 8000
    assert np.abs(theirs).max() > 99_000
    assert np.abs(ours).max() < 1000
    lengths = mask().sum(1)
    parts = []
    for of, rows in batches():
        episode = reinforce_plus_plus_baseline(of, preset="authors", over="trajectories", weights=lengths[rows])
        step = istar(of, scores=_scores()[rows], preset="authors_grpo", alpha_trajectory=0.0)
        parts.append(episode + whitened(step, lengths[rows].astype(float)))
    of = table()
    contrast = spans(of.trajectory_return[of.trajectory] - 0.1 * ~of.valid, of.group)
    assert_agree(np.concatenate(parts), answers(AUTHORS, "istar", "rfpp_baseline"), contrast)
    theirs = answers(AUTHORS, "istar_repo_prime_baseline", "advantage")
    scores = answers(AUTHORS, "istar_repo_prime_baseline", "token_score_sum")
    assert_agree(istar(table(), scores=scores, preset="authors", score_norm="none"), theirs, atol=1e-4)


#: The second step of the first episode is refused.
PRIME_TWO = episodes("s -right-> u -up!-> goal +", "s -left-> pit")
#: Replies of 1, 2 and 2 tokens.
REPLIES = np.array([[1, 0], [1, 1], [1, 1]], bool)
SCORES = np.array([[0.1, NAN], [0.3, 0.5], [-0.2, 0.4]])
PROCESS: Any = {"alpha_trajectory": 0.0}


def prime_naive(table: StepTable, scores: np.ndarray, kept: np.ndarray, gamma: float, baseline: str) -> np.ndarray:
    """The process part by tokens."""
    tokens = [
        [(row, k) for row in table.order[table.offsets[i] : table.offsets[i + 1]] for k in np.flatnonzero(kept[row])]
        for i in range(table.n_trajectories)
    ]
    said = [[scores[place] for place in each if not np.isnan(scores[place])] for each in tokens]
    result = np.zeros(kept.shape)
    for i, places in enumerate(tokens):
        means = {
            j: float(np.mean(said[j]))
            for j in range(table.n_trajectories)
            if table.trajectory_group[j] == table.trajectory_group[i] and said[j]
        }
        ahead, n = 0.0, len(means)
        for place in reversed(places):
            ahead *= gamma
            if np.isnan(scores[place]) or n < 2:
                continue
            if baseline == "others":
                ahead += scores[place] - sum(mean for j, mean in means.items() if j != i) / (n - 1)
            else:
                ahead += scores[place] * n / (n - 1) - sum(means.values()) / (n - 1)
            result[place] = ahead
    return result


@given(
    seed=st.integers(0, 2**32 - 1),
    baseline=st.sampled_from(["others", "scaled"]),
    silent=st.sampled_from([0.0, 0.3, 0.95]),
    gamma=st.sampled_from([0.9, 1.0]),
)
def test_prime_equals_the_loops_in_any_order_of_rows(seed: int, baseline: Any, silent: float, gamma: float) -> None:
    rng = np.random.default_rng(seed)
    table = random_table(seed % 1000, groups=2, size=3)
    table = rebuild(table, rng.permutation(len(table)))
    kept = rng.random((len(table), 4)) < 0.6  # with gaps, and replies without a token
    scores = np.where(rng.random(kept.shape) < silent, NAN, rng.normal(size=kept.shape))
    found = prime(table, scores=scores, mask=kept, gamma=gamma, baseline=baseline, **PROCESS)
    np.testing.assert_allclose(found, prime_naive(table, scores, kept, gamma, baseline), atol=1e-9)


def test_by_hand() -> None:
    # Sums 0.1, 0.8 and 0.2: means 0.45 and 0.2. Less 0.2: -0.1, 0.6; less 0.45: -0.25; half of what follows.
    found = prime(PRIME_TWO, scores=SCORES, mask=REPLIES, per="step", gamma=0.5, **PROCESS)
    np.testing.assert_allclose(found, [[0.2, 0.0], [0.6, 0.6], [-0.25, -0.25]])
    one = np.ones((3, 1), bool)
    options: Any = {"preset": "authors", "whiten": False, **PROCESS}
    found = prime(PRIME_TWO, scores=[[0.3], [0.1], [0.2]], mask=one, baseline="others", **options)
    # 0.3 and 0 of the first episode are 1 and 0, the second's only token has nothing: 1 - 0, 0 - 0, 0 - 1/2.
    np.testing.assert_allclose(found, [[5.0], [0.0], [-2.5]])


def test_further_cases_by_hand() -> None:
    table = episodes("s -a-> goal +", "s -b-> pit", "s -c-> pit")
    scores, one = [[0.5], [0.1], [0.3]], np.ones((3, 1), bool)
    found = [prime(table, scores=scores, mask=one, baseline=baseline) for baseline in ("others", "scaled")]  # type: ignore[arg-type]
    np.testing.assert_allclose(found[0], [[1.3], [-0.8], [-0.5]])
    np.testing.assert_allclose(found[1], found[0])
    silent = np.array([[NAN, NAN], [0.3, NAN], [-0.2, 0.4]])
    # Means 0.3 and 0.1: 0.2 once; -0.5 and 0.1.
    found = prime(PRIME_TWO, scores=silent, mask=REPLIES, **PROCESS)
    np.testing.assert_allclose(found, [[0.0, 0.0], [0.2, 0.0], [-0.4, 0.1]])
    nothing = prime(PRIME_TWO, scores=np.full((3, 2), NAN), mask=REPLIES)
    np.testing.assert_array_equal(nothing, np.where(REPLIES, rloo(PRIME_TWO)[:, None], 0.0))
    by_steps = prime(PRIME_TWO, scores=silent, mask=REPLIES, per="step", **PROCESS)
    np.testing.assert_allclose(by_steps, [[0.0, 0.0], [0.1, 0.1], [-0.1, -0.1]])  # 0.3 - 0.2 and 0.2 - 0.3
    wild = np.where(REPLIES, SCORES, np.inf)
    np.testing.assert_array_equal(
        prime(PRIME_TWO, scores=wild, mask=REPLIES),
        prime(PRIME_TWO, scores=np.where(REPLIES, SCORES, 0.0), mask=REPLIES),
    )


@pytest.mark.parametrize(
    ("where", "lost"), [("row", [0.0, 0.4, 0.0]), ("discounted", [0.4, 0.4, -0.4]), ("advantage", [0.0, 0.4, 0.0])]
)
def test_the_penalty_is_taken_from_the_outcome(where: Any, lost: list[float]) -> None:
    # Row 1 is refused; the mean of a "row" penalty is that of the first rows, none of which is.
    plain = prime(PRIME_TWO, scores=SCORES, mask=REPLIES)
    found = prime(PRIME_TWO, scores=SCORES, mask=REPLIES, invalid_penalty=0.4, penalty=where)
    double = 2.0 if where == "row" else 1.0  # against the other of two: twice the distance to the mean
    expected = np.array(lost)[:, None] * double
    np.testing.assert_allclose(plain - found, np.where(REPLIES, expected, 0.0), atol=1e-12)


@pytest.mark.parametrize("baseline", ["others", "scaled"])
def test_prime_a_lone_episode(baseline: Any) -> None:
    lone = episodes("s -a-> goal +")
    found = prime(lone, scores=[[0.1, 0.2]], mask=[[1, 1]], baseline=baseline)
    np.testing.assert_array_equal(found, [[0.0, 0.0]])
    raw = prime(lone, scores=[[0.1, 0.2]], mask=[[1, 1]], baseline=baseline, singleton="raw")
    np.testing.assert_allclose(raw, [[1.3, 1.2]])


def test_the_recipe() -> None:
    rewards, replies = BETA * (token_logprobs("prm") - token_logprobs("init")), mask()
    for whiten, key in ((False, "returns"), (True, "advantages")):
        ours = [
            prime(of, scores=rewards[rows], mask=replies[rows], preset="authors", whiten=whiten)[replies[rows]]
            for of, rows in batches()
        ]
        assert_agree(np.concatenate(ours), answers(AUTHORS, "prime", key), atol=2e-4)


@pytest.mark.parametrize(
    ("scores", "kept", "words"),
    [
        ([0.0] * 3, REPLIES, r"scores must be of the mask's shape \(3, 2\), got \(3,\)"),
        (np.zeros((2, 2)), REPLIES, r"shape \(3, 2\), got \(2, 2\)"),
        ([["much"] * 2] * 3, REPLIES, "scores must be of the mask's shape .*could not convert"),
        (np.zeros((3, 2)), REPLIES[:2], r"mask must be of shape \(3, K\), a row per step, got shape \(2, 2\)"),
        (np.zeros((3, 2)), np.full((3, 2), 2), "mask must hold True and False, got 2"),
        ([[0, 0], [0, np.inf], [0, 0]], REPLIES, "token 1 of row 1 has inf"),
        ([[0, 0], [-1e101, 0], [0, 0]], REPLIES, "token 0 of row 1 has -1e"),
    ],
)
def test_prime_wrong_input_is_named(scores: Any, kept: Any, words: str) -> None:
    refuses(ValueError, words, prime, PRIME_TWO, scores=scores, mask=kept)


@pytest.mark.parametrize("per", ["token", "step"])
def test_no_rows_and_no_tokens(per: Any) -> None:
    empty = StepTable.from_arrays(
        group=[], trajectory=[], t=[], state=[], action=[], next_state=[], reward=[], won=[]
    )  # fmt: skip
    for preset in ("paper", "authors"):
        assert prime(empty, scores=np.zeros((0, 3)), mask=np.zeros((0, 3), bool), preset=preset, per=per).shape == (
            0,
            3,
        )
        nothing = prime(PRIME_TWO, scores=np.zeros((3, 2)), mask=np.zeros((3, 2), bool), preset=preset, per=per)
        np.testing.assert_array_equal(nothing, np.zeros((3, 2)))
