"""One training run, the same for `baselines.train`, the commands and the studies.

train           names of an environment and a method -> a trained policy (`from baselines import train`)
carry_out       the same from `RunSettings`
cloned          the start policy: an expert is imitated
train_policy    trains an existing policy in the environments of a configuration
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers

from agentgym.checks import whole
from agentgym.registry import known_env
from baselines.environments.registry import settings_of
from baselines.environments.settings import REFERENCE, SMOLLM2, TINY, tasks
from baselines.evaluation import Evaluation, evaluate
from baselines.recipes.definition import Recipe
from baselines.records.callbacks import Samples
from baselines.records.checkpoint import best_policies, checkpoints, save_policy
from baselines.runs import card
from baselines.runs.config import Config
from baselines.runs.data_source import hand_on, noted, open_data
from baselines.runs.engine import ENGINE_FOLDER, Engine
from baselines.runs.settings import RunSettings, run_settings
from baselines.runs.stack import (
    check_model,
    check_sight,
    clones_adapter,
    cloning,
    held_out_tasks,
    keep_pictures,
    make_envs,
    make_lanes,
    new_policy,
    training_tasks,
    validation_tasks,
)
from baselines.trainer import FINAL_FOLDER, Callback, Trainer

if TYPE_CHECKING:
    from agentgym.trajectory import StepTable
    from baselines.config import TrainerConfig
    from baselines.imitation.cloning import CloneResult
    from baselines.records.metrics import Row

#: Folders in a run's folder: the start policy, and an adapter merged with its base.
CLONE_FOLDER, MERGED_FOLDER = "clone", "merged"
#: Relative to the folder in which Python was started.
RUNS = Path("runs") / "train"
#: Called with the number of finished updates and the number of all.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """Result of `train`.

    Attributes:
        folder: log, samples, checkpoints, the start policy ("clone") and the trained one ("final").
        settings: environment, prompt, tasks and numbers of the run; `settings.training` is the `TrainerConfig`.
        trainer: with `envs` (wrapped as the policy saw them), `tasks`, `credit` and `advantages` (of the last batch).
    """

    folder: Path
    settings: RunSettings
    trainer: Trainer

    @property
    def policy(self) -> Any:
        return self.trainer.policy

    @property
    def log(self) -> list[Row]:
        """One row per iteration; row 0 is the start. The keys: `baselines.trainer.Trainer`."""
        return self.trainer.log.rows

    def test(self, temperature: float = 0.0) -> Evaluation:
        """Play the held-out test tasks, which training and validation did not use."""
        config = self.settings.config
        envs, seed = make_envs(config, config.eval_tasks), self.settings.training.seed
        return evaluate(envs, self.policy, held_out_tasks(config), seed=seed, temperature=temperature)

    def __repr__(self) -> str:
        config = self.settings.config
        found = [row["validation_greedy_success"] for row in self.log if "validation_greedy_success" in row]
        shown = f": {found[0]:.1%} -> {found[-1]:.1%} of validation tasks, greedy" if found else ""
        done = self.trainer.iteration
        return f"Run({config.methods[0]} on {config.env}, {done} iterations{shown}; {self.folder})"


def train(
    env: str, method: str | Callable[[StepTable], Any] = REFERENCE, *, model: str | Path = TINY,
    clone: int | str | Path | None = None, seed: int = 0, out: str | Path | None = None,
    options: Mapping[str, Any] | None = None, history: int | None = None, lora: int = 0,
    engine: str = "loop", quick: bool = False, progress: bool = True, **settings: Any,
) -> Run:  # fmt: skip
    """Train a policy in an environment by a credit method, and return policy, log and folder.

        from baselines import train
        run = train("AgentRL/Sokoban-v0", method="hgpo")
        run.log[-1]["validation_greedy_success"], run.test(), run.policy

    Defaults come from `baselines/environments/`, for the environment and the model: prompt, splits, numbers of tasks,
    learning rate. The command `stepcredit train` is the same.

    Args:
        env: a name such as "sokoban" or "alfworld", a registered id, or "my_module:Env-v0", which imports the module
            that registers it.
        method: name of a recipe (`baselines.recipes.RECIPES`), options behind colons, ":gamma=.9"; or
            "my_module:credit"; or a function `credit(table) -> float64 (len(table),)`.
        model: "tiny" (0.2 million parameters, nothing to download), "smollm2" (135 million, downloads 93 MB once), or
            the folder of a Hugging Face causal language model.
        clone: expert episodes that are imitated first, 0: none; or a file of episodes, see
            `baselines.imitation.episodes.read_episodes`. None: for "tiny" the number in the environment's settings (300
            in Sokoban), 0 for other models and for environments without settings.
        out: folder of the run; a run in it is continued. None: a new folder below runs/train.
        options: arguments of the environment, such as {"data": "~/alfworld"}.
        history: earlier steps in the prompt; None: the number in the environment's settings.
        lora: rank of an adapter that is trained instead of all weights, at ten times the learning rate; 0: all weights.
        engine: generates the replies: "loop" (the model itself), "vllm", "vllm:sleep" or "server:URL".
        quick: sizes of a smoke test, which shows that everything works, but not which method is better.
        **settings: fields of `baselines.config.TrainerConfig`: `iterations=20, groups=8, loss={"kl": 0.0}`, or by name,
            `**{"loss.kl": 0.0}`.

    Returns:
        The finished run. Ctrl-C raises KeyboardInterrupt after the current iteration; the same call with the folder of
        the run as `out` resumes it.

    Raises:
        TypeError: a setting has no such name; the message suggests one.
        ValueError: there is no such environment, method, model or engine, or a setting is out of its range.
        agentgym.outside.files.OtherConfigurationError: `out` holds a run on other tasks.
    """
    player = Engine.read(engine)
    row = settings_of(known_env(env))
    if isinstance(clone, int):
        whole("clone", clone, 0)
    model = check_model(str(model))
    check_sight(row.id, model)
    credit = None
    if not isinstance(method, str):
        own = getattr(method, "__qualname__", type(method).__name__)
        credit = method if isinstance(method, Recipe) else Recipe(own, method)
        method = credit.name
    chosen = run_settings(
        row, method=method, model=model, seed=seed, quick=quick, lora=lora, history=history, clone=clone,
        changes=settings, credit=credit,
    )  # fmt: skip
    config, source = open_data(chosen.config, row, options or {}, whole=not quick)
    chosen = dataclasses.replace(chosen, config=config, source=source)
    folder = _new_folder(f"{row.name}-{method}-seed{seed}") if out is None else Path(out)
    with contextlib.closing(_Bars()) as bars:
        callbacks = [bars] if progress else []
        shown = bars.imitating if progress else None
        return Run(folder, chosen, carry_out(chosen, folder, *callbacks, engine=player, imitating=shown))


def carry_out(
    settings: RunSettings, folder: Path, *callbacks: Callback, engine: Engine | None = None, lanes: int = 1,
    attention: str | None = None, imitating: Progress | None = None, tensorboard: bool = True, command: str = "",
) -> Trainer:  # fmt: skip
    """Clone and train, or resume an earlier run of the same settings, and return the trainer.

    Args:
        folder: gets start policy, checkpoints, log, samples, and the final policy with its model card.
        *callbacks: of the trainer, besides the one that writes samples.
        engine: generates the replies; None: the loop over the model itself.
        lanes: number of groups of parallel episodes that do not wait for each other.
        attention: transformers' name of the attention of a pretrained model; None: its choice.
        imitating: called with the number of finished updates of the start policy, and the number of all.
        tensorboard: whether files for TensorBoard are written.
        command: the command that started the run, for the model card.

    Raises:
        agentgym.outside.files.OtherConfigurationError: the folder holds a run on other data.
        ValueError: the run clones an expert, and the environment has none.
    """
    from policies.lora import ADAPTER_FILE, begin_with, merge_lora
    from policies.vision.policy import VisionPolicy

    transformers.utils.logging.disable_progress_bar()  # the run shows its own progress
    config, engine = settings.config, engine or Engine()
    engine.check(config.lora, settings.training.rollout.staleness)
    if settings.source is not None:
        settings.source.note(folder)
    if config.clone_tasks and not checkpoints(folder):
        check_expert(config)
    card.note(settings, folder, command)
    how: dict[str, Any] = {"attn_implementation": attention} | (
        {"autocast": torch.bfloat16 if settings.precision == "bf16" else None} if settings.precision else {}
    )
    with _threads(config):
        policy: Any = _start(settings, folder, how, imitating)
        if engine.kind != "loop" and isinstance(policy, VisionPolicy):  # before the engine is started
            raise ValueError(
                f"--engine {engine.kind} is not given the pictures of prompts: leave --engine out for models that see"
            )
        if settings.training.rollout.staleness:
            keep_pictures(policy, folder)
        given = {
            "max_new_tokens": settings.reply_tokens, "max_prompt_tokens": settings.prompt_tokens,
            "truncate": settings.truncate,
        }  # fmt: skip
        policy = policy.with_settings(**{name: value for name, value in given.items() if value is not None})
        stored = None if config.model in (TINY, SMOLLM2) else Path(config.model)
        clone = folder / CLONE_FOLDER
        adapter_cloned = (clone / ADAPTER_FILE).is_file()
        if clone.is_dir() and not adapter_cloned:
            stored = clone
        sampler = engine.sampler(policy, folder, lora=config.lora, stored=stored, resumed=bool(checkpoints(folder)))
        if sampler is not None:
            sampler.tolerant = settings.training.rollout.on_mismatch == "weights"
            policy = policy.with_sampler(sampler)
        if config.lora:
            policy = begin_with(policy, clone) if adapter_cloned else _with_adapter(policy, config)
        try:
            _, trainer = train_policy(
                config, policy, settings.method, settings.training, folder, Samples(folder), *callbacks, lanes=lanes,
                tensorboard=tensorboard,
            )  # fmt: skip
        finally:
            shutil.rmtree(folder / ENGINE_FOLDER, ignore_errors=True)
        if config.lora:
            save_policy(merge_lora(policy), folder / MERGED_FOLDER)
    for stored in (folder / FINAL_FOLDER, folder / MERGED_FOLDER, *best_policies(folder)):
        hand_on(folder, stored)
        card.write(settings, folder, stored, trainer.log.rows)
    return trainer


def train_policy(
    config: Config, policy: Any, method: Recipe, training: TrainerConfig, folder: Path, *callbacks: Callback,
    lanes: int = 1, tensorboard: bool = True,
) -> tuple[list[Row], Trainer]:  # fmt: skip
    """Train a policy, or resume from the newest checkpoint of the folder.

    Returns:
        The rows of the log, and the trainer at the end.
    """
    places = max(training.groups * training.group_size, config.validation_tasks)
    how: dict[str, Any] = {"own": method.own_env, "training": True}
    envs: Any = make_envs(config, places, **how) if lanes == 1 else make_lanes(config, places, lanes, **how)
    trainer = Trainer(
        policy, envs, method, training_tasks(config), training, validation_tasks=validation_tasks(config),
        folder=folder, resume=True, tensorboard=tensorboard,
    )  # fmt: skip
    trainer.log.about = about(folder) or about(folder.parent)
    return trainer.run(*callbacks), trainer


def about(folder: Path) -> dict[str, str]:
    """Return the data sources in the logs of a folder's runs, see `baselines.runs.data_source`."""
    source = noted(folder)
    return {} if source is None else source.about


def cloned(
    config: Config, seed: int, progress: Progress | None = None, policy: Any = None
) -> tuple[Any, CloneResult | None]:
    """Return a policy that has imitated the expert's episodes, and the training's result; None: there are none.

    Args:
        config: environment, model, and the number of episodes.
        seed: of the weights, the episodes and the order of the steps.
        progress: called with the number of finished updates, and the number of all.
        policy: the one that learns; None: a new one.
    """
    from baselines.imitation.cloning import clone, informed_demonstrations
    from policies.lora import has_adapter

    policy, setup = policy or new_policy(config, seed), config.setup
    if not config.clone_tasks:
        return policy, None
    played, beside = tasks(setup.train, config.clone_tasks), []
    if setup.clone_contexts:  # the expert's, also if a file of episodes is cloned
        known = dataclasses.replace(config, setup=dataclasses.replace(setup.while_cloned(), adviser=""))
        envs = make_envs(known, config.clone_tasks, expert=True)
        beside = informed_demonstrations(policy, envs, played, setup.clone_contexts, seed=seed)
    shown = dataclasses.replace(config, setup=setup.while_cloned())
    return policy, clone(
        policy, make_envs(shown, config.clone_tasks, expert=True), played, seed=seed, progress=progress,
        enough=_looking(config, policy, seed), beside=beside, **cloning(config, has_adapter(policy.model)),
    )  # fmt: skip


def _looking(config: Config, policy: Any, seed: int) -> Callable[[int], bool] | None:
    setup = config.setup
    if not setup.clone_until:
        return None
    envs, chosen = make_envs(config, config.validation_tasks), validation_tasks(config)

    def enough(done: int) -> bool:
        if done < setup.look_from or (done - setup.look_from) % setup.look_every:
            return False
        return evaluate(envs, policy, chosen, seed=seed, temperature=0.0).success_rate >= setup.clone_until

    return enough


def check_expert(config: Config) -> None:
    """Check that the environment has an expert, if its episodes are to be imitated.

    Raises:
        ValueError: it has none; the message names alternatives.
    """
    try:
        with contextlib.closing(make_envs(config, 1, expert=True)) as envs:
            _, infos = envs.reset(options=tasks(config.setup.train, 1)[0])
        if "expert_action" in infos:
            return
    except TypeError:  # the environment has no such argument
        pass
    raise ValueError(
        f"{config.env} has no expert whose {config.clone_tasks} episodes could be imitated: name a file of episodes, "
        '--clone FILE.jsonl with lines such as {"messages": [{"role": "user", "content": "..."}, {"role": "assistant", '
        '"content": "<action>up</action>"}]}, or --clone 0'
    )


def _with_adapter(policy: Any, config: Config) -> Any:
    from policies.lora import LoraSettings, add_lora

    return add_lora(policy, LoraSettings(config.lora, 2.0 * config.lora), seed=config.seeds[0])


def _start(settings: RunSettings, folder: Path, how: dict[str, Any], progress: Progress | None) -> Any:
    """Return what is trained, or the base of the adapter that is.

    A pretrained model under an adapter is cloned in the adapter alone; older runs have cloned all of its weights.
    """
    from baselines.imitation.cloning import imitate
    from baselines.imitation.episodes import read_episodes
    from policies.lora import ADAPTER_FILE
    from policies.vision.policy import load_policy

    config, place = settings.config, folder / CLONE_FOLDER
    tiny, seed = config.model == TINY, config.seeds[0]
    if tiny:
        how = {name: value for name, value in how.items() if name == "autocast"} | {"device": "cpu"}

    def read(path: Path, dtype: Any = torch.float32) -> Any:
        return load_policy(path, dtype=dtype, **how)

    def begin(frozen: bool) -> Any:
        if settings.start is not None:
            return read(settings.start, "auto" if frozen else torch.float32)
        return new_policy(config, seed, frozen=frozen, **({} if tiny else how))

    if not config.clone_tasks and settings.episodes is None:
        return begin(bool(config.lora))
    if not place.is_dir():
        adapter = clones_adapter(config)
        policy = begin(adapter)
        if adapter:
            policy = _with_adapter(policy, config)
        if settings.episodes is not None:
            rows = read_episodes(settings.episodes, policy)
            imitate(policy, rows, seed=seed, progress=progress, **cloning(config, adapter))
        else:
            cloned(config, seed, progress, policy)
        save_policy(policy, place)
        hand_on(folder, place)
        del policy  # frees its memory before the model is read again
    return begin(frozen=True) if (place / ADAPTER_FILE).is_file() else read(place)


@contextlib.contextmanager
def _threads(config: Config) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1 if config.model == TINY else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _new_folder(name: str) -> Path:
    plain = "".join(letter if letter.isalnum() or letter in "-_=." else "-" for letter in name)
    number = 1
    while (folder := RUNS / (plain if number == 1 else f"{plain}-{number}")).exists():
        number += 1
    return folder


class _Bars:
    def __init__(self) -> None:
        self._bars: dict[str, Any] = {}
        self._words = ""

    def imitating(self, done: int, total: int) -> None:
        self._show("imitating the expert", done, total, " updates")

    def __call__(self, trainer: Trainer, table: StepTable | None, row: Row) -> None:
        if "validation_greedy_success" in row:
            self._words = f"validation {row['validation_greedy_success']:.0%}"
        rollouts = f"rollouts {row['success']:.0%}" if "success" in row else ""
        words = ", ".join(filter(None, (rollouts, self._words)))
        self._show("training", int(row["iteration"]), trainer.config.iterations, " iterations", words)

    def close(self) -> None:
        for bar in self._bars.values():
            bar.close()

    def _show(self, name: str, done: int, total: int, unit: str, words: str = "") -> None:
        from tqdm.auto import tqdm

        bar = self._bars.setdefault(name, None) or tqdm(total=total, desc=name, unit=unit, mininterval=0.5)
        self._bars[name] = bar
        bar.set_postfix_str(words, refresh=False)
        bar.update(done - bar.n)
