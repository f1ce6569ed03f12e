"""The environment, the tasks and the policy of a run, built from its configuration."""

from __future__ import annotations

import contextlib
import importlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

import agentgym  # noqa: F401  # registers the environments
from agentgym.adapter import adapt
from agentgym.checks import nearest
from agentgym.core import TextSpace
from agentgym.outside.text import DataError
from baselines.config import NAMES, Checkpoints, TrainerConfig, Validation
from baselines.environments.registry import ADVISERS, settings_of
from baselines.environments.settings import LORA_RATE, SIDE_BY_SIDE, SMOLLM2, TINY, tasks
from baselines.runs.config import Config
from policies.vision import data_url
from wrappers.advice import VectorAdvice
from wrappers.canonical import CanonicalStates
from wrappers.privileged import PHRASES
from wrappers.prompt import VectorPromptWindow
from wrappers.reply import VectorReplyParser
from wrappers.transcript import VectorTranscript

if TYPE_CHECKING:
    from baselines.environments.settings import OwnEnv
    from baselines.imitation.method import Setting
    from baselines.recipes.definition import Recipe
    from policies.huggingface import HuggingFacePolicy

#: Policies that are not trained, and the two ways to play.
RANDOM, EXPERT, CLONE = "random", "expert", "clone"
GREEDY, SAMPLED = "greedy", "sampled"
#: Training tasks whose first prompts and commands the tiny policy's tokenizer is made from.
_TOKENIZER_LEVELS = 64
#: Episodes, and their steps, from which it learns the words of an environment without settings.
_RANDOM_EPISODES, _RANDOM_STEPS = 16, 40
#: Options of a prompt's window that a transcript does not have.
_WINDOW_ONLY = ("keep_first", "max_chars", "shown")
_HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
#: Files of a model in the form of transformers; a repository may hold others, such as weights in other formats.
_MODEL_FILES = ["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja"]
#: Instruction for a pretrained model that shall not think, and how its reply is completed. Commands of ALFWorld take up
#: to twelve tokens.
COMMAND_ONLY = "Answer with exactly one command inside <action> and </action>, and nothing else."
_FOREIGN: dict[str, Any] = {"prefix": "<action>", "suffix": "</action>", "max_new_tokens": 16}
#: Highest learning rates of cloning: random weights take large steps, pretrained ones are fine-tuned.
_CLONE_RATES = {TINY: 3e-3, SMOLLM2: 2e-4}


def find_model(model: str, *, download: bool = False) -> str:
    """Return the folder of a model, or the name on the Hugging Face hub of one that the local cache holds.

    Raises:
        DataError: it is neither, or cannot be fetched.
    """
    from huggingface_hub import snapshot_download, try_to_load_from_cache

    folder = Path(model).expanduser()
    if holds_model(folder):
        return str(folder)
    if folder.exists() or not _HUB_NAME.fullmatch(model):
        raise DataError(f"no Hugging Face model in the folder {model!r} (no config.json)")
    if isinstance(try_to_load_from_cache(model, "config.json"), str):
        return model
    if not download:
        raise DataError(
            f"no Hugging Face model in the folder {model!r} (no config.json), and none of this name in the local "
            "cache: add --download to fetch it from the hub"
        )
    try:
        snapshot_download(model, allow_patterns=_MODEL_FILES)
    except (OSError, ValueError) as error:
        raise DataError(f"the model {model!r} could not be fetched from the Hugging Face hub: {error}") from error
    return model


def check_model(model: str, *, download: bool = False) -> str:
    """Return a model's name or folder.

    Args:
        model: "tiny", "smollm2", a folder, or a name on the hub.

    Raises:
        ValueError: no policy can be made from it.
        ImportError: what SmolLM2 is read with is not installed.
    """
    from policies.smollm2 import check_smollm2

    if model == TINY:
        return model
    if model == SMOLLM2:
        check_smollm2()
        return model
    try:
        return find_model(model, download=download)
    except DataError as error:
        near = nearest(model, [TINY, SMOLLM2])
        raise ValueError(f"{error}{f'; did you mean {near!r}?' if near else ''}") from None


def check_sight(env: str, model: str, *, download: bool = False) -> None:
    """Check that a model reads pictures if the environment shows them.

    Raises:
        ValueError: it does not.
    """
    from policies.vision.policy import sees

    if model == TINY:  # the tiny model reads pictures; a check would have to build the environment
        return
    plain = shows_text(env)
    if not (plain or sees(model, download=download)):
        raise ValueError(
            f"{env} shows pictures, and {model!r} reads only text: expected tiny, or a Qwen2.5-VL or Qwen3-VL model"
        )


def shows_text(env: str) -> bool:
    """Return whether observations are only texts, from generated tasks; other tasks have the same observations."""
    space = gym.make(env, **settings_of(env).setup.options).observation_space
    return isinstance(space, TextSpace | gym.spaces.Text)


def training_tasks(config: Config) -> list[dict[str, Any]]:
    """Tasks of reinforcement learning, which follow the cloned ones."""
    return tasks(config.setup.train, config.training_tasks, config.clone_tasks)


def held_out_tasks(config: Config, split: str = "") -> list[dict[str, Any]]:
    """Held-out tasks of the table, or as many of another split."""
    return tasks(split or config.setup.test, config.eval_tasks)


def validation_tasks(config: Config) -> list[dict[str, Any]]:
    """Tasks of the learning curve, without test tasks."""
    setup = config.setup
    return tasks(setup.validation, config.validation_tasks, config.eval_tasks if setup.validation == setup.test else 0)


def make_envs(config: Config, episodes: int, **how: Any) -> gym.vector.VectorEnv[Any, Any, Any]:
    """Return the environments of `bare_envs`, with its options, and with reply parser and prompts of `config`."""
    return with_prompts(bare_envs(config, episodes, **how), config, transcript=config.transcript)


def with_prompts(
    envs: gym.vector.VectorEnv[Any, Any, Any],
    config: Config,
    *,
    transcript: bool,
    reply_format: str = COMMAND_ONLY,
    **parsing: Any,
) -> gym.vector.VectorEnv[Any, Any, Any]:
    """Wrap the environments of `bare_envs` in reply parser and prompts."""
    envs, style = VectorReplyParser(envs, **parsing), dict(config.setup.prompt)
    if transcript:
        style = {name: value for name, value in style.items() if name not in _WINDOW_ONLY}
        return VectorTranscript(envs, instructions=config.instructions, reply_format=reply_format, **style)
    return VectorPromptWindow(
        envs, history=config.history, instructions=config.instructions, reply_format=reply_format, **style
    )


def bare_envs(
    config: Config, episodes: int, *, expert: bool = False, log: bool = False, own: OwnEnv | None = None,
    training: bool = False,
) -> gym.vector.VectorEnv[Any, Any, Any]:  # fmt: skip
    """Vector environment with bare observations and commands as actions, autoreset off.

    Raises:
        ValueError: the method is for another environment.
    """
    setup = config.setup
    options = {**setup.options, **setup.plenty}
    if own is not None:
        if own.id != config.env:
            raise ValueError(f"a method for {own.id}, not for {config.env}")
        options |= {**own.options, **(own.training if training else {})}
    if expert and not setup.adviser:
        options["expert"] = True
    envs: Any = make_vec(config.env, min(episodes, SIDE_BY_SIDE), **options)
    if expert and setup.adviser:
        envs = VectorAdvice(envs, ADVISERS[setup.adviser])
    key = settings_of(config.env).key
    if key is not None:
        envs = CanonicalStates(envs, key=key)
    return ObservationLog(envs) if log else envs


class ObservationLog(gym.vector.VectorWrapper[Any, Any, Any, Any, NDArray[Any]]):
    """Records the observations of every sub-environment since the last reset (autoreset `DISABLED`).

    Place it directly around the environment and its state keys, below reply and prompt wrappers. A picture is recorded
    as a data URL on a line before the text, for `benchmarks/report/board.js`.

    Attributes:
        frames: per sub-environment, the observations in order; after the end of an episode the last one repeats.
        texts: (task id, state key) -> the first observation with it.
    """

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any]) -> None:
        super().__init__(env)
        self.frames: list[list[str]] = []
        self.texts: dict[tuple[str, str], str] = {}

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        observations, infos = self.env.reset(seed=seed, options=options)
        self.frames = [[] for _ in range(self.num_envs)]
        self._note(observations, infos)
        return observations, infos

    def step(self, actions: Any) -> tuple[Any, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        self._note(observations, infos)
        return observations, rewards, terminated, truncated, infos

    def _note(self, observations: Any, infos: dict[str, Any]) -> None:
        texts = observations["text"] if isinstance(observations, dict) else observations
        if isinstance(observations, dict) and "image" in observations:
            texts = [f"{data_url(one)}\n{text}" for one, text in zip(observations["image"], texts, strict=True)]
        keys = infos.get("canonical_key", infos["state_key"])
        for i, (text, task, key) in enumerate(zip(texts, infos["task_id"], keys, strict=True)):
            self.frames[i].append(text)
            self.texts.setdefault((str(task), str(key)), text)


def make_lanes(config: Config, episodes: int, lanes: int, **options: Any) -> list[gym.vector.VectorEnv[Any, Any, Any]]:
    """Return the sub-environments of `make_envs`, with its options, in lanes that do not wait for each other.

    Raises:
        ValueError: there are more lanes than sub-environments.
    """
    places = min(episodes, SIDE_BY_SIDE)
    if not 1 <= lanes <= places:
        raise ValueError(f"expected 1 to {places} lanes, the number of episodes played in parallel, got {lanes}")
    sizes = [places // lanes + (i < places % lanes) for i in range(lanes)]
    return [make_envs(config, size, **options) for size in sizes]


def holds_model(folder: Path) -> bool:
    """Return whether a folder looks like a Hugging Face model, or an adapter of one."""
    return any((folder / name).is_file() for name in ("config.json", "adapter_config.json"))


def make_vec(env: str, places: int, **options: Any) -> gym.vector.VectorEnv[Any, Any, Any]:
    """Return a vector environment with autoreset off, of ours or of any Gymnasium environment of texts."""
    module, _, name = env.rpartition(":")
    if module:
        importlib.import_module(module)
    if gym.spec(name).vector_entry_point is not None:
        return gym.make_vec(name, places, autoreset_mode="Disabled", **options)
    mode = {"autoreset_mode": gym.vector.AutoresetMode.DISABLED}
    return adapt(gym.make_vec(name, places, vectorization_mode="sync", vector_kwargs=mode, **options))


def new_policy(config: Config, seed: int, *, frozen: bool = False, **how: Any) -> HuggingFacePolicy:
    """The untrained policy: a tiny one with random weights, SmolLM2, or a model from a folder.

    Args:
        frozen: whether the weights of a pretrained model are not trained, because it gets an adapter; they then keep
            their stored type, else they are float32.
        **how: `attn_implementation`, `device` and `autocast` of a pretrained model, see
            `policies.huggingface.HuggingFacePolicy.from_pretrained`.
    """
    if config.model != TINY:
        return _pretrained(config, frozen, how)
    from policies.tiny import tiny_policy
    from policies.vision.tiny import tiny_vision_policy

    row = settings_of(config.env)
    levels = min(_TOKENIZER_LEVELS, config.clone_tasks + config.training_tasks)
    envs: Any = make_vec(config.env, levels, **config.setup.options)
    observations, infos = envs.reset(options=tasks(config.setup.train, levels))
    texts = list(observations["text"] if isinstance(observations, dict) else observations)
    commands = infos.get("admissible_actions", ())
    words = sorted({action for actions in commands for action in actions})
    if config.instructions:
        texts.append(envs.unwrapped.instructions)
    if config.setup.clone_contexts:
        texts += PHRASES
    settings = dict(config.setup.policy)
    if row.pieces is not None:
        settings["pieces"] = row.pieces
    if not row.is_known:
        words = sorted({*words, *_play_at_random(config, texts)})
    build = tiny_vision_policy if isinstance(observations, dict) and "image" in observations else tiny_policy
    policy = build(texts, seed=seed, extra_words=[*words, *row.said, *row.words()], **settings)
    if row.is_known or not words:
        return policy
    longest = max(len(policy.tokenizer(word, add_special_tokens=False)["input_ids"]) for word in words)
    return policy.with_settings(max_new_tokens=longest)


def _play_at_random(config: Config, texts: list[str]) -> set[str]:
    commands: set[str] = set()
    rng = np.random.default_rng(0)
    with contextlib.closing(gym.make(config.env, **config.setup.options)) as env:
        for seed in range(_RANDOM_EPISODES):
            observation, info = env.reset(seed=seed)
            for _ in range(_RANDOM_STEPS):
                texts.append(str(observation))
                possible = info.get("admissible_actions", ())
                if not len(possible):
                    break
                commands.update(possible)
                observation, _, terminated, truncated, info = env.step(str(rng.choice(possible)))
                if terminated or truncated:
                    break
    return commands


def _pretrained(config: Config, frozen: bool, how: dict[str, Any]) -> HuggingFacePolicy:
    import torch

    from policies.huggingface import SETTINGS_FILE
    from policies.smollm2 import TEMPLATE, smollm2_folder
    from policies.vision.policy import load_policy

    if config.model == SMOLLM2:
        folder = smollm2_folder()
        settings = {**_FOREIGN, "batch_size": 64, "template": {"chat_template": TEMPLATE}, **config.setup.policy}
    else:
        folder = Path(config.model)
        settings = {} if (folder / SETTINGS_FILE).is_file() else {**_FOREIGN, **config.setup.policy}
    # Weights in 16 bits would round away the small steps of an optimiser.
    dtype = "auto" if frozen else torch.float32
    return load_policy(folder, dtype=dtype, **settings, **how)


def learned_policy(folder: Path, model: str) -> HuggingFacePolicy:
    """Load a policy that a benchmark has trained, without a bar; a tiny one plays on the CPU in float32 everywhere."""
    import transformers

    from policies.vision.policy import load_policy

    transformers.utils.logging.disable_progress_bar()
    return load_policy(folder, device="cpu" if model == TINY else None)


def keep_pictures(policy: HuggingFacePolicy, folder: Path) -> None:
    """Let a vision policy write its pictures beside the checkpoints, so that a resumed run can read them."""
    from policies.vision.policy import VisionPolicy

    if isinstance(policy, VisionPolicy):
        policy.pictures.keep_in(folder / "pictures")


def clones_adapter(config: Config) -> bool:
    """Return whether a run clones into an adapter; the tiny model, whose weights are random, is cloned as a whole."""
    return bool(config.lora) and config.model != TINY


def cloning(config: Config, adapter: bool = False) -> dict[str, Any]:
    """Arguments of `baselines.imitation.cloning.clone`: the model's, overridden by those of the setup.

    Args:
        adapter: whether an adapter is cloned, at ten times the learning rate.
    """
    known = {"epochs": config.clone_epochs, "learning_rate": _CLONE_RATES.get(config.model, 1e-5)}
    memory = {} if config.model == TINY else {"microbatch_rows": 8}
    found = {**known, **memory, **config.setup.clone}
    return found | {"learning_rate": LORA_RATE * found["learning_rate"]} if adapter else found


def imitation_setting(config: Config, seed: int) -> Setting:
    """Tasks and settings of the methods of imitation: the cloned tasks, and the learning rates of clone and training.

    Raises:
        DataError: no task was cloned.
    """
    from baselines.imitation.method import Setting

    if not config.clone_tasks:
        raise DataError("methods of imitation learn from the expert's episodes: add some, --clone-tasks 300")
    supervised = {name: value for name, value in cloning(config).items() if name != "epochs"}
    shown = tasks(config.setup.train, config.clone_tasks)
    training = trainer_config(config, seed)
    return Setting(make_envs(config, SIDE_BY_SIDE, expert=True), shown, training, supervised, seed)


def trainer_config(config: Config, seed: int, method: Recipe | None = None) -> TrainerConfig:
    """Settings of one training run: the benchmark's, overridden by those of the method, if one is given."""
    settings = {name: value for name, value in config.training.items() if name in NAMES}
    common = TrainerConfig(
        iterations=config.steps, groups=config.groups, group_size=config.group_size, temperature=config.temperature,
        seed=seed, validation=Validation(every=config.validation_every),
        checkpoint=Checkpoints(every=min(10, max(1, config.validation_every))), **settings,
    )  # fmt: skip
    return common if method is None else method.configure(common)
