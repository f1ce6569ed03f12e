"""What the learning benchmark must know of an environment: how it is played, and at which sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from baselines.config import TrainerConfig
from benchmarks.config import QUICK, Setup, Sizes
from wrappers.advice import Adviser
from wrappers.canonical import Key

#: A tiny policy for commands that name what the prompt names; see `policies.tiny`.
COPYING: dict[str, Any] = {"layers": 3, "heads": 2, "kv_heads": 2, "head_size": 64, "mlp": 128, "copying": True}


@dataclass(frozen=True)
class EnvSettings:
    """How the learning benchmark plays one environment.

    Attributes:
        name: what `--env` takes besides the id, and the folder name of the results.
        id: Gymnasium id.
        tiny: settings of the tiny policy's training.
        pretrained: the same for a model from a folder.
        full: sizes of the default run.
        quick: sizes of `--quick`.
        setup: environment, splits, prompt and policy.
        pretrained_setup: the same for a model from a folder; None: as `setup`.
        history: pairs in the tiny policy's prompt.
        words: what the tiny policy's tokenizer must know besides the texts and commands of some training levels.
        pieces: what it keeps in one token, see `policies.tiny.tiny_tokenizer`; None for its default.
        kind_names: kinds of tasks and the heads of their columns, as papers print them.
        advisers: players that know only what they are told, by name; they can be cloned in place of the
            environment's own expert, see `benchmarks.config.Setup.adviser`.
        key: returns the state key that credit goes by, see `wrappers.canonical`; None: the exact state.
        return_name: what the tables call the return of an episode.
        tiles: symbols of a board mapped to tiles of the page; None where observations are shown as they are.
    """

    name: str
    id: str
    tiny: TrainerConfig
    pretrained: TrainerConfig
    full: Sizes
    quick: Sizes = QUICK
    setup: Setup = field(default_factory=Setup)
    pretrained_setup: Setup | None = None
    history: int = 0
    words: Callable[[], Sequence[str]] = tuple
    pieces: Sequence[str] | None = None
    kind_names: Mapping[str, str] = field(default_factory=dict)
    advisers: Mapping[str, Callable[[], Adviser]] = field(default_factory=dict)
    key: Callable[[], Key] | None = None
    return_name: str = "return"
    tiles: Callable[[], dict[str, str]] | None = None
