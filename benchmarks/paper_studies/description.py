"""What a study is: which credits are held against the truth, which settings are trained, and along which axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from agentgym.trajectory import Floats, StepTable

#: Coordinates of what is measured, see `benchmarks.paper_studies.results.Cell`.
ENV, CREDIT, VARIANT, KEY, NOISE, SIZE = "env", "credit", "variant", "key", "noise", "size"


@dataclass(frozen=True)
class Compared:
    """One credit that is held against the truth.

    Attributes:
        credit: what it is called, such as a method's name.
        give: float64 (N,) of a table.
        variant: what sets it apart from others of that name.
    """

    credit: str
    give: Callable[[StepTable], Floats]
    variant: str = ""


@dataclass(frozen=True)
class Labels:
    """Which situations of an episode count as the same state.

    Attributes:
        key: what it is called; "own" is the state key of the learning benchmark, all others are made of texts.
        threshold: least cosine of texts that are one state; None: equal texts are.
        adverts: probability that a page of WebShop carries adverts; 0 for none.
    """

    key: str = "own"
    threshold: float | None = None
    adverts: float = 0.0

    @property
    def noise(self) -> str:
        """The share of pages with adverts, in words."""
        return f"{100 * self.adverts:.0f} %"


@dataclass(frozen=True)
class Against:
    """What is held against the true worth of steps; nothing is trained.

    Attributes:
        envs: environments of `benchmarks.league.players`, those of `--quick` first.
        credits: in groups of every size, under every labelling; none: only graphs are counted.
        sizes: group sizes, each dividing the next.
        shown: measures of `benchmarks.ranking.measures`, the first one is drawn.
        panel, line, along: coordinates that panels, lines and the horizontal axis of the picture stand for.
        label: what that axis is called.
        base: coordinates of what differences are taken to; a cell is compared with the one that has these instead of
            its own; {}: nothing is compared.
        labels: state keys.
        graphs: ratios of `benchmarks.league.diagnostics.GRAPHS`, or "aliased", that a table of graphs shows; none: no
            such table.
    """

    envs: tuple[str, ...]
    credits: tuple[Compared, ...] = ()
    sizes: tuple[int, ...] = (8,)
    shown: tuple[str, ...] = ("within",)
    panel: str = ENV
    line: str = CREDIT
    along: str = SIZE
    label: str = "episodes of a group"
    base: Mapping[str, str | int] = field(default_factory=dict)
    labels: tuple[Labels, ...] = (Labels(),)
    graphs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Arm:
    """One setting that is trained.

    Attributes:
        setting: label of a `benchmarks.training.records.Setting`.
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
    """One study.

    Attributes:
        name: of the command's argument, the page and the files.
        question: in one sentence.
        against: the part without training; None: there is none.
        trained: the parts with training, each in another environment or with other splits.
    """

    name: str
    question: str
    against: Against | None = None
    trained: tuple[Trained, ...] = ()
