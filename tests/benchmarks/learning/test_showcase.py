"""State graphs of the report: whose advantages they show."""

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from benchmarks.learning import showcase
from benchmarks.learning.results import load

from benchmarks.training.showcase import trained_graph
from policies.huggingface import HuggingFacePolicy


def test_a_trained_graph_shows_the_advantages_that_it_is_given(finished_run):
    config = load(finished_run / "results.json").config
    policy = HuggingFacePolicy.from_pretrained(finished_run / "clone-seed0" / "model", device="cpu")
    graph = trained_graph(config, policy, lambda table: np.full(len(table), 7.0), "ppo", 0, config.clone_tasks)
    assert {edge.advantage for edge in graph.edges} == {7.0}
    assert (graph.method, graph.stage) == ("ppo", "trained")


@pytest.mark.parametrize(("training_tasks", "indices"), [(3, [5, 6, 7]), (1000, list(range(5, 37)))])
def test_a_clones_group_is_looked_for_among_the_training_tasks_alone(monkeypatch, training_tasks, indices):
    played = []

    def play(config, policy, chosen, seed):
        played.extend(task["index"] for task in chosen)
        return None, None

    monkeypatch.setattr(showcase, "_play", play)
    monkeypatch.setattr(showcase, "pick_group", lambda table: 2)
    config = SimpleNamespace(
        clone_tasks=5, training_tasks=training_tasks, methods=[], setup=SimpleNamespace(train="train")
    )
    assert showcase.clone_graphs(config, None, 0) == (7, [])
    assert played == indices
