"""The commands that train: the default benchmark, `train`, and `report` and `check` of what the first one left.

Nothing heavy is imported before it is needed: every process of a benchmark begins by importing this file.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from agentgym.outside.text import DataError
from benchmarks.console import arguments, explained, named, parse_seeds, say, stop
from benchmarks.json_files import check_known
from benchmarks.training import options
from benchmarks.training.options import SIZES, WHAT, WHERE, check_model, check_sight, known_env, of, on_data

DEFAULT_METHODS = "grpo,gigpo,rewardflow,graphgpo"


def learning(
    context: typer.Context,
    env: options.Env = "sokoban",
    option: options.EnvOption = None,
    methods: Annotated[
        str,
        of(
            WHAT,
            "Credit methods, separated by commas: recipes, options after a colon, such as gigpo:gamma=.9:std=none; "
            "functions of your own, my_module:credit; or imitation: sft, rft, hindsight, dpo, eto, ipr, stepagent, "
            "spear.",
            autocompletion=options.method_names,
        ),
    ] = DEFAULT_METHODS,
    seeds: options.Seeds = "0",
    model: options.Model = "tiny",
    lora: Annotated[int, of(WHAT, "Rank of the adapter; 0: all weights. Clones train all weights.", min=0)] = 0,
    download: options.Download = False,
    quick: options.Quick = False,
    steps: options.Steps = None,
    groups: options.Groups = None,
    group_size: options.GroupSize = None,
    clone_tasks: Annotated[int | None, of(SIZES, "Expert episodes of the warm start; 0: none.", min=0)] = None,
    clone_epochs: Annotated[int | None, of(SIZES, "Epochs over them.", min=1)] = None,
    clone_rate: Annotated[float | None, of(SIZES, "Learning rate of cloning; random weights need 3e-3.", min=0)] = None,
    eval_tasks: Annotated[int | None, of(SIZES, "Held-out test tasks.", min=2)] = None,
    validation_tasks: options.ValidationTasks = None,
    validation_every: Annotated[int | None, of(SIZES, "Iterations between validations.", min=1)] = None,
    history: options.History = None,
    transcript: options.Transcript = False,
    jobs: options.Jobs = None,
    out: options.Out = None,
    version: options.Version = False,
) -> None:
    """Train policies with each credit method and compare them on held-out tasks.

    An expert is cloned, every method trains the clone, and all policies are tested on held-out tasks. Prints one table
    and writes results.json, curves.png and a self-contained report.html. The same command continues after Ctrl-C.
    """
    if context.invoked_subcommand is not None:
        return
    given = arguments(option or ())
    env = known_env(env, pictures=True)
    from baselines.environments.registry import settings_of
    from baselines.environments.sokoban import SOKOBAN
    from baselines.runs.config import make_config

    row = settings_of(env)
    stated = named(
        steps=steps, groups=groups, group_size=group_size, clone_tasks=clone_tasks, clone_epochs=clone_epochs,
        eval_tasks=eval_tasks, validation_tasks=validation_tasks, validation_every=validation_every,
    )  # fmt: skip
    played = row.played_by(model)
    sizes = dataclasses.replace(played.quick if quick else played.full, **stated)
    model = check_model(model, download=download)
    check_sight(row.id, model, download=download)
    config = make_config(
        row, methods=options.named_methods(methods, imitation=True), seeds=parse_seeds(seeds), model=model,
        history=history, sizes=sizes, lora=lora, transcript=transcript,
    )  # fmt: skip
    if clone_rate is not None:
        config.setup.clone["learning_rate"] = clone_rate
    config, source = on_data(config, row, given, stated=list(stated))
    _check_envs(config)
    names = ("learning", "quick") if row.name == SOKOBAN.name else (row.name, f"{row.name}-quick")
    _learn(config, out or Path("runs") / names[quick], jobs, source)
    if sizes.steps <= row.quick.steps:
        say(
            None,
            f"{sizes.steps} iterations of {sizes.groups * sizes.group_size} episodes are a smoke test: that everything "
            "works, not which method is better. For a result leave --quick and --steps out.",
            "yellow",
        )


def _learn(config: Any, folder: Path, processes: int | None, source: Any) -> None:
    from benchmarks.training.learning import on

    on(source).carry_out(config, folder, processes)


def _check_envs(config: Any) -> None:
    """Refuse an environment without an expert, or a method that needs more than it has, before any training."""
    from agentgym.rollout.hindsight import relabelling_env
    from baselines.imitation.method import Imitation
    from baselines.recipes.methods import method as method_of
    from baselines.runs.stack import make_envs

    why = "this benchmark also plays a random policy and an expert (train and head-to-head do not)"
    options.check_infos(config.env, "admissible_actions", "expert_action", why=why)
    for method in map(method_of, config.methods):
        try:
            if not isinstance(method, Imitation):
                if method.own_env is not None:
                    make_envs(config, 1, own=method.own_env, training=True)
                if method.scorer is not None:
                    method.scorer.check_envs(lambda: make_envs(config, 1))
            elif not config.clone_tasks:
                raise ValueError("learns from the expert's episodes, and --clone-tasks 0 leaves none")
            elif getattr(method, "hindsight", False):
                relabelling_env(make_envs(config, 1))
        except (TypeError, ValueError) as error:
            raise typer.BadParameter(f"{method.name}: {error}", param_hint="--methods") from None


def report(folder: Annotated[Path, typer.Argument(help="Folder with a results.json.")]) -> None:
    """Print the table and rebuild the pictures and the page from results.json."""
    from rich.console import Console

    from benchmarks.training.learning import STUDY

    with explained("stopped; `report` writes pictures and page"):
        STUDY.show(STUDY.load(folder / STUDY.file), folder, Console())


def check(folder: Annotated[Path, typer.Argument(help="Folder of a finished benchmark.")]) -> None:
    """Check that the files of a finished benchmark are complete (for CI)."""
    from benchmarks.training.artefacts import check_artefacts

    if not folder.is_dir():
        raise stop(f"{folder}: no such folder", 2)
    try:
        for line in check_artefacts(folder):
            say(None, line)
    except DataError as error:
        raise stop(str(error), 1) from None


_LEARNING, _MEMORY, _WARM, _EVALUATION, _TRACKING = "Learning", "Memory", "Warm start", "Evaluation", "Tracking"


def _settings_shown(word: str) -> None:
    from rich.console import Console

    from baselines.config import explained as meanings
    from benchmarks.console import table

    try:
        rows = meanings(None if word == "list" else word)
    except ValueError as error:
        raise typer.BadParameter(f"expected name=value, list, or a group; {error}", param_hint="--set") from None
    Console().print(table(["setting", "default", "meaning"], rows, left=3))


def train(
    env: options.Env = "sokoban",
    option: options.EnvOption = None,
    data: Annotated[Path | None, of(WHAT, "Folder of the official data, as --option data=FOLDER.")] = None,
    model: options.Model = "tiny",
    download: options.Download = False,
    method: Annotated[
        str,
        of(
            WHAT,
            "Credit method: a recipe, options after a colon each, or my_module:credit.",
            autocompletion=options.method_names,
        ),
    ] = "grpo",
    paper: Annotated[bool, of(WHAT, "Use the settings that the method's paper prints.", "--paper")] = False,
    script: Annotated[bool, of(WHAT, "Use the authors' run script where it differs.", "--script")] = False,
    seed: Annotated[int, of(WHAT, "Seed of all random numbers.", min=0)] = 0,
    quick: options.Quick = False,
    history: options.History = None,
    transcript: options.Transcript = False,
    truncate: Annotated[str | None, of(SIZES, "Prompts that do not fit: raise, left (cut) or end-episode.")] = None,
    iterations: Annotated[
        int | None, of(_LEARNING, "Iterations; a larger number extends a run.", "--iterations", "--steps", min=1)
    ] = None,
    groups: Annotated[int | None, of(_LEARNING, "Tasks per iteration.", min=1)] = None,
    group_size: Annotated[int | None, of(_LEARNING, "Episodes per task.", min=2)] = None,
    learning_rate: Annotated[float | None, of(_LEARNING, "AdamW's. Default: the environment's.", min=0)] = None,
    precision: Annotated[str | None, of(_LEARNING, "Precision of computing, bf16 or fp32; weights are fp32.")] = None,
    lora: Annotated[int | None, of(_LEARNING, "Rank of the adapter; 0: none. Default: the paper's.", min=0)] = None,
    change: Annotated[
        list[str] | None,
        of(
            _LEARNING,
            "Any setting of TrainerConfig, such as loss.kl=0.02. --set list shows all, --set loss a "
            "group: rollout, optimiser, loss, distillation, memory, schedule, validation, checkpoint.",
            "--set",
        ),
    ] = None,
    pass_tokens: Annotated[int | None, of(_MEMORY, "Tokens per pass. Default: by device.", min=1)] = None,
    recompute: Annotated[
        bool | None, of(_MEMORY, "Recompute activations in the backward pass.", "--recompute/--no-recompute")
    ] = None,
    plan: Annotated[bool, of(_MEMORY, "Print memory, tokens and hours, and exit.", "--plan")] = False,
    card: Annotated[str | None, of(_MEMORY, "With --plan: the GPU, h100, a100, l40s or rtx4090.")] = None,
    clone: Annotated[
        str | None,
        of(
            _WARM,
            "Expert episodes to imitate first, or a file of episodes (JSON lines with messages). Default: the "
            "environment's for tiny, 0 for other models and with --paper or --from.",
        ),
    ] = None,
    start: Annotated[
        Path | None, of(_WARM, "Start from the policy of an earlier run: its folder, or one of its models.", "--from")
    ] = None,
    validation_tasks: Annotated[int | None, of(_EVALUATION, "Validation tasks.", min=2)] = None,
    validation_every: Annotated[int | None, of(_EVALUATION, "Iterations between validations.", min=1)] = None,
    test_tasks: Annotated[int, of(_EVALUATION, "Held-out tasks for the final policy, played greedily.", min=0)] = 0,
    tracker: Annotated[
        str, of(_TRACKING, "tensorboard, wandb, trackio, several with commas, or none.")
    ] = "tensorboard",
    project: Annotated[str, of(_TRACKING, "Project of wandb and trackio.")] = "stepcredit",
    push: Annotated[str | None, of(_TRACKING, "Upload final/ to this private repository of your hub login.")] = None,
    out: options.Out = None,
    engine: Annotated[str, of(WHERE, "Generates replies: loop (the model), vllm, vllm:sleep, server:URL.")] = "loop",
    lanes: Annotated[int, of(WHERE, "Lanes of episodes that do not wait for each other's replies.", min=1)] = 1,
    attention: Annotated[str | None, of(WHERE, "Attention implementation of transformers. Default: by device.")] = None,
    only_print: Annotated[bool, of(WHERE, "Print the settings and exit.", "--print")] = False,
) -> None:
    """Train a policy by one method; `from baselines import train` is the same in Python.

    Prints a plan of memory and time first. Writes a log, samples, checkpoints, the final model with its card, and a
    page that is updated during the run. With --paper it first lists differences from the paper. The same command
    continues after Ctrl-C.
    """
    for word in change or ():
        if "=" not in word:
            _settings_shown(word)
            return
    env_options, changes = arguments(option or ()), arguments(change or (), "--set")
    env = known_env(env, pictures=True)
    from rich.console import Console

    from baselines.config import TrainerConfig
    from baselines.environments.registry import settings_of
    from baselines.recipes import papers, recipe
    from baselines.runs import card as cards
    from baselines.runs.engine import Engine
    from baselines.runs.plan import DoesNotFitError, Planner
    from baselines.runs.plan import card as card_of
    from baselines.runs.settings import run_settings

    row = settings_of(env)
    trackers = [name.strip() for name in tracker.split(",") if name.strip() not in ("", "none")]
    check_known("tracker", trackers, ("tensorboard", "wandb", "trackio"))
    memory = {"memory.microbatch_tokens": pass_tokens, "memory.activation_checkpointing": recompute}
    changes = named(learning_rate=learning_rate, **memory) | changes
    sizes = named(
        steps=iterations, groups=groups, group_size=group_size, validation_tasks=validation_tasks,
        validation_every=validation_every, eval_tasks=test_tasks or None,
    )  # fmt: skip
    if data is not None:
        if not row.data:
            raise typer.BadParameter(f"{row.id} plays no data of others", param_hint="--data")
        env_options = {next(iter(row.data)): str(data)} | env_options
    try:
        begun = None
        if start is not None:
            model, begun = cards.earlier(start)
        model = check_model(model, download=download)
        check_sight(row.id, model, download=download)
        device = None if card is None else card_of(card)
        if device is not None and not plan:
            raise ValueError("--card is a part of --plan: a run is on this machine")
        if push is not None and not (plan or only_print):
            cards.check_login(push)
        writer = Engine.read(engine)
        printed = papers.paper(method, row.name, "script" if script else "paper") if paper or script else None
        if printed is None:
            recipe(method)
        settings = run_settings(
            row, method=method, model=model, seed=seed, quick=quick, lora=lora, history=history, paper=printed,
            sizes=sizes, changes=changes, transcript=transcript, truncate=truncate,
            clone=int(clone) if clone is not None and clone.isdecimal() else clone, precision=precision, start=begun,
        )  # fmt: skip
    except (TypeError, ValueError) as error:
        raise stop(str(error), 2) from None
    stated = [*sizes, *["clone_tasks"] * (clone is not None)]
    config, source = on_data(
        settings.config, row, env_options, stated=stated, whole=not quick, show=("training_tasks", "validation_tasks")
    )
    settings = dataclasses.replace(settings, config=config, source=source, variable=next(iter(row.data.items()), None))
    console = Console()
    plain = TrainerConfig().settings()
    for line in settings.paper_report():
        say(console, line)
    if only_print:
        for name, value in settings.training.settings().items():
            if value != plain[name]:
                say(console, f"  {name} = {value!r}")
        return
    try:
        settings.method  # noqa: B018  # before anything heavy is loaded
        planner = Planner(settings, device, attention, writer)
        planned = planner.plan(settings)
        for line in planned.lines(settings.training.iterations):
            say(console, line)
        planner.check(settings)
    except (NotImplementedError, DataError) as error:
        raise stop(str(error), 2) from None
    except DoesNotFitError as error:
        raise stop(str(error), 1) from None
    if plan:
        return
    from benchmarks.training.train import run_training
    from policies.engines.engine import EngineError

    folder = out or Path("runs") / "train" / f"{row.name}-{method}-seed{seed}"
    with explained("stopped; the same command continues where it was", "The same command continues."):
        try:
            page = run_training(
                settings, folder, console, planned, trackers=trackers, project=project, engine=writer, lanes=lanes,
                attention=attention, test_tasks=test_tasks,
            )  # fmt: skip
        except (ValueError, ImportError) as error:
            raise stop(str(error), 2) from None
        except EngineError as error:
            raise stop(f"{error}\nThe same command continues.", 1) from None
        if push is not None:
            say(console, f"pushed: {cards.push(folder / 'final', push)}")
    say(console, f"model: {folder / 'final'}\nlog: {folder / 'log.jsonl'}\nreport: {page}")
