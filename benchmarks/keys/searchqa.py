"""`merging`: how many states of Search-QA each state key takes for one.

Groups of episodes are played by a scripted player who searches for what is needed in changing words and order, so
that episodes of a question meet the same passages in different ways.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import gymnasium as gym
import numpy as np
import typer
from numpy.typing import NDArray

from agentgym.rollout import collect
from agentgym.searchqa.keys import documents_key, text_key
from agentgym.trajectory import Reply, StepTable
from baselines.environments.searchqa import SEARCHQA
from baselines.environments.settings import SIDE_BY_SIDE
from benchmarks.keys.texts import THRESHOLD, bag_of_words, leaders_by_difflib
from benchmarks.processes import Progress
from benchmarks.report.page import Page, Table
from benchmarks.study import Found, Study
from wrappers.canonical import CanonicalStates, Key, relabel_states
from wrappers.similar_states import merge_similar_states


@dataclass(frozen=True)
class MergingConfig:
    """The options of the command."""

    questions: int
    group_size: int
    source: str
    encoder: str
    seed: int


@dataclass(frozen=True)
class Merged:
    """What one key does with the states of all groups.

    Attributes:
        key: what it is.
        states: distinct states, ends included, counted group by group.
        met: share of steps taken in a state that another episode of the group was in too.
    """

    key: str
    states: int
    met: float


@dataclass(frozen=True)
class MergingFound(Found):
    """The whole file."""

    config: MergingConfig
    keys: list[Merged]


class Wanderer:
    """Searches for the title of a missing passage, for the question, or for some of its words; then answers.

    Reads `infos["expert_action"]` and `infos["question"]`. One search in two is the expert's, and so is one answer
    in two; other answers are wrong.
    """

    def act(
        self, observations: Sequence[Any], infos: Mapping[str, NDArray[Any]], rng: np.random.Generator
    ) -> list[Reply]:
        """One command per sub-environment."""
        advice = zip(infos["expert_action"], infos["question"], strict=True)
        return [Reply(self._command(expert, question, rng)) for expert, question in advice]

    @staticmethod
    def _command(expert: str, question: str, rng: np.random.Generator) -> str:
        draw = rng.random(2)
        if draw[0] < 0.5:
            return expert
        if expert.startswith("<answer>"):
            return "<answer>unknown</answer>"
        words = question.split()
        kept = [words[i] for i in np.sort(rng.permutation(len(words))[: max(2, len(words) // 2)]).tolist()]
        return f"<search>{question if draw[1] < 0.5 else ' '.join(kept)}</search>"


def measure_merging(config: MergingConfig, embed: Callable[[Sequence[Hashable]], Any] = bag_of_words) -> list[Merged]:
    """Play the same episodes once per key, and count; `embed` is as of `wrappers.similar_states`."""
    num_envs = min(SIDE_BY_SIDE, config.questions * config.group_size)
    tasks = [{"split": "test", "index": i, "data_source": config.source} for i in range(config.questions)]

    def played(key: Key) -> StepTable:
        envs = CanonicalStates(gym.make_vec(SEARCHQA.id, num_envs, autoreset_mode="Disabled", expert=True), key=key)
        return collect(envs, Wanderer(), tasks=tasks, group_size=config.group_size, seed=config.seed)

    texts = played(text_key)
    tables = {
        "exact state": played(lambda observation, info: str(info["state_key"])),
        "text of the observation": texts,
        # A text is of one question, but for the end and what is said of a wrong command.
        f"texts, difflib at {THRESHOLD}": relabel_states(texts, leaders_by_difflib),
        f"texts, cosine at {THRESHOLD}": merge_similar_states(texts, embed, THRESHOLD),
        "set of passages found": played(documents_key),
    }
    return [count(name, table) for name, table in tables.items()]


def count(name: str, table: StepTable) -> Merged:
    """Count distinct (group, state) pairs, and steps whose state another episode of the group was in."""
    visits = list(zip(table.group.tolist(), table.state.tolist(), strict=True))
    episodes: dict[tuple[int, int], set[int]] = {}
    for visit, trajectory in zip(visits, table.trajectory.tolist(), strict=True):
        episodes.setdefault(visit, set()).add(trajectory)
    reached = zip(table.group.tolist(), table.next_state.tolist(), strict=True)
    met = [len(episodes[visit]) > 1 for visit in visits]
    return Merged(name, len(set(reached) | set(episodes)), float(np.mean(met)))


def configure(
    quick: Annotated[bool, typer.Option("--quick", help="6 questions, four episodes of each.")] = False,
    questions: Annotated[int | None, typer.Option(min=1, help="Number of questions. Default: 64.")] = None,
    group_size: Annotated[int | None, typer.Option(min=2, help="Episodes of each. Default: 8.")] = None,
    source: Annotated[str, typer.Option(help="Whose questions.")] = "two_hop",
    encoder: Annotated[
        str | None,
        typer.Option(help="Name or folder of a sentence-transformers model; without it, counts of words are compared."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the episodes.")] = 0,
) -> MergingConfig:
    """Measure how many states of Search-QA each state key merges, on the generated encyclopaedia."""
    return MergingConfig(
        questions or (6 if quick else 64), group_size or (4 if quick else 8), source, encoder or "", seed
    )  # fmt: skip


def run(config: MergingConfig, part: str, context: Any, progress: Progress) -> list[Merged]:
    """Measure all keys."""
    from wrappers.similar_states import SentenceEncoder

    embed: Any = SentenceEncoder(config.encoder) if config.encoder else bag_of_words
    try:
        return measure_merging(config, embed)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def page(found: MergingFound) -> Page:
    """Return one table: a row per key."""
    config, exact = found.config, found.keys[0].states
    rows = [
        [row.key, f"{row.states:,}", f"{100 * (1 - row.states / exact):.1f} %", f"{100 * row.met:.1f} %"]
        for row in found.keys
    ]
    heads = ["state key", "states", "merged of exact", "steps in a shared state"]
    title = f"Search-QA, {config.source}: {config.questions} questions x {config.group_size} episodes"
    return Page(
        "How many states do state keys merge?", "The same episodes under every key.", [Table(title, heads, rows)]
    )


STUDY = Study(
    name="merging", file="merging.json", version=1, part="source", record=list[Merged], results=MergingFound,
    configure=configure, parts=lambda config: [config.source], run=run, page=page,
    summary=lambda config, found, context: {"keys": found[0]},
)  # fmt: skip
