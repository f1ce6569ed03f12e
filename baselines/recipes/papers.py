"""Settings as the papers print them, method by method and environment by environment.

`PAPERS`, read from papers.toml, holds what is printed, and nothing else: what a paper leaves out is left out here, and
`Paper.config` gives it the trainer's default. Where a paper and its authors' script differ, there are two entries.

    paper(NAME, "alfworld").config()              what the paper prints
    paper(NAME, "sokoban", "script").config()     what the authors' script sets
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from agentgym.checks import suggest
from agentgym.outside.text import tables_beside
from baselines.config import TrainerConfig, by_name
from baselines.recipes.definition import Recipe
from baselines.recipes.rows import RECIPES, SEARCH_ROWS

Source = Literal["paper", "script"]


@dataclass(frozen=True)
class Paper:
    """One method in one environment.

    Attributes:
        method: name of a recipe, or of a method that is not in this package.
        env: name of the environment, as `baselines.environments` has it.
        source: "paper": its tables and text; "script": the authors' published run script where that differs.
        training: settings of `TrainerConfig` by name, such as "loss.kl".
        scorer: of its scorer's config, see `baselines.recipes.definition.Recipe.scorer`.
        environment: facts about episodes, by the paper's words: "steps" per episode, "success_reward", "board", ...
        prompt_tokens, reply_tokens: limits; None: not printed.
        validation_temperature: sampling temperature of validation; None: not printed.
        lora_rank: rank of the adapter; None: all weights are trained.
        others: what belongs to learned rewards and critics and has no setting here.
        models: sizes or names that were trained.
    """

    method: str
    env: str
    source: Source = "paper"
    training: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    scorer: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    prompt_tokens: int | None = None
    reply_tokens: int | None = None
    validation_temperature: float | None = None
    lora_rank: int | None = None
    others: Mapping[str, Any] = field(default_factory=dict)
    models: tuple[str, ...] = ()
    notes: str = ""

    @property
    def title(self) -> str:
        return f"{self.method} in {self.env} ({self.source})"

    def config(self, **changes: Any) -> TrainerConfig:
        """Return the trainer's configuration; what is not printed has its default."""
        return TrainerConfig(**self.training).changed(**changes)

    def recipe(self) -> Recipe:
        """Return the credit method with the paper's options.

        Raises:
            NotImplementedError: the method is not in this package.
        """
        named = RECIPES | SEARCH_ROWS
        if self.method not in named:
            raise NotImplementedError(
                f"the settings of {self.title} are known, but the method is not in this package; "
                f"methods that can be trained: {', '.join(named)}"
            )
        made = named[self.method].with_options(**self.options)
        if made.scorer is None:
            return made
        inner = {
            name: dataclasses.replace(getattr(made.scorer, name), **value)
            for name, value in self.scorer.items() if isinstance(value, dict)
        }  # fmt: skip
        return dataclasses.replace(made, scorer=dataclasses.replace(made.scorer, **{**self.scorer, **inner}))

    def differences(self, config: TrainerConfig) -> list[str]:
        """Return one line for each printed training setting that a configuration has otherwise."""
        here = config.settings()
        return [
            f"{name}: {self.source} {value!r}, here {here[name]!r}"
            for name, value in self.training.items()
            if here[name] != value
        ]

    def unset(self) -> list[str]:
        """Return one line for each printed fact that neither trainer nor credit can set."""
        limits = ("prompt_tokens", "reply_tokens", "validation_temperature", "lora_rank")
        facts = {**self.environment, **self.others, **{name: getattr(self, name) for name in limits}}
        lines = [f"{name}: {value!r}" for name, value in facts.items() if value is not None]
        return lines + ([f"models: {', '.join(self.models)}"] if self.models else [])


def _read(entry: Mapping[str, Any]) -> Paper:
    """Return an entry of papers.toml; its lists are tuples, and its "none" is None."""

    def value(found: Any) -> Any:
        if isinstance(found, dict):
            return {name: value(each) for name, each in found.items()}
        return tuple(found) if isinstance(found, list) else None if found == "none" else found

    read = value(entry)
    read["training"] = by_name(read["training"])
    return Paper(**read)


#: Every printed setting, by method, environment and source.
PAPERS: dict[tuple[str, str, Source], Paper] = {
    (one.method, one.env, one.source): one for one in map(_read, tables_beside(__file__, "papers.toml")["paper"])
}


def paper(method: str, env: str, source: Source = "paper") -> Paper:
    """Return the published settings of a method in an environment; if only one source has them, those of that source.

    Raises:
        ValueError: no settings are published for the two; the message names those that are.

    >>> first = next(iter(PAPERS.values()))
    >>> paper(first.method, first.env) is first
    True
    """
    sources: tuple[Source, ...] = (source, "paper", "script")
    found = next((PAPERS[method, env, each] for each in sources if (method, env, each) in PAPERS), None)
    if found is not None:
        return found
    of_method = sorted({one.env for one in PAPERS.values() if one.method == method})
    if not of_method:
        raise ValueError(
            f"no paper's settings for the method {method!r}; {suggest(method, sorted({m for m, *_ in PAPERS}))}"
        )
    raise ValueError(f"the paper of {method!r} prints no settings for {env!r}; {suggest(env, of_method)}")
