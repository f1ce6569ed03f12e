"""The main command, and `report` and `check` of what it left.

Nothing heavy is imported before it is needed: every process of a benchmark begins by importing this file.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from agentgym.outside.text import DataError
from benchmarks.console import arguments, explained, parse_seeds, say, stop
from benchmarks.machine import usable_cores
from benchmarks.training.options import check_model, check_sight, known_env, named_methods, on_data

DEFAULT_METHODS = "grpo,gigpo,rewardflow,graphgpo"
_SIZES, _WHERE = "Sizes", "Where and how"


def learning(
    context: typer.Context,
    env: Annotated[
        str,
        typer.Option(
            help="[bold]sokoban[/], [bold]visualsokoban[/], [bold]alfworld[/], [bold]virtualhome[/], "
            "[bold]webshop[/], [bold]searchqa[/], [bold]sotopia[/], or an environment's id.",
            rich_help_panel="What",
        ),
    ] = "sokoban",
    option: Annotated[
        list[str] | None,
        typer.Option(
            help="Argument of the environment, such as [bold]data=FOLDER[/]; as often as needed. Without one, the "
            "variables count that it has for its data, such as ALFWORLD_DATA.",
            rich_help_panel="What",
        ),
    ] = None,
    methods: Annotated[
        str,
        typer.Option(
            help="Credit methods, separated by commas: names in baselines.recipes, options after a colon each, such as "
            "[bold]gigpo:gamma=.9:std=none[/]; functions of your own, [bold]my_module:credit[/]; or imitation: "
            "[bold]sft[/], [bold]rft[/], [bold]hindsight[/], [bold]dpo[/], [bold]eto[/], [bold]ipr[/], "
            "[bold]stepagent[/], [bold]spear[/].",
            rich_help_panel="What",
        ),
    ] = DEFAULT_METHODS,
    seeds: Annotated[str, typer.Option(help="Training seeds: 0,1,2 or 0-2.", rich_help_panel="What")] = "0",
    model: Annotated[
        str,
        typer.Option(
            help="[bold]tiny[/] (0.2M parameters, built from a config, no download), [bold]smollm2[/] (135M, a real "
            "pretrained model: downloads 93 MB once), or another Hugging Face causal language model: its folder, or "
            "its name on the hub, such as [bold]Qwen/Qwen3-0.6B[/].",
            rich_help_panel="What",
        ),
    ] = "tiny",
    lora: Annotated[
        int,
        typer.Option(
            min=0,
            help="Rank of an adapter that is trained instead of all weights, at ten times the learning rate; 0: all "
            "weights. The clone is trained whole.",
            rich_help_panel="What",
        ),
    ] = 0,
    download: Annotated[
        bool,
        typer.Option(
            "--download", help="Fetch a model from the hub that the local cache does not hold.", rich_help_panel="What"
        ),
    ] = False,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Everything small: under three minutes on two cores, for CI. Sizes given besides it still count.",
            rich_help_panel=_SIZES,
        ),
    ] = False,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Reinforcement-learning iterations per run.", rich_help_panel=_SIZES)
    ] = None,
    groups: Annotated[int | None, typer.Option(min=1, help="Tasks per iteration.", rich_help_panel=_SIZES)] = None,
    group_size: Annotated[int | None, typer.Option(min=2, help="Episodes per task.", rich_help_panel=_SIZES)] = None,
    clone_tasks: Annotated[
        int | None, typer.Option(min=0, help="Expert episodes of the warm start; 0: none.", rich_help_panel=_SIZES)
    ] = None,
    clone_epochs: Annotated[int | None, typer.Option(min=1, help="Passes over them.", rich_help_panel=_SIZES)] = None,
    clone_rate: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Highest learning rate of the warm start. Default: 3e-3 for tiny, 2e-4 for smollm2, 1e-5 for other "
            "models, which moves random weights nowhere: those need about 3e-3 too.",
            rich_help_panel=_SIZES,
        ),
    ] = None,
    eval_tasks: Annotated[
        int | None, typer.Option(min=2, help="Held-out test tasks of the table.", rich_help_panel=_SIZES)
    ] = None,
    validation_tasks: Annotated[
        int | None, typer.Option(min=2, help="Tasks of the learning curve.", rich_help_panel=_SIZES)
    ] = None,
    validation_every: Annotated[
        int | None, typer.Option(min=1, help="Iterations between points of the curve.", rich_help_panel=_SIZES)
    ] = None,
    history: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Earlier steps in the prompt. Default for tiny: 0 in Sokoban and WebShop, 8 in ALFWorld, 6 in "
            "VirtualHome, 3 in Search-QA, 4 in SOTOPIA; else 2.",
            rich_help_panel=_SIZES,
        ),
    ] = None,
    transcript: Annotated[
        bool,
        typer.Option(
            "--transcript",
            help="Prompts are the whole conversation of an episode, not a window of steps.",
            rich_help_panel=_SIZES,
        ),
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Processes of one thread each. Default: the number of cores.", rich_help_panel=_WHERE),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the results. The same command in the same folder continues an "
            "interrupted benchmark. Default: runs/learning, or runs/quick; runs/alfworld and runs/alfworld-quick for "
            "ALFWorld, and so on.",
            rich_help_panel=_WHERE,
        ),
    ] = None,
) -> None:
    """Train policies with each credit method and compare them on held-out tasks.

    An expert is cloned, the clone is trained with every method, and all are tested on tasks that none has seen.
    Prints one table and writes [bold]results.json[/], [bold]curves.png[/] and a self-contained
    [bold]report.html[/]. Ctrl-C and the same command again: it goes on where it was.
    """
    if context.invoked_subcommand is not None:
        return
    from baselines.environments.registry import settings_of
    from baselines.environments.sokoban import SOKOBAN
    from benchmarks.config import make_config

    given = arguments(option or ())
    row = settings_of(known_env(env, pictures=True))
    chosen = {
        "steps": steps, "groups": groups, "group_size": group_size, "clone_tasks": clone_tasks,
        "clone_epochs": clone_epochs, "eval_tasks": eval_tasks, "validation_tasks": validation_tasks,
        "validation_every": validation_every,
    }  # fmt: skip
    played = row.played_by(model)
    sizes = dataclasses.replace(
        played.quick if quick else played.full, **{name: value for name, value in chosen.items() if value is not None}
    )
    model = check_model(model, download=download)
    check_sight(row.id, model, download=download)
    config = make_config(
        row, methods=named_methods(methods, imitation=True), seeds=parse_seeds(seeds), model=model,
        history=history, sizes=sizes, lora=lora, transcript=transcript,
    )  # fmt: skip
    if clone_rate is not None:
        config.setup.clone["learning_rate"] = clone_rate
    asked = [name for name, value in chosen.items() if value is not None]
    config, source = on_data(config, row, given, asked=asked)
    _check_envs(config)
    names = ("learning", "quick") if row.name == SOKOBAN.name else (row.name, f"{row.name}-quick")
    folder = out or Path("runs") / names[quick]
    _learn(config, folder, jobs or usable_cores(), source)
    if sizes.steps <= row.quick.steps:
        say(
            Console(),
            f"{sizes.steps} iterations of {sizes.groups * sizes.group_size} episodes are a smoke test: that everything "
            "works, not which method is better. For a result leave --quick and --steps out.",
            "yellow",
        )


def _check_envs(config: Any) -> None:
    """Refuse a method that these environments are not for, or that asks what they do not know, before any training."""
    from agentgym.rollout.hindsight import relabelling_env
    from baselines.imitation.method import Imitation
    from baselines.recipes.methods import method as method_of
    from benchmarks.training.stack import make_envs

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


def _learn(config: Any, folder: Path, processes: int, source: Any) -> None:
    from benchmarks.learning.study import run_learning

    console = Console()
    kept = "Finished jobs are kept: the same command continues."
    with explained("stopped; the same command continues where it was", kept):
        found = run_learning(config, folder, processes=processes, console=console, source=source)
    _show(found, folder, console)


def _show(found: Any, folder: Path, console: Console) -> None:
    from baselines.environments.registry import settings_of
    from benchmarks.learning.report import write_report
    from benchmarks.learning.table import learned_tables, rich_table

    console.print(rich_table(found, console.width))
    for table in learned_tables(found, settings_of(found.config.env).kind_names):
        console.print(table)
    with explained("stopped; `report` writes picture and page"):
        picture, page = write_report(found, folder)
    say(console, f"curves: {picture}\nreport: {page}\nnumbers: {folder / 'results.json'}")


def report(
    folder: Annotated[Path, typer.Argument(help="Folder with a results.json.")],
) -> None:
    """Print the table and rebuild the pictures and the page from [bold]results.json[/]."""
    from benchmarks.learning.results import load

    _show(load(folder / "results.json"), folder, Console())


def check(
    folder: Annotated[Path, typer.Argument(help="Folder of a finished benchmark.")],
) -> None:
    """Check that a finished benchmark left all that learning leaves behind, or `gpu` every figure (for CI)."""
    from benchmarks.gpu.results import RESULTS, check_results
    from benchmarks.learning.artefacts import check_artefacts

    if not folder.is_dir():
        raise stop(f"{folder}: no such folder", 2)
    measured, console = (folder / RESULTS).is_file(), Console()
    try:
        for line in check_results(folder) if measured else check_artefacts(folder):
            say(console, line)
    except DataError as error:
        raise stop(str(error), 1) from None
