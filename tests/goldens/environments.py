"""Goldens of the environments: what twenty episodes show and pay, prompts, snapshots, the vector form."""

import functools
import json
from typing import Any

import gymnasium as gym
import numpy as np

from agentgym.registry import ROWS
from tests.goldens.records import Golden, digest
from wrappers import VectorPromptWindow, VectorReplyParser, VectorTranscript

#: Generated data, whatever the machine holds of the official ones.
_GENERATED = {"ALFWorld": {"data": "generated"}, "VirtualHome": {"data": "generated"}}
#: Episodes of an id as it is, and of one with options.
_EPISODES, _FEWER = 20, 5
_NONSENSE = (
    "", "fly to the moon", "UP!", "<action>up", "<search>who is it</search>", "<answer>nobody</answer>",
    "search[red wool socks]", "I take 2 books and you get the rest. deal?",
)  # fmt: skip
#: Options that change what is shown, by the name of an id.
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "Sokoban": {
        "two-boxes": {"size": 7, "boxes": 2},
        "xsb": {"symbols": "xsb", "separator": " "},
        "level-seed": {"level_seed": 3, "split": "test"},
    },
    "VisualSokoban": {"small-tiles": {"tile_size": 8}},
    "ALFWorld": {
        "put": {"dialect": "put", "ghosts": 0.3},
        "repairs": {"repairs": "all", "reward": 10.0},
        "unseen": {"split": "valid_unseen"},
    },
    "VirtualHome": {"spa": {"protocol": "spa"}, "repairs": {"repairs": "all"}, "house-seed": {"house_seed": 2}},
    "WebShop": {
        "rich": {"observation_mode": "text_rich"},
        "url": {"observation_mode": "url"},
        "adverts": {"noise": (0.5, 0.5), "split_by": "product"},
        "repairs": {"repairs": "all", "reward": 10.0},
    },
    "SearchQA": {
        "verl-agent": {"protocol": "verl_agent"},
        "no-search": {"max_turns": 0, "last_turn": "extra"},
        "stepsearch": {"reward": "stepsearch"},
        "simulated": {"simulator": "rule", "reward": "f1"},
        "harder": {"distractors": 2, "missing": 0.2, "reward": "sub_em"},
    },
    "SOTOPIA": {
        "simultaneous": {"order": "simultaneous"},
        "random-order": {"order": "random", "role": "random"},
        "success": {"reward": "success", "max_turns": 6, "partner": "accepts-all"},
    },
}  # fmt: skip
#: Reset options that only some variants know.
_RESET = {"simulated": {"noise": 0.5}}


def chosen(info: dict[str, Any], rng: np.random.Generator, expert: float = 0.55) -> str:
    """The expert's action more often than not, else an admissible one, now and then nonsense."""
    luck, actions = rng.random(), info["admissible_actions"]
    if luck < expert and info.get("expert_action"):
        return str(info["expert_action"])
    if luck < 0.9 and len(actions):
        return str(actions[rng.integers(len(actions))])
    return _NONSENSE[rng.integers(len(_NONSENSE))]


def shown(observation: Any) -> Any:
    return {**observation, "image": digest(observation["image"])} if isinstance(observation, dict) else observation


def episodes(name: str, variant: str, count: int) -> dict[str, Any]:
    """Play single episodes, each fourth without the expert; every third step is taken once more from a snapshot."""
    options = {**_GENERATED.get(name, {}), **VARIANTS.get(name, {}).get(variant, {})}
    env: Any = gym.make(f"AgentRL/{name}-v0", expert=True, disable_env_checker=True, **options)
    rng = np.random.default_rng(7)
    record: dict[str, Any] = {
        "instructions": env.unwrapped.instructions, "first steps": [], "episodes": [], "rewards": [], "ends": [],
        "restored": [],
    }  # fmt: skip
    for number in range(count):
        given: dict[str, Any] = {**_RESET.get(variant, {}), **({"index": number} if number % 2 else {})}
        observation, info = env.reset(seed=number, options=given or None)
        steps: list[Any] = [[shown(observation), info]]
        total, over, restored = 0.0, False, []
        while not over:
            action = chosen(info, rng, 0.0 if number % 4 == 3 else 0.55)
            if len(steps) % 3 == 1:
                snapshot = env.unwrapped.snapshot()
                env.unwrapped.step(chosen(info, rng))
                again, same = env.unwrapped.restore(snapshot)
                restored.append([shown(again), same["state_key"]])
            observation, reward, terminated, truncated, info = env.step(action)
            steps.append([action, shown(observation), reward, terminated, truncated, info])
            if number == 0 and len(steps) <= 4:
                record["first steps"].append({"action": action, "text": shown(observation), "info": _lines(info)})
            total, over = total + reward, terminated or truncated
        record["episodes"].append(digest(steps))
        record["restored"].append(digest(restored))
        record["rewards"].append(total)
        record["ends"].append(f"{info['task_id']}: {len(steps) - 1} steps, won {info['won']}, {info['score']:.9g}")
    return record


def _lines(info: dict[str, Any]) -> list[str]:
    return [f"{key}: {json.dumps(value, default=repr)[:300]}" for key, value in sorted(info.items())]


def places(name: str) -> dict[str, Any]:
    """Three places side by side that begin anew by themselves, random admissible actions."""
    envs: Any = gym.make_vec(f"AgentRL/{name}-v0", num_envs=3, max_episode_steps=6, **_GENERATED.get(name, {}))
    rng = np.random.default_rng(3)
    observations, infos = envs.reset(seed=5)
    seen: list[Any] = [digest([_batch(observations), _plain(infos)])]
    for _ in range(15):
        actions = [chosen({"admissible_actions": listed}, rng) for listed in infos["admissible_actions"]]
        observations, rewards, terminated, truncated, infos = envs.step(actions)
        batch = [_batch(observations), rewards.tolist(), terminated.tolist(), truncated.tolist(), _plain(infos)]
        seen.append(digest(batch))
    return {"steps": seen}


def _batch(observations: Any) -> Any:
    return {k: digest(v) if k == "image" else list(v) for k, v in observations.items()} if isinstance(
        observations, dict
    ) else list(observations)  # fmt: skip


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray) and value.ndim and value.dtype == object:
        return [_plain(item) for item in value]
    return value.tolist() if isinstance(value, np.ndarray) and value.ndim < 2 else value


def prompts(name: str) -> dict[str, Any]:
    """What a policy reads: a window with and without history, and a transcript; replies are read, penalties paid."""
    styles: dict[str, tuple[Any, dict[str, Any]]] = {
        "window": (VectorPromptWindow, {"history": 2}),
        "bare": (VectorPromptWindow, {"history": 0, "instructions": False}),
        "listed": (VectorPromptWindow, {"history": 1, "admissible": True}),
        "transcript": (VectorTranscript, {}),
    }
    record: dict[str, Any] = {}
    for title, (wrapper, style) in styles.items():
        envs: Any = gym.make_vec(
            f"AgentRL/{name}-v0", num_envs=2, autoreset_mode="Disabled", expert=True, **_GENERATED.get(name, {})
        )
        envs = wrapper(VectorReplyParser(envs), **style)
        rng = np.random.default_rng(1)
        messages, infos = envs.reset(seed=2)
        record[title] = {"first": _messages(messages[0]), "later": []}
        for _ in range(4):
            replies = []
            for i in range(2):
                info = {key: infos[key][i] for key in ("admissible_actions", "expert_action")}
                replies.append(f"<think>so</think><action>{chosen(info, rng)}</action>")
            messages, rewards, terminated, truncated, infos = envs.step(replies)
            record[title]["later"].append(digest([[_messages(each) for each in messages], rewards.tolist()]))
            if (terminated | truncated).any():
                break
    return record


def _messages(messages: Any) -> list[str]:
    return [f"{m['role']}: {m['content'] if isinstance(m['content'], str) else digest(m['content'])}" for m in messages]


def learned_from() -> dict[str, Any]:
    """The first prompts of the learning benchmark: each environment as the tiny policy and as others see it."""
    # These settings are no public name; this function follows them where they go.
    from baselines.environments.registry import SETTINGS
    from baselines.runs.config import make_config
    from baselines.runs.stack import make_envs

    record: dict[str, Any] = {}
    for row in SETTINGS:
        for model in ("tiny", "smollm2", "some-model"):
            played = row.played_by(model)
            config = make_config(row, methods=["grpo"], seeds=[0], model=model, history=None, sizes=played.quick)
            envs: Any = make_envs(config, 2)
            messages, infos = envs.reset(seed=0, options={"split": config.setup.train, "index": 1})
            first = _messages(messages[0])
            messages, *_ = envs.step([f"<action>{(infos['admissible_actions'][0] or ('none',))[0]}</action>"] * 2)
            record[f"{row.name}, {model}"] = {
                "first": first, "second": digest(_messages(messages[0])), "training": dict(config.training),
                "sizes": vars(played.quick), "full": vars(played.full), "history": config.history,
            }  # fmt: skip
    return record


def _dialogue() -> dict[str, Any]:
    """SOTOPIA as PettingZoo has it: both roles answer by rule."""
    from agentgym.sotopia import parallel_env

    env: Any = parallel_env()
    seen = []
    for seed in range(4):
        observations, infos = env.reset(seed=seed)
        steps = [digest([observations, infos])]
        for turn in range(6):
            if not env.agents:
                break
            actions = {agent: f"I would like {turn} of them, says {agent}." for agent in env.agents}
            steps.append(digest(env.step(actions)))
        seen.append(steps)
    return {"steps": seen}


_NAMES = [row.id.removeprefix("AgentRL/").removesuffix("-v0") for row in ROWS]
GOLDENS = [
    *(Golden(f"environments/{name}", functools.partial(episodes, name, "", _EPISODES)) for name in _NAMES),
    *(
        Golden(f"environments/{name}-{variant}", functools.partial(episodes, name, variant, _FEWER))
        for name, variants in VARIANTS.items()
        for variant in variants
    ),
    *(Golden(f"environments/{name}-places", functools.partial(places, name)) for name in _NAMES),
    *(Golden(f"environments/{name}-prompts", functools.partial(prompts, name)) for name in _NAMES),
    Golden("environments/learning-prompts", learned_from),
    Golden("environments/SOTOPIA-pettingzoo", _dialogue),
]
