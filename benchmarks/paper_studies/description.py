"""The trained part of a study: which settings are trained, and along which axis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Arm:
    """One setting that is trained.

    Attributes:
        setting: label of a `benchmarks.head_to_head.space.Setting`.
        line, along: where it stands in the picture.
        base: setting that it is compared with; "": none.
    """

    setting: str
    line: str
    along: str
    base: str = ""


@dataclass(frozen=True)
class Trained:
    """What is trained from the same clones, with the head to head's runs.

    Attributes:
        env: environment.
        arms: the settings.
        along: what the horizontal axis of its picture is called.
        tokens: reply tokens of a run, unless its setting says otherwise.
        sizes: fields of `benchmarks.config.Sizes` that are not those of the environment's learning benchmark.
        splits: names of splits by what they are called there, the test split among them: all of them are played, and
            are the horizontal axis; {}: the test split alone.
        shares: what is shown is where the time went, not success.
    """

    env: str
    arms: tuple[Arm, ...]
    along: str
    tokens: int
    sizes: Mapping[str, int] = field(default_factory=dict)
    splits: Mapping[str, str] = field(default_factory=dict)
    shares: bool = False


@dataclass(frozen=True)
class Study:
    """One study; what `benchmarks.truth.papers.AGAINST` says under its name is held against the truth.

    Attributes:
        name: of the command's argument, the page and the files.
        question: in one sentence.
        trained: the parts with training, each in another environment or with other splits.
    """

    name: str
    question: str
    trained: tuple[Trained, ...] = ()
