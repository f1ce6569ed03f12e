"""Text of a reply and the tokens that a model writes of it, both ways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentgym.outside.text import clean
from policies.pretrained import Settings


class ReplyText:
    """Turns reply tokens into the text of a reply, and back.

    Args:
        tokenizer: a Hugging Face tokenizer.
        settings: prefix, suffix, stop texts and length limit of the replies.
    """

    def __init__(self, tokenizer: Any, settings: Settings) -> None:
        self._tokenizer, self._settings = tokenizer, settings
        self._known: dict[tuple[int, ...], str] = {}

    def __call__(self, token_ids: tuple[int, ...]) -> str:
        """Return the text of a reply, prefix and suffix included."""
        if len(token_ids) > 1:
            return self._wrap(token_ids)
        if token_ids not in self._known:
            self._known[token_ids] = self._wrap(token_ids)
        return self._known[token_ids]

    def _wrap(self, token_ids: tuple[int, ...]) -> str:
        written = clean(self._tokenizer.decode(list(token_ids), skip_special_tokens=True))
        suffix = self._settings.suffix
        if suffix:
            # A model that was not trained here may write the suffix itself; the text has it once.
            written = written.partition(suffix)[0]
        return f"{self._settings.prefix}{written}{suffix}"

    def tokens(self, text: str) -> tuple[int, ...]:
        """Return the tokens that the model would have to write.

        They are without prefix and suffix, and closed by the end token where no stop text ends the reply and the length
        limit leaves room.

        Raises:
            ValueError: the text does not start with the prefix and end with the suffix, or is too long.
        """
        settings = self._settings
        prefix, suffix = settings.prefix, settings.suffix
        if not (text.startswith(prefix) and text.endswith(suffix) and len(text) >= len(prefix) + len(suffix)):
            raise ValueError(f"this policy's replies look like {prefix!r} + ... + {suffix!r}; it cannot write {text!r}")
        written = text[len(prefix) : len(text) - len(suffix)]
        ids: Sequence[int] = tuple(self._tokenizer(written, add_special_tokens=False)["input_ids"])
        ended = any(stop in written for stop in settings.stop)
        if not ended and len(ids) < settings.max_new_tokens and self._tokenizer.eos_token_id is not None:
            ids = (*ids, self._tokenizer.eos_token_id)
        if not 0 < len(ids) <= settings.max_new_tokens:
            raise ValueError(
                f"{written!r} takes {len(ids)} tokens of this tokenizer, the policy writes 1 to "
                f"{settings.max_new_tokens} (its setting max_new_tokens)"
                + (f": make it with max_new_tokens={len(ids)} or more" if ids else "")
            )
        return tuple(ids)
