"""`train`: one training run with any model."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.console import arguments, explained, say, stop
from benchmarks.training.options import check_model, check_sight, known_env, on_data

_WHAT, _SIZES, _WHERE = "What", "Sizes", "Where and how"


def train(
    env: Annotated[
        str, typer.Option(help="Environment: a name such as [bold]alfworld[/], or an id.", rich_help_panel=_WHAT)
    ] = "sokoban",
    option: Annotated[
        list[str] | None,
        typer.Option(
            help="Argument of the environment, such as [bold]data=FOLDER[/]; as often as needed. Without one, the "
            "variables count that it has for its data, such as ALFWORLD_DATA.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            help="[bold]tiny[/], [bold]smollm2[/] or the folder of a Hugging Face causal language model.",
            rich_help_panel=_WHAT,
        ),
    ] = "tiny",
    download: Annotated[
        bool, typer.Option("--download", help="Fetch a model that is named as on the hub.", rich_help_panel=_WHAT)
    ] = False,
    method: Annotated[
        str, typer.Option(help="Credit method, a name in baselines.recipes.", rich_help_panel=_WHAT)
    ] = "grpo",
    paper: Annotated[
        bool, typer.Option("--paper", help="Settings as the method's paper prints them.", rich_help_panel=_WHAT)
    ] = False,
    script: Annotated[
        bool,
        typer.Option("--script", help="As the authors' run script has them, where it differs.", rich_help_panel=_WHAT),
    ] = False,
    lora: Annotated[
        int | None,
        typer.Option(
            min=0, help="Rank of an adapter; 0: all weights. Default: the paper's, else 0.", rich_help_panel=_WHAT
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of everything that is drawn.", rich_help_panel=_WHAT)] = 0,
    change: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="A setting of TrainerConfig, such as loss.kl=0.02; as often as needed.", rich_help_panel=_WHAT
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A smoke test's sizes.", rich_help_panel=_SIZES)] = False,
    steps: Annotated[int | None, typer.Option(min=1, help="Iterations.", rich_help_panel=_SIZES)] = None,
    groups: Annotated[int | None, typer.Option(min=1, help="Tasks per iteration.", rich_help_panel=_SIZES)] = None,
    group_size: Annotated[int | None, typer.Option(min=2, help="Episodes per task.", rich_help_panel=_SIZES)] = None,
    validation_tasks: Annotated[
        int | None, typer.Option(min=2, help="Tasks of the learning curve.", rich_help_panel=_SIZES)
    ] = None,
    history: Annotated[
        int | None, typer.Option(min=0, help="Earlier steps in the prompt.", rich_help_panel=_SIZES)
    ] = None,
    transcript: Annotated[
        bool,
        typer.Option(
            "--transcript",
            help="Prompts are the whole conversation of an episode, not the papers' window of steps.",
            rich_help_panel=_SIZES,
        ),
    ] = False,
    truncate: Annotated[
        str | None,
        typer.Option(
            help="Prompts that do not fit: [bold]raise[/], [bold]left[/] (cut) or [bold]end-episode[/]. "
            "Default: as the model's settings say, else raise.",
            rich_help_panel=_SIZES,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the run; the same command continues there. Default: runs/train/<env>-<method>-seed<n>.",
            rich_help_panel=_WHERE,
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            help="Who writes the replies: the [bold]loop[/] over the model itself, [bold]vllm[/] in this process, or "
            "[bold]server:URL[/] (OpenAI-compatible, with token ids).",
            rich_help_panel=_WHERE,
        ),
    ] = "loop",
    lanes: Annotated[
        int,
        typer.Option(
            min=1,
            help="Parts of the episodes that do not wait for each other's replies; 1: all take their steps together.",
            rich_help_panel=_WHERE,
        ),
    ] = 1,
    tracker: Annotated[
        str, typer.Option(help="Send rows to [bold]wandb[/] or [bold]trackio[/].", rich_help_panel=_WHERE)
    ] = "none",
    project: Annotated[str, typer.Option(help="Of the tracker.", rich_help_panel=_WHERE)] = "stepcredit",
    only_print: Annotated[
        bool, typer.Option("--print", help="Print the settings and end.", rich_help_panel=_WHERE)
    ] = False,
) -> None:
    """Train a policy by one method, and leave log, samples, checkpoints, the final model and a page.

    With [bold]--paper[/] it says before it starts what differs from the paper. Ctrl-C and the same command again: it
    goes on where it was.
    """
    from baselines.config import TrainerConfig
    from baselines.environments.registry import settings_of
    from baselines.recipes import papers, recipe
    from benchmarks.train.engine import Engine
    from benchmarks.train.settings import run_settings

    named, changes = arguments(option or ()), arguments(change or (), "--set")
    row = settings_of(known_env(env, pictures=True))
    model = check_model(model, download=download)
    check_sight(row.id, model, download=download)
    given = {"steps": steps, "groups": groups, "group_size": group_size, "validation_tasks": validation_tasks}
    sizes = {name: value for name, value in given.items() if value is not None}
    if tracker not in ("none", "wandb", "trackio"):
        raise typer.BadParameter(f"expected wandb or trackio, got {tracker!r}", param_hint="--tracker")
    try:
        writer = Engine.read(engine)
        printed = papers.paper(method, row.name, "script" if script else "paper") if paper or script else None
        if printed is None:
            recipe(method)
        settings = run_settings(
            row, method=method, model=model, seed=seed, quick=quick, lora=lora, history=history, paper=printed,
            sizes=sizes, changes=changes, transcript=transcript, truncate=truncate,
        )  # fmt: skip
    except (TypeError, ValueError) as error:
        raise stop(str(error), 2) from None
    config, source = on_data(
        settings.config, row, named, asked=list(sizes), whole=not quick, told=("training_tasks", "validation_tasks")
    )
    settings = dataclasses.replace(settings, config=config, source=source, variable=next(iter(row.data.items()), None))
    console = Console()
    plain = TrainerConfig().settings()
    for line in settings.told():
        say(console, line)
    if only_print:
        for name, value in settings.training.settings().items():
            if value != plain[name]:
                say(console, f"  {name} = {value!r}")
        return
    try:
        settings.method  # noqa: B018  # before anything heavy is loaded
    except NotImplementedError as error:
        raise stop(str(error), 2) from None
    from benchmarks.train.run import run_training
    from policies.engines.engine import EngineError

    folder = out or Path("runs") / "train" / f"{row.name}-{method}-seed{seed}"
    with explained("stopped; the same command continues where it was", "The same command continues."):
        try:
            page = run_training(settings, folder, console, tracker=tracker, project=project, engine=writer, lanes=lanes)
        except (ValueError, ImportError) as error:
            raise stop(str(error), 2) from None
        except EngineError as error:
            raise stop(f"{error}\nThe same command continues.", 1) from None
    say(console, f"model: {folder / 'final'}\nlog: {folder / 'log.jsonl'}\nreport: {page}")
