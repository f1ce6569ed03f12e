"""`grade`: the log of another program, replayed on the exact engine, episode by episode.

python -m benchmarks.run grade LOG --panel alfworld/valid_unseen@1 --option data=~/.cache/alfworld
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import typer
from rich.console import Console

from agentgym.outside.text import clean
from agentgym.panels import OpenPanel
from benchmarks.console import arguments, explained, option, save_figures, say, stop
from benchmarks.json_files import ResultsError, write_json
from benchmarks.play.command import Options
from benchmarks.play.panel import Episode, choose_panel, data_of
from benchmarks.play.results import PanelResults, PolicyInfo, percent, print_anchors, results_of
from benchmarks.play.transcripts import FORMATS, LoggedEpisode, LoggedStep, read_log
from benchmarks.statistics import wilson_interval

_SCORE_TOLERANCE = 1e-6
#: Characters that are quoted of differing texts, and those before the difference.
_QUOTED, _BEFORE = 80, 20


@dataclass(frozen=True)
class Graded:
    """A replayed episode of a line of the log; without a fitting task it has no result.

    `differences` are between log and engine, in order; `texts` counts compared observations; `claimed` is the log's
    success, None: it has none.
    """

    line: int
    task: str
    differences: tuple[str, ...]
    texts: int
    claimed: bool | None
    episode: Episode | None


@dataclass(frozen=True)
class Grades:
    """The file of `--out`: log, name and hash of the panel, number of differing episodes, and every episode."""

    log: str
    panel: str
    hash: str
    differing: int
    grades: list[Graded]


class Replay:
    """Replays the episodes of logs on a panel's engine; `kinds` is the info entry of a task's kind, "" for none."""

    def __init__(self, found: OpenPanel, kinds: str = "") -> None:
        self.panel, self.kinds = found, kinds
        self.env: gym.Env[Any, Any] = gym.make(found.panel.env, **found.arguments)
        self.limit = self.env.spec.max_episode_steps if self.env.spec else None
        self._ids = {task.id for task in found.tasks}
        self._openings: dict[str, list[str]] | None = None
        self._samples: dict[str, int] = defaultdict(int)

    def grade(self, logged: LoggedEpisode) -> Graded:
        """Replay an episode; without a task id, all tasks with its first text are tried."""
        tried = []
        for candidate in self._candidates(logged):
            tried.append(self._play(logged, candidate))
            if not tried[-1].differences:
                break
        if not tried:
            named = f"the task {logged.task!r:.120}" if logged.task else "its first text"
            reason = f"line {logged.line}: {named} is none of the {len(self._ids)} tasks of {self.panel.panel.name}"
            return Graded(logged.line, "", (reason,), 0, logged.won, None)
        best = max(tried, key=lambda one: (not one.differences, one.texts))
        self._samples[best.task] += 1
        return best

    def _candidates(self, logged: LoggedEpisode) -> list[str]:
        if logged.task:
            parts = [part for part in logged.task.split("/") if not part.endswith(".tw-pddl")]
            return [name for name in (logged.task, "/".join(parts[-2:])) if name in self._ids][:1]
        if logged.opening is None:
            return []
        if self._openings is None:
            self._openings = defaultdict(list)
            for task in self.panel.tasks:
                text = _plain(str(self.env.reset(options={"task_id": task.id})[0]))
                self._openings[text].append(task.id)
        first = _plain(logged.opening)
        return [name for text, ids in self._openings.items() if first and text.endswith(first) for name in ids]

    def _play(self, logged: LoggedEpisode, task: str) -> Graded:
        observation, info = self.env.reset(seed=0, options={"task_id": task})
        differences: list[str] = []
        if logged.opening is not None and not _plain(str(observation)).endswith(_plain(logged.opening)):
            text, engine = _apart(logged.opening, str(observation))
            differences.append(f"line {logged.line}: the first text is {text!r}, the engine's {engine!r}")
        episode = Episode.begun(task, self._samples[task], str(info[self.kinds]) if self.kinds else "")
        texts, over, episode.cut = 0, False, True
        for step in logged.steps:
            if over:
                differences.append(
                    f"line {step.line}: {len(logged.steps) - episode.steps} actions after the end of the episode"
                    + (f", which has at most {self.limit} steps" if episode.steps == self.limit else "")
                )
                break
            observation, reward, terminated, truncated, info = self.env.step(step.action)
            over, episode.cut = bool(terminated or truncated), not terminated
            episode.act(step.action, bool(info["is_action_valid"]), float(reward))
            if step.observation is not None:
                wrong = _unlike(step, str(observation), bool(info["is_action_valid"]))
                texts += not wrong
                differences += [wrong] if wrong and not differences else []
        episode.won, episode.score = bool(info["won"]), float(info["score"])
        differences += _false_claims(logged, episode.won, episode.score)
        return Graded(logged.line, task, tuple(differences), texts, logged.won, episode)


def _false_claims(logged: LoggedEpisode, won: bool, score: float) -> list[str]:
    where, found = f"line {logged.line}", []
    if logged.score is not None and logged.won and logged.score < 1.0 - _SCORE_TOLERANCE and score >= 1.0:
        found.append(f"{where}: a success with the score {logged.score:g}; a score is at least success")
    elif logged.score is not None and abs(logged.score - score) > _SCORE_TOLERANCE:
        found.append(f"{where}: the log claims the score {logged.score:g}, these actions bring {score:g}")
    if logged.won is not None and logged.won != won:
        claimed, reached = ("a success", "do not win") if logged.won else ("a failure", "win")
        found.append(f"{where}: the log claims {claimed}, these actions {reached}")
    return found


def _plain(text: str) -> str:
    return " ".join(text.split())


def _unlike(step: LoggedStep, shown: str, valid: bool) -> str:
    """Return the difference of the text after a step from the engine's; "": none."""
    text, engine = _plain(step.observation or ""), _plain(shown)
    if text == engine:
        return ""
    text, engine = _apart(text, engine)
    refused = "" if valid else ", which refuses it"
    return f"line {step.line}: after {step.action!r:.80} the log shows {text!r}, the engine{refused}: {engine!r}"


def _apart(logged: str, shown: str) -> tuple[str, str]:
    """Return two texts from shortly before their first difference on.

    >>> _apart("In the middle of the room you see a bed 1.", "In the middle of the room you see a desk 1.")
    ('... the room you see a bed 1.', '... the room you see a desk 1.')
    """
    text, engine = _plain(logged), _plain(shown)
    engine = engine[max(0, engine.find(text[:_BEFORE])) :]  # a log may leave out the beginning of the engine's text
    pairs = enumerate(zip(text, engine, strict=False))
    start = next((place for place, (one, other) in pairs if one != other), min(len(text), len(engine))) - _BEFORE
    if start <= 0:
        return text[:_QUOTED], engine[:_QUOTED]
    return f"...{text[start : start + _QUOTED]}", f"...{engine[start : start + _QUOTED]}"


def grade_log(log: Path, found: OpenPanel, kinds: str = "", form: str | None = None) -> Grades:
    """Replay all episodes of a log; `ResultsError` names a line that cannot be read."""
    replay = Replay(found, kinds)
    grades = [replay.grade(episode) for episode in read_log(log, form)]
    differing = sum(bool(one.differences) for one in grades)
    return Grades(str(log), found.panel.name, found.hash, differing, grades)


def results_of_log(found: OpenPanel, graded: Grades) -> PanelResults | None:
    """Return results for `compare`; None if not every task of the panel occurs equally often in the log."""
    episodes = [one.episode for one in graded.grades if one.episode is not None]
    times = Counter(episode.task for episode in episodes)
    if len(episodes) < len(graded.grades) or {times[task.id] for task in found.tasks} != {max(times.values())}:
        return None
    return results_of(
        found, {(each.task, each.sample): each for each in episodes}, max(times.values()), seed=0, machine=None,
        policy=PolicyInfo(Path(graded.log).name, {}, ""), data=data_of(found),
    )  # fmt: skip


def grade(
    log: Annotated[Path, typer.Argument(help="The log, plain or packed.")],
    panel: Annotated[str, option("Panel, or an environment and a split.")],
    form: Annotated[
        str | None, option(f"Format of the log: {', '.join(FORMATS)}. Default: detected.", "--format")
    ] = None,
    option: Options = None,
    quiet: Annotated[bool, option("Print only the episodes that differ.", "--quiet")] = False,
    out: Annotated[Path | None, option("Also write the grades to this JSON file.")] = None,
    results: Annotated[Path | None, option("Write results for compare, if every task occurs equally often.")] = None,
) -> None:
    """Replay the episodes of another program's log, and report differences from the engine."""
    if form is not None and form not in FORMATS:
        raise typer.BadParameter(f"expected one of {', '.join(FORMATS)}, got {form!r}", param_hint="--format")
    console = Console()
    with explained("stopped"):
        try:
            found, row = choose_panel(panel, arguments(option or ()))
            graded = grade_log(log, found, (row.pretrained_setup or row.setup).kinds, form)
        except ResultsError:
            raise
        except ValueError as error:
            raise typer.BadParameter(clean(str(error))) from None
        for one in graded.grades:
            if one.differences or not quiet:
                say(console, f"{log}:{line_of(one)}", "red" if one.differences else "")
        _print_summary(found, graded.grades, console)
        save_figures(graded, out)
        if results is not None:
            whole = results_of_log(found, graded)
            if whole is None:
                raise stop(f"{results}: not written: the tasks of {found.panel.name} do not occur equally often", 1)
            write_json(whole, results)
    if graded.differing:
        raise typer.Exit(1)


def line_of(one: Graded) -> str:
    """Return an episode in words: line, task, agreement of the log, result."""
    if one.episode is None:
        return f"{one.line}: differs; {one.differences[0]}"
    won = "won" if one.episode.won else f"not won (score {one.episode.score:g})"
    reached = f"{won}, {one.episode.steps} actions, {one.episode.invalid} impossible, {one.texts} texts compared"
    if not one.differences:
        return f"{one.line}: {one.task}: agrees; {reached}"
    more = f" (and {len(one.differences) - 1} more)" if len(one.differences) > 1 else ""
    return f"{one.line}: {one.task}: differs; {one.differences[0]}{more}; {reached}"


def _print_summary(found: OpenPanel, grades: Sequence[Graded], console: Console) -> None:
    episodes = [one.episode for one in grades if one.episode is not None]
    differing = sum(bool(one.differences) for one in grades)
    say(console, f"{len(grades)} episodes, {differing} differ from the engine", "red" if differing else "green")
    if not episodes:
        return
    times = Counter(episode.task for episode in episodes)
    again = sum(count > 1 for count in times.values())
    say(console, f"tasks: {len(times)} of the {len(found.tasks)} of {found.panel.name}, {again} of them more than once")
    won = wilson_interval(sum(episode.won for episode in episodes), len(episodes))
    claims = [one.claimed for one in grades if one.claimed is not None]
    claimed = f", the log claims {100 * sum(claims) / len(claims):.1f}" if claims else ""
    actions = sum(episode.steps for episode in episodes)
    refused = 100 * sum(episode.invalid for episode in episodes) / max(1, actions)
    score = sum(episode.score for episode in episodes) / len(episodes)
    say(console, f"success {percent(won)} %{claimed}; score {100 * score:.1f}; {refused:.1f} % of actions impossible")
    print_anchors(found.panel.name, console)
