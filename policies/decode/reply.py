"""Replies as text and as tokens: conversion, end of a reply, and the tokens that may come next."""

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from agentgym.checks import suggest
from agentgym.outside.text import clean
from policies.pretrained import Settings

_Tokens = tuple[int, ...]
#: Number of cached sets of commands; in a room there are a few dozen.
_MOST = 4096


class ReplyText:
    """Turns reply tokens into the text of a reply under some settings, and back."""

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
            # A model that was not trained here may write the suffix itself; add it only once.
            written = written.partition(suffix)[0]
        return f"{self._settings.prefix}{written}{suffix}"

    def tokens(self, text: str) -> tuple[int, ...]:
        """Return the tokens that the model would have to write.

        Prefix and suffix are left out. An end token is added unless a stop text ends the reply or the length limit is
        reached.

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


class ReplyEnd:
    """Tests whether the tokens of a reply so far end it: by an end token, or by a stop text in the other tokens."""

    def __init__(self, tokenizer: Any, tokens: Collection[int], texts: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._tokens = frozenset(tokens)
        self._texts = tuple(texts)
        self._special = frozenset(tokenizer.all_special_ids)
        self._may_stop: dict[int, bool] = {}

    def __call__(self, token_ids: Sequence[int]) -> bool:
        """Return whether the reply has ended; it had not one token earlier."""
        newest = token_ids[-1]
        if newest in self._tokens:
            return True
        # Decoding the whole reply at every step would be quadratic. Decode only after a token that can complete a stop
        # text (it holds the text's last character, or a part of a character).
        if newest not in self._may_stop:
            piece = self._tokenizer.decode([newest])
            self._may_stop[newest] = "\ufffd" in piece or any(text[-1:] in piece for text in self._texts)
        if not self._may_stop[newest]:
            return False
        # No character takes more than four tokens, so the last ones are enough; all of them would be quadratic.
        most = 4 * max(map(len, self._texts), default=0) + 4
        newest_first = (token for token in reversed(token_ids) if token not in self._special)
        tail = list(itertools.islice(newest_first, most))[::-1]
        written = self._tokenizer.decode(tail, skip_special_tokens=True)
        return any(text in written for text in self._texts)


class TokenTrie:
    """Prefix tree of token sequences.

    >>> trie = TokenTrie([(3, 1), (3, 2), (4,)])
    >>> trie.allowed(()), trie.allowed((3,))
    ((3, 4), (1, 2))
    """

    def __init__(self, sequences: Sequence[_Tokens]) -> None:
        following: dict[_Tokens, set[int]] = {}
        for sequence in sequences:
            for place, token in enumerate(sequence):
                following.setdefault(sequence[:place], set()).add(token)
        self._following = {beginning: tuple(sorted(tokens)) for beginning, tokens in following.items()}

    def allowed(self, token_ids: Sequence[int]) -> _Tokens:
        """Return the tokens that follow a prefix in some sequence, ascending; a KeyError if there is none."""
        return self._following[tuple(token_ids)]


class CommandTokens:
    """Tries of the admissible commands of each sub-environment; equal sets share one trie.

        commands    go to desk 1     go to desk 2     look
        tokens      go _to _desk _1  go _to _desk _2  look      each followed by the end token
        at first    go, look                                    after "go _to _desk": _1, _2

    Each command is the tokens of `HuggingFacePolicy.demonstrate`: probabilities of all commands sum to 1.

    Args:
        tokens: returns the tokens a policy writes for a complete reply; raises ValueError if it cannot write it.
        frame: text around a command in a reply.
    """

    def __init__(self, tokens: Callable[[str], _Tokens], frame: tuple[str, str]) -> None:
        self._tokens = tokens
        self._frame = frame
        self._written: dict[str, _Tokens] = {}
        self._tries: dict[tuple[str, ...], TokenTrie] = {}

    def of(self, infos: Mapping[str, Any]) -> list[TokenTrie | None]:
        """Return the restriction of each sub-environment; None if it lists no command.

        Raises:
            KeyError: the infos name no commands.
            ValueError: the policy cannot write one of them.
        """
        if "admissible_actions" not in infos:
            raise KeyError(
                "replies are restricted to admissible commands, but the infos have no 'admissible_actions'; "
                f"{suggest('admissible_actions', list(infos))}"
            )
        return [self._trie(tuple(commands)) if len(commands) else None for commands in infos["admissible_actions"]]

    def _trie(self, commands: tuple[str, ...]) -> TokenTrie:
        found = self._tries.get(commands)
        if found is None:
            if len(self._tries) >= _MOST:
                self._tries, self._written = {}, {}
            before, after = self._frame
            for command in commands:
                if command not in self._written:
                    self._written[command] = self._tokens(f"{before}{command}{after}")
            found = self._tries[commands] = TokenTrie([self._written[command] for command in commands])
        return found
