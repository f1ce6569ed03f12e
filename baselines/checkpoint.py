"""Checkpoints of a training run: written whole or not at all, refused by any other run."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from baselines.metrics import replace_file

CHECKPOINT_FILE = "checkpoint.pt"
_FORMAT = 1


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The whole state of a run between two iterations.

    Random numbers need no entry: every iteration makes its generators anew from (seed, iteration).

    Attributes:
        identity: what the run is, as `describe_run` says; plain values, nested.
        iteration: finished iterations.
        seconds: training time so far.
        model: state of the trained model.
        optimizer: state of the optimiser.
        reference: state of the frozen start model, None where it is not used.
        critic: state of the critic and its optimiser, None where there is none.
    """

    identity: dict[str, Any]
    iteration: int
    seconds: float
    model: dict[str, Tensor]
    optimizer: dict[str, Any]
    reference: dict[str, Tensor] | None
    critic: dict[str, Any] | None = None


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write `<folder>/checkpoint.pt`; a crash on the way leaves the previous one."""
    buffer = io.BytesIO()
    # Not asdict, which would copy every tensor.
    torch.save({"format": _FORMAT, **vars(checkpoint)}, buffer)
    replace_file(folder / CHECKPOINT_FILE, buffer.getvalue())


def load_checkpoint(folder: Path, identity: dict[str, Any]) -> Checkpoint:
    """Read `<folder>/checkpoint.pt`, if it belongs to the run described.

    Raises:
        FileNotFoundError: there is none.
        ValueError: it is no checkpoint, or one of another run; the message names what differs.
    """
    path = folder / CHECKPOINT_FILE
    if not path.exists():
        raise FileNotFoundError(f"no checkpoint at {path}")
    content = path.read_bytes()
    try:
        stored = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        found = stored.pop("format")
        checkpoint = Checkpoint(**stored) if found == _FORMAT else None
    except Exception as error:  # damaged bytes can make the unpickler raise anything
        raise ValueError(f"{path} is not a checkpoint of this trainer ({type(error).__name__}: {error})") from error
    if checkpoint is None:
        raise ValueError(f"{path} has checkpoint format {found}, this version reads {_FORMAT}")
    differing = differences(checkpoint.identity, identity)
    if differing:
        shown = "\n".join(f"  {line}" for line in differing[:8])
        more = f"\n  and {len(differing) - 8} more" if len(differing) > 8 else ""
        raise ValueError(
            f"{path} belongs to another run:\n{shown}{more}\n"
            "Resume it with the model and settings it was made with, or train into an empty folder."
        )
    return checkpoint


def describe_run(policy: Any, config: Any, method: str, tasks: Any) -> dict[str, Any]:
    """Return what makes a run this run: model shapes, vocabulary, policy settings, config, method and tasks.

    Fields of the config that do not change what an iteration computes are left out: when to save, for how long
    to train, unless the learning rate depends on it, and resampling that is switched off.
    """
    numbers = asdict(config)
    numbers.pop("checkpoint_every")
    if not config.resample_rounds:
        numbers.pop("resample_rounds")
    if config.schedule == "constant":
        numbers.pop("iterations")
    tokenizer = getattr(policy, "tokenizer", None)
    settings = getattr(policy, "settings", None)
    return {
        "model": {name: _kind(value) for name, value in policy.model.state_dict().items()},
        "vocabulary": None if tokenizer is None else _digest(sorted(tokenizer.get_vocab().items())),
        "policy": {} if settings is None else _plain(asdict(settings)),
        "config": _plain(numbers),
        "method": method,
        "tasks": _digest(_plain(tasks)),
    }


def differences(stored: Any, given: Any, path: str = "") -> list[str]:
    """Return one line per place where two nested descriptions differ.

    >>> differences({"config": {"kl": 0.01, "seed": 0}}, {"config": {"kl": 0.1, "seed": 0}})
    ['config.kl: checkpoint 0.01, here 0.1']
    """
    if isinstance(stored, dict) and isinstance(given, dict):
        lines = []
        for key in [*stored, *(key for key in given if key not in stored)]:
            inner = f"{path}.{key}" if path else str(key)
            lines += differences(stored.get(key, "absent"), given.get(key, "absent"), inner)
        return lines
    return [] if stored == given else [f"{path}: checkpoint {stored}, here {given}"]


def _kind(value: Tensor) -> str:
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"


def _plain(value: Any) -> Any:
    """JSON form of nested settings, so that tuples and lists compare equal."""
    return json.loads(json.dumps(value, default=str))


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:16]
