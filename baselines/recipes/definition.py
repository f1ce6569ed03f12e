"""A recipe: which credit function with which options, and what training by it needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.trajectory import Bools, Floats, StepTable
from baselines.config import TrainerConfig
from baselines.environments.settings import OwnEnv
from baselines.scorers.scorer import Estimate, ScoreLevel, ScorerConfig
from wrappers.credit.group import has_contrast
from wrappers.credit.options import all_options
from wrappers.credit.scores import reply_lengths


@dataclass(frozen=True)
class Recipe:
    """A credit method with its options; call it with a table to get the advantages.

    Attributes:
        credit: function of `wrappers`, `credit(table, **options) -> float64 (N,)`; where it is `scored` and has no
            `argument`, a function `credit(table, scores, **options) -> Estimate`.
        notes: one sentence for tables and reports.
        training: settings of `TrainerConfig` by name, such as "loss.kl", that belong to the method.
        scored: level of the scores that the method needs, "turn" (N,) or "token" (N, K); None: it needs no scores.
        scorer: makes the scorer that a trainer is not given; None: it must be given one.
        scorers: scorers by value of the option `scores`, where the method has it.
        own_env: environment that the method is made for; the caller builds it. None: any environment.
        argument, silent, figures, targets, keeps: see `wrappers.credit.method.Method`.
    """

    name: str
    credit: Callable[..., Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    notes: str = ""
    training: Mapping[str, Any] = field(default_factory=dict)
    scored: ScoreLevel | None = None
    scorer: ScorerConfig | None = None
    own_env: OwnEnv | None = None
    argument: str = ""
    silent: float = 0.0
    figures: Callable[[StepTable, Floats, Mapping[str, Any]], Mapping[str, float]] | None = None
    targets: Callable[[StepTable, Mapping[str, Any]], Floats] | None = None
    keeps: Callable[[StepTable, Mapping[str, Any]], Bools] | None = None
    scorers: Mapping[str, ScorerConfig | None] = field(default_factory=dict)

    def __call__(self, table: StepTable) -> NDArray[np.float64]:
        """Return float64 (N,), one advantage per row; nan = not scored.

        A method that needs scores returns here what it returns with an untrained scorer; a trainer calls `estimate`.
        """
        if self.scored is not None:
            return self.estimate(table, None).advantages
        return self.credit(table, **self.options)

    def estimate(self, table: StepTable, scores: NDArray[np.float64] | None) -> Estimate:
        """Return advantages from scores, and what the scores should have been; None: those of no scorer."""
        if not self.argument:
            return self.credit(table, scores, **self.options)
        if scores is None:
            tokens = (reply_lengths(table).max(initial=1),) if self.scored == "token" else ()
            scores = np.full((len(table), *tokens), self.silent)
        advantages = self.credit(table, **{self.argument: scores}, **self.options)
        options = all_options(self.credit, self.options)
        figures = self.figures(table, scores, options) if self.figures else {}
        return Estimate(advantages, self.targets(table, options) if self.targets else None, figures)

    @property
    def score_level(self) -> ScoreLevel | None:
        """What scores are wanted for: "turn" or "token"; None: none are. Where `level` is an option, by that."""
        level = all_options(self.credit, self.options).get("level") if self.scored else None
        return self.scored if level is None else "turn" if level == "turn" else "token"

    def contrasting(self, table: StepTable) -> Bools:
        """Return bool (n_groups,), the groups that dynamic sampling keeps: by default those won sometimes."""
        if self.keeps is None:
            return has_contrast(table)
        return self.keeps(table, all_options(self.credit, self.options))

    def schedule(self, iteration: int, iterations: int) -> Mapping[str, Any]:
        """Return the reset options that training tasks get besides their own, see `OwnEnv.schedule`."""
        made = self.own_env.schedule if self.own_env is not None else None
        return {} if made is None else made(iteration, iterations)

    def anywhere(self) -> Recipe:
        """Return the recipe, for whoever trains in an environment that is built without its own.

        Raises:
            ValueError: it has one.
        """
        if self.own_env is not None:
            raise ValueError(
                f"{self.name} is trained in an environment of its own, which is not built here: use "
                f"`python -m benchmarks.run --env {self.own_env.id} --methods {self.name}`, or build it "
                "(see the environment's page, in docs/environments)"
            )
        return self

    def at(self, update: int) -> Recipe:
        """Return the recipe after so many updates, for a method with the option `update`; others are as they are."""
        return self.with_options(update=update) if "update" in all_options(self.credit, self.options) else self

    def configure(self, config: TrainerConfig) -> TrainerConfig:
        """Return the configuration with the method's own `training` settings."""
        return config.changed(**self.training)

    def describe(self) -> str:
        return f"{self.name}({', '.join(f'{key}={value!r}' for key, value in sorted(self.options.items()))})"

    def with_options(self, **options: Any) -> Recipe:
        """Return the recipe with some options replaced or added; the credit function checks them when called."""
        return dataclasses.replace(self, options={**self.options, **options})
