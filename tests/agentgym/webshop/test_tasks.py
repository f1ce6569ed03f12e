import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.webshop.tasks import split_goals


def test_the_original_s_ranges() -> None:
    found = split_goals(np.zeros(6910, np.int32), "goal")
    assert [(each[0], each[-1]) for each in (found["test"], found["validation"], found["train"])] == [
        (0, 499), (500, 1499), (1500, 6909),
    ]  # fmt: skip


@pytest.mark.parametrize("by", ["goal", "product"])
@given(products=st.lists(st.integers(0, 60), max_size=300))
def test_splits_share_nothing_and_leave_nothing_out(by: str, products: list[int]) -> None:
    column = np.array(products, np.int32)
    found = split_goals(column, by)
    parts = [found[name] for name in ("train", "validation", "test")]
    assert sorted(np.concatenate(parts).tolist()) == found["all"].tolist() == list(range(len(products)))
    assert all((np.diff(part) > 0).all() for part in parts)
    if by == "product":
        kinds = [set(column[part].tolist()) for part in parts]
        assert sum(map(len, kinds)) == len(set(products))
        assert [len(kind) for kind in kinds[1:]] == [len(set(products)) // 5, len(set(products)) // 10]
