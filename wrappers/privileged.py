"""Privileged contexts for a teacher, in addition to a step's prompt; their wrong twins, and controls.

    context        content                                             wrong twin
    expert         the expert's next command in this state             a legal command that does not lead on
    demonstration  the expert's commands from the beginning            those of another task
    sibling        how another episode won from this very state        how another one lost from it
    next           the observation that followed                       the one after another command in this state
    feedback       that the command was refused, or changed nothing    that it was accepted
    outcome        that the episode was won, or not                    the opposite

A context is text for one row, in a block before that row's prompt alone, and never holds the row's own reply.

Source: docs/credit/privileged.md.
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium as gym
import numpy as np

from agentgym.trajectory import StepTable
from wrappers.prompt import text_of
from wrappers.vector_wrapper import Shown, Step, SubEnvWrapper

Context = Literal["expert", "demonstration", "sibling", "next", "feedback", "outcome"]
#: Content of the block: the "right" context; its "wrong" twin; the right one of another "task"; an "unrelated" text;
#: right ones "shuffled" within the group; or nothing in the same frame ("empty").
Control = Literal["right", "wrong", "task", "unrelated", "shuffled", "empty"]
#: Contexts that need the notes of the wrapper `Privileged`; the others need only the table.
NOTED: tuple[Context, ...] = ("expert", "demonstration", "next")

#: Frame of every context and control.
FRAME = "You may know this:\n{}\n"
_SAID = {
    "expert": "The best command now: ", "demonstration": "It is done by: ", "sibling": "From here it went on: ",
    "next": "What is seen next:\n",
}  # fmt: skip
_REFUSED, _STILL, _ACCEPTED = (f"The command will {what}." for what in ("be refused", "change nothing", "be accepted"))
_FAILS, _SUCCEEDS = (f"This attempt will {what}." for what in ("fail", "succeed"))
#: Most commands of a demonstration or a continuation.
MOST = 12
_MANUAL = (
    "Before first use remove the lid and rinse the tank with warm water. Do not fill it above the line. Close the lid "
    "until it clicks. Keep the cable away from heat and wipe the case with a dry cloth once a week. "
)
#: Texts of contexts without commands and observations, for tokenizers that are made from texts.
PHRASES = (FRAME.format(""), *_SAID.values(), _REFUSED, _STILL, _ACCEPTED, _FAILS, _SUCCEEDS, "; ")
_ENDS = (" [success]", " [failure]")


@dataclass(frozen=True)
class Seen:
    """Notes about a state: its observation, the expert's commands (() without any), and the legal commands."""

    text: str
    best: tuple[str, ...]
    legal: tuple[str, ...]


#: Notes about a state that was never reached.
_UNSEEN = Seen("", (), ())


class Privileged(SubEnvWrapper[None]):
    """Notes the material of contexts whenever a state is first reached; observations and infos do not change.

    Put it between the reply parser and the prompts, or outermost; the texts of chat messages are not noted.

    Args:
        env: a vector environment whose sub-environments have an expert, see `agentgym.core.TextEnv`.
        demonstrations: whether the expert also plays every task from its beginning.

    Attributes:
        seen: notes about states, by task and state key.
        solved: the expert's commands from the beginning, by task; () if it does not win within `longest` steps.
    """

    frozen = True

    def __init__(
        self, env: gym.vector.VectorEnv[Any, Any, Any], *, demonstrations: bool = False, longest: int = 200
    ) -> None:
        super().__init__(env)
        self.demonstrations, self.longest = demonstrations, longest
        self.seen: dict[tuple[str, str], Seen] = {}
        self.solved: dict[str, tuple[str, ...]] = {}

    def begin(self, indices: Sequence[int], shown: Shown) -> None:
        inside: Any = self.unwrapped
        self._note(indices, shown)
        for i in indices if self.demonstrations else ():
            task = str(shown.entry("task_id", i))
            if task not in self.solved:
                self.solved[task] = _demonstrated(inside.envs[i], self.longest)

    def advance(self, step: Step) -> None:
        self._note(step.played, step.after)

    def _note(self, indices: Sequence[int], shown: Shown) -> None:
        inside: Any = self.unwrapped
        for i in indices:
            key = shown.entry("canonical_key", i)
            place = str(shown.entry("task_id", i)), str(shown.entry("state_key", i) if key is None else key)
            if place not in self.seen:
                env = inside.envs[i]
                legal = tuple(shown.entry("admissible_actions", i, ()))
                self.seen[place] = Seen(text_of(env.observe()), best_commands(env) if legal else (), legal)


def best_commands(env: Any) -> tuple[str, ...]:
    """Return every best command that a sub-environment knows in its state; () if it knows none."""
    if hasattr(env, "optimal_actions"):
        return tuple(env.optimal_actions())
    before, env.expert = env.expert, True
    try:
        command = env.describe(True).get("expert_action", "")
    finally:
        env.expert = before
    return (command,) if command else ()


def _demonstrated(env: Any, longest: int) -> tuple[str, ...]:
    saved, played = env.snapshot(), list[str]()
    won = False
    while len(played) < longest and (best := best_commands(env)):
        played.append(best[0])
        _, ended, _ = env.act(best[0])
        if ended or env.is_cut():
            won = bool(env.describe(True)["won"])
            break
    env.resume(saved)
    return tuple(played) if won else ()


@dataclass(frozen=True)
class Contexts:
    """Contexts of every row of a table.

    Attributes:
        right: N texts; None: the row has no context.
        wrong: N tuples with the texts of wrong twins, possibly empty.
    """

    right: list[str | None]
    wrong: list[tuple[str, ...]]

    def under(
        self, control: Control, table: StepTable, seed: int = 0, elsewhere: Sequence[str] = ()
    ) -> list[str | None]:
        """Return the text of each row's block; None: the row has no block.

        Args:
            seed: seed of "shuffled".
            elsewhere: contexts of another task, for "task" with a table of one group.
        """
        if control == "right":
            return self.right
        if control == "wrong":
            pairs = zip(self.right, self.wrong, strict=True)
            return [wrong[0] if text is not None and wrong else None for text, wrong in pairs]
        if control == "empty":
            return [None if text is None else "" for text in self.right]
        if control == "unrelated":
            return [None if text is None else _unrelated(len(text)) for text in self.right]
        found: list[str | None] = [None] * len(self.right)
        held = np.array([row for row, text in enumerate(self.right) if text is not None], np.int64)
        if control == "task" and table.n_groups == 1:
            for place, row in enumerate(held.tolist() if elsewhere else ()):
                found[row] = elsewhere[place % len(elsewhere)]
            return found
        generator = np.random.default_rng(seed)
        for group in range(table.n_groups):
            mine = held[table.group[held] == group]
            other = mine if control == "shuffled" else held[table.group[held] == (group + 1) % table.n_groups]
            if len(other) and (control == "shuffled" or table.n_groups > 1):
                given = generator.permutation(other) if control == "shuffled" else other
                for place, row in enumerate(mine.tolist()):
                    found[row] = self.right[int(given[place % len(given)])]
        return found


def contexts(kind: Context, table: StepTable, notes: Privileged | None = None, most_wrong: int = 4) -> Contexts:
    """Return the contexts of every row of a table.

    Args:
        table: N rows without forks; for contexts of `NOTED`, group labels are task ids.
        notes: around the environments that were played.

    Raises:
        ValueError: the kind needs notes, and there are none.
    """
    if kind in NOTED and notes is None:
        raise ValueError(
            f"the context {kind!r} is made of what wrappers.privileged.Privileged notes: wrap the environments in it"
        )
    makers: Mapping[str, Callable[[], Contexts]] = {
        "expert": lambda: _expert(table, notes), "demonstration": lambda: _demonstrations(table, notes),
        "sibling": lambda: _siblings(table), "next": lambda: _next(table, notes), "feedback": lambda: _feedback(table),
        "outcome": lambda: _outcome(table),
    }  # fmt: skip
    found = makers[kind]()
    return Contexts(found.right, [texts[:most_wrong] for texts in found.wrong])


def expert_texts(task: str, state: str, notes: Privileged) -> tuple[str | None, tuple[str, ...]]:
    """Return the context "expert" of a state (None if no best command is known), and its wrong twins."""
    seen = notes.seen.get((task, state), _UNSEEN)
    others = [command for command in seen.legal if command not in seen.best]
    if others:  # not always the first of the list
        start = zlib.crc32(f"{task} {state}".encode()) % len(others)
        others = others[start:] + others[:start]
    said = _SAID["expert"]
    return said + seen.best[0] if seen.best else None, tuple(said + command for command in others)


def _expert(table: StepTable, notes: Any) -> Contexts:
    found = [expert_texts(task, state, notes) for task, state in places_of(table)]
    return Contexts([right for right, _ in found], [wrong for _, wrong in found])


def _demonstrations(table: StepTable, notes: Any) -> Contexts:
    tasks = list(map(str, table.groups))
    said = _SAID["demonstration"]
    texts = [said + "; ".join(done[:MOST]) if (done := notes.solved.get(task)) else None for task in tasks]
    others = [tuple(text for text in texts[group + 1 :] + texts[:group] if text) for group in range(len(texts))]
    groups = table.group.tolist()
    return Contexts([texts[group] for group in groups], [others[group] for group in groups])


def _siblings(table: StepTable) -> Contexts:
    """Continuations of other episodes of the group from the row's state, the shortest first.

    Won episodes are shown from the last visit of the state, lost ones from the first, with the mistake made there.
    """
    after: dict[tuple[int, int], list[tuple[int, int, str]]] = {}
    won = table.trajectory_won.tolist()
    for episode in range(table.n_trajectories):
        rows = table.order[table.offsets[episode] : table.offsets[episode + 1]]
        visits = list(enumerate(table.state[rows].tolist()))
        commands = [str(table.actions[action]) for action in table.action[rows].tolist()]
        for state, place in {state: place for place, state in (visits if won[episode] else visits[::-1])}.items():
            text = _SAID["sibling"] + "; ".join(commands[place : place + MOST])
            group = int(table.trajectory_group[episode])
            after.setdefault((group, state), []).append((len(rows) - place, episode, text))
    right, wrong = list[str | None](), list[tuple[str, ...]]()
    for group, state, own in zip(table.group.tolist(), table.state.tolist(), table.trajectory.tolist(), strict=True):
        others = sorted(each for each in after[group, state] if each[1] != own)
        right.append(next((text for _, episode, text in others if won[episode]), None))
        wrong.append(tuple(text for _, episode, text in others if not won[episode]))
    return Contexts(right, wrong)


def _next(table: StepTable, notes: Any) -> Contexts:
    after = [notes.seen.get(place) for place in places_of(table, table.next_state)]
    texts = [None if seen is None else _SAID["next"] + seen.text for seen in after]
    beside: dict[tuple[int, int], dict[str, None]] = {}
    places = list(zip(table.group.tolist(), table.state.tolist(), strict=True))
    for at, text in zip(places, texts, strict=True):
        if text is not None:
            beside.setdefault(at, {})[text] = None
    elsewhere = [
        tuple(other for other in beside.get(at, ()) if other != text) for at, text in zip(places, texts, strict=True)
    ]
    return Contexts(list(texts), elsewhere)


def _feedback(table: StepTable) -> Contexts:
    fails = ~table.valid | (table.state == table.next_state)
    right = [
        (_STILL if valid else _REFUSED) if failed else None
        for valid, failed in zip(table.valid.tolist(), fails.tolist(), strict=True)
    ]
    return Contexts(right, [(_ACCEPTED,) if text else () for text in right])


def _outcome(table: StepTable) -> Contexts:
    words = (_FAILS, _SUCCEEDS)
    won = table.won.tolist()
    return Contexts([words[flag] for flag in won], [(words[not flag],) for flag in won])


def places_of(table: StepTable, states: Any = None) -> list[tuple[str, str]]:
    """Return task and state key of rows (None: of their states) as environments name them, without marks of ends."""
    found = []
    states = table.state if states is None else states
    for group, state in zip(table.group.tolist(), states.tolist(), strict=True):
        key = str(table.states[state])
        for end in _ENDS:
            key = key.removesuffix(end)
        found.append((str(table.groups[group]), key))
    return found


def _unrelated(length: int) -> str:
    words = (_MANUAL * (length // len(_MANUAL) + 1))[: max(length, 1)]
    return words.rpartition(" ")[0] or words
