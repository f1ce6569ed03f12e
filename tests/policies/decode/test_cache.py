"""What decoding remembers between calls."""

from __future__ import annotations

import torch

from policies.decode import cache
from policies.decode.cache import LogitsCache


def counting(model):
    """A compute function that records what it was asked for: logits = (first token, weight)."""
    asked = []

    def compute(prompts):
        asked.append(list(prompts))
        return torch.tensor([[float(prompt[0]), model.weight.item()] for prompt in prompts])

    return compute, asked


def test_a_prompt_is_computed_once_while_the_weights_stay():
    model = torch.nn.Linear(1, 1, bias=False)
    compute, asked = counting(model)
    remember = LogitsCache(model)
    first = remember([(1,), (2,), (1,)], compute)
    second = remember([(2,), (3,), (1,)], compute)
    assert first[:, 0].tolist() == [1, 2, 1]
    assert second[:, 0].tolist() == [2, 3, 1]
    assert asked == [[(1,), (2,)], [(3,)]]


def test_every_kind_of_write_into_the_weights_empties_it():
    model = torch.nn.Linear(1, 1, bias=False)
    compute, asked = counting(model)
    remember = LogitsCache(model)
    remember([(1,)], compute)
    for fused in (False, True):
        model.weight.grad = torch.ones_like(model.weight)
        torch.optim.AdamW(model.parameters(), lr=0.5, fused=fused).step()
        assert remember([(1,)], compute)[0, 1] == model.weight.item()
    model.load_state_dict({"weight": torch.full((1, 1), 9.0)})
    assert remember([(1,)], compute)[0, 1] == 9.0
    model.weight.data.fill_(5.0)
    assert remember([(1,)], compute)[0, 1] == 5.0
    assert len(asked) == 5
    remember.clear()
    remember([(1,)], compute)
    assert len(asked) == 6


def test_it_stays_within_its_bound(monkeypatch):
    # Room for 4 rows of 2 numbers.
    monkeypatch.setattr(cache, "_MOST_NUMBERS", 8)
    model = torch.nn.Linear(1, 1, bias=False)
    compute, asked = counting(model)
    remember = LogitsCache(model)
    for start in range(0, 20, 2):
        rows = remember([(start,), (start + 1,), (max(start - 1, 0),)], compute)
        assert rows[:, 0].tolist() == [start, start + 1, max(start - 1, 0)]
        assert len(remember) <= 4
    assert sum(map(len, asked)) == 20


def test_a_full_memory_lets_go_of_the_rows_it_drops(monkeypatch):
    monkeypatch.setattr(cache, "_MOST_NUMBERS", 8)
    model = torch.nn.Linear(1, 1, bias=False)
    compute, _ = counting(model)
    remember = LogitsCache(model)
    remember([(1,), (2,), (3,), (4,)], compute)
    remember([(1,), (5,)], compute)
    assert len(remember) == 2
    assert remember._rows[(1,)].untyped_storage().nbytes() == 2 * 4
