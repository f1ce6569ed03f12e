"""`merging`: how many states of Search-QA each state key takes for one.

A scripted player searches in changing words and order, so that episodes of a question meet the same passages in
different ways.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
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
from benchmarks.processes import Progress
from benchmarks.report.page import Page, Table
from benchmarks.study import Found, Study
from wrappers.canonical import CanonicalStates, Key, relabel_states
from wrappers.similar_states import merge_similar_states

#: Dimensions of `bag_of_words`.
_BUCKETS = 1024
#: Similarity from which on texts are one state, as published.
THRESHOLD = 0.9


def bag_of_words(states: Sequence[Hashable]) -> NDArray[np.float64]:
    """Return one vector of word counts per text, float64 (n, 1024); needs no model.

    >>> vectors = bag_of_words(["Ada wrote notes.", "notes Ada wrote", "boats"])
    >>> bool((vectors[0] == vectors[1]).all()), float(vectors[0] @ vectors[2])
    (True, 0.0)
    """
    vectors = np.zeros((len(states), _BUCKETS))
    for row, state in zip(vectors, states, strict=True):
        for word in re.findall(r"\w+", str(state).lower()) or ["nothing"]:
            row[zlib.crc32(word.encode()) % _BUCKETS] += 1
    return vectors


def leaders_by_difflib(states: Sequence[Hashable], threshold: float = THRESHOLD) -> list[Hashable]:
    """Return for each text the first earlier one that is as similar by difflib's ratio, as the published code does.

    >>> leaders_by_difflib(["a red door", "a red doors", "a pit"])
    ['a red door', 'a red door', 'a pit']
    """
    leaders: list[str] = []
    named: list[Hashable] = []
    for text in map(str, states):
        leader = next((each for each in leaders if _similar(each, text, threshold)), None)
        if leader is None:
            leaders.append(leader := text)
        named.append(leader)
    return named


def _similar(one: str, other: str, threshold: float) -> bool:
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    return all(ratio() >= threshold for ratio in (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio))


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
    """A key, its distinct states (group by group, with ends), and the share of steps in a state that episodes share."""

    key: str
    states: int
    met: float


@dataclass(frozen=True)
class MergingFound(Found):
    """The whole file."""

    config: MergingConfig
    keys: list[Merged]


class Wanderer:
    """Plays the expert's search or answer half of the time, else searches for the question or some of its words."""

    def act(
        self, observations: Sequence[Any], infos: Mapping[str, NDArray[Any]], rng: np.random.Generator
    ) -> list[Reply]:
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
    groups = table.group.tolist()
    visits, reached = (list(zip(groups, each.tolist(), strict=True)) for each in (table.state, table.next_state))
    episodes: dict[tuple[int, int], set[int]] = {}
    for visit, trajectory in zip(visits, table.trajectory.tolist(), strict=True):
        episodes.setdefault(visit, set()).add(trajectory)
    return Merged(name, len({*reached, *visits}), float(np.mean([len(episodes[visit]) > 1 for visit in visits])))


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


def _run(config: MergingConfig, part: str, context: Any, progress: Progress) -> list[Merged]:
    from wrappers.similar_states import SentenceEncoder

    embed: Any = SentenceEncoder(config.encoder) if config.encoder else bag_of_words
    try:
        return measure_merging(config, embed)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _page(found: MergingFound) -> Page:
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
    configure=configure, parts=lambda config: [config.source], run=_run, page=_page,
    summary=lambda config, found, context: {"keys": found[0]},
)  # fmt: skip
