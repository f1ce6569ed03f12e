"""The one door for text from outside: actions, endpoint answers, retrieved passages, files.

What passes is text that a tokenizer, a JSON file and a page can hold: no lone surrogates, no control characters, no
more than a stated length. Text is cleaned, never refused; a file or an answer that cannot be read raises a
`DataError`, which says what is wrong (for a file with its name and line).
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
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final

#: Longest text that an environment takes as one action, in characters.
MOST_CHARACTERS: Final = 100_000
#: Digits of the largest integer that JSON from outside may hold.
MOST_DIGITS: Final = 18
#: A compressed file may unpack to this many bytes, or to `MOST_RATIO` times its own size where that is more.
MOST_UNPACKED, MOST_RATIO = 1 << 26, 100
#: Bytes that are unpacked at a time.
_BLOCK: Final = 1 << 20
_LINE_END: Final = 0x0A

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
#: Line breaks of any kind, and what chat templates may take for marks of their own: `<`, and `[` of `[INST]`.
_MARKS = re.compile(r"[<\x7f-\x9f\u2028\u2029]|\[(?=/?[A-Z_]{2,}\])")
#: Lone surrogates and control characters; tabulator and the line breaks \n, \r, \x0b, \x0c, \x85 stay.
_FOUL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")
#: Everything at which `str.splitlines` breaks a line, a pair of \r and \n as one.
_BREAK = re.compile("\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_PACKED: dict[str, Callable[..., Any]] = {".xz": lzma.open, ".gz": gzip.open, ".bz2": bz2.open}


class DataError(ValueError):
    """Data are missing or damaged: files, folders or answers from outside that are not what they should be.

    The message names the file, the line and the field as far as there are any, and says what to do.
    """


def clean(text: str, most: int = MOST_CHARACTERS) -> str:
    r"""Return the text as a plain `str` that can be encoded, stored and shown.

    Args:
        text: any string, of a subclass (`numpy.str_`) too.
        most: characters that are kept; the rest is cut off.

    Returns:
        The text with U+FFFD for every lone surrogate and every control character but tabulator and line breaks. The
        same object where nothing had to change.

    >>> clean("go \ud800\x1b[31m north")
    'go \ufffd\ufffd[31m north'
    """
    if type(text) is not str:
        text = str.__str__(text)
    if len(text) > most:
        text = text[:most]
    return text if text.isprintable() or not _FOUL.search(text) else _FOUL.sub(_REPLACEMENT, text)


def clean_all(texts: Sequence[str]) -> list[str]:
    r"""Return what `clean` returns for each of some short texts, by one look where nothing has to change.

    Raises:
        TypeError: when something is not a string.

    >>> clean_all(["go north", "look\x1b"])
    ['go north', 'look\ufffd']
    """
    together = "".join(texts)
    if not together.isprintable() or len(together) > MOST_CHARACTERS:
        return [clean(text) for text in texts]
    return list(texts) if set(map(type, texts)) <= {str} else list(map(str.__str__, texts))


def one_line(text: str) -> str:
    r"""Return the text with its line breaks written as `\n`, so that it cannot begin a line of somebody else's.

    >>> print(one_line("Hi.\nTurn #1: Bob left"))
    Hi.\nTurn #1: Bob left
    """
    return text if text.isprintable() else _BREAK.sub(r"\\n", text)


def read_json(content: str | bytes, *, unique: bool = False, spare: bool = False) -> Any:
    """Return the value of a JSON text from outside, with `clean` strings.

    Args:
        content: the text; bytes are UTF-8, with or without a byte order mark.
        unique: refuse an object in which a name stands twice; otherwise its last value counts.
        spare: put None where a number is that no program should be handed, instead of refusing everything.

    Raises:
        DataError: when it is no JSON, or holds what no program should be handed: nesting deeper than the
            interpreter's limit, an integer of more than `MOST_DIGITS` digits, a number that is not finite.
    """
    try:
        text = content.decode("utf-8-sig") if isinstance(content, bytes) else content
        value = _DECODERS[unique, spare].decode(text)
        # Only an escape can bring in what a decoded text has not; nothing else costs a second look.
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
    """Return a JSON value with every string in it, names included, `clean`; as deep as the interpreter allows."""
    if isinstance(value, str):
        return clean(value, len(value))
    if isinstance(value, dict):
        return {clean(name, len(name)): clean_json(item) for name, item in value.items()}
    return [clean_json(item) for item in value] if isinstance(value, list) else value


def read_file(path: Path) -> bytes:
    """Return the content of a file, unpacked where its name ends in .xz, .gz or .bz2.

    Raises:
        DataError: when a compressed file is damaged or unpacks to more than is allowed (`MOST_UNPACKED`).
        OSError: when the file cannot be read.
    """
    if path.suffix not in _PACKED:
        return path.read_bytes()
    with Unpacked(path) as stream:
        return stream.read()


def read_text(path: Path) -> str:
    """Return a UTF-8 file as text, without a byte order mark; see `read_file`.

    Raises:
        DataError: as `read_file`, and when it is not UTF-8, with the line.
    """
    content = read_file(path)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path}, line {line}: not UTF-8: {error.reason}") from None


def read_json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield (line number from 1, value) for every line of a JSON-lines file that is not blank; see `read_json`.

    Raises:
        DataError: at the first line that cannot be read, with file and line.
    """
    with Unpacked(path) as stream:
        for number, line in enumerate(stream, 1):
            if line.isspace():
                continue
            try:
                yield number, read_json(line)
            except DataError as error:
                raise DataError(f"{path}, line {number}: {error}") from None


def packed(path: Path, file: IO[bytes]) -> contextlib.AbstractContextManager[IO[bytes]]:
    """Return the stream to write a file through: compressed where its name ends in .xz, .gz or .bz2."""
    return _PACKED[path.suffix](file, "wb") if path.suffix in _PACKED else contextlib.nullcontext(file)


def most_unpacked(size: int) -> int:
    """Return how many bytes a compressed file of some bytes may unpack to."""
    return max(MOST_UNPACKED, MOST_RATIO * size)


class Unpacked:
    """A file, unpacked on the way where its name ends in .xz, .gz or .bz2; what it unpacks to is limited.

    Raises:
        DataError: while reading, when a compressed file is damaged or unpacks to more than is allowed.
        OSError: when the file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._raw = open(path, "rb")  # noqa: SIM115  # closed at the end of the caller's block
        self._size = os.fstat(self._raw.fileno()).st_size
        self._left = self._most = most_unpacked(self._size)
        self._stream: IO[bytes] = _PACKED[path.suffix](self._raw) if path.suffix in _PACKED else self._raw

    def __enter__(self) -> Unpacked:
        """Give the open file."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self._stream.close()
        self._raw.close()

    @property
    def fraction(self) -> float:
        """Share of the file, of its bytes on disk, that has been read: 0 to 1."""
        return self._raw.tell() / max(self._size, 1)

    def read(self) -> bytes:
        """Return everything."""
        # Asked for all at once, a stream sets aside as much as it may read, a hundred times the file.
        return b"".join(iter(self._block, b""))

    def __iter__(self) -> Iterator[bytes]:
        """Yield the lines."""
        if self._stream is self._raw:
            yield from self._raw
            return
        begun: list[bytes] = []  # a line that goes on in the next block
        while block := self._block():
            for line in io.BytesIO(block):
                if begun or line[-1] != _LINE_END:
                    begun.append(line)
                    if line[-1] != _LINE_END:
                        continue
                    line = b"".join(begun)
                    begun.clear()
                yield line
        if begun:
            yield b"".join(begun)

    def _block(self) -> bytes:
        """Return what comes next, at most `_BLOCK` bytes; b"" at the end."""
        return self._counted(lambda: self._stream.read(min(_BLOCK, self._left + 1)))

    def _counted(self, read: Callable[[], bytes]) -> bytes:
        try:
            content = read()
        except (EOFError, lzma.LZMAError, zlib.error, OSError, ValueError) as error:
            raise DataError(f"{self._path}: damaged compressed file ({error})") from None
        except MemoryError:  # the head of an .xz file may ask for 4 GiB
            raise DataError(f"{self._path}: unpacking it takes more memory than there is") from None
        self._left -= len(content)
        if self._left < 0:
            raise DataError(
                f"{self._path}: unpacks to more than {self._most:,} bytes; unpack it yourself if you trust it"
            )
        return content


def _integer(digits: str) -> int:
    if len(digits) > MOST_DIGITS + (digits[0] == "-"):
        raise DataError(f"an integer of {len(digits)} digits; at most {MOST_DIGITS} are read")
    return int(digits)


def _float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise DataError(f"the number {digits[:40]} is beyond all floats")
    return value


def _constant(name: str) -> Any:
    raise DataError(f"{name} is not a JSON number")


def unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; a DataError where a name stands twice. An `object_pairs_hook` of `json.JSONDecoder`."""
    found = dict(pairs)
    if len(found) < len(pairs):
        repeated = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise DataError(f"the name {repeated[:80]!r} stands twice in one object")
    return found


#: How numbers of JSON from outside are read: arguments of `json.loads` and `json.JSONDecoder`; see `read_json`.
NUMBERS: Final[dict[str, Any]] = {"parse_int": _integer, "parse_float": _float, "parse_constant": _constant}


def _spared(read: Callable[[str], Any]) -> Callable[[str], Any]:
    def number(digits: str) -> Any:
        try:
            return read(digits)
        except DataError:
            return None

    return number


_SPARED: Final = {name: _spared(read) for name, read in NUMBERS.items()}
#: Made once: `json.loads` would make one for every text, which takes five times as long as reading a short one.
_DECODERS: Final = {
    (unique, spare): json.JSONDecoder(object_pairs_hook=pairs_hook, **numbers)
    for unique, pairs_hook in ((False, None), (True, unique_names))
    for spare, numbers in ((False, NUMBERS), (True, _SPARED))
}


def quote(text: str) -> str:
    r"""Return a text as a JSON string in one line, with no mark that a chat template knows.

    >>> print(quote('Bye."\n{"goal": 10} <|im_end|> [INST] 5 € [sic]'))
    "Bye.\"\n{\"goal\": 10} \u003c|im_end|> \u005bINST] 5 € [sic]"
    >>> json.loads(quote("<a>")) == "<a>"
    True
    """
    quoted = json.dumps(clean(text), ensure_ascii=False)
    return _MARKS.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)
