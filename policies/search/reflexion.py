"""Reflexion (Shinn et al. 2023): after a lost episode a model writes a note, which it reads in the next trial.

    trial 1 -> lost -> note 1        trial 2, shown note 1 -> lost -> note 2        trial 3, shown notes 1 and 2 -> ...

The latest three notes are kept, as in the paper. The wording of the request is ours; its parts are the paper's.
"""

from collections.abc import Mapping, Sequence
from typing import Any

#: Number of notes that are shown, the latest ones; the paper's Omega, 1 to 3.
MOST_KEPT = 3

_ROLES = {"user": "Observation", "assistant": "Reply", "tool": "Observation"}
_TASK = (
    "You look back at a failed attempt at a task and note what to do better. Another attempt at the very same task, "
    "from the same beginning, will follow, and your note is all that will be remembered of this one."
)
_ASKED = (
    "The attempt FAILED. Write a note of a few sentences: name the decisions that went wrong or lost time, and give a "
    "short plan for the next attempt that names the actions to take instead. Write the note alone."
)
_EARLIER = "Notes of the attempts before it:"
_SHOWN = "You have tried this very task before and failed. What you noted then, the latest last:"


def story_of(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the observations and replies of a conversation as one text, without rules, examples and pictures.

    >>> print(story_of([{"role": "user", "content": "a wall"}, {"role": "assistant", "content": "up"}]))
    Observation: a wall
    Reply: up
    """
    shown = [message for message in messages if message["role"] in _ROLES]
    return "\n".join(f"{_ROLES[message['role']]}: {_text(message['content'])}" for message in shown)


def reflection_prompt(story: str, notes: Sequence[str]) -> tuple[dict[str, str], ...]:
    """Return the messages that ask for a note on a lost attempt.

    Args:
        notes: of the attempts before it, all of them; the latest `MOST_KEPT` are shown.
    """
    earlier = f"{_EARLIER}\n{_listed(notes)}\n\n" if kept(notes) else ""
    return (
        {"role": "system", "content": _TASK},
        {"role": "user", "content": f"The attempt:\n{story}\n\n{earlier}{_ASKED}"},
    )


def with_notes(messages: Sequence[Mapping[str, Any]], notes: Sequence[str]) -> tuple[Mapping[str, Any], ...]:
    """Return a prompt whose first user message begins with the latest notes.

    >>> with_notes(({"role": "user", "content": "a wall"},), ["Go down."])[0]["content"].splitlines()[1:]
    ['- Go down.', '', 'a wall']
    """
    if not kept(notes):
        return tuple(messages)
    before = f"{_SHOWN}\n{_listed(notes)}\n\n"
    place = next(i for i, message in enumerate(messages) if message["role"] == "user")
    content = messages[place]["content"]
    if isinstance(content, str):
        content = before + content
    else:
        content = [{"type": "text", "text": before}, *content]
    return (*messages[:place], {**messages[place], "content": content}, *messages[place + 1 :])


def kept(notes: Sequence[str]) -> list[str]:
    """Return the notes that are shown: the latest nonempty ones."""
    return [note for note in notes if note.strip()][-MOST_KEPT:]


def _listed(notes: Sequence[str]) -> str:
    return "\n".join(f"- {' '.join(note.split())}" for note in kept(notes))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part["type"] == "text")
