"""What the learning settings of an environment hold: sizes, models, prompts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from baselines.config import Checkpoints, Loss, Optimiser, Schedule, TrainerConfig, Validation

if TYPE_CHECKING:
    from wrappers.advice import Adviser
    from wrappers.canonical import Key

#: The model that is built from a config, and the one of `policies.smollm2`; any other is the folder of one.
TINY = "tiny"


SMOLLM2 = "smollm2"


# For a policy of 0.2 million parameters on one CPU core (about half a second per iteration), chosen on validation
# levels and the same for every method. Rollouts at temperature 1 because a clone is sure of itself: at 0.5 its eight
# episodes of a level are nearly the same. The learning rate falls to 0 because the last updates' noise costs points.
SOKOBAN_TINY = TrainerConfig(
    iterations=300,
    groups=16,
    group_size=8,
    temperature=1.0,
    learning_rate=4e-4,
    schedule=Schedule(shape="linear"),
    optimiser=Optimiser(minibatch_rows=64, epochs=1),
    loss=Loss(kl=0.01),
    validation=Validation(every=25),
    checkpoint=Checkpoints(every=25),
)

# For a pretrained language model: the papers' step size and mini-batch. The rate above would wreck it within a few
# updates.
SOKOBAN_PRETRAINED = SOKOBAN_TINY.changed(
    learning_rate=1e-6,
    schedule={"shape": "constant"},
    optimiser={"minibatch_rows": 256},
    memory={"microbatch_rows": 16},
)


#: Learning rate of an adapter, in those of all weights.
LORA_RATE = 10.0


#: Episodes that are played side by side, at most.
SIDE_BY_SIDE = 128


#: A tiny policy for commands that name what the prompt names; see `policies.tiny`.
COPYING: dict[str, Any] = {"layers": 3, "heads": 2, "kv_heads": 2, "head_size": 64, "mlp": 128, "copying": True}


@dataclass(frozen=True)
class Setup:
    """Environment, splits, prompt and policy; the defaults are those of Sokoban.

    Attributes:
        options: keyword arguments of `gymnasium.make_vec`.
        plenty: further ones, by which splits have as many tasks as a training wants; a split that is played whole has
            the environment's own number.
        train: split of cloning and reinforcement learning.
        validation: split of the learning curve. Where it is the test split, its tasks begin after those of the test.
        beside: further splits that the finished policies play, reported beside the test split.
        kinds: info entry by which episodes are sorted into kinds, such as "task_type"; "": they are all of one kind.
        adviser: who is cloned: "" for the environment's own expert, else one of the environment's advisers.
        cloned: keyword arguments of `gymnasium.make_vec` that are others while cloning.
        prompt: options of `wrappers.prompt.PromptStyle` besides history and instructions.
        policy: keyword arguments of `policies.tiny.tiny_policy`, or of `policies.huggingface.HuggingFacePolicy`.
        clone: keyword arguments of `baselines.imitation.cloning.clone`, besides epochs and seed.
        clone_contexts: what a clone learns to read in front of its prompts: by context, the share of the environment's
            own expert's steps that are learned with it, see `baselines.imitation.cloning.informed_demonstrations`.
        clone_until: greedy success on the validation tasks with which cloning ends; 0: all epochs are read.
        look_from: updates before the first such look; earlier replies are long and lead nowhere.
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
        """Return the setup with the options that count while cloning."""
        return replace(self, options=self.options | self.cloned)


@dataclass(frozen=True)
class Sizes:
    """The numbers of `Config` that make a benchmark long or short; see there."""

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
            steps=training.iterations,
            groups=training.groups,
            group_size=training.group_size,
            validation_every=training.validation.every,
            **others,
        )


#: Every part of a benchmark, small, for CI.
QUICK = Sizes(
    steps=2,
    groups=4,
    group_size=4,
    clone_tasks=40,
    clone_epochs=2,
    training_tasks=100,
    eval_tasks=24,
    validation_tasks=12,
    validation_every=1,
)


@dataclass(frozen=True)
class ModelSettings:
    """How one model of a name plays one environment, where that is not how any model from a folder does.

    Attributes:
        setup: environment, splits, prompt, policy and cloning.
        instructions: whether its prompt begins with the task's rules.
        token_budget: reply tokens of a run in the head to head; for the tiny policy one to three minutes of a core.
    """

    training: TrainerConfig
    full: Sizes
    quick: Sizes
    setup: Setup
    history: int = 2
    instructions: bool = True
    token_budget: int = 100_000


@dataclass(frozen=True)
class Scripted:
    """Scripted players of an environment whose steps credit is held against, see `benchmarks.truth`.

    Attributes:
        optimal: probability of the expert's action, for about 25, 50 and 75 % success.
        others: what is played else; None: whatever is admissible.
        outcome: what an episode is worth: its "return", or 1 if it is "won".
    """

    tasks: int
    optimal: tuple[float, float, float]
    others: tuple[str, ...] | None = None
    outcome: Literal["return", "won"] = "return"


@dataclass(frozen=True)
class OwnEnv:
    """An environment that belongs to a method, such as a reward or a search engine of its own.

    Attributes:
        id: Gymnasium id of the environment that the method is for.
        options: constructor arguments, in training and in play.
        training: further ones, in training alone; validation is part of training.
        schedule: reset options that are added to those of training tasks, from finished iterations and the number of
            all; None for none.
    """

    id: str
    options: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    schedule: Callable[[int, int], Mapping[str, Any]] | None = None


@dataclass(frozen=True)
class OwnRow:
    """A recipe that is a method for any environment, trained in an environment of its own.

    Attributes:
        of: name of the method.
        notes: as of `baselines.recipes.definition.Recipe`.
        options: of the method, besides those of its preset "paper".
    """

    name: str
    of: str
    notes: str
    own_env: OwnEnv
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class EnvSettings:
    """How the learning benchmark plays one environment.

    Attributes:
        name: what `--env` takes besides the id, and the folder name of the results.
        tiny: settings of the tiny policy's training.
        pretrained: the same for a model from a folder.
        setup: environment, splits, prompt and policy.
        pretrained_setup: the same for a model from a folder; None: as `setup`.
        history: pairs in the tiny policy's prompt.
        words: what the tiny policy's tokenizer must know besides the texts and commands of some training tasks.
        pieces: what it keeps in one token, see `policies.tiny.tiny_tokenizer`; None for its default.
        kind_names: kinds of tasks and the heads of their columns, as papers print them.
        advisers: players that know only what they are told, by name; they can be cloned in place of the
            environment's own expert, see `Setup.adviser`.
        key: returns the state key that credit goes by, see `wrappers.canonical`; None: the exact state.
        return_name: what the tables call the return of an episode.
        tiles: symbols of a board mapped to tiles of the page; None where observations are shown as they are.
        models: settings of models that have some of their own, by name.
        data: arguments that say where data of others are, each with the variable that counts without it, "" for none.
        made: options of the setups that speak of generated tasks alone.
        scripted: players that credit is measured on; None: it is not.
        is_known: whether these are the environment's own settings, and not what any environment gets.
        token_budget: reply tokens of the tiny policy's run in the head to head.
        search: what a head to head searches: the whole "space" of a method, or learning "rates" and dynamic sampling.
        papers_play: what the papers' runs play, which is not in this package.
        papers_options: by the papers' word, such as "steps": the keyword arguments that a printed value stands for.
        rows: recipes for this environment alone.
        with_options: returns the row for arguments of the environment that change sizes and name; None: none do.
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
    models: Mapping[str, ModelSettings] = field(default_factory=dict)
    data: Mapping[str, str] = field(default_factory=dict)
    made: tuple[str, ...] = ()
    scripted: Scripted | None = None
    is_known: bool = True
    token_budget: int = 100_000
    search: Literal["space", "rates"] = "space"
    papers_play: str = ""
    papers_options: Mapping[str, Callable[[Any], dict[str, Any]]] = field(default_factory=dict)
    rows: Sequence[OwnRow] = ()
    with_options: Callable[[EnvSettings, Mapping[str, Any]], EnvSettings] | None = None

    def played_by(self, model: str) -> ModelSettings:
        """Return how a model plays: its own settings, the tiny policy's, or those of any model from a folder."""
        if model == TINY:
            return ModelSettings(self.tiny, self.full, self.quick, self.setup, self.history, False, self.token_budget)
        found = self.models.get(model)
        return found or ModelSettings(self.pretrained, self.full, self.quick, self.pretrained_setup or self.setup)


def limit_of_steps(steps: int) -> dict[str, Any]:
    """Return the keyword argument for a printed number of steps, where the environment has no other limit."""
    return {"max_episode_steps": steps}


def tasks(split: str, count: int, first: int = 0) -> list[dict[str, Any]]:
    """Reset options of `count` tasks of a split; "": the environment has no splits, and draws each by its seed.

    >>> tasks("test", 2)
    [{'split': 'test', 'index': 0}, {'split': 'test', 'index': 1}]
    """
    return [{"split": split, "index": first + i} if split else {} for i in range(count)]
