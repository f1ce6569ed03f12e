"""What the credit part of the throughput benchmark times: fresh texts, and peers that find what ours find."""

import io

import numpy as np
import pytest

from agentgym.trajectory import StepTable
from benchmarks.throughput.clusters import similar_vectors
from benchmarks.throughput.credit import SizeTimes, measure_sizes
from benchmarks.throughput.credit_peers import dict_gigpo, matched_texts, pairwise_leaders, scanned_returns
from benchmarks.throughput.study import ratios
from benchmarks.throughput.synthetic_rollouts import CHARACTERS, FreshTexts
from benchmarks.throughput.timing import Measurement
from wrappers.credit.gigpo import gigpo
from wrappers.credit.returns import discounted_returns
from wrappers.similar_states import cluster_vectors


def test_every_time_the_texts_are_new_objects_of_full_length():
    texts = FreshTexts(2, 3, 4)
    one, other = texts.columns(), texts.columns()
    for name in ("state", "next_state"):
        assert one[name] == other[name]
        assert not any(a is b for a, b in zip(one[name], other[name], strict=True))
        assert {len(text) for text in one[name]} == {CHARACTERS}


def test_a_next_state_is_the_object_of_the_following_state_or_one_of_its_own():
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


def test_texts_tell_the_same_states_apart_as_the_walk_in_every_group():
    texts = FreshTexts(3, 4, 10)
    table = texts.fresh_table()
    for name in ("group", "trajectory", "t", "reward", "won", "valid", "terminated"):
        np.testing.assert_array_equal(getattr(table, name), getattr(texts.table, name))
    pairs = set(zip(table.group.tolist(), texts.table.state.tolist(), table.state.tolist(), strict=True))
    # One text for one state of one group: neither the state nor the text occurs in two pairs.
    assert len(pairs) == len({(group, state) for group, state, _ in pairs}) == len({text for *_, text in pairs})


def test_the_peers_find_the_same_credit():
    columns = FreshTexts(3, 4, 20).columns()
    table = StepTable.from_arrays(**columns)
    np.testing.assert_allclose(scanned_returns(columns, 0.9), discounted_returns(table, 0.9), atol=1e-12)
    np.testing.assert_allclose(dict_gigpo(columns), gigpo(table), atol=1e-9)
    assert len(set(gigpo(table).round(6).tolist())) > 10


def test_the_peers_find_the_same_clusters():
    vectors, groups = similar_vectors(0, groups=5, states=12, dimensions=384)
    found = cluster_vectors(vectors, groups, threshold=0.9).tolist()
    assert pairwise_leaders(vectors, groups.tolist(), 0.9) == found
    # Four centres a group, some of their states further than .9 from their leader: neither one cluster nor none.
    assert 5 < len(set(found)) < 60


def test_texts_are_matched_with_the_first_leader():
    # Ratio of "red door" and "red doors": 2 * 8 / 17 = 0.94; "blue key" shares too little with either.
    assert matched_texts(["red door", "blue key", "red doors", "blue keys"], 0.9) == [0, 1, 0, 1]
    assert matched_texts(["red door", "red doors"], 0.95) == [0, 1]


def test_every_method_is_measured_at_every_size():
    pytest.importorskip("torch")  # the recipes
    found = measure_sizes(True, [(2, 3, 4), (4, 3, 4)])
    assert [(times.shape, times.rows) for times in found] == [("2 x 3 x 4", 24), ("4 x 3 x 4", 48)]
    for times in found:
        assert set(times.alone) == set(times.whole) >= {"grpo", "gigpo", "rewardflow", "graphgpo"}
        spent = (times.interning, times.interning_apart, *times.alone.values(), *times.whole.values())
        assert all(0 < ms < float("inf") for ms in spent)


def test_ratios_take_texts_where_the_peer_takes_texts():
    def measured(key, value):
        return Measurement(key, key.split("_")[0], key, True, value, "ms")

    sizes = [
        SizeTimes(16, 8, 50, 6400, 5.0, 6.0, {"gigpo": 1.0}, {"gigpo": 8.0}),
        SizeTimes(32, 16, 50, 25600, 20.0, 24.0, {"gigpo": 4.0}, {"gigpo": 32.0}),
    ]
    found = ratios(
        [
            measured("credit_dicts", 400.0), measured("credit_dicts_larger", 6400.0), measured("credit_gigpo", 1.0),
            measured("clusters_leader", 10.0), measured("clusters_pairwise", 50.0),
        ],
        sizes,
    )  # fmt: skip
    assert {ratio.what: ratio.value for ratio in found} == {
        "gigpo from texts / scanning rows, 16 x 8 x 50 steps": 50.0,
        "gigpo from texts / scanning rows, 32 x 16 x 50 steps": 200.0,
        "leaders / cosine by cosine": 5.0,
    }


def test_the_printout_has_a_column_per_size_and_the_cost_of_a_step():
    pytest.importorskip("rich")
    from rich.console import Console

    from benchmarks.machine import describe_machine
    from benchmarks.throughput.study import Throughput, print_throughput

    # 8 ms for 1,600 steps are 5 microseconds a step.
    times = SizeTimes(8, 4, 50, 1600, 4.0, 4.8, {"gigpo": 1.6}, {"gigpo": 8.0})
    console = Console(file=io.StringIO(), width=80)
    print_throughput(Throughput(describe_machine(), True, [], [], [], [times]), console)
    text = console.file.getvalue()
    for words in ("8x4x50", "8 ms", "5.00 µs", "4 ms", "2.50 µs", "4.8 ms", "3.00 µs", "1.6 ms", "1.00 µs"):
        assert words in text
