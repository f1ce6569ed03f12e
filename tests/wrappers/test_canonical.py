"""State keys while episodes run, and merged states of a finished table, by hand."""

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from agentgym.rollout.recorder import TableBuilder
from agentgym.trajectory import StepTable
from tests.corridor import CorridorVectorEnv
from tests.refusals import refuses
from wrappers.canonical import (
    CanonicalStates,
    enriched_key,
    graphgpo_key,
    observation_key,
    relabel_states,
    rewardflow_key,
)


def _parity(observation: str, info: dict) -> str:
    return "even" if int(observation.split()[1]) % 2 == 0 else "odd"


def _envs(mode: AutoresetMode, key=_parity) -> CanonicalStates:
    return CanonicalStates(CorridorVectorEnv(2, autoreset_mode=mode), key=key)


def test_keys_in_every_autoreset_mode() -> None:
    envs = _envs(AutoresetMode.DISABLED)
    _, infos = envs.reset(options=[{"index": 3}, {"index": 2}])
    assert infos["canonical_key"].tolist() == ["odd", "even"]
    *_, infos = envs.step(["right", "right"])
    assert infos["canonical_key"].tolist() == ["even", "odd"]
    *_, infos = envs.step(["", "left"])
    assert infos["canonical_key"].tolist() == ["even", "even"]
    _, infos = envs.reset(options={"reset_mask": np.array([True, False]), "index": 1})
    assert infos["canonical_key"].tolist() == ["odd", "even"]
    envs = _envs(AutoresetMode.SAME_STEP, key=enriched_key("won"))
    envs.reset(options=[{"index": 3}, {"index": 2}])
    observations, *_, infos = envs.step(["right", "right"])
    assert infos["final_info"]["canonical_key"].tolist() == ["cell 4 | won=True", None]
    assert infos["canonical_key"].tolist() == [f"{observations[0]} | won=False", "cell 3 | won=False"]
    envs = _envs(AutoresetMode.NEXT_STEP, key=observation_key)
    envs.reset(options=[{"index": 3}, {"index": 2}])
    envs.step(["right", "right"])
    observations, *_, infos = envs.step(["", "left"])
    assert infos["canonical_key"].tolist() == list(observations)


def test_the_recorder_prefers_the_canonical_key_and_marks_the_end() -> None:
    envs = _envs(AutoresetMode.DISABLED)
    _, infos = envs.reset(options={"index": 3})
    builder = TableBuilder(2, AutoresetMode.DISABLED)
    builder.reset(infos)
    builder.step(["right", "right"], *envs.step(["right", "right"])[1:])
    table = builder.table()
    assert table.states == ("odd", "even [success]")


def test_keys_return_text() -> None:
    refuses(TypeError, "must be a function", _envs, AutoresetMode.DISABLED, key="state_key")
    with pytest.raises(TypeError, match="must return a str, got int"):
        _envs(AutoresetMode.DISABLED, key=lambda observation, info: 3).reset(seed=0)
    with pytest.raises(KeyError, match="info has no 'inventory'"):
        _envs(AutoresetMode.DISABLED, key=enriched_key("inventory")).reset(seed=0)
    assert observation_key({"text": "t", "image": None}, {}) == "t"


def _table(**changes: object) -> StepTable:
    """Two episodes: a1 -> b -> goal (won) and a2 -> b (cut off), rows shuffled."""
    columns: dict = {
        "group": ["g", "g", "g"], "trajectory": ["y", "x", "x"], "t": [0, 1, 0], "state": ["a2", "b", "a1"],
        "action": ["go", "go", "go"], "next_state": ["b", "goal", "b"], "reward": [0.0, 1.0, 0.0],
        "won": [False, True, True], "truncated": [True, False, False],
    }  # fmt: skip
    return StepTable.from_arrays(**{**columns, **changes})


def test_labels_merge_states_and_swallow_no_end() -> None:
    table = _table()
    merged = relabel_states(table, lambda states: [str(state)[0] for state in states])
    assert merged.states == ("a", "b", "goal")
    assert [merged.states[i] for i in merged.state] == ["a", "b", "a"]
    assert [merged.states[i] for i in merged.next_state] == ["b", "goal", "b"]
    for name in ("group", "trajectory", "t", "action", "reward", "won", "terminated", "truncated", "last"):
        np.testing.assert_array_equal(getattr(merged, name), getattr(table, name))
    assert table.states == ("a2", "b", "a1", "goal")
    shown: list = []
    relabel_states(_table(), lambda states: shown.extend(states) or list(states))
    assert shown == ["a2", "b", "a1"]
    refuses(ValueError, "name of a terminal state", relabel_states, _table(), lambda states: ["goal"] * len(states))
    refuses(ValueError, r"one label per state \(3\), got 1", relabel_states, _table(), lambda states: ["one"])


@pytest.mark.parametrize("key", [observation_key, rewardflow_key, graphgpo_key])
def test_the_papers_keys_tell_apart_what_they_name_in_a_household(key) -> None:
    """A clean and a dirty apple in hand, and a refused command at two receptacles: who sees the difference."""
    import gymnasium as gym

    envs = gym.make_vec("AgentRL/ALFWorld-v0", num_envs=2, autoreset_mode="Disabled", data="generated", expert=True)
    envs = CanonicalStates(envs, key=key)
    _, infos = envs.reset(options={"split": "train", "index": 0})
    for command in ("go to fridge 1", "open fridge 1", "take apple 1 from fridge 1", "go to sinkbasin 1"):
        *_, infos = envs.step([command, command])
    envs.step(["clean apple 1 with sinkbasin 1", "xyzzy"])
    *_, infos = envs.step(["xyzzy", "xyzzy"])
    clean, dirty = infos["canonical_key"]
    assert infos["inventory"].tolist() == ["apple 1 (cleaned) (cooled)", "apple 1 (cooled)"]
    assert (clean == dirty) == (key is observation_key)
    envs.step(["go to fridge 1", "clean apple 1 with sinkbasin 1"])
    *_, infos = envs.step(["xyzzy", "xyzzy"])
    fridge, sink = infos["canonical_key"]
    assert (fridge == sink) == (key is not graphgpo_key)
