"""Settings as the papers print them, method by method and environment by environment.

`PAPERS` holds what is printed, and nothing else: what a paper leaves out is left out here, and `Paper.config` gives it
the trainer's default. Where a paper and the script that its authors published differ, there are two entries.

    paper("rewardflow", "alfworld").config()              what the paper prints
    paper("rewardflow", "sokoban", "script").config()     what the authors' script sets
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from agentgym.checks import suggest
from baselines.config import TrainerConfig
from baselines.recipes.definition import Recipe
from baselines.recipes.rows import RECIPES, SEARCH_ROWS
from baselines.scorers.hindsight import HindsightConfig

Source = Literal["paper", "script"]
#: What the papers' runs play, by environment. None of it is in this package, which generates tasks of its own.
DATA: Mapping[str, str] = {
    "alfworld": "the official games",
    "virtualhome": "the published activities",
    "webshop": "the official shop",
    "searchqa": "published questions and passages",
    "sotopia": "the official scenarios",
    "sokoban": "boards of gym-sokoban's generator",
    "visualsokoban": "boards of gym-sokoban's generator",
}


@dataclass(frozen=True)
class Paper:
    """One method in one environment.

    Attributes:
        method: name of a recipe, or of a method that is not in this package.
        env: name of the environment, as `baselines.environments` has it.
        source: "paper": its tables and text; "script": the authors' published run script where that differs.
        training: settings of `TrainerConfig` by name, such as "loss.kl".
        options: of the credit method.
        scorer: of its scorer's config, see `baselines.recipes.definition.Recipe.scorer`.
        environment: facts about episodes, by the paper's words: "steps" per episode, "success_reward", "board", ...
        prompt_tokens, reply_tokens: limits; None: not printed.
        validation_temperature: sampling temperature of validation; None: not printed.
        lora_rank: rank of the adapter; None: all weights are trained.
        others: what belongs to learned rewards and critics and has no setting here.
        models: sizes or names that were trained.
        notes: what the numbers do not say.
    """

    method: str
    env: str
    source: Source = "paper"
    training: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    scorer: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    prompt_tokens: int | None = None
    reply_tokens: int | None = None
    validation_temperature: float | None = None
    lora_rank: int | None = None
    others: Mapping[str, Any] = field(default_factory=dict)
    models: tuple[str, ...] = ()
    notes: str = ""

    @property
    def title(self) -> str:
        """Method, environment and source, for messages."""
        return f"{self.method} in {self.env} ({self.source})"

    def config(self, **changes: Any) -> TrainerConfig:
        """Return the trainer's configuration; what is not printed has its default.

        Args:
            **changes: settings of `TrainerConfig` that win over the paper's.
        """
        return TrainerConfig(**self.training).changed(**changes)

    def recipe(self) -> Recipe:
        """Return the credit method with the paper's options.

        Raises:
            NotImplementedError: the method is not in this package.
        """
        named = RECIPES | SEARCH_ROWS
        if self.method not in named:
            raise NotImplementedError(
                f"the settings of {self.title} are known, but the method is not in this package; "
                f"methods that can be trained: {', '.join(named)}"
            )
        made = named[self.method].with_options(**self.options)
        if made.scorer is None:
            return made
        return dataclasses.replace(made, scorer=dataclasses.replace(made.scorer, **self.scorer))

    def differences(self, config: TrainerConfig) -> list[str]:
        """Return one line for each printed training setting that a configuration has otherwise."""
        here = config.settings()
        return [
            f"{name}: {self.source} {value!r}, here {here[name]!r}"
            for name, value in self.training.items()
            if here[name] != value
        ]

    def unset(self) -> list[str]:
        """Return one line for each printed fact that neither trainer nor credit can set."""
        limits = ("prompt_tokens", "reply_tokens", "validation_temperature", "lora_rank")
        facts = {**self.environment, **self.others, **{name: getattr(self, name) for name in limits}}
        lines = [f"{name}: {value!r}" for name, value in facts.items() if value is not None]
        return lines + ([f"models: {', '.join(self.models)}"] if self.models else [])


# What the runs of verl-agent have in common.
_COMMON: dict[str, Any] = {
    "learning_rate": 1e-6, "optimiser.weight_decay": 0.01, "optimiser.max_grad_norm": 1.0, "optimiser.epochs": 1,
    "loss.kl": 0.01, "loss.kl_form": "k3",
}  # fmt: skip
#: In scripts only.
_SCRIPT: dict[str, Any] = {"loss.dual_clip": 3.0}
_REWARDFLOW = {**_COMMON, "groups": 16, "group_size": 8, "temperature": 0.4}
_GRAPHGPO = {**_COMMON, "groups": 16, "group_size": 8, "temperature": 1.0}
_ISTAR: dict[str, Any] = {
    "learning_rate": 5e-7, "optimiser.weight_decay": 0.01, "optimiser.max_grad_norm": 1.0, "optimiser.epochs": 1,
    "loss.kl": 0.0, "loss.ratio": "step", "optimiser.minibatch_rows": 64, "memory.microbatch_rows": 8,
}  # fmt: skip
# The reward model's learning rate, 1e-6, is twice the policy's; a trajectory's score is the sum over its steps (Eq. 2).
_ISTAR_SCORER: dict[str, Any] = {"rate": 2.0, "beta": 0.05, "reduce": "sum"}
_HISR: dict[str, Any] = {"learning_rate": 1e-5, "loss.kl": 0.01, "temperature": 0.7}
# Printed with PPO and a critic of its own; here the rewards still to come are compared inside the group.
_HISR_OTHERS: dict[str, Any] = {"critic_learning_rate": 1e-4, "lam": 0.95}
_HISR_OPTIONS = {"gamma": 0.99}
_HISR_SCORER: dict[str, Any] = {
    "alpha": 0.3, "grounding": "bonus", "hindsight": HindsightConfig(beta=0.3, clip=None, hindsight="cloze"),
}  # fmt: skip
_INVALID = {"invalid_penalty": 0.1}
# A rate that rises over the first 28.5 % of the iterations.
_SEARCH_R1: dict[str, Any] = {**_COMMON, "temperature": 1.0, "loss.kl": 0.001}

_ALL = (
    Paper(
        "rewardflow", "alfworld",
        training={**_REWARDFLOW, "optimiser.minibatch_rows": 256, "iterations": 100},
        options={"gamma": 0.9, **_INVALID},
        environment={"steps": 25, "success_reward": 1.0},
        prompt_tokens=2048, reply_tokens=512, validation_temperature=0.4,
        models=("Qwen2.5-1.5B", "Qwen2.5-3B", "Qwen2.5-7B"),
    ),
    Paper(
        "rewardflow", "alfworld", "script",
        training={**_REWARDFLOW, **_SCRIPT, "optimiser.minibatch_rows": 256, "iterations": 100},
        options={"gamma": 0.9, **_INVALID},
        environment={"steps": 25, "success_reward": 10.0},
        prompt_tokens=2048, reply_tokens=512, validation_temperature=0.4,
    ),
    Paper(
        "rewardflow", "webshop",
        training={**_REWARDFLOW, "optimiser.minibatch_rows": 64, "iterations": 100},
        options={"gamma": 0.9, **_INVALID},
        environment={"steps": 15},
        prompt_tokens=4096, validation_temperature=0.4,
    ),
    Paper(
        "rewardflow", "sokoban",
        training={**_REWARDFLOW, "optimiser.minibatch_rows": 256},
        options={"gamma": 0.9, **_INVALID},
        environment={"steps": 15, "board": "6x6"},
        validation_temperature=0.4,
    ),
    Paper(
        "rewardflow", "sokoban", "script",
        training={**_REWARDFLOW, **_SCRIPT, "optimiser.minibatch_rows": 256},
        options={"gamma": 0.9, **_INVALID},
        environment={"steps": 15, "board": "8x8"},
        validation_temperature=0.4,
    ),
    Paper(
        "rewardflow", "searchqa",
        training={**_REWARDFLOW, "groups": 256, "group_size": 5, "optimiser.minibatch_rows": 512, "iterations": 200},
        options={"gamma": 0.9, "invalid_penalty": 0.01},
        environment={"steps": 4, "similar_states": "cosine 0.9"},
        prompt_tokens=4096, validation_temperature=0.4,
    ),
    Paper(
        "rewardflow", "searchqa", "script",
        training={**_REWARDFLOW, **_SCRIPT, "groups": 256, "group_size": 5, "optimiser.minibatch_rows": 512,
            "iterations": 200},
        options={"gamma": 0.95, "invalid_penalty": 0.01},
        environment={"steps": 4, "similar_states": "cosine 0.9"},
        prompt_tokens=4096, validation_temperature=0.4,
    ),
    Paper(
        "graphgpo", "alfworld",
        training={**_GRAPHGPO, "optimiser.minibatch_rows": 256, "iterations": 150},
        options={"omega": 0.1, **_INVALID},
        environment={"steps": 50, "success_reward": 10.0},
        prompt_tokens=2048, reply_tokens=512, validation_temperature=0.4,
        models=("Qwen2.5-1.5B", "Qwen2.5-7B"),
    ),
    Paper(
        "graphgpo", "webshop",
        training={**_GRAPHGPO, "optimiser.minibatch_rows": 64, "iterations": 150},
        options={"omega": 0.2, **_INVALID},
        environment={"steps": 15, "observation": "text_rich"},
        prompt_tokens=5120, validation_temperature=0.4,
    ),
    Paper(
        "graphgpo", "sokoban",
        training={**_GRAPHGPO, "optimiser.minibatch_rows": 64},
        options={"omega": 0.8, **_INVALID},
        environment={"steps": 15, "board": "6x6"},
        validation_temperature=0.4,
        notes="The paper prints 128 rollouts, not how they are grouped; here 16 groups of 8.",
    ),
    Paper(
        "graphgpo", "sokoban", "script",
        training={**_GRAPHGPO, **_SCRIPT, "groups": 32, "optimiser.minibatch_rows": 64},
        options={"omega": 0.8, **_INVALID},
        environment={"steps": 15, "board": "6x6"},
        validation_temperature=0.4,
    ),
    Paper(
        "istar", "webshop",
        training={**_ISTAR, "iterations": 200},
        options={"alpha": 1.0},
        environment={"outer_advantage": "rloo"},
        prompt_tokens=4096, scorer=_ISTAR_SCORER,
        notes="Groups, temperature and clip ranges are not printed.",
    ),
    Paper(
        "istar", "webshop", "script",
        training={**_ISTAR, "iterations": 200},
        options={"alpha": 1.0},
        environment={"steps": 10, "outer_advantage": "rloo"},
        prompt_tokens=4096, scorer=_ISTAR_SCORER,
    ),
    Paper(
        "istar", "sokoban",
        training={**_ISTAR, "groups": 32, "group_size": 8},
        options={"alpha": 1.0},
        environment={"steps": 15, "board": "6x6"},
        scorer=_ISTAR_SCORER,
    ),
    Paper(
        "istar", "sotopia",
        training={**_ISTAR, "groups": 16, "group_size": 8, "temperature": 0.7, "iterations": 800},
        options={"alpha": 1.0},
        prompt_tokens=6144, reply_tokens=2048, scorer=_ISTAR_SCORER,
    ),
    Paper(
        "hisr", "alfworld",
        training=_HISR,
        options=_HISR_OPTIONS,
        scorer=_HISR_SCORER,
        environment={"steps": 40, "success_reward": 1.0, "executable_reward": 0.3, "offline_episodes_per_task": 10},
        validation_temperature=0.0, lora_rank=8, others=_HISR_OTHERS,
        models=("Llama-3.2-3B, fine-tuned on expert episodes",),
    ),
    Paper(
        "hisr", "webshop",
        training=_HISR,
        options=_HISR_OPTIONS,
        scorer=_HISR_SCORER,
        environment={"steps": 10, "segments": False},
        validation_temperature=0.0, lora_rank=8, others={**_HISR_OTHERS, "reward_model_batch": 48},
    ),
    Paper(
        "hisr", "virtualhome",
        training=_HISR,
        options=_HISR_OPTIONS,
        scorer=_HISR_SCORER,
        environment={"steps": 40, "batches": (24, 16, 192)},
        validation_temperature=0.0, lora_rank=8, others=_HISR_OTHERS,
    ),
    Paper(
        "search_r1", "searchqa", "script",
        training={
            **_SEARCH_R1, "groups": 512, "group_size": 5, "optimiser.minibatch_rows": 256, "iterations": 1005,
            "schedule.warmup": 286,
        },
        environment={"steps": 3, "top_k": 3, "observation_tokens": 500},
        prompt_tokens=4096, reply_tokens=500,
        models=("Qwen2.5-3B",),
        notes="train_grpo.sh; two turns for searching there, four in the published runs.",
    ),
    Paper(
        "stepsearch", "searchqa", "script",
        training={
            **_SEARCH_R1, "groups": 128, "group_size": 1, "optimiser.minibatch_rows": 32, "iterations": 1120,
            "learning_rate": 5e-7, "schedule.warmup": 319, "loss.kl_in": "reward", "loss.kl_form": "k1",
        },
        options={"gamma": 1.0, "lam": 1.0},
        environment={"steps": 6, "top_k": 3, "observation_tokens": 800},
        prompt_tokens=4096, reply_tokens=800, others={"critic_learning_rate": 5e-7},
        models=("Qwen2.5-3B",),
        notes="train.sh; the paper is said to have 500 steps, 256 episodes each, at rates of 7e-7 and 7e-6.",
    ),
)  # fmt: skip

# What the two graph papers print of Sokoban was run with models that see the board. The size of the pictures is not
# printed; gym-sokoban, which the runs play, draws 16 pixels a cell, and so does `AgentRL/VisualSokoban-v0`.
_SEEN: dict[str, dict[str, Any]] = {
    "rewardflow": {
        "models": ("Qwen2.5-VL-3B", "Qwen2.5-VL-7B"),
        "notes": "The paper's longer run of the 3B model has 200 iterations.",
    },
    "graphgpo": {"models": ("Qwen2.5-VL-3B",)},  # of the name of its script, run_qwen2.5_vl_3b_sokoban_train.sh
}
_VISUAL_ITERATIONS = {("rewardflow", "paper"): {"iterations": 100}}
_VISUAL = tuple(
    dataclasses.replace(
        one,
        env="visualsokoban",
        training={**one.training, **_VISUAL_ITERATIONS.get((one.method, one.source), {})},
        **_SEEN[one.method],
    )
    for one in _ALL
    if one.env == "sokoban" and one.method in _SEEN
)

#: Every printed setting, by method, environment and source.
PAPERS: dict[tuple[str, str, Source], Paper] = {(one.method, one.env, one.source): one for one in (*_ALL, *_VISUAL)}


def paper(method: str, env: str, source: Source = "paper") -> Paper:
    """Return the printed settings of a method in an environment; those of the other source where there is one alone.

    Raises:
        ValueError: nothing is printed for the two; the message says what is.

    >>> paper("rewardflow", "searchqa", "script").options["gamma"]
    0.95
    """
    sources: tuple[Source, ...] = (source, "paper", "script")
    found = next((PAPERS[method, env, each] for each in sources if (method, env, each) in PAPERS), None)
    if found is not None:
        return found
    of_method = sorted({one.env for one in PAPERS.values() if one.method == method})
    if not of_method:
        raise ValueError(
            f"no paper's settings for the method {method!r}; {suggest(method, sorted({m for m, *_ in PAPERS}))}"
        )
    raise ValueError(f"the paper of {method!r} prints no settings for {env!r}; {suggest(env, of_method)}")
