"""Dialogues of two sides: acts as values, JSON commands and lines of text, and the players of a side."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from agentgym.outside.text import MOST_CHARACTERS, DataError, clean, one_line, read_json

_T = TypeVar("_T")

#: Kinds of acts, in the order in which they are offered.
KINDS = ("none", "speak", "non-verbal communication", "action", "leave")

#: Maximum number of characters of an act's text; the rest is cut off on input.
LONGEST = 10_000


class Act(NamedTuple):
    """A kind of `KINDS` and a text; `none` and `leave` have no text."""

    kind: str
    text: str = ""


NONE = Act("none")
LEAVE = Act("leave")
_WORDLESS = {"none": NONE, "leave": LEAVE}


def parse(command: str) -> tuple[Act, bool]:
    """Return the act of a command, and whether the command is valid; an invalid one does nothing.

    A command is a JSON object with `action_type` (one of `KINDS`) and `argument` (optional for `none` and `leave`),
    alone or in a Markdown fence; other keys are ignored.
    """
    text = command.strip()
    if text.startswith("```") and text.endswith("```"):
        text = text[3:-3]
        text = (text[4:] if text[:4].lower() == "json" else text).strip()
    if not text.startswith("{") or len(text) > MOST_CHARACTERS:
        return NONE, False
    try:
        given = read_json(text)
    except DataError:
        return NONE, False
    kind, argument = given.get("action_type"), given.get("argument")
    if not isinstance(kind, str) or kind not in KINDS:
        return NONE, False
    if kind in _WORDLESS:
        return _WORDLESS[kind], True
    return (Act(kind, clean(argument, LONGEST)), True) if isinstance(argument, str) else (NONE, False)


def write(act: Act) -> str:
    """Return the JSON command of an act, which `parse` reads."""
    return json.dumps({"action_type": act.kind, "argument": act.text}, ensure_ascii=False)


def act_line(name: str, act: Act) -> str:
    """Return the act as one line of the observation, so that no utterance can imitate a turn."""
    kind, text = act
    if kind == "speak":
        return f'{name} said: "{one_line(text)}"'
    if kind == "none":
        return f"{name} did nothing"
    if kind == "leave":
        return f"{name} left the conversation"
    return f"{name} [{kind}] {one_line(text)}"


class Turn(NamedTuple):
    """The acts of both sides in a turn (`none` for a side out of turn); turns count from 0."""

    number: int
    acts: tuple[Act, Act]


def turn_line(names: tuple[str, str], turn: Turn) -> str:
    """Return a turn as lines of the observation; `none` is not mentioned."""
    acts = [act_line(name, act) for name, act in zip(names, turn.acts, strict=True) if act.kind != "none"]
    return f"Turn #{turn.number}: {';'.join(acts)}\n"


#: Maximum number of characters of turns in an observation (the latest): they and an opening fit into a `TextSpace`.
MOST_TOLD = 800_000


def turn_lines(names: tuple[str, str], turns: Iterable[Turn]) -> str:
    """Return turns as lines of the observation, without the oldest ones beyond `MOST_TOLD` characters."""
    lines = [turn_line(names, turn) for turn in turns]
    text = "".join(lines)
    while len(text) > MOST_TOLD:
        lines = lines[(len(lines) + 1) // 2 :]
        text = "".join(lines)
    return text


class View(NamedTuple):
    """The knowledge of one side; input of a player.

    Attributes:
        task_id: the task's id.
        role: 0 or 1.
        names: of both people, by role.
        opening: first observation of this side.
        turns: the turns so far.
        kinds: kinds of acts allowed now; only "none" when the other is in turn.
        max_turns: turns after which the dialogue is cut.
        private: this side's part of the game, such as its prices; None without a game.
        seed: for scripted players, and models with `draw`.
        standing: state of the game; None without a game, or if it was not followed.
        draw: selects another sample of a model's answers; None: by the seed alone.
    """

    task_id: str
    role: int
    names: tuple[str, str]
    opening: str
    turns: Sequence[Turn]
    kinds: tuple[str, ...]
    max_turns: int
    private: Any
    seed: int
    standing: Any = None
    draw: int | None = None

    @property
    def name(self) -> str:
        return self.names[self.role]

    @property
    def partner_name(self) -> str:
        return self.names[1 - self.role]

    @property
    def turn(self) -> int:
        """Number of the next turn, from 0."""
        return len(self.turns)

    @property
    def text(self) -> str:
        """All observations of this side."""
        return self.opening + turn_lines(self.names, self.turns)


class Failure(NamedTuple):
    """The reason why a player or judge did not answer, in one sentence, and the number of tries."""

    reason: str
    attempts: int = 1


@runtime_checkable
class Player(Protocol):
    """Plays a side of dialogues."""

    def act(self, views: Sequence[View]) -> list[Act | Failure]:
        """Return the next act of each dialogue, or a failure.

        It must depend on the view alone, so that dialogues can be branched.
        """


def ask_player(player: Player, views: Sequence[View]) -> list[Act | Failure]:
    """Return a player's acts; an `OSError` and non-acts become failures, a wrong number of acts a RuntimeError."""
    try:
        acts: Sequence[Act | Failure] = player.act(views)
    except OSError as error:
        acts = [lost(player, error)] * len(views)
    return [_sound(act, player) for act in complete(acts, len(views), player, "act")]


def converse(sides: Sequence[Any], player: Player) -> None:
    """Let a player act for all sides in turn (`view` is not None), in one call per round; `hear` takes its acts."""
    while waiting := [(side, view) for side in sides if (view := side.view) is not None]:
        for (side, _), act in zip(waiting, ask_player(player, [view for _, view in waiting]), strict=True):
            side.hear(act)


def lost(who: object, error: OSError) -> Failure:
    """Return the failure for an error of a player or judge."""
    return Failure(f"{type(who).__name__}: {type(error).__name__}: {error!s:.500}")


def complete(answers: Sequence[_T], count: int, who: object, method: str) -> Sequence[_T]:
    """Return the answers, or raise a RuntimeError if their number is not that of the dialogues."""
    if len(answers) != count:
        raise RuntimeError(f"{type(who).__name__}.{method}: {len(answers)} answers to {count} dialogues")
    return answers


def _sound(act: Act | Failure, partner: Player) -> Act | Failure:
    if isinstance(act, Failure):
        return act
    if not isinstance(act, Act) or act.kind not in KINDS or not isinstance(act.text, str):
        shown = f"kind {act.kind:.50}" if isinstance(act, Act) and isinstance(act.kind, str) else type(act).__name__
        return Failure(f"{type(partner).__name__}: {shown} is no act: its kind must be one of {', '.join(KINDS)}")
    text = "" if act.kind in ("none", "leave") else clean(act.text, LONGEST)
    return act if text is act.text else Act(act.kind, text)
