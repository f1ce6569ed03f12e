"""Store of the pictures in prompts: a prompt holds numbers that identify a picture, the store holds the picture.

    text     <vision_start> [picture 5f3a...] <vision_end> Boxes on targets: 0 of 1.
    prompt   9  2891336453 3560026116 2231369321 4120385172  10  37 12 ...

A picture's numbers are above all token ids and computed from its pixels, so code that compares or stores prompts by
their ids distinguishes pictures. `policies.vision.inputs` turns them into placeholders and pixels.
"""

from __future__ import annotations

import hashlib
import re
from collections import UserDict
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentgym.outside.files import write_file
from policies.prompts import FIRST_PICTURE, Prompt
from policies.vision import picture_of, png

# Bytes of PNG files and of patches that are kept in memory; the oldest are dropped first.
_MOST_FILES = 2**30
_MOST_PATCHES = 2**28
T = TypeVar("T")
_FILE = re.compile(r"([0-9a-f]{32})-(\d+)x(\d+)\.png")


class Picture(NamedTuple):
    """A stored picture: 128 bits of the hash of its pixels and shape, and placeholders in a column and in a row."""

    name: str
    height: int
    width: int

    @property
    def ids(self) -> Prompt:
        size = self.height * self.width
        drawn = np.frombuffer(hashlib.shake_256(bytes.fromhex(self.name)).digest(4 * size), "<u4")
        return tuple((drawn.astype(np.int64) % FIRST_PICTURE + FIRST_PICTURE).tolist())


class _Recent(UserDict[Any, T]):
    def __init__(self, most: int, size: Callable[[T], int]) -> None:
        super().__init__()
        self._most, self._size, self._held = most, size, 0

    def keep(self, key: Any, value: T) -> list[Any]:
        self.pop(key, None)
        self[key] = value
        gone = []
        while self._held > self._most and len(self) > 1:
            gone.append(next(iter(self)))
            del self[gone[-1]]
        return gone

    def __setitem__(self, key: Any, value: T) -> None:
        super().__setitem__(key, value)
        self._held += self._size(value)

    def __delitem__(self, key: Any) -> None:
        self._held -= self._size(self[key])
        super().__delitem__(key)


class PictureStore:
    """The pictures that prompts name; safe for several threads.

    It keeps the latest pictures: 1 GiB of PNG files and 0.25 GiB of patches; with a folder, also the names of all
    pictures. A copy is the same store; a pickle holds processor, folder and names.

    Args:
        processor: makes a picture into patches, as `transformers.Qwen2VLImageProcessor` does.
        folder: pictures are also written here, so that a resumed run finds those of its checkpoint. None: dropped
            pictures are lost.
    """

    def __init__(self, processor: Any, folder: str | Path | None = None) -> None:
        self.processor = processor
        self.folder: Path | None = None
        self._begin(())
        if folder is not None:
            self.keep_in(folder)

    def _begin(self, known: Iterable[Picture]) -> None:
        self._lock = RLock()
        self._names: dict[str, Picture] = {}
        self._runs: dict[Prompt, Picture] = {}  # by `_key`
        self._files = _Recent[bytes](_MOST_FILES, len)  # by name
        self._patches = _Recent[Tensor](_MOST_PATCHES, _size)  # by picture: another processor shows it in another size
        for picture in known:
            self._know(picture)

    def __getstate__(self) -> dict[str, Any]:
        return {"processor": self.processor, "folder": self.folder, "known": tuple(self._names.values())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.processor, self.folder = state["processor"], state["folder"]
        self._begin(state["known"])

    def __deepcopy__(self, memo: object) -> PictureStore:
        return self

    def keep_in(self, folder: str | Path) -> None:
        """Read the pictures of a folder, and write all later ones to it."""
        with self._lock:
            self.folder = Path(folder)
            self.folder.mkdir(parents=True, exist_ok=True)
            for path in sorted(self.folder.iterdir()):
                if found := _FILE.fullmatch(path.name):
                    self._know(Picture(found[1], int(found[2]), int(found[3])))
            for name, file in self._files.items():
                self._write(self._names[name], file)

    def add(self, picture: NDArray[np.uint8]) -> Picture:
        """Store a picture and return its name and shape in placeholders.

        Args:
            picture: uint8 (height, width, 3).

        Raises:
            TypeError: it is something else.
            ValueError: another picture has the same ids, which happens to pictures of one or two placeholders.
        """
        if not isinstance(picture, np.ndarray) or picture.dtype != np.uint8 or picture.shape[2:] != (3,):
            what = f"{picture.dtype} {picture.shape}" if isinstance(picture, np.ndarray) else f"{picture!r:.80}"
            raise TypeError(f"a picture is a uint8 array (height, width, 3), got {what}")
        hashed = hashlib.shake_256(str(picture.shape).encode())
        hashed.update(np.ascontiguousarray(picture).data)
        name = hashed.hexdigest(16)
        with self._lock:
            known = self._names.get(name)
            if known is None:
                patches, (height, width) = self._processed(picture)
                known = Picture(name, height, width)
                self._know(known)
                self._patches.keep(known, patches)
            file = self._files.get(name)
            if file is None:
                file = png(picture)
                self._write(known, file)
            for gone in self._files.keep(name, file):
                if self.folder is None:
                    self._forget(gone)
            return known

    def named(self, name: str) -> Picture | None:
        """Return the picture of a name, or None."""
        return self._names.get(name)

    def of(self, ids: Iterable[int]) -> Picture:
        """Return the picture that a run of ids names.

        Raises:
            KeyError: it is not in the store.
        """
        run = tuple(ids)
        found = self._runs.get(_key(run))
        if found is None or found.ids != run:
            raise KeyError(
                f"a prompt names a picture by {len(run)} numbers from {run[0]} on, and it is not known here: show it "
                "to this policy again (policy.encode(observation)), or keep the pictures of a run in a folder, "
                "policy.pictures.keep_in(folder)"
            )
        return found

    def pixels(self, picture: Picture) -> NDArray[np.uint8]:
        """Return a picture as it was shown, uint8 (height, width, 3).

        Raises:
            KeyError: it was forgotten.
        """
        with self._lock:
            file = self._files.get(picture.name)
            path = None if self.folder is None else self._path(picture)
        if file is None and path is not None and path.is_file():
            file = path.read_bytes()
        if file is None:
            raise KeyError(
                f"the picture {picture.name} was forgotten: keep the pictures, policy.pictures.keep_in(folder)"
            )
        return picture_of(file)

    def patches(self, picture: Picture) -> Tensor:
        """Return a picture's patches: float32 (patches, values of a patch).

        Raises:
            KeyError: it was forgotten.
            ValueError: another image processor resized it to another shape.
        """
        with self._lock:
            found = self._patches.get(picture)
            if found is not None:
                return found
            patches, shape = self._processed(self.pixels(picture))
            if shape != (picture.height, picture.width):
                raise ValueError(
                    f"the picture {picture.name} of {self.folder} was shown as {picture.height} x {picture.width} "
                    f"placeholders, and this image processor makes {shape[0]} x {shape[1]} of it: load the policy with "
                    "the processor it had, load_policy(folder, processor=...), or keep pictures in another folder"
                )
            self._patches.keep(picture, patches)
            return patches

    def grid(self, picture: Picture) -> tuple[int, int, int]:
        side = int(self.processor.merge_size)
        return 1, picture.height * side, picture.width * side

    def _processed(self, picture: NDArray[np.uint8]) -> tuple[Tensor, tuple[int, int]]:
        read = self.processor(images=[picture], return_tensors="pt")
        (_, height, width), side = read["image_grid_thw"][0].tolist(), int(self.processor.merge_size)
        return read["pixel_values"].to(torch.float32), (height // side, width // side)

    def _know(self, picture: Picture) -> None:
        if self._runs.setdefault(_key(picture.ids), picture) != picture:
            raise ValueError(
                f"two pictures have the same {min(len(picture.ids), 2)} first ids: show larger ones, or let the image "
                "processor enlarge them (its size['shortest_edge'], in pixels)"
            )
        self._names[picture.name] = picture

    def _forget(self, name: str) -> None:
        picture = self._names.pop(name)
        self._patches.pop(picture, None)
        del self._runs[_key(picture.ids)]

    def _path(self, picture: Picture) -> Path:
        assert self.folder is not None
        return self.folder / f"{picture.name}-{picture.height}x{picture.width}.png"

    def _write(self, picture: Picture, file: bytes) -> None:
        if self.folder is not None and not (path := self._path(picture)).is_file():
            write_file(path, file, lasting=False)


def _size(patches: Tensor) -> int:
    return patches.nbytes


def _key(run: Prompt) -> Prompt:
    return (*run[:2], len(run))
