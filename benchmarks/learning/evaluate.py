"""`evaluate`: one player on a whole split, success per kind of task.

python -m benchmarks.run evaluate --env alfworld --split valid_unseen --policy explorer
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import typer
from rich.console import Console

import agentgym  # noqa: F401  # registers the environments
from agentgym.rollout import Policy
from baselines.evaluation import Evaluation, evaluate
from benchmarks.config import SMOLLM2, TINY, Config, EnvSettings, make_config, tasks
from benchmarks.console import save_figures, say
from benchmarks.environments.registry import settings_of
from benchmarks.json_files import ResultsError
from benchmarks.learning.results import EXPERT, RANDOM
from benchmarks.learning.stack import find_model, holds_model, learned_config, make_envs, new_policy
from benchmarks.learning.table import KindRow, kind_table


@dataclass(frozen=True)
class Request:
    """What is to be played.

    Attributes:
        env: environment id.
        split: which split.
        policy: "random", "expert" (the environment's own), the name of the adviser that is cloned, the job folder of a
            learning benchmark, "smollm2", or the folder of a Hugging Face model.
        options: keyword arguments of the environment that count instead of those of the benchmark.
        tasks: how many tasks; None: all.
        temperature: of a model; 0 is greedy.
        seed: of episodes and draws.
    """

    env: str
    split: str
    policy: str
    options: Mapping[str, Any]
    tasks: int | None = None
    temperature: float = 0.0
    seed: int = 0


def play_split(request: Request) -> Evaluation:
    """Play the split.

    Raises:
        ResultsError: the policy is nothing of what it may be, or was trained in another environment.
        ValueError: the environment refuses split, options or tasks.
    """
    row = settings_of(request.env)
    policy, config = _player(request, row)
    options = {**(row.pretrained_setup or row.setup).options, **request.options}
    config = dataclasses.replace(config, setup=dataclasses.replace(config.setup, options=options, plenty={}))
    size = split_size(config, request.split)
    count = request.tasks or size
    if not count:
        raise ResultsError(f"split {request.split!r} has no task for these arguments: {options}")
    model = request.policy not in scripted(row)
    kinds = config.setup.kinds
    return evaluate(
        make_envs(config, count, expert=not model and request.policy != RANDOM), policy,
        tasks(request.split, count), seed=request.seed, temperature=request.temperature if model else None,
        columns=(kinds,) if kinds else (),
    )  # fmt: skip


def split_size(config: Config, split: str) -> int:
    """Number of tasks of a split.

    Raises:
        ResultsError: the environment takes no argument of that name.
    """
    try:
        env: Any = gym.make(config.env, **config.setup.options).unwrapped
    except TypeError as error:
        raise ResultsError(f"{config.env}: {error}") from error
    return int(env.num_tasks(split))


def scripted(row: EnvSettings) -> tuple[str, ...]:
    """Players of an environment that are no models, by name."""
    return RANDOM, *row.advisers, EXPERT


def _player(request: Request, row: EnvSettings) -> tuple[Policy, Config]:
    from policies.scripted import ExpertPolicy, RandomPolicy

    name, folder = request.policy, Path(request.policy)
    common: dict[str, Any] = {"methods": ["grpo"], "seeds": [0], "history": None, "sizes": row.full}
    if name in scripted(row):
        config = make_config(row, model=TINY, **common)
        plain = row.pretrained_setup or row.setup  # a scripted player needs nothing made easier
        setup = dataclasses.replace(plain, adviser=name if name in row.advisers else "")
        return RandomPolicy() if name == RANDOM else ExpertPolicy(), dataclasses.replace(config, setup=setup)
    from policies.huggingface import HuggingFacePolicy

    if holds_model(folder / "model"):
        config = learned_config(folder)
        if config.env != row.id:
            raise ResultsError(f"{folder}: a policy for {config.env}, not for {row.id}")
        return HuggingFacePolicy.from_pretrained(folder / "model"), config
    try:
        config = make_config(row, model=name if name == SMOLLM2 else find_model(name), **common)
    except ResultsError as error:
        raise ResultsError(
            f"unknown policy {name!r}; expected {', '.join(scripted(row))}, a job folder of a learning benchmark such "
            f"as runs/alfworld/clone-seed0, or the folder or hub name of a Hugging Face model; {error}"
        ) from error
    return new_policy(config, 0), config


def evaluate_command(
    env: Annotated[
        str,
        typer.Option(
            help="[bold]alfworld[/], [bold]virtualhome[/], [bold]webshop[/], [bold]searchqa[/], [bold]sotopia[/], "
            "[bold]sokoban[/] or an id."
        ),
    ] = "alfworld",
    split: Annotated[str | None, typer.Option(help="Whose tasks. Default: the split of the test.")] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="[bold]random[/], [bold]expert[/] (the environment's own), [bold]explorer[/], [bold]helper[/], "
            "[bold]shopper[/] and [bold]reader[/] (know what they have seen in ALFWorld, VirtualHome, WebShop and "
            "Search-QA), a job folder such as runs/alfworld/clone-seed0, [bold]smollm2[/], or the folder of a Hugging "
            "Face model. May be given several times. Default: all that need no folder."
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            help="Argument of the environment, such as [bold]data=FOLDER[/] or [bold]task_types=\\[1,2][/]. May be "
            "given several times."
        ),
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Longest episode. Default: the environment's.")] = None,
    count: Annotated[
        int | None, typer.Option("--tasks", min=1, help="Number of tasks. Default: the whole split.")
    ] = None,
    temperature: Annotated[float, typer.Option(min=0, help="Of a model; 0 is greedy.")] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Of episodes and draws.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Also write the figures to this JSON file.")] = None,
) -> None:
    """Play a whole split and print success per kind of task, as papers do."""
    row = settings_of(env)
    split = split or row.setup.test
    options = {**arguments(option or ()), "split": split}
    if steps is not None:
        options["max_episode_steps"] = steps
    console, rows = Console(), []
    figures: dict[str, dict[str, Any]] = {}
    try:
        for player in policy or scripted(row):
            played = play_split(Request(row.id, split, player, options, count, temperature, seed))
            kinds = played.success_by(row.setup.kinds) if row.setup.kinds else {"": played.success}
            won = {kind: int(success.sum()) for kind, success in kinds.items()}
            sizes = {kind: success.size for kind, success in kinds.items()}
            summary = played.summary()
            rows.append(KindRow(Path(player).name or player, won, sizes, summary["invalid_rate"]))
            figures[player] = {**summary, "won": won, "played": sizes}
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    played_kinds = {kind: name for kind, name in row.kind_names.items() if any(kind in line.played for line in rows)}
    console.print(kind_table(f"{row.id}, {split}", rows, played_kinds))
    for (player, found), line in zip(figures.items(), rows, strict=True):
        say(
            console,
            f"{line.label}: {row.return_name} {found['mean_return']:.2f}, {found['episode_length']:.1f} steps",
        )
        if player != line.label:
            say(console, f"  ({player})", "dim")
    save_figures(figures, out)


def arguments(given: Sequence[str]) -> dict[str, Any]:
    """Read "name=value" words; a value that is JSON is what it says, any other is text.

    >>> arguments(["data=~/alfworld", "task_types=[1, 2]", "reward=10"])
    {'data': '~/alfworld', 'task_types': [1, 2], 'reward': 10}
    """
    found: dict[str, Any] = {}
    for word in given:
        name, equals, value = word.partition("=")
        if not (equals and name.isidentifier()):
            raise typer.BadParameter(f"expected name=value, got {word!r}", param_hint="--option")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found
