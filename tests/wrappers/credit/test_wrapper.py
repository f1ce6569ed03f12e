"""The vector wrappers answer what the pure functions answer for the same episodes."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import wrappers
from agentgym.rollout.recorder import TableBuilder
from tests.corridor import CorridorVectorEnv
from wrappers.credit.dapo import DAPO, dapo
from wrappers.credit.gae import GAE
from wrappers.credit.gigpo import GiGPO, gigpo
from wrappers.credit.graphgpo import GraphGPO, graphgpo
from wrappers.credit.grpo import GRPO, grpo
from wrappers.credit.hgpo import HGPO, hgpo
from wrappers.credit.reinforce_plus_plus import (
    ReinforcePlusPlus,
    ReinforcePlusPlusBaseline,
    reinforce_plus_plus,
    reinforce_plus_plus_baseline,
)
from wrappers.credit.rewardflow import RewardFlow, rewardflow
from wrappers.credit.rloo import RLOO, rloo
from wrappers.credit.wrapper import CreditWrapper

PAIRS = [
    (GRPO, grpo), (RLOO, rloo), (DAPO, dapo), (ReinforcePlusPlus, reinforce_plus_plus),
    (ReinforcePlusPlusBaseline, reinforce_plus_plus_baseline), (GiGPO, gigpo), (HGPO, hgpo), (RewardFlow, rewardflow),
    (GraphGPO, graphgpo),
]  # fmt: skip
TASKS = [{"index": 2}] * 4 + [{"index": 3}] * 4


def _is_credit_wrapper(value):
    """Of a method that needs the table alone: `GAE` is given a critic's values."""
    return isinstance(value, type) and issubclass(value, CreditWrapper) and value not in (CreditWrapper, GAE)


def _envs(mode=AutoresetMode.DISABLED):
    return CorridorVectorEnv(8, max_episode_steps=9, autoreset_mode=mode)


def _play(envs, seed=0):
    """Random commands until every sub-environment has ended once; returns what happened."""
    rng = np.random.default_rng(seed)
    _, infos = envs.reset(seed=0, options=TASKS)
    history, playing = [infos], np.ones(8, bool)
    while playing.any():
        actions = [str(a) for a in rng.choice(["left", "right", "right", "jump"], 8)]
        _, rewards, terminated, truncated, infos = envs.step(actions)
        history.append((actions, rewards, terminated, truncated, infos))
        playing &= ~(terminated | truncated)
    return history


def _rows(table):
    names = zip(table.group, table.trajectory, table.t, table.state, table.next_state, table.action, strict=True)
    return [
        (table.groups[g], int(i), int(t), table.states[s], table.states[n], table.actions[a])
        for g, i, t, s, n, a in names
    ]


@pytest.mark.parametrize(("wrapper", "function"), PAIRS)
def test_advantages_are_those_of_the_function(wrapper, function):
    envs = wrapper(_envs(), preset="authors", invalid_penalty=0.2)
    first, *history = _play(envs)
    builder = TableBuilder(8, AutoresetMode.DISABLED)
    builder.reset(first)
    for step in history:
        builder.step(*step)
    expected = function(builder.table(), preset="authors", invalid_penalty=0.2)
    assert _rows(envs.table()) == _rows(builder.table())
    np.testing.assert_array_equal(envs.advantages(), expected)
    assert np.any(expected != 0)


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
def test_other_autoreset_modes_record_the_same_episodes(mode):
    disabled, envs = RewardFlow(_envs()), RewardFlow(_envs(mode))
    _play(disabled)
    _play(envs)
    assert _rows(envs.table()) == _rows(disabled.table())
    np.testing.assert_array_equal(envs.advantages(), disabled.advantages())
    assert envs.table().won.any()
    assert (envs.table().truncated | envs.table().terminated).sum() == 8


def test_two_groups_by_task():
    envs = GRPO(_envs())
    _play(envs)
    assert envs.table().groups == ("start-2", "start-3")
    assert envs.table().n_trajectories == 8


def test_a_full_reset_begins_a_new_table_and_a_masked_one_adds_to_it():
    envs = RewardFlow(_envs())
    _play(envs, seed=1)
    once = _rows(envs.table())
    _play(envs, seed=1)
    assert _rows(envs.table()) == once
    mask = np.arange(8) < 4
    envs.reset(options={"reset_mask": mask, "index": 2})
    with pytest.raises(ValueError, match=r"4 of 8 sub-environments still play \(0, 1, 2, 3\)"):
        envs.table()
    for _ in range(2):
        envs.step(["right"] * 8)
    table = envs.table()
    assert table.n_trajectories == 12
    assert _rows(table)[: len(once)] == once
    assert len(envs.advantages()) == len(table) == len(once) + 8


def test_unfinished_groups_are_an_error():
    envs = GiGPO(_envs())
    with pytest.raises(ValueError, match="GiGPO has recorded nothing: call reset"):
        envs.advantages()
    with pytest.raises(gym.error.ResetNeeded, match="call reset"):
        envs.step([""] * 8)
    envs.reset(options=TASKS)
    envs.step(["right"] * 8)  # start 3 + 1 = 4: the second group has ended, the first has not
    with pytest.raises(
        ValueError, match=r"4 of 8 sub-environments still play \(0, 1, 2, 3\), their groups are not complete"
    ):
        envs.advantages()


@pytest.mark.parametrize(("wrapper", "_function"), PAIRS)
def test_wrong_options_fail_at_once(wrapper, _function):
    with pytest.raises(TypeError, match="unknown option 'gama'"):
        wrapper(_envs(), gama=0.9)
    with pytest.raises(ValueError, match="unknown preset 'autors'"):
        wrapper(_envs(), preset="autors")


class _Renaming(gym.vector.VectorWrapper):
    """Adds upper-case commands and bracketed canonical keys, as a reply and a state wrapper would."""

    def reset(self, **kwargs):
        observations, infos = self.env.reset(**kwargs)
        return observations, self._add(infos, [""] * self.num_envs)

    def step(self, actions):
        *rest, infos = self.env.step(actions)
        return *rest, self._add(infos, [action.upper() for action in actions])

    def _add(self, infos, commands):
        infos["command"] = np.array(commands, object)
        infos["canonical_key"] = np.array([f"<{key}>" for key in infos["state_key"]], object)
        return infos


def test_commands_and_canonical_keys_are_recorded():
    envs = GraphGPO(_Renaming(_envs()))
    _play(envs)
    table = envs.table()
    assert set(table.actions) == {"LEFT", "RIGHT", "JUMP"}
    assert "<2>" in table.states
    assert "<4> [success]" in table.states


def test_the_wrapped_environment_is_passed_through():
    plain, wrapped = _envs(AutoresetMode.SAME_STEP), GRPO(_envs(AutoresetMode.SAME_STEP))
    for first, second in zip(_play(plain)[1:], _play(wrapped)[1:], strict=True):
        for a, b in zip(first[1:4], second[1:4], strict=True):
            np.testing.assert_array_equal(a, b)
        assert first[4].keys() == second[4].keys()


@pytest.mark.parametrize("wrapper", [value for value in vars(wrappers).values() if _is_credit_wrapper(value)])
def test_a_wrapper_without_options_has_its_methods_own_preset(wrapper):
    envs = wrapper(_envs())
    _play(envs)
    np.testing.assert_array_equal(envs.advantages(), wrapper.method(envs.table()))
