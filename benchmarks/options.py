"""Options that commands share, and what is checked of them before anything runs."""

import contextlib
import importlib.util
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import agentgym
from agentgym.checks import suggest
from agentgym.registry import ROWS, short_name
from agentgym.registry import known_env as known_env_of_all
from benchmarks.console import explained, option, parse_seeds, say, stop
from benchmarks.machine import missing_package, usable_cores

WHAT, SIZES, WHERE = "What", "Sizes", "Where and how"
#: The method that all others are compared with, and those of the default benchmark.
_SETTINGS = Path(__file__).parents[1] / "baselines" / "environments" / "settings.py"  # read: an import takes seconds
REFERENCE = re.findall(r'^REFERENCE = "(\w+)"$', _SETTINGS.read_text(encoding="utf-8"), re.MULTILINE)[0]
METHODS = (REFERENCE, "gigpo", "rewardflow", "graphgpo")
#: Names in `baselines.recipes.methods.IMITATION`.
_IMITATION = ("sft", "rft", "hindsight", "dpo", "eto", "ipr", "stepagent", "spear")


def of(panel: str, words: str, *names: str, **limits: Any) -> Any:
    """Return an option of a panel of the help."""
    return typer.Option(*names, help=words, rich_help_panel=panel, **limits)


Env = Annotated[
    str,
    of(
        WHAT,
        "Environment: a name such as alfworld, an id, or my_module:Env-v0.",
        autocompletion=lambda: list(map(short_name, (row.id for row in ROWS))),
    ),
]
EnvOption = Annotated[
    list[str] | None, of(WHAT, "Argument of the environment, such as data=FOLDER. Default: its variables.", "--option")
]
Model = Annotated[
    str,
    of(
        WHAT,
        "tiny (0.2M parameters, no download), smollm2 (135M: downloads 93 MB once), or another Hugging Face causal "
        "language model: its folder, or its name on the hub, such as Qwen/Qwen3-0.6B.",
    ),
]
Download = Annotated[bool, of(WHAT, "Download a model that is not in the local cache from the hub.", "--download")]
Seeds = Annotated[str, of(WHAT, "Training seeds: 0,1,2 or 0-2.")]
Quick = Annotated[bool, of(SIZES, "Small sizes, for CI. Sizes given as options still apply.", "--quick")]
Steps = Annotated[int | None, of(SIZES, "Reinforcement-learning iterations per run.", min=1)]
Groups = Annotated[int | None, of(SIZES, "Tasks per iteration.", min=1)]
GroupSize = Annotated[int | None, of(SIZES, "Episodes per task.", min=2)]
ValidationTasks = Annotated[int | None, of(SIZES, "Validation tasks.", min=2)]
ValidationEvery = Annotated[int | None, of(SIZES, "Iterations between validations.", min=1)]
History = Annotated[int | None, of(SIZES, "Earlier steps in the prompt. Default: by environment and model.", min=0)]
Transcript = Annotated[bool, of(SIZES, "Prompts contain the whole conversation of an episode.", "--transcript")]
FinalSeeds = Annotated[str | None, of(WHAT, "Seeds of the final runs. Default: 0-2; quick: 0.")]
Tokens = Annotated[int | None, of(SIZES, "Reply tokens of a run. Default: the environment's or the study's.", min=1)]
Jobs = Annotated[int | None, of(WHERE, "Processes of one thread each. Default: the number of cores.", min=1)]
Out = Annotated[Path | None, of(WHERE, "Folder of the results; the same command in it continues.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        print(agentgym.__version__)
        raise typer.Exit


Version = Annotated[bool, option("Print the version and exit.", "--version", is_eager=True, callback=_print_version)]


def method_names() -> list[str]:
    """Return the names of all methods, as the text of their files has them: no library is imported."""
    found = list(_IMITATION)
    for package, called in (("wrappers.credit", "Method"), ("baselines.environments", "OwnRow")):
        top, _, below = package.partition(".")
        spec = importlib.util.find_spec(top)  # a package's own file is not run
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            for path in sorted((Path(folder) / below).glob("*.py")):
                calls = re.split(rf"\b{called}\(", path.read_text(encoding="utf-8"))[1:]
                found += [_named(call) for call in calls]
    return list(dict.fromkeys(found))


def _named(call: str) -> str:
    """Return the first argument, a word; else the argument `name`; else the function, or that of "module:function"."""
    word, named = re.match(r'\s*"(\w+)"', call), re.search(r'\bname="(\w+)"', call)
    function = re.match(r'\s*"?(?:[\w.]+:)?(\w+)', call)
    return str((word or named or function)[1])  # type: ignore[index]


def check_names(arguments: Sequence[str]) -> None:
    """Refuse a wrong name of an environment or a method among the words of a command, before anything is imported.

    Whatever else is wrong with the words is found when they are parsed, which takes longer than this.
    """
    pairs = [word.partition("=")[::2] for word in arguments if "=" in word]
    for flag, value in [*itertools.pairwise(arguments), *pairs]:
        with _refused(flag):
            if flag == "--env":
                known_env_of_all(value)
            elif flag in ("--method", "--methods"):
                _check_methods(value)


def _check_methods(values: str) -> None:
    known = method_names()
    for each in filter(None, map(str.strip, values.split(","))):
        name, colon, rest = each.split()[0].partition(":")  # --privileged takes settings behind it
        own = colon and "=" not in rest.partition(":")[0]
        if name not in known and not own:
            raise ValueError(f"unknown method {name!r}; {suggest(name, known)}, or a function of your own: module:name")


def named_methods(values: str, *, imitation: bool = False) -> list[str]:
    """Split a comma-separated list of methods, read their options, and return their full names."""
    from baselines.imitation.method import Imitation
    from baselines.recipes.methods import method as method_of
    from benchmarks.processes import Job

    try:
        found = [method_of(name.strip()) for name in values.split(",") if name.strip()]
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--methods") from None
    for method in found:
        if isinstance(method, Imitation):
            if not imitation:
                raise typer.BadParameter(
                    f"{method.name} is a method of imitation and gives no credit: the learning benchmark trains by it "
                    f"(python -m benchmarks.run --methods {method.name})",
                    param_hint="--methods",
                )
        elif method.scored is not None and method.scorer is None:
            raise typer.BadParameter(
                f"{method.name} needs a scorer that only code can pass: baselines.trainer.Trainer(..., scorer=...)",
                param_hint="--methods",
            )
    names = [method.name for method in found]
    if not names or len({Job("method", 0, name).name for name in names}) < len(names):
        raise typer.BadParameter(f"expected distinct names separated by commas, got {values!r}", param_hint="--methods")
    return names


def check_model(model: str, env: str = "", *, download: bool = False) -> str:
    """Return a model's name or folder.

    typer.BadParameter: no policy can be made from it, or it reads texts alone where the environment shows pictures.
    """
    from baselines.runs import stack

    with _refused("--model"):
        found = stack.check_model(model, download=download)
        if env:
            stack.check_sight(env, found, download=download)
        return found


def known_env(env: str, *, pictures: bool = False) -> str:
    """Return the id of an environment that policies can play, of texts or also pictures; else typer.BadParameter."""
    with _refused("--env"):
        found = known_env_of_all(env)
        if not pictures:
            from baselines.runs.stack import shows_text

            if not shows_text(found):
                raise ValueError(
                    f"{found} shows pictures, which are for models that see: the default benchmark, train and prompt"
                )
        return found


def check_infos(env: str, *needed: str, why: str) -> None:
    """Refuse an environment of one's own whose infos lack what a command reads, by typer.BadParameter."""
    from baselines.environments.registry import settings_of
    from baselines.runs.stack import make_vec

    if settings_of(env).is_known:
        return
    options = {"expert": True} if "expert_action" in needed else {}
    try:
        with contextlib.closing(make_vec(env, 1, **options)) as envs:
            infos = envs.reset(seed=0)[1]
    except TypeError:  # it has no argument `expert`
        infos = {}
    if missing := [name for name in needed if name not in infos]:
        made = ", made with expert=True," if options else ""
        raise typer.BadParameter(
            f"{env}: {why}, so the infos of an environment{made} must hold {' and '.join(missing)}", param_hint="--env"
        )


@contextlib.contextmanager
def _refused(option: str) -> Iterator[None]:
    """Let a ValueError name the option that it is about."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def final_seeds(seeds: str | None, quick: bool) -> list[int]:
    """Return the seeds of the final runs."""
    return parse_seeds(seeds or ("0" if quick else "0-2"))


def processes(jobs: int | None, quick: bool) -> int:
    """Return how many processes train."""
    return jobs or (1 if quick else usable_cores())


def nothing_trained(quick: bool, *given: Any) -> None:
    """Refuse what says how to train beside --from."""
    if quick or any(each is not None for each in given):
        raise typer.BadParameter("nothing is trained: leave out the options of training", param_hint="--from")


@contextlib.contextmanager
def finished_runs_kept(quick: bool) -> Iterator[None]:
    """End a command whose runs are kept in a sentence, also where it is stopped or fails."""
    with explained("stopped; the same command continues where it was", "Finished runs are kept."):
        yield
    if quick:
        say(None, "A smoke test: it shows that everything works, not which method is better.", "yellow")


_TASKS = ("clone_tasks", "training_tasks", "eval_tasks", "validation_tasks")


def on_data(
    config: Any, row: Any, given: Mapping[str, Any], *, show: Sequence[str] = _TASKS, **options: Any
) -> tuple[Any, Any]:
    """Return what `baselines.runs.data_source.open_data` does, or end the command with what it says.

    Says where the data come from, and which of the numbers named in `show` they change.
    """
    from baselines.runs.data_source import open_data

    try:
        found, source = open_data(config, row, given, **options)
        both = [(name, getattr(config, name), getattr(found, name)) for name in show]
        changed = [f"{name} {before:,} -> {after:,}" for name, before, after in both if before != after]
        say(None, f"data: {source.words}")
        if changed:
            say(None, f"numbers of tasks that fit these data: {', '.join(changed)}")
        return found, source
    except ModuleNotFoundError as error:
        raise stop(missing_package(error), 2) from None
    except (TypeError, ValueError, OSError, ImportError) as error:
        raise stop(f"{row.id}: {error}", 2) from None
