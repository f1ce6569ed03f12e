"""Replies restricted to admissible commands: which tokens may come next, so that one of them is what gets written.

    commands    go to desk 1     go to desk 2     look
    tokens      go _to _desk _1  go _to _desk _2  look      each followed by the end token
    at first    go, look                                    after "go _to _desk": _1, _2

Each command is the tokens that the policy is taught to write for it (`HuggingFacePolicy.demonstrate`), so that the
probabilities of all commands sum to 1, and cloning, acting and scoring mean the same sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentgym.checks import suggest

_Tokens = tuple[int, ...]
#: Sets of commands that are remembered; in a room there are a few dozen.
_MOST = 4096


class TokenTrie:
    """Token sequences by their beginnings.

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
        """Return the tokens that follow a beginning in some sequence, ascending; a KeyError where there is none."""
        return self._following[tuple(token_ids)]


class CommandTokens:
    """The tries of what can be done in each sub-environment, each made once.

    Args:
        tokens: the tokens a policy writes for a complete reply; a ValueError where it cannot write it.
        frame: what stands around a command in a reply.
    """

    def __init__(self, tokens: Callable[[str], _Tokens], frame: tuple[str, str]) -> None:
        self._tokens = tokens
        self._frame = frame
        self._written: dict[str, _Tokens] = {}
        self._tries: dict[tuple[str, ...], TokenTrie] = {}

    def of(self, infos: Mapping[str, Any]) -> list[TokenTrie | None]:
        """Return the restriction of each sub-environment; None where no command is listed.

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
