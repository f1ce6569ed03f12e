"""Where a reply ends: at one of the model's end tokens, or where its text holds a stop text."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import Any


class ReplyEnd:
    """Says whether the tokens of a reply so far end it.

    Args:
        tokenizer: a Hugging Face tokenizer.
        tokens: those that end a reply.
        texts: those that do, wherever they stand in what the other tokens amount to.
    """

    def __init__(self, tokenizer: Any, tokens: Collection[int], texts: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._tokens = frozenset(tokens)
        self._texts = tuple(texts)
        self._special = frozenset(tokenizer.all_special_ids)
        self._may_stop: dict[int, bool] = {}

    def __call__(self, token_ids: Sequence[int]) -> bool:
        """Return whether the reply is over; it was not one token earlier."""
        newest = token_ids[-1]
        if newest in self._tokens:
            return True
        # Decoding the whole reply at every step would be quadratic: only a token that can complete a stop text
        # (it holds the text's last character, or half a character) is worth it.
        if newest not in self._may_stop:
            piece = self._tokenizer.decode([newest])
            self._may_stop[newest] = "\ufffd" in piece or any(text[-1:] in piece for text in self._texts)
        if not self._may_stop[newest]:
            return False
        # No character takes more than four tokens. All tokens at every step would be quadratic.
        most = 4 * max(map(len, self._texts), default=0) + 4
        newest_first = (token for token in reversed(token_ids) if token not in self._special)
        tail = list(itertools.islice(newest_first, most))[::-1]
        written = self._tokenizer.decode(tail, skip_special_tokens=True)
        return any(text in written for text in self._texts)
