"""Checkpoints of a training run: written completely or not at all, and refused if damaged or of another run.

A checkpoint is a folder, `checkpoint-000010` after ten iterations:

    model.safetensors        trained weights (with an adapter, those of the adapter), in shards if they are large
    optimizer.safetensors    state of AdamW
    scorer.safetensors       weights and optimiser of a critic or another scorer, if there is one
    experience.jsonl, .json  episodes for the next iteration, if they are already played
    state.json               identity of the run, its iteration, and the places of the tensors
    seal.json                size and digest of every file

Reading it executes no code. A signal that requests an end takes effect after the checkpoint (`deferred`).
"""

import functools
import hashlib
import itertools
import json
import re
import shutil
import signal
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from torch import Tensor

from agentgym.outside.files import damage, new_folder, restore_folder, seal
from agentgym.outside.text import DataError, read_json
from baselines.config import TRAINING_RULES, TrainerConfig, by_name
from baselines.experience import Experience
from baselines.records.tensor_folder import join, read_tensors, split, write_tensors
from policies.training import fingerprint

#: File of a checkpoint of an earlier version.
OLD_FILE = "checkpoint.pt"
STATE_FILE = "state.json"
_FORMAT = 2
_PARTS = ("model", "optimizer", "scorer")
#: Temporary folders that a killed process may leave in a run's folder.
_LEFT = re.compile(r"\.(checkpoint-\d{6,9}|best-\d{6,9}|final)\.(replaced|.+\.partial)")
#: Files that `save_pretrained` writes for models, tokenizers, image processors and adapters, and those of `policies`.
_MODEL_FILE = re.compile(
    r"(model|adapter_model|head)(-\d{5}-of-\d{5})?\.(safetensors|bin)(\.index\.json)?|README\.md|\w+\.jinja"
    r"|(data_source|policy|adapter_base|config|generation_config|tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab|adapter_config"
    r"|preprocessor_config|processor_config|video_preprocessor_config|chat_template)\.json"
    r"|(merges|vocab)\.txt|tokenizer\.model|spiece\.model|sentencepiece\.bpe\.model"
)
_MODEL_FOLDERS = ("base", "additional_chat_templates")
#: Name of a scorer's part in an earlier version.
_OLD_SCORER = "critic"
#: Settings that are no part of a run's identity.
_NO_PART = (
    "memory.microbatch_tokens", "memory.share_prefixes", "memory.activation_checkpointing", "checkpoint.every",
    "checkpoint.keep", "rollout.probe_every", "rollout.on_mismatch",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The whole state of a run between two iterations.

    Attributes:
        identity: the description of the run by `describe_run`; plain values, nested.
        model: state of the trained model; with an adapter, of the adapter.
        scorer: state of the scorer and its optimiser, or None.
        ahead: episodes of the next iterations that are already played, in order (`Rollout.staleness`).
        training_rules: see `baselines.config.TRAINING_RULES`.
    """

    identity: dict[str, Any]
    iteration: int
    seconds: float
    model: dict[str, Tensor]
    optimizer: dict[str, Any]
    scorer: dict[str, Any] | None = None
    ahead: Sequence[Experience] = ()
    training_rules: int = TRAINING_RULES


def checkpoints(folder: Path) -> list[Path]:
    """Return the folder's checkpoints, the newest last."""
    return _numbered(folder, "checkpoint")


def best_policies(folder: Path) -> list[Path]:
    """Return the model folders of the best validations in a run's folder, the newest last."""
    return _numbered(folder, "best")


def _numbered(folder: Path, kind: str) -> list[Path]:
    found = [path for path in folder.glob(f"{kind}-*") if re.fullmatch(kind + r"-\d{6,9}", path.name) and path.is_dir()]
    return sorted(found, key=lambda path: int(path.name.partition("-")[2]))


def save_checkpoint(folder: Path, checkpoint: Checkpoint, *, keep: int = 2) -> None:
    """Write a checkpoint, and then remove all but the newest.

    A crash or a full disk during the call leaves the earlier checkpoints unchanged.
    """
    path = folder / f"checkpoint-{checkpoint.iteration:06d}"
    trees = {}
    with new_folder(path, replace=True) as new:  # an older one is damaged, or will be played again
        for part in _PARTS:
            trees[part], tensors = split(getattr(checkpoint, part))
            if trees[part] is not None:
                write_tensors(new, part, tensors)
        for number, experience in enumerate(checkpoint.ahead):
            experience.save(new, number)
        plain = {name: getattr(checkpoint, name) for name in ("identity", "iteration", "seconds", "training_rules")}
        (new / STATE_FILE).write_text(json.dumps({"format": _FORMAT, **plain, "trees": trees}), encoding="utf-8")
        seal(new)
    _keep_newest(folder, keep)


def save_policy(policy: Any, path: Path) -> None:
    """Write a policy as an ordinary model folder, replacing an older one.

    At any moment either the older or the new folder is complete. A folder with foreign files is renamed, with a
    warning.
    """
    _keep_foreign(path)
    with new_folder(path, replace=True) as new:
        policy.save_pretrained(new)


def remove_policy(path: Path) -> None:
    """Remove a model folder, if there is one; a folder with foreign files is kept under another name."""
    _keep_foreign(path)
    if path.exists():
        remove_folder(path)


def _keep_foreign(path: Path) -> None:
    restore_folder(path)
    if not path.exists() or (path.is_dir() and not (foreign := _foreign(path))):
        return
    kept = next(other for n in itertools.count(1) if not (other := path.with_name(f"{path.name}.kept-{n}")).exists())
    path.rename(kept)
    what = f"held {foreign}, which no policy writes" if kept.is_dir() else "was a file"
    warnings.warn(f"{path} {what}: what was there is kept as {kept.name}", stacklevel=3)


def _foreign(folder: Path) -> str | None:
    """Return the name of a file in a folder that `save_pretrained` does not write; None if there is none."""
    for path in sorted(folder.rglob("*")):
        folder_of_ours = path.is_dir() and not path.is_symlink() and path.name in _MODEL_FOLDERS
        if not folder_of_ours and not (path.is_file() and _MODEL_FILE.fullmatch(path.name)):
            return str(path.relative_to(folder))
    return None


def remove_folder(path: Path) -> None:
    """Remove a folder atomically: it is never visible with only some of its files."""
    aside = path.with_name(f".{path.name}.removed.partial")
    shutil.rmtree(aside, ignore_errors=True)
    path.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def _keep_newest(folder: Path, keep: int) -> None:
    for old in checkpoints(folder)[: -max(keep, 1)]:
        remove_folder(old)


def remove_leftovers(folder: Path, *, keep: int = 2) -> None:
    """Remove incomplete folders of a killed process; call it while no trainer uses the folder."""
    _keep_newest(folder, keep)
    for path in folder.iterdir():
        if found := _LEFT.fullmatch(path.name):
            if found[2] == "replaced":
                restore_folder(folder / found[1])
            else:
                shutil.rmtree(path, ignore_errors=True)


def load_checkpoint(folder: Path, identity: dict[str, Any]) -> Checkpoint:
    """Read the newest checkpoint of a folder, if it belongs to the run described.

    Raises:
        DataError: there is none; it is damaged, or not a checkpoint, and the message names the previous one; or an
            earlier version of this package wrote it.
        ValueError: it belongs to another run; the message names the differences.
    """
    found = checkpoints(folder)
    if not found:
        if (folder / OLD_FILE).exists():
            raise DataError(
                f"{folder / OLD_FILE} is a checkpoint of an earlier version, a file; this version reads folders "
                "(checkpoint-000010): finish the run with the version it began with, or train into an empty folder"
            )
        raise DataError(f"no checkpoint in {folder}")
    path = found[-1]
    try:
        checkpoint = _read(path)
    except DataError as error:
        raise DataError(f"{error}; {_advice(found)}") from error
    stored = checkpoint.identity
    if _is_longer(stored, identity, checkpoint.iteration):
        stored = identity
        warnings.warn(
            f"{folder}: the run of {checkpoint.iteration} iterations continues to {identity['config']['iterations']}: "
            "its learning rate had fallen to 0 and begins again where a run of that length would be",
            stacklevel=3,
        )
    differing = differences(stored, identity)
    if differing:
        shown = "\n".join(f"  {line}" for line in differing[:8])
        more = f"\n  and {len(differing) - 8} more" if len(differing) > 8 else ""
        raise ValueError(
            f"{path} belongs to another run:\n{shown}{more}\n"
            "Resume it with the model and settings it was made with, or train into an empty folder."
        )
    return checkpoint


def _is_longer(stored: dict[str, Any], given: dict[str, Any], done: int) -> bool:
    def bare(identity: dict[str, Any]) -> dict[str, Any]:
        config = {name: value for name, value in identity.get("config", {}).items() if name != "iterations"}
        return {name: value for name, value in identity.items() if name != "iterations"} | {"config": config}

    before, after = (each.get("config", {}).get("iterations") for each in (stored, given))
    return before is not None and after is not None and before == done < after and not differences(
        bare(stored), bare(given)
    )  # fmt: skip


def _read(path: Path) -> Checkpoint:
    wrong = damage(path)
    if wrong is not None:
        raise DataError(f"{path} is damaged, or not a checkpoint of this trainer: {wrong}")
    try:
        state = read_json((path / STATE_FILE).read_bytes())
        found = state["format"]
        if found == _FORMAT:
            trees, identity = state["trees"], state["identity"]
            named = {part: _OLD_SCORER if part == "scorer" and _OLD_SCORER in trees else part for part in _PARTS}
            parts: dict[str, Any] = {
                part: None if trees[name] is None else _part(path, name, trees[name]) for part, name in named.items()
            }
            if _OLD_SCORER in identity:
                identity["scorer"] = identity.pop(_OLD_SCORER)
            if "config" in identity:
                identity["config"] = by_name(identity["config"])
            ahead = Experience.load(path)
            done, seconds, rules = int(state["iteration"]), float(state["seconds"]), int(state.get("training_rules", 1))
            return Checkpoint(identity, done, seconds, ahead=ahead, training_rules=rules, **parts)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(f"{path} is not a checkpoint of this trainer ({type(error).__name__}: {error})") from error
    raise DataError(f"{path} has checkpoint format {found}, this version reads {_FORMAT}")


def _part(path: Path, part: str, tree: Any) -> Any:
    tensors = read_tensors(path, part)
    # A model copies the tensors; an optimiser keeps them, so they must not map a file that is removed later.
    return join(tree, tensors if part == "model" else {name: value.clone() for name, value in tensors.items()})


def _advice(found: list[Path]) -> str:
    for before in reversed(found[:-1]):
        try:
            iteration = _read(before).iteration
        except DataError:
            continue
        return f"the one before, of iteration {iteration}, is whole: remove {found[-1]} to go on from it"
    return "there is no other that could be read: train into an empty folder"


def describe_run(policy: Any, config: TrainerConfig, method: str, tasks: Any) -> dict[str, Any]:
    """Return the identity of a run: model shapes, vocabulary, policy settings, config, method and tasks.

    Left out: when to save, the length of training (unless the learning rate depends on it), options that are switched
    off, and options of memory. Frozen weights are represented by their fingerprint.
    """
    numbers = config.settings()
    settings = getattr(policy, "settings", None)
    played = {} if settings is None else asdict(settings)
    for name, default in (("max_prompt_tokens", None), ("truncate", "raise")):  # unknown to older checkpoints
        if played.get(name) == default:
            played.pop(name, None)
    constant, rollout = config.schedule.shape == "constant", config.rollout
    unused = {
        **dict.fromkeys(_NO_PART, True), "iterations": constant,
        "token_budget": constant or config.token_budget is None, "validation.tokens": not config.validation.tokens,
        "rollout.staleness": not rollout.staleness, "rollout.resample_rounds": not rollout.resample_rounds,
        **dict.fromkeys(("rollout.branches", "rollout.branch_at", "rollout.common_numbers"), not rollout.branches),
    }  # fmt: skip
    numbers = {
        name: value
        for name, value in numbers.items()
        if not unused.get(name) and (config.loss.distillation.weight or not name.startswith("distillation."))
    }
    tokenizer = getattr(policy, "tokenizer", None)
    fixed = [(name, weight) for name, weight in policy.model.named_parameters() if not weight.requires_grad]
    described = {
        "model": {name: _kind(value) for name, value in policy.model.state_dict().items()},
        "vocabulary": None if tokenizer is None else _digest(sorted(tokenizer.get_vocab().items())),
        "policy": _plain(played), "config": _plain(numbers), "method": method, "tasks": _digest(_plain(tasks)),
    }  # fmt: skip
    return {**described, "frozen": fingerprint(fixed)} if fixed else described


def describe_credit(credit: Any) -> str:
    """Return name and options of a credit method, for checkpoints.

    >>> from functools import partial
    >>> describe_credit(partial(sorted, reverse=True))
    'sorted(reverse=True)'
    """
    if isinstance(credit, functools.partial):
        options = ", ".join(f"{key}={value!r}" for key, value in sorted(credit.keywords.items()))
        return f"{describe_credit(credit.func)}({options})"
    if hasattr(credit, "describe"):
        return str(credit.describe())
    return str(getattr(credit, "__qualname__", type(credit).__qualname__))


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
    return json.loads(json.dumps(value, default=str))


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:16]


class Interruption:
    """The signal that requested a stop, if any."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def raise_if_asked(self) -> None:
        """Raise KeyboardInterrupt after SIGINT, SystemExit (status 143) after SIGTERM, else nothing."""
        if self.signal == signal.SIGINT:
            raise KeyboardInterrupt
        if self.signal is not None:
            raise SystemExit(128 + self.signal)


@contextmanager
def deferred() -> Iterator[Interruption]:
    """Defer the first SIGINT or SIGTERM until the block ends; a second SIGINT acts at once, a second SIGTERM does not.

    A scheduler and a parent process may both send SIGTERM. Outside the main thread Python delivers no signals, and
    the flag remains unset.
    """
    stop = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, _: FrameType | None) -> None:
        stop.signal = number
        restore()
        if number == signal.SIGTERM:
            signal.signal(number, lambda *_: None)

    def restore() -> None:
        for number, handler in kept.items():
            # None: the handler was not installed from Python, and Python cannot restore it.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    for number in kept:
        signal.signal(number, note)
    try:
        yield stop
    finally:
        restore()
