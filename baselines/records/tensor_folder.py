"""A nested state as files of tensors and JSON, without executable content: safetensors shards and a tree.

state = {"model": {"w": tensor}, "step": 3}
tree, tensors = split(state)          # JSON value, and tensors by name
join(tree, tensors) == state
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from agentgym.outside.text import DataError

#: Bytes of one shard; writing one needs as much additional memory.
SHARD_BYTES = 2**30


def split(value: Any) -> tuple[Any, dict[str, Tensor]]:
    """Take the tensors out of nested dicts, lists and tuples.

    Tensors that share their memory, such as tied weights, are kept once.

    Returns:
        A JSON value, and the tensors by their place, such as "model.w".

    Raises:
        TypeError: it contains something other than tensors, dicts, lists, tuples and plain values.
    """
    tensors: dict[str, Tensor] = {}
    known: dict[tuple[Any, ...], str] = {}

    def walk(value: Any, path: str) -> Any:
        if isinstance(value, Tensor):
            same = (value.data_ptr(), value.dtype, value.shape, value.stride()) if value.numel() else (path,)
            if same not in known:
                known[same] = path
                tensors[path] = value.detach()
            return {"tensor": known[same]}
        if isinstance(value, Mapping):
            inner = f"{path}." if path else ""
            return {"dict": [[key, walk(item, f"{inner}{key}")] for key, item in value.items()]}
        if isinstance(value, list | tuple):
            kind = "list" if isinstance(value, list) else "tuple"
            return {kind: [walk(item, f"{path}.{i}") for i, item in enumerate(value)]}
        if value is None or isinstance(value, bool | int | float | str):
            return value
        raise TypeError(f"{path or 'the state'} must be a tensor or a plain value, got {type(value).__name__}")

    return walk(value, ""), tensors


def join(tree: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Put tensors back into their places; the inverse of `split`.

    Raises:
        DataError: `split` did not make the tree, or a tensor is missing.
    """
    if not isinstance(tree, dict):
        return tree
    try:
        ((kind, content),) = tree.items()
        if kind == "tensor":
            return tensors[content]
        if kind == "dict":
            return {key: join(item, tensors) for key, item in content}
        return {"list": list, "tuple": tuple}[kind](join(item, tensors) for item in content)
    except DataError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"no tree of tensors, or not all of them: {error}") from error


def write_tensors(folder: Path, name: str, tensors: Mapping[str, Tensor], *, shard_bytes: int = SHARD_BYTES) -> None:
    """Write `<name>.safetensors`, or shards `<name>-00001-of-00002.safetensors` and so on if it would be too large.

    Raises:
        OSError: the folder cannot be written, for example because the disk is full.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    shards = list(_shards(tensors, shard_bytes))
    for number, shard in enumerate(shards, 1):
        place = f"{name}-{number:05d}-of-{len(shards):05d}" if len(shards) > 1 else name
        try:
            save_file({key: value.cpu().contiguous() for key, value in shard.items()}, folder / f"{place}.safetensors")
        except SafetensorError as error:
            raise OSError(f"{folder / place}.safetensors cannot be written: {error}") from error


def _shards(tensors: Mapping[str, Tensor], shard_bytes: int) -> Iterator[dict[str, Tensor]]:
    shard: dict[str, Tensor] = {}
    size = 0
    for key, value in tensors.items():
        if shard and size + value.nbytes > shard_bytes:
            yield shard
            shard, size = {}, 0
        shard[key] = value
        size += value.nbytes
    yield shard


def read_tensors(folder: Path, name: str) -> dict[str, Tensor]:
    """Read what `write_tensors` wrote; the tensors are those of the files, mapped into memory.

    Raises:
        DataError: a file cannot be read, or none is there.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    paths = sorted([*folder.glob(f"{name}.safetensors"), *folder.glob(f"{name}-*-of-*.safetensors")])
    if not paths:
        raise DataError(f"{folder} holds no {name}.safetensors")
    found: dict[str, Tensor] = {}
    for path in paths:
        try:
            found |= load_file(path)
        except SafetensorError as error:
            raise DataError(f"{path} cannot be read: {error}") from error
    return found
