from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import agentgym  # noqa: F401  # registers the environments
from agentgym.outside.dialogue import NONE, Act, Player, write
from agentgym.rollout import collect
from agentgym.sotopia.env import SotopiaEnv
from agentgym.sotopia.players import PLAYERS
from agentgym.trajectory import Reply
from baselines.play.second_player import PolicyPartner
from policies.scripted import RandomPolicy, tagged
from tests.refusals import refuses
from wrappers.prompt import PromptWindow, VectorPromptWindow
from wrappers.reply import VectorReplyParser


class Says:
    """Says its texts in turn, whatever it sees, and keeps what it saw."""

    def __init__(self, *texts: str) -> None:
        self.texts = texts
        self.seen: list[Any] = []

    def act(self, observations: Sequence[Any], infos: Any, rng: np.random.Generator) -> list[Reply]:
        self.seen += observations
        assert all(len(column) == len(observations) for column in infos.values())
        return [Reply(self.texts[i % len(self.texts)]) for i in range(len(observations))]


COMMANDS = [write(Act("speak", "Hello – <b>you</b>.")), write(NONE), "no command", write(Act("action", "nods"))]


@pytest.mark.parametrize("role", [0, 1])
@pytest.mark.parametrize("order", ["round-robin", "simultaneous"])
@pytest.mark.parametrize(
    "style",
    [
        {"history": None},
        {"history": 2, "keep_first": True, "admissible": True},
        {"history": 0, "instructions": False},
        {"history": 3, "shown": "actions", "instructions": "Talk.", "max_chars": 900},
    ],
)
def test_a_policy_sees_as_the_partner_what_it_would_see_as_the_agent(
    role: int, order: str, style: dict[str, Any]
) -> None:
    env = SotopiaEnv(partner="fair", role=role, order=order, max_turns=12)
    window = PromptWindow(env, **style)
    messages, info = window.reset(seed=3, options={"split": "test", "index": 4})
    partner = PolicyPartner(Says(""), order=order, **style)
    for step in range(4):
        if info["ended"]:  # nobody is asked any more
            break
        assert partner.messages(env.world.view(role)) == messages
        messages, _, _, _, info = window.step(write(Act("speak", f"{step} <i>hm</i>")) if step != 1 else write(NONE))
    assert step >= 1


def test_replies_are_read_as_the_agents_are() -> None:
    env = SotopiaEnv(role=0, max_turns=6)
    env.reset(seed=0, options={"split": "test", "index": 0})
    env.world.play((Act("speak", "Hi."), NONE))
    view = env.world.view(1)
    replies = [tagged(write(Act("speak", "a"))), f"<think>x</think>{tagged(write(Act('leave')))}", write(NONE), "", "<"]
    partner = PolicyPartner(Says(*replies))
    assert isinstance(partner, Player)
    assert partner.act([view] * 5) == [Act("speak", "a"), Act("leave"), NONE, NONE, NONE]
    assert partner.act([]) == []
    strict = PolicyPartner(Says(replies[0]), reply={"require_think": True})
    assert strict.act([view]) == [NONE]


def test_one_policy_plays_both_sides_and_repeats() -> None:
    policy = Says(*[tagged(command) for command in COMMANDS])
    envs: Any = gym.make_vec(
        "AgentRL/SOTOPIA-v0", num_envs=4, partner=PolicyPartner(policy, history=4), max_turns=6,
        autoreset_mode="Disabled",
    )  # fmt: skip
    envs = VectorPromptWindow(VectorReplyParser(envs), history=4)
    table = collect(envs, policy, tasks=[{"split": "train", "index": 0}], group_size=4, seed=1)
    assert table.n_trajectories == 4
    assert {messages[0]["content"] for messages in policy.seen} == {policy.seen[0][0]["content"]}

    def play() -> list[str]:
        partner = PolicyPartner(RandomPolicy(), seed=5)
        envs: Any = gym.make_vec("AgentRL/SOTOPIA-v0", num_envs=3, partner=partner, autoreset_mode="Disabled")
        table = collect(VectorReplyParser(envs), RandomPolicy(), tasks=[{}] * 6, seed=1)
        return [str(table.states[i]) for i in table.next_state]

    assert play() == play()
    assert len(set(play())) > 6
    refuses(ValueError, "several must be", lambda: PolicyPartner(Says(""), reply={"several": "all"}))
    refuses(ValueError, "history", lambda: PolicyPartner(Says(""), history=-1))
    refuses(ValueError, "order", lambda: PolicyPartner(Says(""), order="chaos"))
    assert "fair" in PLAYERS
