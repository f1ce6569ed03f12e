import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.search.budget import Budget, Cost


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.floats(0.001, 1.0))
def test_a_share_is_never_more_than_what_is_left_nor_nothing_of_something(steps, spent, share) -> None:
    left = Budget(steps=steps).left(Cost(steps=spent), share).steps
    assert left is not None
    assert min(1, max(0, steps - spent)) <= left <= max(0, steps - spent)


def test_both_limits_count() -> None:
    budget = Budget(steps=10, tokens=20)
    assert budget.allows(Cost(steps=9, tokens=15), 1, 5)
    assert not budget.allows(Cost(steps=10), 1)
    assert not budget.allows(Cost(tokens=18), 1, 3)
    assert Budget(tokens=5).allows(Cost(steps=10**9))


@given(steps=st.integers(0, 50), tokens=st.integers(0, 50), count=st.integers(1, 9))
def test_parts_are_as_equal_as_can_be_and_together_the_whole(steps, tokens, count) -> None:
    parts = Budget(steps=steps, tokens=tokens).parts(count)
    for name, whole in (("steps", steps), ("tokens", tokens)):
        given = [getattr(part, name) for part in parts]
        assert len(given) == count
        assert sum(given) == whole
        assert max(given) - min(given) <= 1


def test_costs_add_up() -> None:
    cost = Cost(1, 2, 3, 4)
    cost.add(Cost(10, 20, 30, 40))
    assert cost == Cost(11, 22, 33, 44)


@pytest.mark.parametrize("limits", [{}, {"steps": -1}, {"tokens": -5}])
def test_a_budget_limits_something(limits) -> None:
    with pytest.raises(ValueError, match="budget of steps or tokens"):
        Budget(**limits)
