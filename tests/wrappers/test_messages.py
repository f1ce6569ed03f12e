"""What belongs to the space of chat messages."""

import numpy as np
import pytest
from gymnasium.vector.utils import batch_space

from wrappers.messages import MessageSpace

IMAGE = {"type": "image", "image": np.zeros((2, 2, 3), np.uint8)}
TEXT = {"type": "text", "text": "t"}


@pytest.mark.parametrize(
    ("value", "member"),
    [
        (({"role": "user", "content": ""},), True),
        (({"role": "system", "content": "s"}, {"role": "user", "content": "u"}), True),
        (({"role": "user", "content": [IMAGE, TEXT]},), True),
        ((), False),
        ([{"role": "user", "content": "u"}], False),
        (("user",), False),
        (({"role": "nobody", "content": "u"},), False),
        (({"role": "user", "content": 3},), False),
        (({"role": "user", "content": "u", "name": "n"},), False),
        (({"role": "user", "content": []},), False),
        (({"role": "user", "content": ["t"]},), False),
        (({"role": "user", "content": [{"type": "text"}]},), False),
        (({"role": "user", "content": [{"type": "image", "image": np.zeros((2, 2))}]},), False),
        (({"role": "user", "content": [{"type": "sound"}]},), False),
    ],
)
def test_membership(value: object, member: bool) -> None:
    assert (value in MessageSpace()) is member


def test_samples_belong_to_the_space_and_follow_the_seed() -> None:
    a, b = MessageSpace(seed=3), MessageSpace(seed=3)
    assert a.sample() in a
    a.seed(5), b.seed(5)
    assert a.sample() == b.sample()
    assert a == b
    assert repr(a) == "MessageSpace()"


def test_a_mask_is_refused() -> None:
    with pytest.raises(ValueError, match="without them"):
        MessageSpace().sample(mask=0)  # type: ignore[arg-type]


def test_a_batch_is_a_tuple_with_independent_samples() -> None:
    batch = batch_space(MessageSpace(seed=0), 2)
    batch.seed(0)
    sample = batch.sample()
    assert len(sample) == 2
    assert sample[0] != sample[1]
