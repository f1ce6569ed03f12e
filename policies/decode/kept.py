"""Keys and values of tokens that a model has read and written, found by the tokens."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from agentgym.trajectory import Ints
from policies.prompts import Prompt

#: Default share of the device's memory.
KEPT_SHARE = 1 / 8
#: Bytes if the size of the memory is unknown.
_UNKNOWN_SHARE = 2**30


@dataclass
class TokenCounts:
    """Tokens that were requested from a loop, and tokens that its model computed.

    Attributes:
        read: positions computed to read prompts, padding included.
        written: positions computed to write replies.
    """

    prompts: int = 0
    read: int = 0
    written: int = 0


@dataclass(eq=False)
class _Run:
    """Tokens, int64 (m,), after those of the run `before`, with keys and values (layers, 2, heads, m, size)."""

    tokens: Ints
    keys: Tensor
    before: _Run | None
    used: int
    after: dict[int, _Run] = field(default_factory=dict)


class KeptKeys:
    """A tree of token sequences: common beginnings are kept once.

    When it is full, the least recently used runs are dropped first, ends before beginnings.

    Args:
        most_bytes: of keys and values; None: an eighth of the device's memory.
    """

    def __init__(self, most_bytes: int | None = None) -> None:
        self._most = most_bytes
        self._clock = self.bytes = 0
        self._roots: dict[int, _Run] = {}
        self._version: object = None

    def clear(self) -> None:
        for run in self._runs():  # runs that refer to each other would hold their memory until garbage is collected
            run.before = None
        self._roots, self.bytes = {}, 0

    def at(self, version: object) -> None:
        """Drop everything if the weights have another version than before."""
        if version != self._version:
            self.clear()
            self._version = version

    def find(self, prompt: Prompt) -> tuple[int, list[Tensor]]:
        """Return how many of a prompt's first tokens are kept, at most all but the last, and their keys, run by run.

        The last token is always read: the reply needs its logits.
        """
        path = self._walk(np.array(prompt[:-1], np.int64))
        count = sum(size for _, size in path)
        return count, [run.keys[..., :size, :] for run, size in path]

    def add(self, tokens: Prompt, keys: Sequence[Tensor]) -> None:
        """Keep a copy of the new ones of some tokens (n,); keys and values are (2, heads, n, size) of each layer."""
        sequence, before = np.array(tokens, np.int64), 0
        last: _Run | None = None
        for run, size in self._walk(sequence):
            last, before = (run if size == len(run.tokens) else self._cut(run, size)), before + size
        if before == len(sequence):
            return
        rest = torch.stack([each[..., before:, :] for each in keys])
        most = _device_share(rest.device) if self._most is None else self._most
        if rest.nbytes > most:
            return
        added = _Run(sequence[before:], rest, last, self._clock)
        (self._roots if last is None else last.after)[int(sequence[before])] = added
        self.bytes += rest.nbytes
        while self.bytes > most:
            self._remove(min((run for run in self._runs() if not run.after), key=lambda run: run.used))

    def _walk(self, tokens: Ints) -> list[tuple[_Run, int]]:
        self._clock += 1
        path: list[tuple[_Run, int]] = []
        place, branches = 0, self._roots
        while place < len(tokens) and (run := branches.get(int(tokens[place]))) is not None:
            rest = tokens[place : place + len(run.tokens)]
            differing = np.flatnonzero(rest != run.tokens[: len(rest)])
            size = int(differing[0]) if len(differing) else len(rest)
            run.used = self._clock
            path.append((run, size))
            if size < len(run.tokens):
                break
            place, branches = place + size, run.after
        return path

    def _cut(self, run: _Run, size: int) -> _Run:
        first = _Run(
            run.tokens[:size], run.keys[..., :size, :].clone(), run.before, run.used, {int(run.tokens[size]): run}
        )
        (self._roots if run.before is None else run.before.after)[int(run.tokens[0])] = first
        run.tokens, run.keys, run.before = run.tokens[size:], run.keys[..., size:, :].clone(), first
        return first

    def _runs(self) -> Iterator[_Run]:
        left = list(self._roots.values())
        while left:
            run = left.pop()
            left += run.after.values()
            yield run

    def _remove(self, run: _Run) -> None:
        del (self._roots if run.before is None else run.before.after)[int(run.tokens[0])]
        self.bytes -= run.keys.nbytes


def _device_share(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory * KEPT_SHARE)
    try:
        return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * KEPT_SHARE)
    except (AttributeError, ValueError):  # not on Windows
        return _UNKNOWN_SHARE
