"""The JSON object that a model was asked for, found in what it wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from agentgym.outside.text import NUMBERS, DataError

_FENCE = re.compile("`{3,}")
_FENCED = re.compile(r"(?:json)?[ \t]*\n", re.IGNORECASE)


def only_object(text: str, numbers: Mapping[str, Any] = NUMBERS) -> dict[str, Any]:
    """Return the JSON object of a text that holds one, bare, in a Markdown fence or within prose.

    What a model thought aloud before `</think>` does not count.

    Args:
        text: the answer.
        numbers: how numbers are read: `parse_int`, `parse_float` and `parse_constant` of `json.JSONDecoder`.

    Raises:
        DataError: when there is none or more than one, it is broken or nested too deeply, a key is there twice, or
            `numbers` refuses one.

    >>> only_object('Here you are: {"1": 3} That is all.')
    {'1': 3}
    """
    text = text.rpartition("</think>")[2]
    fenced = _fenced(text)
    if len(fenced) == 1:
        text = fenced[0]
    found = []
    decoder = json.JSONDecoder(object_pairs_hook=_without_repeats, **numbers)
    at = text.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
        except _RepeatedError:
            raise
        except (ValueError, RecursionError) as error:
            raise DataError(f"no JSON: {error}") from None
        found.append(value)
        at = text.find("{", end)
    if len(found) != 1:
        raise DataError(f"expected one JSON object, got {len(found)} in {text[:200]!r}")
    return dict(found[0])


class _RepeatedError(DataError):
    """It is JSON, and yet refused."""


def _fenced(text: str) -> list[str]:
    """Return what stands in the Markdown fences of a text."""
    found = []
    parts = iter(_FENCE.split(text)[1:-1])  # a fence opens behind the first mark and is closed by one
    for part in parts:
        head = _FENCED.match(part)
        if head:
            found.append(part[head.end() :])
            next(parts, None)
    return found


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise _RepeatedError(f"a key is there twice: {[name for name, _ in pairs]!r:.200}")
    return made
