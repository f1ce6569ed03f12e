from collections import Counter

import pytest

from agentgym.tasks import Draws
from agentgym.virtualhome.generated.families import FAMILIES, HELD_OUT, Choice, Idea
from agentgym.virtualhome.generated.houses import house
from agentgym.virtualhome.goals import Goal


def ideas(family: str, held_out: bool, count: int = 40) -> list[tuple[Choice, Idea]]:
    found = []
    for number in range(count):
        choice = Choice(house("train", number), Draws.seeded(7, number), family, held_out)
        idea = choice.idea()
        if idea is not None:
            found.append((choice, idea))
    return found


def classes(choice: Choice, goal: Goal) -> set[str]:
    """Classes of everything in a goal, deeds included."""
    scene = choice.house.scene
    nodes = {node for node, _ in goal.states} | {node for edge in (*goal.edges, *goal.without) for node in edge[::2]}
    nodes |= {deed.node for deed in goal.deeds if deed.node is not None}
    return {scene.names[scene.index[node]] for node in nodes}


@pytest.mark.parametrize("family", FAMILIES)
def test_no_conjunct_is_true_at_the_start(family: str) -> None:
    found = ideas(family, held_out=False)
    assert found
    for choice, idea in found:
        tests = idea.goal.tests(choice.house.scene)
        assert tests.size
        assert tests.missing(choice.house.scene.cells, 0) == tests.size


@pytest.mark.parametrize("family", FAMILIES)
def test_held_out_pairs_are_held_out(family: str) -> None:
    for choice, idea in ideas(family, held_out=False):
        if family != "read":  # one reads a book, and that on any seat
            assert not classes(choice, idea.goal) & HELD_OUT[family]
    for choice, idea in ideas(family, held_out=True):
        assert classes(choice, idea.goal) & HELD_OUT[family]
    assert bool(ideas(family, held_out=True)) == bool(HELD_OUT[family])


def test_sentences_name_what_counts_and_vary() -> None:
    for family in FAMILIES:
        for choice, idea in ideas(family, held_out=False, count=10):
            names, index = choice.house.lexicon.names, choice.house.scene.index
            nodes = [node for edge in idea.goal.edges for node in edge[::2]] + [node for node, _ in idea.goal.states]
            assert all(node == choice.who or names.of[index[node]] in idea.sentence for node in nodes)
            assert idea.sentence.endswith(".")
    sentences = Counter(idea.sentence for family in FAMILIES for _, idea in ideas(family, held_out=False))
    assert len(sentences) > 250
    assert max(sentences.values()) < 40
