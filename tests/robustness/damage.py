"""Accidents that happen to files, and what a loader may do with a file that had some.

A damaged file either loads, and can then be used, or raises a ValueError that names the file (or its folder).
"""

import bz2
import gzip
import lzma
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

Files = dict[str, bytes]
PACKERS: Mapping[str, Callable[[bytes], bytes]] = {
    ".xz": lzma.compress, ".gz": lambda content: gzip.compress(content, mtime=0), ".bz2": bz2.compress,
}  # fmt: skip
#: What may stand where a value was.
VALUES = (
    "null", "true", "-1", "0", "1.5", "1e400", "NaN", "-Infinity", "9" * 19, "9" * 5_000, "[]", "{}", '""', '"x"',
    '"\\ud800"', '"\\u0000"', '[[["x"]]]', '{"a": {}}', "[" * 3_000 + "]" * 3_000, '"' + "x" * 3_000 + '"', "",
)  # fmt: skip
#: What may stand anywhere.
BYTES = (
    b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\x00", b"\n", b"\r", b"[" * 20_000, b"{", b"}", b'"', b"\\", b",",
    b"#", b" ", b"(" * 9_000, b")", b"<|", b"\xe2\x80\xa8", b"9" * 400,
)  # fmt: skip
_SCALAR = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|true|false|null')


def damaged(content: bytes, damage: list[tuple[Any, ...]]) -> bytes:
    """Return the content after some accidents; positions are shares of its length."""
    for kind, where, what in damage:
        at = min(int(where * len(content)), max(len(content) - 1, 0))
        if kind == "flip" and content:
            content = content[:at] + bytes([content[at] ^ 1 << what % 8]) + content[at + 1 :]
        elif kind == "cut":
            content = content[:at]
        elif kind == "drop":
            content = content[:at] + content[at + 1 + what :]
        elif kind == "double":
            content = content[:at] + content[max(at - 40 * what, 0) : at] + content[at:]
        elif kind == "insert":
            content = content[:at] + BYTES[what % len(BYTES)] + content[at:]
        elif kind == "value":
            found = list(_SCALAR.finditer(content))
            if found:
                match = found[int(where * (len(found) - 1))]
                content = content[: match.start()] + VALUES[what % len(VALUES)].encode() + content[match.end() :]
        elif kind == "line":
            lines = content.splitlines(keepends=True)
            if lines:
                k = int(where * (len(lines) - 1))
                content = b"".join([*lines, lines[k]] if what % 2 else [*lines[:k], *lines[k + 1 :]])
        elif kind == "bomb":
            content += b" " * 80_000_000
    return content


_kind = st.sampled_from(["flip", "cut", "drop", "double", "insert", "value", "value", "value", "line"])
accidents = st.lists(st.tuples(_kind, st.floats(0, 1), st.integers(0, 60)), min_size=1, max_size=3)


class Format:
    """A kind of file: whole files to begin with, and what reads them.

    Args:
        make: returns the files of a folder by their names in it.
        load: reads the folder and uses all that it found.
        packed: names of files that may be compressed as well.
    """

    def __init__(self, make: Callable[[], Files], load: Callable[[Path], None], packed: tuple[str, ...] = ()) -> None:
        self.make, self.load, self.packed = cache(make), load, packed

    def inputs(self, *names: str) -> st.SearchStrategy[Any]:
        """Draw damage done to one of the files (all of them by default), before or after it is compressed."""
        names = names or tuple(self.make())

        def build(name: str, pack: str, inside: Any, outside: Any) -> dict[str, Any]:
            content = damaged(self.make()[name], inside)
            end = pack if name in self.packed else ""
            content = damaged(PACKERS[end](content), outside) if end else content
            return {"replaces": name, "name": name + end, "content": content.decode("latin-1")}

        bombs = st.just([("bomb", 0.0, 0)]) if self.packed else st.nothing()
        return st.one_of(
            st.builds(build, st.sampled_from(names), st.sampled_from(["", "", *PACKERS]), accidents, st.just([])),
            st.builds(build, st.sampled_from(names), st.sampled_from(list(PACKERS)), st.just([]), accidents),
            st.builds(build, st.sampled_from(self.packed or names), st.just(".xz"), bombs | accidents, st.just([])),
        )

    def check(self, given: dict[str, str]) -> None:
        self.whole()
        with tempfile.TemporaryDirectory() as name:
            folder = self.written(Path(name), leaving_out=given["replaces"])
            put(folder / given["name"], given["content"].encode("latin-1"))
            try:
                self.load(folder)
            except ValueError as error:
                check_words(error, name)

    def written(self, folder: Path, leaving_out: str = "") -> Path:
        """Write the files into a folder and return it."""
        for path, content in self.make().items():
            if path != leaving_out:
                put(folder / path, content)
        return folder

    @cache  # noqa: B019  # there are as many as kinds of files
    def whole(self) -> None:
        """Read the files to begin with: a trial of damage says nothing otherwise."""
        with tempfile.TemporaryDirectory() as name:
            self.load(self.written(Path(name)))


def check_words(error: Exception, name: str) -> None:
    """Raise unless an error names a file, or its folder, in words that can be shown."""
    words = str(error)
    if name not in words:
        raise AssertionError(f"{type(error).__name__} does not name the file: {words:.300}") from error
    assert len(words) < 3_000
    words.encode("utf-8")


def put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def taken(folder: Path, *names: str) -> Path:
    """The file of the first name that is there, compressed or not."""
    paths = [folder / f"{name}{end}" for name in names for end in ("", *PACKERS)]
    return next((path for path in paths if os.path.lexists(path)), paths[0])
