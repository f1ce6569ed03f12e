"""`scorers`: does a network that learns step scores from outcomes rank actions?

A policy that was cloned from an expert plays training levels; its weights stay as they are. Beside it every scorer
learns from the same episodes. After some iterations its scores of held-out levels are turned into step credit, which is
held against the moves that the steps really gained, as `benchmarks.ranking` does with credit that needs no network.

The folder then holds

    config.json    what was asked; another configuration needs another folder
    learning/      the clone, where no policy was given
    <scorer>.json  finished scorers: the same command continues
    scorers.json   everything that was found, see `benchmarks.scorers.results`
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from agentgym.checks import suggest
from baselines.environments.settings import TINY
from baselines.environments.sokoban import SOKOBAN
from benchmarks.config import make_config as make_learning_config
from benchmarks.console import explained, say, telling
from benchmarks.json_files import ResultsError, claimed, created, load_or_make
from benchmarks.learning.jobs import cloned
from benchmarks.learning.stack import learned_config
from benchmarks.machine import describe_machine
from benchmarks.ranking.results import file_stem
from benchmarks.scorers.held_out import HeldOut
from benchmarks.scorers.registry import SCORERS
from benchmarks.scorers.results import VERSION, HeldOutEpisodes, ScorerResult, ScorersConfig, Sizes, Study, save
from benchmarks.scorers.table import print_study
from benchmarks.scorers.training import FixedPolicy, learn

RESULTS = "scorers.json"
FULL = Sizes(iterations=[15, 60], groups=16, group_size=8, levels=96, episodes=16)
#: For CI: every part of it, no result.
QUICK = Sizes(iterations=[1, 2], groups=4, group_size=4, levels=8, episodes=4)

#: Called with a few words about what is done.
Tell = Callable[[str], None]


def make_config(
    policy: Path | None = None, scorers: Sequence[str] = (), *, sizes: Sizes = FULL, seed: int = 0
) -> ScorersConfig:
    """Put a configuration together.

    Args:
        policy: job folder of a learning benchmark on Sokoban, or the model folder in it; None: clone one.
        scorers: names; none: all.
        sizes: how much.
        seed: of everything random.

    Raises:
        ResultsError: the folder is no job of a learning benchmark on Sokoban, or there is no scorer of a name.
    """
    for name in scorers:
        if name not in SCORERS:
            raise ResultsError(f"unknown scorer {name!r}; {suggest(name, SCORERS)}")
    job = "" if policy is None else str(policy.parent if policy.name == "model" else policy)
    if job and (found := learned_config(Path(job)).env) != SOKOBAN.id:
        raise ResultsError(f"{job}: a policy for {found}; only in {SOKOBAN.id} is the worth of a step known")
    return ScorersConfig(job, list(dict.fromkeys(scorers or SCORERS)), sizes, 1000, seed)


def run_scorers(config: ScorersConfig, folder: Path, tell: Tell = lambda words: None) -> Study:
    """Train and measure the scorers that are not finished yet, and write `scorers.json`.

    Args:
        config: what to run.
        folder: where; created when missing.
        tell: is told what is done.

    Raises:
        agentgym.outside.files.LockedError: another process works in the folder.
        benchmarks.json_files.OtherConfigurationError: the folder holds another configuration.
        ResultsError: a finished scorer's file is damaged, or the policy's folder is gone.
        KeyboardInterrupt: Ctrl-C; call again to continue.
    """
    with claimed(folder, config), _one_thread():
        job = Path(config.policy) if config.policy else _cloned(folder / "learning", config, tell)
        fixed = FixedPolicy(job, config.sizes, config.seed)
        tell(f"playing {config.sizes.levels} x {config.sizes.episodes} held-out episodes")
        held_out = fixed.held_out(config.resamples)
        results = [_result(name, config, folder, fixed, held_out, tell) for name in config.scorers]
        episodes = HeldOutEpisodes(
            success=float(held_out.table.trajectory_won.mean()),
            steps=len(held_out.table),
            comparable=float(held_out.sample.own.comparable.mean()),
        )
        study = Study(VERSION, created(), config, describe_machine(), episodes, results)
        save(study, folder / RESULTS)
    return study


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Processor time counts every thread's; a policy of this size is fastest in one."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _cloned(folder: Path, config: ScorersConfig, tell: Tell) -> Path:
    sizes = SOKOBAN.quick if config.sizes == QUICK else SOKOBAN.full
    learning = make_learning_config(
        SOKOBAN, methods=["grpo"], seeds=[config.seed], model=TINY, history=None, sizes=sizes
    )
    return cloned(learning, folder, config.seed, tell)


def _result(
    name: str, config: ScorersConfig, folder: Path, fixed: FixedPolicy, held_out: HeldOut, tell: Tell
) -> ScorerResult:
    total = config.sizes.iterations[-1]

    def progress(done: int) -> None:
        if done in config.sizes.iterations or done % 10 == 0:
            tell(f"{name}: {done} of {total} iterations")

    make = functools.partial(learn, name, SCORERS[name], fixed, held_out, config.sizes, config.seed, progress)
    path = folder / f"{file_stem(name)}.json"
    return load_or_make(ScorerResult, path, make, lambda words: tell(f"{name}: {words}"))


def scorers(
    quick: Annotated[bool, typer.Option("--quick", help="Two small iterations, a minute; for CI.")] = False,
    only: Annotated[str | None, typer.Option(help=f"Names separated by commas, of: {', '.join(SCORERS)}.")] = None,
    policy: Annotated[
        Path | None,
        typer.Option(
            help="Job folder of a learning benchmark, such as runs/learning/clone-seed0: the policy that plays. "
            "Without it one is cloned first."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of episodes, mini-batches and intervals.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the results; the same command in it continues. Default: runs/scorers, or "
            "runs/scorers-quick."
        ),
    ] = None,
) -> None:
    """Train step scorers beside a policy that stands still, and measure how well they rank actions in Sokoban.

    All scorers learn from the same episodes. On held-out levels their scores are turned into step credit and held
    against the moves that the steps really gained. Prints one table and writes [bold]scorers.json[/].
    """
    folder = out or Path("runs") / ("scorers-quick" if quick else "scorers")
    console = Console()
    with explained("stopped; the same command continues with the scorer that was not finished"):
        names = [name.strip() for name in only.split(",") if name.strip()] if only else ()
        config = make_config(policy, names, sizes=QUICK if quick else FULL, seed=seed)
        with telling(console, "measuring") as tell:
            study = run_scorers(config, folder, tell)
        print_study(study, console)
    say(console, f"numbers: {folder / RESULTS}")
