"""What the credit part of the throughput benchmark times: fresh texts, at every size."""

import gc

import numpy as np
import pytest

from agentgym.trajectory import StepTable
from benchmarks.speed.credit import CHARACTERS, FreshTexts, measure_sizes, random_walk_table


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
