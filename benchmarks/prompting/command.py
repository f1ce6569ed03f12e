"""`prompt`: a model is prompted by a method on a whole panel; its results stand beside those of trained policies.

python -m benchmarks.run prompt alfworld/generated@1 --endpoint http://127.0.0.1:8000/v1 --model qwen --method react

The panel is played as `panel` plays it, and the folder of the player holds the same files, and besides

    examples.json  the few-shot examples, where there are some
    trials.jsonl   Reflexion's trials, and notes.jsonl its notes, see `benchmarks.prompting.trials`
    costs.json     requests, tokens and money, task by task
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from agentgym.outside.chat.wire import Budget, BudgetSpentError
from agentgym.outside.redaction import redact
from agentgym.outside.text import clean
from agentgym.panels import OpenPanel
from baselines.environments.settings import EnvSettings
from benchmarks.console import arguments, explained, patient, say, stop, telling
from benchmarks.json_files import ResultsError, write_json
from benchmarks.panels.command import choose_panel, folder_of, play_panel
from benchmarks.panels.journal import JOURNAL, Journal
from benchmarks.panels.players import Sampling, config_of, find_player
from benchmarks.panels.table import print_anchors, print_panel
from benchmarks.prompting.costs import costs_of, print_costs, save_costs
from benchmarks.prompting.examples import Examples, expert_examples, load_examples
from benchmarks.prompting.methods import METHODS, Method
from benchmarks.prompting.players import label_of, prompted
from policies.engines.chat_api import sent_messages

EXAMPLES = "examples.json"


def prompt(
    name: Annotated[
        str, typer.Argument(help="A panel such as [bold]alfworld/valid_seen@1[/], or an environment and a split.")
    ],
    model: Annotated[
        str,
        typer.Option(
            help="A model's name at the endpoint; without --endpoint [bold]smollm2[/], a folder or a hub name."
        ),
    ],
    endpoint: Annotated[
        str | None,
        typer.Option(help="An OpenAI-compatible endpoint, up to and including /v1. Without one the model is run here."),
    ] = None,
    method: Annotated[str, typer.Option(help=f"{', '.join(METHODS)}; see docs/prompting.md.")] = "react",
    shots: Annotated[int, typer.Option(min=0, help="Episodes of the expert that the prompt shows.")] = 0,
    examples: Annotated[
        Path | None, typer.Option(help="Examples to show instead, a file of the form of examples.json.")
    ] = None,
    trials: Annotated[int | None, typer.Option(min=2, help="Of a task, for reflexion.", show_default="3")] = None,
    admissible: Annotated[
        bool | None,
        typer.Option(
            help="List the admissible commands at every step.",
            show_default="as the environment's prompts; not for react",
        ),
    ] = None,
    samples: Annotated[int, typer.Option(min=1, help="Episodes of each task.")] = 1,
    option: Annotated[
        list[str] | None,
        typer.Option(help="Argument of the environment, as for [bold]panel[/]. May be given several times."),
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Longest episode, of a split.")] = None,
    count: Annotated[
        int | None, typer.Option("--tasks", min=1, help="Only so many: a sample of the panel, the first of a split.")
    ] = None,
    temperature: Annotated[float, typer.Option(min=0, help="0 is greedy.")] = 0.0,
    max_tokens: Annotated[int, typer.Option(min=1, help="Longest reply.")] = 512,
    body: Annotated[
        list[str] | None,
        typer.Option(
            help="More of each request, such as [bold]top_p=0.9[/]; [bold]temperature=null[/] leaves it out. May be "
            "given several times."
        ),
    ] = None,
    send_seed: Annotated[bool, typer.Option(help="Whether the endpoint is sent a seed.")] = True,
    key_variable: Annotated[
        str | None, typer.Option(help="The environment variable that holds the endpoint's key.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds of one try of a request.")] = 60.0,
    retries: Annotated[int, typer.Option(min=0, help="Further tries of a request.")] = 4,
    price: Annotated[
        str, typer.Option(help="Of a million tokens read and a million written, as READ,WRITTEN.")
    ] = "0,0",
    most_requests: Annotated[
        int | None, typer.Option(min=1, help="Budget: answers, of all runs in the folder.")
    ] = None,
    most_tokens: Annotated[int | None, typer.Option(min=1, help="Budget: tokens read and written.")] = None,
    most_cost: Annotated[float | None, typer.Option(min=0, help="Budget: money, in the unit of --price.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of episodes and draws.")] = 0,
    places: Annotated[int, typer.Option(min=1, help="Episodes side by side, at most.")] = 16,
    download: Annotated[bool, typer.Option("--download", help="Fetch a model that is not here.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the first prompt, and ask nothing.")] = False,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("runs/panels"),
) -> None:
    """Prompt a model on a panel: vanilla, chain of thought, ReAct or Reflexion, over an endpoint or here."""
    console = Console()
    given = arguments(option or ())
    if steps is not None:
        given["max_episode_steps"] = steps
    budget = Budget(most_requests, most_tokens, most_cost)
    if endpoint is None and (budget != Budget() or body or key_variable):
        raise typer.BadParameter("budgets, --body and --key-variable are for an --endpoint")
    with explained("stopped; the same command plays what is missing, and repeats no request that was answered"):
        try:
            way = _method(method, trials, admissible)
            sampling, prices = _sampling(way, temperature, max_tokens, body or ()), _prices(price)
            found, row = choose_panel(name, given, count, pictures=endpoint is not None)
            who = model if endpoint is None else f"{model}@{endpoint}"
            chosen = _examples(found, row, who, shots, examples)
            if dry_run:
                _print_first(found, row, who, way, chosen, seed, console)
                return
            folder = folder_of(out, found.panel.name, f"{who} {label_of(way, chosen)}")
            if endpoint is not None:
                more = {
                    "send_seed": send_seed, "key_variable": key_variable, "timeout": timeout, "retries": retries,
                    "prices": prices, "budget": budget, "concurrency": places,
                }  # fmt: skip
                sampling = dataclasses.replace(sampling, endpoint={**sampling.endpoint, **more})
            sampling = dataclasses.replace(sampling, download=download)
            player = prompted(find_player(who, row, found.arguments, sampling, folder), way, chosen, folder)
            with (
                telling(console, f"{player.name} plays {found.panel.name}") as tell,
                patient(console, "the answers that are under way") as pause,
            ):
                results = play_panel(
                    found, player, folder, samples=samples, seed=seed, places=places, tell=tell, pause=pause
                )
        except ResultsError:
            raise
        except BudgetSpentError as error:
            limits = {"--most-requests": most_requests, "--most-tokens": most_tokens, "--most-cost": most_cost}
            given_limits = " or ".join(flag for flag, limit in limits.items() if limit is not None)
            raise stop(f"{error}\nraise {given_limits} and give the command again: answers are kept", 1) from None
        except RuntimeError as error:  # an endpoint that does not answer
            raise stop(f"{error}\nthe same command plays what is missing", 1) from None
        except ValueError as error:
            raise typer.BadParameter(clean(redact(str(error)))) from None
    if chosen.episodes:
        write_json(chosen, folder / EXAMPLES)
    costs = costs_of(folder, Journal(folder / JOURNAL).episodes, way.trials, prices)
    save_costs(costs, folder)
    print_panel([results], row, console)
    print_costs(costs, console)
    if endpoint is not None:
        say(console, f"this run: {player.policy.endpoint.usage}")  # type: ignore[attr-defined]
    print_anchors(found.panel.name, console)
    say(console, f"results: {folder}")


def _method(name: str, trials: int | None, admissible: bool | None) -> Method:
    if name not in METHODS:
        raise typer.BadParameter(f"expected one of {', '.join(METHODS)}, got {name!r}", param_hint="--method")
    method = METHODS[name]
    if trials is not None and method.trials == 1:
        raise typer.BadParameter(f"{name} has one trial; reflexion has several", param_hint="--trials")
    listed = method.listed if admissible is None else admissible
    return dataclasses.replace(method, trials=trials or method.trials, listed=listed)


def _sampling(method: Method, temperature: float, max_tokens: int, body: Sequence[str]) -> Sampling:
    """Return how a model writes: what is given replaces the method's, and null leaves it out."""
    given = arguments(body, "--body")
    for name, value in given.items():
        if redact(f"{name}={value}") != f"{name}={value}":
            raise typer.BadParameter(f"{name} is a key, and bodies are kept: see --key-variable", param_hint="--body")
    sent: dict[str, Any] = {**method.body, "temperature": temperature, "max_tokens": max_tokens, **given}
    written = sent.pop("temperature"), sent.pop("max_tokens")
    return Sampling(*written, endpoint={"extra": {name: value for name, value in sent.items() if value is not None}})


def _prices(text: str) -> tuple[float, float]:
    try:
        read, written = (float(each) for each in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"expected READ,WRITTEN such as 2.5,10, got {text!r}", param_hint="--price") from None
    return read, written


def _examples(found: OpenPanel, row: EnvSettings, model: str, shots: int, given: Path | None) -> Examples:
    if given is not None:
        return load_examples(given)
    if not shots:
        return Examples("", [])
    return expert_examples(config_of(row, model, found.arguments), shots, {task.digest for task in found.tasks})


def _print_first(
    found: OpenPanel, row: EnvSettings, model: str, method: Method, examples: Examples, seed: int, console: Console
) -> None:
    """Print what the model would be shown first."""
    envs = method.envs(config_of(row, model, found.arguments), 1, examples)
    with contextlib.closing(envs):
        observations, _ = envs.reset(seed=seed, options=[{"task_id": found.tasks[0].id}])  # type: ignore[arg-type]
    for message in sent_messages(observations[0]):
        say(console, f"[{message['role']}]", "bold")
        parts = message["content"]
        for part in [{"type": "text", "text": parts}] if isinstance(parts, str) else parts:
            say(console, part["text"] if part["type"] == "text" else "(a picture)")
