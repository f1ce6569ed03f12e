"""`play` and `prompt`: players on a panel, with one journal, one results file and one table.

    python -m benchmarks.run play alfworld/valid_unseen@1 --option data=~/.cache/alfworld --player explorer
    python -m benchmarks.run prompt alfworld/generated@1 --endpoint http://127.0.0.1:8000/v1 --model qwen --method react
    python -m benchmarks.run play sokoban        # an environment and no player: play it in this terminal

`prompt` is `play` for one model that is prompted by a method.
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from agentgym.outside.chat.wire import Budget, BudgetSpentError
from agentgym.outside.redaction import redact
from agentgym.outside.text import clean
from agentgym.panels import OpenPanel
from baselines.environments.settings import SIDE_BY_SIDE, EnvSettings
from baselines.runs.stack import RANDOM
from benchmarks import json_files
from benchmarks.console import arguments, explained, option, patient, say, stop, telling
from benchmarks.json_files import ResultsError, write_json
from benchmarks.options import Download
from benchmarks.play.panel import choose_panel, env_and_split, folder_of, play_panel
from benchmarks.play.players import Player, Sampling, config_of, find_player, label_of, prompted, scripted
from benchmarks.play.prompting import METHODS, Examples, Method, expert_examples
from benchmarks.play.results import PanelResults, print_panels, print_results
from policies.engines.chat_api import sent_messages

EXAMPLES = "examples.json"

Samples = Annotated[int, option("Episodes per task.", min=1)]
Options = Annotated[
    list[str] | None, option("Argument of the environment, such as data=FOLDER, or for a split task_types=[1,2].")
]
Steps = Annotated[int | None, option("Step limit of an episode; for a split only.", min=1)]
Count = Annotated[int | None, option("Play only the first tasks, a fair sample.", "--tasks", min=1)]
Temperature = Annotated[float, option("Temperature of a model; 0 is greedy.", min=0)]
MaxTokens = Annotated[int, option("Maximum tokens of an endpoint's reply.", min=1)]
Seed = Annotated[int, option("Seed of episodes and draws.", min=0)]
Places = Annotated[int, option("Maximum number of parallel episodes.", min=1)]
Out = Annotated[Path, option("Folder of the results.")]


def play(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="PANEL",
            help="A panel such as alfworld/valid_seen@1, or an environment and a split. Without it, all panels are "
            "listed. An environment without a player: play it in this terminal.",
        ),
    ] = None,
    player: Annotated[
        list[str] | None,
        option(
            "random, expert, a fair player of the environment such as explorer, a job folder such as "
            "runs/alfworld/clone-seed0, smollm2, a Hugging Face model, or MODEL@URL for an OpenAI-compatible endpoint. "
            "May be given several times. Default: all that need no folder."
        ),
    ] = None,
    samples: Samples = 1,
    option: Options = None,
    steps: Steps = None,
    count: Count = None,
    temperature: Temperature = 0.0,
    max_tokens: MaxTokens = 512,
    seed: Seed = 0,
    places: Places = SIDE_BY_SIDE,
    download: Download = False,
    out: Out = Path("runs/panels"),
) -> None:
    """Play a panel of tasks and print success with intervals, per kind of task; finished episodes are kept."""
    console = Console()
    names = player or []
    if name is None:
        print_panels(console)
        return
    if not names and not env_and_split(name)[1]:
        from agentgym.play import main

        raise typer.Exit(main([name, *(word for each in option or () for word in ("--set", each))]))
    with _explained():
        found, row = choose_panel(name, _given(option, steps), count)
        results = []
        for each in names or scripted(row):
            if samples > 1 and not temperature and each != RANDOM and each not in scripted(row):
                words = f"{redact(each)}: samples at temperature 0 hardly differ; see --temperature"
                say(console, words, "yellow")
            folder = folder_of(out, found.panel.name, each)
            who = find_player(each, row, found.arguments, Sampling(temperature, max_tokens, download), folder)
            results.append(_played(found, who, folder, console, samples=samples, seed=seed, places=places))
    print_results(results, row, console)
    say(console, f"results: {folder.parent}")


def prompt(
    name: Annotated[
        str,
        typer.Argument(metavar="PANEL", help="A panel such as alfworld/valid_seen@1, or an environment and a split."),
    ],
    model: Annotated[str, option("Model name at the endpoint; without --endpoint smollm2, a folder or a hub name.")],
    endpoint: Annotated[
        str | None, option("An OpenAI-compatible endpoint, up to and including /v1. Default: the model runs locally.")
    ] = None,
    method: Annotated[str, option(f"{', '.join(METHODS)}; see docs/panels.md.")] = "react",
    shots: Annotated[int, option("Expert episodes shown in the prompt.", min=0)] = 0,
    examples: Annotated[Path | None, option("Examples to show instead, a file such as examples.json.")] = None,
    trials: Annotated[int | None, option("Trials per task, for reflexion.", min=2, show_default="3")] = None,
    admissible: Annotated[
        bool | None,
        option(
            "List the admissible commands at every step.", show_default="as the environment's prompts; not for react"
        ),
    ] = None,
    samples: Samples = 1,
    option: Options = None,
    steps: Steps = None,
    count: Count = None,
    temperature: Temperature = 0.0,
    max_tokens: MaxTokens = 512,
    body: Annotated[
        list[str] | None,
        option("Field of each request, such as top_p=0.9; temperature=null removes it. May be given several times."),
    ] = None,
    send_seed: Annotated[bool, option("Send a seed to the endpoint.")] = True,
    key_variable: Annotated[str | None, option("Environment variable with the endpoint's key.")] = None,
    timeout: Annotated[float, option("Timeout of a request in seconds.", min=0.1)] = 60.0,
    retries: Annotated[int, option("Retries of a request.", min=0)] = 4,
    most_requests: Annotated[int | None, option("Budget of answers, over all runs in the folder.", min=1)] = None,
    most_tokens: Annotated[int | None, option("Budget of prompt and reply tokens.", min=1)] = None,
    seed: Seed = 0,
    places: Places = 16,
    download: Download = False,
    dry_run: Annotated[bool, option("Print the first prompt without sending a request.", "--dry-run")] = False,
    out: Out = Path("runs/panels"),
) -> None:
    """Prompt a model on a panel: vanilla, chain of thought, ReAct or Reflexion, by an endpoint or a local model."""
    console, budget = Console(), Budget(most_requests, most_tokens)
    if endpoint is None and (budget != Budget() or body or key_variable):
        raise typer.BadParameter("budgets, --body and --key-variable are for an --endpoint")
    limits = {"--most-requests": most_requests, "--most-tokens": most_tokens}
    with _explained(" or ".join(flag for flag, limit in limits.items() if limit is not None)):
        way = _method(method, trials, admissible)
        sampling = dataclasses.replace(_sampling(way, temperature, max_tokens, body or ()), download=download)
        found, row = choose_panel(name, _given(option, steps), count, pictures=endpoint is not None)
        who = model if endpoint is None else f"{model}@{endpoint}"
        chosen = _examples(found, row, who, shots, examples)
        if dry_run:
            _print_first(found, row, who, way, chosen, seed, console)
            return
        folder = folder_of(out, found.panel.name, f"{who} {label_of(way, chosen)}")
        if endpoint is not None:
            more = {
                "send_seed": send_seed, "key_variable": key_variable, "timeout": timeout, "retries": retries,
                "budget": budget, "concurrency": places,
            }  # fmt: skip
            sampling = dataclasses.replace(sampling, endpoint={**sampling.endpoint, **more})
        player = prompted(find_player(who, row, found.arguments, sampling, folder), way, chosen, folder)
        results = _played(found, player, folder, console, samples=samples, seed=seed, places=places)
    if chosen.episodes:
        write_json(chosen, folder / EXAMPLES)
    print_results([results], row, console)
    if endpoint is not None:
        say(console, f"this run: {player.policy.endpoint.usage}")  # type: ignore[attr-defined]
    say(console, f"results: {folder}")


def _given(option: Sequence[str] | None, steps: int | None) -> dict[str, Any]:
    return arguments(option or ()) | ({} if steps is None else {"max_episode_steps": steps})


@contextlib.contextmanager
def _explained(limits: str = "") -> Iterator[None]:
    """End the command in a sentence where the block fails or is stopped; `limits` are the options of a budget."""
    kept = "the same command plays the missing episodes; answered requests are not repeated"
    with explained(f"stopped; {kept}"):
        try:
            yield
        except ResultsError:
            raise
        except BudgetSpentError as error:
            raise stop(f"{error}\nraise {limits} and run the command again: answers are kept", 1) from None
        except RuntimeError as error:  # an endpoint without answers, episodes without a score
            raise stop(f"{error}\n{kept}", 1) from None
        except ValueError as error:
            raise typer.BadParameter(clean(redact(str(error)))) from None


def _played(found: OpenPanel, player: Player, folder: Path, console: Console, **sizes: int) -> PanelResults:
    with (
        telling(console, f"{player.name} plays {found.panel.name}") as tell,
        patient(console, "the answers that are under way") as pause,
    ):
        progress = tell if console.is_terminal or player.answers else lambda words: None
        return play_panel(found, player, folder, tell=progress, pause=pause, **sizes)


def _method(name: str, trials: int | None, admissible: bool | None) -> Method:
    if name not in METHODS:
        raise typer.BadParameter(f"expected one of {', '.join(METHODS)}, got {name!r}", param_hint="--method")
    method = METHODS[name]
    if trials is not None and method.trials == 1:
        raise typer.BadParameter(f"{name} has one trial; reflexion has several", param_hint="--trials")
    listed = method.listed if admissible is None else admissible
    return dataclasses.replace(method, trials=trials or method.trials, listed=listed)


def _sampling(method: Method, temperature: float, max_tokens: int, body: Sequence[str]) -> Sampling:
    """Return the sampling of a model: --body replaces the method's own values, and null removes a name."""
    given = arguments(body, "--body")
    for name, value in given.items():
        if redact(f"{name}={value}") != f"{name}={value}":
            raise typer.BadParameter(f"{name} is a key, and bodies are kept: see --key-variable", param_hint="--body")
    sent: dict[str, Any] = {**method.body, "temperature": temperature, "max_tokens": max_tokens, **given}
    written = sent.pop("temperature"), sent.pop("max_tokens")
    return Sampling(*written, endpoint={"extra": {name: value for name, value in sent.items() if value is not None}})


def _examples(found: OpenPanel, row: EnvSettings, model: str, shots: int, given: Path | None) -> Examples:
    if given is not None:
        return json_files.load(Examples, given)
    if not shots:
        return Examples("", [])
    return expert_examples(config_of(row, model, found.arguments), shots, {task.digest for task in found.tasks})


def _print_first(
    found: OpenPanel, row: EnvSettings, model: str, method: Method, examples: Examples, seed: int, console: Console
) -> None:
    envs = method.envs(config_of(row, model, found.arguments), 1, examples)
    with contextlib.closing(envs):
        observations, _ = envs.reset(seed=seed, options=[{"task_id": found.tasks[0].id}])  # type: ignore[arg-type]
    for message in sent_messages(observations[0]):
        say(console, f"[{message['role']}]", "bold")
        parts = message["content"]
        for part in [{"type": "text", "text": parts}] if isinstance(parts, str) else parts:
            say(console, part["text"] if part["type"] == "text" else "(a picture)")
