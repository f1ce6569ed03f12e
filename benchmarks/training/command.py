"""The default benchmark as a command, and `report` and `check` of what it left.

Nothing heavy is imported before it is needed: the help and a wrong name cost little.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from agentgym.outside.text import DataError
from benchmarks import options
from benchmarks.console import arguments, explained, named, parse_seeds, say, stop
from benchmarks.options import SIZES, WHAT, check_model, known_env, of, on_data


def learning(
    context: typer.Context,
    env: options.Env = "sokoban",
    option: options.EnvOption = None,
    methods: Annotated[
        str,
        of(
            WHAT,
            "Credit methods, separated by commas: recipes, options after a colon, such as METHOD:gamma=.9:std=none; "
            "functions of your own, my_module:credit; or imitation: sft, rft, hindsight, dpo, eto, ipr, stepagent, "
            "spear.",
            autocompletion=options.method_names,
        ),
    ] = ",".join(options.METHODS),
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
    validation_every: options.ValidationEvery = None,
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
    model = check_model(model, row.id, download=download)
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


def _learn(config: Any, folder: Path, processes: int | None, source: Any) -> None:
    from benchmarks.training.learning import STUDY

    dataclasses.replace(STUDY, source=source).carry_out(config, folder, processes)


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
