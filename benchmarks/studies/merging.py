"""`merging`: how many states of Search-QA each state key takes for one.

    python -m benchmarks.run merging

Groups of episodes are played by a scripted player who searches for what is needed in changing words and order, so
that episodes of a question meet the same passages in different ways.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console

import agentgym  # noqa: F401  # registers the environments
from agentgym.rollout import collect
from agentgym.searchqa.keys import documents_key, text_key
from agentgym.trajectory import Reply, StepTable
from baselines.environments.settings import SIDE_BY_SIDE
from benchmarks.console import save_figures, table
from wrappers.canonical import CanonicalStates, Key, relabel_states
from wrappers.similar_states import merge_similar_states

#: Dimensions of `bag_of_words`.
_BUCKETS = 1024
#: Similarity from which on texts are one state, as published.
THRESHOLD = 0.9


@dataclass(frozen=True)
class Merged:
    """What one key does with the states of all groups.

    Attributes:
        key: what it is.
        states: distinct states, ends included, counted group by group.
        met: share of steps taken in a state that another episode of the group was in too, in 0..1: only there can
            step-level credit compare.
    """

    key: str
    states: int
    met: float


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


def bag_of_words(states: Sequence[Hashable]) -> NDArray[np.float64]:
    """Return one vector of word counts per text, shape (n, 1024); needs no model.

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
    for state in states:
        text = str(state)
        near = (each for each in leaders if _similar(each, text, threshold))
        leader = next(near, None)
        if leader is None:
            leaders.append(leader := text)
        named.append(leader)
    return named


def _similar(one: str, other: str, threshold: float) -> bool:
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    return (
        matcher.real_quick_ratio() >= threshold
        and matcher.quick_ratio() >= threshold
        and matcher.ratio() >= threshold
    )  # fmt: skip


def measure_merging(
    make: Callable[[], Any],
    tasks: Sequence[Mapping[str, Any]],
    *,
    group_size: int,
    seed: int,
    embed: Callable[[Sequence[Hashable]], Any] = bag_of_words,
) -> list[Merged]:
    """Play the same episodes once per key, and count.

    Args:
        make: makes bare vector environments with autoreset `DISABLED` and `expert=True`.
        tasks: reset options, one group each.
        group_size: episodes per group.
        seed: of the episodes.
        embed: vectors of texts, see `wrappers.similar_states.merge_similar_states`.
    """

    def played(key: Key) -> StepTable:
        envs = CanonicalStates(make(), key=key)
        return collect(envs, Wanderer(), tasks=tasks, group_size=group_size, seed=seed)

    texts = played(text_key)
    tables = {
        "exact state": played(lambda observation, info: str(info["state_key"])),
        "text of the observation": texts,
        f"texts, difflib at {THRESHOLD}": _within_groups(texts),
        f"texts, cosine at {THRESHOLD}": merge_similar_states(texts, embed, THRESHOLD),
        "set of passages found": played(documents_key),
    }
    return [count(name, table) for name, table in tables.items()]


def _within_groups(table: StepTable) -> StepTable:
    """Merge by difflib; a text is of one question, but for the end and what is said of a wrong command."""
    return relabel_states(table, leaders_by_difflib)


def count(name: str, table: StepTable) -> Merged:
    """Count distinct (group, state) pairs, and steps whose state another episode of the group was in."""
    visits = zip(table.group.tolist(), table.state.tolist(), strict=True)
    episodes: dict[tuple[int, int], set[int]] = {}
    for visit, trajectory in zip(visits, table.trajectory.tolist(), strict=True):
        episodes.setdefault(visit, set()).add(trajectory)
    reached = zip(table.group.tolist(), table.next_state.tolist(), strict=True)
    met = [len(episodes[visit]) > 1 for visit in zip(table.group.tolist(), table.state.tolist(), strict=True)]
    return Merged(name, len(set(reached) | set(episodes)), float(np.mean(met)))


def merging(
    questions: Annotated[int, typer.Option(min=1, help="Number of questions.")] = 64,
    group_size: Annotated[int, typer.Option(min=2, help="Episodes of each.")] = 8,
    source: Annotated[str, typer.Option(help="Whose questions.")] = "two_hop",
    encoder: Annotated[
        str | None,
        typer.Option(help="Name or folder of a sentence-transformers model; without it, counts of words are compared."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the episodes.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Also write the figures to this JSON file.")] = None,
) -> None:
    """Measure how many states of Search-QA each state key merges, on the generated encyclopaedia."""
    from wrappers.similar_states import SentenceEncoder

    def make() -> Any:
        num_envs = min(SIDE_BY_SIDE, questions * group_size)
        return gym.make_vec("AgentRL/SearchQA-v0", num_envs, autoreset_mode="Disabled", expert=True)

    chosen = [{"split": "test", "index": i, "data_source": source} for i in range(questions)]
    embed: Any = SentenceEncoder(encoder) if encoder else bag_of_words
    try:
        found = measure_merging(make, chosen, group_size=group_size, seed=seed, embed=embed)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    exact = found[0].states
    rows = [
        (row.key, f"{row.states:,}", f"{100 * (1 - row.states / exact):.1f} %", f"{100 * row.met:.1f} %")
        for row in found
    ]
    heads = ["state key", "states", "merged of exact", "steps in a shared state"]
    title = f"Search-QA, {source}: {questions} questions x {group_size} episodes"
    Console().print(table(heads, rows, title=title))
    save_figures(found, out)
