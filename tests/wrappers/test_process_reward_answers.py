"""What a scorer may answer, what it may not, and what the errors say."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from tests.corridor import CorridorEnv, CorridorVectorEnv
from wrappers.process_reward import ProcessReward, ScoredStep, VectorProcessReward

NAN = float("nan")


def corridor(n: int, mode: AutoresetMode = AutoresetMode.SAME_STEP) -> CorridorVectorEnv:
    return CorridorVectorEnv(n, autoreset_mode=mode)


class Says:
    """Gives its answers one after another; an exception is raised."""

    def __init__(self, *answers: Any) -> None:
        self.answers = iter(answers)

    def __call__(self, steps: Sequence[ScoredStep]) -> Any:
        answer = next(self.answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_a_scorer_that_raises_is_named_with_places_and_steps() -> None:
    cause = ConnectionError("no answer")
    envs = VectorProcessReward(corridor(3, AutoresetMode.DISABLED), Says([0.0] * 3, [0.0] * 3, cause))
    envs.reset(options={"index": 2})
    envs.step(["left", "jump", "jump"])
    envs.step(["left", "jump", "jump"])  # 0 has lost
    envs.reset(options={"reset_mask": np.array([False, True, False]), "index": 2})
    with pytest.raises(RuntimeError) as caught:
        envs.step(["", "jump", "jump"])
    assert str(caught.value) == (
        "the scorer failed on sub-environment 1 (step 1 of its episode), sub-environment 2 (step 3 of its episode): "
        "ConnectionError: no answer"
    )
    assert caught.value.__cause__ is cause
    env = ProcessReward(CorridorEnv(), Says([1.0], KeyError("x")))
    env.reset(options={"index": 2})
    env.step("jump")
    with pytest.raises(RuntimeError, match="failed on step 2 of the episode: KeyError: 'x'"):
        env.step("jump")


def test_an_error_of_many_places_names_some_and_counts_the_others() -> None:
    envs = VectorProcessReward(corridor(20), Says(ValueError("no")))
    envs.reset()
    with pytest.raises(RuntimeError, match=r"sub-environment 7 \(step 1 of its episode\) and 12 more: ValueError: no"):
        envs.step(["jump"] * 20)


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        ([1.0], ValueError, r"one score per step, 2 \(None where it has no opinion\), got 1: \[1.0\]"),
        ([1.0, 2.0, 3.0], ValueError, "one score per step, 2 .*, got 3"),
        (np.zeros((2, 1)), TypeError, r"numbers.*got list \(\[0.0\]\) for sub-environment 0 \(step 1 of its episode\)"),
        (None, TypeError, "a sequence of 2 scores, one per step, got NoneType"),
        (0.5, TypeError, "a sequence of 2 scores.*got float"),
        (np.float64(0.5), TypeError, "a sequence of 2 scores.*got float"),
        ("12", TypeError, "a sequence of 2 scores.*got str"),
        ({0: 1.0, 1: 2.0}, TypeError, "a sequence of 2 scores.*got dict"),
        ([1.0, "good"], TypeError, r"numbers.*got str \('good'\) for sub-environment 1 \(step 1"),
        ([1.0, 1j], TypeError, "numbers.*got complex"),
        ([1.0, math.inf], ValueError, "finite numbers.*got inf for sub-environment 1"),
        (np.array([-np.inf, 0.0]), ValueError, "finite numbers.*got -inf for sub-environment 0"),
    ],
)
def test_a_wrong_answer_says_what_was_expected_and_what_came(answer: Any, error: type[Exception], words: str) -> None:
    envs = VectorProcessReward(corridor(2), Says(answer))
    envs.reset(options={"index": 2})
    with pytest.raises(error, match=words):
        envs.step(["jump", "jump"])


@pytest.mark.parametrize(
    "answer", [[1, None], (1.0, NAN), np.array([1.0, NAN], np.float32), [np.float32(1), np.array(np.nan)], [True, None]]
)
def test_scores_may_be_any_numbers(answer: Any) -> None:
    envs = VectorProcessReward(corridor(2), Says(answer))
    envs.reset(options={"index": 2})
    _, rewards, *_, infos = envs.step(["jump", "jump"])
    assert rewards.tolist() == [0.5, -0.5]
    np.testing.assert_array_equal(infos["process_reward"], [1.0, NAN])


def test_scores_may_be_tensors() -> None:
    torch = pytest.importorskip("torch")
    envs = VectorProcessReward(corridor(2), Says(torch.tensor([1.0, 2.0], dtype=torch.bfloat16, requires_grad=True)))
    envs.reset(options={"index": 2})
    assert envs.step(["left", "left"])[1].tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"scorer": 0.5}, TypeError, "scorer must be a function from steps to scores, got 0.5"),
        ({"weight": "1"}, TypeError, "weight must be a number, got '1'"),
        ({"weight": True}, TypeError, "weight must be a number, got True"),
        ({"weight": NAN}, ValueError, "weight multiplies the scores: pass a finite number, got nan"),
        ({"gamma": None}, TypeError, "gamma must be a number, got None"),
        ({"gamma": 0.0}, ValueError, r"gamma is the learner's discount: pass a number in \(0, 1\], got 0.0"),
        ({"gamma": 1.5}, ValueError, "discount"),
        ({"kind": "level"}, ValueError, r"kind must be one of \('contribution', 'value', 'advantage'\), got 'level'"),
    ],
)
def test_wrong_arguments_are_explained(options: dict[str, Any], error: type[Exception], words: str) -> None:
    for make in (
        lambda **given: ProcessReward(CorridorEnv(), **given),
        lambda **given: VectorProcessReward(corridor(1), **given),
    ):
        with pytest.raises(error, match=words):
            make(**{"scorer": Says(), **options})
