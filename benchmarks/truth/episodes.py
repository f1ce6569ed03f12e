"""Who plays which tasks: scripted players of several qualities and learned policies, and their episodes.

Prompts, options, state keys and scripted players are those of the environment's row in `baselines.environments`.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym

import agentgym  # noqa: F401  # registers the environments
from agentgym.rollout import Policy
from baselines.environments.registry import SETTINGS, settings_of
from baselines.environments.settings import SIDE_BY_SIDE, EnvSettings, Scripted, tasks
from baselines.play.values import Played, play_saved
from baselines.runs.stack import make_envs
from benchmarks.console import option
from benchmarks.json_files import ResultsError, check_known
from benchmarks.play.players import weights_of
from benchmarks.processes import Job, Progress
from benchmarks.training.run import job_of, learned, learned_config
from benchmarks.truth.credits import BRANCHED, RANDOM
from policies.scripted import NoisyExpert
from wrappers.canonical import CanonicalStates
from wrappers.distance import Distances

#: Options of commands that several studies take.
_AGAIN = "May be given several times."
Envs = Annotated[list[str] | None, option(f"Name of an environment. {_AGAIN} Default: all of them.")]
Players = Annotated[list[str] | None, option(f"Scripted player. {_AGAIN} Default: all of them.")]
Sizes = Annotated[list[int] | None, option(f"Group size. {_AGAIN} Default: 2, 4, 8 and 16.")]
Policies = Annotated[
    list[Path] | None, option(f"Job folder such as runs/learning/clone-seed0, whose policy plays too. {_AGAIN}")
]
Tasks = Annotated[int | None, option("Tasks of each environment.", min=2)]
Levels = Annotated[int | None, option("Number of levels.", min=2)]
Split = Annotated[str, option("Split of the tasks: validation (to choose) or test (to report).")]
Continuations = Annotated[int | None, option("Monte-Carlo continuations of each action; an even number.", min=2)]
Branches = Annotated[int | None, option("Monte-Carlo continuations of each state for vine; 0: without vine.", min=0)]
Gamma = Annotated[float, option("Discount of Monte-Carlo values.", min=0.0, max=1.0)]
Seed = Annotated[int, option("Seed of episodes, continuations, intervals and random credit.", min=0)]

ENVIRONMENTS: dict[str, EnvSettings] = {row.name: row for row in SETTINGS if row.scripted}
#: Scripted players, from the worst to the best.
PLAYERS = ("random", "expert 25", "expert 50", "expert 75")
#: Share of episodes that a player has to win to count in means over players.
LEAST = 0.02
#: Tasks to choose by, and tasks to judge what was chosen by.
VALIDATION, TEST = "validation", "test"


@dataclass(frozen=True)
class TruthConfig:
    """The options of the command: by environment and name, shares of the expert's actions and job folders.

    Group `sizes` divide `episodes` (per task) and the next larger size. `continuations` of each state and choice are
    for truth by Monte-Carlo, with `check` also where distances are known; `vine` gets `branches` of each state;
    `weights` are fingerprints of the models.
    """

    players: dict[str, dict[str, float]]
    models: dict[str, dict[str, str]]
    tasks: dict[str, int]
    episodes: int
    sizes: list[int]
    continuations: int
    check: bool
    branches: int
    gamma: float
    credits: list[str]
    resamples: int
    seed: int
    split: str = VALIDATION
    weights: dict[str, str] | None = None

    @property
    def words(self) -> str:
        counts = ", ".join(f"{env} {count}" for env, count in self.tasks.items())
        return f"{self.split.capitalize()} tasks: {counts}; {self.episodes} episodes each, cut into groups."


@dataclass(frozen=True)
class Size:
    """How much is played; tasks: of every environment, 0 for its own number."""

    tasks: int
    episodes: int
    sizes: tuple[int, ...]
    continuations: int
    branches: int
    players: tuple[str, ...]


FULL = Size(0, 16, (2, 4, 8, 16), 8, 4, ())
#: For CI: every part of it, no result.
QUICK = Size(4, 4, (2, 4), 4, 2, ("expert 50",))


def make_config(
    size: Size = FULL, *, envs: Iterable[str] | None = None, groups: Sequence[int] | None = None,
    players: Iterable[str] | None = None, models: Iterable[Path] | None = None, check: bool = False,
    gamma: float = 0.95, tasks: int | None = None, continuations: int | None = None, branches: int | None = None,
    seed: int = 0, split: str = VALIDATION, credits: Iterable[str] = (),
) -> TruthConfig:  # fmt: skip
    """Put a configuration together, see `TruthConfig`; what is None (or empty, or 0) is that of `size`, or all.

    `models` are job folders of learning benchmarks, or the models in them. Also `vine` and random numbers are measured.
    `ResultsError`: an unknown name, sizes that do not divide one another, or a folder without such a job.
    """
    check_known("split", [split], (VALIDATION, TEST))
    if own := [env for env in envs or () if ":" in env]:
        raise ResultsError(
            f"{own[0]!r}: this study plays environments with an expert and tasks apart from training, "
            f"{', '.join(ENVIRONMENTS)}; train in your own by --env of the default benchmark"
        )
    check_known("environment", envs or (), ENVIRONMENTS)
    check_known("player", players or (), PLAYERS)
    chosen = [name for name in ENVIRONMENTS if not envs or name in envs]
    wanted = tuple(players or ()) or size.players or PLAYERS
    sizes = sorted(set(groups or ())) or list(size.sizes)
    if sizes[0] < 2 or any(large % small for small, large in itertools.pairwise(sizes)):
        raise ResultsError(f"group sizes must be at least 2, and each a multiple of the smaller ones, got {sizes}")
    if continuations and continuations % 2:
        raise ResultsError(f"continuations are compared by halves: expected an even number, got {continuations}")
    branches = size.branches if branches is None else branches
    found = _models(models or (), chosen)
    scripted = {name: scripted_of(name) for name in chosen}
    return TruthConfig(
        players={
            env: {name: share for name, share in zip(PLAYERS, (0.0, *row.optimal), strict=True) if name in wanted}
            for env, row in scripted.items()
        },
        models=found,
        tasks={env: tasks or size.tasks or row.tasks for env, row in scripted.items()},
        episodes=max(size.episodes, sizes[-1]) // sizes[-1] * sizes[-1],
        sizes=sizes,
        continuations=continuations or size.continuations,
        check=check,
        branches=branches,
        gamma=gamma,
        credits=[*credits, *([BRANCHED] if branches else []), RANDOM],
        resamples=1000,
        seed=seed,
        split=split,
        weights=weights_of(job for jobs in found.values() for job in jobs.values()),
    )


def scripted_of(env: str) -> Scripted:
    """Return how scripted players play one of `ENVIRONMENTS`."""
    found = ENVIRONMENTS[env].scripted
    assert found is not None
    return found


def _models(folders: Iterable[Path], envs: Sequence[str]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {env: {} for env in envs}
    for job in filter(None, map(job_of, folders)):
        env = settings_of(learned_config(job).env).name
        if env not in found:
            raise ResultsError(f"{job}: a policy for {env}; this study plays {', '.join(envs)}")
        for name in (*found[env], *PLAYERS):
            if Job("part", method=name).name == Job("part", method=job.name).name:
                raise ResultsError(
                    f"{job}: the name {job.name!r} is taken by the player {name!r}; results are kept by name"
                )
        found[env][job.name] = str(job)
    return found


def tasks_of(env: str, count: int, split: str = VALIDATION) -> list[dict[str, Any]]:
    """Return reset options of tasks without training: "validation", which tests do not have either, or "test"."""
    row = settings_of(env)
    if split == TEST:
        return tasks(row.setup.test, count)
    same = row.setup.validation == row.setup.test
    return tasks(row.setup.validation, count, row.full.eval_tasks if same else 0)


def play(config: TruthConfig, env: str, name: str, progress: Progress = lambda done, total, words: None) -> Played:
    """Let one player play one environment; learned policies at the temperature of their training."""
    count, episodes = config.tasks[env], config.episodes
    progress(0, count * episodes, "episodes")
    if name in config.players[env]:
        return play_scripted(env, config.players[env][name], count, episodes, config.seed, config.split)
    shown, policy = learned(Path(config.models[env][name]))
    chosen = tasks_of(env, count, config.split)
    return _played(make_envs(shown, count * episodes), policy, chosen, episodes, config.seed)


def play_scripted(env: str, optimal: float, count: int, episodes: int, seed: int, split: str = VALIDATION) -> Played:
    """Let a `NoisyExpert` play `count` tasks of `tasks_of`, so many episodes each."""
    row = settings_of(env)
    envs: Any = gym.make_vec(
        row.id, min(count * episodes, SIDE_BY_SIDE), autoreset_mode="Disabled", expert=True,
        **row.setup.options, **row.setup.plenty,
    )  # fmt: skip
    if row.key is not None:
        envs = CanonicalStates(envs, key=row.key)
    policy = NoisyExpert(optimal, scripted_of(env).others)
    return _played(envs, policy, tasks_of(env, count, split), episodes, seed)


def _played(envs: Any, policy: Policy, chosen: list[dict[str, Any]], episodes: int, seed: int) -> Played:
    known = hasattr(envs.unwrapped.envs[0], "distance")
    return play_saved(Distances(envs) if known else envs, policy, chosen, episodes, seed)
