"""What a queue of replies answers is checked: nothing, the same name twice, a name of nobody."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from agentgym.rollout.lanes import collect_lanes
from agentgym.rollout.queue import answers_of
from agentgym.trajectory import Reply
from baselines.rollouts import Timed
from tests.corridor import CorridorVectorEnv


class Odd:
    """A policy whose queue answers what a function makes of the names that wait."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.names = answer, list[int]()
        self.closed = 0

    def act(self, observations: Sequence[Any], infos: Any, rng: np.random.Generator) -> list[Reply]:
        raise AssertionError

    def reply_queue(self) -> "Odd":
        return self

    def put(self, names: Any, observations: Any, infos: Any, rngs: Any) -> None:
        self.names += names

    def get(self) -> Any:
        return self.answer(self.names)

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (lambda names: [], ValueError, r"returned nothing while 4 requests are .*\(0, 1, 2, 3\): it must wait"),
        (lambda names: None, TypeError, r"must return a list of pairs \(name, reply\).*, got None"),
        (lambda names: [Reply("left")], TypeError, r"must return a list of pairs"),
        (lambda names: [(names[0], Reply("left"))] * 2, ValueError, r"answered 0 twice: each name that `put` was"),
        (lambda names: [(77, Reply("left"))], ValueError, r"answered 77, which is not on its way: .* are 0, 1"),
    ],
)  # fmt: skip
def test_a_queue_that_breaks_its_promise_is_named(answer: Any, error: Any, words: str, timed: bool) -> None:
    lanes = [CorridorVectorEnv(2, max_episode_steps=4, autoreset_mode="Disabled") for _ in range(2)]
    odd = Odd(answer)
    policy: Any = Timed(odd) if timed else odd
    with pytest.raises(error, match=rf"^Odd\.get {words}"):
        collect_lanes(lanes, policy, tasks=[{"index": 1}, {"index": 2}], group_size=2, seed=0)
    assert odd.closed == 1


def test_a_name_that_was_answered_in_an_earlier_call_is_not_on_its_way() -> None:
    lanes = [CorridorVectorEnv(2, max_episode_steps=4, autoreset_mode="Disabled") for _ in range(2)]
    with pytest.raises(ValueError, match=r"Odd\.get answered 0, which is not on its way: .*on their way are 1, 2, 3"):
        collect_lanes(lanes, Odd(lambda names: [(0, Reply("left"))]), tasks=[{}], group_size=4, seed=0)


def test_what_keeps_the_promise_comes_back_as_it_is() -> None:
    found = [(3, "a"), (5, ValueError("b"))]
    assert answers_of(None, found, {3: "", 5: "", 8: ""}) is found
