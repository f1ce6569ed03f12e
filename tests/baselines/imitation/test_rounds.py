"""Rounds on a corridor: every method learns, and a run that was stopped goes on."""

import dataclasses
from functools import cache

import gymnasium as gym
import pytest
import torch

import agentgym  # noqa: F401  registers the environments
from baselines.imitation.cloning import imitate
from baselines.imitation.method import Imitation, Setting
from baselines.imitation.rounds import train_in_rounds
from baselines.recipes.methods import method
from policies.lora import LoraSettings, add_lora
from policies.tiny import tiny_policy
from tests.baselines.corridor_learning import CONFIG, babbling_policy
from tests.baselines.imitation.corridor_setting import learn_word, seen, setting
from wrappers import VectorPromptWindow, VectorReplyParser

torch.set_num_threads(1)

SMALL = {
    "sft": "sft:epochs=6",
    "rft": "rft:samples=4:temperature=1:epochs=6",
    "dpo": "dpo:epochs=2:batch_size=4",
    "eto": "eto:samples=4:epochs=4:batch_size=4",
    "ipr": "ipr:continuations=2:rounds=1:threshold=0:batch_size=4",
    "stepagent": "stepagent:samples=4:epochs=4:batch_size=4",
    "stepagent agree": "stepagent:form=agree:samples=4",
    "spear": "spear:rounds=3:buffer=8:ramp=1",
}


@pytest.mark.parametrize("name", SMALL)
def test_every_method_learns_to_walk_right(name):
    policy = babbling_policy()
    start = _right(policy)
    rows = train_in_rounds(policy, method(SMALL[name]), setting())
    assert [row["iteration"] for row in rows] == list(range(method(SMALL[name]).rounds + 1))
    assert _right(policy) > start + 0.05


class _Unlearning(Imitation):
    """Trains the policy, and then looks at where it came from."""

    needs_start = True

    def learn(self, part):
        learn_word(part.policy, "left")
        return {"start": _right(part.start), "now": _right(part.policy)}


def test_the_start_is_what_an_adapter_had_learned_by_then():
    policy = adapted()
    learn_word(policy, "right")
    begun = _right(policy)
    assert begun > 0.8  # the base says it in a third of all cases
    row = train_in_rounds(policy, _Unlearning("unlearning"), setting())[-1]
    assert row["start"] == pytest.approx(begun, abs=1e-5)
    assert row["now"] < 0.5


def test_continuations_are_played_by_what_an_adapter_had_learned_by_then():
    policy = adapted()
    start = _right(policy)
    train_in_rounds(policy, method("ipr:continuations=2:rounds=2:threshold=0:batch_size=4"), setting())
    assert _right(policy) > start + 0.05


def adapted():
    return add_lora(babbling_policy(), LoraSettings(rank=4, alpha=16.0), seed=0)


def _right(policy):
    """Mean probability of "right" in the three cells."""
    replies = [policy.demonstrate(seen(cell), "<action>right</action>") for cell in (1, 2, 3)]
    with torch.no_grad():
        scores = policy.score([r.prompt_ids for r in replies], [r.token_ids for r in replies], temperature=1.0)
    return float(scores.logprobs.sum(1).exp().mean())


@pytest.mark.parametrize("name", ["eto:rounds=2:samples=4", "spear:rounds=3:buffer=20:ramp=1"])
def test_a_stopped_run_goes_on_as_if_it_had_not_been(name, tmp_path):
    whole, policy = babbling_policy(), babbling_policy()
    expected = train_in_rounds(whole, method(name), setting())
    first = dataclasses.replace(method(name), rounds=1)
    train_in_rounds(policy, first, setting(), folder=tmp_path)
    fresh = babbling_policy()
    rows = train_in_rounds(fresh, method(name), setting(), folder=tmp_path)
    drop = {"seconds"}
    assert [{k: v for k, v in row.items() if k not in drop} for row in rows] == [
        {k: v for k, v in row.items() if k not in drop} for row in expected
    ]
    assert all(torch.equal(fresh.model.state_dict()[k], v) for k, v in whole.model.state_dict().items())
    with pytest.raises(ValueError, match="belongs to another run"):
        train_in_rounds(babbling_policy(), method("sft"), setting(), folder=tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "sft:epochs=1",
        "rft:samples=2:epochs=1",
        "dpo:samples=2",
        "eto:rounds=1:epochs=1",
        "ipr:rounds=1:continuations=1:episodes=2:epochs=1",
        "spear:rounds=2:buffer=8:ramp=1",
    ],
)
def test_failed_episodes_are_data_of_what_they_did(name):
    found = []
    for hindsight in ("false", "true"):
        policy = tiny_policy(["######\n#_OX√#\n#PS__#\n######"], seed=0, width=16, layers=1, mlp=16)
        policy.model.load_state_dict(_wandering())
        rows = train_in_rounds(policy, method(f"{name}:hindsight={hindsight}"), sokoban())
        counted = [sum(row.get(key, 0.0) for row in rows) for key in ("rows", "pairs", "replayed")]
        found.append(sum(counted))
    assert found[1] > found[0]


def sokoban():
    """Levels that a wanderer mostly fails, while it moves boxes onto other fields."""
    envs = gym.make_vec("AgentRL/Sokoban-v0", num_envs=8, autoreset_mode="Disabled", expert=True, max_episode_steps=12)
    envs = VectorPromptWindow(VectorReplyParser(envs), history=0, instructions=False)
    config = dataclasses.replace(CONFIG, groups=4, group_size=2, learning_rate=1e-5)
    tasks = [{"split": "train", "index": index} for index in range(4)]
    return Setting(envs, tasks, config, {"learning_rate": 1e-5}, 0)


@cache
def _wandering():
    """A policy that answers the four moves about equally often."""
    policy = tiny_policy(["######\n#_OX√#\n#PS__#\n######"], seed=0, width=16, layers=1, mlp=16)
    texts = (f"<action>{word}</action>" for word in ("up", "down", "left", "right"))
    moves = [policy.demonstrate([{"role": "user", "content": "######"}], text) for text in texts]
    imitate(policy, moves, epochs=40, seed=0, learning_rate=1e-2, warmup=0)
    return policy.model.state_dict()
