"""Cleans and reads text from outside: actions, endpoint answers, passages, files.

Text is cleaned, never refused; unreadable files and answers raise a `DataError`.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import json
import lzma
import math
import os
import re
import tomllib
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final

#: Maximum number of characters of an action.
MOST_CHARACTERS: Final = 100_000
#: Maximum number of digits of an integer in JSON.
MOST_DIGITS: Final = 18
#: Maximum number of bytes that a compressed file may unpack to, or `MOST_RATIO` times its own size if that is more.
MOST_UNPACKED, MOST_RATIO = 1 << 26, 100
#: Bytes unpacked at a time.
_BLOCK: Final = 1 << 20

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
#: Line breaks, and what chat templates may take for their own marks: `<`, and `[` of `[INST]`.
_MARKS = re.compile(r"[<\x7f-\x9f\u2028\u2029]|\[(?=/?[A-Z_]{2,}\])")
#: Lone surrogates and control characters except tabulator and the line breaks \n, \r, \x0b, \x0c, \x85.
_FOUL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")
#: Everything at which `str.splitlines` breaks a line; \r\n counts as one.
_BREAK = re.compile("\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_PACKED: dict[str, Callable[..., Any]] = {".xz": lzma.open, ".gz": gzip.open, ".bz2": bz2.open}


class DataError(ValueError):
    """Files, folders or answers from outside are missing or damaged; the message names file, line and field."""


def clean(text: str, most: int = MOST_CHARACTERS) -> str:
    """Return the text as a plain `str` that can be encoded, cut after `most` characters.

    U+FFFD replaces lone surrogates, and control characters except tabulator and line breaks.
    """
    if type(text) is not str:
        text = str.__str__(text)
    if len(text) > most:
        text = text[:most]
    return text if text.isprintable() or not _FOUL.search(text) else _FOUL.sub(_REPLACEMENT, text)


def clean_all(texts: Sequence[str]) -> list[str]:
    """Return `clean` of several short texts, in one scan if nothing changes; TypeError if one is no string."""
    together = "".join(texts)
    if not together.isprintable() or len(together) > MOST_CHARACTERS:
        return [clean(text) for text in texts]
    return list(texts) if set(map(type, texts)) <= {str} else list(map(str.__str__, texts))


def one_line(text: str) -> str:
    r"""Return the text with its line breaks written as `\n`, so that it cannot imitate another line."""
    return text if text.isprintable() else _BREAK.sub(r"\\n", text)


def read_json(content: str | bytes, *, unique: bool = False, spare: bool = False) -> Any:
    """Return the value of a JSON text from outside, with `clean` strings.

    Raises a DataError if it is invalid or nested too deeply, repeats a name (with `unique`), or holds an integer of
    more than `MOST_DIGITS` digits or a number that is not finite (None in its place with `spare`).
    """
    try:
        text = content.decode("utf-8-sig") if isinstance(content, bytes) else content
        value = _DECODERS[unique, spare].decode(text)
        # Decoded text without escapes contains no surrogates: then there is nothing to clean.
        as_it_is = "\\u" not in text and (text.isprintable() or not _FOUL.search(text))
        return value if as_it_is else clean_json(value)
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8: {error.reason} at byte {error.start}") from None
    except RecursionError:
        raise DataError("nested too deeply") from None
    except DataError:
        raise
    except ValueError as error:
        raise DataError(f"not JSON: {error}") from None


def clean_json(value: Any) -> Any:
    """Return a JSON value with `clean` applied to every string and name in it."""
    if isinstance(value, str):
        return clean(value, len(value))
    if isinstance(value, dict):
        return {clean(name, len(name)): clean_json(item) for name, item in value.items()}
    return [clean_json(item) for item in value] if isinstance(value, list) else value


def read_file(path: Path) -> bytes:
    """Return the content of a file, unpacked if its name ends in .xz, .gz or .bz2.

    Raises an OSError if it cannot be read, a DataError if it is damaged or unpacks to more than `most_unpacked`.
    """
    if path.suffix not in _PACKED:
        return path.read_bytes()
    with Unpacked(path) as stream:
        return stream.read()


def read_text(path: Path) -> str:
    """Return a UTF-8 file as text without a byte order mark; raises as `read_file`, and a DataError for other bytes."""
    content = read_file(path)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path}, line {line}: not UTF-8: {error.reason}") from None


def read_json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield (line number from 1, value) for every line of a JSON-lines file that is not blank.

    Raises a DataError, with file and line, at the first line that `read_json` refuses.
    """
    with Unpacked(path) as stream:
        for number, line in enumerate(stream, 1):
            if line.isspace():
                continue
            try:
                yield number, read_json(line)
            except DataError as error:
                raise DataError(f"{path}, line {number}: {error}") from None


def tables_beside(module: str, name: str) -> dict[str, Any]:
    """Return the tables of a TOML or JSON file in the folder of a module, which passes its `__file__`."""
    text = Path(module).with_name(name).read_text("utf-8")
    found: dict[str, Any] = tomllib.loads(text) if name.endswith(".toml") else json.loads(text)
    return found


def packed(path: Path, file: IO[bytes]) -> contextlib.AbstractContextManager[IO[bytes]]:
    """Return a stream that writes to `file`, compressed if the path ends in .xz, .gz or .bz2."""
    return _PACKED[path.suffix](file, "wb") if path.suffix in _PACKED else contextlib.nullcontext(file)


def most_unpacked(size: int) -> int:
    """Return how many bytes a compressed file of `size` bytes may unpack to."""
    return max(MOST_UNPACKED, MOST_RATIO * size)


class Unpacked:
    """A file opened for reading, unpacked if its name ends in .xz, .gz or .bz2; errors are those of `read_file`."""

    def __init__(self, path: Path) -> None:
        self._raw = open(path, "rb")  # noqa: SIM115  # `__exit__` closes it
        self._size = os.fstat(self._raw.fileno()).st_size
        self._stream: IO[bytes] = self._raw
        if path.suffix in _PACKED:
            self._stream = io.BufferedReader(_Limited(path, _PACKED[path.suffix](self._raw), self._size), _BLOCK)

    def __enter__(self) -> Unpacked:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._raw.close()

    @property
    def fraction(self) -> float:
        """Share of the file's bytes on disk that has been read, 0 to 1."""
        return self._raw.tell() / max(self._size, 1)

    def read(self) -> bytes:
        return self._stream.read()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._stream)


class _Limited(io.RawIOBase):
    """The unpacked bytes of a compressed file of `size` bytes, up to the limit; errors are those of `read_file`."""

    def __init__(self, path: Path, stream: IO[bytes], size: int) -> None:
        self._path, self._stream = path, stream
        self._left = self._most = most_unpacked(size)

    def readable(self) -> bool:
        return True

    def readall(self) -> bytes:
        # in blocks: a single read would allocate the maximum size, a hundred times that of the file
        return b"".join(iter(lambda: self.read(_BLOCK) or b"", b""))

    def readinto(self, buffer: Any) -> int:
        try:
            content = self._stream.read(min(len(buffer), self._left + 1))
        except (EOFError, lzma.LZMAError, zlib.error, OSError, ValueError) as error:
            raise DataError(f"{self._path}: damaged compressed file ({error})") from None
        except MemoryError:  # the header of an .xz file may ask for 4 GiB
            raise DataError(f"{self._path}: unpacking it needs more memory than is available") from None
        self._left -= len(content)
        if self._left < 0:
            raise DataError(
                f"{self._path}: unpacks to more than {self._most:,} bytes; unpack it yourself if you trust it"
            )
        buffer[: len(content)] = content
        return len(content)


def _integer(digits: str) -> int:
    if len(digits) > MOST_DIGITS + (digits[0] == "-"):
        raise DataError(f"an integer of {len(digits)} digits; at most {MOST_DIGITS} are read")
    return int(digits)


def _float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise DataError(f"the number {digits[:40]} is too large for a float")
    return value


def _constant(name: str) -> Any:
    raise DataError(f"{name} is not a JSON number")


def unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object, or raise a DataError for a repeated name; an `object_pairs_hook` of `json.JSONDecoder`."""
    found = dict(pairs)
    if len(found) < len(pairs):
        repeated = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise DataError(f"the name {repeated[:80]!r} is repeated in one object")
    return found


#: Number parsing of JSON from outside, as arguments of `json.loads` and `json.JSONDecoder`; see `read_json`.
NUMBERS: Final[dict[str, Any]] = {"parse_int": _integer, "parse_float": _float, "parse_constant": _constant}


def _spared(read: Callable[[str], Any]) -> Callable[[str], Any]:
    def number(digits: str) -> Any:
        try:
            return read(digits)
        except DataError:
            return None

    return number


_SPARED: Final = {name: _spared(read) for name, read in NUMBERS.items()}
#: Made once: `json.loads` would make one per text, five times as slow for a short one.
_DECODERS: Final = {
    (unique, spare): json.JSONDecoder(object_pairs_hook=pairs_hook, **numbers)
    for unique, pairs_hook in ((False, None), (True, unique_names))
    for spare, numbers in ((False, NUMBERS), (True, _SPARED))
}


def quote(text: str) -> str:
    """Return a text as a JSON string in one line without marks of chat templates."""
    quoted = json.dumps(clean(text), ensure_ascii=False)
    return _MARKS.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)
