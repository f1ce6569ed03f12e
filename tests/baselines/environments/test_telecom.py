"""Learning settings of Telecom: what the trainee does, and what a clone is shown."""

import pytest

from agentgym.telecom.env import TelecomEnv
from agentgym.telecom.player import TelecomPlayer
from baselines.environments.registry import settings_of
from baselines.environments.telecom import _MISTAKES, NOISE, TELECOM, Trainee


def test_a_trainee_takes_so_many_repairs_for_others_and_looks_like_the_player() -> None:
    env, right, wrong = TelecomEnv(faults=(1, 2), kinds=["mobile_data"], hopeless=False), 0, 0
    for index in range(150):
        observation, _ = env.reset(options={"split": "train", "index": index})
        trainee, player, over = Trainee(NOISE), TelecomPlayer(), False
        while not over:
            call, meant = trainee.act(observation, ()), player.act(observation, ())
            assert call in (meant, _MISTAKES.get(meant))
            right += call == meant and meant in _MISTAKES
            wrong += call != meant
            observation, _, over, *_ = env.step(call)
    assert wrong / (right + wrong) == pytest.approx(NOISE, abs=0.1)


def test_a_clone_is_shown_fewer_faults_than_are_trained_on() -> None:
    setup = settings_of("telecom").played_by("smollm2").setup
    assert (setup.options["faults"], setup.while_cloned().options["faults"]) == ([1, 3], [1, 2])
    assert TELECOM.setup.while_cloned() == TELECOM.setup
