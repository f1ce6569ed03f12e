"""One row per environment that the learning benchmark knows: how it is played, and at which sizes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from baselines.config import TrainerConfig
from baselines.recipes import SOKOBAN_PRETRAINED, SOKOBAN_TINY
from benchmarks.encyclopaedia_words import PIECES as SEARCH_PIECES
from benchmarks.encyclopaedia_words import encyclopaedia_words
from benchmarks.household_words import PIECES, household_words
from benchmarks.setup import Setup, Sizes
from wrappers.advice import Adviser


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
        players: who plays in `evaluate` unless it is told.
        tiles: symbols of a board mapped to tiles of the page; None where observations are shown as they are.
    """

    name: str
    id: str
    tiny: TrainerConfig
    pretrained: TrainerConfig
    full: Sizes
    quick: Sizes
    setup: Setup = field(default_factory=Setup)
    pretrained_setup: Setup | None = None
    history: int = 0
    words: Callable[[], Sequence[str]] = tuple
    pieces: Sequence[str] | None = None
    kind_names: Mapping[str, str] = field(default_factory=dict)
    players: Sequence[str] = ("random", "expert")
    tiles: Callable[[], dict[str, str]] | None = None


def _explorer() -> Adviser:
    from agentgym.alfworld.explorer import Explorer

    return Explorer()


def _reader() -> Adviser:
    from agentgym.searchqa.reader import Reader

    return Reader()


#: Players that know only what they are told; they can be cloned in place of the environment's own expert.
ADVISERS: dict[str, Callable[[], Adviser]] = {"explorer": _explorer, "reader": _reader}


def _board_tiles() -> dict[str, str]:
    from agentgym.sokoban.text import DEFAULT

    return {symbol: name for name, symbol in dataclasses.asdict(DEFAULT).items()}


#: Sokoban: about ten minutes on two cores for one seed and four methods.
SOKOBAN = EnvSettings(
    name="sokoban",
    id="AgentRL/Sokoban-v0",
    tiny=SOKOBAN_TINY,
    pretrained=SOKOBAN_PRETRAINED,
    full=Sizes(
        steps=SOKOBAN_TINY.iterations,
        groups=SOKOBAN_TINY.groups,
        group_size=SOKOBAN_TINY.group_size,
        clone_levels=300,
        clone_epochs=6,
        training_levels=8000,
        eval_levels=512,
        validation_levels=128,
        validation_every=25,
    ),
    # For CI: every part of the pipeline, none of the luck.
    quick=Sizes(
        steps=6,
        groups=8,
        group_size=8,
        clone_levels=200,
        clone_epochs=8,
        training_levels=500,
        eval_levels=64,
        validation_levels=32,
        validation_every=2,
    ),
    tiles=_board_tiles,
)

# Few layers, little history and two task types in rooms without a kitchen: what a CPU core can train on in minutes.
# Sampled at a lower temperature than Sokoban's single tokens: a command is up to seven tokens, and one slip spoils it.
ALFWORLD_TINY = dataclasses.replace(
    SOKOBAN_TINY, iterations=100, groups=4, group_size=8, temperature=0.7, validate_every=10
)
ALFWORLD = EnvSettings(
    name="alfworld",
    id="AgentRL/ALFWorld-v0",
    tiny=ALFWORLD_TINY,
    pretrained=SOKOBAN_PRETRAINED,
    full=Sizes(
        steps=ALFWORLD_TINY.iterations,
        groups=ALFWORLD_TINY.groups,
        group_size=ALFWORLD_TINY.group_size,
        clone_levels=1600,
        clone_epochs=5,
        training_levels=4000,
        eval_levels=128,
        validation_levels=64,
        validation_every=10,
    ),
    quick=Sizes(
        steps=2,
        groups=4,
        group_size=4,
        clone_levels=40,
        clone_epochs=2,
        training_levels=100,
        eval_levels=24,
        validation_levels=12,
        validation_every=1,
    ),
    setup=Setup(
        options={
            "data": "generated",
            "task_types": ["pick_and_place_simple", "look_at_obj_in_light"],
            "max_episode_steps": 20,
        },
        validation="valid_unseen",
        test="valid_unseen",
        beside=["valid_seen"],
        kinds="task_type",
        adviser="explorer",
        prompt={"keep_first": True, "shown": "actions", "facts": ["location", "inventory"]},
        policy={"layers": 3, "mlp": 128, "max_new_tokens": 12, "suffix": ""},
    ),
    pretrained_setup=Setup(
        options={"data": "generated"},
        validation="valid_unseen",
        test="valid_unseen",
        beside=["valid_seen"],
        kinds="task_type",
        adviser="explorer",
        prompt={"keep_first": True, "admissible": True, "facts": ["location", "inventory"]},
    ),
    history=8,
    words=household_words,
    pieces=PIECES,
    kind_names={
        "pick_and_place_simple": "Pick",
        "look_at_obj_in_light": "Look",
        "pick_clean_then_place_in_recep": "Clean",
        "pick_heat_then_place_in_recep": "Heat",
        "pick_cool_then_place_in_recep": "Cool",
        "pick_two_obj_and_place": "Pick2",
    },
    players=("random", "explorer", "expert"),
)

# Questions of two facts out of six, and one passage per search: prompts of some 80 tokens, episodes of three turns, few
# enough ways to ask that a CPU core learns to read them in minutes, and enough people that it pays to copy their names
# instead of knowing them by heart.
SEARCHQA_TINY = dataclasses.replace(
    SOKOBAN_TINY, iterations=40, groups=8, group_size=8, temperature=0.7, validate_every=5
)
_TO_PERSON = ("creator", "winner", "spouse", "teacher", "parent")
_FACTS = [
    f"{first}-{then}"
    for first in _TO_PERSON
    for then in ("birthplace", "spouse", "teacher", "parent")
    if first != then or first in ("teacher", "parent")
]

SEARCHQA = EnvSettings(
    name="searchqa",
    id="AgentRL/SearchQA-v0",
    tiny=SEARCHQA_TINY,
    pretrained=SOKOBAN_PRETRAINED,
    full=Sizes(
        steps=SEARCHQA_TINY.iterations,
        groups=SEARCHQA_TINY.groups,
        group_size=SEARCHQA_TINY.group_size,
        clone_levels=5000,
        clone_epochs=2,
        training_levels=1300,
        eval_levels=200,
        validation_levels=100,
        validation_every=5,
    ),
    quick=Sizes(
        steps=2,
        groups=4,
        group_size=4,
        clone_levels=40,
        clone_epochs=2,
        training_levels=100,
        eval_levels=24,
        validation_levels=12,
        validation_every=1,
    ),
    setup=Setup(
        options={"sources": ["two_hop"], "kinds": _FACTS, "top_k": 1, "max_turns": 3},
        kinds="data_source",
        prompt={"keep_first": True, "shown": "actions"},
        policy={"layers": 3, "mlp": 128, "max_new_tokens": 9, "stop": ["</search>", "</answer>"]},
    ),
    pretrained_setup=Setup(
        kinds="data_source",
        prompt={"keep_first": True},
        policy={"max_new_tokens": 64, "stop": ["</search>", "</answer>"]},
    ),
    history=3,
    words=encyclopaedia_words,
    pieces=SEARCH_PIECES,
    kind_names={
        "nq": "NQ",
        "triviaqa": "TriviaQA",
        "popqa": "PopQA",
        "hotpotqa": "HotpotQA",
        "2wikimultihopqa": "2Wiki",
        "musique": "MuSiQue",
        "bamboogle": "Bamboogle",
        "one_hop": "1 hop",
        "two_hop": "2 hops",
        "three_hop": "3 hops",
        "comparison": "Compare",
        "bridge": "Bridge",
    },
    players=("random", "reader", "expert"),
)

SETTINGS: tuple[EnvSettings, ...] = (SOKOBAN, ALFWORLD, SEARCHQA)


def settings_of(env: str) -> EnvSettings:
    """Return the row of an id or a name; an environment without a row is played as Sokoban is.

    >>> settings_of("alfworld").id
    'AgentRL/ALFWorld-v0'
    """
    for row in SETTINGS:
        if env in (row.id, row.name):
            return row
    return dataclasses.replace(SOKOBAN, name=env.rpartition("/")[2], id=env, tiles=None)
