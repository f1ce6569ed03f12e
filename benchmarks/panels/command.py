"""`panel`: one player after another on a whole panel, with intervals, and a file that others can check.

python -m benchmarks.run panel alfworld/valid_unseen@1 --option data=~/.cache/alfworld --policy explorer

The folder of a player then holds

    config.json    what was asked; another configuration needs another folder
    episodes.jsonl finished episodes, see `benchmarks.panels.journal`: the same command plays the others
    prompt.json    the first prompt
    answers.sqlite3 what an endpoint answered
    results.json   see `benchmarks.panels.results`
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from agentgym.outside.redaction import redact
from agentgym.outside.text import clean
from agentgym.panels import BESIDE_TASKS, OpenPanel, Panel, find_panel, open_panel, panel_names
from baselines.environments.registry import settings_of
from baselines.environments.settings import SIDE_BY_SIDE, EnvSettings
from benchmarks.console import arguments, explained, say, stop, telling
from benchmarks.json_files import ResultsError, claimed, read_json, write_json
from benchmarks.machine import describe_machine
from benchmarks.panels.journal import JOURNAL, Journal
from benchmarks.panels.play import Unscored, UnscoredError, play
from benchmarks.panels.players import Player, Sampling, find_player, fingerprint, scripted
from benchmarks.panels.results import RESULTS, PanelResults, PolicyInfo, results_of, save
from benchmarks.panels.table import print_anchors, print_panel, print_panels
from benchmarks.training.options import known_env
from benchmarks.training.stack import RANDOM
from policies.engines.chat_api import sent_messages

_PROMPT = "prompt.json"
#: Arguments of environments that say where data are.
_DATA = ("data", "levels", "corpus", "questions", "prices", "cache")


@dataclass(frozen=True)
class PanelConfig:
    """What was asked for; a folder holds the results of one configuration.

    Attributes:
        panel: its name.
        hash: its hash.
        added: arguments of the environment beyond the panel's.
        policy: who plays, without credentials.
        temperature: of a model.
        max_tokens: longest reply of an endpoint.
        seed: of episodes and draws.
        weights: fingerprint of a model's weights, so that a model that was trained on plays anew; None: there are none.
        world: fingerprints of data beside the tasks, see `agentgym.panels.BESIDE_TASKS`; None: no such data.
        prompting: how a model is prompted, and what its endpoint is sent besides; None: as the panel does.
    """

    panel: str
    hash: str
    added: dict[str, Any]
    policy: str
    temperature: float | None
    max_tokens: int | None
    seed: int
    weights: str | None
    world: dict[str, str] | None
    prompting: dict[str, Any] | None


def choose_panel(
    name: str, given: Mapping[str, Any], count: int | None = None, *, pictures: bool = False
) -> tuple[OpenPanel, EnvSettings]:
    """Return a panel by its name, or a split of an environment as a panel of its own.

    Args:
        name: a panel's name, or an environment, with or without "/" and a split.
        given: arguments of the environment.
        count: only so many tasks: the first of the panel, or of the split.
        pictures: whether the player reads them.

    Raises:
        ValueError: there is no such panel, environment or split, or the environment refuses an argument.
        ResultsError: the panel has no task.
    """
    if "@" in name:
        row = settings_of(find_panel(name).env)
        found = open_panel(name, given)
        return (found if count is None else found.first(count)), row
    env, _, split = name.rpartition("/") if "/" in name.removeprefix("AgentRL/") else (name, "", "")
    row = settings_of(known_env(env, pictures=pictures))
    options = {**(row.pretrained_setup or row.setup).options, **given}
    data = {each: options.pop(each) for each in _DATA if each in options}
    split = split or row.setup.test
    rule = Panel(f"{row.name}/{split}", row.id, split, options, dict.fromkeys(data, ""), count)
    try:
        found = open_panel(rule, data)
    except TypeError as error:
        raise ResultsError(f"{row.id}: {error}") from error
    if not found.tasks:
        raise ResultsError(f"split {split!r} has no task for these arguments: {options | data}")
    return found, row


def play_panel(
    found: OpenPanel,
    player: Player,
    folder: Path,
    *,
    samples: int = 1,
    seed: int = 0,
    places: int = SIDE_BY_SIDE,
    tell: Callable[[str], None] = lambda words: None,
    pause: Callable[[], None] = lambda: None,
) -> PanelResults:
    """Play what is missing in a folder, and write its results.

    Args:
        found: the panel.
        player: who plays.
        folder: of this player.
        samples: episodes of each task.
        seed: of episodes and draws.
        places: episodes side by side, at most.
        tell: is told how far it is.
        pause: called before each request, see `benchmarks.panels.play.play`.

    Raises:
        UnscoredError: episodes could not be scored: the same command plays them again.
        OtherConfigurationError: the folder holds something else.
    """
    data = data_of(found)
    config = PanelConfig(
        found.panel.name, found.hash, dict(found.added), player.name, player.sampling.temperature,
        player.sampling.max_tokens, seed,
        weights=player.settings.get("weights"),
        world={name: data[name] for name in BESIDE_TASKS if name in data} or None,
        prompting=player.prompting,
    )  # fmt: skip
    with claimed(folder, config):
        journal = Journal(folder / JOURNAL)
        todo = [(task, k) for k in range(samples) for task in found.tasks if (task.id, k) not in journal.episodes]
        total, unscored = len(found.tasks) * samples, list[Unscored]()
        if todo:
            envs, kept = player.make(min(len(todo), places)), folder / _PROMPT

            def seen(observation: Any) -> None:
                if not kept.is_file():
                    write_json(sent_messages(observation), kept)

            for episode in (player.play or play)(
                envs, player.policy, todo, seed=seed, kinds=player.config.setup.kinds, answers=player.answers,
                seen=seen, pause=pause,
            ):  # fmt: skip
                if isinstance(episode, Unscored):
                    unscored.append(episode)
                else:
                    journal.add([episode])
                tell(f"{player.name}: {len(journal.episodes)} of {total} episodes")
        if unscored:
            raise UnscoredError(
                f"{len(unscored)} of {total} episodes could not be scored, the first: {unscored[0].task!r}, "
                f"{unscored[0].reason}"
            )
        who = PolicyInfo(player.name, dict(player.settings), read_json(folder / _PROMPT))
        results = results_of(
            found, journal.episodes, samples, policy=who, data=data, seed=seed, machine=describe_machine()
        )
        save(results, folder / RESULTS)
    return results


def data_of(found: OpenPanel) -> dict[str, str]:
    """Return a fingerprint of each of the panel's files or folders of data."""
    paths = {name: found.arguments.get(name) or os.environ.get(found.panel.data[name], "") for name in found.panel.data}
    there = {name: Path(str(path)).expanduser() for name, path in paths.items() if path and name != "cache"}
    return {name: fingerprint(path) for name, path in there.items() if path.exists()}


def folder_of(out: Path, panel: str, policy: str) -> Path:
    """Return the folder of a player.

    >>> folder_of(Path("runs"), "alfworld/valid_seen@1[:5]", "qwen@http://127.0.0.1/v1").as_posix()
    'runs/alfworld-valid_seen@1-5/qwen@http-127.0.0.1-v1'
    """
    name = redact(policy) if "@http" in policy else Path(policy).name or policy
    return out.joinpath(*(re.sub(r"[^\w.@]+", "-", each).strip("-.") for each in (panel, name)))


def panel(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A panel such as [bold]alfworld/valid_seen@1[/], or an environment and a split, "
            "[bold]alfworld/valid_seen[/]. Without a name, all panels are listed."
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="[bold]random[/], [bold]expert[/] (the environment's own), [bold]explorer[/], [bold]helper[/], "
            "[bold]shopper[/] and [bold]reader[/] (know what they have seen in ALFWorld, VirtualHome, WebShop and "
            "Search-QA), a job folder such as runs/alfworld/clone-seed0, [bold]smollm2[/], the folder or hub name of a "
            "Hugging Face model, or MODEL@URL for an OpenAI-compatible endpoint. May be given several times. Default: "
            "all that need no folder."
        ),
    ] = None,
    samples: Annotated[int, typer.Option(min=1, help="Episodes of each task.")] = 1,
    option: Annotated[
        list[str] | None,
        typer.Option(
            help="Argument of the environment, such as [bold]data=FOLDER[/], or for a split "
            "[bold]task_types=\\[1,2][/]. May be given several times."
        ),
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Longest episode, of a split.")] = None,
    count: Annotated[
        int | None, typer.Option("--tasks", min=1, help="Only so many: a sample of the panel, the first of a split.")
    ] = None,
    temperature: Annotated[float, typer.Option(min=0, help="Of a model; 0 is greedy.")] = 0.0,
    max_tokens: Annotated[int, typer.Option(min=1, help="Longest reply of an endpoint.")] = 512,
    seed: Annotated[int, typer.Option(min=0, help="Of episodes and draws.")] = 0,
    places: Annotated[int, typer.Option(min=1, help="Episodes side by side, at most.")] = SIDE_BY_SIDE,
    download: Annotated[bool, typer.Option("--download", help="Fetch a model that is not here.")] = False,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("runs/panels"),
) -> None:
    """Play a panel of tasks and print success with intervals, per kind of task; finished episodes are kept."""
    console = Console()
    if name is None:
        print_panels([find_panel(each) for each in panel_names()], console)
        return
    given = arguments(option or ())
    if steps is not None:
        given["max_episode_steps"] = steps
    with explained("stopped; the same command plays what is missing"):
        try:
            found, row = choose_panel(name, given, count)
            shown = []
            for player in policy or scripted(row):
                if samples > 1 and not temperature and player != RANDOM and player not in scripted(row):
                    say(
                        console,
                        f"{redact(player)}: samples at temperature 0 hardly differ; see --temperature",
                        "yellow",
                    )
                with telling(console, f"{redact(player)} plays {found.panel.name}") as tell:
                    folder = folder_of(out, found.panel.name, player)
                    sampling = Sampling(temperature, max_tokens, download)
                    who = find_player(player, row, found.arguments, sampling, folder)
                    shown.append(
                        play_panel(
                            found, who, folder, samples=samples, seed=seed, places=places,
                            tell=tell if console.is_terminal else lambda words: None,
                        )
                    )  # fmt: skip
        except ResultsError:
            raise
        except RuntimeError as error:  # an endpoint that does not answer
            raise stop(f"{error}\nthe same command plays what is missing", 1) from None
        except ValueError as error:
            raise typer.BadParameter(clean(str(error))) from None
    print_panel(shown, row, console)
    print_anchors(found.panel.name, console)
    say(console, f"results: {folder_of(out, found.panel.name, player).parent}")
