"""Which places play, end and begin: two places, place 0 ends in the first step, place 1 never does."""

from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from tests.corridor import CorridorEnv, CorridorVectorEnv
from wrappers.canonical import CanonicalStates, observation_key
from wrappers.credit.grpo import GRPO
from wrappers.invalid_action import VectorInvalidActionPenalty
from wrappers.places import Phase, Places, with_column
from wrappers.prompt import VectorPromptWindow
from wrappers.reply import VectorReplyParser
from wrappers.shaping import VectorGraphShaping

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


@pytest.mark.parametrize(
    "wrap",
    [
        partial(CanonicalStates, key=observation_key),
        VectorReplyParser,
        VectorInvalidActionPenalty,
        partial(VectorPromptWindow, instructions=False),
        partial(VectorGraphShaping, gamma=0.9),
        GRPO,
    ],
)
def test_a_masked_reset_of_gymnasiums_own_vector_environment_keeps_its_mask(wrap) -> None:
    # It takes the mask out of the options it is given; a wrapper that reads them afterwards would see a full reset.
    class Seen(gym.vector.VectorWrapper):
        def reset(self, *, seed=None, options=None):
            result = self.env.reset(seed=seed, options=options)
            assert options is None or "reset_mask" not in options
            return result

    envs = wrap(Seen(SyncVectorEnv([CorridorEnv] * 2, autoreset_mode=AutoresetMode.DISABLED)))
    envs.reset(seed=0)
    options = {"reset_mask": FIRST.copy()}
    envs.reset(options=options)
    assert options["reset_mask"].tolist() == ZERO


def test_a_masked_reset_of_gymnasiums_own_vector_environment_adds_to_the_table() -> None:
    envs = GRPO(SyncVectorEnv([CorridorEnv] * 2, autoreset_mode=AutoresetMode.DISABLED))
    envs.reset(seed=0, options={"index": 2})
    envs.step(("right", "left"))
    envs.step(("right", "right"))  # place 0 has reached the end, place 1 is back at its start
    envs.reset(options={"index": 2, "reset_mask": FIRST.copy()})
    for _ in range(2):
        envs.step(("left", "right"))
    table = envs.table()
    assert (table.n_trajectories, table.trajectory_won.tolist(), len(table)) == (3, [True, True, False], 2 + 4 + 2)
