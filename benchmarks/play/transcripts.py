"""Logs of other programs as episodes: task, actions, the texts shown after them, and the claimed result."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agentgym.outside.text import DataError, read_json_lines, read_text
from benchmarks.json_files import ResultsError

#: Formats and their looks.
FORMATS: dict[str, str] = {
    "lines": "JSON lines with 'task' (or 'task_id', 'gamefile') and 'actions', also 'observations', 'won' and 'score'",
    "steps": "JSON lines with 'kind', a 'reset' and then 'step' rows, of the original engine",
    "verl": "JSON lines with 'input', 'output' and 'score', a row per step, as verl-agent dumps them",
}
_TASKS = ("task_id", "task", "gamefile", "game")
_WON = ("won", "success", "is_success")
_NOW, _OFFERED = "current observation is:", "Your admissible actions of the current situation"
_TAKEN = re.compile(r"already taken (\d+) step")
#: verl-agent's reward of a won episode, and the characters that it plays of a reply without tags.
_VERL_WON, _VERL_TAIL = 10.0, 30


@dataclass(frozen=True)
class LoggedStep:
    """An action, the text that the log shows after it (None: none), and its line."""

    action: str
    observation: str | None
    line: int


@dataclass(frozen=True)
class LoggedEpisode:
    """An episode of a log, from a line on; None and "" stand for what the log leaves out: id, first text, claims."""

    line: int
    task: str
    opening: str | None
    steps: tuple[LoggedStep, ...]
    won: bool | None
    score: float | None


@dataclass
class _Reading:
    """An episode while it is read; steps are added in place, in linear time."""

    line: int
    task: str = ""
    opening: str | None = None
    won: bool | None = None
    steps: list[LoggedStep] = field(default_factory=list)

    def done(self) -> LoggedEpisode:
        return LoggedEpisode(self.line, self.task, self.opening, tuple(self.steps), self.won, None)


def read_log(path: Path, form: str | None = None) -> list[LoggedEpisode]:
    """Read a log, plain or .xz, .gz, .bz2, in one of `FORMATS` (None: it is detected).

    `ResultsError` names file and line: no such file, an unknown format, or a line that does not belong to it.
    """
    if not path.is_file():
        raise ResultsError(f"{path}: no such file; expected a log of episodes")
    try:
        form = form or _format_of(path)
        found = list(_READERS[form](path, read_json_lines(path)))
    except (DataError, OSError) as error:
        raise ResultsError(str(error) if isinstance(error, DataError) else f"{path}: {error}") from None
    if not found:
        raise ResultsError(f"{path}: no episode in the format {form!r}: {FORMATS[form]}")
    return found


def _format_of(path: Path) -> str:
    number, line = next(((n, line) for n, line in enumerate(read_text(path).split("\n"), 1) if line.strip()), (1, ""))
    if line.lstrip().startswith("{"):
        _, row = next(read_json_lines(path))
        keys = row.keys() if isinstance(row, dict) else set()
        for form, needed in (("lines", "actions"), ("verl", "output"), ("steps", "kind")):
            if needed in keys:
                return form
        said = f"an object with {', '.join(sorted(keys)) or 'nothing':.200}"
    else:
        said = repr(line[:80])
    known = "; ".join(f"{name}: {looks}" for name, looks in FORMATS.items())
    raise ResultsError(f"{path}, line {number}: unknown format, {said}; known are {known}")


def _lines(path: Path, rows: Iterable[tuple[int, Any]]) -> Iterator[LoggedEpisode]:
    for number, row in rows:
        where = f"{path}, line {number}"
        if not isinstance(row, dict):
            raise ResultsError(f"{where}: expected an object, got {row!r:.80}")
        name = next((key for key in _TASKS if key in row), None)
        if name is None or not isinstance(row[name], str):
            raise ResultsError(f"{where}: expected the id of a task in one of {', '.join(_TASKS)}, got {row!r:.120}")
        actions, shown = _texts(row, "actions", where), _texts(row, "observations", where)
        if actions is None:
            raise ResultsError(f"{where}: expected 'actions', a list of texts, got {row!r:.120}")
        opening = None
        if shown is not None:
            if len(shown) == len(actions) + 1:
                opening, *shown = shown
            elif len(shown) != len(actions):
                raise ResultsError(
                    f"{where}: expected an observation for each of {len(actions)} actions, and perhaps the first one, "
                    f"got {len(shown)}"
                )
        steps = tuple(LoggedStep(each, shown[i] if shown else None, number) for i, each in enumerate(actions))
        yield LoggedEpisode(number, row[name], opening, steps, _won(row, where), _number(row, "score", where))


def _texts(row: Mapping[str, Any], name: str, where: str) -> list[str] | None:
    given = row.get(name)
    if given is not None and not (isinstance(given, list) and all(isinstance(each, str) for each in given)):
        raise ResultsError(f"{where}: {name!r} must be a list of texts, got {given!r:.120}")
    return given


def _won(row: Mapping[str, Any], where: str) -> bool | None:
    name = next((key for key in _WON if row.get(key) is not None), None)
    if name is not None and row[name] not in (0, 1):
        raise ResultsError(f"{where}: {name!r} must be true or false, got {row[name]!r:.80}")
    return None if name is None else bool(row[name])


def _number(row: Mapping[str, Any], name: str, where: str) -> float | None:
    given = row.get(name)
    if given is not None and (isinstance(given, bool) or not isinstance(given, int | float)):
        raise ResultsError(f"{where}: {name!r} must be a number, got {given!r:.80}")
    return None if given is None else float(given)


def _steps(path: Path, rows: Iterable[tuple[int, Any]]) -> Iterator[LoggedEpisode]:
    """Read up to a row that is `done`; the original engine plays on after it."""
    episode: _Reading | None = None
    done = False
    for number, row in rows:
        where = f"{path}, line {number}"
        kind = row.get("kind") if isinstance(row, dict) else None
        needed = {"reset": ("observation", "game"), "step": ("observation", "action")}.get(str(kind))
        if needed is None or not all(isinstance(row.get(key), str) for key in needed):
            raise ResultsError(f"{where}: expected a row of kind 'reset' or 'step' with its texts, got {row!r:.120}")
        if kind == "reset":
            if episode is not None:
                yield episode.done()
            episode, done = _Reading(number, row["game"], row["observation"]), False
        elif episode is None:
            raise ResultsError(f"{where}: a step before the first 'reset'")
        elif not done:
            done = bool(row.get("done"))
            episode.steps.append(LoggedStep(row["action"], row["observation"], number))
            won = _won(row, where)
            episode.won = episode.won if won is None else won
    if episode is not None:
        yield episode.done()


def _verl(path: Path, rows: Iterable[tuple[int, Any]]) -> Iterator[LoggedEpisode]:
    """Read a row per step: an episode begins where the prompt names no earlier step, and each row has its score."""
    episode: _Reading | None = None
    for number, row in rows:
        where = f"{path}, line {number}"
        if not isinstance(row, dict) or not all(isinstance(row.get(key), str) for key in ("input", "output")):
            raise ResultsError(f"{where}: expected 'input' and 'output', got {row!r:.120}")
        _, begun, behind = row["input"].partition(_NOW)
        shown, ended, _ = behind.partition(_OFFERED)
        if not (begun and ended):
            raise ResultsError(f"{where}: the prompt has no 'current observation is: ... Your admissible actions'")
        now, taken = shown.strip(), _TAKEN.search(row["input"])
        before = taken[1] if taken else "0"
        score = _number(row, "score", where)
        if before == "0":
            if episode is not None:
                yield episode.done()
            won = None if score not in (0.0, _VERL_WON) else score == _VERL_WON
            episode = _Reading(number, opening=now, won=won)
        if episode is None:
            raise ResultsError(f"{where}: expected the first step of an episode, got one after {before:.40}")
        if episode.steps:
            episode.steps[-1] = replace(episode.steps[-1], observation=now)
        episode.steps.append(LoggedStep(_verl_action(row["output"]), None, number))
    if episode is not None:
        yield episode.done()


def _verl_action(reply: str) -> str:
    """Return the action as verl-agent reads it: between the first tags in lower case, or the end of the reply."""
    text = reply.lower()
    begin, end = text.find("<action>"), text.find("</action>")
    return text[-_VERL_TAIL:] if begin < 0 or end < 0 else text[begin + len("<action>") : end].strip()


_READERS: dict[str, Callable[[Path, Iterable[tuple[int, Any]]], Iterator[LoggedEpisode]]] = {
    "lines": _lines, "steps": _steps, "verl": _verl,
}  # fmt: skip
