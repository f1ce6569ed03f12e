"""Types of an environment's learning settings: sizes, models, prompts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agentgym.outside.text import tables_beside
from baselines.config import Checkpoints, Loss, Optimiser, Schedule, TrainerConfig, Validation
from wrappers.credit.options import WHOLE

if TYPE_CHECKING:
    from wrappers.advice import Adviser
    from wrappers.canonical import Key

#: The model of `policies.tiny`, and the one of `policies.smollm2`; any other name is a model's folder.
TINY, SMOLLM2 = "tiny", "smollm2"
#: The method of a run by default: episodes are compared with their whole group.
REFERENCE = WHOLE

# For a policy of 0.2 million parameters on one CPU core (about half a second per iteration), chosen on validation
# levels and the same for every method. Rollouts use temperature 1 because a clone has a low entropy: at 0.5 its eight
# episodes of a level are nearly the same. The learning rate falls to 0: noise of the last updates would lower success.
SOKOBAN_TINY = TrainerConfig(
    iterations=300, groups=16, group_size=8, temperature=1.0, learning_rate=4e-4, schedule=Schedule(shape="linear"),
    optimiser=Optimiser(minibatch_rows=64, epochs=1), loss=Loss(kl=0.01), validation=Validation(every=25),
    checkpoint=Checkpoints(every=25),
)  # fmt: skip

# For a pretrained language model: the papers' step size and mini-batch. With the rate above training diverges within a
# few updates.
SOKOBAN_PRETRAINED = SOKOBAN_TINY.changed(
    learning_rate=1e-6,
    schedule={"shape": "constant"},
    optimiser={"minibatch_rows": 256},
    memory={"microbatch_rows": 16},
)

Search = Literal["space", "rates", "rates-kl"]
#: Learning rate of an adapter, relative to that of all weights.
LORA_RATE = 10.0
#: Maximum number of parallel episodes.
SIDE_BY_SIDE = 128


@dataclass(frozen=True)
class Setup:
    """Environment, splits, prompt and policy; the defaults are those of Sokoban.

    Attributes:
        options: keyword arguments of `gymnasium.make_vec`.
        plenty: further ones, which give splits as many tasks as training needs; a split that is played whole has the
            environment's own number.
        train: split of cloning and reinforcement learning.
        validation: split of the learning curve. If it is the test split, its tasks begin after those of the test.
        beside: further splits that the finished policies play, reported together with the test split.
        kinds: info entry with the kind of an episode, such as "task_type"; "": all episodes are of one kind.
        adviser: the player that is cloned: "" for the environment's own expert, else one of the environment's advisers.
        cloned: keyword arguments of `gymnasium.make_vec` that differ while cloning.
        prompt: options of `wrappers.prompt.PromptStyle` besides history and instructions.
        policy: keyword arguments of `policies.tiny.tiny_policy`, or of `policies.huggingface.HuggingFacePolicy`.
        clone: keyword arguments of `baselines.imitation.cloning.clone`, besides epochs and seed.
        clone_contexts: contexts in front of the clone's prompts: for each, the share of the steps of the environment's
            expert that are cloned with it, see `baselines.imitation.cloning.informed_demonstrations`.
        clone_until: greedy success on the validation tasks at which cloning ends; 0: all epochs are run.
        look_from: updates before the first such validation; earlier replies are long and useless.
        look_every: updates between such validations.
    """

    options: dict[str, Any] = field(default_factory=dict)
    plenty: dict[str, Any] = field(default_factory=dict)
    train: str = "train"
    validation: str = "validation"
    test: str = "test"
    beside: list[str] = field(default_factory=list)
    kinds: str = ""
    adviser: str = ""
    cloned: dict[str, Any] = field(default_factory=dict)
    prompt: dict[str, Any] = field(default_factory=dict)
    policy: dict[str, Any] = field(default_factory=dict)
    clone: dict[str, Any] = field(default_factory=dict)
    clone_contexts: dict[str, float] = field(default_factory=dict)
    clone_until: float = 0.0
    look_from: int = 24
    look_every: int = 6

    def while_cloned(self) -> Setup:
        """Return the setup with its options for cloning."""
        return replace(self, options=self.options | self.cloned)


@dataclass(frozen=True)
class Sizes:
    """The numbers of `baselines.runs.config.Config` that determine the length of a benchmark."""

    steps: int
    groups: int
    group_size: int
    clone_tasks: int
    clone_epochs: int
    training_tasks: int
    eval_tasks: int
    validation_tasks: int
    validation_every: int

    @classmethod
    def trained(cls, training: TrainerConfig, **others: int) -> Sizes:
        """Return sizes with the iterations, groups and validations of a training configuration."""
        return cls(
            steps=training.iterations, groups=training.groups, group_size=training.group_size,
            validation_every=training.validation.every, **others,
        )  # fmt: skip


#: Small sizes for CI, with every part of a benchmark.
QUICK = Sizes(
    steps=2, groups=4, group_size=4, clone_tasks=40, clone_epochs=2, training_tasks=100, eval_tasks=24,
    validation_tasks=12, validation_every=1,
)  # fmt: skip


@dataclass(frozen=True)
class ModelSettings:
    """Settings of a named model in one environment, if they differ from those of any model from a folder.

    Attributes:
        setup: environment, splits, prompt, policy and cloning.
        instructions: whether its prompt begins with the task's rules.
        token_budget: reply tokens of a run in the head-to-head comparison; one to three minutes for the tiny policy.
        search: what the head-to-head comparison searches; None: as for the tiny policy.
    """

    training: TrainerConfig
    full: Sizes
    quick: Sizes
    setup: Setup
    history: int = 2
    instructions: bool = True
    token_budget: int = 100_000
    search: Search | None = None


@dataclass(frozen=True)
class Scripted:
    """Scripted players whose steps credit methods are measured on, see `benchmarks.truth`.

    Attributes:
        optimal: probabilities of the expert's action, for about 25, 50 and 75 % success.
        others: the other actions; None: all admissible ones.
        outcome: the value of an episode: its "return", or 1 if it is "won".
    """

    tasks: int
    optimal: Sequence[float]
    others: Sequence[str] | None = None
    outcome: Literal["return", "won"] = "return"


@dataclass(frozen=True)
class OwnEnv:
    """An environment that belongs to a method, for example with its own reward or search engine.

    Attributes:
        id: Gymnasium id of the environment that the method is for.
        options: constructor arguments, in training and in play.
        training: further arguments, only in training; validation is part of training.
        schedule: function from the numbers of finished and of all iterations to additional reset options of training
            tasks; None: no additional ones.
    """

    id: str
    options: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    schedule: Callable[[int, int], Mapping[str, Any]] | None = None


@dataclass(frozen=True)
class OwnRow:
    """A recipe that is a method for any environment, trained in its own variant of the environment.

    Attributes:
        of: name of the method.
        notes: as in `baselines.recipes.definition.Recipe`.
        options: options of the method, in addition to its preset "paper".
    """

    name: str
    of: str
    notes: str
    own_env: OwnEnv
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class EnvSettings:
    """Settings of the learning benchmark for one environment.

    Attributes:
        name: short name for `--env`, besides the id, and folder name of the results.
        tiny: settings of the tiny policy's training.
        pretrained: the same for a model from a folder.
        setup: environment, splits, prompt and policy.
        pretrained_setup: the same for a model from a folder; None: as `setup`.
        history: pairs in the tiny policy's prompt.
        words: texts for the tiny policy's tokenizer, besides `said` and the texts and commands of some training tasks.
        said: texts of the environment and its prompts, without names and numbers.
        pieces: strings that are one token, see `policies.tiny.tiny_tokenizer`; None: its default.
        kind_names: kinds of tasks and their column headings, as in papers.
        advisers: players that see only the observations, by name; they can be cloned in place of the
            environment's own expert, see `Setup.adviser`.
        key: the state key that credit uses, see `wrappers.canonical`; None: the exact state.
        return_name: name of an episode's return in tables.
        tiles: symbols of a board mapped to tiles of the page; None: observations are shown as text.
        models: settings of models that differ from those of other models, by name.
        data: arguments for folders of external data, each with the environment variable that is used without it, or "".
        made: options of the setups that apply only to generated tasks.
        scripted: players that credit is measured on; None: credit is not measured.
        is_known: False for the default settings of an unknown environment.
        token_budget: reply tokens of the tiny policy's run in the head-to-head comparison.
        search: what the head-to-head comparison searches: the whole "space" of a method, learning "rates" and dynamic
            sampling, or also whether there is a small KL penalty, "rates-kl".
        papers_play: tasks of the papers' runs, such as "the official games"; none of them is in this package.
        papers_options: for a term of the papers, such as "steps", a function from its value to keyword arguments.
        rows: recipes for this environment only.
        with_options: function from the row and arguments that change sizes and name to another row; None: no such
            arguments.
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
    said: Sequence[str] = ()
    pieces: Sequence[str] | None = None
    kind_names: Mapping[str, str] = field(default_factory=dict)
    advisers: Mapping[str, Callable[[], Adviser]] = field(default_factory=dict)
    key: Key | None = None
    return_name: str = "return"
    tiles: Mapping[str, str] | None = None
    models: Mapping[str, ModelSettings] = field(default_factory=dict)
    data: Mapping[str, str] = field(default_factory=dict)
    made: Sequence[str] = ()
    scripted: Scripted | None = None
    is_known: bool = True
    token_budget: int = 100_000
    search: Search = "space"
    papers_play: str = ""
    papers_options: Mapping[str, Callable[[Any], dict[str, Any]]] = field(default_factory=dict)
    rows: Sequence[OwnRow] = ()
    with_options: Callable[[EnvSettings, Mapping[str, Any]], EnvSettings] | None = None

    def played_by(self, model: str) -> ModelSettings:
        """Return a model's settings: its own, the tiny policy's, or those of any model from a folder."""
        if model == TINY:
            return ModelSettings(self.tiny, self.full, self.quick, self.setup, self.history, False, self.token_budget)
        found = self.models.get(model)
        return found or ModelSettings(self.pretrained, self.full, self.quick, self.pretrained_setup or self.setup)


def read(module: str, **code: Any) -> EnvSettings:
    """Return the settings in the TOML file beside a module and named like it.

    In the file "none" is None, `quick` has changes of `QUICK`, `pretrained_setup` changes of `setup`; `tiny` and a
    model's `training` have changes of what Sokoban has for the tiny and for pretrained models.

    Args:
        module: the module's `__file__`.
        code: fields that are functions, or made by some.
    """
    row = _value(tables_beside(module, f"{Path(module).stem}.toml"))
    tiny, setup = SOKOBAN_TINY.changed(**row.pop("tiny", {})), Setup(**row.pop("setup"))
    if changes := row.pop("pretrained_setup", None):
        row["pretrained_setup"] = replace(setup, **changes)
    if scripted := row.pop("scripted", None):
        row["scripted"] = Scripted(**scripted)
    models = {name: _model(**given) for name, given in row.pop("models", {}).items()}
    full, quick = Sizes.trained(tiny, **row.pop("full")), replace(QUICK, **row.pop("quick", {}))
    return EnvSettings(
        tiny=tiny, pretrained=SOKOBAN_PRETRAINED, full=full, quick=quick, setup=setup, models=models, **row, **code
    )


def _model(
    training: Mapping[str, Any], full: Mapping[str, int], setup: Mapping[str, Any],
    quick: Mapping[str, int] | None = None, **others: Any,
) -> ModelSettings:  # fmt: skip
    trained = SOKOBAN_PRETRAINED.changed(**training)
    sizes = Sizes.trained(trained, **full), replace(QUICK, **quick or {})
    return ModelSettings(trained, *sizes, Setup(**setup), **others)


def _value(found: Any) -> Any:
    if isinstance(found, dict):
        return {name: _value(each) for name, each in found.items()}
    return None if found == "none" else found


def limit_of_steps(steps: int) -> dict[str, Any]:
    """Return the keyword argument for a published limit of steps, if the environment has no other limit."""
    return {"max_episode_steps": steps}


def tasks(split: str, count: int, first: int = 0) -> list[dict[str, Any]]:
    """Reset options of `count` tasks of a split; "": the environment has no splits, and draws each by its seed.

    >>> tasks("test", 2)
    [{'split': 'test', 'index': 0}, {'split': 'test', 'index': 1}]
    """
    return [{"split": split, "index": first + i} if split else {} for i in range(count)]
