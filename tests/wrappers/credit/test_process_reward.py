from typing import Any

from tests.cases import cases
from tests.wrappers.credit.small_tables import close, episodes
from wrappers.credit import grpo, process_reward, rloo

#: Rows 0 and 1 are one episode, 2 and 3 another; both begin in s.
TWO = episodes("s -right-> u -up!-> goal +", "s -left-> v -up-> pit")
NAN = float("nan")
STEPS: Any = {"alpha_trajectory": 0.0, "eps": 0.0}


def test_by_hand() -> None:
    # Outcomes 1 and 0: +-0.7071. Scores 1, 3, 0, 0: mean 1, sample variance (0 + 4 + 1 + 1) / 3 = 2.
    episode = 0.5**0.5
    found = process_reward(TWO, scores=[1, 3, 0, 0], eps=0.0)
    close(found, [episode, episode + 2**0.5, -episode - 0.5**0.5, -episode - 0.5**0.5])
    half = process_reward(TWO, scores=[1, 3, 0, 0], eps=0.0, alpha=0.5, alpha_trajectory=2.0)
    close(half, [2 * episode, 2 * episode + 0.5**0.5, *[-2 * episode - 0.125**0.5] * 2])
    # The three others: 1, 3 and 2; mean 2, deviation 1.
    episode = grpo(TWO)
    close(process_reward(TWO, scores=[1, 3, NAN, 2], eps=0.0) - grpo(TWO, eps=0.0), [-1, 1, 0, 0])
    # None is nan; the sum to go passes over it: 1 + 2, -, 5, 2 with mean 10/3.
    found = process_reward(TWO, scores=[3, None, 3, 2], std="none", horizon="to_go", alpha_trajectory=0.0)  # type: ignore[list-item]
    close(found, [-1 / 3, 0, 5 / 3, -4 / 3])
    assert (process_reward(TWO, scores=[NAN] * 4) == episode).all()
    # The first scored step of an episode stands for it: 3 and 2.
    first = process_reward(TWO, scores=[NAN, 3, 2, 2], std="none", compare="first", alpha_trajectory=0.0)
    close(first, [0, 0.5, -0.5, -0.5])
    lone: Any = {"scores": [3, 4], "compare": "first", "relative": "rloo", **STEPS}
    for singleton, expected in (("zero", [0.0, 1.0]), ("raw", [3.0, 4.0])):
        close(process_reward(episodes("s -right-> u -up-> goal +"), singleton=singleton, **lone), expected)
    for scores in ([0.0] * 4, [0.3] * 4):
        assert (process_reward(TWO, scores=scores) == grpo(TWO)).all()
        assert (process_reward(TWO, scores=scores, relative="rloo") == rloo(TWO)).all()


@cases(
    "options, expected",
    # The first steps have 1 and 0.
    ({"std": "none", "compare": "first"}, [0.5, 2.5, -0.5, -0.5]),
    # Two members: the distance to the other's mean is twice that to the mean of both; "std" plays no part.
    ({"relative": "rloo", "compare": "first"}, [1.0, 5.0, -1.0, -1.0]),
    # Divided by 3, then less the mean 1/3.
    ({"std": "none", "score_norm": "group"}, [0.0, 2 / 3, -1 / 3, -1 / 3]),
)
def test_what_is_compared(options: Any, expected: list[float]) -> None:
    close(process_reward(TWO, scores=[1, 3, 0, 0], **STEPS, **options), expected)


@cases(
    "where, penalised, steps",
    # Row 1 is refused. Scores 0 less the penalty 4: -4 there, mean -1; to go: -4, -4, 0, 0 where it is discounted.
    ("row", "both", [1.0, -3.0, 1.0, 1.0]),
    ("discounted", "both", [-2.0, -2.0, 2.0, 2.0]),
    ("row", "episode", [0.0, 0.0, 0.0, 0.0]),
)
def test_where_the_penalty_is_felt(where: Any, penalised: Any, steps: list[float]) -> None:
    options: Any = {"std": "none", "invalid_penalty": 4.0, "penalty": where, "penalised": penalised, "horizon": "to_go"}
    close(process_reward(TWO, scores=[0.0] * 4, alpha_trajectory=0.0, **options), steps)
