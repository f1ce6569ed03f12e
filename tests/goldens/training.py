"""Goldens of training: three updates of a tiny policy by every recipe, every scorer, settings, and imitation."""

import copy
import functools
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import torch

import agentgym  # noqa: F401  registers the environments
from baselines.config import TrainerConfig
from baselines.imitation.rounds import train_in_rounds
from baselines.recipes import RECIPES, recipe
from baselines.recipes.definition import Recipe
from baselines.recipes.methods import method
from baselines.scorers.action_value import ActionValueConfig
from baselines.scorers.contribution import ContributionConfig
from baselines.scorers.critic import CriticConfig
from baselines.scorers.hindsight import HindsightConfig
from baselines.scorers.implicit_reward import ImplicitRewardConfig
from baselines.scorers.segmented_reward import SegmentedRewardConfig
from baselines.trainer import Trainer
from policies.huggingface import HuggingFacePolicy
from policies.tiny import tiny_policy
from tests.baselines.corridor_learning import CONFIG, TASKS, WORDS, corridor, small_policy
from tests.baselines.imitation.corridor_setting import setting
from tests.baselines.scorers.fixed import Fixed
from tests.goldens.records import Golden, without_clock
from wrappers import VectorPromptWindow, VectorReplyParser

_UPDATES = 3
_CONFIG = CONFIG.changed(
    iterations=_UPDATES, learning_rate=2e-3, validation={"every": 0}, optimiser={"minibatch_rows": 8}
)


def taught(policy: HuggingFacePolicy, rows: list[Any]) -> None:
    """Teach a policy to say the replies of all rows about equally often."""
    prompts, replies = [row.prompt_ids for row in rows], [row.token_ids for row in rows]
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=2e-2)
    for _ in range(40):
        optimizer.zero_grad()
        (-policy.score(prompts, replies, temperature=1.0).logprobs.sum() / len(rows)).backward()
        optimizer.step()


@functools.cache
def _weights() -> dict[str, Any]:
    """Weights of a policy that says each word about equally often, and sometimes two of them."""
    policy = small_policy(0, max_new_tokens=3)
    rows = [
        policy.demonstrate([{"role": "user", "content": f"cell {cell}"}], f"<action>{words}</action>")
        for cell in range(5)
        for words in (*WORDS, "left right")
    ]
    taught(policy, rows)
    return {name: value.clone() for name, value in policy.model.state_dict().items()}


def talking_policy() -> HuggingFacePolicy:
    """A policy whose replies have one to three tokens."""
    policy = small_policy(0, max_new_tokens=3)
    policy.model.load_state_dict(_weights())
    return policy


def trained(credit: Recipe, config: TrainerConfig = _CONFIG, **arguments: Any) -> dict[str, Any]:
    """Three updates: advantages, what the log says of each, scores after them, and the policy's weights."""
    return updates(talking_policy(), corridor(), TASKS, credit, config, **arguments)


def updates(policy: Any, envs: Any, tasks: Any, credit: Recipe, config: TrainerConfig, **arguments: Any) -> Any:
    record: dict[str, Any] = {"rows": []}
    last: list[Any] = []

    def note(trainer: Trainer, table: Any, row: Any) -> None:
        if table is not None:
            record["rows"].append(_logged(row, trainer.config.loss.old_logprobs == "recompute"))
            record[f"advantages {row['iteration']}"] = trainer.advantages
            record[f"replies {row['iteration']}"] = [reply.text for reply in table.replies]
            last[:] = [table]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = Trainer(policy, envs, credit, tasks, credit.configure(config), **arguments)
        trainer.run(note)
    record["weights"] = weights(policy)
    scorer = trainer.learner.scorer
    if scorer is not None:
        record |= {"scores": scorer.scores(last[0]), "scorer": str(scorer.describe())}
    return record


def weights(policy: Any) -> dict[str, Any]:
    """The length of every tensor of weights, and a sum of it in which every weight counts differently."""
    found = [value.detach().double().numpy().ravel() for _, value in policy.model.named_parameters()]
    counted = [np.cos(1.0 + 0.6180339887498949 * np.arange(len(value))) @ value for value in found]
    return {"lengths": [float(np.linalg.norm(value)) for value in found], "sums": counted}


def _logged(row: Any, recomputed: bool = False) -> Any:
    """Return a row of the log without the clock, and without the mismatch where it is rounding alone."""
    return {key: value for key, value in without_clock(row).items() if recomputed or not key.startswith("mismatch_")}


def by_recipe(name: str) -> dict[str, Any]:
    return trained(recipe(name), **({"scorer": Fixed()} if name == "judge" else {}))


def by_search_row(name: str) -> dict[str, Any]:
    """A recipe with an environment of its own: some questions, and a policy that searches, answers, and guesses."""
    found = recipe(name)
    own = found.own_env
    options = {**own.options, **own.training, "top_k": 1, "sources": "one_hop", "expert": True}
    envs: Any = gym.make_vec(own.id, 12, autoreset_mode="Disabled", **options)
    envs = VectorPromptWindow(VectorReplyParser(envs), history=0, instructions=False)
    tasks = [{"split": "train", "index": index} for index in range(3)]
    prompts, infos = envs.reset(seed=0, options={"per_env": [{**task, **found.schedule(0, 3)} for task in tasks * 4]})
    golds = [envs.unwrapped.envs[i].unwrapped.gold_answers(infos["task_id"][i])[0] for i in range(3)]
    said = [f"<search>{gold}</search>" for gold in golds] + [f"<answer>{gold}</answer>" for gold in golds]
    texts = [message["content"] for messages in prompts for message in messages]
    policy = tiny_policy(
        texts, seed=0, extra_words=said, width=16, layers=1, heads=2, kv_heads=1, mlp=16, max_new_tokens=12,
        pieces=(r" ?</?[a-z]+>", r" ?[A-Za-z]+"),
    )  # fmt: skip
    taught(policy, [policy.demonstrate(prompts[i], f"<action>{words}</action>") for i in range(3) for words in said])
    return updates(policy, envs, tasks, found, _CONFIG)


#: Scorers that no recipe has as its own, or not with these settings, and a recipe that takes their scores.
SCORERS: dict[str, tuple[str, Any]] = {
    "critic-token": ("ppo:level=token", CriticConfig(level="token")),
    "critic-bi-level": ("ppo:level=bi-level", CriticConfig(level="token")),
    "implicit-sum": ("istar", ImplicitRewardConfig(reduce="sum")),
    "implicit-mean": ("istar", ImplicitRewardConfig(reduce="mean")),
    "implicit-ce": ("istar", ImplicitRewardConfig(loss="ce", reduce="sum")),
    "implicit-centred": ("istar", ImplicitRewardConfig(reduce="sum", centre=True)),
    "contribution-slow": ("spa_network", ContributionConfig(rate=1e-4)),
    "hindsight": ("judge", HindsightConfig()),
    "hindsight-cloze": ("judge", HindsightConfig(hindsight="cloze")),
    "action-value-squared": ("agentprm", ActionValueConfig(loss="squared", gamma=0.9)),
    "segmented-reward": ("judge", SegmentedRewardConfig()),
}


def by_scorer(name: str) -> dict[str, Any]:
    wanted, config = SCORERS[name]
    made = config.make(talking_policy())
    # The trainer trains a policy of its own with the same weights; the scorer copied them.
    return trained(recipe(wanted), scorer=copy.deepcopy(made))


#: Settings of the trainer, one or few at a time.
SETTINGS: dict[str, dict[str, Any]] = {
    "cispo": {"loss": {"objective": "cispo", "clip_high": 0.28}},
    "step-ratio": {"loss": {"ratio": "step", "dual_clip": 3.0}, "optimiser": {"epochs": 2}},
    "reward-divergence": {"loss": {"kl": 0.1, "kl_in": "reward", "kl_form": "k1"}},
    "packed": {"memory": {"microbatch_tokens": 64}},
    "shared-prefixes": {"memory": {"microbatch_tokens": 64, "share_prefixes": True}},
    "microbatches": {"memory": {"microbatch_rows": 3, "activation_checkpointing": True}},
    "stale": {"rollout": {"staleness": 1}, "loss": {"old_logprobs": "recompute", "tis": 2.0}},
    "step-weights": {"loss": {"old_logprobs": "recompute", "tis": 1.5, "tis_level": "step"}},
    "constant": {"loss": {"aggregation": "constant", "constant_length": 3}},
    "trajectories": {"loss": {"weighting": "trajectory", "keep_zero": False}},
    "schedule": {
        "schedule": {"shape": "linear", "warmup": 2}, "optimiser": {"weight_decay": 0.1}, "loss": {"entropy": 0.01},
    },
    "overlong-mask": {"rollout": {"overlong": "mask"}},
    "overlong-drop": {"rollout": {"overlong": "drop", "overlong_buffer": 2, "overlong_penalty": 0.5}},
    "token-budget": {"token_budget": 60, "schedule": {"shape": "linear"}},
    "resampled": {"rollout": {"resample_rounds": 3}},
    "other-seed": {"seed": 5, "temperature": 0.7},
}  # fmt: skip


def by_setting(name: str) -> dict[str, Any]:
    return trained(recipe("gigpo"), _CONFIG.changed(**SETTINGS[name]))


#: Methods of imitation with little to do; "hindsight" needs an environment that can relabel.
IMITATION = (
    "sft:epochs=2", "rft:samples=3:temperature=1:epochs=2", "dpo:epochs=2:batch_size=4",
    "eto:samples=4:epochs=2:batch_size=4", "ipr:continuations=2:rounds=1:threshold=0:batch_size=4",
    "stepagent:samples=4:epochs=2:batch_size=4", "spear:rounds=2:buffer=8:ramp=1",
)  # fmt: skip


def by_imitation(name: str) -> dict[str, Any]:
    policy = talking_policy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = train_in_rounds(policy, method(name), setting())
    return {"rows": [_logged(row) for row in rows], "weights": weights(policy)}


def _golden(group: str, make: Callable[[str], Any]) -> Callable[[str], Golden]:
    return lambda name: Golden(f"training/{group}-{name}", functools.partial(make, name), learned=True)


GOLDENS = [
    *map(_golden("recipe", by_recipe), RECIPES),
    *map(_golden("recipe", by_search_row), ("r1", "search_r1", "zerosearch", "stepsearch")),
    *map(_golden("scorer", by_scorer), SCORERS),
    *map(_golden("setting", by_setting), SETTINGS),
    *(
        Golden(f"training/imitation-{name.partition(':')[0]}", functools.partial(by_imitation, name), learned=True)
        for name in IMITATION
    ),
]
