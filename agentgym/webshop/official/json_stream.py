"""A large JSON file, entry by entry of its outermost list or object.

ijson 3.6 is as fast, but a deeply nested file of 400 kB kills its process, and it corrupts half surrogate pairs.
"""

import json
import os
from collections.abc import Iterator
from typing import Any, TextIO

from agentgym.outside.text import NUMBERS, DataError, clean_json

_CHUNK = 1 << 20
#: Maximum length of an entry in characters; a longer one is a damaged file.
_LONGEST_ENTRY = 1 << 26
_SPACE = " \t\n\r"
_IN_NUMBERS = "0123456789.eE+-"
_DECODER = json.JSONDecoder(**NUMBERS)


class _Text:
    def __init__(self, stream: TextIO, name: str) -> None:
        self._stream, self._name = stream, name
        self._buffer, self._at, self._before = "", 0, 0
        self.number = 0
        self._ended = False

    def fail(self, what: str) -> DataError:
        place = f"at character {self._before + self._at} (entry {self.number})"
        return DataError(f"{self._name} is no such JSON file: {what} {place}; get the file again")

    def _more(self) -> bool:
        chunk = "" if self._ended else self._stream.read(max(_CHUNK, len(self._buffer) - self._at))
        self._ended = self._ended or not chunk
        self._before += self._at
        self._buffer = self._buffer[self._at :] + chunk
        self._at = 0
        return bool(chunk)

    def peek(self) -> str:
        while True:
            while self._at < len(self._buffer):
                if self._buffer[self._at] not in _SPACE:
                    return self._buffer[self._at]
                self._at += 1
            if not self._more():
                return ""

    def take(self, expected: str) -> str:
        character = self.peek()
        if not character or character not in expected:
            wanted = " or ".join(repr(each) for each in expected)
            raise self.fail(
                f"expected {wanted}, found {character!r}" if character else f"the file ends before {wanted}"
            )
        self._at += 1
        return character

    def value(self) -> Any:
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._buffer, self._at)
                value = clean_json(value)
            except (json.JSONDecodeError, DataError) as error:
                # An incomplete entry may look damaged; a damaged one soon exceeds the maximum length.
                if len(self._buffer) - self._at > _LONGEST_ENTRY or not self._more():
                    what = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
                    raise self.fail(f"{what} in the entry that begins") from error
                continue
            except RecursionError as error:
                raise self.fail("an entry is nested too deeply: the one that begins") from error
            # a number may continue in the unread text, and its last characters ("." of "0.5") may not be parsed yet
            if not self._buffer[end : end + 3].strip(_IN_NUMBERS) and len(self._buffer) - end < 3 and self._more():
                continue
            self._at = end
            return value


def entries(path: str | os.PathLike[str]) -> Iterator[tuple[str | int, Any]]:
    """Yield the entries of a list as (number from 0, value), of an object as (name, value), from a UTF-8 file.

    A `DataError` names file, entry and character, also for what `foreign_text.read_json` refuses.
    """
    with open(path, encoding="utf-8-sig") as stream:
        text = _Text(stream, os.fspath(path))
        try:
            yield from _entries(text)
        except UnicodeDecodeError as error:
            raise text.fail(f"{error.reason} (it is not UTF-8) after the entry") from error


def _entries(text: _Text) -> Iterator[tuple[str | int, Any]]:
    is_list = text.take("[{") == "["
    end = "]" if is_list else "}"
    more = text.peek() != end
    if not more:
        text.take(end)
    while more:
        name: str | int = text.number
        if not is_list:
            if text.peek() != '"':
                raise text.fail('expected a name in "quotes"')
            name = text.value()
            text.take(":")
        yield name, text.value()
        text.number += 1
        more = text.take("," + end) == ","
    if text.peek():
        raise text.fail("text after the outermost value")
