"""The space of chat messages: what a chat model is shown in one turn."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

Message = dict[str, Any]
Messages = tuple[Message, ...]

ROLES = ("system", "user", "assistant")


class MessageSpace(gym.Space[Messages]):
    """Non-empty tuples of messages `{"role": ..., "content": ...}` in the common chat format.

    The content is a string, or for prompts with a picture a list of parts `{"type": "text", "text": str}` and
    `{"type": "image", "image": uint8 array (height, width, 3)}`.

    >>> space = MessageSpace(seed=0)
    >>> ({"role": "user", "content": "hello"},) in space, ({"role": "user"},) in space, space.sample() in space
    (True, False, True)
    """

    def __init__(self, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """Messages have no fixed-size array form."""
        return False

    def sample(self, mask: None = None, probability: None = None) -> Messages:
        """Draw a single user message with a random number for text (neither mask nor probability are supported)."""
        if mask is not None or probability is not None:
            raise ValueError("MessageSpace.sample takes neither mask nor probability: sample without them")
        return ({"role": "user", "content": str(self.np_random.integers(1 << 32))},)

    def contains(self, x: Any) -> bool:
        """Say whether `x` is a non-empty tuple of well-formed messages."""
        return isinstance(x, tuple) and bool(x) and all(_is_message(message) for message in x)

    def __repr__(self) -> str:
        """Show the constructor call."""
        return "MessageSpace()"

    def __eq__(self, other: object) -> bool:
        """All message spaces hold the same values."""
        return isinstance(other, MessageSpace)

    __hash__ = None  # type: ignore[assignment]  # as other Gymnasium spaces: mutable through its generator


def _is_message(message: Any) -> bool:
    if not isinstance(message, dict) or message.keys() != {"role", "content"} or message["role"] not in ROLES:
        return False
    content = message["content"]
    return isinstance(content, str) or (isinstance(content, list) and bool(content) and all(map(_is_part, content)))


def _is_part(part: Any) -> bool:
    if not isinstance(part, dict):
        return False
    if part.get("type") == "text":
        return part.keys() == {"type", "text"} and isinstance(part["text"], str)
    if part.get("type") == "image":
        return part.keys() == {"type", "image"} and isinstance(part["image"], np.ndarray) and part["image"].ndim == 3
    return False
