"""Cached files: their folder, the fingerprint of their sources, atomic writes and locks."""

import contextlib
import ctypes
import fcntl
import glob
import hashlib
import json
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from agentgym.outside.text import one_line, read_json

#: The cache folder, or "off".
VARIABLE = "AGENTGYM_CACHE"
#: Suffix of files and folders that are being written.
_PARTIAL = ".partial"
#: Seconds after which such a file is taken for a leftover of a killed writer.
_ABANDONED = 86_400.0
#: Bytes at each end of a large file that a fingerprint of its content is made of.
_END = 1 << 20


class LockedError(RuntimeError):
    """Another process holds the lock."""


class OtherConfigurationError(ValueError):
    """A folder belongs to work with another configuration."""


def cache_folder(given: str | Path | bool | None = None) -> Path | None:
    """Return the cache folder `given`, or None for "off" or False; ValueError for anything else.

    The default (None, True) is the variable AGENTGYM_CACHE, else "agentgym" in the user's cache folder, if any.
    """
    if given is None or given is True:
        given = os.environ.get(VARIABLE) or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "agentgym"
    if given is False or given == "off":
        return None
    if not isinstance(given, (str, os.PathLike)) or not str(given):
        raise ValueError(f"cache must be a folder, 'off', True, False or None, got {given!r}")
    try:
        return Path(given).expanduser().absolute()
    except RuntimeError:  # the user has no home folder
        return None


def fingerprint(*facts: object) -> str:
    """Return 16 hexadecimal digits that depend on the facts: of a path its name, size and time; else its text."""
    digest = hashlib.sha256()
    for fact in facts:
        if isinstance(fact, Path):
            state = fact.stat()
            fact = f"{fact.resolve()} {state.st_size} {state.st_mtime_ns}"
        text = str(fact).encode("utf-8", "surrogatepass")
        digest.update(b"%d %b" % (len(text), text))
    return digest.hexdigest()[:16]


def fingerprint_of_content(path: Path) -> str:
    """Return 16 hexadecimal digits for a file, or for all files of a folder: names, sizes, and both ends of each.

    Location and time do not count. Only the ends of files above two mebibytes are read.
    """
    digest = hashlib.sha256()
    for file in sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]:
        size = file.stat().st_size
        name = file.relative_to(path).as_posix() if path.is_dir() else ""
        digest.update(f"{name} {size}\n".encode("utf-8", "surrogatepass"))
        with file.open("rb") as content:
            digest.update(content.read(_END))
            content.seek(max(_END, size - _END))
            digest.update(content.read(_END))
    return digest.hexdigest()[:16]


@contextlib.contextmanager
def new_file(path: Path, *, lasting: bool = True) -> Iterator[BinaryIO]:
    """Open a file that replaces `path` when the block ends without an exception.

    `lasting=True` waits for the disk and removes leftovers of killed writers; False suits many small files that can be
    made again. Raises an OSError if `path` is a folder or a device, or its folder is not writable.
    """
    path = Path(os.path.realpath(path))  # a link stays a link; one that leads to itself is no error
    if path.exists() and not path.is_file():
        raise FileExistsError(f"{path} is not a regular file; name another one")
    path.parent.mkdir(parents=True, exist_ok=True)
    if lasting:
        _sweep(path)
    number, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=_PARTIAL, dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(number, "wb") as stream:
            yield stream
            if lasting:
                stream.flush()
                os.fsync(stream.fileno())
        _give_rights(temporary, 0o666)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_file(path: Path, content: bytes, *, lasting: bool = True) -> None:
    """Write a file atomically; see `new_file`."""
    with new_file(path, lasting=lasting) as stream:
        stream.write(content)


@contextlib.contextmanager
def new_folder(folder: Path, *, replace: bool = False) -> Iterator[Path]:
    """Yield a folder to fill, which gets its name when the block ends without an exception.

    An existing folder stays; `replace=True` replaces it as a whole. A kill between the two steps leaves the older one
    under another name; `restore_folder` renames it. Raises an OSError if it is not writable.
    """
    if replace:
        folder = Path(os.path.realpath(folder))  # a link stays a link
        restore_folder(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    _sweep(folder)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=_PARTIAL, dir=folder.parent))
    try:
        yield temporary
        _give_rights(temporary, 0o777)
        if replace:
            for path in sorted(temporary.rglob("*")):
                to_disk(path)
        try:
            temporary.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
            if replace and not _exchange(temporary, folder):
                folder.rename(_aside(folder))
                temporary.rename(folder)
        if replace:
            to_disk(folder.parent)
            shutil.rmtree(_aside(folder), ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)  # after an exchange this is the old folder


def restore_folder(folder: Path) -> None:
    """Rename a folder back after a kill between the two steps of a replacement."""
    if not _aside(folder).is_dir():
        return
    if folder.exists():
        shutil.rmtree(_aside(folder), ignore_errors=True)
    else:
        _aside(folder).rename(folder)


def to_disk(path: Path) -> None:
    """Flush a file, or the entries of a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _aside(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.replaced")


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two names of a folder in one step; False if the system cannot."""
    try:
        swap = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError):
        return False
    here, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE
    return bool(swap(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0)


_SEAL = "seal.json"


def seal(folder: Path) -> None:
    """Record size and digest of every file in a folder (not in subfolders), for `damage`."""
    facts = {path.name: _facts(path) for path in sorted(folder.iterdir()) if path.is_file() and path.name != _SEAL}
    write_file(folder / _SEAL, json.dumps(facts).encode())


def damage(folder: Path) -> str | None:
    """Return how a sealed folder differs from its seal, None if it does not; reads about a gigabyte per second."""
    try:
        facts = read_json((folder / _SEAL).read_bytes())
        items = [(str(name), tuple(fact)) for name, fact in facts.items()]
    except OSError as error:
        return f"{_SEAL} cannot be read ({error.strerror})"
    except (ValueError, TypeError, AttributeError):
        return f"{_SEAL} is damaged"
    present = {path.name: path for path in folder.iterdir() if path.is_file()}
    for name, fact in items:
        # Compared with the listing: a damaged name may be too long for a path, or lead out of the folder.
        path = present.get(name)
        if path is None:
            return f"{one_line(name)} is missing"
        if path.stat().st_size != fact[0] or _facts(path) != fact:
            return f"{name} is damaged"
    return None


def _facts(path: Path) -> tuple[int, str]:
    with open(path, "rb") as stream:
        digest = hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16))
    return path.stat().st_size, digest.hexdigest()


@contextlib.contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Let one process at a time into the block; the lock of a dead process is free.

    The file `path` stays. If another process holds it, `wait=False` raises a LockedError that names it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+", encoding="utf-8") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            stream.seek(0)
            holder = stream.read(200).strip() or "another process"
            raise LockedError(f"{path.parent} is in use by {holder}; wait for it, or use another folder") from None
        stream.truncate(0)
        stream.write(f"process {os.getpid()} on {socket.gethostname()}")
        stream.flush()
        try:
            yield
        finally:
            stream.truncate(0)


def _give_rights(temporary: Path, most: int) -> None:
    """Give a temporary file, which only its owner may read, the permissions of a new file."""
    mask = os.umask(0)
    os.umask(mask)
    temporary.chmod(most & ~mask)


def _sweep(path: Path) -> None:
    for left in path.parent.glob(f".{glob.escape(path.name)}.*{_PARTIAL}"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > _ABANDONED:
                if left.is_dir():
                    shutil.rmtree(left, ignore_errors=True)
                else:
                    left.unlink()
