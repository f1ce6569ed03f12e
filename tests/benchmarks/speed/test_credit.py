"""What the credit part of the throughput benchmark times: fresh texts, and peers that find what ours find."""

import gc

import numpy as np
import pytest

from agentgym.trajectory import StepTable
from benchmarks.speed.credit import (
    CHARACTERS,
    FreshTexts,
    dict_gigpo,
    matched_texts,
    measure_sizes,
    pairwise_leaders,
    random_walk_table,
    scanned_returns,
    similar_vectors,
    sweeping_propagation,
)
from wrappers.credit.gigpo import gigpo
from wrappers.credit.returns import discounted_returns
from wrappers.credit.state_graph import StateGraph
from wrappers.similar_states import cluster_vectors


def test_texts_are_new_objects_of_full_length() -> None:
    texts = FreshTexts(2, 3, 4)
    one, other = texts.columns(), texts.columns()
    for name in ("state", "next_state"):
        assert one[name] == other[name]
        assert not any(a is b for a, b in zip(one[name], other[name], strict=True))
        assert {len(text) for text in one[name]} == {CHARACTERS}
    texts = FreshTexts(2, 3, 4)
    assert len(texts) == 24
    shared, apart = texts.columns(), texts.columns(shared=False)
    assert shared == apart
    for row in range(24):
        last = row % 4 == 3
        assert last or shared["next_state"][row] is shared["state"][row + 1]
        assert last or apart["next_state"][row] is not apart["state"][row + 1]
    everything = [*apart["state"], *apart["next_state"]]
    assert len(set(map(id, everything))) == 48
    texts = FreshTexts(3, 4, 10)
    table = StepTable.from_arrays(**texts.columns())
    for name in ("group", "trajectory", "t", "reward", "won", "valid", "terminated"):
        np.testing.assert_array_equal(getattr(table, name), getattr(texts.table, name))
    pairs = set(zip(table.group.tolist(), texts.table.state.tolist(), table.state.tolist(), strict=True))
    # One text for one state of one group: neither the state nor the text occurs in two pairs.
    assert len(pairs) == len({(group, state) for group, state, _ in pairs}) == len({text for *_, text in pairs})
    table = random_walk_table(0, groups=3, size=4, length=10)
    assert len(table) == 120
    assert table.n_groups == 3
    assert table.trajectory_won.tolist() == [True, False] * 6
    # A walk goes on where the last step led.
    rows = table.order
    inside = np.diff(table.trajectory[rows]) == 0
    assert (table.next_state[rows][:-1][inside] == table.state[rows][1:][inside]).all()


def test_peers_find_the_same() -> None:
    columns = FreshTexts(3, 4, 20).columns()
    table = StepTable.from_arrays(**columns)
    np.testing.assert_allclose(scanned_returns(columns, 0.9), discounted_returns(table, 0.9), atol=1e-12)
    np.testing.assert_allclose(dict_gigpo(columns), gigpo(table), atol=1e-9)
    assert len(set(gigpo(table).round(6).tolist())) > 10
    vectors, groups = similar_vectors(0, groups=5, states=12, dimensions=384)
    found = cluster_vectors(vectors, groups, threshold=0.9).tolist()
    assert pairwise_leaders(vectors, groups.tolist(), 0.9) == found
    # Four centres a group, some of their states further than .9 from their leader: neither one cluster nor none.
    assert 5 < len(set(found)) < 60
    # Ratio of "red door" and "red doors": 2 * 8 / 17 = 0.94; "blue key" shares too little with either.
    assert matched_texts(["red door", "blue key", "red doors", "blue keys"], 0.9) == [0, 1, 0, 1]
    assert matched_texts(["red door", "red doors"], 0.95) == [0, 1]
    table = random_walk_table(1, groups=2, size=4, length=20)
    graph = StateGraph.from_table(table)
    hops = graph.hop_distance()
    values = sweeping_propagation(table, gamma=0.5, sweeps=100)
    for group, state, distance in zip(graph.node_group, graph.node_state, hops, strict=True):
        assert values[group][int(state)] == pytest.approx(0.5**distance)


def test_every_method_is_measured_at_every_size(monkeypatch):
    pytest.importorskip("torch")  # the recipes
    monkeypatch.setattr(gc, "collect", lambda: 0)  # among the objects of a test session it takes most of the time
    found = measure_sizes(True, [(2, 3, 4), (4, 3, 4)])
    assert {each.column for each in found} == {"2 x 3 x 4", "4 x 3 x 4"}
    assert {each.what for each in found} >= {"only the table", "grpo", "gigpo", "rewardflow", "graphgpo"}
    value = {each.key: each.value for each in found}
    assert all(0 < each < float("inf") for each in value.values())
    # 24 steps
    assert value["texts_2 x 3 x 4_gigpo_step"] == pytest.approx(value["texts_2 x 3 x 4_gigpo"] * 1e3 / 24)
