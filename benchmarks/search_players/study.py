"""`search-players`: what does a policy reach that may try before it plays, at fixed budgets of simulated steps?

Every method plays every task once with every budget. The folder then holds

    config.json             what was asked; another configuration needs another folder
    <player>-<budget>.json  finished players: the same command continues
    search.json             everything that was found, see `benchmarks.search_players.results`
    report.html             the table, and the searches of one task as graphs
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import typer
from rich.console import Console

from agentgym.checks import suggest
from agentgym.rollout import Policy, collect
from agentgym.trajectory import StepTable
from baselines.environments.registry import settings_of
from baselines.environments.settings import TINY, tasks
from baselines.evaluation import at_temperature
from benchmarks.config import Config, make_config
from benchmarks.console import explained, parse_seeds, say, telling
from benchmarks.json_files import ResultsError, claimed, created, load_or_make
from benchmarks.learning.command import known_env
from benchmarks.learning.stack import learned_config, make_envs
from benchmarks.machine import describe_machine
from benchmarks.search_players.picture import search_graph
from benchmarks.search_players.report import write_search_report
from benchmarks.search_players.results import VERSION, SearchConfig, SearchResults, SearchScore, save
from benchmarks.search_players.table import BASE, print_search
from policies.scripted import RandomPolicy
from policies.search.beam import Beam
from policies.search.best_of_n import BestOfN
from policies.search.budget import Budget
from policies.search.mcts import MCTS
from policies.search.player import Method, SearchPlayer
from policies.search.proposals import Listed
from policies.search.value import Value
from wrappers import VectorSnapshots

RESULTS = "search.json"
RANDOM, GREEDY = "random", "greedy"
OUTCOMES = ("score", "won", "return")
#: Ways to search; how long they go on is the budget's business.
METHODS: dict[str, Method] = {"best_of_n": BestOfN(n=1_000_000), "beam": Beam(width=8, samples=4), "mcts": MCTS()}
FULL_BUDGETS, QUICK_BUDGETS = "100,300,1000", "50,200"
FULL_TASKS, QUICK_TASKS = 128, 32

#: Called with a few words about what is done.
Progress = Callable[[str], None]


def run_search(config: SearchConfig, folder: Path, progress: Progress = lambda words: None) -> SearchResults:
    """Play what is not finished yet, and write `search.json`.

    Args:
        config: what to run.
        folder: where; created when missing.
        progress: called with what is done.

    Raises:
        agentgym.outside.files.LockedError: another process works in the folder.
        benchmarks.json_files.OtherConfigurationError: the folder holds another configuration.
        ResultsError: the policy's folder holds none for this environment, or a finished player's file is damaged.
        KeyboardInterrupt: Ctrl-C; call again to continue.
    """
    with claimed(folder, config):
        policy, played = _player(config)
        alone = [(BASE, 0)] if config.policy == RANDOM else [(BASE, 0), (GREEDY, 0)]
        scores = []
        for player, budget in (*alone, *((method, budget) for method in config.methods for budget in config.budgets)):
            progress(f"{player}, {budget} steps" if budget else f"the policy itself, {player}")
            make = functools.partial(measure, config, played, policy, player, budget)
            scores.append(load_or_make(SearchScore, folder / f"{player}-{budget}.json", make, progress))
        found = SearchResults(VERSION, created(), config, describe_machine(), scores)
        save(found, folder / RESULTS)
    return found


def _player(config: SearchConfig) -> tuple[Policy, Config]:
    """Return the policy, and how it is shown the environment."""
    if config.policy == RANDOM:
        row = settings_of(config.env)
        played = make_config(row, methods=["grpo"], seeds=[0], model=TINY, history=None, sizes=row.full)
        return RandomPolicy(), dataclasses.replace(played, setup=dataclasses.replace(played.setup, plenty={}))
    import transformers

    from policies.huggingface import HuggingFacePolicy

    transformers.utils.logging.disable_progress_bar()
    job = Path(config.policy)
    played = learned_config(job)
    if played.env != config.env:
        raise ResultsError(f"{job}: a policy for {played.env}, not for {config.env}")
    return HuggingFacePolicy.from_pretrained(job / "model").with_settings(temperature=played.temperature), played


def measure(config: SearchConfig, played: Config, policy: Policy, player: str, budget: int) -> SearchScore:
    """Let one player play all tasks."""
    begin = time.perf_counter()
    chosen = tasks(config.split, config.tasks)

    def make() -> Any:
        return make_envs(played, config.tasks)

    if not budget:
        acting = at_temperature(policy, 0.0 if player == GREEDY else None)
        table = collect(make(), acting, tasks=chosen, seed=config.seed)
        return _score(player, 0, table, np.zeros(3), time.perf_counter() - begin)
    listed = None
    if config.listed:
        listed = Listed(None if config.policy == RANDOM else policy)
    searching = SearchPlayer(
        make(), policy, METHODS[player], budget=Budget(steps=budget), listed=listed, fresh=config.fresh,
        value=Value(config.outcome, gamma=config.gamma, rollout=config.rollout), keep=True,
    )  # fmt: skip
    table = collect(VectorSnapshots(make()), searching, tasks=chosen, seed=config.seed)
    spent = [[cost.steps, cost.tokens, cost.scored] for cost in searching.costs.values()]
    score = _score(player, budget, table, np.sum(spent, axis=0) / config.tasks, time.perf_counter() - begin)
    # Episodes are numbered as they begin, which is the order of the tasks: fillers come last.
    graph = search_graph(searching.trees[config.shown][0], player, budget, config.seed)
    return dataclasses.replace(score, graph=graph)


def _score(player: str, budget: int, table: StepTable, spent: Any, seconds: float) -> SearchScore:
    success = "".join("1" if won else "0" for won in table.trajectory_won)
    steps, tokens, scored = map(float, spent)
    return SearchScore(
        player, budget, success, steps, tokens, scored, len(table) / table.n_trajectories, seconds, None
    )  # fmt: skip


def search_players(
    env: Annotated[
        str,
        typer.Option(
            help="[bold]sokoban[/], [bold]alfworld[/], [bold]webshop[/], [bold]searchqa[/], [bold]sotopia[/] or an id."
        ),
    ] = "sokoban",
    policy: Annotated[
        str,
        typer.Option(
            help="[bold]random[/], or a job folder of a learning benchmark such as runs/learning/clone-seed0."
        ),
    ] = RANDOM,
    methods: Annotated[str, typer.Option(help="Ways to search, separated by commas.")] = ",".join(METHODS),
    budgets: Annotated[
        str | None, typer.Option(help=f"Simulated steps per episode. Default: {FULL_BUDGETS}, quick {QUICK_BUDGETS}.")
    ] = None,
    count: Annotated[
        int | None,
        typer.Option("--tasks", min=2, help=f"Number of tasks. Default: {FULL_TASKS}, with --quick {QUICK_TASKS}."),
    ] = None,
    split: Annotated[str | None, typer.Option(help="Whose tasks. Default: the split of the test.")] = None,
    listed: Annotated[
        bool | None,
        typer.Option(
            "--listed/--drawn",
            help="Replies are the admissible commands with the policy's probabilities, or drawn from the policy. "
            "Default: listed for the random policy, drawn from models.",
        ),
    ] = None,
    rollout: Annotated[
        int | None,
        typer.Option(
            min=-1,
            help="Steps that the policy plays on from a new state; -1: to the end. Default: 0 for the random policy, "
            "which judges states as they stand, -1 for models.",
        ),
    ] = None,
    outcome: Annotated[
        str, typer.Option(help="What counts: [bold]score[/], [bold]won[/] or [bold]return[/].")
    ] = "score",
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Simulations do not see the random numbers that the episode will see.")
    ] = False,
    show: Annotated[int, typer.Option(min=0, help="Index of the task whose searches are drawn.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Of episodes, policies and searches.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Few tasks and small budgets; for CI.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the results; the same command in it continues. Default: runs/search-players, or "
            "runs/search-players-quick."
        ),
    ] = None,
) -> None:
    """Let search players try before they play, and print success at fixed budgets of simulated steps.

    Best of n, beam search and Monte-Carlo tree search play the same tasks over one policy, which also plays alone.
    Prints one table and writes [bold]search.json[/] and a self-contained [bold]report.html[/] with the searches of one
    task as graphs.
    """
    names = [name.strip() for name in methods.split(",") if name.strip()]
    for name in names:
        if name not in METHODS:
            raise typer.BadParameter(f"unknown name {name!r}; {suggest(name, list(METHODS))}", param_hint="--methods")
    chosen = count or (QUICK_TASKS if quick else FULL_TASKS)
    if show >= chosen:
        raise typer.BadParameter(f"there is no task {show} among {chosen}", param_hint="--show")
    if outcome not in OUTCOMES:
        raise typer.BadParameter(f"unknown outcome {outcome!r}; {suggest(outcome, OUTCOMES)}", param_hint="--outcome")
    row, model = settings_of(known_env(env)), policy != RANDOM
    steps = (-1 if model else 0) if rollout is None else rollout
    config = SearchConfig(
        env=row.id, policy=policy, split=split or row.setup.test, tasks=chosen, methods=names,
        budgets=sorted(parse_seeds(budgets or (QUICK_BUDGETS if quick else FULL_BUDGETS))),
        listed=not model if listed is None else listed, rollout=None if steps < 0 else steps,
        outcome=cast(Any, outcome), gamma=0.99, fresh=fresh, shown=show, seed=seed,
    )  # fmt: skip
    folder = out or Path("runs") / ("search-players-quick" if quick else "search-players")
    console = Console()
    with explained("stopped; the same command continues with the next player"):
        with telling(console, "playing") as tell:
            found = run_search(config, folder, tell)
        print_search(found, console)
        page = write_search_report(found, folder)
    say(console, f"report: {page}\nnumbers: {folder / RESULTS}")
