"""The vector form against its sub-environments stepped one by one."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import agentgym  # noqa: F401  # registers the environments
from agentgym.core import Info
from agentgym.webshop.env import WebShopEnv, WebShopVectorEnv

ID, COUNT = "AgentRL/WebShop-v0", 5
ODD = (
    "", "search[]", "click[]", "click[search]", "click[Buy Now]", "click[buy now] now", "click[[buy now]",
    "Click[x]", "search[<r>]", "search[<c>]", "search[RED [socks]]", "search[socks", "click[next >]\n",
    "click[back to search]]", "search[item_page a_b]", "search[large shoes]", "click[attributes]",
)  # fmt: skip


def chosen(info: Info, rng: np.random.Generator) -> str:
    """Any command that is offered, or an odd one, or a search for words of the request."""
    draw = rng.random()
    if draw < 0.2:
        return str(rng.choice(ODD))
    if draw < 0.3 or info["has_search_bar"]:
        return f"search[{' '.join(rng.permutation(info['instruction'].split())[:5])}]"
    return str(rng.choice(info["admissible_actions"]))


@pytest.mark.parametrize(
    "options",
    [
        {}, {"repairs": "all"}, {"observation_mode": "text_rich", "expert": True}, {"observation_mode": "url"},
        {"noise": (0.5, 0.3), "reward": 10.0},
    ],
)  # fmt: skip
def test_a_vector_step_is_a_step_of_every_sub_environment(options: dict[str, Any]) -> None:
    envs: Any = gym.make_vec(ID, COUNT, num_products=40, autoreset_mode="Disabled", max_episode_steps=12, **options)
    singles = [WebShopEnv(num_products=40, **options) for _ in range(COUNT)]
    rng, bought = np.random.default_rng(1), 0
    for episode in range(6):
        observations, infos = envs.reset(seed=100 * episode)
        pairs = [env.reset(seed=100 * episode + i) for i, env in enumerate(singles)]
        over = [False] * COUNT
        for step in range(12):
            for i, (observation, info) in enumerate(pairs):
                assert observation == observations[i]
                assert {key: infos[key][i] for key in info} == info
            commands = ["" if over[i] else chosen(info, rng) for i, (_, info) in enumerate(pairs)]
            observations, rewards, terminated, truncated, infos = envs.step(commands)
            for i, env in enumerate(singles):
                if not over[i]:
                    observation, reward, over[i], _, info = env.step(commands[i])
                    pairs[i] = observation, info
                    assert (rewards[i], terminated[i], truncated[i]) == (reward, over[i], step == 11)
                    bought += over[i]
            if all(over):
                break
    assert bought > 5


def test_a_snapshot_is_not_changed_by_later_steps() -> None:
    envs: Any = gym.make_vec(ID, 2, num_products=40)
    envs.reset(seed=0)
    *_, infos = envs.step(["search[shoes]", "search[socks]"])
    kept = [envs.snapshot(i) for i in range(2)]
    for _ in range(2):
        before = envs.restore(range(2), kept)[1]
        assert before.keys() == infos.keys()
        assert all(before[key].tolist() == infos[key].tolist() for key in infos)
        envs.step(["click[next >]", infos["admissible_actions"][1][-1]])


def test_a_subclass_describes_its_own_way() -> None:
    class Counting(WebShopEnv):
        def describe(self, valid: bool) -> Info:
            return {**super().describe(valid), "length": len(self.observe())}

    class CountingVector(WebShopVectorEnv):
        env_class = Counting

    envs = CountingVector(2, num_products=40)
    envs.reset(seed=0)
    observations, *_, infos = envs.step(["search[shoes]", "nothing"])
    assert infos["length"].tolist() == [len(text) for text in observations]
