"""`study search-players`: success of a policy that searches before it plays, at fixed budgets of simulated steps.

Every method plays every task once with every budget: a part of the study, see `benchmarks.study`.
"""

import contextlib
import dataclasses
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import gymnasium as gym
import numpy as np
import typer

from agentgym.core import TextEnv
from agentgym.rollout import Policy, collect
from agentgym.trajectory import StepTable
from baselines.environments.registry import settings_of
from baselines.environments.settings import TINY, tasks
from baselines.evaluation import at_temperature
from baselines.runs.config import Config
from baselines.runs.stack import make_envs
from benchmarks.console import NONE, option, parse_seeds
from benchmarks.json_files import ResultsError, check_known
from benchmarks.options import check_infos, known_env
from benchmarks.play.players import config_of
from benchmarks.processes import Progress
from benchmarks.report.page import Page, Panel, Table, ruled
from benchmarks.report.state_graph import Graph, placed, search_graph
from benchmarks.statistics import paired_difference, percent, points, success_interval
from benchmarks.study import Found, Study, Tell
from benchmarks.training.run import learned
from policies.scripted import RandomPolicy
from policies.search.methods import MCTS, Beam, BestOfN
from policies.search.player import Method, SearchPlayer
from policies.search.simulator import Listed
from policies.search.tree import Budget, Value
from wrappers import VectorSnapshots

#: The random policy; the policy alone, with which the others are compared; the policy at temperature 0.
RANDOM, BASE, GREEDY = "random", "alone", "greedy"
OUTCOMES = ("score", "won", "return")
#: Ways to search; the budget limits their length.
METHODS: dict[str, Method] = {"best_of_n": BestOfN(n=1_000_000), "beam": Beam(width=8, samples=4), "mcts": MCTS()}
FULL_BUDGETS, QUICK_BUDGETS = "100,300,1000", "50,200"
FULL_TASKS, QUICK_TASKS = 128, 32


@dataclass(frozen=True)
class SearchConfig:
    """The options: the policy "random" or a job folder, and budgets of simulated steps per episode, ascending.

    `listed`: admissible commands are listed with the policy's probabilities, else it is asked for replies; `rollout`:
    steps that it plays on from a new state, None: to the end; `outcome` and `gamma` are `policies.search.tree.Value`'s;
    `fresh`: simulations draw random numbers of their own; the searches of the task `shown` are drawn.
    """

    env: str
    policy: str
    split: str
    tasks: int
    methods: list[str]
    budgets: list[int]
    listed: bool
    rollout: int | None
    outcome: Literal["score", "won", "return"]
    gamma: float
    fresh: bool
    shown: int
    seed: int


@dataclass(frozen=True)
class SearchScore:
    """One player on all tasks: a method, or with budget 0 the policy sampled ("alone") or at temperature 0 ("greedy").

    `success` has a character per task, "1" solved. Means: simulated `steps`, `tokens` written in them, tokens read to
    be `scored`, the `length` of episodes; `seconds` are of the wall for all tasks. `graph` is the search that is drawn.
    """

    player: str
    budget: int
    success: str
    steps: float
    tokens: float
    scored: float
    length: float
    seconds: float
    graph: Graph | None


@dataclass(frozen=True)
class SearchResults(Found):
    """The whole file: one score per player and budget."""

    config: SearchConfig
    scores: list[SearchScore]


def players(config: SearchConfig) -> dict[str, tuple[str, int]]:
    """Player and budget by the name of a part."""
    alone = [(BASE, 0)] if config.policy == RANDOM else [(BASE, 0), (GREEDY, 0)]
    searching = [(method, budget) for method in config.methods for budget in config.budgets]
    return {f"{player}-{budget}": (player, budget) for player, budget in (*alone, *searching)}


@contextlib.contextmanager
def prepare(config: SearchConfig, folder: Path, tell: Tell) -> Iterator[tuple[Policy, Config]]:
    """Yield the policy, and how the environment is shown to it."""
    if config.policy == RANDOM:
        row = settings_of(config.env)
        yield RandomPolicy(), config_of(row, TINY, row.setup.options)
        return
    played, policy = learned(Path(config.policy))
    if played.env != config.env:
        raise ResultsError(f"{config.policy}: a policy for {played.env}, not for {config.env}")
    yield policy, played


def run_player(config: SearchConfig, part: str, context: tuple[Policy, Config], progress: Progress) -> SearchScore:
    """Play all tasks with one player."""
    (policy, played), (player, budget) = context, players(config)[part]
    begin = time.perf_counter()
    chosen = tasks(config.split, config.tasks)
    if not budget:
        acting = at_temperature(policy, 0.0 if player == GREEDY else None)
        table = collect(make_envs(played, config.tasks), acting, tasks=chosen, seed=config.seed)
        return _score(player, 0, table, np.zeros(3), time.perf_counter() - begin)
    listed = Listed(None if config.policy == RANDOM else policy) if config.listed else None
    searching = SearchPlayer(
        make_envs(played, config.tasks), policy, METHODS[player], budget=Budget(steps=budget), listed=listed, keep=True,
        fresh=config.fresh, value=Value(config.outcome, gamma=config.gamma, rollout=config.rollout),
    )  # fmt: skip
    table = collect(VectorSnapshots(make_envs(played, config.tasks)), searching, tasks=chosen, seed=config.seed)
    spent = [[cost.steps, cost.tokens, cost.scored] for cost in searching.costs.values()]
    score = _score(player, budget, table, np.sum(spent, axis=0) / config.tasks, time.perf_counter() - begin)
    # Episodes are numbered as they begin, which is the order of the tasks: fillers come last.
    graph = search_graph(searching.trees[config.shown][0], player, budget, config.seed)
    return dataclasses.replace(score, graph=graph)


def _score(player: str, budget: int, table: StepTable, spent: Any, seconds: float) -> SearchScore:
    success = "".join("1" if won else "0" for won in table.trajectory_won)
    steps, tokens, scored = map(float, spent)
    return SearchScore(player, budget, success, steps, tokens, scored, len(table) / table.n_trajectories, seconds, None)


def configure(
    env: Annotated[str, option("An environment such as alfworld, an id, or a TextEnv, my_module:Env-v0.")] = "sokoban",
    policy: Annotated[str, option("random, or a job folder such as runs/learning/clone-seed0.")] = RANDOM,
    methods: Annotated[str, option("Search methods, separated by commas.")] = ",".join(METHODS),
    budgets: Annotated[str | None, option(f"Simulated steps. Default: {FULL_BUDGETS}, quick {QUICK_BUDGETS}.")] = None,
    count: Annotated[int | None, option(f"Default: {FULL_TASKS}, quick {QUICK_TASKS}.", "--tasks", min=2)] = None,
    split: Annotated[str | None, option("Split of the tasks. Default: the test split.")] = None,
    listed: Annotated[
        bool | None,
        option(
            "Take replies from the admissible commands, or sample them. Default: listed for the random policy only.",
            "--listed/--drawn",
        ),
    ] = None,
    rollout: Annotated[
        int | None,
        option("Rollout steps from a new state; -1: to the end. Default: 0 for the random policy, else -1.", min=-1),
    ] = None,
    outcome: Annotated[str, option("Outcome to maximise: score, won or return.")] = "score",
    fresh: Annotated[bool, option("Simulations draw random numbers of their own.", "--fresh")] = False,
    show: Annotated[int, option("Index of the task whose searches are shown.", min=0)] = 0,
    seed: Annotated[int, option("Seed of episodes, policies and searches.", min=0)] = 0,
    quick: Annotated[bool, option("Few tasks and small budgets; for CI.", "--quick")] = False,
) -> SearchConfig:
    """Measure the success of search players at fixed budgets of simulated steps.

    Best of n, beam search and Monte-Carlo tree search play the same tasks with one policy, which also plays without
    search. The page shows the searches of one task as graphs.
    """
    names = [name.strip() for name in methods.split(",") if name.strip()]
    check_known("method", names, METHODS)
    check_known("outcome", [outcome], OUTCOMES)
    chosen = count or (QUICK_TASKS if quick else FULL_TASKS)
    if show >= chosen:
        raise typer.BadParameter(f"there is no task {show} among {chosen}", param_hint="--show")
    row, model = settings_of(known_env(env)), policy != RANDOM
    with contextlib.closing(gym.make(row.id, **row.setup.options)) as made:
        bare: Any = made.unwrapped
    if not isinstance(bare, TextEnv):
        words = f"{row.id}: players search from snapshots, which a TextEnv has (agentgym.core)"
        raise typer.BadParameter(words, param_hint="--env")
    if not model:
        check_infos(row.id, "admissible_actions", why="the random policy plays listed commands")
    if getattr(bare, "tasks", None) is None:
        split = split or ""  # tasks are drawn by their seeds
    steps = (-1 if model else 0) if rollout is None else rollout
    return SearchConfig(
        env=row.id, policy=policy, split=row.setup.test if split is None else split, tasks=chosen, methods=names,
        budgets=sorted(parse_seeds(budgets or (QUICK_BUDGETS if quick else FULL_BUDGETS))),
        listed=not model if listed is None else listed, rollout=None if steps < 0 else steps,
        outcome=cast(Any, outcome), gamma=0.99, fresh=fresh, shown=show, seed=seed,
    )  # fmt: skip


HEADS = ("player", "budget", "success %", "minus the policy alone", "steps spent", "tokens written", "steps played")


def _caption(config: SearchConfig) -> str:
    rollout = {None: "judged after a rollout of the policy to the end", 0: "judged without a rollout"}.get(
        config.rollout, f"judged after a rollout of the policy of {config.rollout} steps"
    )
    answers = "listed commands with the policy's probabilities" if config.listed else "sampled from the policy"
    chance = "random numbers of their own" if config.fresh else "the random numbers that the episode will see"
    return (
        f"{config.tasks} {config.split or 'drawn'} tasks of {config.env}, policy {config.policy}. Budget: simulated "
        f"steps per episode, in addition to played steps. Replies are {answers}; new states are {rollout}, by "
        f"{config.outcome}, gamma {config.gamma:g}; simulations see {chance}. Spent, written, played: means over the "
        "tasks. Intervals: 95 %, for new tasks; differences paired task by task."
    )


def _row(score: SearchScore, base: SearchScore) -> tuple[str, ...]:
    several = score is not base and len(score.success) > 1
    return (
        score.player,
        str(score.budget) if score.budget else NONE,
        percent(success_interval([score.success])),
        points(paired_difference([score.success], [base.success])) if several else NONE,
        f"{score.steps:,.0f}" if score.budget else NONE,
        f"{score.tokens:,.0f}" if score.budget else NONE,
        f"{score.length:.1f}",
    )


def drawn(results: SearchResults) -> list[Graph]:
    """Return the graphs of the budgets at which every method's search can be drawn, largest first."""
    graphs = [score.graph for score in results.scores if score.graph is not None]
    methods = {score.player for score in results.scores if score.budget}
    every = dict.fromkeys(graph.stage for graph in graphs)
    stages = [stage for stage in every if {one.method for one in graphs if one.stage == stage} == methods]
    return [graph for stage in stages[::-1] for graph in graphs if graph.stage == stage]


def _page(results: SearchResults) -> Page:
    config, graphs = results.config, drawn(results)
    base = next(score for score in results.scores if score.player == BASE)
    rows = ruled((score.player, _row(score, base)) for score in results.scores)
    panel = Panel(
        "search.html.j2",
        ["board.js", "graph.js"],
        {
            "tiles": settings_of(config.env).tiles,
            "played": "simulations",
            "graphs": [placed(graph) for graph in graphs],
        },
        {"stages": list(dict.fromkeys(graph.stage for graph in graphs)), "gamma": f"{config.gamma:g}"},
    )
    return Page(
        f"Search players on {config.env}",
        "Success of a policy that searches before it plays, at fixed budgets of simulated steps.",
        [Table("Success at fixed budgets", HEADS, rows, _caption(config))],
        chips=[
            ("policy", Path(config.policy).name),
            ("tasks", f"{config.tasks} ({config.split or 'drawn'})"),
            ("methods", ", ".join(config.methods)),
            ("budgets", ", ".join(map(str, config.budgets))),
            ("seed", str(config.seed)),
        ],
        about=[
            ("policy", config.policy),
            ("seconds", ", ".join(f"{one.player} {one.budget}: {one.seconds:.0f}" for one in results.scores)),
        ],
        panel=panel if graphs else None,
    )


STUDY = Study(
    name="search-players", file="search.json", version=1, part="player", record=SearchScore, results=SearchResults,
    configure=configure, parts=lambda config: list(players(config)), run=run_player,
    page=_page, prepare=prepare,
)  # fmt: skip
