"""Play a text environment in a terminal: `python -m agentgym.play ALFWorld --split valid_unseen --index 3`."""

import argparse
import contextlib
import shutil
import sys
import textwrap
from ast import literal_eval
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from agentgym.checks import suggest
from agentgym.core import TextEnv
from agentgym.outside.text import clean
from agentgym.registry import ROWS, known_env

WORDS = {
    "undo": "undo the last command",
    "save": "save this state",
    "restore": "return to the saved state",
    "hint": "show the expert's command",
    "info": "show the info",
    "again": "start again",
    "help": "list these words",
    "quit": "stop; so do Ctrl-C and the end of the input",
}
_PLACEHOLDER = "<your "


@dataclass
class _Moment:
    snapshot: Any
    text: str
    info: dict[str, Any]
    steps: int
    total: float
    over: str


class Game:
    """One player's episodes in a text environment; `options` are those of `TextEnv.reset`."""

    def __init__(self, env: gym.Env[Any, Any], seed: int | None, options: dict[str, Any]) -> None:
        # A snapshot has no counter of an outer time limit, so steps are counted here.
        self.branches = isinstance(env.unwrapped, TextEnv)
        self._limit = env.spec.max_episode_steps if self.branches and env.spec is not None else None
        self.env: Any = env.unwrapped if self.branches else env
        self._options = options
        self.begin(seed)

    def begin(self, seed: int | None = None) -> None:
        observation, info = self.env.reset(seed=seed, options=self._options or None)
        self.now = _Moment(None, text_of(observation), info, 0, 0.0, "")
        self.saved: _Moment | None = None
        self.past: list[_Moment] = []
        self._remember()

    def _remember(self) -> None:
        if self.branches:
            self.now.snapshot = self.env.snapshot()

    def play(self, command: str) -> None:
        self.past.append(self.now)
        observation, reward, terminated, truncated, info = self.env.step(command)
        steps, total = self.now.steps + 1, self.now.total + float(reward)
        cut = truncated or (self._limit is not None and steps >= self._limit)
        over = "won" if info.get("won") else "over" if terminated else "out of time" if cut else ""
        self.now = _Moment(None, text_of(observation), info, steps, total, over)
        self._remember()

    def go(self, moment: _Moment) -> None:
        self.env.restore(moment.snapshot)
        self.now = moment

    def commands(self) -> tuple[str, ...]:
        """Commands that have a number now."""
        return () if self.now.over else tuple(self.now.info.get("admissible_actions", ()))


def text_of(observation: Any) -> str:
    """Return the text of an observation: itself, or its entry "text"."""
    text = observation.get("text") if isinstance(observation, dict) else observation
    if not isinstance(text, str):
        raise TypeError(f"its observations are {type(observation).__name__}, not text: only text can be played here")
    return text


def show(game: Game, *, first: bool = False) -> None:
    """Print the observation and the numbered commands."""
    now = game.now
    instructions = getattr(game.env, "instructions", "")
    if first and instructions:
        print(*[textwrap.fill(line, _width()) for line in clean(instructions).split("\n")], sep="\n", end="\n\n")
    print(clean(now.text))
    if now.steps and not now.info.get("is_action_valid", True):
        print("(that command is not possible here)")
    if now.over:
        steps = f"{now.steps} step{'s' * (now.steps != 1)}"
        print(f"\n{now.over}: return {now.total:g} in {steps}. Type again, {'undo, ' * game.branches}or quit.")
        return
    if commands := game.commands():
        print()
        for line in _columns([f"{i} {clean(each)}" for i, each in enumerate(commands, 1)]):
            print(line)


def _columns(cells: Sequence[str]) -> Iterator[str]:
    width = max(map(len, cells)) + 2
    count = max(1, _width() // width)
    for i in range(0, len(cells), count):
        yield "".join(cell.ljust(width) for cell in cells[i : i + count]).rstrip()


def _width() -> int:
    return min(shutil.get_terminal_size((100, 24)).columns, 120)


def answer(game: Game, typed: str) -> bool:
    """Execute the input; False: stop."""
    commands, word = game.commands(), typed.removeprefix(":").strip().lower()
    if typed in commands:  # if a command equals one of our words, the word needs a colon (":help")
        _play(game, typed)
    elif typed.isdecimal() and commands:
        number = int(typed) if len(typed) < 10 else 0
        if 1 <= number <= len(commands):
            _play(game, _filled(commands[number - 1]))
        else:
            print(f"there is no command {typed}: 1 to {len(commands)}")
    elif word == "quit":
        return False
    elif word in WORDS:
        _word(game, word)
    elif typed.startswith(":"):
        print(f"unknown word {typed!r}; {suggest(word, WORDS)}")
    elif game.now.over:
        print("the episode is over: type again" + (", undo" if game.branches else "") + " or quit")
    else:
        _play(game, typed)
    return True


def _play(game: Game, command: str) -> None:
    before = game.now.total
    game.play(command)
    show(game)
    if game.now.total != before:
        print(f"(reward {game.now.total - before:g})")


def _filled(command: str) -> str:
    head, mark, rest = command.partition(_PLACEHOLDER)
    name, end, tail = rest.partition(">")
    return head + input(f"{name}: ").strip() + tail if mark and end else command


def _word(game: Game, word: str) -> None:
    if word == "help":
        for name, meaning in WORDS.items():
            print(f"{name:8} {meaning}")
    elif word == "info":
        for name, value in game.now.info.items():
            if name not in ("admissible_actions", "expert_action"):
                print(f"{name:18} {clean(str(value))}")
    elif word == "hint":
        hint = game.now.info.get("expert_action")
        print(clean(hint) if hint else "the expert has no hint here" if hint == "" else "there is no expert")
    elif word == "again":
        game.begin()
        show(game)
    elif not game.branches:
        print(f"no {word}: this environment has no snapshots")
    elif word == "save":
        game.saved = game.now
        print("saved")
    elif word == "undo" and not game.past:
        print("this is the beginning")
    elif word == "restore" and game.saved is None:
        print("nothing is saved yet")
    else:
        moment = game.past.pop() if word == "undo" else game.saved
        assert moment is not None
        if word == "restore":
            game.past.append(game.now)
        game.go(moment)
        show(game)


def _arguments(words: Sequence[str], parser: argparse.ArgumentParser) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (equals and name.isidentifier()):
            parser.error(f"--set: expected name=value, got {word!r}")
        try:
            found[name] = literal_eval(value)
        except (ValueError, SyntaxError):
            found[name] = value
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; exit status 0, 130 after Ctrl-C, 2 for a wrong argument."""
    words = ", ".join(WORDS)
    parser = argparse.ArgumentParser(
        "python -m agentgym.play", description="Play a text environment in this terminal.",
        epilog=f"While playing: a command, its number, or one of: {words}. A colon marks a word (:help).",
    )  # fmt: skip
    known = ", ".join(row.id for row in ROWS)
    parser.add_argument("env", help=f"a Gymnasium id ({known}; module:id imports the module first)")
    parser.add_argument("--split", help="split of the tasks")
    parser.add_argument("--index", type=int, help="number of the task in the split; default: a random one")
    parser.add_argument("--task", metavar="ID", help="id of the task")
    parser.add_argument("--seed", type=int, help="seed of all draws")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="argument of the environment, such as boxes=3"
    )
    given = parser.parse_args(argv)
    for stream in (sys.stdout, sys.stdin):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # terminals without a character, input that is not text
    try:
        env_id = known_env(given.env)
    except ValueError as error:
        parser.error(str(error))
    options = {"split": given.split, "index": given.index, "task_id": given.task}
    options = {name: value for name, value in options.items() if value is not None}
    arguments = _arguments(given.set, parser)
    if env_id in {row.id for row in ROWS}:
        arguments.setdefault("expert", True)
    if env_id == "AgentRL/VisualSokoban-v0":  # a terminal shows no picture
        arguments.setdefault("show_board", True)
    try:
        game = Game(gym.make(env_id, **arguments), given.seed, options)
    except (ValueError, TypeError, OSError, ImportError, gym.error.Error) as error:
        parser.error(f"{given.env}: {error}")
    if sys.stdin.isatty():
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  # line editing and history
    try:
        show(game, first=True)
        while answer(game, input("\n> ").strip()):
            pass
    except EOFError:
        print()
    except KeyboardInterrupt:
        print()
        return 130
    except BrokenPipeError:  # the reader of the output stopped, as `head` does
        sys.stderr.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
