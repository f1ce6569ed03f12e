"""Which places play, end and begin: two places, place 0 ends in the first step, place 1 never does."""

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from tests.corridor import CorridorVectorEnv
from wrappers.places import Phase, Places, with_column

NO, FIRST = np.array([False, False]), np.array([True, False])


def _places(mode: AutoresetMode) -> Places:
    places = Places(CorridorVectorEnv(2, autoreset_mode=mode))
    assert places.reset(None).all()
    return places


def _lists(phase: Phase) -> tuple[list[bool], list[bool], list[bool]]:
    return phase.played.tolist(), phase.ended.tolist(), phase.began.tolist()


ALL, NONE, ZERO, ONE = [True, True], [False, False], [True, False], [False, True]


@pytest.mark.parametrize(
    ("mode", "first", "idle", "second"),
    [
        # Same step: ends and begins at once, and plays on.
        (AutoresetMode.SAME_STEP, (ALL, ZERO, ZERO), NONE, (ALL, NONE, NONE)),
        # Next step: the second step of place 0 is its reset.
        (AutoresetMode.NEXT_STEP, (ALL, ZERO, NONE), ZERO, (ONE, NONE, ZERO)),
    ],
)
def test_modes_that_reset_by_themselves(mode: AutoresetMode, first: tuple, idle: list, second: tuple) -> None:
    places = _places(mode)
    assert _lists(places.step(FIRST, NO)) == first
    assert places.idle.tolist() == idle
    assert _lists(places.step(NO, NO)) == second
    assert places.idle.tolist() == NONE


def test_disabled_waits_for_a_reset_of_the_place() -> None:
    places = _places(AutoresetMode.DISABLED)
    assert _lists(places.step(NO, FIRST)) == (ALL, ZERO, NONE)
    assert _lists(places.step(NO, FIRST)) == (ONE, NONE, NONE)
    assert places.reset({"reset_mask": FIRST}).tolist() == ZERO
    assert places.idle.tolist() == NONE
    assert _lists(places.step(NO, NO)) == (ALL, NONE, NONE)


def test_an_environment_without_mode_is_refused() -> None:
    envs = CorridorVectorEnv(1)
    envs.metadata = {}
    with pytest.raises(ValueError, match="autoreset_mode"):
        Places(envs)


def test_a_column_is_added_without_changing_what_came_in() -> None:
    phase = _places(AutoresetMode.SAME_STEP).step(FIRST, NO)
    infos = {"final_info": {"won": FIRST}, "won": NO}
    result = with_column(infos, phase, "count", np.array([0, 7]), np.array([5, 7]))
    assert result["count"].tolist() == [0, 7]
    assert result["final_info"]["count"].tolist() == [5, 0]
    assert result["final_info"]["_count"].tolist() == ZERO
    assert list(infos) == ["final_info", "won"]
    assert list(infos["final_info"]) == ["won"]
