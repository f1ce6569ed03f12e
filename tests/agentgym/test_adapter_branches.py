"""Branches of any Gymnasium text environment: copied where it runs here, asked where it runs in a process."""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from agentgym.adapter import adapt
from tests.agentgym.test_adapter import MODES, Stairs
from tests.corridor import CorridorEnv
from wrappers import VectorPromptWindow, VectorReplyParser

ACTIONS = ("up", "down", "up", "up", "down", "up", "up", "up", "down", "down", "up", "down")


class Closing(Stairs):
    """Can say its state, and cannot be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = (number for number in ())

    def snapshot(self) -> Any:
        return self.height, self.over

    def restore(self, state: Any) -> None:
        self.height, self.over = state


def limited(make: Any) -> gym.Env[Any, Any]:
    return TimeLimit(OrderEnforcing(PassiveEnvChecker(make())), 5)


def stock(kind: Any, make: Any, mode: AutoresetMode, count: int = 2) -> Any:
    more = {"shared_memory": False} if kind is AsyncVectorEnv else {}
    return kind([partial(limited, make)] * count, autoreset_mode=mode, **more)


def play(envs: Any, actions: Any, over: list[bool]) -> list[str]:
    """What sub-environment 0 shows, and every other one as well."""
    shown = []
    for action in actions:
        sent = ["" if done and envs.metadata["autoreset_mode"] is AutoresetMode.DISABLED else action for done in over]
        *step, infos = envs.step(sent)
        over = [bool(a or b) for a, b in zip(step[2], step[3], strict=True)]
        kept = {name: column for name, column in infos.items() if name in ("task_id", "state_key", "won", "score")}
        shown.append([repr([part[i] for part in (*step, *kept.values())]) for i in range(envs.num_envs)])
    return [row[0] for row in shown] if len({tuple(row) for row in zip(*shown, strict=True)}) == 1 else shown


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("kind", "make"), [(SyncVectorEnv, Stairs), (SyncVectorEnv, Closing), (AsyncVectorEnv, Closing)]
)
def test_a_fork_plays_on_as_the_original_would_have(kind: Any, make: Any, mode: AutoresetMode) -> None:
    for before in (0, 1, 3, 5, 6):
        envs = adapt(stock(kind, make, mode))
        envs.reset(seed=[4, 9])
        over = [False, False]
        for action in ACTIONS[:before]:
            sent = ["" if done and mode is AutoresetMode.DISABLED else action for done in over]
            *_, terminated, truncated, _ = envs.step(sent)
            over = (terminated | truncated).tolist()
        saved = pickle.loads(pickle.dumps(envs.snapshot(0)))
        envs.fork(0, 1)
        on = play(envs, ACTIONS, [over[0]] * 2)
        assert isinstance(on[0], str), "the fork plays on as the original"
        for _ in range(2):
            envs.restore([1, 0], [saved] * 2)
            assert play(envs, ACTIONS, [over[0]] * 2) == on
        if mode is not AutoresetMode.DISABLED:
            envs.restore([1, 0], [saved] * 2, [5, 5])
            assert play(envs, ACTIONS * 2, [over[0]] * 2)[: len(on)] != on
        envs.close()


def test_our_environments_branch_in_processes_and_in_wrappers() -> None:
    inner = stock(AsyncVectorEnv, CorridorEnv, AutoresetMode.DISABLED)
    envs = VectorPromptWindow(VectorReplyParser(inner), instructions=False)
    envs.reset(seed=0, options=[{"index": 2}, {"index": 1}])
    envs.step(["<action>right</action>", "<action>jump</action>"])
    messages, infos = envs.fork(0, 1, seeds=3)
    assert messages[0] == messages[1]
    assert infos["command"].tolist() == ["right", "right"]
    *_, rewards, terminated, _, _ = envs.step(["<action>right</action>"] * 2)
    assert (rewards.tolist(), terminated.tolist()) == ([1.0, 1.0], [True, True])
    envs.close()


def test_who_cannot_be_saved_in_a_process_is_named_and_plays_on() -> None:
    class Unknown(gym.Wrapper[Any, Any, Any, Any]):
        pass

    cases = (
        (partial(limited, Stairs), r"<TimeLimit<.*Stairs.* cannot be saved in a process .*it has no snapshot\(\)"),
        (lambda: Unknown(Closing()), r"<Unknown<Closing.*it is in Unknown.*or make a SyncVectorEnv"),
    )
    for make, message in cases:
        envs = adapt(AsyncVectorEnv([make] * 2, shared_memory=False, autoreset_mode=AutoresetMode.DISABLED))
        envs.reset(seed=0)
        with pytest.raises(TypeError, match=message):
            envs.snapshot(0)
        assert envs.step(["up", "down"])[0]
        envs.close()
